//! A weight as integers on a card: made for the call from the f32 weight, and exact in f32 and in bf16, so
//! that the library's products multiply them. The scales are applied behind the product.

use super::Rounding;
use crate::cuda::teams::{THREADS, Team, blocks, size};
use crate::linear::fused::FusedLinear;
use crate::{CudaCall, CudaList, NotYet, WeightLayout};
use regard_device::cuda::kernels::Launch;
use regard_device::cuda::{Address, Arguments, Grid, Number};

/// Columns and rows of a block that looks for the largest weights of columns.
const WIDE: usize = 32;
const TALL: usize = 16;

/// What a card does: a weight with a scale for each output. Blocks, and rows of x that are rounded to them,
/// are the CPU's.
pub(crate) fn list(op: &FusedLinear, rounding: Rounding, call: &CudaCall<'_>) -> Result<CudaList, NotYet> {
    match rounding {
        Rounding::Outputs => Ok(crate::linear::cuda::linear(op, call)),
        Rounding::Blocks8 | Rounding::Blocks4 => {
            let what = format!("a weight of {}", rounding.words());
            Err(NotYet { op: "quantised_linear", what })
        }
    }
}

/// Where the integers of operand 1 lie, as it does, and where the scales do.
pub(crate) fn quantise(
    list: &mut CudaList,
    call: &CudaCall<'_>,
    layout: WeightLayout,
    operands: Number,
) -> (Address, Address) {
    let (n, k) = layout.sizes(call.call.inputs[1]);
    let weight = call.inputs[1];
    let q = list.room(call, n * k * operands.bytes());
    let scales = list.room(call, n * 4);
    let by_rows = layout == WeightLayout::OutIn;
    let team = if by_rows { Team::of(k) } else { Team(32) };
    let source = team
        .source("quantised_linear/kernel.cu", include_str!("kernel.cu"))
        .define("W", call.type_of(1))
        .define("Q", operands.name());
    let arguments = Arguments::new().with(scales).with(weight).with(size(n)).with(size(k));
    let (kernel, grid) = match by_rows {
        true => ("scales_of_rows", team.grid(n)),
        false => {
            let threads = [WIDE as u32, TALL as u32, 1];
            ("scales_of_columns", Grid { blocks: [blocks(n, WIDE), 1, 1], threads, shared: 0 })
        }
    };
    list.launch(Launch { source: source.clone(), kernel, grid, arguments });
    let arguments = Arguments::new().with(q).with(weight).with(scales).with(size(n)).with(size(k));
    let grid = Grid::line(blocks(n * k, THREADS as usize), THREADS);
    list.launch(Launch { source, kernel: "quantise", grid, arguments: arguments.with(u32::from(by_rows)) });
    (q, scales)
}
