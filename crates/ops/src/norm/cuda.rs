//! The norms on a card: a team of threads has a row, in registers, and passes over memory once.

use super::statistics::{MOST_COLUMNS, columns_of_part, parts_of_row};
use super::{Norm, NormBackward, NormKind};
use crate::cuda::products::number;
use crate::cuda::teams::{PART, Team, in_vectors, size};
use crate::sum_to::cuda::Columns;
use crate::{CudaCall, CudaList};
use regard_device::cuda::kernels::Launch;
use regard_device::cuda::{Address, Arguments, Number};

/// The most teams of the backward pass, each with sums of its own.
const MOST_TEAMS: usize = 1024;
/// The fewest rows of a team that sums.
const FEWEST_ROWS: usize = 4;

// The kernel that gathers statistics holds a part in the registers of a warp.
const _: () = assert!(MOST_COLUMNS == 16 * 32);

/// The team of a row that stays in registers.
fn team(width: usize) -> Team {
    match width {
        0..=1024 => Team(32),
        1025..=8192 => Team(256),
        _ => Team(512),
    }
}

/// The same where sums of columns stay there, too.
fn team_with_sums(width: usize) -> Team {
    match width {
        0..=512 => Team(32),
        513..=4096 => Team(128),
        _ => Team(512),
    }
}

fn type_of(dtype: Option<regard_graph::DType>) -> &'static str {
    dtype.map_or(Number::F32, number).name()
}

pub fn forward(op: &Norm, call: &CudaCall<'_>) -> CudaList {
    let mut list = CudaList::new();
    let (rows, width) = (call.call.inputs[0].rows(), call.call.inputs[0].last_size());
    let input = |at: Option<usize>| at.map_or(Address(0), |at| call.inputs[at]);
    let output = |at: Option<usize>| at.filter(|&at| call.used(at)).map_or(Address(0), |at| call.outputs[at]);
    let (y, sum) = (output(Some(0)), output(op.sum_at()));
    let (residual, scale, shift) =
        (input(op.residual.then_some(1)), input(op.scale_at()), input(op.shift_at()));
    let results = [y, sum, output(op.mean_at()), output(Some(op.rstd_at()))];
    if rows * width == 0 || results == [Address(0); 4] {
        return list;
    }
    let team = team(width);
    let source = team
        .source("norm/kernel.cu", include_str!("kernel.cu"))
        .define("PARTS", team.parts(width))
        .define("X", call.type_of(0))
        .define("R", type_of(op.residual.then(|| call.call.input_dtypes[1])))
        .define("H", type_of(op.sum_at().map(|at| call.call.output_dtypes[at])))
        .define("Y", call.out_type_of(0));
    let operands = [call.inputs[0], residual, scale, shift, input(op.statistics_at())];
    let vectors = in_vectors(width, &[y, sum, call.inputs[0], residual, scale, shift]);
    let sizes = [
        size(rows),
        size(width),
        size(parts_of_row(width)),
        size(columns_of_part(width)),
        u32::from(op.kind == NormKind::Layer),
        vectors,
    ];
    let mut addresses = [Address(0); 9];
    addresses[..4].copy_from_slice(&results);
    addresses[4..].copy_from_slice(&operands);
    let arguments = Arguments::new().with(addresses).with(sizes).with(op.spec.epsilon);
    list.launch(Launch { source, kernel: "norm_rows", grid: team.grid(rows), arguments });
    list
}

pub fn backward(op: &NormBackward, call: &CudaCall<'_>) -> CudaList {
    let mut list = CudaList::new();
    let (rows, width) = (call.call.inputs[1].rows(), call.call.inputs[1].last_size());
    let input = |at: Option<usize>| at.map_or(Address(0), |at| call.inputs[at]);
    let output = |at: Option<usize>| at.filter(|&at| call.used(at)).map_or(Address(0), |at| call.outputs[at]);
    let rounded_at = op.rounded.map(|_| 1);
    let (dh, rounded) = (output(Some(0)), output(rounded_at));
    let parameters = [op.scale_at(), op.shift_at()].map(output);
    let sums = parameters != [Address(0); 2];
    let team = team_with_sums(width);
    let each = if sums { rows.div_ceil(MOST_TEAMS).max(FEWEST_ROWS) } else { 1 };
    let teams = rows.div_ceil(each);
    let pitch = width.next_multiple_of(PART);
    let partial = if sums { list.room(call, teams * 2 * pitch * 4) } else { Address(0) };
    let (scale, stream) = (input(op.scale_input()), input(op.stream_at()));
    if rows * width > 0 && (sums || dh != Address(0) || rounded != Address(0)) {
        let source = team
            .source("norm/kernel_backward.cu", include_str!("kernel_backward.cu"))
            .define("PARTS", team.parts(width))
            .define("G", call.type_of(0))
            .define("H", call.type_of(1))
            .define("S", type_of(op.stream_at().map(|at| call.call.input_dtypes[at])))
            .define("Y", call.out_type_of(0))
            .define("Z", type_of(op.rounded));
        let [dy, h] = [call.inputs[0], call.inputs[1]];
        let (mean, rstd) = (input(op.mean_at()), input(Some(op.rstd_at())));
        let vectors = in_vectors(width, &[dh, rounded, dy, h, scale, stream]);
        let arguments = Arguments::new()
            .with([dh, rounded, partial, dy, h, mean, rstd, scale, stream])
            .with([size(rows), size(width), size(each), size(pitch), vectors]);
        list.launch(Launch { source, kernel: "norm_backward", grid: team.grid(teams), arguments });
    }
    for (to, offset) in parameters.into_iter().zip([0, pitch]) {
        if to != Address(0) {
            let from = (partial.after(offset * 4), Number::F32);
            Columns { rows: teams, width, stride: 2 * pitch }.sum(&mut list, call, to, from);
        }
    }
    list
}

/// What a norm of this kind has to know of rows of f32 that a product has made: [rows parts 3].
pub(crate) fn gather_statistics(
    kind: NormKind,
    to: Address,
    from: Address,
    rows: usize,
    width: usize,
) -> Launch {
    let (parts, columns) = (parts_of_row(width), columns_of_part(width));
    let team = Team(32);
    let source = team.source("norm/kernel_statistics.cu", include_str!("kernel_statistics.cu"));
    let arguments = Arguments::new().with(to).with(from).with(size(rows)).with(size(width));
    let arguments = arguments.with(size(parts)).with(size(columns)).with(u32::from(kind == NormKind::Layer));
    Launch { source, kernel: "gather_statistics", grid: team.grid(rows * parts), arguments }
}
