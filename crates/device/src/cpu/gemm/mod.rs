//! Packed matrix products: C[M N] = epilogue(A[M K] · B[K N]).
//!
//! B lies in panels of 32 columns, packed once and read by every row. Each element of C is one chain of
//! multiply-adds over k inside blocks whose size depends on K alone, and the blocks are added in order: one
//! row gives the same bits as a thousand, whatever the tile or the thread. In f32 the chain runs k = 0, 1, 2
//! … at every SIMD level. In bf16 it runs in pairs, k = 1, 0, 3, 2 …, as `vdpbf16ps` does, at every level but
//! AMX, which sums thirty-two k at a time in its own order. (`vdpbf16ps` and AMX take numbers below 2⁻¹²⁶ for
//! 0; other levels do not.) A B of 8-bit integers is multiplied as the f32 numbers that they are; its scales
//! come in at the end. A B of blocks has products of its own, of integers: `blocks`.
//!
//! Work is cut into tasks of some rows by some panels. A task reads its part of A where it lies or packs it
//! into the worker's scratch, keeps its tile of C there across the blocks, and runs the epilogue on it while
//! it is hot. Where the epilogue does nothing and panels are whole, the tile is C itself.

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512_bf16;
mod block;
mod blocks;
mod epilogue;
mod few_rows;
mod int8;
mod kernel;
mod matrix;
mod narrow_rows;
mod operand;
mod pack_a;
mod pack_b;
mod pairs;
mod portable;
mod product;
mod row_sums;
pub mod statistics;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_bf16;
#[cfg(test)]
mod tests_few_rows;
#[cfg(test)]
mod tests_tasks;
mod transpose;

pub use epilogue::{Epilogue, Pointwise, times_derivative};
pub use matrix::{Data, DataMut, Matrix, MatrixMut};
pub use operand::Operand;
pub use pack_b::{PackedB, Storage, pack_b, packed_b_bytes};
pub use product::{Gemm, gemm};
pub use statistics::RowStatistics;

/// Columns of a panel of B.
pub const PANEL: usize = 32;
/// Rows of a strip of A: what one call of the kernel works on.
const STRIP: usize = 12;
/// Largest block of k in f32.
const BLOCK: usize = 384;
/// Largest block of k in bf16: a panel of B is 32 kB, as much as the nearest cache holds.
const BLOCK_BF16: usize = 512;
/// Rows of bf16 are filled up with zeros to a multiple of this: the k of one tile of AMX.
const TILE_K: usize = 32;

/// The blocks of k: as few as possible, of nearly equal size. Depends on K and the storage alone.
#[inline]
fn k_blocks(k: usize, storage: Storage) -> impl Iterator<Item = (usize, usize)> {
    let (most, unit) = match storage {
        // Blocks of integers cut k by themselves.
        Storage::F32 | Storage::Int8 | Storage::Q8 | Storage::Q4 => (BLOCK, 8),
        Storage::Bf16 => (BLOCK_BF16, TILE_K),
    };
    let count = k.div_ceil(most).max(1);
    let size = k.div_ceil(count).next_multiple_of(unit);
    (0..count).map(move |i| (i * size).min(k)).map(move |start| (start, (start + size).min(k) - start))
}
