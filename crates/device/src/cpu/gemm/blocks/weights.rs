//! The panels of blocks: from a K by N matrix, whichever way its strides run, to cells of 32 k by 32 columns.
//! Scales are rounded to f16 first, and integers to the nearest of what is left.

use super::super::PANEL;
use super::super::matrix::Matrix;
use super::super::pack_b::panel_f32;
use super::rows::ROUND;
use super::{BLOCK, Form, HALVES};
use crate::cpu::level::Level;
use crate::cpu::threads::Pool;
use half::f16;
use half::slice::HalfFloatSliceExt;

/// Packs a K by N matrix, a panel for each task.
pub(in super::super) fn pack(
    pool: &Pool,
    level: Level,
    source: Matrix<'_>,
    form: Form,
    (k, n): (usize, usize),
    out: &mut [u8],
) {
    let cell = form.cell_bytes();
    let (down, across) = (source.row_stride, source.column_stride);
    pool.rows(out, k.div_ceil(BLOCK) * cell, 1, |panel, out, _| {
        let columns = PANEL.min(n - panel * PANEL);
        let mut rows = [[0.0f32; PANEL]; BLOCK];
        for (block, cell) in out.chunks_exact_mut(cell).enumerate() {
            let start = block * BLOCK;
            let there = BLOCK.min(k - start);
            let data = source.data.after(start * down + panel * PANEL * across);
            panel_f32(level, data, (down, across), columns, rows[..there].as_flattened_mut());
            rows[there..].fill([0.0; PANEL]);
            match form {
                Form::Q8 => fill_q8(level, &rows, there, cell),
                Form::Q4 => fill_q4(level, &rows, there, cell),
            }
        }
    });
}

/// One number for each column as f16; they become what is left of them.
fn store_halves(numbers: &mut [f32; PANEL], out: &mut [u8]) {
    let mut halves = [f16::ZERO; PANEL];
    halves.convert_from_f32_slice(numbers);
    halves.convert_to_f32_slice(numbers);
    for (to, half) in out.as_chunks_mut::<2>().0.iter_mut().zip(halves) {
        *to = half.to_le_bytes();
    }
}

/// What numbers are multiplied by to become integers: nothing of a column without a scale.
#[inline(always)]
fn factors(scales: &[f32; PANEL]) -> [f32; PANEL] {
    scales.map(|scale| if scale > 0.0 { 1.0 / scale } else { 0.0 })
}

/// The lowest bits of a number between `least` and `most` to the nearest integer, ties to even.
#[inline(always)]
fn integer(x: f32, least: f32, most: f32) -> u32 {
    (x.clamp(least, most) + ROUND).to_bits()
}

crate::multiversion! {
    /// A cell of 32 rows of 32 columns, of which so many are there and the others 0.
    fn fill_q8(rows: &[[f32; PANEL]; BLOCK], _there: usize, cell: &mut [u8]) {
        let mut scales = [0.0f32; PANEL];
        for row in rows {
            for j in 0..PANEL {
                let x = row[j].abs();
                let larger = if x > scales[j] { x } else { scales[j] };
                // 0 · x is 0 for a finite number and NaN for others, and NaN stays.
                scales[j] = larger + 0.0 * x;
            }
        }
        scales.iter_mut().for_each(|scale| *scale /= 127.0);
        let (head, body) = cell.split_at_mut(HALVES);
        store_halves(&mut scales, head);
        let factors = factors(&scales);
        for (rows, out) in rows.as_chunks::<4>().0.iter().zip(body.as_chunks_mut::<{ PANEL * 4 }>().0) {
            let mut words = [0u32; PANEL];
            for j in 0..PANEL {
                let byte = |t: usize| integer(rows[t][j] * factors[j], -127.0, 127.0) & 255;
                let word = byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
                // In eight bits, 128 more is the first bit turned.
                words[j] = word ^ 0x8080_8080;
            }
            store_words(&words, out);
        }
    }

    /// The same in four bits.
    fn fill_q4(rows: &[[f32; PANEL]; BLOCK], there: usize, cell: &mut [u8]) {
        let (mut least, mut most) = (rows[0], rows[0]);
        for row in &rows[..there] {
            for j in 0..PANEL {
                let spoilt = 0.0 * row[j];
                least[j] = (if row[j] < least[j] { row[j] } else { least[j] }) + spoilt;
                most[j] = (if row[j] > most[j] { row[j] } else { most[j] }) + spoilt;
            }
        }
        let mut scales = [0.0f32; PANEL];
        for j in 0..PANEL {
            scales[j] = (most[j] - least[j]) / 15.0;
        }
        let (head, body) = cell.split_at_mut(2 * HALVES);
        let (scale_head, least_head) = head.split_at_mut(HALVES);
        store_halves(&mut scales, scale_head);
        store_halves(&mut least, least_head);
        let factors = factors(&scales);
        let (low, high) = rows.split_at(BLOCK / 2);
        let rows = low.as_chunks::<4>().0.iter().zip(high.as_chunks::<4>().0);
        for ((low, high), out) in rows.zip(body.as_chunks_mut::<{ PANEL * 4 }>().0) {
            let mut words = [0u32; PANEL];
            for j in 0..PANEL {
                let half = |row: &[f32; PANEL]| integer((row[j] - least[j]) * factors[j], 0.0, 15.0) & 15;
                let byte = |t: usize| half(&low[t]) | half(&high[t]) << 4;
                words[j] = byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
            }
            store_words(&words, out);
        }
    }
}

#[inline(always)]
fn store_words(words: &[u32; PANEL], out: &mut [u8; PANEL * 4]) {
    for (to, word) in out.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *to = word.to_le_bytes();
    }
}
