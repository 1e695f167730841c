//! Rotary positions on a card. The frequencies are arguments of the launch, so many at a time.

use super::{Pairing, Rotary};
use crate::{CudaCall, CudaList};
use regard_device::cuda::kernels::Launch;
use regard_device::cuda::{Address, Arguments, Grid, Source};

/// Pairs of one launch, and threads of a block of it.
const PAIRS: usize = 64;
const THREADS: usize = 256;

pub fn list(op: &Rotary, call: &CudaCall<'_>) -> CudaList {
    let x = call.call.inputs[0];
    let (rows, all) = (x[0] * x[1], op.frequencies.len());
    let position = if op.positions { call.inputs[1] } else { Address(0) };
    let source = Source::new("rotary/kernel.cu", include_str!("kernel.cu"));
    let source = source.define("PAIRS", PAIRS).define("X", call.type_of(0));
    let mut list = CudaList::new();
    for (chunk, some) in op.frequencies.chunks(PAIRS).enumerate() {
        let mut frequencies = [0.0; PAIRS];
        frequencies[..some.len()].copy_from_slice(some);
        let arguments = Arguments::new().with_each([call.outputs[0], call.inputs[0], position]);
        let arguments = arguments.with(frequencies);
        let interleaved = usize::from(op.spec.pairing == Pairing::Interleaved);
        let sizes = [rows, x[1], x[2], x[3], chunk * PAIRS, some.len(), all, interleaved];
        let arguments = arguments.with_each(sizes.map(|size| size as u32));
        let direction = if op.spec.inverse { -op.spec.scale } else { op.spec.scale };
        let arguments = arguments.with_each([op.spec.scale, direction]);
        let blocks = if x[2] * x[3] == 0 { 0 } else { rows.div_ceil(THREADS / some.len()) };
        let grid = Grid::line(blocks as u32, THREADS as u32);
        list.launch(Launch { source: source.clone(), kernel: "turn", grid, arguments });
    }
    list
}
