//! The backward pass of batch norm in two passes: sums down blocks of a fixed number of rows, joined in order
//! in f64, then dx row by row. The mean, rounded when it was saved, is corrected by Σ(x − μ)/N.

#![allow(unsafe_code)]

use super::BatchNormBackward;
use super::cpu::{BLOCK, COLUMNS};
use crate::CpuCall;
use crate::call::CHUNK;
use regard_device::{Disjoint, multiversion};

/// Bytes of shared scratch: four rows of coefficients, then three rows of sums for each block.
pub fn scratch(rows: usize, width: usize) -> usize {
    (4 + 3 * rows.div_ceil(BLOCK)) * width * 4
}

pub fn run(op: &BatchNormBackward, call: &CpuCall<'_>) {
    let (rows, width) = (call.dims(1).rows(), call.dims(1).last_size());
    let (mean, rstd) = (call.f32(2), call.f32(3));
    let scale = op.scale.then(|| call.f32(4));
    let parameters = [op.scale_at(), op.shift_at()].map(|at| at.filter(|&at| call.wants(at)));
    let sums_needed = op.trains() || parameters.iter().any(Option::is_some);
    let blocks = if sums_needed { rows.div_ceil(BLOCK) } else { 0 };
    // SAFETY: taken once, here, and handed on in disjoint parts.
    let scratch = unsafe { call.scratch_f32() };
    let (coefficients, partial) = scratch.split_at_mut(4 * width);
    let partial = Disjoint::new(partial);
    call.blocks(if sums_needed { rows } else { 0 }, BLOCK, |own, scratch| {
        let block = own.first() / BLOCK;
        // SAFETY: this block's sums.
        let sums = unsafe { partial.range(block * 3 * width..(block + 1) * 3 * width) };
        sums.fill(0.0);
        let (plain, rest) = sums.split_at_mut(width);
        let (across, left) = rest.split_at_mut(width);
        let (dy, rest) = scratch.split_at_mut(width);
        let x = &mut rest[..width];
        for i in own.items() {
            own.load(0, i * width..(i + 1) * width, dy);
            own.load(1, i * width..(i + 1) * width, x);
            gather_sums(call.level, dy, x, mean, plain, across, left);
        }
    });
    let parts = Disjoint::new(&mut *coefficients);
    call.blocks(width, COLUMNS, |own, _| {
        for c in own.items() {
            let [mut plain, mut across, mut left] = [0.0f64; 3];
            for block in 0..blocks {
                for (part, sum) in [&mut plain, &mut across, &mut left].into_iter().enumerate() {
                    let at = (block * 3 + part) * width + c;
                    // SAFETY: the blocks are done, and this channel belongs to this task.
                    *sum += unsafe { partial.range(at..at + 1) }[0] as f64;
                }
            }
            let count = rows as f64;
            let left = if op.trains() { left / count } else { 0.0 };
            let rstd = rstd[c] as f64;
            let dscale = (across - left * plain) * rstd;
            for (output, number) in parameters.into_iter().zip([dscale, plain]) {
                if let Some(output) = output {
                    own.store(output, c..c + 1, &[number as f32]);
                }
            }
            let factor = rstd * scale.map_or(1.0, |scale| scale[c] as f64);
            let numbers = [factor, plain / count, left, rstd * dscale / count];
            for (part, number) in numbers.into_iter().enumerate() {
                // SAFETY: this channel belongs to this task.
                let into = unsafe { parts.range(part * width + c..part * width + c + 1) };
                into[0] = number as f32;
            }
        }
    });
    if !call.wants(0) {
        return;
    }
    let coefficients = &*coefficients;
    call.rows(rows, width, |own, _| {
        let i = own.first();
        let (mut dy, mut x) = ([0.0; CHUNK], [0.0; CHUNK]);
        for from in (0..width).step_by(CHUNK) {
            let part = from..(from + CHUNK).min(width);
            let (dy, x) = (&mut dy[..part.len()], &mut x[..part.len()]);
            let range = i * width + part.start..i * width + part.end;
            let [factor, common, left, across] =
                [0, 1, 2, 3].map(|k| &coefficients[k * width + part.start..k * width + part.end]);
            own.load(0, range.clone(), dy);
            if op.trains() {
                own.load(1, range.clone(), x);
                centre(call.level, dy, x, &mean[part], common, left, across);
            }
            multiply(call.level, dy, factor);
            own.store(0, range, dy);
        }
    });
}

multiversion! {
    fn gather_sums(
        dy: &[f32],
        x: &[f32],
        mean: &[f32],
        plain: &mut [f32],
        across: &mut [f32],
        left: &mut [f32],
    ) {
        plain.iter_mut().zip(dy).for_each(|(sum, dy)| *sum += dy);
        for ((((across, left), dy), x), mean) in across.iter_mut().zip(left).zip(dy).zip(x).zip(mean) {
            let deviation = x - mean;
            *across = dy.mul_add(deviation, *across);
            *left += deviation;
        }
    }

    /// dy becomes dy − Σdy/N − (x − μ) · across.
    fn centre(dy: &mut [f32], x: &mut [f32], mean: &[f32], common: &[f32], left: &[f32], across: &[f32]) {
        x.iter_mut().zip(mean).for_each(|(x, mean)| *x -= mean);
        x.iter_mut().zip(left).for_each(|(x, left)| *x -= left);
        dy.iter_mut().zip(common).for_each(|(dy, common)| *dy -= common);
        for ((dy, x), across) in dy.iter_mut().zip(x).zip(across) {
            *dy = x.mul_add(-across, *dy);
        }
    }

    fn multiply(dy: &mut [f32], factor: &[f32]) {
        dy.iter_mut().zip(factor).for_each(|(dy, factor)| *dy *= factor);
    }
}
