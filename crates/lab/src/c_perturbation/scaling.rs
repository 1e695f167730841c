//! One key is made longer: the closed form, the sign that decides, and how far a first order goes.

use crate::attend::{Scene, logit, mean_of_others, sigmoid};
use crate::compute::{dot, length, minus};
use crate::picture::{Axis, Chart, figure};
use crate::{Context, Finding, Number, Table, Verdict};
use regard::Result;

const WIDTH: usize = 4;
const KEYS: usize = 5;

fn longer(scene: &Scene, factor: f64) -> Scene {
    let mut other = scene.clone();
    other.k[..WIDTH].iter_mut().for_each(|x| *x *= factor);
    other
}

/// C11: exact weights after scaling key 1.
pub fn closed_form(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("C11");
    let (mut off, mut score_off, mut tried) = (0.0f64, 0.0f64, 0);
    for _ in 0..30 {
        let scene = Scene::random(&mut draws, 1, 4, KEYS, WIDTH, 3);
        let before = scene.attend()?;
        for factor in [0.0, 0.5, 1.5, 2.0, 5.0] {
            let other = longer(&scene, factor);
            let after = other.attend()?;
            for j in 0..4 {
                let s = scene.score(j, 0);
                score_off = score_off.max((other.score(j, 0) - factor * s).abs());
                let theory = sigmoid(logit(before.weights_of(j)[0]) + scene.beta() * (factor - 1.0) * s);
                off = off.max((after.weights_of(j)[0] - theory).abs());
                tried += 1;
            }
        }
    }
    Ok(Finding::new(
        Verdict::Holds,
        "Scaling a key scales its scores, and its weights follow exactly by a sigmoid.",
    )
    .number(Number::at_most("scores against α·s", score_off, 1e-13))
    .number(Number::at_most(format!("weights against σ(logit a + β(α−1)s), {tried} queries"), off, 1e-13))
    .picture(
        Chart::new(
            "Weight of a key scaled by α, from a = 0.2 at α = 1",
            Axis::new("α"),
            Axis::new("weight").covering(&[0.0, 1.0]),
        )
        .line("βs = 1", curve(0.2, 1.0))
        .line("βs = 0", curve(0.2, 0.0))
        .line("βs = −1", curve(0.2, -1.0)),
    )
    .how("Thirty scenes, five factors; the attention op before and after against the formula."))
}

fn curve(a: f64, s: f64) -> impl Iterator<Item = (f64, f64)> {
    (0..=60).map(|i| i as f64 / 10.0).map(move |alpha| (alpha, sigmoid(logit(a) + (alpha - 1.0) * s)))
}

/// C12: the sign of the score decides, for any query. The quoted weights .486, .114 and .258 are an example.
pub fn sign(context: &Context) -> Result<Finding> {
    const LONG: f64 = 1e4;
    const QUERIES: usize = 4;
    let mut draws = context.draws("C12");
    let (mut counts, mut least, mut most, mut moved) = ([0usize; 2], 1.0f64, 0.0f64, 0.0f64);
    let mut falls = 0usize;
    for _ in 0..100 {
        let scene = Scene::random(&mut draws, 1, QUERIES, KEYS, WIDTH, 1);
        let (before, after) = (scene.attend()?, longer(&scene, LONG).attend()?);
        for j in 0..QUERIES {
            let (a, b) = (before.weights_of(j)[0], after.weights_of(j)[0]);
            falls += usize::from(b < a);
            // Scores so near to 0 that the key would have to be longer still tell nothing here.
            match scene.beta() * scene.score(j, 0) * LONG {
                reach if reach > 50.0 => (counts[0], least) = (counts[0] + 1, least.min(b)),
                reach if reach < -50.0 => (counts[1], most) = (counts[1] + 1, most.max(b)),
                _ => {}
            }
        }
        // A key that is upright on the query, made so by taking away what lies along it.
        let mut upright = Scene { queries: 1, q: scene.q[..WIDTH].to_vec(), ..scene };
        let along = upright.score(0, 0) / dot(&upright.q, &upright.q);
        let key: Vec<f64> = upright.key(0).iter().zip(&upright.q).map(|(k, q)| k - along * q).collect();
        upright.k[..WIDTH].copy_from_slice(&key);
        let (before, after) = (upright.attend()?, longer(&upright, 100.0).attend()?);
        moved = moved.max((after.weights[0] - before.weights[0]).abs());
    }
    let mut chart =
        Chart::new("Weight of a key as it grows", Axis::log("α"), Axis::new("weight").covering(&[0.0, 1.0]));
    let mut table =
        Table::new("The quoted example", &["score", "weight at α = 1", "α = 2", "α = 5", "α = 100"]);
    for (name, score, weight) in [("positive", 1.0, 0.486), ("negative", -1.0, 0.114), ("zero", 0.0, 0.258)] {
        // One query along the first axis; the other keys are one key whose score gives the quoted weight.
        let mut scene = Scene { beta: 1.0, ..Scene::random(&mut draws, 1, 1, 2, WIDTH, 1) };
        scene.q = vec![1.0, 0.0, 0.0, 0.0];
        let side = draws.normals(WIDTH - 1);
        scene.k = [vec![score], side, vec![score - logit(weight)], draws.normals(WIDTH - 1)].concat();
        let at = |factor: f64| -> Result<f64> { Ok(longer(&scene, factor).attend()?.weights[0]) };
        let points = (0..=24).map(|step| 10f64.powf(step as f64 / 12.0));
        chart = chart.line(
            format!("{name} score"),
            points.map(|factor| Ok((factor, at(factor)?))).collect::<Result<Vec<_>>>()?,
        );
        table.row([figure(score), figure(at(1.0)?), figure(at(2.0)?), figure(at(5.0)?), figure(at(100.0)?)]);
    }
    Ok(Finding::new(
        Verdict::Wrong,
        "Only where kᵀq > 0 does the weight rise to 1. Where it is negative the weight falls to 0, where it is zero nothing changes.",
    )
    .number(Number::shown(format!("queries of {} whose weight on the longer key fell", 100 * QUERIES), falls as f64))
    .number(Number::at_least(format!("positive scores: smallest weight at α = 10000 ({} queries)", counts[0]), least, 1.0 - 1e-9))
    .number(Number::at_most(format!("negative scores: largest weight at α = 10000 ({} queries)", counts[1]), most, 1e-9).erratum("E5"))
    .number(Number::at_most("scores of zero: largest change of a weight at α = 100 (100 queries)", moved, 1e-12).erratum("E5"))
    .counter_example("The quoted example: a key with score −1 and weight 0.114, scaled by 100, has a weight of 0, not 1.")
    .picture(chart)
    .table(table)
    .how("A hundred random scenes of five keys and four queries, one key made 10000 times as long, through the attention op; the same with the key made upright on the query. The quoted weights are those of three scenes that begin with them."))
}

/// C13: exact against first order; without β the note's form is off at once.
pub fn first_order(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("C13");
    let scene = Scene { beta: 0.5, ..Scene::random(&mut draws, 1, 1, KEYS, WIDTH, 3) };
    let before = scene.attend()?;
    let a = before.weights[0];
    let s = dot(scene.query(0), scene.key(0));
    let towards = minus(scene.value(0), &mean_of_others(&scene, &before.weights, 0));
    let (mut with, mut without) = (vec![], vec![]);
    for step in -16..=4 {
        let more = 10f64.powf(step as f64 / 4.0);
        let change = minus(&longer(&scene, 1.0 + more).attend()?.mixed, &before.mixed);
        let off = |beta: f64| {
            let predicted: Vec<f64> = towards.iter().map(|x| beta * more * s * a * (1.0 - a) * x).collect();
            length(&minus(&change, &predicted)) / length(&change)
        };
        with.push((more, off(scene.beta())));
        without.push((more, off(1.0)));
    }
    // Second order: the error falls in proportion to α − 1.
    let rate = (with[4].1 / with[0].1).log10() / (with[4].0 / with[0].0).log10();
    Ok(Finding::new(
        Verdict::Conditional,
        "With β put in, first order is right for small α − 1, its relative error falling in proportion; the closed form of C11 is exact.",
    )
    .number(Number::at_most("relative error of first order at α − 1 = 0.0001", with[0].1, 1e-3))
    .number(Number::equal("power with which it falls", rate, 1.0, 0.05))
    .number(Number::equal("relative error without β, β = 0.5, at α − 1 = 0.0001", without[0].1, 1.0, 0.01).erratum("E6"))
    .number(Number::shown("relative error of first order at α = 2", with[16].1))
    .counter_example("Without β the predicted change is twice the real one at β = 0.5, however small α − 1 is.")
    .picture(
        Chart::new("Relative error of the first-order change of h", Axis::log("α − 1"), Axis::log("relative error"))
            .line("first order with β", with)
            .dashed("as in the notes, without β", without),
    )
    .how("One key of five scaled by α; the attention op before and after; first order in α − 1 with and without β = 0.5."))
}

/// C14: monotone in α, β and the score, where the score is positive.
pub fn monotone(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("C14");
    let (mut falls, mut tried) = ([0; 3], 0);
    for _ in 0..200 {
        let mut scene = Scene { beta: 0.5, ..Scene::random(&mut draws, 1, 1, KEYS, WIDTH, 1) };
        if scene.score(0, 0) < 0.0 {
            scene.k[..WIDTH].iter_mut().for_each(|x| *x = -*x);
        }
        // The gain in logit, β(α−1)s: weights themselves saturate at 1.
        let gain = |scene: &Scene, factor: f64| -> Result<f64> {
            Ok(logit(longer(scene, factor).attend()?.weights[0]) - logit(scene.attend()?.weights[0]))
        };
        let base = gain(&scene, 1.5)?;
        falls[0] += usize::from(gain(&scene, 2.0)? <= base);
        falls[1] += usize::from(gain(&Scene { beta: 0.75, ..scene.clone() }, 1.5)? <= base);
        let nearer = longer(&scene, 1.2);
        falls[2] += usize::from(gain(&nearer, 1.5)? <= base);
        tried += 1;
    }
    let gain = |s: f64| {
        (0..=40)
            .map(move |i| 1.0 + i as f64 / 10.0)
            .map(move |alpha| (alpha, sigmoid(logit(0.1) + (alpha - 1.0) * s)))
    };
    Ok(Finding::new(
        Verdict::Holds,
        "For positive scores the gain in logit, β(α−1)s, grows with α, with β and with the score.",
    )
    .number(Number::count(format!("larger α, smaller effect (of {tried})"), falls[0], 0))
    .number(Number::count("larger β, smaller effect", falls[1], 0))
    .number(Number::count("larger score, smaller effect", falls[2], 0))
    .picture(
        Chart::new(
            "Weight of a scaled key, from a = 0.1",
            Axis::new("α"),
            Axis::new("weight").covering(&[0.0, 1.0]),
        )
        .line("βs = 0.5", gain(0.5))
        .line("βs = 1", gain(1.0))
        .line("βs = 2", gain(2.0)),
    )
    .how(
        "200 random scenes with a positive score; α from 1.5 to 2, β from 0.5 to 0.75, the score by a fifth.",
    ))
}
