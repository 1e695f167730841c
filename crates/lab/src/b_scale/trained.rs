//! The scale in training: the same model with and without it.

use crate::experiment::{Model, Task, Tiny, Trained, Training, carries, number, over_seeds, seeds, train};
use crate::picture::{Axis, Chart, figure};
use crate::{Context, Finding, Table, Verdict};
use regard::Result;
use regard::layers::HeadScale;

/// B13: the same model with and without 1/√d.
pub fn with_and_without(context: &Context) -> Result<Finding> {
    let task = Task::Lookup { keys: 8, values: 4 };
    let seeds = seeds(context, 5);
    let steps = context.size(150, 800);
    let watch = ["query.weight", "key.weight"];
    let mut norms = Chart::new("Gradient norm of W_Q and W_K", Axis::new("step"), Axis::log("norm"));
    let mut losses = Chart::new("Loss", Axis::new("step"), Axis::new("loss").covering(&[0.0]));
    let mut table = Table::new(
        "One head of width 64",
        &[
            "scale",
            "first gradient of W_Q",
            "first gradient of W_K",
            "mean loss of the run",
            "loss at the end",
        ],
    );
    let mut finding = Finding::new(Verdict::Measured, "");
    let mut estimates = vec![];
    for (name, scale) in [("β = 1/√d", HeadScale::Default), ("β = 1", HeadScale::Constant(1.0))] {
        let (mut q, mut k, mut whole, mut end) = (vec![], vec![], vec![], vec![]);
        for &seed in &seeds {
            // Weights of twice the usual size: queries and keys of variance 4, as trained ones have.
            let tiny = Tiny { heads: 1, scale, gain: 2.0, most: 9, ..Tiny::new(task.vocabulary(), 64) };
            let model = Model::new(tiny)?;
            let trained = train(
                &model,
                task,
                &Training { seed, steps, batch: 16, length: 9, rate: 2e-3, watch: &watch },
            )?;
            let first = |at: usize| trained.watched[at][..5].iter().sum::<f64>() / 5.0;
            q.push(first(0));
            k.push(first(1));
            whole.push(trained.losses.iter().sum::<f64>() / trained.losses.len() as f64);
            end.push(trained.last_loss());
            if seed == seeds[0] {
                norms = norms.line(name, Trained::curve(&trained.watched[0], 40));
                losses = losses.line(name, Trained::curve(&trained.losses, 40));
            }
        }
        let found = [&q, &k, &whole, &end].map(|numbers| over_seeds(numbers));
        table.row([vec![name.to_string()], found.iter().map(|e| figure(e.value)).collect()].concat());
        for (what, found) in [
            "mean gradient norm of W_Q over five steps",
            "the same of W_K",
            "mean loss of the run",
            "loss at the end",
        ]
        .iter()
        .zip(found)
        {
            finding = finding.number(number(format!("{name}: {what}"), found));
        }
        estimates.push(found);
    }
    finding.summary = format!(
        "One head of width 64: gradients of W_Q begin at {} with the scale and {} without it; the mean loss of the run is {} and {}, at the \
         end {} and {}. {}",
        figure(estimates[0][0].value),
        figure(estimates[1][0].value),
        figure(estimates[0][2].value),
        figure(estimates[1][2].value),
        figure(estimates[0][3].value),
        figure(estimates[1][3].value),
        carries(context, seeds.len())
    );
    Ok(finding
        .table(table)
        .picture(norms)
        .picture(losses)
        .how("One layer on a lookup among eight keys, weights at twice 1/√C; norms before clipping, by the engine’s own step."))
}
