//! The work of attention as the CPU executes it: whole tiles or panels of pairs, those without an allowed
//! pair skipped.

use super::backward::Backward;
use super::cpu_sharing::{KEYS, QUERIES};
use super::form::{Extent, Form};
use super::mask::Known;
use super::{cost, cpu_backward};
use regard_device::PANEL;
use regard_graph::{Concrete, Work};

pub fn forward(form: &Form, call: &Concrete<'_>) -> Work {
    let extent = Extent::new(call.inputs[0], call.inputs[1], Some(call.inputs[2]));
    let known = Known::of_reader(form, extent, call, 3);
    let (_, rows) = known.allowed().count();
    let pairs = executed_pairs(&known, [QUERIES, KEYS], [QUERIES, PANEL]);
    cost::forward_of(form, extent, call, pairs, rows)
}

pub fn backward(op: &Backward, call: &Concrete<'_>) -> Work {
    let extent = Extent::new(call.inputs[0], call.inputs[1], Some(call.inputs[2]));
    let known = Known::of_reader(&op.form, extent, call, op.base());
    let (_, rows) = known.allowed().count();
    let tile = [cpu_backward::QUERIES, cpu_backward::KEYS];
    cost::backward_of(op, extent, call, executed_pairs(&known, tile, [PANEL, PANEL]), rows)
}

/// The pairs of whole tiles; or of the parts that are left out where positions and lengths allow none of
/// them, which a mask of single pairs is not asked for.
fn executed_pairs(known: &Known, tile: [usize; 2], part: [usize; 2]) -> u64 {
    let allowed = known.allowed();
    let [queries, keys] = if allowed.explicit.is_some() { tile } else { part };
    allowed.tiles(queries, keys) * (queries * keys) as u64
}
