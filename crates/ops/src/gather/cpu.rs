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
    call.rows(to.outer * to.size, to.inner, |row, _| {
        let (o, m) = (row / to.size, row % to.size);
        let index = indices[if op.batched { row } else { m }] as usize;
        let start = (o * from.size + index) * from.inner;
        // SAFETY: each row of the result belongs to one task.
        let into = unsafe { out.range(row * to.inner..(row + 1) * to.inner) };
        into.copy_from_slice(&x[start..start + to.inner]);
    });
}
