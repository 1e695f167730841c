//! What β does: cold and hot limits, entropy, and the word for it.

use crate::attend::Scene;
use crate::compute::{largest_difference, length, minus};
use crate::picture::{Axis, Chart};
use crate::{Context, Finding, Number, Table, Verdict};
use regard::Result;
use regard::ops::{Attention, AttentionKind};

const KEYS: usize = 8;

/// From 0.001 to 1000 in equal steps of the logarithm.
fn betas() -> impl Iterator<Item = f32> {
    (-30..=30).map(|i| 10f32.powf(i as f32 / 10.0))
}

fn entropy(weights: &[f64]) -> f64 {
    weights.iter().filter(|a| **a > 0.0).map(|a| -a * a.ln()).sum()
}

/// B4: one-hot for large β, if the largest score is unique.
pub fn cold(context: &Context) -> Result<Finding> {
    let scene = Scene::random(&mut context.draws("B4"), 1, 1, KEYS, 4, 3);
    let hard = scene.attend_as(|_| Ok(Attention { kind: AttentionKind::Hard, ..Default::default() }))?;
    // The best key a second time: a tie of two.
    let best = hard.weights.iter().position(|a| *a == 1.0).unwrap_or(0);
    let other = (best + 1) % KEYS;
    let mut tied = scene.clone();
    tied.k.copy_within(best * 4..best * 4 + 4, other * 4);
    let mean: Vec<f64> = (0..3).map(|at| (tied.value(best)[at] + tied.value(other)[at]) / 2.0).collect();
    let (mut lone, mut pair, mut to_one) = (vec![], vec![], vec![]);
    for beta in betas().filter(|beta| *beta >= 0.1) {
        let distance = |scene: &Scene, to: &[f64]| -> Result<f64> {
            Ok(length(&minus(&Scene { beta, ..scene.clone() }.attend()?.mixed, to)).max(1e-17))
        };
        lone.push((beta as f64, distance(&scene, &hard.mixed)?));
        pair.push((beta as f64, distance(&tied, &mean)?));
        to_one.push((beta as f64, distance(&tied, tied.value(best))?));
    }
    let last = |points: &[(f64, f64)]| points.last().map_or(f64::NAN, |p| p.1);
    let half = Scene { beta: 1000.0, ..tied.clone() }.attend()?.weights[best];
    Ok(Finding::new(
        Verdict::Conditional,
        "With a unique largest score the weights become one-hot; keys that tie share the weight, and h is the mean of their values.",
    )
    .number(Number::at_most("distance to hard attention at β = 1000", last(&lone), 1e-12))
    .number(Number::equal("weight of each of two tied keys at β = 1000", half, 0.5, 1e-12).erratum("E9"))
    .number(Number::at_most("tie: distance to the mean of both values", last(&pair), 1e-12))
    .number(Number::at_least("tie: distance to the value of one of them", last(&to_one), 1e-3))
    .counter_example("Two equal keys: at β = 1000 each has weight 0.5, and h is half-way between their values.")
    .picture(
        Chart::new("Distance to the limit as β grows", Axis::log("β"), Axis::log("‖h − limit‖"))
            .line("unique maximum, to its value", lone)
            .line("tie, to the mean of two values", pair)
            .dashed("tie, to one of the values", to_one),
    )
    .how("The attention op over β from 0.1 to 1000 in f64; the limit is the op’s own hard kind."))
}

/// B5: uniform for small β.
pub fn hot(context: &Context) -> Result<Finding> {
    let scene = Scene::random(&mut context.draws("B5"), 1, 1, KEYS, 4, 3);
    let mean: Vec<f64> =
        (0..3).map(|at| (0..KEYS).map(|key| scene.value(key)[at]).sum::<f64>() / KEYS as f64).collect();
    let (mut weights, mut outputs) = (vec![], vec![]);
    for beta in betas().filter(|beta| *beta <= 10.0) {
        let found = Scene { beta, ..scene.clone() }.attend()?;
        weights.push((beta as f64, largest_difference(&found.weights, &[1.0 / KEYS as f64; KEYS])));
        outputs.push((beta as f64, length(&minus(&found.mixed, &mean))));
    }
    let zero = Scene { beta: 0.0, ..scene.clone() }.attend()?;
    let slope = weights[0].1 / weights[0].0;
    Ok(Finding::new(
        Verdict::Holds,
        "As β falls the weights approach 1/m and h the mean of the values, linearly in β.",
    )
    .number(Number::at_most(
        "β = 0: weights against 1/m",
        largest_difference(&zero.weights, &[1.0 / KEYS as f64; KEYS]),
        1e-16,
    ))
    .number(Number::at_most("β = 0: h against the mean", largest_difference(&zero.mixed, &mean), 1e-15))
    .number(Number::at_most("β = 0.001: weights against 1/m", weights[0].1, 0.01))
    .number(Number::shown("largest |a − 1/m| per β near 0", slope))
    .picture(
        Chart::new("Distance to the uniform limit", Axis::log("β"), Axis::log("distance"))
            .line("largest |a − 1/m|", weights)
            .line("‖h − mean(v)‖", outputs),
    )
    .how("The attention op over β from 0.001 to 10, and at 0, in f64."))
}

/// B6: entropy falls with β.
pub fn entropy_falls(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("B6");
    let mut chart = Chart::new("Entropy of the weights", Axis::log("β"), Axis::new("entropy, nats"));
    let (mut rises, mut worst_slope, mut tried) = (0, 0.0f64, 0);
    for number in 0..20 {
        let scene = Scene::random(&mut draws, 1, 1, KEYS, 4, 1);
        let mut curve: Vec<(f64, f64)> = vec![];
        for beta in betas().filter(|beta| (0.01..=30.0).contains(beta)) {
            let found = Scene { beta, ..scene.clone() }.attend()?;
            let h = entropy(&found.weights);
            if let Some(&(_, before)) = curve.last() {
                rises += usize::from(h >= before);
                tried += 1;
            }
            curve.push((beta as f64, h));
            // dH/dβ = −β Var_a[s], against a central difference.
            if (0.1..=3.0).contains(&beta) {
                let scores: Vec<f64> = (0..KEYS).map(|key| scene.score(0, key)).collect();
                let mean: f64 = scores.iter().zip(&found.weights).map(|(s, a)| a * s).sum();
                let spread: f64 =
                    scores.iter().zip(&found.weights).map(|(s, a)| a * (s - mean).powi(2)).sum();
                let (above, below) = (beta * 1.001, beta * 0.999);
                let at = |beta: f32| -> Result<f64> {
                    Ok(entropy(&Scene { beta, ..scene.clone() }.attend()?.weights))
                };
                let slope = (at(above)? - at(below)?) / (above as f64 - below as f64);
                worst_slope = worst_slope.max((slope + beta as f64 * spread).abs());
            }
        }
        if number < 4 {
            chart = chart.line(format!("random scores {}", number + 1), curve);
        }
    }
    let flat = Scene { q: vec![0.0; 4], ..Scene::random(&mut draws, 1, 1, KEYS, 4, 1) };
    let flat = |beta: f32| -> Result<f64> { Ok(entropy(&Scene { beta, ..flat.clone() }.attend()?.weights)) };
    let still = (flat(0.1)? - flat(10.0)?).abs();
    Ok(Finding::new(
        Verdict::Holds,
        "Entropy falls strictly as β grows, unless all scores are equal; then it does not move.",
    )
    .number(Number::count(format!("steps of {tried} at which entropy rose"), rises, 0))
    .number(Number::at_most("dH/dβ against −β·Var[s], largest difference", worst_slope, 1e-4))
    .number(Number::at_most("equal scores: change of entropy from β = 0.1 to 10", still, 1e-15))
    .picture(
        chart.dashed("ln 8, the most there is", [(0.01, (KEYS as f64).ln()), (30.0, (KEYS as f64).ln())]),
    )
    .how(
        "Twenty random scenes, β from 0.01 to 30; the slope against its closed form by central differences.",
    ))
}

/// B7: large β is cold.
pub fn temperature(context: &Context) -> Result<Finding> {
    let scene = Scene::random(&mut context.draws("B7"), 1, 1, KEYS, 4, 1);
    let mut table = Table::new("The same scores", &["β", "T = 1/β", "largest weight", "entropy, nats"]);
    let mut extremes = vec![];
    for beta in [0.01f32, 0.1, 1.0, 10.0, 100.0] {
        let weights = Scene { beta, ..scene.clone() }.attend()?.weights;
        let (largest, h) = (weights.iter().copied().fold(0.0, f64::max), entropy(&weights));
        extremes.push((beta as f64, largest, h));
        table.row([format!("{beta}"), format!("{}", 1.0 / beta), format!("{largest:.4}"), format!("{h:.4}")]);
    }
    let (hot, cold) = (extremes[0], extremes[4]);
    Ok(Finding::new(
        Verdict::Wrong,
        "β is the inverse temperature: large β is cold and sharp, small β is hot and flat. The notes have it the other way round.",
    )
    .number(Number::equal("largest weight at T = 100 (β = 0.01)", hot.1, 1.0 / KEYS as f64, 0.02).erratum("E7"))
    .number(Number::equal("largest weight at T = 0.01 (β = 100)", cold.1, 1.0, 1e-3).erratum("E7"))
    .number(Number::at_least("entropy hot minus entropy cold, nats", hot.2 - cold.2, 1.9))
    .counter_example("At temperature 100 (β = 0.01) the weights are nearly 1/8 each; a “very large temperature” is as far from hard attention as can be.")
    .picture(
        Chart::new("Largest weight against temperature", Axis::log("temperature T = 1/β"), Axis::new("largest weight").covering(&[0.0, 1.0]))
            .line("softmax of the same scores", {
                let mut curve = vec![];
                for beta in betas().filter(|beta| (0.01..=100.0).contains(beta)) {
                    let weights = Scene { beta, ..scene.clone() }.attend()?.weights;
                    curve.push((1.0 / beta as f64, weights.iter().copied().fold(0.0, f64::max)));
                }
                curve
            }),
    )
    .table(table)
    .how("The attention op at five β, same queries and keys."))
}
