//! The backward pass of the norms. A task takes a block of rows, a fixed number of them: it writes their dh,
//! and sums dscale and dshift down the block in the shared scratch. The blocks are then added up in order.

#![allow(unsafe_code)]

use super::{NormBackward, NormKind};
use crate::CpuCall;
use regard_device::reduce::{dot_inline, sum_inline};
use regard_device::{Disjoint, multiversion};

/// Rows of one block.
const BLOCK: usize = 32;
/// How many columns one task of the last sum takes.
const COLUMNS: usize = 64;

/// How many blocks there are.
pub fn blocks(rows: usize) -> usize {
    rows.div_ceil(BLOCK)
}

pub fn run(op: &NormBackward, call: &CpuCall<'_>) {
    let (rows, width) = (call.dims(1).rows(), call.dims(1).last_size());
    let scale = op.scale_input().map(|at| call.f32(at));
    let mean = op.mean_at().map(|at| call.f32(at));
    let rstd = call.f32(op.rstd_at());
    let parameters: [Option<usize>; 2] =
        [op.scale_at(), op.shift_at()].map(|at| at.filter(|&at| call.wants(at)));
    let [wants_scale, wants_shift] = parameters.map(|at| at.is_some());
    let stride = width * (usize::from(wants_scale) + usize::from(wants_shift));
    // SAFETY: taken once, here; blocks write to disjoint parts of it.
    let partial = Disjoint::new(unsafe { call.scratch_f32() });
    call.pool.run(blocks(rows), &|block, worker| {
        // SAFETY: each task takes its own thread's scratch, once.
        let scratch = unsafe { call.thread_scratch_f32(worker) };
        let (dy, rest) = scratch.split_at_mut(width);
        let (h, rest) = rest.split_at_mut(width);
        // SAFETY: this block's part, which no other task touches.
        let sums = unsafe { partial.range(block * stride..(block + 1) * stride) };
        sums.fill(0.0);
        let (first, second) = sums.split_at_mut(if wants_scale { width } else { 0 });
        for i in block * BLOCK..((block + 1) * BLOCK).min(rows) {
            let range = i * width..(i + 1) * width;
            call.load(0, range.clone(), dy);
            call.load(1, range.clone(), h);
            let stream = op.stream_at().map(|at| {
                let stream = &mut rest[..width];
                call.load(at, range.clone(), stream);
                &*stream
            });
            let mean = mean.map(|mean| mean[i]);
            let centred = op.kind == NormKind::Layer;
            normed(call.level, h, centred, mean.unwrap_or(0.0), rstd[i]);
            parameters_of(call.level, dy, h, wants_scale, first, wants_shift, second);
            row(call.level, dy, h, centred, rstd[i], scale, stream);
            for output in 0..1 + usize::from(op.rounded.is_some()) {
                if call.wants(output) {
                    call.store(output, range.clone(), dy);
                }
            }
        }
    });
    let offsets = [0, if wants_scale { width } else { 0 }];
    for (output, offset) in parameters.into_iter().zip(offsets) {
        let Some(output) = output else { continue };
        call.pool.run(width.div_ceil(COLUMNS), &|task, _| {
            let start = task * COLUMNS;
            let length = COLUMNS.min(width - start);
            let mut total = [0.0f64; COLUMNS];
            for block in 0..blocks(rows) {
                let at = block * stride + offset + start;
                // SAFETY: these columns are this task's alone, and the blocks are done.
                let part = unsafe { partial.range(at..at + length) };
                total.iter_mut().zip(part).for_each(|(total, part)| *total += *part as f64);
            }
            call.store(output, start..start + length, &total.map(|total| total as f32)[..length]);
        });
    }
}

multiversion! {
    /// h becomes (h − μ) · rstd; the mean, rounded when it was saved, is corrected as in the forward pass.
    fn normed(h: &mut [f32], centred: bool, mean: f32, rstd: f32) {
        if !centred {
            return h.iter_mut().for_each(|h| *h *= rstd);
        }
        h.iter_mut().for_each(|h| *h -= mean);
        let left = sum_inline(h) / h.len() as f32;
        h.iter_mut().for_each(|h| *h = (*h - left) * rstd);
    }

    fn parameters_of(
        dy: &[f32],
        normed: &[f32],
        wants_scale: bool,
        scale: &mut [f32],
        wants_shift: bool,
        shift: &mut [f32],
    ) {
        if wants_scale {
            for ((sum, dy), normed) in scale.iter_mut().zip(dy).zip(normed) {
                *sum = dy.mul_add(*normed, *sum);
            }
        }
        if wants_shift {
            shift.iter_mut().zip(dy).for_each(|(sum, dy)| *sum += dy);
        }
    }

    /// dy becomes dh.
    fn row(
        dy: &mut [f32],
        normed: &[f32],
        centred: bool,
        rstd: f32,
        scale: Option<&[f32]>,
        stream: Option<&[f32]>,
    ) {
        let width = dy.len() as f32;
        if let Some(scale) = scale {
            dy.iter_mut().zip(scale).for_each(|(dy, s)| *dy *= s);
        }
        let common = if centred { sum_inline(dy) / width } else { 0.0 };
        let across = dot_inline(dy, normed) / width;
        for (dy, normed) in dy.iter_mut().zip(normed) {
            *dy = normed.mul_add(-across, *dy - common) * rstd;
        }
        if let Some(stream) = stream {
            dy.iter_mut().zip(stream).for_each(|(dy, stream)| *dy += stream);
        }
    }
}
