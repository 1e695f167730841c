//! The specification of the cross-entropy and of its gradient.

use super::targets::check_targets;
use super::{CrossEntropy, CrossEntropyBackward};
use crate::{Fault, ReferenceCall};

/// The log-sum-exp of one row of logits and its loss for target `t`. Counts its operations; what is made of
/// the settings alone counts nothing.
pub(crate) fn row_loss(logits: &[f64], t: usize, smoothing: f64, count: &mut usize) -> (f64, f64) {
    let (mut most, mut sum) = (f64::NEG_INFINITY, 0.0);
    for &x in logits {
        most = most.max(x);
        *count += 1;
    }
    for x in logits {
        sum += (x - most).exp();
        *count += 3;
    }
    let lse = most + sum.ln();
    *count += 2;
    if smoothing == 0.0 {
        *count += 1;
        return (lse, lse - logits[t]);
    }
    let mut total = 0.0;
    for x in logits {
        total += x;
        *count += 1;
    }
    *count += 4;
    (lse, lse - (1.0 - smoothing) * logits[t] - smoothing / logits.len() as f64 * total)
}

/// d · (softmax − target distribution), for one row. Counts its operations: nothing is subtracted where the
/// distribution is 0.
pub(crate) fn row_gradient(
    logits: &[f64],
    lse: f64,
    t: usize,
    smoothing: f64,
    d: f64,
    into: &mut [f64],
    count: &mut usize,
) {
    for (j, (y, x)) in into.iter_mut().zip(logits).enumerate() {
        let mut difference = (x - lse).exp();
        *count += 2;
        let mut target = smoothing / logits.len() as f64;
        if j == t {
            target += 1.0 - smoothing;
            *count += usize::from(smoothing != 0.0);
        }
        if target != 0.0 {
            difference -= target;
            *count += 1;
        }
        *y = d * difference;
        *count += 1;
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
        let mut count = 0;
        let (lse, loss) = row_loss(logits.row(row), id as usize, op.label_smoothing as f64, &mut count);
        call.outputs[0].data_mut()[row] = loss;
        call.outputs[1].data_mut()[row] = lse;
        call.count_flops(count);
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
        let mut count = 0;
        row_gradient(logits.row(row), lse, id as usize, op.label_smoothing as f64, d, into, &mut count);
        call.count_flops(count);
    }
    Ok(())
}
