//! The Jacobian of softmax: its closed form, its norm, and a bound.

use crate::compute::{array, compute};
use crate::picture::{Axis, Chart, Colours, Heat};
use crate::{Context, Draws, Finding, Number, Verdict};
use regard::Result;
use regard::prelude::*;

const KEYS: usize = 6;

/// Softmax of rows of scores.
pub fn softmax(scores: &[f64], keys: usize) -> Result<Vec<f64>> {
    let rows = scores.len() / keys;
    let feed = Feed::new().with("s", array(&[rows, keys], scores)?);
    let found = compute(&feed, |g| {
        let s = g.input("s", DType::F32, [rows, keys])?;
        Ok(vec![g.softmax(s)?])
    })?;
    Ok(found[0].data().to_vec())
}

/// ‖diag(a) − aaᵀ‖_F² by a sum without cancellation: every term is a square. The shorter Σa² − 2Σa³ + (Σa²)²
/// takes nearly equal numbers from each other and goes below 0 where a is nearly one-hot.
pub fn squared_norm(a: &[f64]) -> f64 {
    let total: f64 = a.iter().sum();
    let (mut diagonal, mut pairs, mut before) = (0.0, 0.0, 0.0);
    for (i, x) in a.iter().enumerate() {
        // 1 − a as the sum of the others: exact where a is nearly 1.
        let others: f64 = match *x > 0.5 * total {
            true => a.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, y)| y).sum(),
            false => 1.0 - x,
        };
        diagonal += (x * others).powi(2);
        pairs += x * x * before;
        before += x * x;
    }
    diagonal + 2.0 * pairs
}

/// The Jacobian by the gradient reader, row by row.
fn by_gradient(scores: &[f64]) -> Result<Vec<f64>> {
    let n = scores.len();
    let mut jacobian = vec![];
    for row in 0..n {
        let pick: Vec<f64> = (0..n).map(|at| if at == row { 1.0 } else { 0.0 }).collect();
        let feed = Feed::new().with("s", array(&[1, n], scores)?).with("pick", array(&[1, n], &pick)?);
        let found = compute(&feed, |g| {
            let s = g.input_with_gradient("s", [1, n])?;
            let pick = g.input("pick", DType::F32, [1, n])?;
            let a = g.softmax(s)?;
            let picked = g.mul(a, pick)?;
            let one = g.sum_all(picked)?;
            g.gradient(one, &[s])
        })?;
        jacobian.extend_from_slice(found[0].data());
    }
    Ok(jacobian)
}

fn closed(a: &[f64]) -> Vec<f64> {
    let n = a.len();
    (0..n * n)
        .map(|at| (at / n, at % n))
        .map(|(i, j)| if i == j { a[i] * (1.0 - a[i]) } else { -a[i] * a[j] })
        .collect()
}

/// B8: against the gradient reader and central differences.
pub fn closed_form(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("B8");
    let (mut by_reader, mut by_differences, mut shown) = (0.0f64, 0.0f64, vec![]);
    for number in 0..20 {
        let scores: Vec<f64> = draws.normals(KEYS).iter().map(|x| x * (1.0 + number as f64 / 5.0)).collect();
        let formula = closed(&softmax(&scores, KEYS)?);
        by_reader = by_reader.max(crate::compute::largest_difference(&by_gradient(&scores)?, &formula));
        for j in 0..KEYS {
            const H: f64 = 1e-5;
            let at = |moved: f64| -> Result<Vec<f64>> {
                let mut scores = scores.clone();
                scores[j] += moved;
                softmax(&scores, KEYS)
            };
            let (above, below) = (at(H)?, at(-H)?);
            for i in 0..KEYS {
                let slope = (above[i] - below[i]) / (2.0 * H);
                by_differences = by_differences.max((slope - formula[i * KEYS + j]).abs());
            }
        }
        if number == 0 {
            shown = formula;
        }
    }
    Ok(Finding::new(Verdict::Holds, "The Jacobian is diag(a) − aaᵀ: the gradient reader and central differences agree with it.")
        .number(Number::at_most("gradient reader against the formula", by_reader, 1e-15))
        .number(Number::at_most("central differences against the formula", by_differences, 1e-9))
        .picture(Heat::new("diag(a) − aaᵀ of one random row", "∂aᵢ", "∂sⱼ", KEYS, shown, Colours::Signed))
        .how("Twenty random rows of six scores; one gradient for each row of the Jacobian; differences with a step of 1e-5."))
}

/// Weights from nearly uniform to nearly one-hot.
fn weights(draws: &mut Draws, rows: usize, keys: usize) -> Result<Vec<f64>> {
    let mut scores = vec![];
    for row in 0..rows {
        let size = 10f64.powf(-1.0 + 3.0 * row as f64 / rows as f64);
        scores.extend(draws.normals(keys).iter().map(|x| x * size));
    }
    softmax(&scores, keys)
}

/// B9: the sum of squares against the matrix itself.
pub fn norm(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("B9");
    let (mut worst, mut negative, mut lowest, mut measured) = (0.0f64, 0, 0.0f64, 0.0f64);
    let rows = 2000;
    // The matrix as the gradient reader has it, not its closed form: the norm is measured, and the sum held
    // against it.
    const READ: usize = 60;
    for row in 0..READ {
        let size = 10f64.powf(-1.0 + 2.0 * row as f64 / READ as f64);
        let scores: Vec<f64> = draws.normals(KEYS).iter().map(|x| x * size).collect();
        let squares: f64 = by_gradient(&scores)?.iter().map(|x| x * x).sum();
        measured = measured.max((squared_norm(&softmax(&scores, KEYS)?) - squares).abs());
    }
    for a in weights(&mut draws, rows, KEYS)?.chunks(KEYS) {
        let matrix: f64 = closed(a).iter().map(|x| x * x).sum();
        worst = worst.max((squared_norm(a) - matrix).abs());
        let power = |p: i32| a.iter().map(|x| x.powi(p)).sum::<f64>();
        let short = power(2) - 2.0 * power(3) + power(2) * power(2);
        negative += usize::from(short < 0.0);
        lowest = lowest.min(short);
    }
    Ok(Finding::new(
        Verdict::Holds,
        "The identity holds to rounding. Its shorter form Σa² − 2Σa³ + (Σa²)² cancels and goes below zero for nearly one-hot weights.",
    )
    .number(Number::at_most("the sum against ‖J‖² of the Jacobian by the gradient reader, 60 rows", measured, 1e-13))
    .number(Number::at_most("the sum against the squared entries of diag(a) − aaᵀ, 2000 rows", worst, 1e-12))
    .number(Number::at_least(format!("rows of {rows} where the shorter form is negative"), negative as f64, 1.0))
    .number(Number::shown("most negative value of the shorter form", lowest))
    .picture(
        Chart::new("‖J‖_F along a: two keys with weights a and 1 − a", Axis::new("weight a"), Axis::new("‖J‖_F"))
            .line("2a(1−a)", (0..=50).map(|i| i as f64 / 50.0).map(|a| (a, 2.0 * a * (1.0 - a))))
            .points("sum of squares", (0..=10).map(|i| i as f64 / 10.0).map(|a| (a, squared_norm(&[a, 1.0 - a]).sqrt()))),
    )
    .how("Sixty rows of scores whose Jacobian is read by gradients, one for each of its rows; weights of 2000 rows, from nearly uniform to one-hot, against the closed form of B8."))
}

/// B10: a_max > 1 − ε ⇒ ‖J‖ < nε.
pub fn bound(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("B10");
    let (mut broken, mut tightest, mut rows) = (0, 0.0f64, 0);
    let mut points = vec![];
    for keys in [2, 4, 16, 64] {
        for a in weights(&mut draws, 1000, keys)?.chunks(keys) {
            // The smallest ε for which the premise holds is 1 − a_max, from the other weights.
            let top = (0..keys).max_by(|&i, &j| a[i].total_cmp(&a[j])).unwrap_or(0);
            let epsilon: f64 = a.iter().enumerate().filter(|(i, _)| *i != top).map(|(_, x)| x).sum();
            // Where the other weights underflow there is nothing to divide by.
            if epsilon < 1e-150 {
                continue;
            }
            let norm = squared_norm(a).sqrt();
            let ratio = norm / (keys as f64 * epsilon);
            // Two keys come as near to the bound as rounding lets them.
            broken += usize::from(ratio > 1.0 + 1e-15);
            tightest = tightest.max(ratio);
            rows += 1;
            if keys == 16 && rows % 5 == 0 && epsilon > 1e-12 {
                points.push((epsilon, norm));
            }
        }
    }
    Ok(Finding::new(Verdict::Holds, format!("In {rows} rows of 2 to 64 keys ‖J‖_F stays below nε."))
        .number(Number::count("rows that break the bound", broken, 0))
        .number(Number::at_most("largest ‖J‖_F / nε", tightest, 1.0 + 1e-15))
        .picture(
            Chart::new("‖J‖_F against ε = 1 − a_max, 16 keys", Axis::log("ε"), Axis::log("‖J‖_F"))
                .points("random rows", points)
                .line("bound nε", [(1e-12, 16e-12), (1.0, 16.0)]),
        )
        .how("Softmax rows of rising sharpness; ε is the sum of all weights but the largest, so that nothing cancels."))
}
