//! The variance of scores, and the scale that takes it back to 1.

use crate::attend::Scene;
use crate::compute::{compute, dot, largest_difference};
use crate::picture::{Axis, Chart};
use crate::statistics::{Estimate, mean, variance};
use crate::{Context, Finding, Number, Table, Verdict};
use regard::Result;
use regard::layers::{AttentionConfig, AttentionLayer, Parameters};
use regard::prelude::*;

const WIDTHS: [usize; 6] = [1, 4, 16, 64, 256, 1024];

/// Scores of independent normal queries and keys of one width.
fn scores(context: &Context, width: usize) -> Vec<f64> {
    let mut draws = context.draws(&format!("B2.{width}"));
    let samples = context.size(8_000, 40_000);
    (0..samples).map(|_| dot(&draws.normals(width), &draws.normals(width))).collect()
}

/// B1: an attention layer multiplies by 1/√D of one head, and √(model width) would be another result.
pub fn default_scale(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("B1");
    let mut table =
        Table::new("Layers of width 64", &["heads", "d of one head", "β used", "1/√d_head", "1/√d_model"]);
    let mut finding = Finding::new(
        Verdict::Works,
        "By default β = 1/√d of one head. With the whole width instead, scores would be √h times too small.",
    );
    for heads in [1, 2, 4, 8, 16] {
        let config = AttentionConfig::new(64, heads)?;
        AttentionLayer::new(config, &mut Parameters::new())?;
        let d = config.head_width;
        let scene = Scene::random(&mut draws, 1, 5, 7, d, 3);
        // β from what the op does: the log-ratio of two weights over the difference of their scores.
        let found = compute(&scene.feed()?, |g| {
            let q = g.input("query", DType::F32, [1, 5, 1, d])?;
            let k = g.input("key", DType::F32, [1, 7, 1, d])?;
            let v = g.input("value", DType::F32, [1, 7, 1, 3])?;
            let lse = g.attention(q, k, v, &Default::default())?.lse;
            let all = regard::ops::WeightsRequest::Block { queries: 0..5, keys: 0..7 };
            Ok(vec![g.attention_weights(q, k, lse, &Default::default(), all)?.values])
        })?;
        let a = found[0].data();
        let beta = (a[0] / a[1]).ln() / (scene.score(0, 0) - scene.score(0, 1));
        let (by_head, by_model) = (1.0 / (d as f64).sqrt(), 1.0 / 8.0);
        finding = finding.number(Number::equal(format!("β with {heads} heads"), beta, by_head, 1e-7));
        table.row(
            [heads, d]
                .map(|n| n.to_string())
                .into_iter()
                .chain([beta, by_head, by_model].map(|x| format!("{x:.5}"))),
        );
    }
    let refused = AttentionConfig::new(64, 5).err().map(|error| error.to_string()).unwrap_or_default();
    let scene = Scene::random(&mut draws, 1, 4, 6, 8, 3);
    let slip = Scene { beta: 1.0 / 64f32.sqrt(), ..scene.clone() };
    let off = largest_difference(&scene.attend()?.weights, &slip.attend()?.weights);
    Ok(finding
        .number(Number::shown("largest change of a weight if √d_model were used (8 heads of 8)", off))
        .table(table)
        .how(format!(
            "β is read off the weights of the attention op with its default scale. A width that heads cannot share is \
             refused: “{refused}”."
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
        Verdict::True,
        "Scores of independent unit-variance entries have mean 0 and variance d.",
    );
    for d in WIDTHS {
        let scores = scores(context, d);
        let spread = variance(&scores);
        finding = finding
            .number(Number::theory(format!("mean of scores, d = {d}"), mean(&scores), 0.0))
            .number(Number::theory(format!("variance of scores, d = {d}"), spread, d as f64));
        found.push((d as f64, spread));
    }
    Ok(finding.picture(picture("Variance of qᵀk", "variance of scores", &found, |d| d)).how(format!(
        "{} pairs of standard normal vectors for each width; the error of the variance from the fourth moment.",
        context.size(8_000, 40_000)
    )))
}

/// B3: divided by √d the variance is 1.
pub fn scaled(context: &Context) -> Result<Finding> {
    let mut found = Vec::new();
    let mut finding = Finding::new(Verdict::True, "Divided by √d, scores have variance 1 at every width.");
    for d in WIDTHS {
        let scaled: Vec<f64> = scores(context, d).iter().map(|s| s / (d as f64).sqrt()).collect();
        let spread = variance(&scaled);
        finding = finding.number(Number::theory(format!("variance of scores/√d, d = {d}"), spread, 1.0));
        found.push((d as f64, spread));
    }
    Ok(finding
        .picture(picture("Variance of qᵀk/√d", "variance of scaled scores", &found, |_| 1.0))
        .how("The scores of B2, divided by √d."))
}
