//! Hard attention: as a choice, with Gumbel noise, straight through; and attention as a linear layer.

use crate::attend::Scene;
use crate::compute::{array, compute, differing, largest_difference};
use crate::picture::{Axis, Chart, Colours, Heat};
use crate::statistics::{Estimate, share};
use crate::{Context, Finding, Number, Table, Verdict};
use regard::ops::{Attention, AttentionKind};
use regard::prelude::*;
use regard::{Array, Result};

/// y and the gradients of query, key and value of Σ y·direction.
fn with_gradients(scene: &Scene, direction: &[f64], kind: AttentionKind) -> Result<Vec<Array>> {
    let &Scene { queries, keys, width, value_width, .. } = scene;
    let feed = scene.feed()?.with("direction", array(&[1, queries, 1, value_width], direction)?);
    compute(&feed, |g| {
        let q = g.input_with_gradient("query", [1, queries, 1, width])?;
        let k = g.input_with_gradient("key", [1, keys, 1, width])?;
        let v = g.input_with_gradient("value", [1, keys, 1, value_width])?;
        let direction = g.input("direction", DType::F32, [1, queries, 1, value_width])?;
        let y = g.attention(q, k, v, &Attention { kind, ..Default::default() })?.y;
        let along = g.mul(y, direction)?;
        let sum = g.sum_all(along)?;
        let gradients = g.gradient(sum, &[q, k, v])?;
        Ok([vec![y], gradients].concat())
    })
}

/// A7: hard = gather; straight-through gradient = soft gradient; Gumbel frequencies = softmax.
pub fn three_forms(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("A7");
    let scene = Scene::random(&mut draws, 1, 20, 7, 5, 4);
    let hard = scene.attend_as(|_| Ok(Attention { kind: AttentionKind::Hard, ..Default::default() }))?;
    let best =
        |row: usize| (0..7).max_by(|&a, &b| scene.score(row, a).total_cmp(&scene.score(row, b))).unwrap_or(0);
    let gathered: Vec<f64> = (0..20).flat_map(|row| scene.value(best(row)).to_vec()).collect();
    let direction = draws.normals(20 * 4);
    let soft = with_gradients(&scene, &direction, AttentionKind::Soft)?;
    let through = with_gradients(&scene, &direction, AttentionKind::StraightThrough)?;
    let gradient_off =
        (1..3).map(|at| largest_difference(soft[at].data(), through[at].data())).fold(0.0, f64::max);

    let samples = context.size(40_000, 200_000);
    let one = Scene { q: scene.query(0).to_vec(), queries: 1, ..scene.clone() };
    let weights = one.attend()?.weights;
    let many = Scene { q: one.q.repeat(samples), queries: samples, seed: context.seed ^ 0xa7, ..one };
    let kind = AttentionKind::Gumbel { temperature: 0.01, hard: true };
    let choices = many.attend_as(|_| Ok(Attention { kind, ..Default::default() }))?;
    let counts: Vec<usize> =
        (0..7).map(|key| (0..samples).filter(|&row| choices.weights_of(row)[key] == 1.0).count()).collect();
    let frequencies: Vec<Estimate> = counts.iter().map(|&n| share(n, samples)).collect();
    let mut table = Table::new(
        "Soft Gumbel weights come closer to one-hot as τ falls",
        &["τ", "mean of the largest weight"],
    );
    for temperature in [2.0f32, 1.0, 0.5, 0.1, 0.01] {
        let few = Scene { q: many.q[..2000 * many.width].to_vec(), queries: 2000, ..many.clone() };
        let kind = AttentionKind::Gumbel { temperature, hard: false };
        let found = few.attend_as(|_| Ok(Attention { kind, ..Default::default() }))?;
        let largest = (0..2000).map(|row| found.weights_of(row).iter().copied().fold(0.0, f64::max));
        table.row([temperature.to_string(), format!("{:.4}", largest.sum::<f64>() / 2000.0)]);
    }
    Ok(Finding::new(
        Verdict::Holds,
        "Hard attention is a gather; straight-through keeps that and borrows the soft gradient; Gumbel noise chooses each \
         key as often as the softmax says.",
    )
    .number(Number::count("hard outputs that differ from a gather", differing(&hard.mixed, &gathered), 0).erratum("E38"))
    .number(Number::count("straight-through outputs that differ from hard ones", differing(through[0].data(), &hard.mixed), 0))
    .number(Number::at_most("gradients of query and key: straight-through against soft", gradient_off, 1e-15))
    .numbers((0..7).map(|key| {
        Number::theory(format!("Gumbel: how often key {} is chosen", key + 1), frequencies[key], weights[key])
    }))
    .picture(
        Chart::new("Gumbel choices against the softmax", Axis::names("key", 1..=7), Axis::new("share"))
            .bars("softmax weight", weights.iter().enumerate().map(|(key, &a)| (key as f64, a)))
            .estimates(format!("chosen, of {samples} draws"), frequencies.iter().enumerate().map(|(k, &e)| (k as f64, e))),
    )
    .table(table)
    .how("The four kinds of the attention op on the same scene; gradients by the gradient reader, all in f64."))
}

/// A9: with fixed weights attention is a linear layer.
pub fn as_linear(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("A9");
    let (m, t) = (6, 4);
    let mut finding = Finding::new(
        Verdict::Holds,
        "With fixed weights attention is a linear layer without bias: the identity on what was chosen for hard weights, \
         1/m everywhere for flat ones.",
    );
    let mut table =
        Table::new("Largest difference", &["weights", "attention against a linear layer with weight A"]);
    // Keys are unit vectors and so are the hard queries: key i is chosen by query i.
    let unit: Vec<f64> = (0..m * m).map(|at| if at / m == at % m { 1.0 } else { 0.0 }).collect();
    let zeros = vec![0.0; m * m];
    for (name, kind, q) in [
        ("hard", AttentionKind::Hard, &unit),
        ("flat", AttentionKind::Soft, &zeros),
        ("soft", AttentionKind::Soft, &unit),
    ] {
        let scene = Scene { q: q.clone(), k: unit.clone(), ..Scene::random(&mut draws, 1, m, m, m, t) };
        let found = scene.attend_as(|_| Ok(Attention { kind, ..Default::default() }))?;
        // Features are mixed by nobody, positions by A: the linear layer acts on columns of V.
        let columns: Vec<f64> = (0..t * m).map(|at| scene.v[at % m * t + at / m]).collect();
        let feed =
            Feed::new().with("columns", array(&[t, m], &columns)?).with("A", array(&[m, m], &found.weights)?);
        let linear = compute(&feed, |g| {
            let columns = g.input("columns", DType::F32, [t, m])?;
            let weight = g.input("A", DType::F32, [m, m])?;
            Ok(vec![g.linear(columns, weight, Default::default())?])
        })?;
        let back: Vec<f64> = (0..m * t).map(|at| linear[0].data()[at % t * m + at / t]).collect();
        let off = largest_difference(&back, &found.mixed);
        table.row([name.to_string(), format!("{off:.1e}")]);
        let title = format!("{name}: the weights, which are the linear layer’s");
        finding =
            finding.picture(Heat::new(title, "query", "key", m, found.weights.clone(), Colours::Rising));
        finding = finding.number(Number::at_most(format!("{name}: against a linear layer"), off, 1e-14));
        let wanted = if name == "flat" { vec![1.0 / m as f64; m * m] } else { unit.clone() };
        if name != "soft" {
            let off = largest_difference(&found.weights, &wanted);
            finding = finding.number(Number::at_most(
                format!("{name}: weights against {}", if name == "flat" { "1/m" } else { "the identity" }),
                off,
                1e-15,
            ));
        }
    }
    Ok(finding
        .table(table)
        .how("The attention op, its weights asked for, and `linear` with those weights on the columns of V."))
}
