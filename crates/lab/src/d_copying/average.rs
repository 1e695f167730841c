//! A query made of keys: half of the weight each for two, a share each for a subset.

use crate::attend::Scene;
use crate::picture::{Axis, Chart, figure};
use crate::{Context, Finding, Number, Table, Verdict};
use regard::Result;

/// The weights for a query of length β towards each of the first `chosen` of `keys` orthonormal keys.
fn weights(keys: usize, chosen: usize, beta: f64) -> Result<Vec<f64>> {
    let unit = |row: usize| (0..keys).map(move |at| if at == row { 1.0 } else { 0.0 });
    let scene = Scene {
        batch: 1,
        queries: 1,
        keys,
        width: keys,
        value_width: 1,
        seed: 0,
        beta: 1.0,
        q: (0..keys).map(|at| if at < chosen { beta } else { 0.0 }).collect(),
        k: (0..keys).flat_map(unit).collect(),
        v: vec![0.0; keys],
    };
    Ok(scene.attend()?.weights)
}

fn formula(keys: usize, chosen: usize, beta: f64) -> f64 {
    beta.exp() / (chosen as f64 * beta.exp() + (keys - chosen) as f64)
}

/// D6: two keys.
pub fn two(_context: &Context) -> Result<Finding> {
    let mut off = 0.0f64;
    let mut table = Table::new(
        "The smallest β for which each weight is within ε of ½",
        &["n", "ε = 0.1", "ε = 0.01", "ε = 0.001"],
    );
    let mut finding = Finding::new(
        Verdict::Holds,
        "q = β(kₐ + k_b) gives each of two orthonormal keys e^β/(2e^β + n − 2), which tends to ½.",
    );
    let mut chart =
        Chart::new("Weight of each of two keys", Axis::new("β"), Axis::new("weight").covering(&[0.0, 0.5]));
    let mut least_off = 0.0f64;
    for keys in [3, 10, 100] {
        let mut curve = vec![];
        for step in 0..=24 {
            let beta = step as f64 / 2.0;
            let found = weights(keys, 2, beta)?;
            off = off.max((found[0] - formula(keys, 2, beta)).abs()).max((found[0] - found[1]).abs());
            curve.push((beta, found[0]));
        }
        chart = chart.line(
            format!("n = {keys}"),
            (0..=120).map(|i| i as f64 / 10.0).map(|b| (b, formula(keys, 2, b))),
        );
        let colour = chart.series.len() - 1;
        chart = chart.points("", curve).in_colour(colour);
        let least = |epsilon: f64| ((keys as f64 - 2.0) / 2.0 * (1.0 - 2.0 * epsilon) / (2.0 * epsilon)).ln();
        for epsilon in [0.1, 0.01, 0.001] {
            if least(epsilon) > 0.0 {
                least_off = least_off.max((0.5 - weights(keys, 2, least(epsilon))?[0] - epsilon).abs());
            }
        }
        table
            .row([keys.to_string()].into_iter().chain([0.1, 0.01, 0.001].map(|e| figure(least(e).max(0.0)))));
    }
    finding = finding
        .number(Number::at_most("weights against the formula, and against each other", off, 1e-14))
        .number(Number::at_most("error at the smallest β, against ε", least_off, 1e-14))
        .number(Number::equal("weight at β = 12, n = 10", weights(10, 2, 12.0)?[0], 0.5, 2e-5));
    Ok(finding
        .picture(chart.dashed("½", [(0.0, 0.5), (12.0, 0.5)]))
        .table(table)
        .how("Unit vectors as keys and the query β(e₁ + e₂), through the attention op without a scale."))
}

/// D7: any subset.
pub fn subset(_context: &Context) -> Result<Finding> {
    let keys = 16;
    let (mut off, mut points, mut line) = (0.0f64, vec![], vec![]);
    for chosen in 1..=keys {
        for beta in [0.0, 1.0, 5.0, 20.0] {
            let found = weights(keys, chosen, beta)?;
            let theory = formula(keys, chosen, beta);
            off = found[..chosen].iter().fold(off, |off, a| off.max((a - theory).abs()));
            if beta == 20.0 {
                points.push((chosen as f64, found[0]));
                line.push((chosen as f64, 1.0 / chosen as f64));
            }
        }
    }
    let limit = points.iter().zip(&line).map(|(p, l)| (p.1 - l.1).abs()).fold(0.0, f64::max);
    Ok(Finding::new(
        Verdict::Holds,
        "The sum of any subset of orthonormal keys, times a large β, gives each of them an equal share.",
    )
    .number(Number::at_most("weights against the formula, all sizes", off, 1e-14))
    .number(Number::at_most("β = 20: weights against 1/|S|", limit, 1e-7))
    .picture(
        Chart::new(
            "Share of each chosen key of 16, β = 20",
            Axis::new("size of the subset"),
            Axis::new("weight").covering(&[0.0, 1.0]),
        )
        .line("1/|S|", line)
        .points("attention op", points),
    )
    .how("Subsets of all sizes of 16 unit vectors, β from 0 to 20, through the attention op."))
}
