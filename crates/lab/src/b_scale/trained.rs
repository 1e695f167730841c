//! The scale in training: the same model with and without it.

use crate::experiment::{
    Model, Task, Tiny, Trained, Training, carries, each_setting, less, mean, number, over_seeds, train,
};
use crate::picture::{Axis, Chart, figure};
use crate::{Context, Finding, Table};
use regard::Result;
use regard::layers::HeadScale;

/// What one run is measured by.
const MEASURES: [&str; 4] = [
    "gradient norm of W_Q, mean of the first five steps",
    "gradient norm of W_K, mean of the first five steps",
    "mean loss of the run",
    "loss at the end",
];

/// B13: the same model with and without 1/√d.
pub fn with_and_without(context: &Context) -> Result<Finding> {
    let task = Task::Lookup { keys: 8, values: 4 };
    let steps = context.size(150, 800);
    let scales = [("β = 1/√d", HeadScale::Default), ("β = 1", HeadScale::Constant(1.0))];
    let found = each_setting(context, &scales, |&(_, scale), seed| {
        // Weights of twice the usual size: queries and keys of variance 4, as trained ones have.
        let tiny = Tiny { heads: 1, scale, gain: 2.0, most: 9, ..Tiny::new(task.vocabulary(), 64) };
        let watch = ["query.weight", "key.weight"];
        let training = Training { seed, steps, batch: 16, length: 9, rate: 2e-3, watch: &watch };
        let trained = train(context, &Model::new(tiny)?, task, &training)?;
        let numbers = [
            mean(&trained.watched[0][..5]),
            mean(&trained.watched[1][..5]),
            mean(&trained.losses),
            trained.last_loss(),
        ];
        Ok((numbers, Trained::curve(&trained.watched[0], 40), Trained::curve(&trained.losses, 40)))
    })?;
    let of = |scale: usize, what: usize| found[scale].iter().map(|run| run.0[what]).collect::<Vec<f64>>();
    let mut norms = Chart::new("Gradient norm of W_Q", Axis::new("step"), Axis::log("norm"));
    let mut losses = Chart::new("Loss", Axis::new("step"), Axis::new("loss").covering(&[0.0]));
    let mut table = Table::new("One head of width 64", &["", "β = 1/√d", "β = 1"]);
    let mut finding = Finding::measured("").seeds(found[0].len());
    for (at, (name, _)) in scales.iter().enumerate() {
        norms = norms.line(*name, found[at][0].1.clone());
        losses = losses.line(*name, found[at][0].2.clone());
    }
    for (what, name) in MEASURES.iter().enumerate() {
        let (with, without) = (of(0, what), of(1, what));
        table.row([name.to_string(), figure(over_seeds(&with).value), figure(over_seeds(&without).value)]);
        finding = finding
            .number(number(format!("β = 1/√d: {name}"), &with))
            .number(number(format!("β = 1: {name}"), &without))
            .number(less(format!("without the scale less with it: {name}"), &without, &with));
    }
    finding.summary = format!(
        "One head of width 64: gradients of W_Q begin at {} with the scale and {} without it; the mean loss of the run is {} and {}. {}",
        figure(over_seeds(&of(0, 0)).value),
        figure(over_seeds(&of(1, 0)).value),
        figure(over_seeds(&of(0, 2)).value),
        figure(over_seeds(&of(1, 2)).value),
        carries(context)
    );
    Ok(finding.table(table).picture(norms).picture(losses).how(
        "One layer on a lookup among eight keys, weights at twice 1/√C; norms before clipping, by the engine’s own step; \
         differences seed by seed.",
    ))
}
