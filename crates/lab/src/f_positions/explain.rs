//! Do attention weights explain answers? Their ranks against two measures of influence, on a model that must
//! look things up.

use crate::experiment::{
    Model, Task, Tiny, Training, carries, evaluate, number, one_cpu, over_seeds, patterns, seeds, spearman,
    train,
};
use crate::picture::{Axis, Chart, figure};
use crate::{Context, Finding, Verdict};
use regard::Result;
use regard::ops::CrossEntropyOptions;
use regard::prelude::*;

/// F-11: rank correlation of weights with gradient × input and with ablation.
pub fn weights_explain(context: &Context) -> Result<Finding> {
    let task = Task::Lookup { keys: 6, values: 4 };
    let (length, rows) = (7usize, 64usize);
    let seeds = seeds(context, 5);
    let (mut by_gradient, mut by_ablation, mut between, mut accuracy) = (vec![], vec![], vec![], vec![]);
    let mut cloud = vec![];
    for &seed in &seeds {
        let tiny = Tiny { layers: 2, most: length, ..Tiny::new(task.vocabulary(), 32) };
        let model = Model::new(tiny)?;
        let training =
            Training { seed, steps: context.size(300, 900), batch: 32, length, rate: 4e-3, watch: &[] };
        let mut trained = train(&model, task, &training)?;
        let store = &mut trained.store;
        accuracy.push(evaluate(&model, store, task, 256, length)?.accuracy);
        let batch = task.batch(&mut Context { seed: seed + 1, ..*context }.draws("F-11"), rows, length);
        // The answer's position looks at the others: mean over heads and layers.
        let found = patterns(&model, store, &batch)?;
        let weight = |row: usize, key: usize| -> f64 {
            let each =
                found.iter().flat_map(|(p, _)| (0..p.heads).map(move |h| p.of(row, h, length - 1)[key]));
            each.sum::<f64>() / (found.len() * found[0].0.heads) as f64
        };
        let (gradient, base) = influence(&model, store, &batch.ids, &batch.targets, rows, length)?;
        // Ablation: each token's embedding replaced by nothing, which the loss of the answer feels.
        let mut ablated = vec![0.0; rows * length];
        for place in 0..length {
            let without = loss_without(&model, store, &batch.ids, &batch.targets, rows, length, place)?;
            for row in 0..rows {
                ablated[row * length + place] = (without[row] - base[row]).abs();
            }
        }
        let (mut g, mut a, mut b) = (vec![], vec![], vec![]);
        for row in 0..rows {
            let of = |numbers: &[f64]| numbers[row * length..row * length + length - 1].to_vec();
            let weights: Vec<f64> = (0..length - 1).map(|key| weight(row, key)).collect();
            g.push(spearman(&weights, &of(&gradient)));
            a.push(spearman(&weights, &of(&ablated)));
            b.push(spearman(&of(&gradient), &of(&ablated)));
            if seed == seeds[0] {
                cloud.extend(weights.iter().copied().zip(of(&ablated)));
            }
        }
        let mean = |numbers: Vec<f64>| numbers.iter().sum::<f64>() / numbers.len() as f64;
        by_gradient.push(mean(g));
        by_ablation.push(mean(a));
        between.push(mean(b));
    }
    Ok(Finding::new(
        Verdict::Measured,
        format!(
            "Ranks of attention weights agree with gradient × input at {} and with ablation at {}; these two agree with each other at {}. \
             {}",
            figure(over_seeds(&by_gradient).value),
            figure(over_seeds(&by_ablation).value),
            figure(over_seeds(&between).value),
            carries(context, seeds.len())
        ),
    )
    .number(number("accuracy of the model", over_seeds(&accuracy)))
    .number(number("Spearman’s ρ of weights and |gradient × input|", over_seeds(&by_gradient)))
    .number(number("Spearman’s ρ of weights and ablation", over_seeds(&by_ablation)))
    .number(number("Spearman’s ρ of |gradient × input| and ablation", over_seeds(&between)))
    .picture(
        Chart::new("Weight of a token, and what its removal does to the loss", Axis::new("weight, mean over heads and layers"), Axis::new("|change of the loss|"))
            .points("", cloud),
    )
    .how("Two layers on a lookup among six keys; the weights of the asking position, the gradient of its loss with respect to each embedding, and the loss with each embedding set to 0; mean rank correlation over 64 held-out examples."))
}

/// |Σ gradient · embedding| at each place, and the loss of each example.
fn influence(
    model: &Model,
    store: &mut Store,
    ids: &[i32],
    targets: &[i32],
    rows: usize,
    length: usize,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let width = model.config().width;
    let embedded = embeddings(model, store, ids, rows, length)?;
    let mut g = Graph::new();
    let x = g.input_with_gradient("x", [rows, length, width])?;
    let wanted = g.input("targets", DType::I32, [rows, length])?;
    let logits = model.scores(&mut g, x)?;
    let losses = g.cross_entropy(logits, wanted, CrossEntropyOptions::default())?;
    g.output("losses", losses)?;
    let loss = g.sum_all(losses)?;
    let gradient = g.gradient(loss, &[x])?[0];
    g.output("gradient", gradient)?;
    let mut program = Program::new(g, &[], store, &one_cpu()?)?;
    program.set_f32("x", &[rows, length, width], &embedded)?;
    program.set_i32("targets", &[rows, length], targets)?;
    program.run(store)?;
    let gradient = program.f32("gradient")?;
    let dot = |(g, x): (&[f32], &[f32])| g.iter().zip(x).map(|(g, x)| f64::from(g * x)).sum::<f64>().abs();
    let influence = gradient.chunks(width).zip(embedded.chunks(width)).map(dot).collect();
    let base = program.f32("losses")?.chunks(length).map(|row| f64::from(row[length - 1])).collect();
    Ok((influence, base))
}

fn embeddings(model: &Model, store: &mut Store, ids: &[i32], rows: usize, length: usize) -> Result<Vec<f32>> {
    let mut g = Graph::inference();
    let given = g.input("ids", DType::I32, [rows, length])?;
    let x = model.embed(&mut g, given)?;
    g.output("x", x)?;
    let mut program = Program::new(g, &[], store, &one_cpu()?)?;
    program.set_i32("ids", &[rows, length], ids)?;
    program.run(store)?;
    Ok(program.f32("x")?.to_vec())
}

/// The loss of each example with the embedding at one place set to 0.
fn loss_without(
    model: &Model,
    store: &mut Store,
    ids: &[i32],
    targets: &[i32],
    rows: usize,
    length: usize,
    place: usize,
) -> Result<Vec<f64>> {
    let width = model.config().width;
    let mut embedded = embeddings(model, store, ids, rows, length)?;
    for row in embedded.chunks_mut(length * width) {
        row[place * width..(place + 1) * width].fill(0.0);
    }
    let mut g = Graph::inference();
    let x = g.input("x", DType::F32, [rows, length, width])?;
    let wanted = g.input("targets", DType::I32, [rows, length])?;
    let logits = model.scores(&mut g, x)?;
    let losses = g.cross_entropy(logits, wanted, CrossEntropyOptions::default())?;
    g.output("losses", losses)?;
    let mut program = Program::new(g, &[], store, &one_cpu()?)?;
    program.set_f32("x", &[rows, length, width], &embedded)?;
    program.set_i32("targets", &[rows, length], targets)?;
    program.run(store)?;
    Ok(program.f32("losses")?.chunks(length).map(|row| f64::from(row[length - 1])).collect())
}
