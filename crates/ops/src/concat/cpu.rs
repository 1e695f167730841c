//! Joining by runs of bytes: everything from the axis inwards is contiguous in each part.

#![allow(unsafe_code)]

use crate::CpuCall;
use crate::cpu_runs::{Runs, copy};

pub fn run(axis: usize, call: &CpuCall<'_>) {
    let out = call.out_dims(0);
    let outer: usize = out[..axis].iter().product();
    let run_of = |dims: &[usize]| dims[axis..].iter().product::<usize>() * call.out_dtype(0).bytes();
    let (whole, mut before) = (run_of(&out), 0);
    // SAFETY: the only result, taken once; it overlaps no operand, for the op declares no alias.
    let out = unsafe { call.out_bytes(0) };
    for input in 0..call.input_count() {
        let length = run_of(&call.dims(input));
        let (from, to) = (Runs { first: 0, step: length }, Runs { first: before, step: whole });
        copy(call.pool, outer, length, call.bytes(input), from, out, to);
        before += length;
    }
}
