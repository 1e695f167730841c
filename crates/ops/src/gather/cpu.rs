//! Copies slices by index; one body for every dtype.

#![allow(unsafe_code)]

use super::{Gather, around};
use crate::CpuCall;
use regard_device::Disjoint;
use regard_graph::DType;

/// The indices have been checked.
pub fn run(op: &Gather, call: &CpuCall<'_>) {
    // SAFETY: the result is taken once, and gather lets it overlap no operand.
    unsafe {
        match call.dtype(0) {
            DType::F32 => copy(op, call, call.f32(0), call.out_f32(0)),
            DType::BF16 => copy(op, call, call.bf16(0), call.out_bf16(0)),
            DType::I32 => copy(op, call, call.i32(0), call.out_i32(0)),
            DType::Bool => copy(op, call, call.bools(0), call.out_bools(0)),
        }
    }
}

fn copy<T: Copy + Send + Sync>(op: &Gather, call: &CpuCall<'_>, x: &[T], out: &mut [T]) {
    let (from, to) = (around(call.dims(0), op.axis), around(call.out_dims(0), op.axis));
    let (indices, out) = (call.i32(1), Disjoint::new(out));
    if to.inner < 16 {
        // Short slices: a whole run along the axis at a time.
        let width = to.size * to.inner;
        return call.rows(to.outer, width, |o, _| {
            // SAFETY: each run of the result belongs to one task.
            let into = unsafe { out.range(o * width..(o + 1) * width) };
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
    call.rows(to.outer * to.size, to.inner, |row, _| {
        let (o, m) = (row / to.size, row % to.size);
        let index = indices[if op.batched { row } else { m }] as usize;
        let start = (o * from.size + index) * from.inner;
        // SAFETY: each slice of the result belongs to one task.
        let into = unsafe { out.range(row * to.inner..(row + 1) * to.inner) };
        into.copy_from_slice(&x[start..start + to.inner]);
    });
}
