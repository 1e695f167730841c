//! Norms and residuals in training: rates and beginnings, and depth.

use crate::experiment::{Model, Norming, Task, Tiny, Training, carries, number, over_seeds, seeds, train};
use crate::picture::{Axis, Chart, Colours, Heat, figure};
use crate::{Context, Finding, Number, Table, Verdict};
use regard::Result;

/// I8: learning rates and initial scales, with and without layer norm.
pub fn forgiving(context: &Context) -> Result<Finding> {
    let task = Task::Reverse { symbols: 6 };
    let rates = [1e-3, 4e-3, 1.6e-2, 6.4e-2];
    let gains = [0.25f32, 1.0, 4.0];
    let seeds = seeds(context, 3);
    let chance = 6f64.ln();
    let mut shares = vec![];
    let mut finding = Finding::new(Verdict::Measured, "");
    for (name, norming) in [("pre-norm", Norming::Pre), ("no norm", Norming::None)] {
        let (mut losses, mut good) = (vec![], vec![]);
        for &gain in &gains {
            for &rate in &rates {
                let mut own = vec![];
                for &seed in &seeds {
                    let model = Model::new(Tiny { norming, gain, layers: 2, most: 6, ..Tiny::new(6, 16) })?;
                    let training = Training {
                        seed,
                        steps: context.size(80, 400),
                        batch: 16,
                        length: 6,
                        rate,
                        watch: &[],
                    };
                    let loss = train(&model, task, &training)?.last_loss();
                    // A run that broke counts as knowing nothing.
                    own.push(if loss.is_finite() { loss.min(2.0 * chance) } else { 2.0 * chance });
                }
                let mean = over_seeds(&own).value;
                losses.push(mean);
                good.push(f64::from(u8::from(mean < 0.7 * chance)));
            }
        }
        let share = good.iter().sum::<f64>() / good.len() as f64;
        let spread =
            losses.iter().copied().fold(0.0, f64::max) - losses.iter().copied().fold(f64::INFINITY, f64::min);
        shares.push((share, spread));
        finding = finding
            .number(number(format!("{name}: share of settings whose loss falls below 0.7 of chance"), over_seeds(&[share])))
            .number(number(format!("{name}: largest less smallest loss over all settings"), over_seeds(&[spread])))
            .picture(Heat::new(
                format!("{name}: loss at the end; down: initial scale ¼, 1, 4; across: rate 0.001, 0.004, 0.016, 0.064"),
                "scale",
                "rate",
                rates.len(),
                losses,
                Colours::Rising,
            ));
    }
    finding.summary = format!(
        "Of twelve pairs of rate and initial scale, training gets somewhere in {} with layer norm and in {} without; the losses span {} \
         and {}. {}",
        figure(shares[0].0),
        figure(shares[1].0),
        figure(shares[0].1),
        figure(shares[1].1),
        carries(context, seeds.len())
    );
    Ok(finding.how("Two layers of width 16 on reversal; weights begin with ¼, 1 and 4 times 1/√C; gradients are clipped at 1 in all runs; a run that is no longer finite counts as twice the loss of chance."))
}

/// I9: gradients and losses against depth.
pub fn depth(context: &Context) -> Result<Finding> {
    let task = Task::Reverse { symbols: 6 };
    let kinds = [
        ("pre-norm", Norming::Pre, true),
        ("post-norm", Norming::Post, true),
        ("no norm", Norming::None, true),
        ("no norm, no residual", Norming::None, false),
    ];
    let depths: &[usize] = &[2, 4, 8, 16, 32, 64][..context.size(5, 6)];
    let seeds = seeds(context, 3);
    let mut gradients = Chart::new(
        "Gradient of W_V of the first block, before training",
        Axis::log("layers"),
        Axis::log("norm"),
    );
    let mut losses =
        Chart::new("Loss after some steps", Axis::log("layers"), Axis::new("loss").covering(&[0.0]));
    let mut table = Table::new(
        "First block’s gradient before training, and loss at the end",
        &["kind", "layers", "gradient", "over the last block’s", "loss"],
    );
    let tiny = Tiny { hidden: 32, most: 6, ..Tiny::new(6, 16) };
    let (mut numbers, mut gradients_shown, mut losses_shown) = (vec![], vec![], vec![]);
    for (name, norming, residual) in kinds {
        let (mut ratio_line, mut loss_line) = (vec![], vec![]);
        for &layers in depths {
            let Runs { firsts, ratios, losses: at_end, broken } =
                runs(context, task, &seeds, Tiny { norming, residual, layers, ..tiny })?;
            let deepest = layers == depths[depths.len() - 1];
            if broken > 0 {
                let cells =
                    [name.to_string(), layers.to_string(), "overflows".into(), "–".into(), "–".into()];
                table.row(cells);
                numbers.push(Number::shown(
                    format!("{name}, {layers} layers: runs of {} that overflow", seeds.len()),
                    f64::from(broken),
                ));
                if deepest {
                    gradients_shown.push(format!("{name} overflows"));
                }
                continue;
            }
            let (first, ratio) = (over_seeds(&firsts), over_seeds(&ratios));
            ratio_line.push((layers as f64, first.value));
            let loss = if at_end.is_empty() {
                "not run in quick".to_string()
            } else {
                figure(over_seeds(&at_end).value)
            };
            if !at_end.is_empty() {
                loss_line.push((layers as f64, over_seeds(&at_end).value));
            }
            table.row([name.to_string(), layers.to_string(), figure(first.value), figure(ratio.value), loss]);
            if deepest {
                gradients_shown.push(format!("{name} {}", figure(first.value)));
                numbers.push(number(
                    format!("{name}, {layers} layers: gradient norm of the first block"),
                    first,
                ));
                numbers
                    .push(number(format!("{name}, {layers} layers: the same over the last block’s"), ratio));
            }
        }
        if let Some((layers, loss)) = loss_line.last() {
            losses_shown.push(format!("{name} {} ({layers})", figure(*loss)));
            numbers.push(number(format!("{name}, {layers} layers: loss at the end"), over_seeds(&[*loss])));
        }
        gradients = gradients.line(name, ratio_line);
        losses = losses.line(name, loss_line);
    }
    Ok(Finding::new(
        Verdict::Measured,
        format!(
            "The gradient that the first of {} blocks gets before training: {}. Losses at the end, of the deepest stacks (layers) \
             that train without overflow: {}; chance is {}. {}",
            depths[depths.len() - 1],
            gradients_shown.join(", "),
            losses_shown.join(", "),
            figure(6f64.ln()),
            carries(context, seeds.len())
        ),
    )
    .numbers(numbers)
    .table(table)
    .picture(gradients)
    .picture(losses)
    .how("Blocks of width 16 on reversal, gradients of W_V of the first and the last block at the first step, losses after some steps of AdamW at the same rate."))
}

/// Runs of one depth, one for each seed that does not overflow.
struct Runs {
    /// The norm of the first block's gradient before training, and its ratio to the last block's.
    firsts: Vec<f64>,
    ratios: Vec<f64>,
    /// At the end; none where only the first step is run.
    losses: Vec<f64>,
    /// How many overflowed.
    broken: u32,
}

fn runs(context: &Context, task: Task, seeds: &[u64], tiny: Tiny) -> Result<Runs> {
    let layers = tiny.layers;
    let mut found = Runs { firsts: vec![], ratios: vec![], losses: vec![], broken: 0 };
    for &seed in seeds {
        let model = Model::new(tiny)?;
        let last = format!("block.{}.attention.value.weight", layers - 1);
        let watch = ["block.0.attention.value.weight", last.as_str()];
        // Deep stacks are watched at their beginning only when quick.
        let steps = if layers > context.size(8, 64) { 1 } else { context.size(60, 200) };
        let training = Training { seed, steps, batch: 8, length: 6, rate: 3e-3, watch: &watch };
        let trained = train(&model, task, &training)?;
        let loss = trained.last_loss();
        // Numbers that overflow in any seed are no mean: the depth is shown as one that breaks.
        if !trained.watched[0][0].is_finite() || !loss.is_finite() {
            found.broken += 1;
            continue;
        }
        found.firsts.push(trained.watched[0][0]);
        found.ratios.push(trained.watched[0][0] / trained.watched[1][0]);
        if steps > 1 {
            found.losses.push(loss);
        }
    }
    Ok(found)
}
