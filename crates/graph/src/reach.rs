//! The reach reader: which elements of an input can change which elements of an output. It carries
//! relations through the graph instead of numbers; a relation may be too large, never too small.

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
