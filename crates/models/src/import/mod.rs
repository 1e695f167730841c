//! Foreign checkpoints: for each family the table of names, and its `config.json` read and written. Only names and
//! settings live here; files are read by those who load them.

pub mod bert;
mod fields;
pub mod vit;

pub use fields::Fields;

/// One of our parameters and where it stands in a foreign checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The dotted name of the parameter.
    pub ours: String,
    /// The name of the foreign tensor.
    pub theirs: String,
    /// How its numbers become ours.
    pub map: Map,
}

/// How the numbers of a foreign tensor become those of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Map {
    /// As they are.
    Same,
    /// Rows and columns exchanged.
    Transposed,
    /// Part `index` of `parts` equal parts along the foreign tensor's last axis, then transposed: GPT-2's fused c_attn.
    SplitTransposed {
        /// Which part, from 0.
        index: usize,
        /// How many parts.
        parts: usize,
    },
    /// Reshaped, same order of elements.
    Reshaped,
}
