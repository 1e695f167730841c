//! The specification of the output projection with cross-entropy: row by row, every output.

use super::LinearCrossEntropy;
use crate::cross_entropy::reference::{row_gradient, row_loss};
use crate::cross_entropy::targets::check_targets;
use crate::{Fault, ReferenceCall, round_bf16};
use regard_graph::Precision;

pub fn run(op: &LinearCrossEntropy, call: &mut ReferenceCall<'_>) -> Result<(), Fault> {
    let (x, weight) = (call.operand(0, op.precision), call.operand(1, op.precision));
    let bias = op.bias.then(|| call.inputs[2]);
    let targets = call.inputs[op.targets_input()];
    let scale = call.inputs[op.scale_input()].data()[0];
    let (v, c) = (weight.dims()[0], weight.dims()[1]);
    let smoothing = op.label_smoothing as f64;
    let ids = targets.data().iter().map(|&id| id as i64);
    check_targets("linear_cross_entropy", ids, v, op.ignore_index)?;
    let rounds = call.rounded && op.precision == Precision::Bf16;
    let mut total = 0.0;
    for (row, &id) in targets.data().iter().enumerate() {
        if id == op.ignore_index as f64 {
            continue;
        }
        let x = &x.data()[row * c..(row + 1) * c];
        let mut logits = vec![0.0; v];
        for (j, logit) in logits.iter_mut().enumerate() {
            for i in 0..c {
                *logit += x[i] * weight[[j, i]];
                call.count_macs(1);
            }
            if let Some(bias) = bias {
                *logit += bias.data()[j];
                call.count_flops(1);
            }
        }
        let mut count = 0;
        let (lse, loss) = row_loss(&logits, id as usize, smoothing, &mut count);
        call.outputs[1].data_mut()[row] = loss;
        total += loss;
        call.count_flops(count + 1);

        let (mut d, mut count) = (vec![0.0; v], 0);
        row_gradient(&logits, lse, id as usize, smoothing, scale, &mut d, &mut count);
        if call.used[2..].contains(&true) {
            call.count_flops(count);
        }
        for (j, &d) in d.iter().enumerate() {
            if op.bias {
                call.outputs[4].data_mut()[j] += d;
                call.count_flops(usize::from(call.used[4]));
            }
            let d = if rounds { round_bf16(d) } else { d };
            for i in 0..c {
                call.outputs[2].data_mut()[row * c + i] += d * weight[[j, i]];
                call.outputs[3][[j, i]] += d * x[i];
                call.count_macs(usize::from(call.used[2]) + usize::from(call.used[3]));
            }
        }
    }
    call.outputs[0].data_mut()[0] = scale * total;
    call.count_flops(1);
    Ok(())
}
