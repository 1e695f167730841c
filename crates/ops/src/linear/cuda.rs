//! The product with a weight on a card: the library's product with its epilogue where that computes just what
//! is asked for, and otherwise the product in f32 with one pass behind it.
//!
//! A bias of f32 beside a result of bf16 the library refuses, and ReLU is left to the pass since the
//! library's hides NaN. The library's GELU is that of tanh, by the card's approximate tanh: where the result
//! is bf16 its rounding outweighs this, elsewhere the pass computes it.

use super::fused::{FusedLinear, Product as Kind};
use super::{Activation, LinearActivationBackward, WeightGradient, WeightLayout};
use crate::cuda::products::{compute, multiplied, number, writes};
use crate::cuda::teams::{THREADS, blocks, in_vectors, size};
use crate::norm::cuda::gather_statistics;
use crate::quantised_linear::cuda::quantise;
use crate::sum_to::cuda::Columns;
use crate::{CudaCall, CudaList, CudaProduct};
use regard_device::cuda::kernels::Launch;
use regard_device::cuda::{Address, Arguments, Compute, Epilogue, Grid, Number, Operands, Product, Source};

/// Sums that wait for the pass: so many bytes, that they wait in the card's cache.
const WAITING: usize = 32 << 20;
/// Rows of a piece of a product come in whole tiles.
const TILE: usize = 256;
/// Products of fewer rows have no epilogues but a bias.
const FEW: usize = 16;

/// What follows a product, in one pass.
struct Finish {
    activation: Activation,
    derivative: Activation,
    p: (Address, Number),
    y: (Address, Number),
    z: (Address, Number),
    at: (Address, Number),
    residual: (Address, Number),
    scale: Address,
    bias: Address,
}

/// What there is none of.
const NOTHING: (Address, Number) = (Address(0), Number::F32);

impl Finish {
    /// Nothing but the way from p to y.
    fn new(p: (Address, Number), y: (Address, Number)) -> Finish {
        let (activation, derivative) = (Activation::None, Activation::None);
        let [z, at, residual] = [NOTHING; 3];
        Finish { activation, derivative, p, y, z, at, residual, scale: Address(0), bias: Address(0) }
    }

    fn launch(&self, rows: usize, width: usize) -> Launch {
        let Finish { p, y, z, at, residual, .. } = *self;
        let code = |activation| match activation {
            Activation::None => 0,
            Activation::Relu => 1,
            Activation::Gelu => 2,
            Activation::GeluTanh => 3,
            Activation::Silu => 4,
        };
        let mut source = Source::new("linear/kernel.cu", include_str!("kernel.cu"))
            .define("ACTIVATION", code(self.activation))
            .define("DERIVATIVE", code(self.derivative));
        for (name, number) in [("P", p.1), ("Y", y.1), ("Z", z.1), ("D", at.1), ("R", residual.1)] {
            source = source.define(name, number.name());
        }
        let count = rows * width;
        let addresses = [y.0, z.0, p.0, self.scale, self.bias, at.0, residual.0];
        let arguments = Arguments::new().with(addresses).with(size(count)).with(size(width));
        let (kernel, each) = match in_vectors(width, &[y.0, z.0, p.0, at.0, residual.0]) {
            1 => ("finish_vectors", 8),
            _ => ("finish", 1),
        };
        let grid = Grid::line(blocks(count, THREADS as usize * each), THREADS);
        Launch { source, kernel, grid, arguments }
    }

    /// The same from a row on.
    fn at_row(&self, p: Address, row: usize, width: usize) -> Finish {
        let from = |(at, number): (Address, Number)| match at {
            Address(0) => (at, number),
            at => (at.after(row * width * number.bytes()), number),
        };
        let Finish { y, z, at, residual, .. } = *self;
        let [y, z, at, residual] = [y, z, at, residual].map(from);
        Finish { p: (p, Number::F32), y, z, at, residual, ..*self }
    }
}

/// What a product with a weight and everything joined with it is given to do.
pub fn linear(op: &FusedLinear, call: &CudaCall<'_>) -> CudaList {
    let mut list = CudaList::new();
    let linear = op.linear();
    let (n, k) = linear.layout.sizes(call.call.inputs[1]);
    let m = call.call.inputs[0].rows();
    let wants = |output: &usize| call.used(*output);
    let (z, statistics) = (linear.z_at().filter(wants), op.statistics_at().filter(wants));
    let wants_y = call.used(0) || statistics.is_some();
    if m * n == 0 || (!wants_y && z.is_none()) {
        return list;
    }
    // The factors, and one for each column of the result where the weight is made of integers.
    let (operands, a, b, scale) = match op.product {
        Kind::Linear(_) => {
            let [a, b] = [0, 1].map(|input| list.factor(call, input, linear.precision));
            (multiplied(linear.precision), a, b, Address(0))
        }
        Kind::Quantised(_) => {
            // Integers are exact in either kind of number: x decides.
            let operands = number(call.call.input_dtypes[0]);
            let (b, scale) = quantise(&mut list, call, linear.layout, operands);
            (operands, call.inputs[0], b, scale)
        }
    };
    let way = match op.product {
        Kind::Linear(_) => compute(call, linear.precision),
        Kind::Quantised(_) => Compute::Exact,
    };
    let product = |rows: usize, result: Number| {
        let product = Product::new(rows, n, k, operands, result).by(way);
        let product = if linear.layout == WeightLayout::OutIn { product.transposed_b() } else { product };
        Product { bias: Number::F32, ..product }
    };
    let input =
        |at: Option<usize>| at.map_or(NOTHING, |at| (call.inputs[at], number(call.call.input_dtypes[at])));
    let output =
        |at: Option<usize>| at.map_or(NOTHING, |at| (call.outputs[at], number(call.call.output_dtypes[at])));
    let mut rest = Finish {
        activation: linear.activation,
        derivative: op.derivative.unwrap_or(Activation::None),
        p: NOTHING,
        y: output(Some(0)),
        z: output(z),
        at: input(op.z_input()),
        residual: input(linear.residual_input()),
        scale,
        bias: input(linear.bias_input()).0,
    };
    if !wants_y {
        // Only the gradient reads this product: what came before the activation is all it needs.
        rest = Finish { scale, bias: rest.bias, ..Finish::new(NOTHING, rest.z) };
    } else if !call.used(0) {
        rest.y = (list.room(call, m * n * 4), Number::F32);
    }
    let sizes = Sizes { operands, m, n, k };
    if let Some(epilogue) = sizes.epilogue(&rest) {
        let aux = match epilogue {
            Epilogue::Gelu { keep: true, .. } => rest.z,
            Epilogue::GeluBackward { .. } => rest.at,
            _ => (Address(0), rest.y.1),
        };
        let product = Product { aux: aux.1, ..product(m, rest.y.1).with(epilogue) };
        let beta = if rest.residual.0 == Address(0) { 0.0 } else { 1.0 };
        let (c, d) = (rest.residual.0, rest.y.0);
        let operands = Operands { a, b, c, d, bias: rest.bias, aux: aux.0, ..Operands::default() };
        list.product(CudaProduct { product, alpha: 1.0, beta, operands });
    } else {
        // Sums lie where y will, if that is as wide; else some rows at a time wait in scratch.
        let in_place = rest.y.1 == Number::F32;
        let rows = if in_place { m } else { (WAITING / 4 / n / TILE * TILE).max(TILE).min(m) };
        let waiting = if in_place { Address(0) } else { list.room(call, rows * n * 4) };
        for first in (0..m).step_by(rows) {
            let rows = rows.min(m - first);
            let p = if in_place { rest.y.0 } else { waiting };
            let a = a.after(first * k * operands.bytes());
            let operands = Operands { a, b, d: p, ..Operands::default() };
            let product = product(rows, Number::F32);
            list.multiply(CudaProduct { product, alpha: 1.0, beta: 0.0, operands });
            list.launch(rest.at_row(p, first, n).launch(rows, n));
        }
    }
    if let (Some(at), Some(kind)) = (statistics, op.statistics) {
        list.launch(gather_statistics(kind, call.outputs[at], rest.y.0, m, n));
    }
    list
}

/// What decides whether the library has an epilogue.
struct Sizes {
    operands: Number,
    m: usize,
    n: usize,
    k: usize,
}

impl Sizes {
    /// The epilogue that does everything, beside a residual as C; `None` where there is none.
    fn epilogue(&self, rest: &Finish) -> Option<Epilogue> {
        let bias = rest.bias != Address(0);
        let aligned = |at: Address| at.0.is_multiple_of(16);
        let residual = rest.residual.0 != Address(0);
        let possible = self.k > 0
            && writes(self.operands, rest.y.1)
            && rest.scale == Address(0)
            // A bias is of the result's numbers, or the library refuses it.
            && (!bias || (rest.y.1 == Number::F32 && aligned(rest.bias)))
            && (!residual || rest.residual.1 == rest.y.1);
        if !possible {
            return None;
        }
        let even = [self.n, self.k].iter().all(|size| size.is_multiple_of(8)) && self.m >= FEW;
        let halves = self.operands == Number::Bf16 && rest.y.1 == Number::Bf16 && aligned(rest.y.0);
        let fits = even && halves && !residual;
        match (rest.activation, rest.derivative) {
            (Activation::None, Activation::None) => Some(if bias { Epilogue::Bias } else { Epilogue::None }),
            (Activation::GeluTanh, Activation::None) => {
                let keep = rest.z.0 != Address(0);
                let kept = !keep || (rest.z.1 == Number::Bf16 && aligned(rest.z.0));
                (fits && kept).then_some(Epilogue::Gelu { bias: false, keep })
            }
            (Activation::None, Activation::GeluTanh) => {
                let known = rest.at.1 == Number::Bf16 && aligned(rest.at.0);
                (fits && known).then_some(Epilogue::GeluBackward { sums: false })
            }
            _ => None,
        }
    }
}

/// `dz = dy · activation′(z)`.
pub fn activation_backward(op: &LinearActivationBackward, call: &CudaCall<'_>) -> CudaList {
    let mut list = CudaList::new();
    if call.used(0) && call.out_count(0) > 0 {
        let [z, dy] = [0, 1].map(|input| (call.inputs[input], number(call.call.input_dtypes[input])));
        let dz = (call.outputs[0], number(call.call.output_dtypes[0]));
        let finish = Finish { derivative: op.activation, at: z, ..Finish::new(dy, dz) };
        let dims = call.call.outputs[0];
        list.launch(finish.launch(dims.rows(), dims.last_size()));
    }
    list
}

/// `out[a b] = Σ left[... a] · right[... b]`, and the sums of the left factor as it is before any rounding.
pub fn weight_gradient(op: &WeightGradient, call: &CudaCall<'_>) -> CudaList {
    let mut list = CudaList::new();
    let (rows, n, k) = (call.call.inputs[0].rows(), call.call.outputs[0][0], call.call.outputs[0][1]);
    if call.used(0) && n * k > 0 {
        let [a, b] = [0, 1].map(|input| list.factor(call, input, op.precision));
        let product = Product::new(n, k, rows, multiplied(op.precision), Number::F32);
        let product = product.transposed_a().by(compute(call, op.precision));
        list.multiply_to(call, product, 1.0, [a, b], (call.outputs[0], number(op.output)));
    }
    if op.sums && call.used(1) {
        let left = (call.inputs[0], number(call.call.input_dtypes[0]));
        Columns { rows, width: n, stride: n }.sum(&mut list, call, call.outputs[1], left);
    }
    list
}
