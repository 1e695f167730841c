//! Foreign checkpoints: for each family a table from our names to theirs, and their config.json to ours and
//! back. Reading files is not done here.

pub mod bart;
pub mod bert;
mod bert_forms;
mod bert_variant;
pub(crate) mod decoders;
mod encoder;
pub mod gpt2;
pub mod json;
pub mod llama;
pub mod mingpt;
pub mod native;
mod native_variants;
pub mod t5;
pub mod transformer;
pub mod vit;

/// How the files of a model look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// Where each parameter stands.
    pub imports: Vec<Import>,
    /// What may stand there besides: masks, counters, a part that we have no use for. `*` is one part of a
    /// dotted name.
    pub ignored: &'static [&'static str],
    /// Tied matrices that some files hold twice: the other name, and the one that counts.
    pub copies: &'static [(&'static str, &'static str)],
    /// Heads of the same family that some files hold besides, and this model has not: passed over, and said.
    pub unread: Vec<String>,
}

impl Files {
    /// Files of parameters alone.
    pub fn new(imports: Vec<Import>) -> Files {
        Files { imports, ignored: &[], copies: &[], unread: Vec::new() }
    }
}

/// One of our parameters and where it stands in a foreign checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// Our dotted name.
    pub ours: String,
    /// Their name.
    pub theirs: String,
    /// How their tensor becomes ours.
    pub map: Map,
    /// The shape of theirs, where it cannot be seen from ours.
    pub shape: Option<Vec<usize>>,
}

impl Import {
    /// From theirs to ours.
    pub fn new(ours: impl Into<String>, theirs: impl Into<String>, map: Map) -> Self {
        Import { ours: ours.into(), theirs: theirs.into(), map, shape: None }
    }

    /// From theirs of this shape, the elements in the same order.
    pub fn reshaped(ours: impl Into<String>, theirs: impl Into<String>, shape: &[usize]) -> Self {
        Import { shape: Some(shape.to_vec()), ..Import::new(ours, theirs, Map::Reshaped) }
    }
}

/// How a foreign tensor becomes one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Map {
    /// As it is.
    Same,
    /// Rows become columns.
    Transposed,
    /// Part `index` of `parts` equal parts along the first axis: PyTorch's fused projections.
    Split {
        /// Which part.
        index: usize,
        /// How many there are.
        parts: usize,
    },
    /// `count` rows from `from` on out of every `period`: parts of different sizes, or stacked head by head.
    Rows {
        /// After how many rows it begins anew.
        period: usize,
        /// The first row of each.
        from: usize,
        /// How many.
        count: usize,
    },
    /// Part `index` of `parts` equal parts along the last axis, then transposed: GPT-2's fused `c_attn`.
    SplitTransposed {
        /// Which part.
        index: usize,
        /// How many there are.
        parts: usize,
    },
    /// Under another shape, the elements in the same order.
    Reshaped,
}
