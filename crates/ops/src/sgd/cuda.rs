//! SGD on a card: one launch for a parameter, or for many. Learning rate and factor are read there.

use super::{Sgd, SgdStep};
use crate::cuda::table;
use crate::{CudaCall, CudaList};
use regard_device::cuda::{Address, Arguments, Source};

/// Elements of a block.
const PER_BLOCK: usize = 2048;

pub fn list(op: &SgdStep, call: &CudaCall<'_>) -> CudaList {
    let Sgd { momentum, nesterov, weight_decay } = op.settings;
    let kept = if op.settings.has_momentum() { call.inputs[2] } else { Address(0) };
    let scale = if op.scaled { call.inputs[op.lr() + 1] } else { Address(0) };
    let common = Arguments::new().with_each([call.inputs[op.lr()], scale, call.stop]);
    let common = common.with_each([weight_decay as f32, momentum as f32]).with(u32::from(nesterov));
    let source = Source::new("sgd/kernel.cu", include_str!("kernel.cu"));
    let states = [call.inputs[0], call.inputs[1], kept, Address(0)];
    let mut list = CudaList::new();
    list.launch(table::of_one(call, (source, "sgd"), common, states, PER_BLOCK));
    list
}
