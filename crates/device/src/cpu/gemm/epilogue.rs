//! What happens to a product before it is stored: scale, bias, activation, derivative, residual, rounding;
//! and what is noted of its rows for the norm that follows. Done once per tile, on f32 values that are still
//! in a cache; where nothing happens, kernels write to the output itself.

use super::PANEL;
use super::kernel::Tile;
use super::matrix::{Data, DataMut, Matrix, MatrixMut};
use super::product::TILE_ROW;
use super::statistics::{self, RowStatistics, STATISTICS};
use crate::cpu::threads::Disjoint;
use crate::cpu::{convert, math};
use half::bf16;

/// The function of single numbers that a product applies before it stores them: what the kernels can do, to
/// which the activations of ops are mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Pointwise {
    /// The identity.
    #[default]
    None,
    /// max(x, 0).
    Relu,
    /// x Phi(x).
    Gelu,
    /// GELU in its tanh form.
    GeluTanh,
    /// x sigmoid(x).
    Silu,
}

impl Pointwise {
    /// The value at x.
    #[inline(always)]
    pub fn apply(self, x: f32) -> f32 {
        match self {
            Pointwise::None => x,
            Pointwise::Relu => math::relu(x),
            Pointwise::Gelu => math::gelu(x),
            Pointwise::GeluTanh => math::gelu_tanh(x),
            Pointwise::Silu => math::silu(x),
        }
    }

    /// The derivative at x.
    #[inline(always)]
    pub fn derivative(self, x: f32) -> f32 {
        match self {
            Pointwise::None => 1.0,
            Pointwise::Relu => math::relu_derivative(x),
            Pointwise::Gelu => math::gelu_derivative(x),
            Pointwise::GeluTanh => math::gelu_tanh_derivative(x),
            Pointwise::Silu => math::silu_derivative(x),
        }
    }
}

/// What to do with `s = A · B` before it is stored, in this order: `v = scale · s + bias`; `pre = v`;
/// `y = activation(v) · derivative′(z) + residual`; `C = y`, or `C += y`.
#[derive(Debug)]
pub struct Epilogue<'a> {
    /// Factor of the product; applied only if it is not 1.
    pub scale: f32,
    /// One number for each column.
    pub bias: Option<&'a [f32]>,
    /// Also store the value before the activation, here.
    pub pre: Option<MatrixMut<'a>>,
    /// Applied after the bias.
    pub activation: Pointwise,
    /// Multiplied by the derivative of this activation at z, whose columns must be contiguous: what a
    /// gradient goes through on its way to before an activation.
    pub derivative: Option<(Pointwise, Matrix<'a>)>,
    /// Added at the end; columns must be contiguous.
    pub residual: Option<Matrix<'a>>,
    /// Add to the output instead of replacing it; f32 output only.
    pub accumulate: bool,
    /// Also the statistics of the rows of C, which is f32 and not added to.
    pub statistics: Option<RowStatistics<'a>>,
}

impl Default for Epilogue<'_> {
    fn default() -> Self {
        Epilogue {
            scale: 1.0,
            bias: None,
            pre: None,
            activation: Pointwise::None,
            derivative: None,
            residual: None,
            accumulate: false,
            statistics: None,
        }
    }
}

/// An output that tasks write in parts.
pub(super) enum Target<'a> {
    F32(Disjoint<'a, f32>, usize),
    Bf16(Disjoint<'a, bf16>, usize),
}

impl<'a> Target<'a> {
    pub(super) fn new(matrix: MatrixMut<'a>) -> Self {
        match matrix.data {
            DataMut::F32(data) => Target::F32(Disjoint::new(data), matrix.row_stride),
            DataMut::Bf16(data) => Target::Bf16(Disjoint::new(data), matrix.row_stride),
        }
    }

    /// A part of one row.
    ///
    /// # Safety
    /// No two parts in use share an element.
    unsafe fn part(&self, row: usize, column: usize, width: usize) -> RowMut<'_> {
        // SAFETY: passed on to the caller.
        unsafe {
            match self {
                Target::F32(data, stride) => {
                    let start = row * stride + column;
                    RowMut::F32(data.range(start..start + width))
                }
                Target::Bf16(data, stride) => {
                    let start = row * stride + column;
                    RowMut::Bf16(data.range(start..start + width))
                }
            }
        }
    }
}

/// The epilogue of one product, shared by its tasks.
pub(super) struct Finish<'a> {
    pub scale: f32,
    pub bias: Option<&'a [f32]>,
    pub pre: Option<Target<'a>>,
    pub activation: Pointwise,
    pub derivative: Option<(Pointwise, Matrix<'a>)>,
    pub residual: Option<Matrix<'a>>,
    pub accumulate: bool,
    pub out: Target<'a>,
    pub statistics: Option<Parts<'a>>,
}

/// Statistics of rows, which tasks write for whole parts of their columns.
pub(super) struct Parts<'a> {
    centred: bool,
    columns: usize,
    of_row: usize,
    to: Disjoint<'a, f32>,
}

impl<'a> Parts<'a> {
    /// For rows of n.
    pub(super) fn new(statistics: RowStatistics<'a>, n: usize) -> Self {
        let RowStatistics { centred, parts } = statistics;
        let (columns, of_row) = (statistics::columns_of_part(n), statistics::parts_of_row(n));
        Parts { centred, columns, of_row, to: Disjoint::new(parts) }
    }

    /// Notes the part of a row that begins with this column. Changes the values.
    ///
    /// # Safety
    /// No other task works on this part at the same time.
    unsafe fn note(&self, level: crate::Level, values: &mut [f32], row: usize, column: usize) {
        debug_assert!(column.is_multiple_of(self.columns) && values.len() <= self.columns, "a whole part");
        let at = (row * self.of_row + column / self.columns) * STATISTICS;
        // SAFETY: passed on to the caller.
        let to = unsafe { self.to.range(at..at + STATISTICS) };
        to.copy_from_slice(&statistics::of(level, values, self.centred));
    }
}

impl Finish<'_> {
    /// The output's rows from (`row`, `column`) on, if a kernel may write its sums there because nothing else
    /// happens to them. Where a kernel does not add a whole sum at once to what is there, the sum comes
    /// together in a tile.
    pub(super) fn in_place(
        &self,
        (row, rows): (usize, usize),
        (column, columns): (usize, usize),
        one_sum: bool,
    ) -> Option<Tile> {
        let Finish { scale, bias, pre, activation, derivative, residual, accumulate, out, statistics } = self;
        let plain = *scale == 1.0
            && bias.is_none()
            && pre.is_none()
            && *activation == Pointwise::None
            && derivative.is_none()
            && residual.is_none()
            && statistics.is_none();
        match out {
            Target::F32(data, stride)
                if plain && columns.is_multiple_of(PANEL) && (one_sum || !accumulate) =>
            {
                let first = row * stride + column;
                let c = data.tile(first, rows, *stride, columns);
                Some(Tile { c, stride: *stride, add: *accumulate })
            }
            _ => None,
        }
    }
}

/// A part of one row of an operand.
fn part(matrix: Matrix<'_>, row: usize, column: usize, width: usize) -> Data<'_> {
    let start = row * matrix.row_stride + column;
    match matrix.data {
        Data::F32(data) => Data::F32(&data[start..start + width]),
        Data::Bf16(data) => Data::Bf16(&data[start..start + width]),
    }
}

enum RowMut<'a> {
    F32(&'a mut [f32]),
    Bf16(&'a mut [bf16]),
}

impl RowMut<'_> {
    #[inline(always)]
    fn store(self, values: &[f32]) {
        match self {
            RowMut::F32(out) => out.copy_from_slice(values),
            RowMut::Bf16(out) => {
                for (out, x) in out.iter_mut().zip(values) {
                    *out = convert::narrow(*x);
                }
            }
        }
    }
}

impl Finish<'_> {
    /// Finishes one row of a tile: `values` are columns `column..` of row `row`.
    ///
    /// # Safety
    /// No other task works on these elements of the outputs at the same time.
    pub(super) unsafe fn row(&self, level: crate::Level, values: &mut [f32], row: usize, column: usize) {
        let width = values.len();
        let bias = self.bias.map(|bias| &bias[column..column + width]);
        let derivative = self.derivative.map(|(activation, z)| (activation, part(z, row, column, width)));
        let residual = self.residual.map(|matrix| part(matrix, row, column, width));
        // SAFETY: passed on to the caller; `pre` and `out` are different borrows.
        let (pre, out) = unsafe {
            (self.pre.as_ref().map(|pre| pre.part(row, column, width)), self.out.part(row, column, width))
        };
        let Finish { scale, activation, accumulate, .. } = *self;
        finish_row(level, values, scale, bias, pre, activation, derivative, residual, accumulate, out);
        if let Some(statistics) = &self.statistics {
            // SAFETY: passed on to the caller; tasks have whole parts.
            unsafe { statistics.note(level, values, row, column) };
        }
    }

    /// Notes the statistics of a row that tasks have stored in pieces.
    ///
    /// # Safety
    /// No other task works on this row any more.
    pub(super) unsafe fn note_row(&self, level: crate::Level, statistics: &Parts<'_>, row: usize, n: usize) {
        let mut room = [0.0; TILE_ROW];
        for column in (0..n).step_by(statistics.columns) {
            let width = statistics.columns.min(n - column);
            // SAFETY: passed on to the caller.
            let RowMut::F32(stored) = (unsafe { self.out.part(row, column, width) }) else {
                unreachable!("checked: statistics are those of an f32 output");
            };
            let room = &mut room[..width];
            room.copy_from_slice(stored);
            // SAFETY: passed on to the caller.
            unsafe { statistics.note(level, room, row, column) };
        }
    }
}

/// [`times_derivative`] for use inside a `multiversion!` body.
#[inline(always)]
fn times_derivative_inline(values: &mut [f32], activation: Pointwise, z: Data<'_>) {
    // One loop for each activation and dtype, so that each vectorises; plain loops, because the body of a
    // `for_each` may stay out of line, and then it is compiled without the level's instructions.
    macro_rules! times {
        ($kind:expr) => {
            match z {
                Data::F32(z) => {
                    for (x, z) in values.iter_mut().zip(z) {
                        *x *= $kind.derivative(*z);
                    }
                }
                Data::Bf16(z) => {
                    for (x, z) in values.iter_mut().zip(z) {
                        *x *= $kind.derivative(convert::widen(*z));
                    }
                }
            }
        };
    }
    match activation {
        Pointwise::None => (),
        Pointwise::Relu => times!(Pointwise::Relu),
        Pointwise::Gelu => times!(Pointwise::Gelu),
        Pointwise::GeluTanh => times!(Pointwise::GeluTanh),
        Pointwise::Silu => times!(Pointwise::Silu),
    }
}

crate::multiversion! {
    /// Multiplies values by the derivative of an activation at z, one by one.
    pub fn times_derivative(values: &mut [f32], activation: Pointwise, z: Data<'_>) {
        times_derivative_inline(values, activation, z);
    }

    fn finish_row(
        values: &mut [f32],
        scale: f32,
        bias: Option<&[f32]>,
        pre: Option<RowMut<'_>>,
        activation: Pointwise,
        derivative: Option<(Pointwise, Data<'_>)>,
        residual: Option<Data<'_>>,
        accumulate: bool,
        out: RowMut<'_>,
    ) {
        if scale != 1.0 {
            values.iter_mut().for_each(|x| *x *= scale);
        }
        if let Some(bias) = bias {
            values.iter_mut().zip(bias).for_each(|(x, b)| *x += b);
        }
        if let Some(pre) = pre {
            pre.store(values);
        }
        match activation {
            Pointwise::None => (),
            Pointwise::Relu => values.iter_mut().for_each(|x| *x = math::relu(*x)),
            Pointwise::Gelu => values.iter_mut().for_each(|x| *x = math::gelu(*x)),
            Pointwise::GeluTanh => values.iter_mut().for_each(|x| *x = math::gelu_tanh(*x)),
            Pointwise::Silu => values.iter_mut().for_each(|x| *x = math::silu(*x)),
        }
        if let Some((activation, z)) = derivative {
            times_derivative_inline(values, activation, z);
        }
        match residual {
            None => (),
            Some(Data::F32(add)) => values.iter_mut().zip(add).for_each(|(x, r)| *x += r),
            Some(Data::Bf16(add)) => values.iter_mut().zip(add).for_each(|(x, r)| *x += convert::widen(*r)),
        }
        match out {
            RowMut::F32(out) if accumulate => out.iter_mut().zip(values).for_each(|(c, x)| *c += *x),
            out => out.store(values),
        }
    }
}
