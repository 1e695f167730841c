//! Batch norm on a card: statistics or sums of parts of the rows, put together in f64, and one pass over the
//! elements.

use super::{BatchNorm, BatchNormBackward};
use crate::cuda::teams::{THREADS, blocks, size};
use crate::{CudaCall, CudaList};
use regard_device::cuda::kernels::Launch;
use regard_device::cuda::{Address, Arguments, Grid, Source};

/// Columns and rows of a block that sums.
const WIDE: usize = 32;
const TALL: usize = 16;
/// The fewest rows of a part, and the most parts of all columns together.
const FEWEST_ROWS: usize = 256;
const MOST_PARTS: usize = 2048;

fn source([x, y, gradient]: [&str; 3]) -> Source {
    let source = Source::new("batch_norm/kernel.cu", include_str!("kernel.cu"));
    source.define("X", x).define("Y", y).define("G", gradient)
}

/// How rows are cut: parts and the length of each.
fn cut(rows: usize, width: usize) -> (usize, usize) {
    let most = (MOST_PARTS / width.div_ceil(WIDE).max(1)).max(1);
    let length = rows.div_ceil((rows / FEWEST_ROWS).clamp(1, most)).max(1);
    (rows.div_ceil(length), length)
}

/// A grid over columns and parts.
fn over(width: usize, parts: usize) -> Grid {
    let threads = [WIDE as u32, TALL as u32, 1];
    Grid { blocks: [blocks(width, WIDE), size(parts), 1], threads, shared: 0 }
}

pub fn forward(op: &BatchNorm, call: &CudaCall<'_>) -> CudaList {
    let mut list = CudaList::new();
    let (rows, width) = (call.call.inputs[0].rows(), call.call.inputs[0].last_size());
    if let Err(fault) = op.check_rows(rows) {
        list.tell(call, fault);
    }
    let source = source([call.type_of(0), call.out_type_of(0), "f32"]);
    let input = |at: Option<usize>| at.map_or(Address(0), |at| call.inputs[at]);
    let output = |at: usize| match at < call.outputs.len() && call.used(at) {
        true => call.outputs[at],
        false => Address(0),
    };
    let (parts, length) = if op.trains() { cut(rows, width) } else { (0, 1) };
    let known = list.room(call, 3 * width * 4);
    let partial = list.room(call, parts * 3 * width * 4);
    let x = call.inputs[0];
    let arguments = Arguments::new().with(partial).with(x).with(size(rows)).with(size(width));
    let arguments = arguments.with(size(length));
    let grid = over(width, parts);
    list.launch(Launch { source: source.clone(), kernel: "part_statistics", grid, arguments });
    let addresses = [
        known,
        output(1),
        output(2),
        output(3),
        output(4),
        call.inputs[1],
        call.inputs[2],
        partial,
        call.stop,
    ];
    let arguments = Arguments::new().with(addresses).with(size(rows)).with(size(width)).with(size(parts));
    let arguments = arguments.with(size(length)).with(u32::from(op.trains()));
    let arguments = arguments.with(op.spec.momentum).with(op.spec.epsilon);
    list.launch(Launch {
        source: source.clone(),
        kernel: "join_statistics",
        grid: over(width, 1),
        arguments,
    });
    if call.used(0) {
        let arguments = Arguments::new().with(call.outputs[0]).with(x).with(known);
        let arguments = arguments.with(input(op.scale_at())).with(input(op.shift_at()));
        let arguments = arguments.with(size(rows * width)).with(size(width));
        let grid = Grid::line(blocks(rows * width, THREADS as usize), THREADS);
        list.launch(Launch { source, kernel: "normalize", grid, arguments });
    }
    list
}

pub fn backward(op: &BatchNormBackward, call: &CudaCall<'_>) -> CudaList {
    let mut list = CudaList::new();
    let (rows, width) = (call.call.inputs[1].rows(), call.call.inputs[1].last_size());
    let source = source([call.type_of(1), call.out_type_of(0), call.type_of(0)]);
    let output = |at: Option<usize>| at.filter(|&at| call.used(at)).map_or(Address(0), |at| call.outputs[at]);
    let parameters = [op.scale_at(), op.shift_at()].map(output);
    let summed = op.trains() || parameters != [Address(0); 2];
    let (parts, length) = if summed { cut(rows, width) } else { (0, 1) };
    let coefficients = list.room(call, 4 * width * 4);
    let partial = list.room(call, parts * 3 * width * 4);
    let [dy, x, mean, rstd] = [0, 1, 2, 3].map(|input| call.inputs[input]);
    let scale = if op.scale { call.inputs[4] } else { Address(0) };
    let arguments = Arguments::new().with(partial).with(dy).with(x).with(mean);
    let arguments = arguments.with(size(rows)).with(size(width)).with(size(length));
    list.launch(Launch { source: source.clone(), kernel: "part_sums", grid: over(width, parts), arguments });
    let [dscale, dshift] = parameters;
    let arguments = Arguments::new().with(coefficients).with(dscale).with(dshift).with(partial).with(rstd);
    let arguments = arguments.with(scale).with(size(rows)).with(size(width)).with(size(parts));
    let arguments = arguments.with(u32::from(op.trains()));
    list.launch(Launch { source: source.clone(), kernel: "join_sums", grid: over(width, 1), arguments });
    if call.used(0) {
        let arguments = Arguments::new().with(call.outputs[0]).with(dy).with(x).with(mean).with(coefficients);
        let arguments = arguments.with(size(rows * width)).with(size(width)).with(u32::from(op.trains()));
        let grid = Grid::line(blocks(rows * width, THREADS as usize), THREADS);
        list.launch(Launch { source, kernel: "input_gradient", grid, arguments });
    }
    list
}
