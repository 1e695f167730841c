//! Packed matrix products: C[M N] = epilogue(A[M K] · B[K N]).
//!
//! B lies in panels of 32 columns, packed once and read by every row. Each element of C is one chain of
//! fused multiply-adds over k inside blocks whose size depends on K alone, and the blocks are added in order:
//! one row gives the same bits as a thousand, whatever the tile, the thread or the SIMD level.
//!
//! Work is cut into tasks of some rows by some panels. A task packs its part of A into the worker's scratch,
//! keeps its tile of C there across the blocks, and runs the epilogue on it while it is hot.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod block;
mod epilogue;
mod kernel;
mod matrix;
mod pack_a;
mod pack_b;
mod portable;
mod product;
#[cfg(test)]
mod tests;
mod transpose;

pub use block::block;
pub use epilogue::{Activation, Epilogue};
pub use matrix::{Data, DataMut, Matrix, MatrixMut};
pub use pack_b::{
    PackedB, Storage, pack_b, pack_panel_columns, pack_panel_rows, packed_b_bytes, panel_floats,
};
pub use product::{Gemm, gemm};

/// Columns of a panel of B.
pub const PANEL: usize = 32;
/// Rows of a strip of A: what one call of the kernel works on.
const STRIP: usize = 12;
/// Largest block of k.
const BLOCK: usize = 384;

/// The blocks of k: as few as possible of at most [`BLOCK`], of nearly equal size. Depends on K alone.
#[inline]
fn k_blocks(k: usize) -> impl Iterator<Item = (usize, usize)> {
    let count = k.div_ceil(BLOCK).max(1);
    let size = k.div_ceil(count).next_multiple_of(8);
    (0..count).map(move |i| (i * size).min(k)).map(move |start| (start, (start + size).min(k) - start))
}
