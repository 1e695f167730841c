//! A pass of which every value is followed: what its cells stand for, by the axes reader, and what they feel
//! of an input, by the reach reader.

use super::{Guilty, ProofCase, Stream};
use crate::{Error, Result};
use regard_graph::axes::{Declared, Standing, axes};
use regard_graph::{Axes, Cell, Grain, Integers, Label, Node, Origin, Query, Reach, Sizes, Var, reach};

/// A case whose axes are known.
pub(crate) struct Followed<'a> {
    pub case: &'a ProofCase,
    pub axes: Axes,
}

/// What every value can feel of one input.
pub(crate) struct Felt {
    /// What each cell of the input stands for: example and position.
    sources: Vec<(usize, usize)>,
    /// The results of all nodes, in the order of running.
    pub values: Vec<Var>,
    pub reach: Reach,
}

impl Felt {
    /// The cells that a value feels, and what they stand for.
    pub fn by(&self, to: Cell) -> Result<impl Iterator<Item = (Cell, (usize, usize))> + '_> {
        Ok(self.reach.row(to)?.map(|cell| (cell, self.sources[cell.index()])))
    }

    /// Whether a value can be changed at all.
    pub fn reaches(&self, var: Var) -> Result<bool> {
        for cell in self.reach.cells(var)? {
            if self.reach.row(cell)?.next().is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl<'a> Followed<'a> {
    /// Streams have examples and positions in front, and so do their masks.
    pub fn new(case: &'a ProofCase) -> Result<Self> {
        let g = &case.graph;
        let mut declared: Vec<Declared> = Vec::new();
        for stream in &case.streams {
            let Stream { input, length, mask, real } = stream;
            if real.len() != case.batch * length {
                return Err(Error::invalid(
                    format!("{} positions of `{input}` are said to be real or not", real.len()),
                    format!("say it of {} times {length}", case.batch),
                ));
            }
            for name in [Some(input), mask.as_ref()].into_iter().flatten() {
                let var = case.input(name)?;
                let dims = g.shape(var).bound();
                if dims.len() < 2 || dims[..2] != [case.batch, *length] {
                    return Err(Error::invalid(
                        format!("`{name}` is {dims}, and the stream has {} times {length}", case.batch),
                        "give examples and positions as its first two axes have them",
                    ));
                }
                let front = [Some(Label::Batch), Some(positions(stream))];
                let labels = front.into_iter().chain(std::iter::repeat(None)).take(dims.len()).collect();
                declared.push((var, labels));
            }
        }
        if case.streams.is_empty() {
            for name in case.contents() {
                let var = case.input(&name)?;
                let rest = vec![None; g.shape(var).len() - 1];
                declared.push((var, [Some(Label::Batch)].into_iter().chain(rest).collect()));
            }
        }
        let axes = axes(g, &declared, &Sizes::none(), &case.integers(true)?)?;
        Ok(Followed { case, axes })
    }

    /// What each value can feel of one input, with masks known or open.
    pub fn felt(&self, input: &str, masked: bool) -> Result<Felt> {
        let g = &self.case.graph;
        let from = self.case.input(input)?;
        let values: Vec<Var> = g.nodes().iter().flat_map(|node| node.outputs.iter().copied()).collect();
        let all = values.iter().copied().chain([from]);
        let query = Query {
            from: vec![from],
            to: values.clone(),
            integers: self.case.integers(masked)?,
            grain: Grain::Position,
            apart: all.filter(|&var| self.axes.last_is_labelled(var)).collect(),
            ..Query::default()
        };
        let reach = reach(g, &query)?;
        let own = self.case.streams.iter().find(|stream| stream.input == input).map(positions);
        let mut sources = Vec::new();
        for cell in reach.cells(from)? {
            let at = reach.coordinates(cell)?;
            let one = |label: &Label| self.axes.standing_for(from, label, &at).first().copied().unwrap_or(0);
            sources.push((one(&Label::Batch), own.as_ref().map_or(0, one)));
        }
        Ok(Felt { sources, values, reach })
    }

    /// The examples that a cell stands for.
    pub fn examples(&self, var: Var, at: &[usize]) -> Vec<usize> {
        self.axes.standing_for(var, &Label::Batch, at)
    }

    /// The positions of a stream that a cell stands for.
    pub fn places(&self, var: Var, stream: &Stream, at: &[usize]) -> Vec<usize> {
        self.axes.standing_for(var, &positions(stream), at)
    }

    /// Whether a value lies along a stream.
    pub fn along(&self, var: Var, stream: &Stream) -> Standing {
        self.axes.standing(var, &positions(stream))
    }

    /// The node of a result.
    pub fn node(&self, var: Var) -> Option<&Node> {
        match self.case.graph.value(var).origin {
            Origin::Node { node, .. } => self.case.graph.nodes().get(node),
            _ => None,
        }
    }

    /// The values that a value is made from, and itself.
    pub fn ancestors(&self, var: Var) -> Vec<bool> {
        let g = &self.case.graph;
        let mut found = vec![false; g.values().len()];
        found[var.index()] = true;
        for node in g.nodes().iter().rev() {
            if node.outputs.iter().any(|output| found[output.index()]) {
                node.inputs.iter().for_each(|input| found[input.index()] = true);
            }
        }
        found
    }
}

/// What stands along the positions of a stream.
pub(crate) fn positions(stream: &Stream) -> Label {
    Label::Positions(stream.input.as_str().into())
}

impl ProofCase {
    /// The stream with this input.
    pub(crate) fn stream(&self, input: &str) -> Result<&Stream> {
        let known = self.streams.iter().map(|stream| stream.input.as_str());
        let found = self.streams.iter().find(|stream| stream.input == input);
        Ok(found.ok_or_else(|| regard_graph::Error::unknown("stream", input, known))?)
    }

    fn input(&self, name: &str) -> Result<Var> {
        let g = &self.graph;
        let found = g.inputs().find(|(known, _)| *known == name).map(|(_, var)| var);
        let names = g.inputs().map(|(name, _)| name);
        Ok(found.ok_or_else(|| regard_graph::Error::unknown("input", name, names))?)
    }

    /// The inputs with what a model is about: its streams, or whatever floats it is fed, the batch in front.
    /// Masks and positions are not among them: what they can change is known only from what they say.
    pub(super) fn contents(&self) -> Vec<String> {
        if !self.streams.is_empty() {
            return self.streams.iter().map(|stream| stream.input.clone()).collect();
        }
        let g = &self.graph;
        let floats = g.inputs().filter(|(_, var)| {
            g.dtype(*var).is_float() && g.shape(*var).first().is_some_and(|dim| dim.bound() == self.batch)
        });
        floats.map(|(name, _)| name.to_string()).collect()
    }

    /// What is known of integers; of masks only if they are to be.
    fn integers(&self, masked: bool) -> Result<Integers> {
        let mut integers = Integers::none();
        for (name, elements) in &self.known {
            integers.set(self.input(name)?, elements.as_slice());
        }
        for stream in self.streams.iter().filter(|_| masked) {
            if let Some(mask) = &stream.mask {
                let real: Vec<i64> = stream.real.iter().map(|&real| i64::from(real)).collect();
                integers.set(self.input(mask)?, real);
            }
        }
        Ok(integers)
    }
}

impl Guilty {
    /// What it does, in words.
    pub(super) fn describe(&self, what: &str) -> String {
        let listed = |list: &[usize]| list.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
        format!(
            "{what} [{}] of `{}` can change its result at [{}]",
            listed(&self.from),
            self.input,
            listed(&self.to)
        )
    }
}
