//! Assignment by rows, for every dtype.

use crate::broadcast::Walk;
use crate::{CpuCall, Number};
use half::bf16;
use regard_graph::DType;

pub fn run(call: &CpuCall<'_>) {
    match call.out_dtype(0) {
        DType::F32 => copy::<f32>(call, call.f32(1)),
        DType::BF16 => copy::<bf16>(call, call.bf16(1)),
        DType::I32 => copy::<i32>(call, call.i32(1)),
        DType::Bool => copy::<u8>(call, call.bools(1)),
    }
}

/// Over the state, which is not read.
fn copy<T: Number>(call: &CpuCall<'_>, x: &[T]) {
    let dims = call.out_dims(0);
    if dims.count() == 0 {
        return;
    }
    let (walk, width) = (Walk::new(call.dims(1), dims), dims.last_size());
    call.rows(dims.rows(), width, |part, _| {
        let at = walk.flat(part.first() * width);
        walk.pick(x, at, 0, part.own(0));
    });
}
