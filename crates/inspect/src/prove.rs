//! Properties by proof: the reach reader says which elements of an input can change which elements of every value, and a
//! property holds if none that it forbids is among them. Of a property that does not hold, the guilty node is the first in
//! the order of running whose result breaks it: everything that it reads still kept it.

use crate::{Error, Result};
use regard_graph::{Grain, Graph, Integers, Query, Reach, Var, Verdict, reach};

/// A sequence that a recorded pass reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// The input with its ids, `[B T]`.
    pub input: String,
    /// T. No other axis that follows the batch may be as long, or it would be taken for positions of this stream.
    pub length: usize,
    /// The boolean input that says which positions are real, `[B T]`, if the model takes one.
    pub mask: Option<String>,
    /// Which positions are real, row-major: what [`Promise::Padding`] is proved for.
    pub real: Vec<bool>,
}

impl Stream {
    /// A stream without padding and without a mask.
    pub fn whole(input: &str, batch: usize, length: usize) -> Self {
        Stream { input: input.into(), length, mask: None, real: vec![true; batch * length] }
    }
}

/// A recorded pass, and what is to be proved of it.
pub struct Case {
    /// The pass, at fixed sizes.
    pub graph: Graph,
    /// B.
    pub batch: usize,
    /// What it reads.
    pub streams: Vec<Stream>,
    /// The elements of other integer inputs, such as positions.
    pub known: Vec<(String, Vec<i64>)>,
}

/// What a family promises. Streams are named by their inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Promise {
    /// No position of a stream depends on a later one of the same stream.
    Causal(String),
    /// What stands at padding reaches no real position, nor any other stream, nor what is said about a whole example.
    Padding(String),
    /// Every position of `to` can depend on every real position of `from` in the same example.
    Sees {
        /// The stream that is seen.
        from: String,
        /// The stream that sees.
        to: String,
        /// The tap or output by which that is judged.
        by: String,
    },
    /// No example depends on another.
    Batch,
}

/// The node with which a broken property begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guilty {
    /// Its dotted name.
    pub node: String,
    /// Its op.
    pub op: String,
    /// The input that can be felt where it should not.
    pub input: String,
    /// The coordinates there.
    pub from: Vec<usize>,
    /// The coordinates of the result that feels it.
    pub to: Vec<usize>,
}

/// What came of one promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The promise.
    pub promise: Promise,
    /// Whether it is kept.
    pub holds: bool,
    /// The same in a sentence.
    pub sentence: String,
    /// Where it is broken first.
    pub guilty: Option<Guilty>,
}

/// Proves promises, or finds who breaks them.
pub fn prove(case: &Case, promises: &[Promise]) -> Result<Vec<Finding>> {
    promises.iter().map(|promise| case.judge(promise)).collect()
}

/// How a value lies over the batch and a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// One cell for each position of the stream with this number, or several.
    Positions(usize),
    /// As before, batch and positions on one axis.
    Merged(usize),
    /// Something for each example as a whole.
    Examples,
    /// Batch and positions are not on its axes.
    Unknown,
}

impl Case {
    /// The stream with this input.
    pub(crate) fn stream(&self, input: &str) -> Result<(usize, &Stream)> {
        let known = self.streams.iter().map(|stream| stream.input.as_str());
        let found = self.streams.iter().position(|stream| stream.input == input);
        let at = found.ok_or_else(|| regard_graph::Error::unknown("stream", input, known))?;
        Ok((at, &self.streams[at]))
    }

    /// How a value lies; cells of floats have no coordinate for their features.
    pub(crate) fn lie(&self, var: Var) -> Lie {
        let dims = self.graph.shape(var).bound();
        let axes = dims.len() - usize::from(self.graph.dtype(var).is_float() && !dims.is_empty());
        let along = |size: usize| self.streams.iter().position(|stream| stream.length == size);
        let merged = |size: usize| self.streams.iter().position(|s| s.length * self.batch == size);
        match axes {
            0 => Lie::Unknown,
            // One float for each position, as norms keep: the reader takes the last axis as a whole.
            1 if dims.len() == 2 && along(dims[1]).is_some() => Lie::Unknown,
            1 if dims[0] == self.batch => Lie::Examples,
            1 => merged(dims[0]).map_or(Lie::Unknown, Lie::Merged),
            _ if dims[0] == self.batch => along(dims[1]).map_or(Lie::Examples, Lie::Positions),
            _ => merged(dims[0]).map_or(Lie::Unknown, Lie::Merged),
        }
    }

    /// What each value can depend on of one input, with masks known or open.
    pub(crate) fn reach(&self, input: &str, masked: bool) -> Result<(Var, Vec<Var>, Reach)> {
        let g = &self.graph;
        let names = g.inputs().map(|(name, _)| name);
        let missing = || regard_graph::Error::unknown("input", input, names);
        let from = g.inputs().find(|(name, _)| *name == input).ok_or_else(missing)?.1;
        let mut integers = Integers::none();
        let mut know = |name: &str, elements: &[i64]| -> Result<()> {
            let var = g.inputs().find(|(known, _)| *known == name).map(|(_, var)| var);
            let var =
                var.ok_or_else(|| Error::invalid(format!("no input is called `{name}`"), "record it"))?;
            integers.set(var, elements);
            Ok(())
        };
        for (name, elements) in &self.known {
            know(name, elements)?;
        }
        for stream in self.streams.iter().filter(|_| masked) {
            if let Some(mask) = &stream.mask {
                know(mask, &stream.real.iter().map(|&real| i64::from(real)).collect::<Vec<_>>())?;
            }
        }
        let to: Vec<Var> = g.nodes().iter().flat_map(|node| node.outputs.iter().copied()).collect();
        let to: Vec<Var> = to.into_iter().filter(|&var| self.lie(var) != Lie::Unknown).collect();
        let query = Query {
            from: vec![from],
            to: to.clone(),
            integers,
            grain: Grain::Position,
            ..Default::default()
        };
        Ok((from, to, reach(g, &query)?))
    }

    /// The inputs with what a model is about: its streams, or whatever floats it is fed. Masks and positions are not among
    /// them: what they can change is known only from what they say.
    fn contents(&self) -> Vec<String> {
        if !self.streams.is_empty() {
            return self.streams.iter().map(|stream| stream.input.clone()).collect();
        }
        let floats = self.graph.inputs().filter(|(_, var)| self.graph.dtype(*var).is_float());
        floats.map(|(name, _)| name.to_string()).collect()
    }

    /// The coordinates of a cell as example and position.
    pub(crate) fn place(&self, lie: Lie, at: &[usize]) -> Option<(usize, Option<(usize, usize)>)> {
        match lie {
            Lie::Unknown => None,
            Lie::Examples => Some((at[0], None)),
            Lie::Positions(stream) => Some((at[0], Some((stream, at[1])))),
            Lie::Merged(stream) => {
                let length = self.streams[stream].length;
                Some((at[0] / length, Some((stream, at[0] % length))))
            }
        }
    }

    fn judge(&self, promise: &Promise) -> Result<Finding> {
        match promise {
            Promise::Causal(input) => {
                let (own, stream) = self.stream(input)?;
                let guilty = self.first(input, false, |_, from, _, to| match to {
                    Some((stream, to)) => stream != own || from <= to,
                    None => true,
                })?;
                let (length, ahead) = (stream.length, guilty.as_ref().map(Guilty::ahead));
                let sentence = match (&guilty, ahead) {
                    (Some(guilty), Some(ahead)) => format!(
                        "not causal: `{}` looks {ahead} ahead ({})",
                        guilty.node,
                        guilty.said("position")
                    ),
                    _ => format!(
                        "causal: no position of `{input}` can be felt before it, at {length} positions"
                    ),
                };
                Ok(finding(promise, sentence, guilty))
            }
            Promise::Padding(input) => {
                let (own, stream) = self.stream(input)?;
                let real = |b: usize, t: usize| stream.real[b * stream.length + t];
                let padded = stream.real.iter().filter(|real| !**real).count();
                if padded == 0 {
                    return Err(Error::invalid(
                        format!("the stream `{input}` has no padding"),
                        "mark some of its positions as not real",
                    ));
                }
                let guilty = self.first(input, true, |b, from, there, to| {
                    let reaches_real = match to {
                        Some((stream, to)) => stream != own || real(there, to),
                        None => true,
                    };
                    real(b, from) || b != there || !reaches_real
                })?;
                let sentence = match &guilty {
                    Some(guilty) => {
                        format!("padding is felt: in `{}` ({})", guilty.node, guilty.said("padding"))
                    }
                    None => format!(
                        "padding-safe: what stands at {padded} padded positions of `{input}` reaches no real one"
                    ),
                };
                Ok(finding(promise, sentence, guilty))
            }
            Promise::Batch => {
                for input in self.contents() {
                    let guilty = self.first(&input, false, |b, _, there, _| b == there)?;
                    if let Some(guilty) = guilty {
                        let (node, said) = (guilty.node.clone(), guilty.said("example"));
                        let sentence = format!("examples meet: in `{node}` ({said})");
                        return Ok(finding(promise, sentence, Some(guilty)));
                    }
                }
                let sentence =
                    format!("batch-independent: none of {} examples can change another", self.batch);
                Ok(finding(promise, sentence, None))
            }
            Promise::Sees { from, to, by } => self.judge_sight(promise, from, to, by),
        }
    }

    fn judge_sight(&self, promise: &Promise, from: &str, to: &str, by: &str) -> Result<Finding> {
        let (source, _, reach) = self.reach(from, true)?;
        let (_, seen) = self.stream(from)?;
        let (own, seer) = self.stream(to)?;
        let var = self.graph.find(by)?;
        if self.lie(var) != Lie::Positions(own) {
            return Err(Error::invalid(
                format!("`{by}` does not lie along the stream `{to}`"),
                "judge by a tap that does",
            ));
        }
        let mut blind = None;
        for b in 0..self.batch {
            for t in (0..seer.length).filter(|t| seer.real[b * seer.length + t]) {
                for s in (0..seen.length).filter(|s| seen.real[b * seen.length + s]) {
                    if blind.is_none()
                        && !reach.can(reach.cell(source, &[b, s])?, reach.cell(var, &[b, t])?)?
                    {
                        blind = Some((b, t, s));
                    }
                }
            }
        }
        let sentence = match blind {
            Some((b, t, s)) => {
                format!("blind: `{by}` at [{b} {t}] cannot feel `{from}` at [{b} {s}], though both are real")
            }
            None if from == to => {
                format!("sees both ways: every real position can feel every other, by `{by}`")
            }
            None => format!("sees its source: every position of `{to}` can feel every real one of `{from}`"),
        };
        Ok(Finding { promise: promise.clone(), holds: blind.is_none(), sentence, guilty: None })
    }

    /// The first node with a result that depends on what is not allowed. `allowed` is told the example and the position
    /// of the input, then of the result, where it has one.
    fn first(
        &self,
        input: &str,
        masked: bool,
        allowed: impl Fn(usize, usize, usize, Option<(usize, usize)>) -> bool,
    ) -> Result<Option<Guilty>> {
        let (from, to, reach) = self.reach(input, masked)?;
        for var in to {
            let lie = self.lie(var);
            let verdict = reach.all(from, var, |here, there| match self.place(lie, there) {
                Some((example, position)) => {
                    allowed(here[0], here.get(1).copied().unwrap_or(0), example, position)
                }
                None => true,
            })?;
            if let Verdict::Fails { from: at, to: there, .. } = verdict {
                let regard_graph::Origin::Node { node, .. } = self.graph.value(var).origin else { continue };
                let node = &self.graph.nodes()[node];
                let (node, op) = (node.name.clone(), node.op.name().to_string());
                return Ok(Some(Guilty { node, op, input: input.into(), from: at, to: there }));
            }
        }
        Ok(None)
    }
}

fn finding(promise: &Promise, sentence: String, guilty: Option<Guilty>) -> Finding {
    Finding { promise: promise.clone(), holds: guilty.is_none(), sentence, guilty }
}

impl Guilty {
    /// How far ahead it looks, for positions on the second axis of both.
    fn ahead(&self) -> usize {
        let at = |list: &[usize]| list.get(1).copied().unwrap_or(0);
        at(&self.from).saturating_sub(at(&self.to))
    }

    fn said(&self, what: &str) -> String {
        let listed = |list: &[usize]| list.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
        format!(
            "{what} [{}] of `{}` can change its result at [{}]",
            listed(&self.from),
            self.input,
            listed(&self.to)
        )
    }
}
