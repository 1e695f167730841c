//! The work of attention. The mathematical count has exactly the allowed pairs, as the specification counts
//! while it runs; a device that works on whole tiles counts the pairs of those instead ([`forward_of`],
//! [`backward_of`]).

use super::backward::Backward;
use super::form::{BiasForm, Extent, Form};
use super::mask::Known;
use super::spec::AttentionKind;
use regard_graph::{Concrete, Work};

pub fn forward(form: &Form, call: &Concrete<'_>) -> Work {
    let extent = Extent::new(call.inputs[0], call.inputs[1], Some(call.inputs[2]));
    let (pairs, rows) = Known::of_reader(form, extent, call, 3).allowed().count();
    forward_of(form, extent, call, pairs, rows)
}

/// The work of so many pairs of query and key, and rows of queries.
pub fn forward_of(form: &Form, extent: Extent, call: &Concrete<'_>, pairs: u64, rows: u64) -> Work {
    let (score_macs, score_flops) = form.score_work(extent.d);
    let (hard, dropped) = (u64::from(form.kind.is_hard()), u64::from(form.dropout > 0.0));
    let (soft, width) = (1 - hard, extent.e as u64);
    Work {
        macs: pairs * (score_macs + soft * width) + rows * hard * width,
        // Compare, subtract, exp and add for each pair; divide and drop where it is mixed; add and log.
        flops: pairs * (score_flops + 4 + soft * (1 + dropped)) + rows * (2 + hard * dropped),
        read: call.bytes_in(),
        written: call.bytes_out(),
    }
}

pub fn backward(op: &Backward, call: &Concrete<'_>) -> Work {
    let extent = Extent::new(call.inputs[0], call.inputs[1], Some(call.inputs[2]));
    let (pairs, rows) = Known::of_reader(&op.form, extent, call, op.base()).allowed().count();
    backward_of(op, extent, call, pairs, rows)
}

/// The work of so many pairs of query and key, and rows of queries.
pub fn backward_of(op: &Backward, extent: Extent, call: &Concrete<'_>, pairs: u64, rows: u64) -> Work {
    let form = &op.form;
    let (score_macs, score_flops) = form.score_work(extent.d);
    let (d, e) = (extent.d as u64, extent.e as u64);
    let (hard, dropped) = (u64::from(form.kind.is_hard()), u64::from(form.dropout > 0.0));
    let moves = u64::from(form.kind != AttentionKind::Hard);
    let (bias_macs, bias_flops) = match form.bias {
        BiasForm::None => (0, 0),
        BiasForm::Alibi => (1, 0),
        _ => (0, 1),
    };
    let noisy = u64::from(form.kind.temperature().is_some());
    let scale = u64::from(op.scale_output().is_some());
    // Each pair: its score again, dw from dy and v, dv, dq and dk; and the tables' own gradients.
    let pair_macs = score_macs + moves * e + (1 - hard) * e + 2 * d + hard * moves + scale + bias_macs;
    let capped = if form.cap.is_some() { 6 } else { 0 };
    let pair_flops = score_flops + capped + 5 + dropped * (moves + 1 - hard) + noisy + bias_flops;
    Work {
        macs: pairs * pair_macs + rows * e,
        flops: pairs * pair_flops + rows * (u64::from(op.dlse) + hard * dropped),
        read: call.bytes_in(),
        written: call.bytes_out(),
    }
}
