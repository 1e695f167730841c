//! Panels of B as 8-bit integers: symmetric, one scale for each column. w ≈ q · s with s = max|w| / 127 and q
//! = w / s to the nearest integer, ties to even. A panel is its 32 scales, then k rows of 32 integers. What
//! multiplies is q, which is exact in f32, by the chains of the f32 product; s multiplies the finished sum.

use super::PANEL;
use super::matrix::{Data, Matrix};
use super::pack_b::panel_f32;
use crate::cpu::level::Level;
use crate::cpu::threads::Pool;

/// Bytes of the scales of a panel.
pub(super) const SCALES: usize = PANEL * 4;
/// The largest integer: symmetric, so that −128 is not used.
const MOST: f32 = 127.0;
/// Rows that are converted at a time, on the stack.
const ROWS: usize = 64;

/// Bytes of one panel.
pub(super) const fn panel_bytes(k: usize) -> usize {
    SCALES + k * PANEL
}

/// Packs a K by N matrix, a panel for each task.
pub(super) fn pack(pool: &Pool, level: Level, source: Matrix<'_>, k: usize, n: usize, out: &mut [u8]) {
    pool.rows(out, panel_bytes(k), 1, |panel, out, _| {
        let columns = PANEL.min(n - panel * PANEL);
        pack_panel(level, source, k, (panel * PANEL, columns), out);
    });
}

fn pack_panel(level: Level, source: Matrix<'_>, k: usize, (column, columns): (usize, usize), out: &mut [u8]) {
    let (down, across) = (source.row_stride, source.column_stride);
    let mut block = [0.0f32; ROWS * PANEL];
    let mut each_block = |work: &mut dyn FnMut(usize, &[f32])| {
        for start in (0..k).step_by(ROWS) {
            let rows = &mut block[..ROWS.min(k - start) * PANEL];
            let data: Data<'_> = source.data.after(start * down + column * across);
            panel_f32(level, data, (down, across), columns, rows);
            work(start, rows);
        }
    };
    let mut most = [0.0f32; PANEL];
    each_block(&mut |_, rows| largest(level, rows, &mut most));
    let scales = most.map(|most| most / MOST);
    let (head, body) = out.split_at_mut(SCALES);
    for (bytes, scale) in head.as_chunks_mut::<4>().0.iter_mut().zip(scales) {
        *bytes = scale.to_ne_bytes();
    }
    each_block(&mut |start, rows| {
        let body = &mut body[start * PANEL..];
        round(level, rows, &scales, &mut body[..rows.len()]);
    });
}

crate::multiversion! {
    /// The largest magnitude of each column so far; a column with anything that is no finite number becomes
    /// none itself.
    fn largest(rows: &[f32], most: &mut [f32; PANEL]) {
        for row in rows.as_chunks::<PANEL>().0 {
            for j in 0..PANEL {
                let x = row[j].abs();
                let larger = if x > most[j] { x } else { most[j] };
                // 0 · x is 0 for a finite number and NaN for others, and NaN stays.
                most[j] = larger + 0.0 * x;
            }
        }
    }

    fn round(rows: &[f32], scales: &[f32; PANEL], out: &mut [u8]) {
        for (row, out) in rows.as_chunks::<PANEL>().0.iter().zip(out.as_chunks_mut::<PANEL>().0) {
            for j in 0..PANEL {
                // A column of zeros has the scale 0, and 0 / 0 becomes the integer 0.
                let quotient = (row[j] / scales[j]).round_ties_even();
                out[j] = quotient.clamp(-MOST, MOST) as i8 as u8;
            }
        }
    }
}

crate::multiversion! {
    /// Sums of some panels, times the scales of their columns.
    pub(super) fn apply_scales(values: &mut [f32], scales: &[u8]) {
        for (value, scale) in values.iter_mut().zip(scales.as_chunks::<4>().0) {
            *value *= f32::from_ne_bytes(*scale);
        }
    }
}
