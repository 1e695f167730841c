//! Noisy keys: the best length of a query, and a key whose length is uncertain. Ten keys, as in the quoted
//! figures.

use crate::attend::{Scene, sigmoid};
use crate::picture::{Axis, Chart, figure};
use crate::statistics::{Estimate, deviation, histogram, mean, normal_expectation, root};
use crate::{Context, Draws, Finding, Number, Table, Verdict};
use regard::Result;

pub const KEYS: usize = 10;

/// Keys around unit vectors with noise of variance `noise` in every direction, and a factor 1 + ε on the
/// first, ε of variance ½, where its length is uncertain. Values are unit vectors: outputs are weights. One
/// query for each of `asked`.
pub fn many(
    draws: &mut Draws,
    samples: usize,
    noise: f64,
    uncertain: bool,
    asked: &[Vec<f64>],
) -> (Scene, Vec<f64>) {
    let (mut k, mut lengths) = (Vec::with_capacity(samples * KEYS * KEYS), vec![]);
    for _ in 0..samples {
        let length = if uncertain { 1.0 + 0.5f64.sqrt() * draws.normal() } else { 1.0 };
        lengths.push(length);
        for row in 0..KEYS {
            for at in 0..KEYS {
                let mean = if at == row { if row == 0 { length } else { 1.0 } } else { 0.0 };
                k.push(mean + noise.sqrt() * draws.normal());
            }
        }
    }
    let unit: Vec<f64> = (0..KEYS * KEYS).map(|at| if at / KEYS == at % KEYS { 1.0 } else { 0.0 }).collect();
    let scene = Scene {
        batch: samples,
        queries: asked.len(),
        keys: KEYS,
        width: KEYS,
        value_width: KEYS,
        seed: 0,
        beta: 1.0,
        q: asked.concat().repeat(samples),
        k,
        v: unit.repeat(samples),
    };
    (scene, lengths)
}

/// t times the sum of some of the means.
pub fn asking(t: f64, chosen: &[usize]) -> Vec<f64> {
    (0..KEYS).map(|at| if chosen.contains(&at) { t } else { 0.0 }).collect()
}

/// D8: for finite noise there is a best t.
pub fn best_length(context: &Context) -> Result<Finding> {
    let samples = context.size(2_000, 10_000);
    let lengths: Vec<f64> = (1..=40).map(|i| i as f64 / 2.0).collect();
    let queries: Vec<Vec<f64>> = lengths.iter().map(|&t| asking(t, &[0, 1])).collect();
    let mut chart = Chart::new(
        "Error of the average of two values, ten keys",
        Axis::new("length t of the query"),
        Axis::log("rms ‖c − ½(vₐ+v_b)‖"),
    );
    let mut table = Table::new("The best t", &["noise α", "best t", "least rms error", "ln n", "1/√(2α)"]);
    let mut finding = Finding::new(
        Verdict::Conditional,
        "It works between two bounds: t must be large against ln n, and small against 1/√(2α). For finite noise there is a \
         best t, and beyond it the average falls apart.",
    );
    for (noise, quoted) in [(1e-4, 6.0), (1e-2, 4.0), (5e-2, 2.0)] {
        let mut draws = context.draws(&format!("D8.{noise}"));
        let (scene, _) = many(&mut draws, samples, noise, false, &queries);
        let found = scene.attend()?;
        let mut errors: Vec<(f64, Estimate)> = vec![];
        for (index, &t) in lengths.iter().enumerate() {
            let squares: Vec<f64> = (0..samples)
                .map(|row| found.output_of(row * lengths.len() + index))
                .map(|c| {
                    c.iter().enumerate().map(|(at, c)| (c - if at < 2 { 0.5 } else { 0.0 }).powi(2)).sum()
                })
                .collect();
            errors.push((t, root(mean(&squares))));
        }
        let (best, least) = errors
            .iter()
            .fold((0.0, f64::MAX), |best, (t, e)| if e.value < best.1 { (*t, e.value) } else { best });
        let last = errors[errors.len() - 1].1;
        let number = Number::quoted(format!("α = {noise}: t of least error"), best, quoted, 1.0);
        finding = finding.number(number.erratum("E33"));
        finding = finding.number(Number::shown(format!("α = {noise}: least error"), least)).number(
            Number::at_least(
                format!("α = {noise}: error at t = 20 over the least, lower end"),
                last.low / least,
                1.1,
            ),
        );
        table.row([
            figure(noise),
            figure(best),
            figure(least),
            figure((KEYS as f64).ln()),
            figure(1.0 / (2.0 * noise).sqrt()),
        ]);
        chart = chart.line(format!("α = {noise}"), errors.iter().map(|(t, e)| (*t, e.value)));
    }
    Ok(finding
        .counter_example("α = 0.05: at t = 20 the error is several times that at t = 2, although t ≫ 0.")
        .picture(chart)
        .table(table)
        .how(format!("{samples} draws of ten noisy keys around unit vectors, one query for each t from 0.5 to 20, through the attention op.")))
}

/// The weight on vₐ for the one query t(μₐ + μ_b) under uncertain length.
pub fn swinging(context: &Context, name: &str, t: f64, samples: usize) -> Result<(Vec<f64>, Vec<f64>)> {
    let (scene, lengths) = many(&mut context.draws(name), samples, 1e-6, true, &[asking(t, &[0, 1])]);
    let found = scene.attend()?;
    Ok(((0..samples).map(|row| found.output_of(row)[0]).collect(), lengths))
}

/// D9: c swings.
pub fn swings(context: &Context) -> Result<Finding> {
    let samples = context.size(20_000, 100_000);
    let mut finding = Finding::new(
        Verdict::Holds,
        "The weight on vₐ is σ(tε): it swings between 0 and 1, the more the larger t; its histogram has two peaks.",
    );
    let mut chart = Chart::new(
        "Weight on vₐ when the length of its key is uncertain",
        Axis::new("weight on vₐ"),
        Axis::new("share of draws"),
    );
    for (t, quoted) in [(10.0, 0.44), (20.0, 0.47)] {
        let (weights, lengths) = swinging(context, &format!("D9.{t}"), t, samples)?;
        let spread = deviation(&weights);
        let off =
            weights.iter().zip(&lengths).map(|(w, l)| (w - sigmoid(t * (l - 1.0))).abs()).fold(0.0, f64::max);
        let second = normal_expectation(|z| (sigmoid(t * 0.5f64.sqrt() * z) - 0.5).powi(2));
        finding = finding
            .number(Number::sampled_quoted(format!("std of the weight, t = {t}"), spread, quoted, 0.005))
            // The formula leaves out the other eight keys and the small noise.
            .number(Number::at_most(
                format!("std against that of σ(tε), t = {t}"),
                (spread.value - second.sqrt()).abs(),
                0.01,
            ))
            .number(Number::shown(format!("largest |weight − σ(tε)| of a draw, t = {t}"), off));
        let middle = weights.iter().filter(|w| (0.4..0.6).contains(*w)).count() as f64 / samples as f64;
        finding = finding.number(Number::at_most(
            format!("share of draws between 0.4 and 0.6, t = {t}"),
            middle,
            0.06,
        ));
        chart = chart.bars(format!("t = {t}"), histogram(&weights, 0.0, 1.0, 25));
    }
    Ok(finding.picture(chart).how(format!("{samples} draws: ten keys around unit vectors with noise 10⁻⁶, the first with a length of 1 + N(0, ½), the query t(μₐ + μ_b).")))
}
