//! The cross-entropy row by row, in chunks: the maximum, then the sum of exponentials (f32 inside a chunk,
//! f64 over chunks), then the loss. Its gradient takes each softmax from the kept log-sum-exp, in one more
//! pass.

use super::targets::check_targets;
use super::{CrossEntropy, CrossEntropyBackward};
use crate::call::CHUNK;
use crate::{CpuCall, Fault};
use regard_device::{math, multiversion, reduce};

pub fn run(op: &CrossEntropy, call: &CpuCall<'_>) -> Result<(), Fault> {
    let (v, targets) = (call.dims(0).last_size(), call.i32(1));
    check_targets("cross_entropy", targets.iter().map(|&id| id as i64), v, op.ignore_index)?;
    let level = call.level;
    call.rows(targets.len(), v, |part, _| {
        let row = part.first();
        let (mut loss, mut lse) = (0.0, 0.0);
        if targets[row] != op.ignore_index {
            let mut buffer = [0.0; CHUNK];
            let mut over_chunks = |work: &mut dyn FnMut(&mut [f32])| {
                for from in (0..v).step_by(CHUNK) {
                    let chunk = &mut buffer[..CHUNK.min(v - from)];
                    call.load(0, row * v + from..row * v + from + chunk.len(), chunk);
                    work(chunk);
                }
            };
            let mut most = f32::NEG_INFINITY;
            over_chunks(&mut |chunk| most = reduce::larger(most, reduce::max(level, chunk)));
            let (mut sum, mut below) = (0.0f64, 0.0f64);
            over_chunks(&mut |chunk| {
                if op.label_smoothing != 0.0 {
                    below += sum_below(level, chunk, most) as f64;
                }
                sum += sum_exponentials(level, chunk, most) as f64;
            });
            let mut own = [0.0];
            let at = row * v + targets[row] as usize;
            call.load(0, at..at + 1, &mut own);
            loss = row_loss(most, sum, below, own[0], v, op.label_smoothing);
            lse = most + math::log(sum as f32);
        }
        if call.wants(0) {
            part.store(0, row..row + 1, &[loss]);
        }
        if call.wants(1) {
            part.store(1, row..row + 1, &[lse]);
        }
    });
    Ok(())
}

/// The loss from a row's maximum, Σ exp(x − maximum), Σ (maximum − x) and its target's logit. Everything is
/// taken from the maximum on, where differences are small.
pub(crate) fn row_loss(most: f32, sum: f64, below: f64, own: f32, v: usize, smoothing: f32) -> f32 {
    let sharp = math::log(sum as f32);
    if smoothing == 0.0 {
        return sharp + (most - own);
    }
    let mean_below = (below / v as f64) as f32;
    smoothing.mul_add(mean_below, (1.0 - smoothing).mul_add(most - own, sharp))
}

pub fn run_backward(op: &CrossEntropyBackward, call: &CpuCall<'_>) -> Result<(), Fault> {
    let (v, targets) = (call.dims(0).last_size(), call.i32(1));
    check_targets("cross_entropy_backward", targets.iter().map(|&id| id as i64), v, op.ignore_index)?;
    let (lse, dloss) = (call.f32(2), call.f32(3));
    let spread = op.label_smoothing / v as f32;
    call.rows(targets.len(), v, |part, _| {
        let row = part.first();
        let mut buffer = [0.0; CHUNK];
        for from in (0..v).step_by(CHUNK) {
            let chunk = &mut buffer[..CHUNK.min(v - from)];
            let range = row * v + from..row * v + from + chunk.len();
            if targets[row] == op.ignore_index {
                chunk.fill(0.0);
            } else {
                part.load(0, range.clone(), chunk);
                subtract_from_softmax(call.level, chunk, lse[row], spread);
                if let Some(own) = (targets[row] as usize).checked_sub(from).and_then(|at| chunk.get_mut(at))
                {
                    *own -= 1.0 - op.label_smoothing;
                }
                multiply(call.level, chunk, dloss[row]);
            }
            part.store(0, range, chunk);
        }
    });
    Ok(())
}

multiversion! {
    fn sum_exponentials(x: &mut [f32], most: f32) -> f32 {
        x.iter_mut().for_each(|x| *x = math::exp(*x - most));
        reduce::sum_inline(x)
    }

    fn sum_below(x: &[f32], most: f32) -> f32 {
        let mut lanes = [0.0; reduce::LANES];
        for part in x.chunks(reduce::LANES) {
            lanes.iter_mut().zip(part).for_each(|(lane, x)| *lane += most - x);
        }
        reduce::sum_lanes(lanes)
    }

    fn subtract_from_softmax(x: &mut [f32], lse: f32, spread: f32) {
        x.iter_mut().for_each(|x| *x = math::exp(*x - lse) - spread);
    }

    fn multiply(x: &mut [f32], by: f32) {
        x.iter_mut().for_each(|x| *x *= by);
    }
}
