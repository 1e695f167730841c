//! Products of few rows, as decoding has them: every number of B serves a handful of multiply-adds, so that
//! memory is the limit. Panels are read once, from first to last k, a few of them side by side; the chains
//! are those of the large product, block by block.

use super::kernel::{self, Panel, Tile};
use super::matrix::Data;
#[cfg(target_arch = "x86_64")]
use super::narrow_rows::narrow_rows;
use super::pack_a::{self, pack_a};
use super::pack_b::Storage;
use super::product::{Product, TILE_ROW};
use super::{PANEL, STRIP, k_blocks};
#[cfg(target_arch = "x86_64")]
use crate::cpu::level::Kind;
use crate::cpu::level::Level;
#[cfg(target_arch = "x86_64")]
use half::bf16;
use std::ops::Range;

/// Most rows of such a product: one strip.
pub(super) const MOST_ROWS: usize = STRIP;
/// Least bytes of B in a task: some microseconds, many times what a claim costs.
const TASK_BYTES: usize = 1 << 16;

/// Whether a product of so many rows goes this way. Tiles of AMX have a shape and an order of their own.
pub(super) fn fits(level: Level, storage: Storage, rows: usize, column_stride: usize) -> bool {
    let tiles = storage == Storage::Bf16 && !level.same_bits(Level::PORTABLE, true);
    rows <= MOST_ROWS && (column_stride == 1 || rows == 1) && !tiles
}

/// Panels of one task: whole groups of those that are read side by side.
pub(super) fn panels_of_task(level: Level, storage: Storage, k: usize) -> usize {
    let group = kernel::few_rows_shape(level).1;
    let bytes = (group * PANEL * k * storage.bytes()).max(1);
    group * TASK_BYTES.div_ceil(bytes)
}

impl Product<'_> {
    /// All rows by some panels, from A and B to the stored result.
    pub(super) fn few_rows(&self, rows: usize, panels: Range<usize>, packed: &mut [f32], tile: &mut [f32]) {
        let group = kernel::few_rows_shape(self.level).1;
        for first in panels.clone().step_by(group) {
            let count = group.min(panels.end - first);
            self.group(rows, (first, count), packed, tile);
            let (column, columns) = (first * PANEL, (count * PANEL).min(self.b.n - first * PANEL));
            for (row, values) in tile.chunks_exact_mut(TILE_ROW).take(rows).enumerate() {
                // SAFETY: tasks cover different columns, so no other task works on these elements.
                unsafe { self.finish(values, (row, column), columns) };
            }
        }
    }

    /// The sums of all rows by some panels side by side.
    fn group(&self, rows: usize, (first, count): (usize, usize), packed: &mut [f32], tile: &mut [f32]) {
        let storage = self.b.storage;
        #[cfg(target_arch = "x86_64")]
        if storage == Storage::Bf16 && self.level.kind() == Kind::Avx512Bf16 {
            return self.group_bf16(rows, (first, count), packed, tile);
        }
        let most = kernel::few_rows_shape(self.level).0;
        for (index, (start, size)) in k_blocks(self.k, storage).enumerate() {
            let (a, stride) = self.rows_of_a(rows, (start, size), packed);
            let part = self.b.part(first, start, size);
            // The last one is there, too.
            self.b.part(first + count - 1, start, size);
            let panel = match storage {
                Storage::F32 => Panel::F32(part.cast()),
                Storage::Bf16 => Panel::Bf16(part.cast()),
                _ => Panel::Int8(part.cast()),
            };
            for row in (0..rows).step_by(most) {
                let shape = (most.min(rows - row), count);
                let c = tile[row * TILE_ROW..].as_mut_ptr();
                let to = Tile { c, stride: TILE_ROW, add: index > 0 };
                // SAFETY: `rows_of_a` gave `rows` rows of `size`, `part` checked that each panel has `size`
                // rows, and the tile is `rows` by whole panels, this task's own.
                unsafe {
                    let a = (a.add(row * stride), stride);
                    kernel::multiply_panels(self.level, shape, size, a, panel, self.b.apart(), to);
                }
            }
        }
    }

    /// Columns `start..start + size` of A as f32 rows and how far these are apart: where they lie, if they
    /// are such.
    fn rows_of_a(
        &self,
        rows: usize,
        (start, size): (usize, usize),
        packed: &mut [f32],
    ) -> (*const f32, usize) {
        let round = self.b.storage == Storage::Bf16;
        match self.a.data {
            Data::F32(data) if !round && self.a.column_stride == 1 => {
                (data[start..].as_ptr(), self.a.row_stride)
            }
            _ => {
                pack_a(self.level, &self.a, round, (0, rows), (start, size), packed);
                (packed.as_ptr(), pack_a::ROW)
            }
        }
    }

    /// The same with A as bf16.
    #[cfg(target_arch = "x86_64")]
    fn group_bf16(&self, rows: usize, (first, count): (usize, usize), packed: &mut [f32], tile: &mut [f32]) {
        // SAFETY: every bit pattern is two bf16.
        let packed = unsafe { packed.align_to_mut::<bf16>() }.1;
        let most = kernel::few_rows_shape(self.level).0;
        for (index, (start, size)) in k_blocks(self.k, Storage::Bf16).enumerate() {
            narrow_rows(self.level, &self.a, (0, rows), (start, size), packed, pack_a::ROW_BF16);
            let part = self.b.part(first, start, size).cast();
            // The last one is there, too.
            self.b.part(first + count - 1, start, size);
            for row in (0..rows).step_by(most) {
                let shape = (most.min(rows - row), count);
                let c = tile[row * TILE_ROW..].as_mut_ptr();
                let to = Tile { c, stride: TILE_ROW, add: index > 0 };
                let a = (packed[row * pack_a::ROW_BF16..].as_ptr(), pack_a::ROW_BF16);
                // SAFETY: `narrow_rows` wrote `rows` rows of `size` and zeros there, `part` checked that each
                // panel has `size` rows, the tile is `rows` by whole panels, this task's own, and the level
                // has the instructions.
                unsafe { super::avx512_bf16::multiply_panels(shape, size, a, part, self.b.apart() / 4, to) };
            }
        }
    }
}
