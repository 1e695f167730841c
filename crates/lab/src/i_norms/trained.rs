//! Norms and residuals in training: rates and beginnings, and depth.

use crate::experiment::{
    Model, Norming, Task, Tiny, Training, carries, each_setting, less, mean, number, train,
};
use crate::picture::{Axis, Chart, Colours, Heat, figure};
use crate::{Context, Finding, Table};
use regard::Result;

/// The loss of knowing nothing about six symbols.
fn chance() -> f64 {
    6f64.ln()
}

/// A run that broke counts as twice the loss of knowing nothing, and none counts as more.
fn counted(loss: f64) -> f64 {
    if loss.is_finite() { loss.min(2.0 * chance()) } else { 2.0 * chance() }
}

/// I8: learning rates and initial scales, with and without layer norm.
pub fn forgiving(context: &Context) -> Result<Finding> {
    let task = Task::Reverse { symbols: 6 };
    let (rates, gains) = ([1e-3, 4e-3, 1.6e-2, 6.4e-2], [0.25f32, 1.0, 4.0]);
    let kinds = [("pre-norm", Norming::Pre), ("no norm", Norming::None)];
    let steps = context.size(80, 400);
    let mut settings = vec![];
    for (_, norming) in kinds {
        settings.extend(gains.iter().flat_map(|&gain| rates.map(|rate| (norming, gain, rate))));
    }
    let losses = each_setting(context, &settings, |&(norming, gain, rate), seed| {
        let model = Model::new(Tiny { norming, gain, layers: 2, most: 6, ..Tiny::new(6, 16) })?;
        let training = Training { seed, steps, batch: 16, length: 6, rate, watch: &[] };
        Ok(counted(train(context, &model, task, &training)?.last_loss()))
    })?;
    let seeds = losses[0].len();
    let mut finding = Finding::measured("").seeds(seeds);
    let (mut shares, mut spans) = (vec![], vec![]);
    for ((name, _), own) in kinds.iter().zip(losses.chunks(gains.len() * rates.len())) {
        let of = |seed: usize| own.iter().map(move |runs| runs[seed]);
        let share: Vec<f64> = (0..seeds)
            .map(|seed| of(seed).filter(|loss| *loss < 0.7 * chance()).count() as f64 / own.len() as f64)
            .collect();
        let span: Vec<f64> = (0..seeds)
            .map(|seed| of(seed).fold(f64::MIN, f64::max) - of(seed).fold(f64::INFINITY, f64::min))
            .collect();
        finding = finding
            .number(number(format!("{name}: share of settings whose loss falls below 0.7 of chance"), &share))
            .number(number(format!("{name}: largest less smallest loss over all settings"), &span))
            .picture(Heat::new(
                format!("{name}: loss at the end; down: initial scale ¼, 1, 4; across: rate 0.001, 0.004, 0.016, 0.064"),
                "scale",
                "rate",
                rates.len(),
                own.iter().map(|runs| mean(runs)).collect::<Vec<f64>>(),
                Colours::Rising,
            ));
        shares.push(share);
        spans.push(span);
    }
    finding.summary = format!(
        "Of twelve pairs of rate and initial scale, training gets somewhere in {} with layer norm and in {} without; the losses span {} \
         and {}. {}",
        figure(mean(&shares[0])),
        figure(mean(&shares[1])),
        figure(mean(&spans[0])),
        figure(mean(&spans[1])),
        carries(context)
    );
    Ok(finding
        .number(less("share of settings that train: with layer norm less without", &shares[0], &shares[1]))
        .number(less("largest less smallest loss: with layer norm less without", &spans[0], &spans[1]))
        .how("Two layers of width 16 on reversal; weights begin with ¼, 1 and 4 times 1/√C; gradients are clipped at 1 in all runs; a run that is no longer finite counts as twice the loss of chance. The same seeds with and without."))
}

/// The kinds of blocks that are stacked, and their names.
const STACKS: [(&str, Norming, bool); 4] = [
    ("pre-norm", Norming::Pre, true),
    ("post-norm", Norming::Post, true),
    ("no norm", Norming::None, true),
    ("no norm, no residual", Norming::None, false),
];

/// I9: gradients and losses against depth.
pub fn depth(context: &Context) -> Result<Finding> {
    let task = Task::Reverse { symbols: 6 };
    let depths: &[usize] = &[2, 8, 16, 32][..context.size(3, 4)];
    let deepest = depths.len() - 1;
    let steps = context.size(40, 200);
    let settings: Vec<(Norming, bool, usize)> = STACKS
        .iter()
        .flat_map(|&(_, norming, residual)| depths.iter().map(move |&layers| (norming, residual, layers)))
        .collect();
    let tiny = Tiny { hidden: 32, most: 6, ..Tiny::new(6, 16) };
    let found = each_setting(context, &settings, |&(norming, residual, layers), seed| {
        let model = Model::new(Tiny { norming, residual, layers, ..tiny })?;
        let watch = ["block.0.attention.value.weight"];
        let training = Training { seed, steps, batch: 8, length: 6, rate: 3e-3, watch: &watch };
        let trained = train(context, &model, task, &training)?;
        Ok((trained.watched[0][0], counted(trained.last_loss())))
    })?;
    let mut gradients = Chart::new(
        "Gradient of W_V of the first block, before training",
        Axis::log("layers"),
        Axis::log("norm"),
    );
    let mut losses =
        Chart::new("Loss after some steps", Axis::log("layers"), Axis::new("loss").covering(&[0.0]));
    let mut table = Table::new(
        "First block’s gradient before training, and loss at the end",
        &["kind", "layers", "gradient", "loss"],
    );
    let mut finding = Finding::measured("").seeds(found[0].len());
    let (mut deep, mut told) = (vec![], vec![]);
    for ((name, ..), own) in STACKS.iter().zip(found.chunks(depths.len())) {
        let loss = |at: usize| own[at].iter().map(|run| run.1).collect::<Vec<f64>>();
        // The middle one: a gradient that overflows in some run has no mean.
        let gradient = |at: usize| {
            let mut norms: Vec<f64> = own[at].iter().map(|run| run.0).collect();
            norms.sort_by(f64::total_cmp);
            norms[norms.len() / 2]
        };
        let shown =
            |at: usize| if gradient(at).is_finite() { figure(gradient(at)) } else { "overflows".into() };
        for (at, layers) in depths.iter().enumerate() {
            table.row([name.to_string(), layers.to_string(), shown(at), figure(mean(&loss(at)))]);
        }
        let points = (0..depths.len()).filter(|&at| gradient(at).is_finite());
        gradients = gradients.line(*name, points.map(|at| (depths[at] as f64, gradient(at))));
        losses = losses.line(*name, depths.iter().enumerate().map(|(at, n)| (*n as f64, mean(&loss(at)))));
        finding = finding.number(number(format!("deepest stack, {name}: loss at the end"), &loss(deepest)));
        told.push(format!("{name} {} (gradient {})", figure(mean(&loss(deepest))), shown(deepest)));
        deep.push(loss(deepest));
    }
    finding.summary = format!(
        "Losses at the end of stacks of {} blocks, and the gradient that the first block gets before training: {}; chance is {}. {}",
        depths[deepest],
        told.join(", "),
        figure(chance()),
        carries(context)
    );
    Ok(finding
        .number(less("deepest stack: loss with residuals and pre-norm less without either", &deep[0], &deep[3]))
        .number(less("deepest stack: loss with residuals and post-norm less without either", &deep[1], &deep[3]))
        .number(less("deepest stack: loss with residuals and pre-norm less residuals alone", &deep[0], &deep[2]))
        .table(table)
        .picture(gradients)
        .picture(losses)
        .how("Blocks of width 16 on reversal, gradients of W_V of the first block at the first step (the median of the seeds), losses after some steps of AdamW at the same rate; a run that is no longer finite counts as twice the loss of chance. Differences seed by seed."))
}
