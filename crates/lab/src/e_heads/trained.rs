//! What training makes of heads: roles, redundancy, gradients, capacity, and how near to one-hot they come.

use crate::experiment::{
    INDUCTION, INDUCTION_LENGTH, Model, Pattern, Task, Tiny, Training, carries, evaluate, induction, number,
    over_seeds, patterns, seeds, train,
};
use crate::picture::{Axis, Chart, Colours, Heat, figure};
use crate::{Context, Finding, Table, Verdict};
use regard::Result;
use regard::ops::AttentionKind;
use regard::prelude::*;

/// What a head does, in numbers.
struct Role {
    entropy: f64,
    distance: f64,
    previous: f64,
    own: f64,
    first: f64,
    copy: f64,
}

/// The role of a head over many examples; `ids` tell which earlier token came before the same token.
fn role(pattern: &Pattern, head: usize, ids: &[i32]) -> Role {
    let mut sums = [0.0; 6];
    let (mut count, mut copies) = (0.0, 0.0);
    for (at, (query, weights)) in pattern.queries(head).enumerate() {
        if query == 0 {
            continue;
        }
        count += 1.0;
        sums[0] -= weights.iter().filter(|w| **w > 0.0).map(|w| w * w.ln()).sum::<f64>();
        sums[1] += weights.iter().enumerate().map(|(key, w)| w * query.abs_diff(key) as f64).sum::<f64>();
        sums[2] += weights[query - 1];
        sums[3] += weights[query];
        sums[4] += weights[0];
        let row = &ids[at / pattern.length * pattern.length..][..pattern.length];
        let after: Vec<usize> = (1..=query).filter(|&key| row[key - 1] == row[query]).collect();
        if !after.is_empty() {
            copies += 1.0;
            sums[5] += after.iter().map(|&key| weights[key]).sum::<f64>();
        }
    }
    let [entropy, distance, previous, own, first, copy] = sums;
    Role {
        entropy: entropy / count,
        distance: distance / count,
        previous: previous / count,
        own: own / count,
        first: first / count,
        copy: copy / f64::max(copies, 1.0),
    }
}

/// E-7: heads of a trained model differ in what they look at.
pub fn specialise(context: &Context) -> Result<Finding> {
    let seeds = seeds(context, 4);
    let mut table = Table::new(
        "Heads of the first seed",
        &[
            "layer",
            "head",
            "entropy, nats",
            "mean distance",
            "previous token",
            "itself",
            "first token",
            "after the same token",
        ],
    );
    let (mut best_previous, mut best_copy, mut spread, mut accuracy) = (vec![], vec![], vec![], vec![]);
    let mut pictures = vec![];
    for &seed in &seeds {
        let (model, mut trained) = induction(context, seed)?;
        accuracy.push(evaluate(&model, &mut trained.store, INDUCTION, 128, INDUCTION_LENGTH)?.accuracy);
        let batch =
            INDUCTION.batch(&mut Context { seed: seed + 1, ..*context }.draws("E-7"), 64, INDUCTION_LENGTH);
        let found = patterns(&model, &mut trained.store, &batch)?;
        let mut roles = Vec::new();
        for (layer, (pattern, _)) in found.iter().enumerate() {
            for head in 0..pattern.heads {
                let role = role(pattern, head, &batch.ids);
                if seed == seeds[0] {
                    let Role { entropy, distance, previous, own, first, copy } = role;
                    let numbers = [entropy, distance, previous, own, first, copy].map(figure);
                    table.row([vec![layer.to_string(), head.to_string()], numbers.to_vec()].concat());
                }
                roles.push((layer, head, role));
            }
        }
        let most = |of: &dyn Fn(&Role) -> f64| roles.iter().map(|(_, _, role)| of(role)).fold(0.0, f64::max);
        best_previous.push(most(&|role| role.previous));
        best_copy.push(most(&|role| role.copy));
        let distances = roles.iter().map(|(_, _, role)| role.distance);
        spread.push(distances.clone().fold(0.0, f64::max) - distances.fold(f64::INFINITY, f64::min));
        if seed == seeds[0] {
            for (name, of) in [
                ("previous token", (|role: &Role| role.previous) as fn(&Role) -> f64),
                ("token after the same token", |role: &Role| role.copy),
            ] {
                let best = roles.iter().max_by(|a, b| of(&a.2).total_cmp(&of(&b.2)));
                if let Some(&(layer, head, _)) = best {
                    let title = format!("Layer {layer}, head {head}: the most weight on the {name}");
                    let weights = found[layer].0.mean(head);
                    pictures.push(Heat::new(
                        title,
                        "query",
                        "key",
                        INDUCTION_LENGTH,
                        weights,
                        Colours::Rising,
                    ));
                }
            }
        }
    }
    let mut finding = Finding::new(
        Verdict::Measured,
        format!(
            "In a model that learned to go on with repeating sequences, heads differ: their mean distances span {} positions, one \
             puts {} of its weight on the previous token, one {} on what followed the same token before. {}",
            figure(over_seeds(&spread).value),
            figure(over_seeds(&best_previous).value),
            figure(over_seeds(&best_copy).value),
            carries(context, seeds.len())
        ),
    )
    .number(number("accuracy of the model", over_seeds(&accuracy)))
    .number(number("largest weight of a head on the previous token", over_seeds(&best_previous)))
    .number(number("largest weight of a head on what followed the same token", over_seeds(&best_copy)))
    .number(number("longest less shortest mean distance of a head", over_seeds(&spread)))
    .table(table)
    .how("Two causal layers of four heads, trained on sequences of a random period; the weights of 64 held-out examples.");
    for picture in pictures {
        finding = finding.picture(picture);
    }
    Ok(finding)
}

/// The model's loss with one head's output replaced: by 0, or by its mean.
fn without(model: &Model, store: &mut Store, layer: usize, head: usize, mean: Option<&[f64]>) -> Result<f64> {
    let name = format!("block.{layer}.attention.output");
    let (weight, bias) = (format!("{name}.weight"), format!("{name}.bias"));
    let (kept_weight, kept_bias) = (store.f32(&weight)?.to_vec(), store.f32(&bias)?.to_vec());
    let columns = model.config().width;
    let own = columns / model.config().heads;
    let (mut closed, mut shifted) = (kept_weight.clone(), kept_bias.clone());
    for (row, shift) in closed.chunks_mut(columns).zip(&mut shifted) {
        for at in head * own..(head + 1) * own {
            *shift += row[at] * mean.map_or(0.0, |mean| mean[at] as f32);
            row[at] = 0.0;
        }
    }
    store.set_f32(&weight, &closed)?;
    store.set_f32(&bias, &shifted)?;
    let loss = evaluate(model, store, INDUCTION, 128, INDUCTION_LENGTH)?.loss;
    store.set_f32(&weight, &kept_weight)?;
    store.set_f32(&bias, &kept_bias)?;
    Ok(loss)
}

/// Layer, head, and how much the loss rises without it: set to 0, set to its mean.
type Rise = (usize, usize, f64, f64);

/// E-8: the loss after removing each head.
pub fn redundant(context: &Context) -> Result<Finding> {
    let seeds = seeds(context, 4);
    let (mut least, mut most, mut free) = (vec![], vec![], vec![]);
    let mut shown = vec![];
    for &seed in &seeds {
        let (model, mut trained) = induction(context, seed)?;
        let store = &mut trained.store;
        let whole = evaluate(&model, store, INDUCTION, 128, INDUCTION_LENGTH)?.loss;
        let batch =
            INDUCTION.batch(&mut Context { seed: seed + 1, ..*context }.draws("E-8"), 64, INDUCTION_LENGTH);
        let means: Vec<Vec<f64>> =
            patterns(&model, store, &batch)?.into_iter().map(|found| found.1).collect();
        let mut rises = Vec::new();
        for (layer, own) in means.iter().enumerate() {
            for head in 0..model.config().heads {
                let zero = without(&model, store, layer, head, None)? - whole;
                let mean = without(&model, store, layer, head, Some(own))? - whole;
                rises.push((layer, head, zero, mean));
            }
        }
        let by_mean = || rises.iter().map(|rise| rise.3);
        least.push(by_mean().fold(f64::INFINITY, f64::min));
        most.push(by_mean().fold(f64::NEG_INFINITY, f64::max));
        free.push(by_mean().filter(|rise| *rise < 0.05).count() as f64 / rises.len() as f64);
        if shown.is_empty() {
            shown = rises;
        }
    }
    let mut table = Table::new(
        "Loss with one head less, minus the whole model’s, first seed",
        &["layer", "head", "set to 0", "set to its mean"],
    );
    for (layer, head, zero, mean) in &shown {
        table.row([layer.to_string(), head.to_string(), figure(*zero), figure(*mean)]);
    }
    let names = shown.iter().map(|(layer, head, ..)| format!("{layer}.{head}"));
    let at = |of: fn(&Rise) -> f64| {
        shown.iter().enumerate().map(|(at, rise)| (at as f64, of(rise))).collect::<Vec<_>>()
    };
    Ok(Finding::new(
        Verdict::Measured,
        format!(
            "Some heads can go: {} of them raise the loss by less than 0.05 when replaced by their mean; the costliest raises it by {}. {}",
            figure(over_seeds(&free).value),
            figure(over_seeds(&most).value),
            carries(context, seeds.len())
        ),
    )
    .number(number("share of heads whose removal costs less than 0.05", over_seeds(&free)))
    .number(number("rise of the loss without the least needed head", over_seeds(&least)))
    .number(number("rise of the loss without the most needed head", over_seeds(&most)))
    .table(table)
    .picture(
        Chart::new("Rise of the loss without one head", Axis::names("layer.head", names), Axis::new("loss").covering(&[0.0]))
            .bars("set to 0", at(|rise| rise.2))
            .points("set to its mean", at(|rise| rise.3)),
    )
    .how("The columns of W_O of one head set to 0, and its mean output added to the bias for the mean; 128 held-out examples."))
}

/// E-9: gradient norms against the number of heads at equal width.
pub fn gradient_flow(context: &Context) -> Result<Finding> {
    let task = Task::Reverse { symbols: 8 };
    let many = context.size(5, 20);
    let heads = [1usize, 2, 4, 8];
    let parts = ["query.weight", "key.weight", "value.weight"];
    let mut chart = Chart::new("Gradient norm at the first step", Axis::log("heads"), Axis::log("norm"));
    let mut table = Table::new(
        "Means over seeds",
        &["heads", "W_Q", "W_K", "W_V", "all, mean of 30 steps", "loss after 30 steps"],
    );
    let mut found: Vec<[Vec<f64>; 5]> = Vec::new();
    for &h in &heads {
        let mut own: [Vec<f64>; 5] = Default::default();
        for seed in 0..many as u64 {
            let model = Model::new(Tiny { heads: h, layers: 2, ..Tiny::new(8, 32) })?;
            let training = Training {
                seed: context.seed + seed,
                steps: 30,
                batch: 16,
                length: 8,
                rate: 3e-3,
                watch: &parts,
            };
            let trained = train(&model, task, &training)?;
            for (at, own) in own.iter_mut().enumerate().take(3) {
                own.push(trained.watched[at][0]);
            }
            own[3].push(trained.norms.iter().sum::<f64>() / 30.0);
            own[4].push(trained.last_loss());
        }
        table.row(
            [vec![h.to_string()], own.iter().map(|own| figure(over_seeds(own).value)).collect()].concat(),
        );
        found.push(own);
    }
    for (at, name) in ["W_Q", "W_K", "W_V"].iter().enumerate() {
        let points = heads.iter().zip(&found).map(|(&h, own)| (h as f64, over_seeds(&own[at])));
        chart = chart.estimates(*name, points);
    }
    let ratio = |at: usize| over_seeds(&found[3][at]).value / over_seeds(&found[0][at]).value;
    let mut finding = Finding::new(
        Verdict::Measured,
        format!(
            "At equal width, eight heads have {} times the first gradient of W_Q that one head has, and {} times that of W_V; “better \
             flow” is what such a number can and cannot say. {many} seeds.",
            figure(ratio(0)),
            figure(ratio(2))
        ),
    );
    for (h, own) in heads.iter().zip(&found) {
        for (at, name) in ["W_Q", "W_K", "W_V"].iter().enumerate() {
            finding =
                finding.number(number(format!("{h} heads: gradient norm of {name}"), over_seeds(&own[at])));
        }
    }
    Ok(finding
        .table(table)
        .picture(chart)
        .how("Two layers of width 32 on reversal; norms of the gradients as they are before clipping, by the engine’s own step."))
}

/// E-10: a task of two lookups, accuracy against the number of heads.
pub fn capacity(context: &Context) -> Result<Finding> {
    let task = Task::TwoLookups { keys: 6, values: 4 };
    let seeds = seeds(context, 4);
    let heads = [1usize, 2, 4];
    let mut chart =
        Chart::new("Two lookups at equal parameters", Axis::new("step"), Axis::new("loss").covering(&[0.0]));
    let mut finding_numbers = Vec::new();
    let mut table = Table::new("Accuracy on held-out examples", &["heads", "parameters", "accuracy", "loss"]);
    let mut means = Vec::new();
    for &h in &heads {
        let (mut accuracy, mut loss) = (vec![], vec![]);
        let model = Model::new(Tiny { heads: h, most: 7, ..Tiny::new(task.vocabulary(), 8) })?;
        for &seed in &seeds {
            let training = Training {
                seed,
                steps: context.size(500, 2500),
                batch: 32,
                length: 7,
                rate: 1e-2,
                watch: &[],
            };
            let mut trained = train(&model, task, &training)?;
            let score = evaluate(&model, &mut trained.store, task, 512, 7)?;
            accuracy.push(score.accuracy);
            loss.push(score.loss);
            if seed == seeds[0] {
                chart =
                    chart.line(format!("{h} heads"), crate::experiment::Trained::curve(&trained.losses, 40));
            }
        }
        let (a, l) = (over_seeds(&accuracy), over_seeds(&loss));
        table.row([h.to_string(), model.parameters().count().to_string(), figure(a.value), figure(l.value)]);
        finding_numbers.push(number(format!("{h} heads: accuracy"), a));
        means.push(a.value);
    }
    Ok(Finding::new(
        Verdict::Measured,
        format!(
            "A position that must fetch two values at once: {} right with one head, {} with two, {} with four, at equal parameters; {} \
             by chance. One head can do it in principle, by averaging two values in subspaces of their own (D5). {}",
            figure(means[0]),
            figure(means[1]),
            figure(means[2]),
            figure(task.chance()),
            carries(context, seeds.len())
        ),
    )
    .numbers(finding_numbers)
    .table(table)
    .picture(chart)
    .how("One layer of width 8; six keys with one of four values each, the last token names two keys, the answer is both values in order."))
}

/// E-12: largest and second weights of trained heads, and what becomes of the model under argmax.
pub fn unimodal(context: &Context) -> Result<Finding> {
    let seeds = seeds(context, 4);
    let (mut largest, mut second, mut above, mut soft, mut hard) = (vec![], vec![], vec![], vec![], vec![]);
    let mut table = Table::new(
        "Heads of the first seed",
        &["layer", "head", "mean largest weight", "mean second weight"],
    );
    let mut all = vec![];
    for &seed in &seeds {
        let (model, mut trained) = induction(context, seed)?;
        let batch =
            INDUCTION.batch(&mut Context { seed: seed + 1, ..*context }.draws("E-12"), 64, INDUCTION_LENGTH);
        let found = patterns(&model, &mut trained.store, &batch)?;
        let (mut firsts, mut seconds) = (vec![], vec![]);
        for (layer, (pattern, _)) in found.iter().enumerate() {
            for head in 0..pattern.heads {
                let own: Vec<(f64, f64)> = pattern
                    .queries(head)
                    // From half of the sequence on there are enough keys to choose from.
                    .filter(|(query, _)| *query >= INDUCTION_LENGTH / 2)
                    .map(|(_, weights)| {
                        let mut sorted = weights.to_vec();
                        sorted.sort_by(|a, b| b.total_cmp(a));
                        (sorted[0], sorted[1])
                    })
                    .collect();
                let mean = |of: fn(&(f64, f64)) -> f64| own.iter().map(of).sum::<f64>() / own.len() as f64;
                if seed == seeds[0] {
                    table.row([
                        layer.to_string(),
                        head.to_string(),
                        figure(mean(|w| w.0)),
                        figure(mean(|w| w.1)),
                    ]);
                }
                firsts.extend(own.iter().map(|w| w.0));
                seconds.extend(own.iter().map(|w| w.1));
            }
        }
        let mean = |numbers: &[f64]| numbers.iter().sum::<f64>() / numbers.len() as f64;
        largest.push(mean(&firsts));
        second.push(mean(&seconds));
        above.push(firsts.iter().filter(|w| **w > 0.5).count() as f64 / firsts.len() as f64);
        let score = evaluate(&model, &mut trained.store, INDUCTION, 128, INDUCTION_LENGTH)?;
        let argmax = model.with(|tiny| tiny.kind = AttentionKind::Hard)?;
        soft.push(score.accuracy);
        hard.push(evaluate(&argmax, &mut trained.store, INDUCTION, 128, INDUCTION_LENGTH)?.accuracy);
        all = firsts;
    }
    let bars = crate::statistics::histogram(&all, 0.0, 1.0, 20);
    Ok(Finding::new(
        Verdict::Measured,
        format!(
            "The largest weight of a trained head is {} in the mean, the second {}; in {} of all rows one key has more than half. With \
             argmax in place of the softmax the accuracy goes from {} to {}. {}",
            figure(over_seeds(&largest).value),
            figure(over_seeds(&second).value),
            figure(over_seeds(&above).value),
            figure(over_seeds(&soft).value),
            figure(over_seeds(&hard).value),
            carries(context, seeds.len())
        ),
    )
    .number(number("mean of the largest weight", over_seeds(&largest)))
    .number(number("mean of the second weight", over_seeds(&second)))
    .number(number("share of rows with a weight above one half", over_seeds(&above)))
    .number(number("accuracy with the softmax", over_seeds(&soft)))
    .number(number("accuracy with argmax in its place", over_seeds(&hard)))
    .table(table)
    .picture(Chart::new("Largest weights of trained heads", Axis::new("largest weight"), Axis::new("share")).bars("", bars))
    .how("The model of E-7; weights of queries in the second half of the sequence; the same parameters under hard attention."))
}
