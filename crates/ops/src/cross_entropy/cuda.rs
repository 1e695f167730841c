//! The cross-entropy on a card: a team of threads has a row.

use super::targets::no_such_class;
use super::{CrossEntropy, CrossEntropyBackward};
use crate::cuda::teams::{Team, in_vectors, size};
use crate::{CudaCall, CudaList};
use regard_device::cuda::kernels::Launch;
use regard_device::cuda::{Address, Arguments};

/// `Settings` of the kernels, and what is said of a target that is no class.
fn with_settings(
    list: &mut CudaList,
    call: &CudaCall<'_>,
    arguments: Arguments,
    (op, classes): (&'static str, usize),
    (ignored, smoothing): (i32, f32),
) -> Arguments {
    list.on_fault(move |row, id| no_such_class(op, row as usize, id as i64, classes));
    // One struct of 24 bytes: two words, then two addresses.
    let words = u64::from(ignored as u32) | u64::from(smoothing.to_bits()) << 32;
    arguments.with([Address(words), call.fault, call.stop])
}

pub fn forward(op: &CrossEntropy, call: &CudaCall<'_>) -> CudaList {
    let mut list = CudaList::new();
    let (rows, width) = (call.count(1), call.call.inputs[0].last_size());
    let [loss, lse] = [0, 1].map(|at| if call.used(at) { call.outputs[at] } else { Address(0) });
    let (team, x) = (Team::of(width), call.inputs[0]);
    let arguments = Arguments::new().with(loss).with(lse).with(x).with(call.inputs[1]);
    let arguments = arguments.with(size(rows)).with(size(width));
    let settings = (op.ignore_index, op.label_smoothing);
    let arguments = with_settings(&mut list, call, arguments, ("cross_entropy", width), settings);
    let arguments = arguments.with(in_vectors(width, &[x]));
    let source =
        team.source("cross_entropy/kernel.cu", include_str!("kernel.cu")).define("X", call.type_of(0));
    list.launch(Launch { source, kernel: "cross_entropy", grid: team.grid(rows), arguments });
    list
}

pub fn backward(op: &CrossEntropyBackward, call: &CudaCall<'_>) -> CudaList {
    let mut list = CudaList::new();
    let (rows, width) = (call.count(1), call.call.inputs[0].last_size());
    if !call.used(0) {
        return list;
    }
    let (team, dx, x) = (Team::of(width), call.outputs[0], call.inputs[0]);
    let arguments = Arguments::new().with(dx).with(x).with(call.inputs[1]).with(call.inputs[2]);
    let arguments = arguments.with(call.inputs[3]).with(size(rows)).with(size(width));
    let settings = (op.ignore_index, op.label_smoothing);
    let arguments = with_settings(&mut list, call, arguments, ("cross_entropy_backward", width), settings);
    let arguments = arguments.with(in_vectors(width, &[dx, x]));
    let source =
        team.source("cross_entropy/kernel.cu", include_str!("kernel.cu")).define("X", call.type_of(0));
    list.launch(Launch { source, kernel: "cross_entropy_backward", grid: team.grid(rows), arguments });
    list
}
