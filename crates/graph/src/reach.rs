//! The reach reader: which elements of an input can change which elements of an output. It carries
//! relations through the graph instead of numbers; a relation may be too large, never too small.

use crate::{Integers, Sizes, Var};
use relation::{Bits, Grid};
use std::collections::BTreeMap;

mod answers;
mod reader;
mod relation;
#[cfg(test)]
mod tests;

pub use answers::{Cell, Verdict};
pub use reader::reach;

/// Which elements of one input an element of an output can depend on, for one op.
#[derive(Clone, Debug, PartialEq)]
pub enum Relation {
    /// On none.
    Nothing,
    /// On all.
    Everything,
    /// On the one with the same flat index (elementwise ops without broadcasting, reshape).
    Same,
    /// Axis by axis: one entry for each axis of the *input*, saying which of its coordinates matter to an
    /// output element, given the output's coordinates.
    Axes(Vec<Along>),
}

/// Which coordinates along one axis of the input matter to an output element.
#[derive(Clone, Debug, PartialEq)]
pub enum Along {
    /// Every one.
    All,
    /// The output's coordinate on this axis of the output.
    Same(usize),
    /// The output's coordinate on an axis, shifted; none at all if that falls outside of the input.
    Shifted {
        /// The output's axis.
        axis: usize,
        /// What is added to the output's coordinate.
        by: isize,
    },
    /// Those listed: one list for each combination of the output's coordinates on `axes`, row-major.
    Listed {
        /// The axes of the output that select the list, outermost first.
        axes: Vec<usize>,
        /// The lists.
        lists: Vec<Vec<usize>>,
    },
}

/// How finely values are told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grain {
    /// Each element by itself: for small graphs.
    #[default]
    Element,
    /// The last axis of a float value (its features) as a whole, a value of one axis or none altogether;
    /// integers and booleans still by element. Coarser, so a relation can be larger than by element.
    Position,
}

/// What is asked of the reach reader.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// The sources: inputs, parameters, states or any value in between.
    pub from: Vec<Var>,
    /// The values whose dependence is asked for.
    pub to: Vec<Var>,
    /// The sizes of the open letters.
    pub sizes: Sizes,
    /// The integers and booleans that are known: masks, positions, ids. What is unknown may be anything.
    pub integers: Integers,
    /// How finely.
    pub grain: Grain,
    /// Float values whose last axis is told apart by [`Grain::Position`], too: it holds positions or
    /// examples, not features.
    pub apart: Vec<Var>,
}

/// Which source cells can change which cells of the values asked about.
#[derive(Clone, Debug)]
pub struct Reach {
    /// For each source the number of its first cell among all source cells.
    sources: BTreeMap<Var, usize>,
    /// Grid and title of every value of the query.
    values: BTreeMap<Var, (Grid, String)>,
    /// For each target its cells' sets; `None` if it depends on no source.
    sets: BTreeMap<Var, Option<Bits>>,
}
