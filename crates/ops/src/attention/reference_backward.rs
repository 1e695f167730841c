//! The specification of attention's backward: the weights again from the log-sum-exp, then the chain rule pair
//! by pair. Each line quotes what the forward did.

use super::backward::Backward;
use super::bias::table_row;
use super::form::{BiasForm, Extent, Extra};
use super::reference::{Naive, rows_of};
use super::spec::AttentionKind;
use crate::{Fault, ReferenceCall};

pub fn run(op: &Backward, call: &mut ReferenceCall<'_>) -> Result<(), Fault> {
    let form = &op.form;
    let naive = Naive::new(form, call, true, op.base())?;
    let (value, dy) = (call.operand(2, form.precision), call.operand(4, form.precision));
    let (lse, saved) = (call.inputs[3], call.inputs[5]);
    let dlse = op.dlse.then(|| call.inputs[6]);
    let (hard, dropout) = (form.kind.is_hard(), form.dropout > 0.0);
    let extent @ Extent { b: batch, t: queries, h: heads, d: width, e: value_width, .. } = naive.extent;
    let (scale_output, bias_output) = (op.scale_output(), op.bias_output());
    for (b, t, h) in rows_of(batch, queries, heads) {
        let (keys, row, g) = (naive.keys(b, h, t), extent.row(b, t, h), h / extent.share());
        if keys.is_empty() {
            continue;
        }
        let (mut dots, mut weights, mut grown, mut dweights) = (vec![], vec![], vec![], vec![]);
        for &s in &keys {
            let (score, dot) = naive.score(call, b, h, t, s);
            dots.push(dot);
            weights.push((score - lse.data()[row]).exp()); // w = exp(score − lse)
            call.count_flops(2);
            grown.push(naive.keep(b, h, t, s));
            // y = Σ keep·w·v, so dw = keep·(dy·v); a hard y does not move with the scores.
            let mut dw = 0.0;
            if form.kind != AttentionKind::Hard {
                for e in 0..value_width {
                    dw += dy[[b, t, h, e]] * value[[naive.row_of(b, s), s, g, e]];
                }
                call.count_macs(value_width);
                if dropout {
                    dw *= naive.keep(b, h, t, s);
                    call.count_flops(1);
                }
            }
            dweights.push(dw);
        }
        // The softmax: dscore = w·(dw − Σ w·dw), and Σ w·dw = dy·y where y is the soft one.
        let mut mean = 0.0;
        match form.kind {
            AttentionKind::Hard => {}
            _ if hard => {
                // Taken from the chosen key's dw on: where all weight is on that key, nothing is left to round.
                let chosen = keys.iter().position(|&s| saved.data()[row] == s as f64);
                let from = chosen.map_or(0.0, |at| dweights[at]);
                mean = from + weights.iter().zip(&dweights).map(|(w, dw)| w * (dw - from)).sum::<f64>();
                call.count_macs(keys.len());
            }
            _ => {
                mean = (0..value_width).map(|e| dy[[b, t, h, e]] * saved[[b, t, h, e]]).sum();
                call.count_macs(value_width);
            }
        }
        if let Some(dlse) = dlse {
            mean -= dlse.data()[row]; // dlse/dscore = w
            call.count_flops(1);
        }
        for (at, &s) in keys.iter().enumerate() {
            let key_row = naive.row_of(b, s);
            // y = Σ weight·v, so dv = weight·dy.
            let mut weight = if hard { f64::from(saved.data()[row] == s as f64) } else { weights[at] };
            if weight != 0.0 || !hard {
                if dropout {
                    weight *= grown[at];
                    call.count_flops(1);
                }
                for e in 0..value_width {
                    call.outputs[2][[key_row, s, g, e]] += weight * dy[[b, t, h, e]];
                }
                call.count_macs(value_width);
            }
            let mut dscore = weights[at] * (dweights[at] - mean);
            call.count_flops(2);
            if let Some(temperature) = form.kind.temperature() {
                dscore /= temperature as f64; // final score = (score + noise)/τ
                call.count_flops(1);
            }
            // score = β·(q·k) + bias
            let dscaled = naive.beta(h) * dscore;
            call.count_flops(1);
            for d in 0..width {
                call.outputs[0][[b, t, h, d]] += dscaled * naive.key[[key_row, s, g, d]];
                call.outputs[1][[key_row, s, g, d]] += dscaled * naive.query[[b, t, h, d]];
            }
            call.count_macs(2 * width);
            if let Some(output) = scale_output {
                call.outputs[output].data_mut()[h] += dscore * dots[at];
                call.count_macs(1);
            }
            if let (Some(output), Some(bias)) = (bias_output, naive.bias) {
                let distance = naive.distance(b, t, s);
                match form.bias {
                    BiasForm::Alibi => {
                        call.outputs[output].data_mut()[h] -= distance.unsigned_abs() as f64 * dscore;
                        call.count_macs(1);
                    }
                    BiasForm::Dense => {
                        let at = naive.dense(bias).index(&extent, b, h, t) * extent.s + s;
                        call.outputs[output].data_mut()[at] += dscore;
                        call.count_flops(1);
                    }
                    form => {
                        call.outputs[output][[table_row(form, bias.dims()[0], distance), h]] += dscore;
                        call.count_flops(1);
                    }
                }
            }
        }
    }
    debug_assert!(form.has(Extra::Bias) == bias_output.is_some());
    Ok(())
}
