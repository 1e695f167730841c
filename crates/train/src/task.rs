//! What the loop asks of the thing that is trained.

use regard_graph::{Graph, Result, Var};

/// Whether the model learns or is examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// With dropout and label smoothing.
    Train,
    /// Without.
    Evaluate,
}

/// Something that can be trained: a model together with its loss.
pub trait Task {
    /// Records the loss of a batch: the sum over all targets times `scale`, a single f32 that the loop feeds
    /// with one over the number of targets of the whole step. Declares the inputs that its batches' fields
    /// are named after; sizes that vary (B, T) are open letters, with their bounds.
    fn record(&self, g: &mut Graph, scale: Var, mode: Mode) -> Result<Var>;
}
