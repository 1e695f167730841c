//! Copies slices by index; one body for every dtype.

use super::{Gather, around};
use crate::{CpuCall, Number};
use half::bf16;
use regard_graph::DType;

/// The indices have been checked.
pub fn run(op: &Gather, call: &CpuCall<'_>) {
    match call.dtype(0) {
        DType::F32 => copy::<f32>(op, call, call.f32(0)),
        DType::BF16 => copy::<bf16>(op, call, call.bf16(0)),
        DType::I32 => copy::<i32>(op, call, call.i32(0)),
        DType::Bool => copy::<u8>(op, call, call.bools(0)),
    }
}

fn copy<T: Number>(op: &Gather, call: &CpuCall<'_>, x: &[T]) {
    let (from, to) = (around(call.dims(0), op.axis), around(call.out_dims(0), op.axis));
    let indices = call.i32(1);
    if to.inner < 16 {
        // Short slices: a whole run along the axis at a time.
        let width = to.size * to.inner;
        return call.rows(to.outer, width, |part, _| {
            let (o, into) = (part.first(), part.own(0));
            let x = &x[o * from.size * from.inner..][..from.size * from.inner];
            let indices = &indices[if op.batched { o * to.size } else { 0 }..][..to.size];
            if to.inner == 1 {
                return into.iter_mut().zip(indices).for_each(|(into, &index)| *into = x[index as usize]);
            }
            for (into, &index) in into.chunks_exact_mut(to.inner.max(1)).zip(indices) {
                into.copy_from_slice(&x[index as usize * to.inner..][..to.inner]);
            }
        });
    }
    call.rows(to.outer * to.size, to.inner, |part, _| {
        let row = part.first();
        let (o, m) = (row / to.size, row % to.size);
        let index = indices[if op.batched { row } else { m }] as usize;
        let start = (o * from.size + index) * from.inner;
        part.own(0).copy_from_slice(&x[start..start + to.inner]);
    });
}
