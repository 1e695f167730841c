//! The norms, one row at a time in the thread's scratch. The mean is taken twice: the second pass sums what
//! the first has left, so that rows with a large mean lose nothing, and the variance is that of deviations.

#![allow(unsafe_code)]

use super::{Norm, NormKind};
use crate::CpuCall;
use regard_device::multiversion;
use regard_device::reduce::{LANES, sum_inline, sum_lanes, sum_of_squares_inline};
use std::hint::black_box;

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

/// Takes `first` from every element; gives the sum of what is left, and of its squares.
#[inline(always)]
pub fn centre(h: &mut [f32], first: f32) -> (f32, f32) {
    let (mut sums, mut squares) = ([0.0; LANES], [0.0; LANES]);
    let whole = h.len() / LANES * LANES;
    let mut from = 0;
    while from < whole {
        let part: &mut [f32; LANES] = (&mut h[from..from + LANES]).try_into().expect("sixteen");
        let mut left = *part;
        for j in 0..LANES {
            left[j] -= first;
            sums[j] += left[j];
            squares[j] = left[j].mul_add(left[j], squares[j]);
        }
        *part = left;
        from += LANES;
    }
    // Keeps the lanes together: the tree of `sum_lanes` would tempt the compiler to split the loop's registers.
    (sums, squares) = black_box((sums, squares));
    for (j, h) in h[whole..].iter_mut().enumerate() {
        *h -= first;
        sums[j] += *h;
        squares[j] = h.mul_add(*h, squares[j]);
    }
    (sum_lanes(sums), sum_lanes(squares))
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
        let first = if centred { sum_inline(h) / width } else { 0.0 };
        let (sum, squares) = if centred { centre(h, first) } else { (0.0, sum_of_squares_inline(h)) };
        let left = sum / width;
        // Σ(h − left)² = Σh² − left·Σh, where left is no more than the rounding error of the first mean.
        let variance = (squares - sum * left) / width;
        let rstd = 1.0 / (variance + epsilon).sqrt();
        match (scale, shift) {
            (None, None) => h.iter_mut().for_each(|h| *h = (*h - left) * rstd),
            (Some(scale), None) => {
                for (h, s) in h.iter_mut().zip(scale) {
                    *h = (*h - left) * rstd * s;
                }
            }
            (None, Some(shift)) => {
                for (h, t) in h.iter_mut().zip(shift) {
                    *h = (*h - left).mul_add(rstd, *t);
                }
            }
            (Some(scale), Some(shift)) => {
                for ((h, s), t) in h.iter_mut().zip(scale).zip(shift) {
                    *h = ((*h - left) * rstd).mul_add(*s, *t);
                }
            }
        }
        (first + left, rstd)
    }
}
