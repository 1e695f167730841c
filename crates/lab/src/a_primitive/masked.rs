//! A row without any allowed key: defined, counted, and without effect on its neighbours.

use crate::attend::Scene;
use crate::compute::{compute, compute_on_cpu, differing};
use crate::picture::{Colours, Heat};
use crate::{Context, Finding, Number, Verdict};
use regard::ops::{Attention, AttentionMask, WeightsRequest};
use regard::prelude::*;
use regard::{Array, Result};

const QUERIES: usize = 5;
const KEYS: usize = 6;
/// The query that may see nothing.
const EMPTY: usize = 2;

/// Outputs, weights, empty rows, gradients of query, key and value; with or without the mask on one row.
fn record(g: &mut Graph, masked: bool) -> regard_graph::Result<Vec<Var>> {
    let q = g.input_with_gradient("query", [1, QUERIES, 1, 4])?;
    let k = g.input_with_gradient("key", [1, KEYS, 1, 4])?;
    let v = g.input_with_gradient("value", [1, KEYS, 1, 3])?;
    let allowed: Vec<f64> =
        (0..QUERIES * KEYS).map(|at| if masked && at / KEYS == EMPTY { 0.0 } else { 1.0 }).collect();
    let explicit = Some(g.constant(DType::Bool, [1, 1, QUERIES, KEYS], &allowed)?);
    let spec = Attention { mask: AttentionMask { explicit, ..Default::default() }, ..Default::default() };
    let attended = g.attention(q, k, v, &spec)?;
    let all = WeightsRequest::Block { queries: 0..QUERIES, keys: 0..KEYS };
    let [query, key, lse] = [g.stop_gradient(q)?, g.stop_gradient(k)?, g.stop_gradient(attended.lse)?];
    let weights = g.attention_weights(query, key, lse, &spec, all)?.values;
    let empty = g.empty_rows(attended.lse)?;
    let squares = g.square(attended.y)?;
    let loss = g.sum_all(squares)?;
    let gradients = g.gradient(loss, &[q, k, v])?;
    Ok([vec![attended.y, weights, empty], gradients].concat())
}

/// A10: forward and backward on a fully masked row, on both engines.
pub fn empty_rows(context: &Context) -> Result<Finding> {
    let scene = Scene::random(&mut context.draws("A10"), 1, QUERIES, KEYS, 4, 3);
    let feed = scene.feed()?;
    let exact = [compute(&feed, |g| record(g, true))?, compute(&feed, |g| record(g, false))?];
    let fast =
        [compute_on_cpu(&feed, 1, |g| record(g, true))?, compute_on_cpu(&feed, 1, |g| record(g, false))?];
    let zeros = |found: &[Array]| {
        let row = |at: usize, width: usize| found[at].data()[EMPTY * width..(EMPTY + 1) * width].to_vec();
        [row(0, 3), row(1, KEYS), row(3, 4)].concat().iter().filter(|x| **x != 0.0).count()
    };
    let broken = |found: &[Array]| found.iter().flat_map(|a| a.data()).filter(|x| !x.is_finite()).count();
    let others = |pair: &[Vec<Array>; 2], at: usize, width: usize| {
        let keep = |found: &[Array]| {
            let rows = found[at].data().chunks(width).enumerate().filter(|(row, _)| *row != EMPTY);
            rows.flat_map(|(_, row)| row.to_vec()).collect::<Vec<f64>>()
        };
        differing(&keep(&pair[0]), &keep(&pair[1]))
    };
    let mut finding = Finding::new(
        Verdict::Holds,
        "The empty row gives zeros, weights of zero and no gradient, and is counted; no other row changes a bit; nothing is NaN.",
    );
    for (engine, pair) in [("reference", &exact), ("CPU engine", &fast)] {
        finding = finding
            .number(Number::count(
                format!("{engine}: numbers of the empty row that are not 0"),
                zeros(&pair[0]),
                0,
            ))
            .number(Number::count(format!("{engine}: numbers that are not finite"), broken(&pair[0]), 0))
            .number(Number::equal(format!("{engine}: empty rows counted"), pair[0][2].data()[0], 1.0, 0.0))
            .number(Number::count(
                format!("{engine}: outputs of other rows with other bits"),
                others(pair, 0, 3),
                0,
            ))
            .number(Number::count(
                format!("{engine}: query gradients of other rows with other bits"),
                others(pair, 3, 4),
                0,
            ));
    }
    Ok(finding
        .picture(Heat::new(
            "Weights, query 3 with every key masked",
            "query",
            "key",
            KEYS,
            exact[0][1].data(),
            Colours::Rising,
        ))
        .how("One attention with an explicit mask, once with a row of it closed and once open, forward and backward, on both engines."))
}
