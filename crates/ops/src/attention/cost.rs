//! The work of attention. The mathematical count has exactly the allowed pairs, as the specification counts
//! while it runs; the executed one has whole tiles or panels of them, those without an allowed pair skipped.

use super::backward::Backward;
use super::cpu;
use super::cpu_backward;
use super::form::{BiasForm, Extent, Form};
use super::mask::Known;
use super::spec::AttentionKind;
use regard_device::PANEL;
use regard_graph::{Concrete, Cost, Work};

pub fn forward(form: &Form, call: &Concrete<'_>) -> Cost {
    let extent = Extent::new(call.inputs[0], call.inputs[1], Some(call.inputs[2]));
    let known = Known::of_reader(form, extent, call, 3);
    let (pairs, rows) = known.allowed().count();
    let (score_macs, score_flops) = form.score_work(extent.d);
    let (hard, dropped) = (u64::from(form.kind.is_hard()), u64::from(form.dropout > 0.0));
    let (soft, width) = (1 - hard, extent.e as u64);
    let work = |pairs: u64, rows: u64| Work {
        macs: pairs * (score_macs + soft * width) + rows * hard * width,
        // Compare, subtract, exp and add for each pair; divide and drop where it is mixed; add and log.
        flops: pairs * (score_flops + 4 + soft * (1 + dropped)) + rows * (2 + hard * dropped),
        read: call.bytes_in(),
        written: call.bytes_out(),
    };
    let executed = work(executed_pairs(&known, [cpu::QUERIES, cpu::KEYS], [cpu::QUERIES, PANEL]), rows);
    Cost { math: work(pairs, rows), executed }
}

pub fn backward(op: &Backward, call: &Concrete<'_>) -> Cost {
    let form = &op.form;
    let extent = Extent::new(call.inputs[0], call.inputs[1], Some(call.inputs[2]));
    let known = Known::of_reader(form, extent, call, op.base());
    let (pairs, rows) = known.allowed().count();
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
    let pair_flops = score_flops + 5 + dropped * (moves + 1 - hard) + noisy + bias_flops;
    let work = |pairs: u64| Work {
        macs: pairs * pair_macs + rows * e,
        flops: pairs * pair_flops + rows * (u64::from(op.dlse) + hard * dropped),
        read: call.bytes_in(),
        written: call.bytes_out(),
    };
    let tile = [cpu_backward::QUERIES, cpu_backward::KEYS];
    Cost { math: work(pairs), executed: work(executed_pairs(&known, tile, [PANEL, PANEL])) }
}

/// The pairs of whole tiles; or of the parts that are left out where positions and lengths allow none of them, which a
/// mask of single pairs is not asked for.
fn executed_pairs(known: &Known, tile: [usize; 2], part: [usize; 2]) -> u64 {
    let allowed = known.allowed();
    let [queries, keys] = if allowed.explicit.is_some() { tile } else { part };
    allowed.tiles(queries, keys) * (queries * keys) as u64
}
