//! Weights that are only read, where they lie: a store can be lent numbers that it does not hold, such as the
//! tensors of a mapped file. Kernels read them by rows, engines make their copies straight from them, and
//! whoever wants them as f32 in memory has them brought there.

use regard_graph::DType;
use std::ops::Range;

/// The numbers of one entry of a store, dense and row-major, which stay as they are for as long as they are
/// lent.
pub trait Lent: Send + Sync {
    /// Writes the numbers of this range as f32; `out` is as long as the range.
    fn read(&self, range: Range<usize>, out: &mut [f32]);

    /// All of them as they lie, little-endian f32 or bf16, where they do: then nobody needs to convert them
    /// first.
    fn lies(&self) -> Option<(DType, &[u8])>;

    /// Says that those of this range have been read and will hardly be again: memory that only mirrors a file
    /// may go.
    fn passed(&self, range: Range<usize>);
}
