//! The norms, one row at a time in the thread's scratch. The mean is taken twice: the second pass sums what
//! the first has left, so that rows with a large mean lose nothing, and the variance is that of deviations.

#![allow(unsafe_code)]

use super::{Norm, NormKind};
use crate::CpuCall;
use regard_device::multiversion;
use regard_device::reduce::{sum_inline, sum_of_squares_inline};

pub fn run(op: &Norm, call: &CpuCall<'_>) {
    let (rows, width) = (call.dims(0).rows(), call.dims(0).last_size());
    let scale = op.scale_at().map(|at| call.f32(at));
    let shift = op.shift_at().map(|at| call.f32(at));
    call.rows(rows, width, |i, worker| {
        // SAFETY: each task takes its own thread's scratch, once.
        let scratch = unsafe { call.thread_scratch_f32(worker) };
        let (h, rest) = scratch.split_at_mut(width);
        let range = i * width..(i + 1) * width;
        call.load(0, range.clone(), h);
        if let Some(sum) = op.sum_at() {
            let residual = &mut rest[..width];
            call.load(1, range.clone(), residual);
            add(call.level, h, residual);
            if call.wants(sum) {
                call.store(sum, range.clone(), h);
            }
        }
        let (mean, rstd) =
            normalize(call.level, h, op.kind == NormKind::Layer, op.spec.epsilon, scale, shift);
        if call.wants(0) {
            call.store(0, range, h);
        }
        if let Some(at) = op.mean_at().filter(|&at| call.wants(at)) {
            call.store(at, i..i + 1, &[mean]);
        }
        if call.wants(op.rstd_at()) {
            call.store(op.rstd_at(), i..i + 1, &[rstd]);
        }
    });
}

multiversion! {
    fn add(h: &mut [f32], residual: &[f32]) {
        h.iter_mut().zip(residual).for_each(|(h, r)| *h += r);
    }

    /// Normalises a row in place; gives its mean (0 where it is not centred) and 1/√(σ² + ε).
    fn normalize(
        h: &mut [f32],
        centred: bool,
        epsilon: f32,
        scale: Option<&[f32]>,
        shift: Option<&[f32]>,
    ) -> (f32, f32) {
        let width = h.len() as f32;
        let mut mean = 0.0;
        if centred {
            let first = sum_inline(h) / width;
            h.iter_mut().for_each(|h| *h -= first);
            let left = sum_inline(h) / width;
            h.iter_mut().for_each(|h| *h -= left);
            mean = first + left;
        }
        let rstd = 1.0 / (sum_of_squares_inline(h) / width + epsilon).sqrt();
        match (scale, shift) {
            (None, None) => h.iter_mut().for_each(|h| *h *= rstd),
            (Some(scale), None) => h.iter_mut().zip(scale).for_each(|(h, s)| *h = *h * rstd * s),
            (None, Some(shift)) => h.iter_mut().zip(shift).for_each(|(h, t)| *h = h.mul_add(rstd, *t)),
            (Some(scale), Some(shift)) => {
                for ((h, s), t) in h.iter_mut().zip(scale).zip(shift) {
                    *h = (*h * rstd).mul_add(*s, *t);
                }
            }
        }
        (mean, rstd)
    }
}
