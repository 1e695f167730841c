//! Slices and their gradients by runs of bytes.

#![allow(unsafe_code)]

use crate::CpuCall;
use crate::cpu_runs::{Runs, clear, copy};

pub fn slice(axis: usize, start: usize, call: &CpuCall<'_>) {
    let (x, out) = (call.dims(0), call.out_dims(0));
    let outer: usize = x[..axis].iter().product();
    let inner = x[axis + 1..].iter().product::<usize>() * call.dtype(0).bytes();
    let from = Runs { first: start * inner, step: x[axis] * inner };
    let to = Runs { first: 0, step: out[axis] * inner };
    // SAFETY: the only result, taken once; it overlaps no operand, for the op declares no alias.
    let bytes = unsafe { call.out_bytes(0) };
    copy(call.pool, outer, out[axis] * inner, call.bytes(0), from, bytes, to);
}

pub fn pad(axis: usize, start: usize, call: &CpuCall<'_>) {
    let (x, out) = (call.dims(0), call.out_dims(0));
    let outer: usize = x[..axis].iter().product();
    let inner = x[axis + 1..].iter().product::<usize>() * call.dtype(0).bytes();
    let (length, whole) = (x[axis] * inner, out[axis] * inner);
    let (before, after) = (start * inner, start * inner + length);
    // SAFETY: the only result, taken once; it overlaps no operand, for the op declares no alias.
    let bytes = unsafe { call.out_bytes(0) };
    clear(call.pool, outer, before, bytes, Runs { first: 0, step: whole });
    clear(call.pool, outer, whole - after, bytes, Runs { first: after, step: whole });
    let (from, to) = (Runs { first: 0, step: length }, Runs { first: before, step: whole });
    copy(call.pool, outer, length, call.bytes(0), from, bytes, to);
}
