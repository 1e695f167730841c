//! Comparisons by rows of the result.

use super::Comparison;
use crate::CpuCall;
use crate::broadcast::Walk;
use crate::call::CHUNK;
use regard_graph::DType;

pub fn run(comparison: Comparison, call: &CpuCall<'_>) {
    let out = call.out_dims(0);
    if out.count() == 0 {
        return;
    }
    let (walk_a, walk_b) = (Walk::new(call.dims(0), out), Walk::new(call.dims(1), out));
    let (width, integers) = (out.last_size(), call.dtype(0) == DType::I32);
    call.rows(out.rows(), width, |part, _| {
        let start = part.first() * width;
        let (at_a, at_b) = (walk_a.flat(start), walk_b.flat(start));
        for from in (0..width).step_by(CHUNK) {
            let length = CHUNK.min(width - from);
            if integers {
                let (mut a, mut b) = ([0; CHUNK], [0; CHUNK]);
                walk_a.pick(call.i32(0), at_a, from, &mut a[..length]);
                walk_b.pick(call.i32(1), at_b, from, &mut b[..length]);
                fill(comparison, &mut part.own(0)[from..from + length], &a, &b);
            } else {
                let (mut a, mut b) = ([0.0; CHUNK], [0.0; CHUNK]);
                walk_a.load(part, 0, at_a, from, &mut a[..length]);
                walk_b.load(part, 1, at_b, from, &mut b[..length]);
                fill(comparison, &mut part.own(0)[from..from + length], &a, &b);
            }
        }
    });
}

fn fill<T: PartialOrd + Copy>(comparison: Comparison, truths: &mut [u8], a: &[T], b: &[T]) {
    for ((truth, a), b) in truths.iter_mut().zip(a).zip(b) {
        *truth = u8::from(comparison.holds(*a, *b));
    }
}
