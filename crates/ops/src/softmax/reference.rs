//! The specification of softmax, its logarithm, and their gradients.

use super::{Softmax, SoftmaxBackward};
use crate::ReferenceCall;

pub fn forward(op: &Softmax, call: &mut ReferenceCall<'_>) {
    let x = call.inputs[0];
    let (rows, width) = (x.dims().rows(), x.dims().last_size());
    if width == 0 {
        return;
    }
    for i in 0..rows {
        let scaled: Vec<f64> = x.row(i).iter().map(|x| op.beta as f64 * x).collect();
        let max = scaled.iter().fold(f64::NEG_INFINITY, |max, &s| if s > max { s } else { max });
        // In a row of −∞ alone every exponential is 0.
        let shift = if max == f64::NEG_INFINITY { 0.0 } else { max };
        let exps: Vec<f64> = scaled.iter().map(|s| (s - shift).exp()).collect();
        let sum: f64 = exps.iter().sum();
        let log_sum = if op.log { sum.ln() } else { 0.0 };
        for (k, y) in call.outputs[0].row_mut(i).iter_mut().enumerate() {
            *y = match (op.log, sum == 0.0) {
                (true, true) => f64::NEG_INFINITY,
                (true, false) => scaled[k] - shift - log_sum,
                (false, true) => 0.0,
                (false, false) => exps[k] / sum,
            };
        }
        // Scale, compare, subtract, exp, add; then divide, or subtract the logarithm.
        call.count_flops(6 * width + usize::from(op.log));
    }
}

pub fn backward(op: &SoftmaxBackward, call: &mut ReferenceCall<'_>) {
    let [y, dy] = [call.inputs[0], call.inputs[1]];
    let (rows, width) = (y.dims().rows(), y.dims().last_size());
    if width == 0 {
        return;
    }
    let beta = op.beta as f64;
    for i in 0..rows {
        let (y, dy) = (y.row(i), dy.row(i));
        let dead = op.log && y.iter().all(|&y| y == f64::NEG_INFINITY);
        let sum: f64 = y.iter().zip(dy).map(|(y, dy)| if op.log { *dy } else { dy * y }).sum();
        for (k, dx) in call.outputs[0].row_mut(i).iter_mut().enumerate() {
            *dx = match (op.log, dead) {
                (_, true) => 0.0,
                (true, false) => beta * (dy[k] - y[k].exp() * sum),
                (false, false) => beta * y[k] * (dy[k] - sum),
            };
        }
        call.count_macs(width);
        call.count_flops(3 * width);
    }
}
