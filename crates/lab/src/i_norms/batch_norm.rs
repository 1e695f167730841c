//! Batch norm in both modes.

use super::layer_norm::moments;
use crate::compute::{array, compute, largest_difference};
use crate::picture::{Axis, Chart};
use crate::{Context, Finding, Number, Verdict};
use regard::Result;
use regard::prelude::*;

const ROWS: usize = 16;
const WIDTH: usize = 3;

/// Normed numbers, running mean and running variance after one batch.
fn train(x: &[f64], mean: &[f64], variance: &[f64]) -> Result<[Vec<f64>; 3]> {
    let feed = Feed::new()
        .with("x", array(&[ROWS, WIDTH], x)?)
        .with_stored("mean", array(&[WIDTH], mean)?)
        .with_stored("variance", array(&[WIDTH], variance)?);
    let found = compute(&feed, |g| {
        let x = g.input("x", DType::F32, [ROWS, WIDTH])?;
        let mean = g.state("mean", DType::F32, [WIDTH], Init::Zeros)?;
        let variance = g.state("variance", DType::F32, [WIDTH], Init::Ones)?;
        let found = g.batch_norm(x, [mean, variance], None, None, BatchNormSpec::default())?;
        Ok(vec![found.normed, found.running_mean, found.running_variance])
    })?;
    Ok([0, 1, 2].map(|at| found[at].data().to_vec()))
}

/// I10: training uses the batch, evaluation the running statistics.
pub fn modes(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("I10");
    let (truth_mean, truth_std) = ([2.0, -1.0, 0.5], [0.5, 2.0, 1.0]);
    let (mut mean, mut variance) = (vec![0.0; WIDTH], vec![1.0; WIDTH]);
    let (momentum, epsilon) = (0.1f32 as f64, 1e-5f32 as f64);
    let (mut normed_off, mut running_off) = (0.0f64, 0.0f64);
    let (mut means, mut variances) = (vec![], vec![]);
    for step in 0..80 {
        let x: Vec<f64> = (0..ROWS * WIDTH)
            .map(|at| truth_mean[at % WIDTH] + truth_std[at % WIDTH] * draws.normal())
            .collect();
        let [normed, next_mean, next_variance] = train(&x, &mean, &variance)?;
        for at in 0..WIDTH {
            let column: Vec<f64> = x.iter().skip(at).step_by(WIDTH).copied().collect();
            let (m, v) = moments(&column);
            let by_hand: Vec<f64> = column.iter().map(|x| (x - m) / (v + epsilon).sqrt()).collect();
            let found: Vec<f64> = normed.iter().skip(at).step_by(WIDTH).copied().collect();
            normed_off = normed_off.max(largest_difference(&found, &by_hand));
            // The running variance is the unbiased one.
            let unbiased = v * ROWS as f64 / (ROWS as f64 - 1.0);
            running_off = running_off
                .max((next_mean[at] - ((1.0 - momentum) * mean[at] + momentum * m)).abs())
                .max((next_variance[at] - ((1.0 - momentum) * variance[at] + momentum * unbiased)).abs());
        }
        (mean, variance) = (next_mean, next_variance);
        means.push((step as f64 + 1.0, mean[0]));
        variances.push((step as f64 + 1.0, variance[1]));
    }
    let x = draws.normals(WIDTH);
    let feed = Feed::new()
        .with("x", array(&[1, WIDTH], &x)?)
        .with_stored("mean", array(&[WIDTH], &mean)?)
        .with_stored("variance", array(&[WIDTH], &variance)?);
    let eval = compute(&feed, |g| {
        let x = g.input("x", DType::F32, [1, WIDTH])?;
        let mean = g.state("mean", DType::F32, [WIDTH], Init::Zeros)?;
        let variance = g.state("variance", DType::F32, [WIDTH], Init::Ones)?;
        Ok(vec![g.batch_norm_eval(x, [mean, variance], None, None, BatchNormSpec::default())?])
    })?;
    let by_hand: Vec<f64> =
        (0..WIDTH).map(|at| (x[at] - mean[at]) / (variance[at] + epsilon).sqrt()).collect();
    Ok(Finding::new(
        Verdict::Holds,
        "In training batch norm norms by the batch and keeps running averages; in evaluation it uses those.",
    )
    .number(Number::at_most("training against the formula", normed_off, 1e-13))
    .number(Number::at_most("running statistics against (1−m)·r + m·batch", running_off, 1e-14))
    .number(Number::at_most(
        "evaluation against the formula",
        largest_difference(eval[0].data(), &by_hand),
        1e-14,
    ))
    .picture(
        Chart::new("Running statistics over 80 batches of 16", Axis::new("batch"), Axis::new("value"))
            .line("running mean of feature 1", means)
            .dashed("its true mean", [(1.0, 2.0), (80.0, 2.0)])
            .in_colour(0)
            .line("running variance of feature 2", variances)
            .in_colour(1)
            .dashed("its true variance", [(1.0, 4.0), (80.0, 4.0)])
            .in_colour(1),
    )
    .how("80 random batches through the op in f64, each against the formulas by hand."))
}
