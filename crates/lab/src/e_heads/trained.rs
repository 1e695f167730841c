//! What training makes of heads: roles, redundancy, gradients, capacity, and how near to one-hot they come.

use crate::experiment::{
    INDUCTION, INDUCTION_LENGTH, Inductive, Model, Pattern, Task, Tiny, Trained, Training, carries,
    each_seed, each_setting, evaluate, induction, less, mean, number, over_seeds, patterns, train,
};
use crate::picture::{Axis, Chart, Colours, Heat, figure};
use crate::{Context, Finding, Table};
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

/// Layer, head, and what it does.
type HeadRole = (usize, usize, Role);

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
    struct Seen {
        accuracy: f64,
        /// Of the trained model and of the same before training: the largest weight of a head on the previous
        /// token, on what followed the same token, and how far mean distances span.
        sharpest: [[f64; 3]; 2],
        roles: Vec<HeadRole>,
        means: Vec<Vec<Vec<f64>>>,
    }
    let seen = each_seed(context, |seed| {
        let mut trained = induction(context, seed)?;
        let batch =
            INDUCTION.batch(&mut Context { seed: seed + 1, ..*context }.draws("E-7"), 64, INDUCTION_LENGTH);
        let look = |store: &mut Store| -> Result<(Vec<HeadRole>, Vec<Pattern>)> {
            let found = patterns(context, &trained.model, store, &batch)?;
            let patterns: Vec<Pattern> = found.into_iter().map(|found| found.0).collect();
            let heads = |(layer, pattern): (usize, &Pattern)| {
                (0..pattern.heads)
                    .map(|head| (layer, head, role(pattern, head, &batch.ids)))
                    .collect::<Vec<_>>()
            };
            Ok((patterns.iter().enumerate().flat_map(heads).collect(), patterns))
        };
        let (roles, patterns) = look(&mut trained.learned)?;
        let (before, _) = look(&mut trained.begun)?;
        let means =
            patterns.iter().map(|pattern| (0..pattern.heads).map(|head| pattern.mean(head)).collect());
        Ok(Seen {
            accuracy: trained.accuracy,
            sharpest: [sharpest(&roles), sharpest(&before)],
            means: means.collect(),
            roles,
        })
    })?;
    let of =
        |when: usize, what: usize| seen.iter().map(|seen| seen.sharpest[when][what]).collect::<Vec<f64>>();
    let accuracy: Vec<f64> = seen.iter().map(|seen| seen.accuracy).collect();
    let names = [
        "largest weight of a head on the previous token",
        "largest weight of a head on what followed the same token",
        "longest less shortest mean distance of a head",
    ];
    let mut finding = Finding::measured(format!(
        "In a model that learned to go on with repeating sequences, heads differ: their mean distances span {} positions, one \
         puts {} of its weight on the previous token, one {} on what followed the same token before; before training {}, {} and {}. {}",
        figure(mean(&of(0, 2))),
        figure(mean(&of(0, 0))),
        figure(mean(&of(0, 1))),
        figure(mean(&of(1, 2))),
        figure(mean(&of(1, 0))),
        figure(mean(&of(1, 1))),
        carries(context)
    ))
    .seeds(seen.len())
    .number(number("accuracy of the model", &accuracy));
    for (what, name) in names.into_iter().enumerate() {
        finding = finding.number(number(name, &of(0, what))).number(less(
            format!("{name}, trained less before training"),
            &of(0, what),
            &of(1, what),
        ));
    }
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
    for (layer, head, Role { entropy, distance, previous, own, first, copy }) in &seen[0].roles {
        let numbers = [entropy, distance, previous, own, first, copy].map(|x| figure(*x));
        table.row([vec![layer.to_string(), head.to_string()], numbers.to_vec()].concat());
    }
    for (name, of) in [
        ("previous token", (|role: &Role| role.previous) as fn(&Role) -> f64),
        ("token after the same token", |role: &Role| role.copy),
    ] {
        let best = seen[0].roles.iter().max_by(|a, b| of(&a.2).total_cmp(&of(&b.2)));
        if let Some(&(layer, head, _)) = best {
            let title = format!("Layer {layer}, head {head}: the most weight on the {name}");
            let weights = seen[0].means[layer][head].clone();
            let heat = Heat::new(title, "query", "key", INDUCTION_LENGTH, weights, Colours::Rising);
            finding = finding.picture(heat);
        }
    }
    Ok(finding.table(table).how(
        "Two causal layers of four heads, trained on sequences of a random period; the weights of 64 held-out examples, with what \
         was learned and with what the same seed began with.",
    ))
}

/// The most that any head does of each, and how far apart their mean distances are.
fn sharpest(roles: &[HeadRole]) -> [f64; 3] {
    let most = |of: fn(&Role) -> f64| roles.iter().map(|(_, _, role)| of(role)).fold(f64::MIN, f64::max);
    [
        most(|role| role.previous),
        most(|role| role.copy),
        most(|role| role.distance) + most(|role| -role.distance),
    ]
}

/// The model's loss with one head's output replaced: by 0, or by its mean.
fn without(
    context: &Context,
    model: &Model,
    store: &mut Store,
    [layer, head]: [usize; 2],
    mean: Option<&[f64]>,
) -> Result<f64> {
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
    let loss = evaluate(context, model, store, INDUCTION, 128, INDUCTION_LENGTH)?.loss;
    store.set_f32(&weight, &kept_weight)?;
    store.set_f32(&bias, &kept_bias)?;
    Ok(loss)
}

/// Layer, head, and how much the loss rises without it: set to 0, set to its mean.
type Rise = (usize, usize, f64, f64);

/// E-8: the loss after removing each head.
pub fn redundant(context: &Context) -> Result<Finding> {
    let rises = each_seed(context, |seed| {
        let Inductive { model, learned: mut store, accuracy, .. } = induction(context, seed)?;
        let whole = evaluate(context, &model, &mut store, INDUCTION, 128, INDUCTION_LENGTH)?.loss;
        let batch =
            INDUCTION.batch(&mut Context { seed: seed + 1, ..*context }.draws("E-8"), 64, INDUCTION_LENGTH);
        let means: Vec<Vec<f64>> =
            patterns(context, &model, &mut store, &batch)?.into_iter().map(|found| found.1).collect();
        let mut rises: Vec<Rise> = Vec::new();
        for (layer, own) in means.iter().enumerate() {
            for head in 0..model.config().heads {
                let zero = without(context, &model, &mut store, [layer, head], None)? - whole;
                let mean = without(context, &model, &mut store, [layer, head], Some(own))? - whole;
                rises.push((layer, head, zero, mean));
            }
        }
        Ok((accuracy, rises))
    })?;
    let over = |of: &dyn Fn(&[Rise]) -> f64| rises.iter().map(|(_, own)| of(own)).collect::<Vec<f64>>();
    let accuracy: Vec<f64> = rises.iter().map(|(accuracy, _)| *accuracy).collect();
    let least = over(&|own| own.iter().map(|rise| rise.3).fold(f64::INFINITY, f64::min));
    let most = over(&|own| own.iter().map(|rise| rise.3).fold(f64::NEG_INFINITY, f64::max));
    let free = over(&|own| own.iter().filter(|rise| rise.3 < 0.05).count() as f64 / own.len() as f64);
    let shown = &rises[0].1;
    let mut table = Table::new(
        "Loss with one head less, minus the whole model’s, first seed",
        &["layer", "head", "set to 0", "set to its mean"],
    );
    for (layer, head, zero, mean) in shown {
        table.row([layer.to_string(), head.to_string(), figure(*zero), figure(*mean)]);
    }
    let names = shown.iter().map(|(layer, head, ..)| format!("{layer}.{head}"));
    let at = |of: fn(&Rise) -> f64| {
        shown.iter().enumerate().map(|(at, rise)| (at as f64, of(rise))).collect::<Vec<_>>()
    };
    Ok(Finding::measured(format!(
        "{} of the heads raise the loss by less than 0.05 when replaced by their mean; the costliest raises it by {}. {}",
        figure(mean(&free)),
        figure(mean(&most)),
        carries(context)
    ))
    .seeds(rises.len())
    .number(number("accuracy of the model", &accuracy))
    .number(number("share of heads whose removal costs less than 0.05", &free))
    .number(number("rise of the loss without the least needed head", &least))
    .number(number("rise of the loss without the most needed head", &most))
    .table(table)
    .picture(
        Chart::new("Rise of the loss without one head", Axis::names("layer.head", names), Axis::new("loss").covering(&[0.0]))
            .bars("set to 0", at(|rise| rise.2))
            .points("set to its mean", at(|rise| rise.3)),
    )
    .how("The columns of W_O of one head set to 0, and its mean output added to the bias for the mean; 128 held-out examples."))
}

/// E-9: how much of the gradient arrives at the first of six blocks, against the number of heads.
pub fn gradient_flow(context: &Context) -> Result<Finding> {
    const LAYERS: usize = 6;
    let task = Task::Reverse { symbols: 8 };
    let heads = [1usize, 2, 4, 8];
    let last = format!("block.{}.attention.value.weight", LAYERS - 1);
    let parts = ["query.weight", "block.0.attention.value.weight", last.as_str()];
    let found = each_setting(context, &heads, |&h, seed| {
        let model = Model::new(Tiny { heads: h, layers: LAYERS, ..Tiny::new(8, 32) })?;
        let training = Training { seed, steps: 30, batch: 16, length: 8, rate: 3e-3, watch: &parts };
        let trained = train(context, &model, task, &training)?;
        let [query, first, last] = [0, 1, 2].map(|at| trained.watched[at][0]);
        Ok([query, first, first / last, trained.last_loss()])
    })?;
    let of = |setting: usize, what: usize| found[setting].iter().map(|run| run[what]).collect::<Vec<f64>>();
    let names = [
        "gradient norm of all W_Q at the first step",
        "gradient norm of the first block’s W_V at the first step",
        "the same over the last block’s",
        "loss after 30 steps",
    ];
    let mut table = Table::new("Means over seeds", &["heads", names[0], names[1], names[2], names[3]]);
    let mut finding = Finding::measured("").seeds(found[0].len());
    for (at, h) in heads.iter().enumerate() {
        let cells = (0..4).map(|what| figure(mean(&of(at, what))));
        table.row([h.to_string()].into_iter().chain(cells));
        for (what, name) in names.iter().enumerate() {
            finding = finding.number(number(format!("{h} heads: {name}"), &of(at, what)));
        }
    }
    for (what, name) in names.iter().enumerate() {
        finding = finding.number(less(format!("eight heads less one: {name}"), &of(3, what), &of(0, what)));
    }
    let mut chart = Chart::new("Gradients at the first step", Axis::log("heads"), Axis::log("norm"));
    for (what, name) in ["all W_Q", "first block’s W_V"].iter().enumerate() {
        let points = heads.iter().enumerate().map(|(at, &h)| (h as f64, over_seeds(&of(at, what))));
        chart = chart.estimates(*name, points);
    }
    finding.summary = format!(
        "“Better flow” is taken as: with eight heads instead of one, at equal width, more of the gradient arrives at the first of six \
         blocks. It is {} of the last block’s with one head and {} with eight; the loss after 30 steps is {} and {}. {}",
        figure(mean(&of(0, 2))),
        figure(mean(&of(3, 2))),
        figure(mean(&of(0, 3))),
        figure(mean(&of(3, 3))),
        carries(context)
    );
    Ok(finding.table(table).picture(chart).how(
        "Six layers of width 32 on reversal; norms of the gradients before clipping, by the engine’s own step; differences seed by seed.",
    ))
}

/// E-10: a task of two lookups, accuracy against the number of heads.
pub fn capacity(context: &Context) -> Result<Finding> {
    let task = Task::TwoLookups { keys: 6, values: 4 };
    let heads = [1usize, 2, 4];
    let model = |h: usize| Model::new(Tiny { heads: h, most: 7, ..Tiny::new(task.vocabulary(), 8) });
    let steps = context.size(500, 2500);
    let found = each_setting(context, &heads, |&h, seed| {
        let model = model(h)?;
        let training = Training { seed, steps, batch: 32, length: 7, rate: 1e-2, watch: &[] };
        let mut trained = train(context, &model, task, &training)?;
        let score = evaluate(context, &model, &mut trained.store, task, 512, 7)?;
        Ok((score.accuracy, score.loss, Trained::curve(&trained.losses, 40)))
    })?;
    let accuracy = |at: usize| found[at].iter().map(|run| run.0).collect::<Vec<f64>>();
    let mut chart =
        Chart::new("Two lookups at equal parameters", Axis::new("step"), Axis::new("loss").covering(&[0.0]));
    let mut table = Table::new("Held-out examples", &["heads", "parameters", "accuracy", "loss"]);
    let mut finding = Finding::measured(format!(
        "A position that must fetch two values at once: {} right with one head, {} with two, {} with four, at equal parameters; {} \
         by chance. One head can do it in principle, by averaging two values in subspaces of their own (D5). {}",
        figure(mean(&accuracy(0))),
        figure(mean(&accuracy(1))),
        figure(mean(&accuracy(2))),
        figure(task.chance()),
        carries(context)
    ))
    .seeds(found[0].len());
    for (at, &h) in heads.iter().enumerate() {
        let loss: Vec<f64> = found[at].iter().map(|run| run.1).collect();
        chart = chart.line(format!("{h} heads"), found[at][0].2.clone());
        table.row([
            h.to_string(),
            model(h)?.parameters().count().to_string(),
            figure(mean(&accuracy(at))),
            figure(mean(&loss)),
        ]);
        finding = finding.number(number(format!("{h} heads: accuracy"), &accuracy(at)));
    }
    Ok(finding
        .number(less("two heads less one: accuracy", &accuracy(1), &accuracy(0)))
        .number(less("four heads less one: accuracy", &accuracy(2), &accuracy(0)))
        .number(less("four heads less two: accuracy", &accuracy(2), &accuracy(1)))
        .table(table)
        .picture(chart)
        .how("One layer of width 8; six keys with one of four values each, the last token names two keys, the answer is both values in order; differences seed by seed."))
}

/// E-12: largest and second weights of trained heads, and what becomes of the model under argmax.
pub fn unimodal(context: &Context) -> Result<Finding> {
    type Heads = Vec<(usize, usize, Vec<[f64; 2]>)>;
    let found = each_seed(context, |seed| {
        let Inductive { model, learned: mut store, accuracy, .. } = induction(context, seed)?;
        let batch =
            INDUCTION.batch(&mut Context { seed: seed + 1, ..*context }.draws("E-12"), 64, INDUCTION_LENGTH);
        let mut heads: Heads = vec![];
        for (layer, (pattern, _)) in patterns(context, &model, &mut store, &batch)?.iter().enumerate() {
            for head in 0..pattern.heads {
                // From half of the sequence on there are enough keys to choose from.
                let rows = pattern.queries(head).filter(|(query, _)| *query >= INDUCTION_LENGTH / 2);
                let two = rows.map(|(_, weights)| {
                    let mut sorted = weights.to_vec();
                    sorted.sort_by(|a, b| b.total_cmp(a));
                    [sorted[0], sorted[1]]
                });
                heads.push((layer, head, two.collect()));
            }
        }
        let argmax = model.with(|tiny| tiny.kind = AttentionKind::Hard)?;
        let hard = evaluate(context, &argmax, &mut store, INDUCTION, 128, INDUCTION_LENGTH)?.accuracy;
        Ok((accuracy, hard, heads))
    })?;
    let over = |of: &dyn Fn(&[f64; 2]) -> f64| -> Vec<f64> {
        let each = |heads: &Heads| mean(&heads.iter().flat_map(|head| &head.2).map(of).collect::<Vec<_>>());
        found.iter().map(|(_, _, heads)| each(heads)).collect()
    };
    let largest = over(&|two| two[0]);
    let second = over(&|two| two[1]);
    let above = over(&|two| f64::from(u8::from(two[0] > 0.5)));
    let (soft, hard): (Vec<f64>, Vec<f64>) = found.iter().map(|run| (run.0, run.1)).unzip();
    let mut table = Table::new(
        "Heads of the first seed",
        &["layer", "head", "mean largest weight", "mean second weight"],
    );
    for (layer, head, rows) in &found[0].2 {
        let of = |at: usize| figure(mean(&rows.iter().map(|two| two[at]).collect::<Vec<_>>()));
        table.row([layer.to_string(), head.to_string(), of(0), of(1)]);
    }
    let all: Vec<f64> = found[0].2.iter().flat_map(|head| head.2.iter().map(|two| two[0])).collect();
    let bars = crate::statistics::histogram(&all, 0.0, 1.0, 20);
    Ok(Finding::measured(format!(
        "The largest weight of a trained head is {} in the mean, the second {}; in {} of all rows one key has more than half. With \
         argmax in place of the softmax the accuracy goes from {} to {}. {}",
        figure(mean(&largest)),
        figure(mean(&second)),
        figure(mean(&above)),
        figure(mean(&soft)),
        figure(mean(&hard)),
        carries(context)
    ))
    .seeds(found.len())
    .number(number("mean of the largest weight", &largest))
    .number(number("mean of the second weight", &second))
    .number(number("share of rows with a weight above one half", &above))
    .number(number("accuracy with the softmax", &soft))
    .number(number("accuracy with argmax in its place", &hard))
    .number(less("accuracy with argmax less with the softmax", &hard, &soft))
    .table(table)
    .picture(Chart::new("Largest weights of trained heads", Axis::new("largest weight"), Axis::new("share")).bars("", bars))
    .how("The model of E-7; weights of queries in the second half of the sequence; the same parameters under hard attention."))
}
