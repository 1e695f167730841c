//! The global norm on a card: one launch for many gradients, then one block for all.

use super::{ClipNorm, EPSILON};
use crate::{CudaCall, CudaList};
use regard_device::cuda::kernels::Launch;
use regard_device::cuda::{Address, Arguments, Grid, Source};
use regard_graph::DType;

/// Elements of a block. Part of the result: another number is another order of sums.
const BLOCK: usize = 8192;
/// Gradients of a launch, whose table is an argument.
const GRADIENTS: usize = 128;

pub fn list(op: &ClipNorm, call: &CudaCall<'_>) -> CudaList {
    let source = Source::new("clip_norm/kernel.cu", include_str!("kernel.cu"));
    let source = source.define("BLOCK", BLOCK).define("GRADIENTS", GRADIENTS);
    let mut list = CudaList::new();
    let blocks_of = |input: usize| call.count(input).div_ceil(BLOCK);
    let all = (0..call.inputs.len()).map(blocks_of).sum::<usize>();
    let sums = list.room(call, all * size_of::<f64>());
    let some: Vec<usize> = (0..call.inputs.len()).filter(|&input| call.count(input) > 0).collect();
    let mut before = 0;
    for gradients in some.chunks(GRADIENTS) {
        let (mut table, mut blocks) = ([0u64; 2 * GRADIENTS], 0);
        for (entry, &input) in table.chunks_exact_mut(2).zip(gradients) {
            assert!(call.count(input) < 1 << 31, "{} elements", call.count(input));
            let half = u64::from(call.call.input_dtypes[input] == DType::BF16);
            entry[0] = call.inputs[input].0;
            entry[1] = call.count(input) as u64 | half << 31 | (blocks as u64) << 32;
            blocks += blocks_of(input);
        }
        let arguments = Arguments::new().with(sums.after(before * size_of::<f64>())).with(table);
        let arguments = arguments.with(gradients.len() as u32);
        let grid = Grid::line(blocks as u32, 256);
        list.launch(Launch { source: source.clone(), kernel: "sum_squares", grid, arguments });
        before += blocks;
    }
    let [norm, factor] = [0, 1].map(|output| match call.used(output) {
        true => call.outputs[output],
        false => Address(0),
    });
    let arguments = Arguments::new().with_each([norm, factor, sums]).with(all as u32);
    let arguments = arguments.with_each([op.most, EPSILON]);
    list.launch(Launch { source, kernel: "clip", grid: Grid::line(1, 256), arguments });
    list
}
