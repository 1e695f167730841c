//! The product with a weight of integers: that of `linear`, with another copy of the weight.

use crate::linear::cpu;
use crate::{CpuCall, Linear};
use regard_device::Storage;

pub fn run(op: &Linear, call: &CpuCall<'_>) {
    cpu::run_with(op, Storage::Int8, call);
}
