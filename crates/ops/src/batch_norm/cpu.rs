//! Batch norm in two passes. The first takes blocks of a fixed number of rows: each block's own mean, and the
//! sums of the deviations from it and of their squares; the blocks are joined in order, in f64. The second
//! subtracts the mean as two floats, so that channels around a large mean keep their deviations.

#![allow(unsafe_code)]

use super::BatchNorm;
use crate::call::CHUNK;
use crate::{CpuCall, Part};
use regard_device::{Disjoint, multiversion};

/// Rows of one block.
pub const BLOCK: usize = 64;
/// How many columns one task of joining takes.
pub const COLUMNS: usize = 64;

/// Bytes of shared scratch: mean in two parts and 1/√(σ² + ε), then three rows for each block.
pub fn scratch(trains: bool, rows: usize, width: usize) -> usize {
    let blocks = if trains { rows.div_ceil(BLOCK) } else { 0 };
    (3 + 3 * blocks) * width * 4
}

pub fn run(op: &BatchNorm, call: &CpuCall<'_>) {
    let (rows, width) = (call.dims(0).rows(), call.dims(0).last_size());
    // SAFETY: taken once, here, and handed on in disjoint parts.
    let scratch = unsafe { call.scratch_f32() };
    let (known, partial) = scratch.split_at_mut(3 * width);
    let partial = Disjoint::new(partial);
    if op.trains() {
        call.blocks(rows, BLOCK, |own, row| {
            let block = own.first() / BLOCK;
            // SAFETY: this block's sums.
            let sums = unsafe { partial.range(block * 3 * width..(block + 1) * 3 * width) };
            let (mean, rest) = sums.split_at_mut(width);
            let (left, squares) = rest.split_at_mut(width);
            let row = &mut row[..width];
            mean.fill(0.0);
            left.fill(0.0);
            squares.fill(0.0);
            for i in own.items() {
                own.load(0, i * width..(i + 1) * width, row);
                add(call.level, mean, row);
            }
            divide(call.level, mean, own.len() as f32);
            for i in own.items() {
                own.load(0, i * width..(i + 1) * width, row);
                deviations(call.level, row, mean, left, squares);
            }
        });
    }
    let parts = Disjoint::new(&mut *known);
    call.blocks(width, COLUMNS, |own, _| {
        for c in own.items() {
            let (mean, rstd) =
                if op.trains() { join(op, call, own, &partial, c) } else { running(op, call, c) };
            let high = mean as f32;
            for (part, number) in [high, (mean - high as f64) as f32, rstd].into_iter().enumerate() {
                // SAFETY: this channel belongs to this task.
                let into = unsafe { parts.range(part * width + c..part * width + c + 1) };
                into[0] = number;
            }
            for (output, number) in [(1, high), (2, rstd)] {
                if call.wants(output) {
                    own.store(output, c..c + 1, &[number]);
                }
            }
        }
    });
    if !call.wants(0) {
        return;
    }
    let (high, rest) = known.split_at(width);
    let (low, rstd) = rest.split_at(width);
    let scale = op.scale_at().map(|at| call.f32(at));
    let shift = op.shift_at().map(|at| call.f32(at));
    call.rows(rows, width, |own, _| {
        let i = own.first();
        let mut x = [0.0; CHUNK];
        for from in (0..width).step_by(CHUNK) {
            let part = from..(from + CHUNK).min(width);
            let x = &mut x[..part.len()];
            let range = i * width + part.start..i * width + part.end;
            own.load(0, range.clone(), x);
            let [high, low, rstd] = [high, low, rstd].map(|all| &all[part.clone()]);
            let [scale, shift] = [scale, shift].map(|all| all.map(|all| &all[part.clone()]));
            normalize(call.level, x, high, low, rstd, scale, shift);
            own.store(0, range, x);
        }
    });
}

/// The mean of one channel over all blocks and its 1/√(σ² + ε); moves the running statistics.
fn join(
    op: &BatchNorm,
    call: &CpuCall<'_>,
    own: &mut Part<'_>,
    partial: &Disjoint<'_, f32>,
    c: usize,
) -> (f64, f32) {
    let (rows, width) = (call.dims(0).rows(), call.dims(0).last_size());
    let blocks = rows.div_ceil(BLOCK);
    let of = |block: usize| {
        let count = (rows - block * BLOCK).min(BLOCK) as f64;
        // SAFETY: the blocks are done, and this channel belongs to this task.
        let [mean, left, squares] = [0, 1, 2].map(|part| unsafe {
            let at = (block * 3 + part) * width + c;
            partial.range(at..at + 1)[0] as f64
        });
        (count, mean + left / count, squares - left * left / count)
    };
    let mut sum = 0.0;
    for block in 0..blocks {
        let (count, mean, _) = of(block);
        sum += count * mean;
    }
    let mean = sum / rows as f64;
    let mut squares = 0.0;
    for block in 0..blocks {
        let (count, of_block, inside) = of(block);
        squares += inside + count * (of_block - mean) * (of_block - mean);
    }
    let unbiased = squares / (rows as f64 - 1.0);
    for (input, output, new) in [(1, 3, mean), (2, 4, unbiased)] {
        if call.wants(output) {
            let mut old = [0.0];
            own.load(input, c..c + 1, &mut old);
            let momentum = op.spec.momentum as f64;
            let moved = (1.0 - momentum) * old[0] as f64 + momentum * new;
            own.store(output, c..c + 1, &[moved as f32]);
        }
    }
    (mean, (1.0 / (squares / rows as f64 + op.spec.epsilon as f64).sqrt()) as f32)
}

/// The running mean of one channel and its 1/√(σ² + ε).
fn running(op: &BatchNorm, call: &CpuCall<'_>, c: usize) -> (f64, f32) {
    let variance = call.f32(2)[c] as f64;
    (call.f32(1)[c] as f64, (1.0 / (variance + op.spec.epsilon as f64).sqrt()) as f32)
}

multiversion! {
    fn add(sum: &mut [f32], row: &[f32]) {
        sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
    }

    fn divide(sum: &mut [f32], count: f32) {
        sum.iter_mut().for_each(|sum| *sum /= count);
    }

    fn deviations(row: &[f32], mean: &[f32], left: &mut [f32], squares: &mut [f32]) {
        for (((x, mean), left), squares) in row.iter().zip(mean).zip(left).zip(squares) {
            let deviation = x - mean;
            *left += deviation;
            *squares = deviation.mul_add(deviation, *squares);
        }
    }

    fn normalize(
        x: &mut [f32],
        high: &[f32],
        low: &[f32],
        rstd: &[f32],
        scale: Option<&[f32]>,
        shift: Option<&[f32]>,
    ) {
        for (((x, high), low), rstd) in x.iter_mut().zip(high).zip(low).zip(rstd) {
            *x = ((*x - high) - low) * rstd;
        }
        match (scale, shift) {
            (None, None) => {}
            (Some(scale), None) => x.iter_mut().zip(scale).for_each(|(x, s)| *x *= s),
            (None, Some(shift)) => x.iter_mut().zip(shift).for_each(|(x, t)| *x += t),
            (Some(scale), Some(shift)) => {
                for ((x, s), t) in x.iter_mut().zip(scale).zip(shift) {
                    *x = x.mul_add(*s, *t);
                }
            }
        }
    }
}
