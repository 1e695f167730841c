//! The specification of the cross-entropy and of its gradient.

use super::targets::check_targets;
use super::{CrossEntropy, CrossEntropyBackward, gradient_flops, loss_flops};
use crate::{Fault, ReferenceCall};

/// The log-sum-exp of one row of logits and its loss for target `t`.
pub(crate) fn row_loss(logits: &[f64], t: usize, smoothing: f64) -> (f64, f64) {
    let most = logits.iter().fold(f64::NEG_INFINITY, |most, &x| most.max(x));
    let sum: f64 = logits.iter().map(|x| (x - most).exp()).sum();
    let lse = most + sum.ln();
    if smoothing == 0.0 {
        return (lse, lse - logits[t]);
    }
    let total: f64 = logits.iter().sum();
    (lse, lse - (1.0 - smoothing) * logits[t] - smoothing / logits.len() as f64 * total)
}

/// d · (softmax − target distribution), for one row.
pub(crate) fn row_gradient(logits: &[f64], lse: f64, t: usize, smoothing: f64, d: f64, into: &mut [f64]) {
    for (j, (y, x)) in into.iter_mut().zip(logits).enumerate() {
        let target = smoothing / logits.len() as f64 + if j == t { 1.0 - smoothing } else { 0.0 };
        *y = d * ((x - lse).exp() - target);
    }
}

pub fn run(op: &CrossEntropy, call: &mut ReferenceCall<'_>) -> Result<(), Fault> {
    let (logits, targets) = (call.inputs[0], call.inputs[1]);
    let v = logits.dims().last_size();
    check_targets("cross_entropy", targets.data().iter().map(|&id| id as i64), v, op.ignore_index)?;
    for (row, &id) in targets.data().iter().enumerate() {
        if id == op.ignore_index as f64 {
            continue;
        }
        let (lse, loss) = row_loss(logits.row(row), id as usize, op.label_smoothing as f64);
        call.outputs[0].data_mut()[row] = loss;
        call.outputs[1].data_mut()[row] = lse;
        call.count_flops(loss_flops(v, op.label_smoothing));
    }
    Ok(())
}

pub fn run_backward(op: &CrossEntropyBackward, call: &mut ReferenceCall<'_>) -> Result<(), Fault> {
    let [logits, targets, lse, dloss] = [call.inputs[0], call.inputs[1], call.inputs[2], call.inputs[3]];
    let v = logits.dims().last_size();
    let name = "cross_entropy_backward";
    check_targets(name, targets.data().iter().map(|&id| id as i64), v, op.ignore_index)?;
    for (row, &id) in targets.data().iter().enumerate() {
        if id == op.ignore_index as f64 {
            continue;
        }
        let (lse, d) = (lse.data()[row], dloss.data()[row]);
        let into = call.outputs[0].row_mut(row);
        row_gradient(logits.row(row), lse, id as usize, op.label_smoothing as f64, d, into);
        call.count_flops(gradient_flops(v, op.label_smoothing));
    }
    Ok(())
}
