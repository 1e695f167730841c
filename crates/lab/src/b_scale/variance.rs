//! The variance of scores, and the scale that takes it back to 1.

use crate::compute::{array, compute};
use crate::picture::{Axis, Chart};
use crate::statistics::{Estimate, mean, variance};
use crate::{Context, Finding, Number, Table, Verdict};
use regard::Result;
use regard::layers::{AttentionConfig, AttentionLayer, Context as Surroundings, KeySource, Parameters};
use regard::ops::{Attention, AttentionOp, AttentionScale};
use regard::prelude::*;

const WIDTHS: [usize; 6] = [1, 4, 16, 64, 256, 1024];

/// Scores of independent normal queries and keys of one width, as the attention op has them: over a single
/// key, the logarithm of the sum of exponentials that it returns is the score itself.
fn scores(context: &Context, width: usize, scale: AttentionScale) -> Result<Vec<f64>> {
    let mut draws = context.draws(&format!("B2.{width}"));
    let (samples, batch) = (context.size(8_000, 40_000), 1_000);
    let mut scores = Vec::with_capacity(samples);
    while scores.len() < samples {
        let feed = Feed::new()
            .with("query", array(&[batch, 1, 1, width], &draws.normals(batch * width))?)
            .with("key", array(&[batch, 1, 1, width], &draws.normals(batch * width))?);
        let found = compute(&feed, |g| {
            let q = g.input("query", DType::F32, [batch, 1, 1, width])?;
            let k = g.input("key", DType::F32, [batch, 1, 1, width])?;
            Ok(vec![g.attention(q, k, k, &Attention { scale, ..Default::default() })?.lse])
        })?;
        scores.extend_from_slice(found[0].data());
    }
    Ok(scores)
}

/// The β for which the logarithm of Σ exp(β·score) is what an attention returned, by halving: it rises with β
/// where the largest score is positive.
fn beta_of(scores: &[f64], lse: f64) -> f64 {
    let at = |beta: f64| scores.iter().map(|s| (beta * s).exp()).sum::<f64>().ln();
    let (mut low, mut high) = (0.0, 4.0);
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if at(middle) < lse { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// B1: an attention layer multiplies by 1/√D of one head, and √(model width) would be another result.
pub fn default_scale(context: &Context) -> Result<Finding> {
    const WIDTH: usize = 64;
    const LENGTH: usize = 7;
    let x = context.draws("B1").normals(LENGTH * WIDTH);
    let mut table =
        Table::new("Layers of width 64", &["heads", "d of one head", "β used", "1/√d_head", "1/√d_model"]);
    let mut finding = Finding::new(
        Verdict::Holds,
        "A layer of the library multiplies by 1/√d of one head. With the whole width instead, scores would be √h times too small.",
    );
    for heads in [1, 2, 4, 8, 16] {
        let config = AttentionConfig { std: 0.25, ..AttentionConfig::new(WIDTH, heads)? };
        let layer = AttentionLayer::new(config, &mut Parameters::new())?;
        let d = config.head_width;
        let feed = Feed::new().with("x", array(&[1, LENGTH, WIDTH], &x)?);
        // Queries, keys and the normaliser of the attention that the layer itself recorded.
        let found = compute(&feed, |g| {
            let x = g.input("x", DType::F32, [1, LENGTH, WIDTH])?;
            layer.forward(g, x, KeySource::Own, &Surroundings::default())?;
            let node = g.nodes().iter().find(|node| node.is::<AttentionOp>());
            Ok(node.map_or(vec![], |node| vec![node.inputs[0], node.inputs[1], node.outputs[1]]))
        })?;
        let [q, k, lse] = [0, 1, 2].map(|at| found[at].data());
        let row = |of: &[f64], t: usize| of[t * WIDTH..t * WIDTH + d].to_vec();
        // The first head's query whose best score is largest: there the sum tells β most sharply.
        let scores_of = |t: usize| -> Vec<f64> {
            (0..LENGTH).map(|s| crate::compute::dot(&row(q, t), &row(k, s))).collect()
        };
        let best = |t: &usize| scores_of(*t).into_iter().fold(f64::MIN, f64::max);
        let t = (0..LENGTH).max_by(|a, b| best(a).total_cmp(&best(b))).unwrap_or(0);
        let beta = beta_of(&scores_of(t), lse[t * heads]); // B T H
        let (by_head, by_model) = (1.0 / (d as f64).sqrt(), 1.0 / (WIDTH as f64).sqrt());
        finding = finding.number(Number::equal(format!("β with {heads} heads"), beta, by_head, 1e-6));
        table.row(
            [heads, d]
                .map(|n| n.to_string())
                .into_iter()
                .chain([beta, by_head, by_model].map(|x| format!("{x:.5}"))),
        );
    }
    let refused = AttentionConfig::new(WIDTH, 5).err().map(|error| error.to_string()).unwrap_or_default();
    Ok(finding
        .number(Number::count("a width that heads cannot share is refused", usize::from(!refused.is_empty()), 1))
        .table(table)
        .how(format!(
            "A whole layer is recorded; β is solved from the queries, the keys and the normaliser of its own attention. A width that heads \
             cannot share is refused: “{refused}”."
        )))
}

fn picture(title: &str, label: &str, found: &[(f64, Estimate)], theory: impl Fn(f64) -> f64) -> Chart {
    Chart::new(title, Axis::log("width d"), Axis::log(label).covering(&[0.5, 2.0]))
        .line("theory", found.iter().map(|&(d, _)| (d, theory(d))))
        .estimates("measured, 99.99 %", found.iter().copied())
}

/// B2: E[s] = 0 and Var[s] = d.
pub fn raw(context: &Context) -> Result<Finding> {
    let mut found = Vec::new();
    let mut finding = Finding::new(
        Verdict::Holds,
        "Scores of independent unit-variance entries have mean 0 and variance d.",
    );
    for d in WIDTHS {
        let scores = scores(context, d, AttentionScale::Constant(1.0))?;
        let spread = variance(&scores);
        finding = finding
            .number(Number::theory(format!("mean of scores, d = {d}"), mean(&scores), 0.0))
            .number(Number::theory(format!("variance of scores, d = {d}"), spread, d as f64));
        found.push((d as f64, spread));
    }
    Ok(finding.picture(picture("Variance of qᵀk", "variance of scores", &found, |d| d)).how(format!(
        "{} pairs of standard normal vectors for each width through the attention op with β = 1, one key for each query; the error of the \
         variance from the fourth moment.",
        context.size(8_000, 40_000)
    )))
}

/// B3: divided by √d the variance is 1.
pub fn scaled(context: &Context) -> Result<Finding> {
    let mut found = Vec::new();
    let mut finding = Finding::new(Verdict::Holds, "Divided by √d, scores have variance 1 at every width.");
    for d in WIDTHS {
        let spread = variance(&scores(context, d, AttentionScale::Default)?);
        finding = finding.number(Number::theory(format!("variance of scores/√d, d = {d}"), spread, 1.0));
        found.push((d as f64, spread));
    }
    Ok(finding
        .picture(picture("Variance of qᵀk/√d", "variance of scaled scores", &found, |_| 1.0))
        .how("The pairs of B2 through the attention op with its default scale."))
}
