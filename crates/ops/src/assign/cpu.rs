//! Assignment by rows, for every dtype.

#![allow(unsafe_code)]

use crate::CpuCall;
use crate::broadcast::Walk;
use regard_device::Disjoint;
use regard_graph::DType;

pub fn run(call: &CpuCall<'_>) {
    // SAFETY: the only result, taken once; it overlaps the state, which is not read, and no other operand.
    unsafe {
        match call.out_dtype(0) {
            DType::F32 => copy(call, call.f32(1), call.out_f32(0)),
            DType::BF16 => copy(call, call.bf16(1), call.out_bf16(0)),
            DType::I32 => copy(call, call.i32(1), call.out_i32(0)),
            DType::Bool => copy(call, call.bools(1), call.out_bools(0)),
        }
    }
}

fn copy<T: Copy + Send + Sync>(call: &CpuCall<'_>, x: &[T], out: &mut [T]) {
    let dims = call.out_dims(0);
    if dims.count() == 0 {
        return;
    }
    let (walk, width) = (Walk::new(call.dims(1), dims), dims.last_size());
    let out = Disjoint::new(out);
    call.rows(dims.rows(), width, |row, _| {
        let start = row * width;
        // SAFETY: each row is written once.
        walk.pick(x, walk.flat(start), 0, unsafe { out.range(start..start + width) });
    });
}
