//! The specification of weights on request: one weight at a time.

use super::WeightsRequest;
use crate::attention::{Form, Naive, rows_of};
use crate::{Fault, ReferenceCall};

/// The allowed keys of one query among those wanted: index, score, weight. Of a hard row, the chosen one.
fn weights(
    naive: &Naive<'_>,
    call: &mut ReferenceCall<'_>,
    (b, h, t): (usize, usize, usize),
    wanted: impl Fn(usize) -> bool,
) -> Vec<(usize, f64, f64)> {
    let held = call.inputs[2].data()[naive.extent.row(b, t, h)];
    if naive.form.kind.is_hard() {
        return (0..naive.extent.s)
            .filter(|&s| s as f64 == held && wanted(s))
            .map(|s| (s, 0.0, 1.0))
            .collect();
    }
    let mut found = Vec::new();
    for s in naive.keys(b, h, t).into_iter().filter(|&s| wanted(s)) {
        let score = naive.score(call, b, h, t, s).0;
        call.count_flops(2);
        found.push((s, score, (score - held).exp()));
    }
    found
}

pub fn run(form: &Form, request: &WeightsRequest, call: &mut ReferenceCall<'_>) -> Result<(), Fault> {
    let naive = Naive::new(form, call, false, 3)?;
    let (extent, hard) = (naive.extent, form.kind.is_hard());
    for (b, t, h) in rows_of(extent.b, extent.t, extent.h) {
        let at = (b, h, t);
        match request {
            WeightsRequest::Rows(list) => {
                for n in (0..list.len()).filter(|&n| list[n] == t) {
                    for (s, _, w) in weights(&naive, call, at, |_| true) {
                        call.outputs[0][[b, h, n, s]] = w;
                    }
                }
            }
            WeightsRequest::Columns(list) => {
                for (n, &column) in list.iter().enumerate() {
                    for (_, _, w) in weights(&naive, call, at, |s| s == column) {
                        call.outputs[0][[b, h, t, n]] = w;
                    }
                }
            }
            WeightsRequest::Block { queries, keys } => {
                if queries.contains(&t) {
                    for (s, _, w) in weights(&naive, call, at, |s| keys.contains(&s)) {
                        call.outputs[0][[b, h, t - queries.start, s - keys.start]] = w;
                    }
                }
            }
            WeightsRequest::TopK(k) => {
                let mut found = weights(&naive, call, at, |_| true);
                call.count_flops(if hard { 0 } else { found.len() });
                found.sort_by(|x, y| y.1.total_cmp(&x.1)); // stable: the lowest index first
                for n in 0..*k {
                    let (index, weight) = found.get(n).map_or((-1.0, 0.0), |&(s, _, w)| (s as f64, w));
                    call.outputs[0][[b, t, h, n]] = weight;
                    call.outputs[1][[b, t, h, n]] = index;
                }
            }
            WeightsRequest::ColumnSums => {
                for (s, _, w) in weights(&naive, call, at, |_| true) {
                    call.outputs[0][[b, h, s]] += w;
                    call.count_flops(1);
                }
            }
            WeightsRequest::Entropy if hard => {}
            WeightsRequest::Entropy => {
                let lse = call.inputs[2].data()[extent.row(b, t, h)];
                for (_, score, w) in weights(&naive, call, at, |_| true) {
                    call.outputs[0][[b, t, h]] += w * (lse - score); // −w·ln w
                    call.count_macs(1);
                }
            }
        }
    }
    Ok(())
}
