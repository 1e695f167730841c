//! Dropout on a card: seed, step and the first example are read there; the name of the stream is told as its
//! hash.

use super::Dropout;
use crate::{CudaCall, CudaList};
use regard_device::cuda::kernels::Launch;
use regard_device::cuda::{Address, Arguments, Source};
use regard_device::random::name_hash;

pub fn list(op: &Dropout, call: &CudaCall<'_>) -> CudaList {
    let dims = call.call.inputs[0];
    let (rows, width) = (dims.rows(), dims.last_size());
    let middle: usize = dims[1..dims.len() - 1].iter().product();
    let (y, x, random) = (call.outputs[0], call.inputs[0], call.inputs[1]);
    let position = if op.positioned { call.inputs[2] } else { Address(0) };
    let wide = width.is_multiple_of(8) && [x, y].iter().all(|at| at.0 % 16 == 0);
    let sizes = [rows, width, middle, dims[1], Dropout::rest(&dims)];
    let arguments = Arguments::new().with_each([y, x, random, position]).with(name_hash(&op.stream));
    let arguments = arguments.with_each(sizes.map(|size| size as u32));
    // p < 1 and has 24 bits, so the threshold is below 2³².
    let arguments = arguments.with(op.threshold() as u32).with(op.scale() as f32).with(u32::from(wide));
    let source = Source::new("dropout/kernel.cu", include_str!("kernel.cu")).define("X", call.type_of(0));
    let mut list = CudaList::new();
    let grid = CudaCall::threads(rows * width.div_ceil(8));
    list.launch(Launch { source, kernel: "dropout", grid, arguments });
    list
}
