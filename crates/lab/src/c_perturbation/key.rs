//! One key is moved: the closed form, who is reached, and what is wrong about rows and proportions.

use crate::attend::{Scene, logit, mean_of_others, sigmoid};
use crate::compute::{dot, length, minus};
use crate::picture::{Axis, Chart, Colours, Heat};
use crate::{Context, Draws, Finding, Number, Table, Verdict};
use regard::Result;
use regard::ops::Attention;
use regard::prelude::*;
use regard_graph::Integers;
use regard_graph::reach::{Grain, Query, reach};

pub const QUERIES: usize = 6;
pub const KEYS: usize = 7;
pub const MOVED: usize = 2;

/// A scene, and the same with one key moved.
pub fn moved_key(draws: &mut Draws, size: f64) -> (Scene, Scene, Vec<f64>) {
    let scene = Scene::random(draws, 1, QUERIES, KEYS, 5, 4);
    let step: Vec<f64> = draws.normals(5).iter().map(|x| size * x).collect();
    let mut other = scene.clone();
    other.k[MOVED * 5..(MOVED + 1) * 5].iter_mut().zip(&step).for_each(|(k, step)| *k += step);
    (scene, other, step)
}

/// C1: the exact change of weights and outputs.
pub fn closed_form(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("C1");
    let (mut weight_off, mut output_off, mut tried) = (0.0f64, 0.0f64, 0);
    let mut shown = None;
    for size in [0.01, 0.1, 1.0, 5.0] {
        for _ in 0..10 {
            let (scene, other, step) = moved_key(&mut draws, size);
            let (before, after) = (scene.attend()?, other.attend()?);
            for j in 0..QUERIES {
                let (a, b) = (before.weights_of(j), after.weights_of(j));
                let theory = sigmoid(logit(a[MOVED]) + scene.beta() * dot(&step, scene.query(j)));
                weight_off = weight_off.max((b[MOVED] - theory).abs());
                let towards = minus(scene.value(MOVED), &mean_of_others(&scene, a, MOVED));
                let change = minus(after.output_of(j), before.output_of(j));
                let predicted: Vec<f64> = towards.iter().map(|x| (theory - a[MOVED]) * x).collect();
                output_off = output_off.max(length(&minus(&change, &predicted)));
                tried += 1;
            }
            if size == 5.0 && shown.is_none() {
                shown = Some((minus(&after.weights, &before.weights), minus(&after.mixed, &before.mixed)));
            }
        }
    }
    let mut finding = Finding::new(
        Verdict::Holds,
        "The change has a closed form, exact for any size: the weight moves by a sigmoid, the output along vᵢ − v̄₋ᵢ.",
    )
    .number(Number::at_most(format!("weights: largest difference over {tried} queries"), weight_off, 1e-13))
    .number(Number::at_most("outputs: largest difference", output_off, 1e-12));
    if let Some((weights, outputs)) = shown {
        finding = finding
            .picture(Heat::new(
                "ΔA after key 3 moved (query × key)",
                "query",
                "key",
                KEYS,
                weights,
                Colours::Signed,
            ))
            .picture(Heat::new(
                "ΔH after key 3 moved (query × feature)",
                "query",
                "feature",
                4,
                outputs,
                Colours::Signed,
            ));
    }
    Ok(finding.how(
        "Forty scenes, moves of four sizes; the attention op before and after, against the formula, in f64.",
    ))
}

/// C2: from one key to every query that may see it.
pub fn reaches_all(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("C2");
    let mut finding = Finding::new(
        Verdict::Holds,
        "A moved key can change every output whose query may see it: by the graph’s relations, and in numbers.",
    );
    for (name, spec) in [("no mask", Attention::default()), ("causal", Attention::causal())] {
        let mut g = Graph::new();
        let q = g.input("query", DType::F32, [1, KEYS, 1, 5])?;
        let k = g.input("key", DType::F32, [1, KEYS, 1, 5])?;
        let v = g.input("value", DType::F32, [1, KEYS, 1, 4])?;
        let y = g.attention(q, k, v, &spec)?.y;
        let query = Query {
            from: vec![k],
            to: vec![y],
            integers: Integers::none(),
            grain: Grain::Position,
            ..Default::default()
        };
        let reaches = reach(&g, &query)?;
        let from = reaches.cell(k, &[0, MOVED, 0])?;
        let mut reached = 0;
        for t in 0..KEYS {
            reached += usize::from(reaches.can(from, reaches.cell(y, &[0, t, 0])?)?);
        }
        let scene = Scene::random(&mut draws, 1, KEYS, KEYS, 5, 4);
        let mut other = scene.clone();
        other.k[MOVED * 5] += 1.0;
        let (before, after) =
            (scene.attend_as(|_| Ok(spec.clone()))?, other.attend_as(|_| Ok(spec.clone()))?);
        let changed = (0..KEYS).filter(|&t| before.output_of(t) != after.output_of(t)).count();
        let wanted = if spec.mask.causal { KEYS - MOVED } else { KEYS };
        finding = finding
            .number(Number::count(format!("{name}: outputs that key 3 can change"), reached, wanted))
            .number(Number::count(format!("{name}: outputs that changed"), changed, wanted));
    }
    Ok(finding.how(
        "The reach reader on the recorded attention, and the same attention with one number of key 3 moved.",
    ))
}

/// C3: all weights of a column move.
pub fn whole_column(context: &Context) -> Result<Finding> {
    let (scene, other, _) = moved_key(&mut context.draws("C3"), 3.0);
    let (before, after) = (scene.attend()?, other.attend()?);
    let change = minus(&after.weights, &before.weights);
    let still = change.iter().filter(|x| **x == 0.0).count();
    let mut off = 0.0f64;
    for j in 0..QUERIES {
        let (a, d) = (before.weights_of(j), &change[j * KEYS..(j + 1) * KEYS]);
        for l in (0..KEYS).filter(|&l| l != MOVED) {
            off = off.max((d[l] + a[l] / (1.0 - a[MOVED]) * d[MOVED]).abs());
        }
    }
    let columns: Vec<f64> =
        (0..KEYS * QUERIES).map(|at| change[at % QUERIES * KEYS + at / QUERIES]).collect();
    let elsewhere: f64 =
        change.iter().enumerate().filter(|(at, _)| at % KEYS != MOVED).map(|(_, x)| x.abs()).sum();
    let own: f64 = change.iter().enumerate().filter(|(at, _)| at % KEYS == MOVED).map(|(_, x)| x.abs()).sum();
    Ok(Finding::new(
        Verdict::Wrong,
        "Only the scores of one row move. The weights of every other key move too: what one gains the others lose, in \
         proportion to their weights.",
    )
    .number(Number::count(format!("weights of {} that stayed as they were", KEYS * QUERIES), still, 0).erratum("E3"))
    .number(Number::equal("sum of |Δa| of the other keys over that of the moved key", elsewhere / own, 1.0, 1e-12).erratum("E3"))
    .number(Number::at_most("Δaₗ against −aₗ/(1−aᵢ)·Δaᵢ", off, 1e-14))
    .counter_example("Key 3 moved: all other rows of ΔA are coloured as well, and their changes add up to that of row 3.")
    .picture(Heat::new("ΔA after key 3 moved, in the notes’ layout (key × query)", "key", "query", QUERIES, columns, Colours::Signed))
    .how("The attention op before and after, in f64."))
}

/// C4: a(1−a), not a.
pub fn proportional(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("C4");
    let scene = Scene { beta: 1.0, ..Scene::random(&mut draws, 1, 1, 2, 1, 1) };
    const STEP: f64 = 1e-4;
    let (mut points, mut worst) = (vec![], 0.0f64);
    let mut table = Table::new(
        "One key of two, its score moved by 0.0001",
        &["weight a", "|Δh|/(0.0001·|vᵢ−v̄|)", "a(1−a)", "a, as the notes say"],
    );
    for step in -12..=12 {
        // Two keys with scores s and 0: the weight of the first is σ(s).
        let s = step as f64 / 2.0;
        let at =
            |s: f64| Scene { q: vec![1.0], k: vec![s, 0.0], v: vec![1.0, 0.0], ..scene.clone() }.attend();
        let (before, after) = (at(s)?, at(s + STEP)?);
        let a = before.weights[0];
        let effect = (after.mixed[0] - before.mixed[0]) / STEP;
        worst = worst.max((effect - a * (1.0 - a)).abs());
        points.push((a, effect));
        if step % 4 == 0 {
            table.row([a, effect, a * (1.0 - a), a].map(|x| format!("{x:.4}")));
        }
    }
    let (sharp, effect) = points[points.len() - 1];
    let line = |f: fn(f64) -> f64| (0..=50).map(move |i| i as f64 / 50.0).map(move |a| (a, f(a)));
    Ok(Finding::new(
        Verdict::Wrong,
        "The effect is proportional to a(1−a): it is largest at a = ½ and vanishes at a = 1 as well as at a = 0.",
    )
    .number(Number::at_most("effect against a(1−a), largest difference", worst, 1e-4))
    .number(Number::at_most(format!("effect at a = {sharp:.4}, where the notes expect about 1"), effect, 0.01).erratum("E4"))
    .counter_example(format!("At a = {sharp:.4} the effect is {effect:.4}, a four-hundredth of what proportionality to a says."))
    .picture(
        Chart::new("Effect of a small move of a key on the output", Axis::new("weight a"), Axis::new("|Δh| per score and |vᵢ − v̄|"))
            .line("a(1−a)", line(|a| a * (1.0 - a)))
            .dashed("a, as the notes say", line(|a| a))
            .points("the attention op", points),
    )
    .table(table)
    .how("Two keys whose scores are s and 0, s from −6 to 6; the first score moved by 0.0001; the attention op in f64."))
}
