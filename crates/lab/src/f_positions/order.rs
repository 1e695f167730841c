//! Order: self-attention without positions does not see it; sinusoids show it.

use crate::compute::{array, compute, largest_difference};
use crate::picture::{Axis, Chart, Colours, Heat};
use crate::{Context, Finding, Number, Verdict};
use regard::Result;
use regard::layers::{
    AbsoluteConfig, AbsolutePositions, AttentionConfig, AttentionLayer, Context as Surroundings, KeySource,
    Parameters, sinusoids,
};
use regard::prelude::*;

const LENGTH: usize = 7;
const WIDTH: usize = 8;

/// A layer of self-attention with sinusoidal positions or none.
fn layer(x: &[f64], positions: bool) -> Result<Vec<f64>> {
    let feed = Feed::new().with("x", array(&[1, LENGTH, WIDTH], x)?);
    let found = compute(&feed, |g| {
        let mut p = Parameters::new();
        let absolute = match positions {
            true => AbsoluteConfig::Sinusoidal { width: WIDTH, most: LENGTH },
            false => AbsoluteConfig::None,
        };
        let absolute = p.under("positions", |p| AbsolutePositions::new(absolute, p))?;
        let attention = AttentionConfig { std: 0.5, ..AttentionConfig::new(WIDTH, 2)? };
        let attention = p.under("attention", |p| AttentionLayer::new(attention, p))?;
        let x = g.input("x", DType::F32, [1, LENGTH, WIDTH])?;
        let x = absolute.forward(g, x, None)?;
        Ok(vec![attention.forward(g, x, KeySource::Own, &Surroundings::default())?])
    })?;
    Ok(found[0].data().to_vec())
}

fn permuted(x: &[f64], order: &[usize]) -> Vec<f64> {
    order.iter().flat_map(|&at| x[at * WIDTH..(at + 1) * WIDTH].to_vec()).collect()
}

/// F-2: equivariant, not invariant.
pub fn equivariant(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("F-2");
    let (mut equivariant, mut invariant, mut with_positions) = (0.0f64, f64::MAX, f64::MAX);
    let mut pictures = vec![];
    for _ in 0..10 {
        let x = draws.normals(LENGTH * WIDTH);
        let mut order = draws.permutation(LENGTH);
        if order.iter().enumerate().all(|(at, &to)| at == to) {
            order.rotate_left(1);
        }
        let (y, moved) = (layer(&x, false)?, layer(&permuted(&x, &order), false)?);
        equivariant = equivariant.max(largest_difference(&moved, &permuted(&y, &order)));
        invariant = invariant.min(largest_difference(&moved, &y));
        let (y, moved) = (layer(&x, true)?, layer(&permuted(&x, &order), true)?);
        with_positions = with_positions.min(largest_difference(&moved, &permuted(&y, &order)));
        if pictures.is_empty() {
            let off = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<f64>>();
            let plain = layer(&x, false)?;
            let shuffled = layer(&permuted(&x, &order), false)?;
            pictures = vec![
                ("f(PX) − f(X), no positions: not 0", off(&shuffled, &plain)),
                ("f(PX) − P·f(X), no positions: 0", off(&shuffled, &permuted(&plain, &order))),
                ("f(PX) − P·f(X), sinusoids: not 0", off(&moved, &permuted(&y, &order))),
            ];
        }
    }
    let mut finding = Finding::new(
        Verdict::Conditional,
        "Without positions permuted inputs give permuted outputs: the layer is equivariant, not invariant. With positions it is neither.",
    )
    .number(Number::at_most("no positions: f(PX) against P·f(X)", equivariant, 1e-14))
    .number(Number::at_least("no positions: f(PX) against f(X), the smallest largest difference", invariant, 0.01).erratum("E16"))
    .number(Number::at_least("sinusoids: f(PX) against P·f(X), the smallest largest difference", with_positions, 0.01))
    .counter_example("Outputs move with their inputs, so f(PX) ≠ f(X): only a pooled result (a mean over positions) is invariant.")
    .how("An attention layer of two heads with random weights; ten random inputs and orders; with and without sinusoids.");
    for (title, numbers) in pictures {
        // Rounding would be drawn as large as a difference: below it there is nothing to see.
        let numbers: Vec<f64> = numbers.iter().map(|x| if x.abs() < 1e-12 { 0.0 } else { *x }).collect();
        finding = finding.picture(Heat::new(title, "position", "feature", WIDTH, numbers, Colours::Signed));
    }
    Ok(finding)
}

/// F-3: the formula, and shifts as rotations.
pub fn sinusoids_turn(_context: &Context) -> Result<Finding> {
    let (most, width) = (64, 32);
    let table = sinusoids(most, width);
    let at = |p: usize| &table[p * width..(p + 1) * width];
    let (mut formula, mut turned, mut lengths) = (0.0f64, 0.0f64, 0.0f64);
    for p in 0..most {
        for i in 0..width / 2 {
            let angle = p as f64 / 10000f64.powf(2.0 * i as f64 / width as f64);
            formula =
                formula.max((at(p)[2 * i] - angle.sin()).abs()).max((at(p)[2 * i + 1] - angle.cos()).abs());
        }
        lengths = lengths.max((crate::compute::dot(at(p), at(p)) - width as f64 / 2.0).abs());
    }
    for k in [1, 5, 20] {
        for p in 0..most - k {
            for i in 0..width / 2 {
                let angle = k as f64 / 10000f64.powf(2.0 * i as f64 / width as f64);
                let (s, c) = (at(p)[2 * i], at(p)[2 * i + 1]);
                let expected = [s * angle.cos() + c * angle.sin(), c * angle.cos() - s * angle.sin()];
                turned = turned.max(largest_difference(&at(p + k)[2 * i..2 * i + 2], &expected));
            }
        }
    }
    let similarity: Vec<f64> =
        (0..most).map(|k| crate::compute::dot(at(0), at(k)) / (width as f64 / 2.0)).collect();
    // The products depend on the distance alone.
    let mut by_distance = 0.0f64;
    for p in 0..most / 2 {
        for (k, here) in similarity.iter().enumerate().take(most / 2) {
            let there = crate::compute::dot(at(p), at(p + k)) / (width as f64 / 2.0);
            by_distance = by_distance.max((there - here).abs());
        }
    }
    Ok(Finding::new(
        Verdict::Holds,
        "The table is the formula; moving on by k turns each pair by a fixed angle, whatever the position.",
    )
    .number(Number::at_most("table against the formula", formula, 1e-15).erratum("E11"))
    .number(Number::at_most("PE(p+k) against R_k·PE(p)", turned, 1e-13))
    .number(Number::at_most("‖PE(p)‖² against d/2", lengths, 1e-13))
    .number(Number::at_most("PE(p)·PE(p+k) depends on k alone, up to", by_distance, 1e-13))
    .picture(Heat::new(
        "Sinusoidal positions: position × feature",
        "position",
        "feature",
        width,
        table.clone(),
        Colours::Signed,
    ))
    .picture(
        Chart::new(
            "Similarity of two positions by their distance",
            Axis::new("distance k"),
            Axis::new("PE(p)·PE(p+k) / (d/2)"),
        )
        .line("d = 32", similarity.iter().enumerate().map(|(k, &x)| (k as f64, x))),
    )
    .how("The library’s table for 64 positions of width 32, element by element."))
}
