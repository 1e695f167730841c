//! The panels of blocks: from a K by N matrix, whichever way its strides run, to cells of 32 k by 32 columns.
//! Scales are rounded to f16 first, and integers to the nearest of what is left.

use super::super::PANEL;
use super::super::matrix::Matrix;
use super::super::pack_b::panel_f32;
use super::{BLOCK, Form, HALVES, OFFSET};
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
        let mut numbers = [0.0f32; BLOCK * PANEL];
        for (block, cell) in out.chunks_exact_mut(cell).enumerate() {
            let start = block * BLOCK;
            let numbers = &mut numbers[..BLOCK.min(k - start) * PANEL];
            let data = source.data.after(start * down + panel * PANEL * across);
            panel_f32(level, data, (down, across), columns, numbers);
            match form {
                Form::Q8 => fill_q8(level, numbers, cell),
                Form::Q4 => fill_q4(level, numbers, cell),
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

/// Rows of integers, four of which become words of 32 columns.
#[inline(always)]
fn word(rows: &[[u8; PANEL]], j: usize) -> [u8; 4] {
    [rows[0][j], rows[1][j], rows[2][j], rows[3][j]]
}

crate::multiversion! {
    fn fill_q8(numbers: &[f32], cell: &mut [u8]) {
        let rows = numbers.as_chunks::<PANEL>().0;
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
        let mut integers = [[OFFSET as u8; PANEL]; BLOCK];
        for (row, to) in rows.iter().zip(&mut integers) {
            for j in 0..PANEL {
                let integer = (row[j] * factors[j]).round_ties_even().clamp(-127.0, 127.0);
                to[j] = (integer as i32 + OFFSET) as u8;
            }
        }
        for (rows, out) in integers.as_chunks::<4>().0.iter().zip(body.as_chunks_mut::<{ PANEL * 4 }>().0) {
            for (j, to) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                *to = word(rows, j);
            }
        }
    }

    fn fill_q4(numbers: &[f32], cell: &mut [u8]) {
        let rows = numbers.as_chunks::<PANEL>().0;
        let Some(first) = rows.first() else { return };
        let (mut least, mut most) = (*first, *first);
        for row in rows {
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
        let mut integers = [[0u8; PANEL]; BLOCK];
        for (row, to) in rows.iter().zip(&mut integers) {
            for j in 0..PANEL {
                let integer = ((row[j] - least[j]) * factors[j]).round_ties_even().clamp(0.0, 15.0);
                to[j] = integer as i32 as u8;
            }
        }
        let (low, high) = integers.split_at_mut(BLOCK / 2);
        for (low, high) in low.iter_mut().zip(high) {
            for j in 0..PANEL {
                low[j] |= high[j] << 4;
            }
        }
        for (rows, out) in low.as_chunks::<4>().0.iter().zip(body.as_chunks_mut::<{ PANEL * 4 }>().0) {
            for (j, to) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                *to = word(rows, j);
            }
        }
    }
}
