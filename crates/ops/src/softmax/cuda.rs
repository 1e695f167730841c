//! Softmax on a card: a team of threads has a row.

use super::{Softmax, SoftmaxBackward};
use crate::cuda::teams::{Team, in_vectors, size};
use crate::{CudaCall, CudaList};
use regard_device::cuda::kernels::Launch;
use regard_device::cuda::{Arguments, Source};

fn source(team: Team, [x, y, gradient]: [&str; 3]) -> Source {
    let source = team.source("softmax/kernel.cu", include_str!("kernel.cu"));
    source.define("X", x).define("Y", y).define("G", gradient)
}

pub fn forward(op: &Softmax, call: &CudaCall<'_>) -> CudaList {
    let mut list = CudaList::new();
    let (rows, width) = (call.call.inputs[0].rows(), call.call.inputs[0].last_size());
    if !call.used(0) || rows * width == 0 {
        return list;
    }
    let (team, y, x) = (Team::of(width), call.outputs[0], call.inputs[0]);
    let arguments = Arguments::new().with(y).with(x).with(size(rows)).with(size(width)).with(op.beta);
    let arguments = arguments.with(u32::from(op.log)).with(in_vectors(width, &[y, x]));
    let source = source(team, [call.type_of(0), call.out_type_of(0), "f32"]);
    list.launch(Launch { source, kernel: "softmax_rows", grid: team.grid(rows), arguments });
    list
}

pub fn backward(op: &SoftmaxBackward, call: &CudaCall<'_>) -> CudaList {
    let mut list = CudaList::new();
    let (rows, width) = (call.call.inputs[0].rows(), call.call.inputs[0].last_size());
    if !call.used(0) || rows * width == 0 {
        return list;
    }
    let (team, dx, [y, dy]) = (Team::of(width), call.outputs[0], [call.inputs[0], call.inputs[1]]);
    let arguments = Arguments::new().with(dx).with(y).with(dy).with(size(rows)).with(size(width));
    let arguments = arguments.with(op.beta).with(u32::from(op.log)).with(in_vectors(width, &[dx, y, dy]));
    let source = source(team, [call.type_of(0), call.out_type_of(0), call.type_of(1)]);
    list.launch(Launch { source, kernel: "softmax_backward", grid: team.grid(rows), arguments });
    list
}
