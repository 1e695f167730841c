//! Cutting by runs of bytes: everything from the axis inwards is contiguous in each part.

#![allow(unsafe_code)]

use crate::CpuCall;
use crate::cpu_runs::{Runs, copy};

pub fn run(axis: usize, call: &CpuCall<'_>) {
    let x = call.dims(0);
    let outer: usize = x[..axis].iter().product();
    let run_of = |dims: &[usize]| dims[axis..].iter().product::<usize>() * call.dtype(0).bytes();
    let (whole, mut before) = (run_of(&x), 0);
    for output in 0..call.output_count() {
        let length = run_of(&call.out_dims(output));
        if call.wants(output) {
            // SAFETY: each result is taken once; none overlaps an operand, for the op declares no alias.
            let out = unsafe { call.out_bytes(output) };
            let (from, to) = (Runs { first: before, step: whole }, Runs { first: 0, step: length });
            copy(call.pool, outer, length, call.bytes(0), from, out, to);
        }
        before += length;
    }
}
