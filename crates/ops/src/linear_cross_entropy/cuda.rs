//! The output projection with cross-entropy on a card, some rows at a time: their logits in f32, from them
//! losses and the gradients of the logits, and from these dx and what is added to dW and dbias. All rows are
//! projected: which of them are ignored only the card knows.

use super::LinearCrossEntropy;
use crate::cross_entropy::targets::no_such_class;
use crate::cuda::products::{compute, multiplied, number, writes};
use crate::cuda::teams::{PART, Team, in_vectors, size};
use crate::sum_to::cuda::Columns;
use crate::{CudaCall, CudaList, CudaProduct};
use regard_device::cuda::kernels::Launch;
use regard_device::cuda::{Address, Arguments, Grid, Layout, Number, Operands, Product, Source};

/// The most bytes of logits at a time. With GPT-2's vocabulary that is 2560 rows: each group of rows adds to
/// the whole of dW.
const LOGIT_BYTES: usize = 512 << 20;
/// Groups of rows are whole tiles of a product.
const TILE: usize = 128;

pub fn list(op: &LinearCrossEntropy, call: &CudaCall<'_>) -> CudaList {
    let mut list = CudaList::new();
    let rows = call.count(op.targets_input());
    let (v, c) = (call.call.inputs[1][0], call.call.inputs[1][1]);
    list.on_fault(move |row, id| no_such_class("linear_cross_entropy", row as usize, i64::from(id), v));
    let wants = |output: usize| output < call.outputs.len() && call.used(output);
    let [dx, dw, dbias] =
        [2, 3, 4].map(|output| if wants(output) { call.outputs[output] } else { Address(0) });
    let gradients = [dx, dw, dbias] != [Address(0); 3];
    let losses = if wants(1) { call.outputs[1] } else { list.room(call, rows * 4) };
    let operands = multiplied(op.precision);
    let (x, weight) = (list.factor(call, 0, op.precision), list.factor(call, 1, op.precision));
    let way = compute(call, op.precision);
    // Rows of logits begin at aligned addresses.
    let stride = v.next_multiple_of(PART);
    // Products of bf16 are several times as fast over a whole number of vectors: classes that do not exist
    // are rows of zeros, whose logits nobody reads and whose gradients are 0.
    let classes = if operands == Number::Bf16 { stride } else { v };
    let weight = list.padded(call, weight, [v, classes], c * operands.bytes());
    let at_once = rows_at_once(rows, stride);
    let logits = list.room(call, at_once * stride * 4);
    // Gradients of f32 take the place of the logits; others stand beside them, and these as f32, where a bias
    // sums them.
    let separate = operands == Number::Bf16 && gradients;
    let d = if separate { list.room(call, at_once * stride * 2) } else { logits };
    let dx_number = number(call.call.input_dtypes[0]);
    let wide_dx = dx != Address(0) && !writes(operands, dx_number);
    let dx_sums = if wide_dx { list.room(call, at_once * c * 4) } else { Address(0) };
    let apart = |layout: Layout| Layout { stride, ..layout };
    let team = Team::of(v);
    let source = team.source("linear_cross_entropy/kernel.cu", include_str!("kernel.cu"));
    let source = source.define("D", if separate { operands } else { Number::F32 }.name());
    // What one group of rows takes for itself the next one takes again.
    let (common, mut most) = (list.scratch, list.scratch);
    for first in (0..rows).step_by(at_once) {
        let n = at_once.min(rows - first);
        let x = x.after(first * c * operands.bytes());
        if c == 0 {
            list.clear(logits, n * stride * 4);
        } else {
            let product = Product::new(n, classes, c, operands, Number::F32).transposed_b().by(way);
            let product = Product { d: apart(product.d), ..product };
            let operands = Operands { a: x, b: weight, d: logits, ..Operands::default() };
            list.multiply(CudaProduct { product, alpha: 1.0, beta: 0.0, operands });
        }
        let bias = if op.bias { call.inputs[2] } else { Address(0) };
        let [targets, scale] = [op.targets_input(), op.scale_input()].map(|input| call.inputs[input]);
        let kept = separate && dbias != Address(0);
        let arguments =
            Arguments::new().with([d, losses, logits, bias, targets, scale, call.fault, call.stop]).with([
                size(first),
                size(n),
                size(v),
                size(stride),
                op.ignore_index as u32,
                op.label_smoothing.to_bits(),
                u32::from(gradients),
                u32::from(kept),
                in_vectors(0, &[bias]),
            ]);
        list.launch(Launch { source: source.clone(), kernel: "losses", grid: team.grid(n), arguments });
        if dx != Address(0) {
            let (to, result) = match wide_dx {
                true => (dx_sums, Number::F32),
                false => (dx.after(first * c * dx_number.bytes()), dx_number),
            };
            let product = Product::new(n, c, classes, operands, result).by(way);
            let product = Product { a: apart(product.a), ..product };
            let operands = Operands { a: d, b: weight, d: to, ..Operands::default() };
            list.multiply(CudaProduct { product, alpha: 1.0, beta: 0.0, operands });
            if wide_dx {
                let to = dx.after(first * c * dx_number.bytes());
                list.convert((to, dx_number), (dx_sums, Number::F32), n * c);
            }
        }
        if dw != Address(0) {
            let product = Product::new(v, c, n, operands, Number::F32).transposed_a().by(way);
            let product = Product { a: apart(product.a), ..product };
            let operands = Operands { a: d, b: x, c: dw, d: dw, ..Operands::default() };
            let beta = if first == 0 { 0.0 } else { 1.0 };
            list.multiply(CudaProduct { product, alpha: 1.0, beta, operands });
        }
        if dbias != Address(0) {
            let from = (logits, Number::F32);
            Columns { rows: n, width: v, stride }.sum_onto(&mut list, call, dbias, from, first > 0);
        }
        most = most.max(list.scratch);
        list.scratch = common;
    }
    list.scratch = most;
    if rows == 0 {
        list.clear(dw, if dw == Address(0) { 0 } else { v * c * 4 });
        list.clear(dbias, if dbias == Address(0) { 0 } else { v * 4 });
    }
    if wants(0) {
        let scale = call.inputs[op.scale_input()];
        list.launch(total(source, call.outputs[0], losses, scale, rows));
    }
    list
}

/// loss = scale times the sum of the losses of all rows.
fn total(source: Source, loss: Address, losses: Address, scale: Address, rows: usize) -> Launch {
    let arguments = Arguments::new().with(loss).with(losses).with(scale).with(size(rows));
    Launch { source, kernel: "total_loss", grid: Grid::line(1, 1024), arguments }
}

impl CudaList {
    /// A matrix with rows of zeros behind its own; itself, where it has enough.
    fn padded(&mut self, call: &CudaCall<'_>, at: Address, rows: [usize; 2], row_bytes: usize) -> Address {
        let [own, all] = rows;
        if own == all {
            return at;
        }
        let to = self.room(call, all * row_bytes);
        self.copy(to, at, own * row_bytes);
        self.clear(to.after(own * row_bytes), (all - own) * row_bytes);
        to
    }
}

/// How many of `rows` rows are worked on at a time: a matter of these two numbers alone, because it is part
/// of the order in which dW is summed.
fn rows_at_once(rows: usize, stride: usize) -> usize {
    let most = (LOGIT_BYTES / 4 / stride.max(1) / TILE * TILE).max(TILE);
    rows.min(most).max(1)
}
