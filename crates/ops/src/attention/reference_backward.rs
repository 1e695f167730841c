//! The specification of attention's backward: the weights again from the log-sum-exp, then the chain rule
//! pair by pair. Each line quotes what the forward did.

use super::backward::Backward;
use super::bias::table_row;
use super::form::{BiasForm, Extra};
use super::reference::{Naive, rows_of};
use super::spec::AttentionKind;
use crate::{Array, Fault, ReferenceCall};
use std::borrow::Cow;

pub fn run(op: &Backward, call: &mut ReferenceCall<'_>) -> Result<(), Fault> {
    let form = &op.form;
    let pass = Pass {
        op,
        naive: Naive::new(form, call, true, op.base())?,
        value: call.operand(2, form.precision),
        dy: call.operand(4, form.precision),
        lse: call.inputs[3],
        saved: call.inputs[5],
        dlse: op.dlse.then(|| call.inputs[6]),
    };
    let extent = pass.naive.extent;
    for (b, t, h) in rows_of(extent.b, extent.t, extent.h) {
        let keys = pass.naive.keys(b, h, t);
        if keys.is_empty() {
            continue;
        }
        let row = pass.row(call, (b, t, h), keys);
        let mean = pass.mean(call, &row);
        for at in 0..row.keys.len() {
            pass.value_gradient(call, &row, at);
            pass.score_gradient(call, &row, at, mean);
        }
    }
    debug_assert!(form.has(Extra::Bias) == op.bias_output().is_some());
    Ok(())
}

/// What a backward pass reads.
struct Pass<'a> {
    op: &'a Backward,
    naive: Naive<'a>,
    value: Cow<'a, Array>,
    dy: Cow<'a, Array>,
    lse: &'a Array,
    /// y where it is soft, the chosen keys where it is hard.
    saved: &'a Array,
    dlse: Option<&'a Array>,
}

/// A query of one head, and all keys that it sees.
struct Row {
    b: usize,
    t: usize,
    h: usize,
    /// The key/value head.
    g: usize,
    /// Its place among those of lse.
    place: usize,
    keys: Vec<usize>,
    /// For each key: q·k, the weight, what dropout multiplies it by, the gradient of the weight.
    dots: Vec<f64>,
    weights: Vec<f64>,
    keep: Vec<f64>,
    dweights: Vec<f64>,
}

impl Pass<'_> {
    fn row(&self, call: &mut ReferenceCall<'_>, (b, t, h): (usize, usize, usize), keys: Vec<usize>) -> Row {
        let (naive, form, extent) = (&self.naive, &self.op.form, self.naive.extent);
        let (place, g) = (extent.row(b, t, h), h / extent.share());
        let (mut dots, mut weights, mut keep, mut dweights) = (vec![], vec![], vec![], vec![]);
        for &s in &keys {
            let (score, dot) = naive.score(call, b, h, t, s);
            dots.push(dot);
            weights.push((score - self.lse.data()[place]).exp()); // w = exp(score − lse)
            call.count_flops(2);
            keep.push(naive.keep(b, h, t, s));
            // y = Σ keep·w·v, so dw = keep·(dy·v); a hard y does not move with the scores.
            let mut dw = 0.0;
            if form.kind != AttentionKind::Hard {
                for e in 0..extent.e {
                    dw += self.dy[[b, t, h, e]] * self.value[[naive.row_of(b, s), s, g, e]];
                }
                call.count_macs(extent.e);
                if form.dropout > 0.0 {
                    dw *= naive.keep(b, h, t, s);
                    call.count_flops(1);
                }
            }
            dweights.push(dw);
        }
        Row { b, t, h, g, place, keys, dots, weights, keep, dweights }
    }

    /// What the softmax takes from dw: dscore = w·(dw − Σ w·dw), and Σ w·dw = dy·y where y is the soft one.
    fn mean(&self, call: &mut ReferenceCall<'_>, row: &Row) -> f64 {
        let Row { b, t, h, place, .. } = *row;
        let width = self.naive.extent.e;
        let mut mean = 0.0;
        match self.op.form.kind {
            AttentionKind::Hard => {}
            kind if kind.is_hard() => {
                // Taken from the chosen key's dw on: where all weight is on that key, nothing is left to
                // round.
                let chosen = row.keys.iter().position(|&s| self.saved.data()[place] == s as f64);
                let from = chosen.map_or(0.0, |at| row.dweights[at]);
                let pairs = row.weights.iter().zip(&row.dweights);
                mean = from + pairs.map(|(w, dw)| w * (dw - from)).sum::<f64>();
                call.count_macs(row.keys.len());
            }
            _ => {
                mean = (0..width).map(|e| self.dy[[b, t, h, e]] * self.saved[[b, t, h, e]]).sum();
                call.count_macs(width);
            }
        }
        if let Some(dlse) = self.dlse {
            mean -= dlse.data()[place]; // dlse/dscore = w
            call.count_flops(1);
        }
        mean
    }

    /// y = Σ weight·v, so dv = weight·dy.
    fn value_gradient(&self, call: &mut ReferenceCall<'_>, row: &Row, at: usize) {
        let Row { b, t, h, g, place, .. } = *row;
        let (form, s, width) = (&self.op.form, row.keys[at], self.naive.extent.e);
        let hard = form.kind.is_hard();
        let mut weight = if hard { f64::from(self.saved.data()[place] == s as f64) } else { row.weights[at] };
        if weight == 0.0 && hard {
            return;
        }
        if form.dropout > 0.0 {
            weight *= row.keep[at];
            call.count_flops(1);
        }
        for e in 0..width {
            call.outputs[2][[self.naive.row_of(b, s), s, g, e]] += weight * self.dy[[b, t, h, e]];
        }
        call.count_macs(width);
    }

    /// The gradient of a score, and what the query, the key and the learned terms get of it.
    fn score_gradient(&self, call: &mut ReferenceCall<'_>, row: &Row, at: usize, mean: f64) {
        let Row { b, t, h, g, .. } = *row;
        let (naive, s, width) = (&self.naive, row.keys[at], self.naive.extent.d);
        let key_row = naive.row_of(b, s);
        let mut dscore = row.weights[at] * (row.dweights[at] - mean);
        call.count_flops(2);
        if let Some(temperature) = self.op.form.kind.temperature() {
            dscore /= temperature as f64; // final score = (score + noise)/τ
            call.count_flops(1);
        }
        // score = cap(β·(q·k)) + bias
        let through = naive.slope(call, h, row.dots[at]) * dscore;
        let dscaled = naive.beta(h) * through;
        call.count_flops(1);
        for d in 0..width {
            call.outputs[0][[b, t, h, d]] += dscaled * naive.key[[key_row, s, g, d]];
            call.outputs[1][[key_row, s, g, d]] += dscaled * naive.query[[b, t, h, d]];
        }
        call.count_macs(2 * width);
        if let Some(output) = self.op.scale_output() {
            call.outputs[output].data_mut()[h] += through * row.dots[at];
            call.count_macs(1);
        }
        if let (Some(output), Some(bias)) = (self.op.bias_output(), naive.bias) {
            let distance = naive.distance(b, t, s);
            match self.op.form.bias {
                BiasForm::Alibi => {
                    call.outputs[output].data_mut()[h] -= distance.unsigned_abs() as f64 * dscore;
                    call.count_macs(1);
                }
                BiasForm::Dense => {
                    let at = naive.dense(bias).index(&naive.extent, b, h, t) * naive.extent.s + s;
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
