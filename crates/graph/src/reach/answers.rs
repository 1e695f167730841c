//! Questions to a finished [`Reach`]: one cell, one row, and the properties that every model claims.

use super::Reach;
use super::relation::{Bits, Grid};
use crate::{Error, Result, Var};
use std::fmt;

/// One cell of a value: an element, or a position with all its features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cell {
    var: Var,
    index: usize,
}

impl Cell {
    /// The value it belongs to.
    pub fn var(self) -> Var {
        self.var
    }

    /// Its place in the value, row-major over the axes that tell cells apart.
    pub fn index(self) -> usize {
        self.index
    }
}

/// Whether a property holds; if not, the first pair of cells that breaks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// For every pair of cells.
    Holds,
    /// Not for this one.
    Fails {
        /// The coordinates of the source cell.
        from: Vec<usize>,
        /// The coordinates of the cell that it can change.
        to: Vec<usize>,
        /// The same in words.
        text: String,
    },
}

impl Verdict {
    /// True if the property holds.
    pub fn holds(&self) -> bool {
        *self == Verdict::Holds
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Holds => f.write_str("holds"),
            Verdict::Fails { text, .. } => f.write_str(text),
        }
    }
}

impl Reach {
    /// The cell at these coordinates. The coordinate of a collapsed last axis may be left out.
    pub fn cell(&self, var: Var, coordinates: &[usize]) -> Result<Cell> {
        let (grid, title) = self.value(var)?;
        let fits = (grid.axes..=grid.dims.len()).contains(&coordinates.len())
            && coordinates.iter().zip(grid.dims.iter()).all(|(at, size)| at < size);
        if !fits {
            return Err(Error::Shape {
                op: "reach".into(),
                operand: format!("the cell of {title}"),
                got: bracketed(coordinates),
                expected: format!("coordinates within {}", grid.dims),
                origin: String::new(),
            });
        }
        let axes = coordinates.iter().zip(grid.dims.iter()).take(grid.axes);
        Ok(Cell { var, index: axes.fold(0, |index, (at, size)| index * size + at) })
    }

    /// All cells of a value, in order.
    pub fn cells(&self, var: Var) -> Result<impl Iterator<Item = Cell> + use<>> {
        let count = self.value(var)?.0.cells();
        Ok((0..count).map(move |index| Cell { var, index }))
    }

    /// The coordinates of a cell, without a collapsed last axis.
    pub fn coordinates(&self, cell: Cell) -> Result<Vec<usize>> {
        let (grid, _) = self.within(cell)?;
        Ok(grid.coordinates(cell.index)[..grid.axes].to_vec())
    }

    /// Whether changing the one cell can change the other.
    pub fn can(&self, from: Cell, to: Cell) -> Result<bool> {
        let source = self.source(from.var)? + from.index;
        let set = self.set(to.var)?;
        self.within(from)?;
        self.within(to)?;
        Ok(set.is_some_and(|set| set.contains(to.index, source)))
    }

    /// The source cells that can change this one, in order.
    pub fn row(&self, to: Cell) -> Result<impl Iterator<Item = Cell> + '_> {
        let set = self.set(to.var)?;
        self.within(to)?;
        let mut starts: Vec<(usize, Var)> = self.sources.iter().map(|(&var, &first)| (first, var)).collect();
        starts.sort();
        let members = set.into_iter().flat_map(move |set| set.members(to.index));
        Ok(members.map(move |source| {
            let (first, var) = starts[starts.partition_point(|(first, _)| *first <= source) - 1];
            Cell { var, index: source - first }
        }))
    }

    /// Whether every dependence of `to` on `from` is allowed, given the coordinates of both cells.
    pub fn all(&self, from: Var, to: Var, allowed: impl Fn(&[usize], &[usize]) -> bool) -> Result<Verdict> {
        let first = self.source(from)?;
        let (set, (from_grid, from_title), (to_grid, to_title)) =
            (self.set(to)?, self.value(from)?, self.value(to)?);
        let Some(set) = set else { return Ok(Verdict::Holds) };
        let sources = first..first + from_grid.cells();
        for index in 0..to_grid.cells() {
            let there = to_grid.coordinates(index);
            let there = &there[..to_grid.axes];
            for source in set.members(index).filter(|source| sources.contains(source)) {
                let here = from_grid.coordinates(source - first);
                let here = &here[..from_grid.axes];
                if !allowed(here, there) {
                    let (at, changed) = (bracketed(here), bracketed(there));
                    let text = format!("{from_title} at {at} can change {to_title} at {changed}");
                    return Ok(Verdict::Fails { from: here.to_vec(), to: there.to_vec(), text });
                }
            }
        }
        Ok(Verdict::Holds)
    }

    /// Whether no cell depends on what comes later: along one axis of each value.
    pub fn is_causal(&self, from: Var, axis_from: usize, to: Var, axis_to: usize) -> Result<Verdict> {
        self.check_axes([(from, axis_from), (to, axis_to)])?;
        self.all(from, to, |from, to| from[axis_from] <= to[axis_to])
    }

    /// Whether each cell depends only on what has the same coordinate along one axis of each value: along
    /// the batch, examples do not see each other.
    pub fn depends_only_on_same(
        &self,
        from: Var,
        axis_from: usize,
        to: Var,
        axis_to: usize,
    ) -> Result<Verdict> {
        self.check_axes([(from, axis_from), (to, axis_to)])?;
        self.all(from, to, |from, to| from[axis_from] == to[axis_to])
    }

    fn check_axes(&self, axes: [(Var, usize); 2]) -> Result<()> {
        for (var, axis) in axes {
            let (grid, title) = self.value(var)?;
            if axis >= grid.dims.len() {
                return Err(Error::invalid(
                    "reach",
                    format!("{title} has no axis {axis}"),
                    format!("its shape is {}", grid.dims),
                ));
            }
            if axis >= grid.axes {
                return Err(Error::invalid(
                    "reach",
                    format!("axis {axis} of {title} is its last, which Grain::Position takes as a whole"),
                    "use Grain::Element, or a value with a feature axis behind it",
                ));
            }
        }
        Ok(())
    }

    fn value(&self, var: Var) -> Result<&(Grid, String)> {
        self.values.get(&var).ok_or_else(|| unasked("the value", "`from` or `to`"))
    }

    /// Cells of another answer may lie outside of this one's sizes.
    fn within(&self, cell: Cell) -> Result<&(Grid, String)> {
        let value = self.value(cell.var)?;
        if cell.index < value.0.cells() {
            return Ok(value);
        }
        let (index, cells) = (cell.index, value.0.cells());
        Err(Error::invalid(
            "reach",
            format!("the cell is not of this answer: it is number {index} of a value with {cells}"),
            "ask this answer for it",
        ))
    }

    fn source(&self, var: Var) -> Result<usize> {
        self.sources.get(&var).copied().ok_or_else(|| unasked("the source", "`from`"))
    }

    fn set(&self, var: Var) -> Result<Option<&Bits>> {
        self.sets.get(&var).map(Option::as_ref).ok_or_else(|| unasked("the target", "`to`"))
    }
}

fn unasked(what: &str, list: &str) -> Error {
    Error::invalid("reach", format!("{what} was not part of the query"), format!("add it to {list}"))
}

fn bracketed(coordinates: &[usize]) -> String {
    let each: Vec<String> = coordinates.iter().map(usize::to_string).collect();
    format!("[{}]", each.join(" "))
}
