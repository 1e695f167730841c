//! The product with blocks: its share of a task. Rows of A are rounded into the worker's scratch, as many k
//! of them as have room there; where a later part of k goes on from the sums of the one before, nothing
//! shows.

use super::super::PANEL;
use super::super::kernel::Tile;
use super::super::product::{MOST_PANELS, Product, TILE_ROW};
use super::rows::round_rows;
use super::{BLOCK, Form, Rows, multiply, shape};
use std::ops::Range;

/// Most panels that are read side by side.
const GROUP: usize = 4;
/// A few tasks for each thread, so that the last ones leave nobody idle for long.
const TASKS_PER_THREAD: usize = 4;

/// Panels of one task of few rows: whole groups, as many as leave enough tasks, since each rounds its rows.
pub(in super::super) fn panels_of_task(n: usize, threads: usize) -> usize {
    let share = n.div_ceil(PANEL) / (TASKS_PER_THREAD * threads);
    (share / GROUP * GROUP).clamp(GROUP, MOST_PANELS)
}

impl Product<'_> {
    /// Some rows by some panels, from A and B to the stored result.
    pub(in super::super) fn blocks(
        &self,
        form: Form,
        (row, rows): (usize, usize),
        panels: Range<usize>,
        packed: &mut [f32],
        tile: &mut [f32],
    ) {
        // SAFETY: every bit pattern is four bytes.
        let packed = unsafe { packed.align_to_mut::<u8>() }.1;
        let each = packed.len() / (rows * Rows::stride(1)) * BLOCK;
        assert!(panels.len() <= MOST_PANELS && each > 0);
        let (most, group) = shape(self.level, rows);
        for start in (0..self.k.max(1)).step_by(each) {
            let size = each.min(self.k - start);
            let a = round_rows(self.level, &self.a, form, (row, rows), (start, size), packed);
            for first in panels.clone().step_by(group) {
                let count = group.min(panels.end - first);
                let b = self.b.blocks(first..first + count, start / BLOCK, a.blocks);
                for r in (0..rows).step_by(most) {
                    let c = tile[r * TILE_ROW + (first - panels.start) * PANEL..].as_mut_ptr();
                    let to = Tile { c, stride: TILE_ROW, add: start > 0 };
                    // SAFETY: `round_rows` wrote these rows, `blocks` checked that the panels have as many
                    // cells, and the tile is this task's own, as tall and wide.
                    unsafe {
                        let shape = (most.min(rows - r), count);
                        multiply(self.level, form, shape, a.after(r), (b, self.b.apart()), to);
                    }
                }
            }
        }
        let (column, columns) =
            (panels.start * PANEL, (panels.len() * PANEL).min(self.b.n - panels.start * PANEL));
        for (r, values) in tile.chunks_exact_mut(TILE_ROW).take(rows).enumerate() {
            // SAFETY: tasks cover different rows or columns, so no other task works on these elements.
            unsafe { self.finish(values, (row + r, column), columns) };
        }
    }
}
