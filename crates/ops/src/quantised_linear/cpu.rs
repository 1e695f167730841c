//! The product with a weight of integers: that of `linear`, with another copy of the weight.

use crate::linear::cpu;
use crate::{CpuCall, Linear, Needs, Request};
use regard_device::Storage;

pub fn needs(op: &Linear, request: &Request<'_>) -> Needs {
    cpu::needs_with(op, Storage::Int8, request)
}

pub fn run(op: &Linear, call: &CpuCall<'_>) {
    cpu::run_with(op, Storage::Int8, call);
}
