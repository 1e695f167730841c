//! The work of weights on request: the allowed pairs that the request touches.

use super::WeightsRequest;
use crate::attention::{Extent, Form, Known};
use regard_graph::{Concrete, Work};

pub fn cost(form: &Form, request: &WeightsRequest, call: &Concrete<'_>) -> Work {
    let extent = Extent::new(call.inputs[0], call.inputs[1], None);
    let known = Known::of_reader(form, extent, call, 3);
    let allowed = known.allowed();
    let (all_queries, all_keys): (Vec<usize>, Vec<usize>) =
        ((0..extent.t).collect(), (0..extent.s).collect());
    let among = |queries: &[usize], keys: &[usize]| {
        let mut pairs = 0;
        for b in 0..extent.b {
            for h in 0..extent.h {
                for &t in queries.iter().filter(|&&t| t < extent.t) {
                    let found = keys.iter().filter(|&&s| s < extent.s && allowed.allows(b, h, t, s));
                    pairs += found.count() as u64;
                }
            }
        }
        pairs
    };
    let (pairs, rows) = match request {
        WeightsRequest::Rows(list) => (among(list, &all_keys), 0),
        WeightsRequest::Columns(list) => (among(&all_queries, list), 0),
        WeightsRequest::Block { queries, keys } => {
            (among(&queries.clone().collect::<Vec<_>>(), &keys.clone().collect::<Vec<_>>()), 0)
        }
        _ => allowed.count(),
    };
    let (mut macs, mut flops) = form.score_work(extent.d);
    flops += 2; // subtract, exp
    match request {
        WeightsRequest::TopK(_) | WeightsRequest::ColumnSums => flops += 1,
        WeightsRequest::Entropy => macs += 1,
        _ => {}
    }
    let (macs, flops) = match (form.kind.is_hard(), request) {
        (false, _) => (pairs * macs, pairs * flops),
        // Hard weights are read off the choice.
        (true, WeightsRequest::ColumnSums) => (0, rows),
        (true, _) => (0, 0),
    };
    Work { macs, flops, read: call.bytes_in(), written: call.bytes_out() }
}
