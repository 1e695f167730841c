//! Dropout on weights: unbiased, after the softmax, and gone in evaluation.

use crate::attend::Scene;
use crate::compute::largest_difference;
use crate::picture::{Axis, Chart};
use crate::statistics::{Estimate, mean};
use crate::{Context, Finding, Number, Verdict};
use regard::Result;
use regard::ops::Attention;

const KEYS: usize = 8;
const DROPPED: f32 = 0.3;

/// A8: E[dropped A] = A; dropping scores instead would not be.
pub fn unbiased(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("A8");
    let one = Scene::random(&mut draws, 1, 1, KEYS, 6, KEYS);
    let samples = context.size(20_000, 100_000);
    // Values are unit vectors, so that the output is the dropped weights themselves.
    let unit = |row: usize| (0..KEYS).map(move |at| if at == row { 1.0 } else { 0.0 });
    let values: Vec<f64> = (0..KEYS).flat_map(unit).collect();
    let weights = one.attend()?.weights;
    let many = Scene {
        queries: samples,
        seed: context.seed ^ 0xa8,
        q: one.q.repeat(samples),
        v: values.clone(),
        ..one.clone()
    };
    let dropped = many.attend_as(|_| Ok(Attention { dropout: DROPPED, ..Default::default() }))?;
    let column = |key: usize| (0..samples).map(|row| dropped.output_of(row)[key]).collect::<Vec<_>>();
    let found: Vec<Estimate> = (0..KEYS).map(|key| mean(&column(key))).collect();
    let kept = (0..KEYS).flat_map(column).filter(|&x| x > 0.0).count();
    let kept = crate::statistics::share(kept, KEYS * samples);
    // Dropping scores (to −∞, as some libraries do) renormalises: a lone key always gets all.
    let mut after_scores = vec![vec![]; KEYS];
    for _ in 0..samples {
        let stays: Vec<bool> = (0..KEYS).map(|_| draws.uniform() >= DROPPED as f64).collect();
        let rest: f64 = (0..KEYS).filter(|&key| stays[key]).map(|key| weights[key]).sum();
        for key in 0..KEYS {
            after_scores[key].push(if stays[key] && rest > 0.0 { weights[key] / rest } else { 0.0 });
        }
    }
    let scores: Vec<Estimate> = after_scores.iter().map(|column| mean(column)).collect();
    let largest = (0..KEYS).max_by(|&a, &b| weights[a].total_cmp(&weights[b])).unwrap_or(0);
    let none = many.attend_as(|_| Ok(Attention { dropout: 0.0, ..Default::default() }))?;
    let plain = Scene { v: values, ..one }.attend()?.mixed;
    let off = (0..samples).map(|row| largest_difference(none.output_of(row), &plain)).fold(0.0, f64::max);
    let summary = format!(
        "Dropping weights leaves each of them unchanged on average, so it does not spread attention. Dropping scores \
         instead would: the largest weight would fall from {:.3} to {:.3}.",
        weights[largest], scores[largest].value
    );
    let places = |of: &[Estimate]| of.iter().enumerate().map(|(key, &e)| (key as f64, e)).collect::<Vec<_>>();
    Ok(Finding::new(Verdict::Holds, summary)
        .numbers((0..KEYS).map(|key| {
            let number = Number::theory(format!("mean weight of key {} with dropout", key + 1), found[key], weights[key]);
            if key == largest { number.erratum("E8") } else { number }
        }))
        .number(Number::theory("share of weights kept", kept, 1.0 - DROPPED as f64))
        .number(Number::sampled("largest weight, if scores were dropped", scores[largest]))
        .number(Number::at_most("without dropout: difference from the plain op", off, 0.0))
        .picture(
            Chart::new(
                "Weights with dropout 0.3, on average",
                Axis::names("key", 1..=KEYS),
                Axis::new("weight"),
            )
            .bars("weight without dropout", weights.iter().enumerate().map(|(key, &a)| (key as f64, a)))
            .estimates("weights dropped (this op)", places(&found))
            .estimates("scores dropped", places(&scores)),
        )
        .how(format!(
            "{samples} queries, all the same, with dropout 0.3 after the softmax; the values are unit vectors, so that \
             outputs are the dropped weights. Scores dropped by hand beside it."
        )))
}
