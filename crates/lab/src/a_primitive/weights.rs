//! Weights are a distribution, and results lie among the values.

use crate::attend::Scene;
use crate::compute::{array, compute, compute_on_cpu};
use crate::picture::{Axis, Chart};
use crate::{Context, Finding, Number, Table, Verdict};
use regard::Result;
use regard::ops::WeightsRequest;
use regard::prelude::*;

/// A2: the weights of each query sum to 1.
pub fn sums(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("A2");
    let (batch, queries) = (40, 25);
    let keys = [1, 2, 5, 16, 64, 257];
    let (mut exact, mut fast) = (Vec::new(), Vec::new());
    for &m in &keys {
        let scene = Scene::random(&mut draws, batch, queries, m, 16, 1);
        let off = |weights: &[f64]| {
            weights.chunks(m).map(|row| (row.iter().sum::<f64>() - 1.0).abs()).fold(0.0, f64::max)
        };
        exact.push((m as f64, off(&scene.attend()?.weights)));
        let found = compute_on_cpu(&scene.feed()?, 1, |g| {
            let q = g.input("query", DType::F32, [batch, queries, 1, 16])?;
            let k = g.input("key", DType::F32, [batch, m, 1, 16])?;
            let v = g.input("value", DType::F32, [batch, m, 1, 1])?;
            let lse = g.attention(q, k, v, &Default::default())?.lse;
            let all = WeightsRequest::Block { queries: 0..queries, keys: 0..m };
            Ok(vec![g.attention_weights(q, k, lse, &Default::default(), all)?.values])
        })?;
        fast.push((m as f64, off(found[0].data())));
    }
    let most = |points: &[(f64, f64)]| points.iter().map(|p| p.1).fold(0.0, f64::max);
    let shown = |points: Vec<(f64, f64)>| points.into_iter().map(|(x, y)| (x, y.max(1e-17)));
    let rows = batch * queries * keys.len();
    Ok(Finding::new(
        Verdict::Holds,
        format!("In all {rows} rows the weights of a query sum to 1, up to rounding."),
    )
    .number(Number::at_most("furthest from 1, f64", most(&exact), 1e-12))
    .number(Number::at_most("furthest from 1, f32 engine", most(&fast), 1e-6))
    .picture(
        Chart::new(
            "How far a row’s sum is from 1",
            Axis::log("keys m"),
            Axis::log("largest |Σa − 1|").covering(&[1e-17, 1e-6]),
        )
        .points("f32 engine", shown(fast))
        .points("f64 reference", shown(exact))
        .dashed("bound 1e-6", keys.map(|m| (m as f64, 1e-6))),
    )
    .how("Weights asked of the attention op after the fact, for random queries and keys, on both engines."))
}

/// A4: never negative, together 1, whatever the scores.
pub fn distribution(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("A4");
    let (rows, keys) = (2000, 24);
    let mut table = Table::new(
        "Scores of every size",
        &["scores", "precision", "smallest weight", "furthest sum from 1", "not finite"],
    );
    let (mut smallest, mut worst_f32, mut worst_bf16, mut broken) = (f64::MAX, 0.0f64, 0.0f64, 0);
    for size in [0.0, 1.0, 100.0, 1e4] {
        let scores: Vec<f64> = draws.normals(rows * keys).into_iter().map(|x| size * x).collect();
        let feed = Feed::new().with("scores", array(&[rows, keys], &scores)?);
        for bf16 in [false, true] {
            let found = compute_on_cpu(&feed, 1, |g| {
                let scores = g.input("scores", DType::F32, [rows, keys])?;
                let scores = if bf16 { g.cast(scores, DType::BF16)? } else { scores };
                let weights = g.softmax(scores)?;
                Ok(vec![g.cast(weights, DType::F32)?])
            })?;
            let least = found[0].data().iter().copied().fold(f64::MAX, f64::min);
            let each = found[0].data().chunks(keys).map(|row| (row.iter().sum::<f64>() - 1.0).abs());
            let off = each.fold(0.0, f64::max);
            let lost = found[0].data().iter().filter(|x| !x.is_finite()).count();
            (smallest, broken) = (smallest.min(least), broken + lost);
            let worst = if bf16 { &mut worst_bf16 } else { &mut worst_f32 };
            *worst = worst.max(off);
            let precision = if bf16 { "bf16" } else { "f32" };
            table.row([
                format!("±{size}"),
                precision.into(),
                format!("{least:.1e}"),
                format!("{off:.1e}"),
                lost.to_string(),
            ]);
        }
    }
    Ok(Finding::new(
        Verdict::Holds,
        "Weights are never negative and sum to 1, for scores up to ±10⁴ and beyond, in f32 and bf16.",
    )
    .number(Number::at_least("smallest weight", smallest, 0.0))
    .number(Number::at_most("furthest sum from 1, f32", worst_f32, 1e-6))
    // Each of 24 weights is rounded to eight bits: half a unit in the last place of the largest, at most.
    .number(Number::at_most("furthest sum from 1, bf16 weights", worst_bf16, 2f64.powi(-8)))
    .number(Number::count("weights that are not finite", broken, 0))
    .table(table)
    .how("The softmax of the CPU engine on normal scores of four sizes, 2000 rows of 24 keys each."))
}

/// A6: every coordinate of the result lies between the smallest and the largest value.
pub fn hull(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("A6");
    let (mut outside, mut closest, mut rows) = (0, f64::MAX, 0);
    let (mut points, mut low, mut high) = (vec![], vec![], vec![]);
    for beta in [0.01f32, 0.3, 1.0, 10.0, 1000.0] {
        let scene = Scene { beta, ..Scene::random(&mut draws, 50, 8, 6, 4, 3) };
        let found = scene.attend()?;
        for row in 0..50 * 8 {
            let first = row / 8 * 6;
            for at in 0..3 {
                let values = || (first..first + 6).map(|key| scene.value(key)[at]);
                let (least, most) = (values().fold(f64::MAX, f64::min), values().fold(f64::MIN, f64::max));
                let h = found.output_of(row)[at];
                let inside = (h - least).min(most - h);
                // Sums of rounded products: a hair beyond is rounding.
                outside += usize::from(inside < -1e-12);
                closest = closest.min(inside);
                rows += 1;
                if beta == 1.0 && row % 8 == 0 && at == 0 && points.len() < 30 {
                    let x = points.len() as f64 + 1.0;
                    points.push((x, h));
                    low.push((x, least));
                    high.push((x, most));
                }
            }
        }
    }
    // A convex combination with its weights known: the residual of h = Σ a·v is rounding.
    let scene = Scene::random(&mut draws, 1, 1, 6, 4, 3);
    let found = scene.attend()?;
    let feed = Feed::new().with("a", array(&[1, 6], &found.weights)?).with("v", array(&[6, 3], &scene.v)?);
    let again = compute(&feed, |g| {
        let a = g.input("a", DType::F32, [1, 6])?;
        let v = g.input("v", DType::F32, [6, 3])?;
        Ok(vec![g.matmul(a, v, Default::default())?])
    })?;
    let off = crate::compute::largest_difference(again[0].data(), &found.mixed);
    Ok(Finding::new(
        Verdict::Holds,
        format!("All {rows} coordinates lie between the smallest and the largest value."),
    )
    .number(Number::count("coordinates outside", outside, 0))
    .number(Number::shown("closest to the border", closest))
    .number(Number::at_most("result against Σ a·v with its own weights", off, 1e-14))
    .picture(
        Chart::new(
            "One coordinate of 30 results and the range of its values",
            Axis::new("query"),
            Axis::new("coordinate"),
        )
        .points("result h", points)
        .line("largest value", high)
        .line("smallest value", low),
    )
    .how("Random scenes with β from 0.01 to 1000; each coordinate against the range of its six values."))
}
