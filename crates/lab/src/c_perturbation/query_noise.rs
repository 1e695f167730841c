//! One query is shaken: every score moves along its key, the mean change of the output is zero to first
//! order, and a bias of second order remains.

use crate::attend::{Attended, Scene};
use crate::compute::{dot, length};
use crate::picture::{Axis, Chart, figure};
use crate::statistics::{Estimate, mean};
use crate::{Context, Finding, Number, Table, Verdict};
use regard::Result;

const KEYS: usize = 5;
const WIDTH: usize = 6;

/// The second-order bias of the output: ½β²σ² Σₗ aₗ(‖kₗ − k̄‖² − Σ aₘ‖kₘ − k̄‖²)(vₗ − h), half the trace of
/// the second derivative of the mean of the values with respect to the query.
fn second_order(scene: &Scene, attended: &Attended, sigma: f64) -> f64 {
    let a = attended.weights_of(0);
    let middle: Vec<f64> = (0..WIDTH).map(|at| (0..KEYS).map(|l| a[l] * scene.key(l)[at]).sum()).collect();
    let off = |l: usize| -> f64 { scene.key(l).iter().zip(&middle).map(|(k, m)| (k - m).powi(2)).sum() };
    let spread: f64 = (0..KEYS).map(|l| a[l] * off(l)).sum();
    let h = attended.mixed[0];
    let sum: f64 = (0..KEYS).map(|l| a[l] * (off(l) - spread) * (scene.value(l)[0] - h)).sum();
    0.5 * (scene.beta() * sigma).powi(2) * sum
}

/// Changes of the one output for many draws of noise on the query, by the attention op. Every draw comes with
/// its opposite, so that what is odd in the noise cancels and the bias stands out.
fn changes(context: &Context, name: &str, scene: &Scene, sigma: f64, pairs: usize) -> Result<Vec<f64>> {
    let mut draws = context.draws(name);
    let before = scene.attend()?.mixed[0];
    let mut found = Vec::with_capacity(pairs);
    while found.len() < pairs {
        let batch = (pairs - found.len()).min(5_000);
        let mut q = Vec::with_capacity(2 * batch * WIDTH);
        for _ in 0..batch {
            let noise: Vec<f64> = draws.normals(WIDTH).iter().map(|x| sigma * x).collect();
            q.extend(scene.q.iter().zip(&noise).map(|(q, e)| q + e));
            q.extend(scene.q.iter().zip(&noise).map(|(q, e)| q - e));
        }
        let many = Scene { queries: 2 * batch, q, ..scene.clone() };
        found.extend(many.attend()?.mixed.chunks(2).map(|two| (two[0] + two[1]) / 2.0 - before));
    }
    Ok(found)
}

/// C16: the mean change under noise on a query.
pub fn bias(context: &Context) -> Result<Finding> {
    let pairs = context.size(20_000, 100_000);
    let mut draws = context.draws("C16");
    let mut table = Table::new(
        "Random scenes, σ = 0.3",
        &["scene", "mean change", "second order", "rms of single changes"],
    );
    let mut finding = Finding::new(
        Verdict::Wrong,
        "Only to first order. Noise on a query moves every score along its key, and a bias of second order in βσ remains; it depends on \
         how the keys spread around their mean.",
    );
    let mut points: Vec<(f64, Estimate)> = vec![];
    let mut first = None;
    for at in 0..6 {
        let scene = Scene { beta: 1.0, ..Scene::random(&mut draws, 1, 1, KEYS, WIDTH, 1) };
        let attended = scene.attend()?;
        let found = mean(&changes(context, &format!("C16.{at}"), &scene, 0.3, pairs)?);
        let predicted = second_order(&scene, &attended, 0.3);
        // To first order Δh = β Σ aₗ(kₗᵀε)(vₗ − h): its size for one draw.
        let slope: Vec<f64> = (0..WIDTH)
            .map(|c| {
                (0..KEYS)
                    .map(|l| attended.weights[l] * scene.key(l)[c] * (scene.value(l)[0] - attended.mixed[0]))
                    .sum()
            })
            .collect();
        let single = scene.beta() * 0.3 * length(&slope);
        table.row([at.to_string(), figure(found.value), figure(predicted), figure(single)]);
        // In units of a single change, so that scenes can stand beside each other.
        finding = finding.number(Number::sampled(
            format!("mean change over the size of a single one, scene {at}"),
            found.times(1.0 / single),
        ));
        points.push((predicted / single, found.times(1.0 / single)));
        first.get_or_insert(scene);
    }
    // The noise made small: what is left beyond the second order falls with the fourth power.
    let Some(scene) = first else { return Ok(finding) };
    let attended = scene.attend()?;
    let off = |sigma: f64| -> Result<f64> {
        let exact = mean(&changes(context, "C16.small", &scene, sigma, pairs)?).value;
        Ok((exact - second_order(&scene, &attended, sigma)).abs()
            / second_order(&scene, &attended, sigma).abs())
    };
    let alike = Scene { k: scene.k[..WIDTH].repeat(KEYS), ..scene.clone() };
    let still =
        changes(context, "C16.alike", &alike, 0.3, 100)?.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    let widest = points.iter().map(|(x, _)| x.abs()).fold(0.0, f64::max);
    Ok(finding
        .number(Number::at_most("second order off the mean change at σ = 0.05, relative", off(0.05)?, 0.1))
        .number(Number::at_most("equal keys: largest change of the output", still, 1e-14))
        .number(Number::shown("kᵀε of the first scene’s keys at σ = 0.3, root of the mean square", 0.3 * (dot(&scene.k, &scene.k) / KEYS as f64).sqrt()))
        .counter_example(format!("The first of six random scenes: the mean change is {} of the size of a single one, not zero.", figure(points[0].1.value)))
        .picture(
            Chart::new("Mean change under noise of mean zero on a query", Axis::new("second order, in units of a single change"), Axis::new("measured"))
                .estimates("attention op, 99.99 %", points)
                .dashed("equal", [(-widest, -widest), (widest, widest)]),
        )
        .table(table)
        .how(format!("Six random scenes of five keys, β = 1; {pairs} pairs of opposite draws of noise on the query through the attention op, so that the odd part cancels.")))
}
