//! Layer norm: its formula, its length, and what ε and γ do to it.

use crate::compute::{array, compute, compute_on_cpu, dot, largest_difference, length};
use crate::picture::{Axis, Chart, figure};
use crate::{Context, Finding, Number, Table, Verdict};
use regard::Result;
use regard::prelude::*;

/// An ε that is nothing beside any variance here, in f64; the op refuses 0 itself, at which a constant row
/// has no answer.
pub const VANISHING: f32 = 1e-30;

/// Mean and variance of a row, dividing by its length.
pub fn moments(x: &[f64]) -> (f64, f64) {
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    (mean, x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64)
}

/// The op on one row.
fn normed(x: &[f64], gamma: &[f64], beta: &[f64], epsilon: f32) -> Result<Vec<f64>> {
    let d = x.len();
    let feed = Feed::new()
        .with("x", array(&[1, d], x)?)
        .with("γ", array(&[d], gamma)?)
        .with("β", array(&[d], beta)?);
    let found = compute(&feed, |g| {
        let x = g.input("x", DType::F32, [1, d])?;
        let (gamma, beta) = (g.input("γ", DType::F32, [d])?, g.input("β", DType::F32, [d])?);
        Ok(vec![g.layer_norm(x, Some(gamma), Some(beta), NormSpec { epsilon, output: None })?])
    })?;
    Ok(found[0].data().to_vec())
}

/// I1: the formula, with vectors and with single numbers for γ and β.
pub fn formula(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("I1");
    let mut finding = Finding::new(
        Verdict::Holds,
        "The op is the formula, for each example by itself, with γ and β as vectors or as single numbers.",
    );
    let (rows, d) = (5, 12);
    let x: Vec<f64> = draws.normals(rows * d).iter().map(|x| 3.0 * x + 1.0).collect();
    let epsilon = 1e-5f32;
    let mut shown = vec![];
    for (name, gamma, beta) in
        [("vectors", draws.normals(d), draws.normals(d)), ("single numbers", vec![1.7; d], vec![-0.4; d])]
    {
        let by_hand: Vec<f64> = x
            .chunks(d)
            .flat_map(|row| {
                let (mean, variance) = moments(row);
                let scale = 1.0 / (variance + epsilon as f64).sqrt();
                row.iter()
                    .enumerate()
                    .map(|(at, x)| gamma[at] * (x - mean) * scale + beta[at])
                    .collect::<Vec<_>>()
            })
            .collect();
        let feed = Feed::new()
            .with("x", array(&[rows, d], &x)?)
            .with("γ", array(&[d], &gamma)?)
            .with("β", array(&[d], &beta)?);
        let record = |g: &mut Graph| {
            let x = g.input("x", DType::F32, [rows, d])?;
            let (gamma, beta) = (g.input("γ", DType::F32, [d])?, g.input("β", DType::F32, [d])?);
            Ok(vec![g.layer_norm(x, Some(gamma), Some(beta), NormSpec { epsilon, output: None })?])
        };
        let (exact, fast) = (compute(&feed, record)?, compute_on_cpu(&feed, 1, record)?);
        finding = finding
            .number(Number::at_most(
                format!("{name}: reference against the formula"),
                largest_difference(exact[0].data(), &by_hand),
                1e-14,
            ))
            .number(Number::at_most(
                format!("{name}: CPU engine against the formula"),
                largest_difference(fast[0].data(), &by_hand),
                3e-6,
            ));
        shown = by_hand;
    }
    let points = |of: &[f64], example: usize| {
        (0..d).map(|at| (at as f64 + 1.0, of[example * d + at])).collect::<Vec<_>>()
    };
    Ok(finding
        .picture(
            Chart::new("One example before and after", Axis::new("feature"), Axis::new("value"))
                .points("x", points(&x, 0))
                .points("1.7·(x − μ)/σ − 0.4", points(&shown, 0)),
        )
        .how("Five examples of twelve features by hand in f64, against the op on both engines."))
}

/// I3: the length of y − β.
pub fn length_of(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("I3");
    let d = 32;
    let z = draws.normals(d);
    let (mean, variance) = moments(&z);
    // A row of exactly this variance.
    let row =
        |sigma2: f64| -> Vec<f64> { z.iter().map(|x| (x - mean) * (sigma2 / variance).sqrt()).collect() };
    let size = |x: &[f64], gamma: f64, epsilon: f32| -> Result<f64> {
        let y = normed(x, &vec![gamma; d], &vec![0.3; d], epsilon)?;
        Ok(length(&y.iter().map(|y| y - 0.3).collect::<Vec<_>>()) / (d as f64).sqrt())
    };
    // Many widths, γ, ε and variances at random: the general form.
    let mut general = 0.0f64;
    for _ in 0..200 {
        let (width, gamma) = (2 + draws.below(60), 3.0 * draws.normal());
        let epsilon = 10f32.powf(-8.0 + 7.0 * draws.uniform() as f32);
        let scale = 10f64.powf(-3.0 + 4.0 * draws.uniform());
        let x: Vec<f64> = draws.normals(width).iter().map(|x| scale * x + 1.0).collect();
        let (_, variance) = moments(&x);
        let y = normed(&x, &vec![gamma; width], &vec![0.3; width], epsilon)?;
        let found = length(&y.iter().map(|y| y - 0.3).collect::<Vec<_>>());
        let wanted = gamma.abs() * (width as f64 * variance / (variance + f64::from(epsilon))).sqrt();
        general = general.max((found / wanted - 1.0).abs());
    }
    let mut finding = Finding::new(
        Verdict::Conditional,
        "In general it is |γ|√d·σ/√(σ²+ε), for one γ for all features: shorter by half where σ² is about a third of ε; with a vector γ \
         the identity holds after dividing by γ.",
    )
    .number(Number::shown("γ = 1.5, ε → 0: ‖y − β1‖/(γ√d)", size(&row(1.0), 1.5, VANISHING)? / 1.5))
    .number(Number::shown("γ = −1.5, ε → 0: ‖y − β1‖/(γ√d)", size(&row(1.0), -1.5, VANISHING)? / -1.5).erratum("E30"))
    .number(Number::shown("γ = 1, ε = 10⁻⁵, σ² = 10⁻⁶: ‖y − β1‖/(γ√d)", size(&row(1e-6), 1.0, 1e-5)?).erratum("E30"))
    .number(Number::at_most("|γ|√d·σ/√(σ²+ε): largest relative difference, 200 rows", general, 1e-12));
    let mut table = Table::new("γ = 1, ε = 10⁻⁵", &["σ²", "‖y − β‖/√d", "σ/√(σ²+ε)"]);
    let epsilon = 1e-5f32;
    let theory = |sigma2: f64| (sigma2 / (sigma2 + epsilon as f64)).sqrt();
    for (sigma2, quoted) in [(3.7e-4, 0.9868), (3.7e-6, 0.5197)] {
        let found = size(&row(sigma2), 1.0, epsilon)?;
        finding = finding
            .number(
                Number::quoted(format!("example: ε = 10⁻⁵, σ² = {}", figure(sigma2)), found, quoted, 0.00006)
                    .erratum("E30"),
            )
            .number(Number::equal(
                format!("the same against σ/√(σ²+ε), σ² = {}", figure(sigma2)),
                found,
                theory(sigma2),
                1e-12,
            ));
        table.row([figure(sigma2), format!("{found:.4}"), format!("{:.4}", theory(sigma2))]);
    }
    let gamma = draws.normals(d);
    let y = normed(&row(1.0), &gamma, &vec![0.0; d], VANISHING)?;
    let divided: Vec<f64> = y.iter().zip(&gamma).map(|(y, gamma)| y / gamma).collect();
    let (mut points, mut line) = (vec![], vec![]);
    for step in -28..=8 {
        let sigma2 = 10f64.powf(step as f64 / 4.0);
        points.push((sigma2, size(&row(sigma2), 1.0, epsilon)?));
        line.push((sigma2, theory(sigma2)));
    }
    Ok(finding
        .number(Number::equal("vector γ: ‖(y − β)/γ‖/√d", length(&divided) / (d as f64).sqrt(), 1.0, 1e-13))
        .number(Number::shown("vector γ: ‖y − β‖/√d", length(&y) / (d as f64).sqrt()))
        .counter_example("With ε = 10⁻⁵ and σ² = 3.7·10⁻⁶ the length is 0.52√d, not √d.")
        .picture(
            Chart::new(
                "Length of a normed vector, γ = 1, ε = 10⁻⁵",
                Axis::log("variance σ² of the input"),
                Axis::new("‖y − β‖ / √d").covering(&[0.0, 1.0]),
            )
            .line("σ/√(σ²+ε)", line)
            .points("the op", points),
        )
        .table(table)
        .how("Two hundred random rows of 2 to 61 features with random γ, ε and variance against the general form; rows of 32 features scaled to an exact variance, the quoted .9868 and .5197 among them; all through the op in f64."))
}

/// I4: zᵀ1 = 0, ‖z‖ = √d; and widths 1 and 2.
pub fn unit(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("I4");
    let (mut sum, mut size) = (0.0f64, 0.0f64);
    let mut table = Table::new("Widths", &["d", "|zᵀ1|", "‖z‖/√d − 1"]);
    let (mut lengths, mut before) = (vec![], vec![]);
    for d in [2, 3, 8, 64, 512] {
        let x: Vec<f64> = draws.normals(d).iter().map(|x| 5.0 * x - 2.0).collect();
        let z = normed(&x, &vec![1.0; d], &vec![0.0; d], VANISHING)?;
        let (along, off) = (dot(&z, &vec![1.0; d]).abs(), (length(&z) / (d as f64).sqrt() - 1.0).abs());
        (sum, size) = (sum.max(along), size.max(off));
        table.row([d.to_string(), format!("{along:.1e}"), format!("{off:.1e}")]);
        lengths.push((d as f64, length(&z)));
        before.push((d as f64, length(&x)));
    }
    let two = normed(&draws.normals(2), &[1.0; 2], &[0.0; 2], VANISHING)?;
    Ok(Finding::new(
        Verdict::Holds,
        "A normed vector has sum 0 and length √d: it lies on a sphere in a plane.",
    )
    .number(Number::at_most("largest |zᵀ1|", sum, 1e-11))
    .number(Number::at_most("largest |‖z‖/√d − 1|", size, 1e-14))
    .number(Number::equal("d = 2: |z₁|, which is always 1", two[0].abs(), 1.0, 1e-14))
    .table(table)
    .picture(
        Chart::new("Lengths before and after the norm", Axis::log("d"), Axis::log("length"))
            .points("x", before)
            .points("z", lengths)
            .dashed("√d", [2.0, 512.0].map(|d: f64| (d, d.sqrt()))),
    )
    .how("The op with ε = 10⁻³⁰ on random rows of five widths."))
}
