//! Foreign checkpoints: which of our parameters is which of theirs, and what their `config.json` says. One file for
//! each family.

pub mod t5;
pub mod transformer;

/// One of our parameters and where it stands in a foreign checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// Our dotted name.
    pub ours: String,
    /// The name of the foreign tensor.
    pub theirs: String,
    /// What has to be done to it.
    pub map: Map,
}

/// How a foreign tensor becomes one of our parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Map {
    /// As it is.
    Same,
    /// Rows and columns exchanged.
    Transposed,
    /// Part `index` of `parts` equal parts along the foreign tensor's last axis, then transposed: GPT-2's fused c_attn.
    SplitTransposed {
        /// Which part.
        index: usize,
        /// Of how many.
        parts: usize,
    },
    /// Part `index` of `parts` equal parts along the foreign tensor's first axis: torch's fused in_proj.
    Split {
        /// Which part.
        index: usize,
        /// Of how many.
        parts: usize,
    },
    /// Reshaped, same order of elements.
    Reshaped,
}

impl Import {
    /// The same numbers under another name.
    pub fn same(ours: impl Into<String>, theirs: impl Into<String>) -> Self {
        Import { ours: ours.into(), theirs: theirs.into(), map: Map::Same }
    }
}
