//! Do attention weights explain answers? Their ranks against two measures of influence, on a model that must
//! look things up.

use crate::experiment::{
    Batch, Model, Task, Tiny, Training, carries, each_seed, evaluate, mean, number, patterns, spearman, train,
};
use crate::picture::{Axis, Chart, figure};
use crate::{Context, Finding};
use regard::Result;
use regard::ops::CrossEntropyOptions;
use regard::prelude::*;

/// F-11: rank correlation of weights with gradient × input and with ablation.
pub fn weights_explain(context: &Context) -> Result<Finding> {
    let task = Task::Lookup { keys: 6, values: 4 };
    let (length, rows) = (7usize, 64usize);
    let steps = context.size(300, 900);
    let found = each_seed(context, |seed| {
        let tiny = Tiny { layers: 2, most: length, ..Tiny::new(task.vocabulary(), 32) };
        let model = Model::new(tiny)?;
        let training = Training { seed, steps, batch: 32, length, rate: 4e-3, watch: &[] };
        let mut trained = train(context, &model, task, &training)?;
        let store = &mut trained.store;
        let accuracy = evaluate(context, &model, store, task, 256, length)?.accuracy;
        let batch = task.batch(&mut Context { seed: seed + 1, ..*context }.draws("F-11"), rows, length);
        // The answer's position looks at the others: mean over heads and layers.
        let looked = patterns(context, &model, store, &batch)?;
        let weight = |row: usize, key: usize| -> f64 {
            let each =
                looked.iter().flat_map(|(p, _)| (0..p.heads).map(move |h| p.of(row, h, length - 1)[key]));
            each.sum::<f64>() / (looked.len() * looked[0].0.heads) as f64
        };
        let (gradient, base) = influence(context, &model, store, &batch)?;
        // Ablation: each token's embedding replaced by nothing, which the loss of the answer feels.
        let mut ablated = vec![0.0; rows * length];
        for place in 0..length {
            let without = loss_without(context, &model, store, &batch, place)?;
            for row in 0..rows {
                ablated[row * length + place] = (without[row] - base[row]).abs();
            }
        }
        let (mut ranks, mut cloud) = ([vec![], vec![], vec![]], vec![]);
        for row in 0..rows {
            let of = |numbers: &[f64]| numbers[row * length..row * length + length - 1].to_vec();
            let weights: Vec<f64> = (0..length - 1).map(|key| weight(row, key)).collect();
            ranks[0].push(spearman(&weights, &of(&gradient)));
            ranks[1].push(spearman(&weights, &of(&ablated)));
            ranks[2].push(spearman(&of(&gradient), &of(&ablated)));
            cloud.extend(weights.iter().copied().zip(of(&ablated)));
        }
        Ok((accuracy, ranks.map(|ranks| mean(&ranks)), cloud))
    })?;
    let accuracy: Vec<f64> = found.iter().map(|run| run.0).collect();
    let [by_gradient, by_ablation, between] =
        [0, 1, 2].map(|at| found.iter().map(|run| run.1[at]).collect::<Vec<f64>>());
    Ok(Finding::measured(format!(
        "Ranks of attention weights agree with gradient × input at {} and with ablation at {}; these two agree with each other at {}. \
         {}",
        figure(mean(&by_gradient)),
        figure(mean(&by_ablation)),
        figure(mean(&between)),
        carries(context)
    ))
    .seeds(found.len())
    .number(number("accuracy of the model", &accuracy))
    .number(number("Spearman’s ρ of weights and |gradient × input|", &by_gradient))
    .number(number("Spearman’s ρ of weights and ablation", &by_ablation))
    .number(number("Spearman’s ρ of |gradient × input| and ablation", &between))
    .picture(
        Chart::new("Weight of a token, and what its removal does to the loss", Axis::new("weight, mean over heads and layers"), Axis::new("|change of the loss|"))
            .points("", found[0].2.iter().copied()),
    )
    .how("Two layers on a lookup among six keys; the weights of the asking position, the gradient of its loss with respect to each embedding, and the loss with each embedding set to 0; mean rank correlation over 64 held-out examples."))
}

/// |Σ gradient · embedding| at each place, and the loss of each example.
fn influence(
    context: &Context,
    model: &Model,
    store: &mut Store,
    batch: &Batch,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let (width, &Batch { rows, length, .. }) = (model.config().width, batch);
    let embedded = embeddings(context, model, store, batch)?;
    let mut g = Graph::new();
    let x = g.input_with_gradient("x", [rows, length, width])?;
    let wanted = g.input("targets", DType::I32, [rows, length])?;
    let logits = model.scores(&mut g, x)?;
    let losses = g.cross_entropy(logits, wanted, CrossEntropyOptions::default())?;
    g.output("losses", losses)?;
    let loss = g.sum_all(losses)?;
    let gradient = g.gradient(loss, &[x])?[0];
    g.output("gradient", gradient)?;
    let mut program = Program::new(g, &[], store, &context.engine()?)?;
    program.set_f32("x", &[rows, length, width], &embedded)?;
    program.set_i32("targets", &[rows, length], &batch.targets)?;
    program.run(store)?;
    let gradient = program.f32("gradient")?;
    let dot = |(g, x): (&[f32], &[f32])| g.iter().zip(x).map(|(g, x)| f64::from(g * x)).sum::<f64>().abs();
    let influence = gradient.chunks(width).zip(embedded.chunks(width)).map(dot).collect();
    let base = program.f32("losses")?.chunks(length).map(|row| f64::from(row[length - 1])).collect();
    Ok((influence, base))
}

fn embeddings(context: &Context, model: &Model, store: &mut Store, batch: &Batch) -> Result<Vec<f32>> {
    let &Batch { rows, length, .. } = batch;
    let mut g = Graph::inference();
    let given = g.input("ids", DType::I32, [rows, length])?;
    let x = model.embed(&mut g, given)?;
    g.output("x", x)?;
    let mut program = Program::new(g, &[], store, &context.engine()?)?;
    program.set_i32("ids", &[rows, length], &batch.ids)?;
    program.run(store)?;
    Ok(program.f32("x")?.to_vec())
}

/// The loss of each example with the embedding at one place set to 0.
fn loss_without(
    context: &Context,
    model: &Model,
    store: &mut Store,
    batch: &Batch,
    place: usize,
) -> Result<Vec<f64>> {
    let (width, &Batch { rows, length, .. }) = (model.config().width, batch);
    let mut embedded = embeddings(context, model, store, batch)?;
    for row in embedded.chunks_mut(length * width) {
        row[place * width..(place + 1) * width].fill(0.0);
    }
    let mut g = Graph::inference();
    let x = g.input("x", DType::F32, [rows, length, width])?;
    let wanted = g.input("targets", DType::I32, [rows, length])?;
    let logits = model.scores(&mut g, x)?;
    let losses = g.cross_entropy(logits, wanted, CrossEntropyOptions::default())?;
    g.output("losses", losses)?;
    let mut program = Program::new(g, &[], store, &context.engine()?)?;
    program.set_f32("x", &[rows, length, width], &embedded)?;
    program.set_i32("targets", &[rows, length], &batch.targets)?;
    program.run(store)?;
    Ok(program.f32("losses")?.chunks(length).map(|row| f64::from(row[length - 1])).collect())
}
