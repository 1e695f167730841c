//! Softmax by rows. A row is held in the thread's own scratch, so that every element is loaded and stored
//! once; sums run through sixteen lanes, so that −∞ at a row's end changes no bit.

use super::{Softmax, SoftmaxBackward};
use crate::CpuCall;
use regard_device::{math, multiversion, reduce};

pub fn forward(op: &Softmax, call: &CpuCall<'_>) {
    let dims = call.dims(0);
    let width = dims.last_size();
    if width == 0 {
        return;
    }
    call.rows(dims.rows(), width, |part, scratch| {
        let (i, row) = (part.first(), &mut scratch[..width]);
        part.load(0, i * width..(i + 1) * width, row);
        match op.log {
            true => log_softmax(call.level, op.beta, row),
            false => softmax(call.level, op.beta, row),
        }
        part.store(0, i * width..(i + 1) * width, row);
    });
}

pub fn backward(op: &SoftmaxBackward, call: &CpuCall<'_>) {
    let dims = call.dims(0);
    let width = dims.last_size();
    if width == 0 {
        return;
    }
    call.rows(dims.rows(), width, |part, scratch| {
        let (y, rest) = scratch.split_at_mut(width);
        let (i, dy) = (part.first(), &mut rest[..width]);
        part.load(0, i * width..(i + 1) * width, y);
        part.load(1, i * width..(i + 1) * width, dy);
        match op.log {
            true => log_softmax_backward(call.level, op.beta, y, dy),
            false => softmax_backward(call.level, op.beta, y, dy),
        }
        part.store(0, i * width..(i + 1) * width, dy);
    });
}

/// x ← β·(x − max x); in a row of −∞ alone nothing is subtracted. Subtracting first keeps the rounding small
/// near the maximum, where the weights are large, and the maximum itself exactly at 0.
#[inline(always)]
fn shift(beta: f32, x: &mut [f32]) {
    let max = reduce::max_inline(x);
    let shift = if max == f32::NEG_INFINITY { 0.0 } else { max };
    for x in x {
        *x = beta * (*x - shift);
    }
}

multiversion! {
    fn softmax(beta: f32, x: &mut [f32]) {
        shift(beta, x);
        for x in x.iter_mut() {
            *x = math::exp(*x);
        }
        let sum = reduce::sum_inline(x);
        let scale = if sum == 0.0 { 0.0 } else { 1.0 / sum };
        for x in x {
            *x *= scale;
        }
    }

    fn log_softmax(beta: f32, x: &mut [f32]) {
        shift(beta, x);
        // The shifted row is still needed, so its exponentials are summed block by block: the lanes of
        // `sum_inline`, kept over blocks.
        let mut lanes = [0.0; reduce::LANES];
        for block in x.chunks(reduce::LANES) {
            for (lane, x) in lanes.iter_mut().zip(block) {
                *lane += math::exp(*x);
            }
        }
        let sum = reduce::sum_lanes(lanes);
        let log_sum = math::log(sum);
        // −∞ − log 0 would be NaN.
        for x in x {
            *x = if sum == 0.0 { f32::NEG_INFINITY } else { *x - log_sum };
        }
    }

    fn softmax_backward(beta: f32, y: &[f32], dy: &mut [f32]) {
        let sum = reduce::dot_inline(y, dy);
        for (d, y) in dy.iter_mut().zip(y) {
            *d = beta * y * (*d - sum);
        }
    }

    fn log_softmax_backward(beta: f32, y: &[f32], dy: &mut [f32]) {
        let mut dead = true;
        for y in y {
            dead &= *y == f32::NEG_INFINITY;
        }
        let sum = reduce::sum_inline(dy);
        for (d, y) in dy.iter_mut().zip(y) {
            let dx = beta * (-sum).mul_add(math::exp(*y), *d);
            *d = if dead { 0.0 } else { dx };
        }
    }
}
