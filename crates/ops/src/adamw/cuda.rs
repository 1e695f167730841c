//! AdamW on a card: one launch for a parameter, or for many. Learning rate, step and factor are read there.

use super::{AdamW, AdamWStep, wrong_step};
use crate::cuda::table;
use crate::{CudaCall, CudaList};
use regard_device::cuda::{Address, Arguments, Source};

/// Elements of a block.
const PER_BLOCK: usize = 4096;

pub fn list(op: &AdamWStep, call: &CudaCall<'_>) -> CudaList {
    let AdamW { beta1, beta2, epsilon, weight_decay } = op.settings;
    let [param, gradient, m, v, lr, step] = std::array::from_fn(|input| call.inputs[input]);
    let scale = if op.scaled { call.inputs[6] } else { Address(0) };
    let common = Arguments::new().with_each([lr, step, scale, call.stop]);
    let common = common.with([beta1, beta2, epsilon, weight_decay]);
    let source = Source::new("adamw/kernel.cu", include_str!("kernel.cu"));
    let mut list = CudaList::new();
    list.launch(table::of_one(call, (source, "adamw"), common, [param, gradient, m, v], PER_BLOCK));
    list.on_fault(|_, step| wrong_step(step.into()));
    list
}
