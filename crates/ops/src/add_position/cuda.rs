//! Learned positions on a card: rows added, and rows summed by position in a fixed order.

use super::target;
use crate::rows::outside_of;
use crate::{CudaCall, CudaList};
use regard_device::cuda::kernels::Launch;
use regard_device::cuda::{Address, Arguments, Grid, Source};

fn source(call: &CudaCall<'_>) -> Source {
    Source::new("add_position/kernel.cu", include_str!("kernel.cu")).define("X", call.type_of(0))
}

/// What to say of a position outside of a table with so many rows.
fn on_fault(list: &mut CudaList, call: &CudaCall<'_>, op: &'static str, position: usize, size: usize) {
    let dims = call.call.inputs[position];
    list.on_fault(move |place, index| outside_of(target(op, size), dims, place as usize, index.into()));
}

pub fn forward(op: &'static str, positions: bool, call: &CudaCall<'_>) -> CudaList {
    let (x, size) = (call.call.inputs[0], call.call.inputs[1][0]);
    let (rows, width) = (x.rows(), x[2]);
    let mut list = CudaList::new();
    let position = if positions { call.inputs[2] } else { Address(0) };
    if positions {
        on_fault(&mut list, call, op, 2, size);
    }
    let (y, table) = (call.outputs[0], call.inputs[1]);
    let wide = width.is_multiple_of(8) && [y, call.inputs[0], table].iter().all(|at| at.0 % 16 == 0);
    let at = [y, call.inputs[0], table, position, call.fault, call.stop];
    let sizes = [rows, x[1], width, size, usize::from(wide)];
    let arguments = Arguments::new().with_each(at).with_each(sizes.map(|size| size as u32));
    let grid = CudaCall::threads(rows * if wide { width / 8 } else { width });
    list.launch(Launch { source: source(call), kernel: "add_rows", grid, arguments });
    list
}

pub fn backward(op: &'static str, positions: bool, call: &CudaCall<'_>) -> CudaList {
    let (dy, size) = (call.call.inputs[0], call.call.outputs[0][0]);
    let (rows, width) = (dy.rows(), dy[2]);
    let mut list = CudaList::new();
    let position = if positions { call.inputs[1] } else { Address(0) };
    if positions {
        on_fault(&mut list, call, op, 1, size);
    }
    let at = [call.outputs[0], call.inputs[0], position, call.fault, call.stop];
    let sizes = [rows, dy[1], width, size].map(|size| size as u32);
    let arguments = Arguments::new().with_each(at).with_each(sizes);
    // Even a table without rows has its positions looked at.
    let blocks = [size.max(usize::from(positions)) as u32, width.div_ceil(256) as u32, 1];
    let grid = Grid { blocks, threads: [256, 1, 1], shared: 0 };
    list.launch(Launch { source: source(call), kernel: "sum_rows", grid, arguments });
    list
}
