//! A mask of keys together with the causal one, over several heads.

use crate::compute::{array, compute, compute_on_cpu, differing};
use crate::picture::{Colours, Heat};
use crate::{Context, Finding, Number, Verdict};
use regard::ops::{Attention, AttentionMask, WeightsRequest};
use regard::prelude::*;
use regard::{Array, Result};

const BATCH: usize = 2;
const LENGTH: usize = 6;
const HEADS: usize = 3;
/// Which keys are real: the first example is padded on the right, the second on the left.
const REAL: [[bool; LENGTH]; BATCH] =
    [[true, true, true, true, false, false], [false, false, true, true, true, true]];

fn record(g: &mut Graph, combined: bool) -> regard_graph::Result<Vec<Var>> {
    let x = |g: &mut Graph, name: &str| g.input(name, DType::F32, [BATCH, LENGTH, HEADS, 4]);
    let (q, k, v) = (x(g, "q")?, x(g, "k")?, x(g, "v")?);
    let truth = |x: bool| f64::from(u8::from(x));
    let mask = if combined {
        let keys: Vec<f64> = REAL.iter().flatten().map(|&real| truth(real)).collect();
        let key_mask = Some(g.constant(DType::Bool, [BATCH, LENGTH], &keys)?);
        AttentionMask { causal: true, key_mask, ..Default::default() }
    } else {
        let pairs: Vec<f64> = (0..BATCH * HEADS * LENGTH * LENGTH)
            .map(|at| (at / (HEADS * LENGTH * LENGTH), at / LENGTH % LENGTH, at % LENGTH))
            .map(|(b, t, s)| truth(s <= t && REAL[b][s]))
            .collect();
        let explicit = Some(g.constant(DType::Bool, [BATCH, HEADS, LENGTH, LENGTH], &pairs)?);
        AttentionMask { explicit, ..Default::default() }
    };
    let spec = Attention { mask, ..Default::default() };
    let found = g.attention(q, k, v, &spec)?;
    let all = WeightsRequest::Block { queries: 0..LENGTH, keys: 0..LENGTH };
    let weights = g.attention_weights(q, k, found.lse, &spec, all)?.values;
    Ok(vec![found.y, weights, g.empty_rows(found.lse)?])
}

/// G7: both masks at once, for every head, with rows that see nothing.
pub fn combined(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("G7");
    let dims = [BATCH, LENGTH, HEADS, 4];
    let mut feed = Feed::new();
    for name in ["q", "k", "v"] {
        feed = feed.with(name, array(&dims, &draws.normals(BATCH * LENGTH * HEADS * 4))?);
    }
    // What stands in the padding must not matter: the same with other numbers there.
    let mut other = feed.clone();
    for name in ["k", "v"] {
        if let Some(array) = other.inputs.get_mut(name) {
            for (at, x) in array.data_mut().iter_mut().enumerate() {
                let (b, s) = (at / (LENGTH * HEADS * 4), at / (HEADS * 4) % LENGTH);
                *x += if REAL[b][s] { 0.0 } else { 100.0 * draws.normal() };
            }
        }
    }
    let mut finding = Finding::new(
        Verdict::Holds,
        "The key mask holds for every head and meets the causal one: a pair is allowed where both allow it. Rows left with nothing give zeros.",
    );
    let both = |run: &dyn Fn(&Feed, bool) -> Result<Vec<Array>>| -> Result<[Vec<Array>; 3]> {
        Ok([run(&feed, true)?, run(&feed, false)?, run(&other, true)?])
    };
    let exact = both(&|feed, combined| compute(feed, |g| record(g, combined)))?;
    let fast = both(&|feed, combined| compute_on_cpu(feed, 1, |g| record(g, combined)))?;
    for (engine, [masks, written, elsewhere]) in [("reference", &exact), ("CPU engine", &fast)] {
        let forbidden = (0..masks[1].data().len())
            .map(|at| {
                (at / (HEADS * LENGTH * LENGTH), at / LENGTH % LENGTH, at % LENGTH, masks[1].data()[at])
            })
            .filter(|&(b, t, s, weight)| (s > t || !REAL[b][s]) && weight != 0.0)
            .count();
        finding = finding
            .number(Number::count(
                format!("{engine}: weights of forbidden pairs that are not exactly 0"),
                forbidden,
                0,
            ))
            .number(Number::count(
                format!("{engine}: outputs that differ from one written-out mask"),
                differing(masks[0].data(), written[0].data()),
                0,
            ))
            .number(Number::count(
                format!("{engine}: outputs that change with what stands in the padding"),
                differing(masks[0].data(), elsewhere[0].data()),
                0,
            ))
            // The second example's first two queries see only padding, in each of three heads.
            .number(Number::equal(
                format!("{engine}: rows without any key"),
                masks[2].data()[0],
                2.0 * HEADS as f64,
                0.0,
            ))
            .number(Number::count(
                format!("{engine}: numbers that are not finite"),
                masks[0].data().iter().filter(|x| !x.is_finite()).count(),
                0,
            ));
    }
    for (b, name) in ["padded on the right", "padded on the left"].into_iter().enumerate() {
        let first = b * HEADS * LENGTH * LENGTH;
        let map = exact[0][1].data()[first..first + LENGTH * LENGTH].to_vec();
        finding = finding.picture(Heat::new(
            format!("Weights of head 1, example {name}"),
            "query",
            "key",
            LENGTH,
            map,
            Colours::Rising,
        ));
    }
    Ok(finding.how("One op with a causal and a key mask against one with every pair written out, on both engines; then other numbers in the padding."))
}
