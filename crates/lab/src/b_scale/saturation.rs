//! Where gradients vanish: over the width without a scale, and over β at both ends.

use super::jacobian::{softmax, squared_norm};
use crate::compute::{dot, length};
use crate::picture::{Axis, Chart, figure};
use crate::statistics::{Estimate, median};
use crate::{Context, Finding, Number, Table, Verdict};
use regard::Result;

const KEYS: usize = 32;
/// Width, and what the median norm of the unscaled Jacobian is quoted as: an example, from draws of which
/// nothing is known.
const QUOTED: [(usize, f64); 6] =
    [(1, 0.20), (16, 0.34), (64, 0.165), (256, 0.024), (1024, 4e-5), (4096, 2.5e-9)];

/// Keys up to this width are drawn number by number.
const WRITTEN_OUT: usize = 64;

/// The norms of the Jacobian of softmax(β·qᵀk) for many random queries over 32 keys, without a scale and with
/// it, and the largest weight without one.
fn norms(context: &Context, width: usize, samples: usize) -> Result<[Vec<f64>; 3]> {
    let mut draws = context.draws(&format!("B11.{width}"));
    let mut scores = Vec::with_capacity(samples * KEYS);
    for _ in 0..samples {
        let q = draws.normals(width);
        // Given q, a score with a normal key is normal with variance ‖q‖²: wide keys need not be drawn.
        let size = length(&q);
        match width <= WRITTEN_OUT {
            true => scores.extend((0..KEYS).map(|_| dot(&q, &draws.normals(width)))),
            false => scores.extend((0..KEYS).map(|_| size * draws.normal())),
        }
    }
    let root = (width as f64).sqrt();
    let scaled: Vec<f64> = scores.iter().map(|s| s / root).collect();
    let norms = |scores: &[f64]| -> Result<Vec<f64>> {
        Ok(softmax(scores, KEYS)?.chunks(KEYS).map(|a| squared_norm(a).sqrt()).collect())
    };
    let most = |row: &[f64]| row.iter().copied().fold(0.0, f64::max);
    let largest = softmax(&scores, KEYS)?.chunks(KEYS).map(most).collect();
    Ok([norms(&scores)?, norms(&scaled)?, largest])
}

/// B11: medians over the width; not monotone.
pub fn by_width(context: &Context) -> Result<Finding> {
    let mut table = Table::new(
        "Median ‖J‖_F, 32 keys",
        &["d", "unscaled", "quoted", "scaled by 1/√d", "largest weight, unscaled", "samples"],
    );
    let mut raw: Vec<(f64, Estimate)> = vec![];
    let mut scaled: Vec<(f64, Estimate)> = vec![];
    let mut finding = Finding::new(
        Verdict::Conditional,
        "At d = 16 the unscaled Jacobian is larger than the scaled one; it collapses from d ≈ 64 to 256 on. Scaled, it does not depend \
         on d.",
    );
    for (d, quoted) in QUOTED {
        let samples = if d > 1000 { context.size(2_000, 40_000) } else { context.size(4_000, 100_000) };
        let [without, with, largest] = norms(context, d, samples)?;
        let (without, with, largest) = (median(&without), median(&with), median(&largest));
        table.row([
            d.to_string(),
            figure(without.value),
            figure(quoted),
            figure(with.value),
            figure(largest.value),
            samples.to_string(),
        ]);
        let over = Estimate {
            value: without.value / with.value,
            low: without.low / with.high,
            high: without.high / with.low,
        };
        let number = Number::sampled(format!("d = {d}: unscaled median over scaled"), over);
        finding = finding
            .number(if d == 16 { number.erratum("E23") } else { number })
            .number(Number::sampled(format!("d = {d}: median of the largest weight, unscaled"), largest));
        raw.push((d as f64, without));
        scaled.push((d as f64, with));
    }
    // Scaled scores have variance 1 at every width: from d = 16 on their medians are one number.
    let flat = scaled[1..].iter().map(|(_, e)| e.value);
    let (least, most) = (flat.clone().fold(f64::INFINITY, f64::min), flat.fold(0.0, f64::max));
    let (at_16, scaled_at_16) = (raw[1].1, scaled[1].1);
    Ok(finding
        .number(Number::at_most("scaled: largest median over smallest, d from 16 on", most / least, 1.05))
        .counter_example(format!(
            "At d = 16 the median norm is {} without the scale and {} with it: gradients grow before they vanish.",
            figure(at_16.value),
            figure(scaled_at_16.value)
        ))
        .picture(
            Chart::new("Median norm of the softmax Jacobian, 32 keys", Axis::log("width d"), Axis::log("median ‖J‖_F"))
                .estimates("without scale", raw.iter().copied())
                .estimates("with 1/√d", scaled.iter().copied())
                .dashed("", raw.iter().map(|&(d, e)| (d, e.value)))
                .in_colour(0)
                .dashed("", scaled.iter().map(|&(d, e)| (d, e.value)))
                .in_colour(1),
        )
        .table(table)
        .how(
            "Standard normal queries and keys, scores, the library’s softmax in f64, and the norm by B9’s sum of squares; intervals of \
             medians from the order of the samples. The quoted medians stand beside as an example: norms at d ≥ 64 spread over many powers \
             of ten, so that the median of a few draws is only a rough guess.",
        ))
}

/// B12: β·J vanishes at both ends.
pub fn by_beta(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("B12");
    let rows = 400;
    let scores = draws.normals(rows * KEYS);
    let mut curve = vec![];
    for step in -24..=24 {
        let beta = 10f64.powf(step as f64 / 8.0);
        let times: Vec<f64> = scores.iter().map(|s| beta * s).collect();
        let norms: Vec<f64> =
            softmax(&times, KEYS)?.chunks(KEYS).map(|a| beta * squared_norm(a).sqrt()).collect();
        // The median: rare rows that nearly tie keep the mean up for ever.
        curve.push((beta, median(&norms).value));
    }
    let (peak_at, peak) =
        curve.iter().copied().fold((0.0, 0.0), |best, p| if p.1 > best.1 { p } else { best });
    let (first, last) = (curve[0].1, curve[curve.len() - 1].1);
    // As β → 0, J is that of uniform weights: ‖J‖ = √(n−1)/n.
    let slope = ((KEYS - 1) as f64).sqrt() / KEYS as f64;
    Ok(Finding::new(
        Verdict::Conditional,
        format!("The gradient with respect to raw scores is β·J. It vanishes for β → ∞ and also for β → 0; it is largest near β = {}.", figure(peak_at)),
    )
    .number(Number::equal("β = 0.001: median norm over β, against √(n−1)/n", first / curve[0].0, slope, 1e-4).erratum("E24"))
    .number(Number::at_most("median norm at β = 0.001, share of the peak", first / peak, 0.01).erratum("E24"))
    .number(Number::at_most("median norm at β = 1000, share of the peak", last / peak, 1e-6))
    .number(Number::shown("β at the peak", peak_at))
    .number(Number::shown("median norm at the peak", peak))
    .counter_example("At β = 0.001 the weights are uniform, as far from extreme as can be, and the gradient is nearly nothing.")
    .picture(
        Chart::new("Gradient of the weights with respect to raw scores, 32 keys", Axis::log("β"), Axis::log("median ‖β·J‖_F"))
            .line("median over random scores", curve.iter().copied())
            .dashed("β√(n−1)/n", curve.iter().filter(|p| p.0 < 3.0).map(|&(beta, _)| (beta, beta * slope))),
    )
    .how("400 rows of 32 standard normal scores, the library’s softmax at 49 values of β."))
}
