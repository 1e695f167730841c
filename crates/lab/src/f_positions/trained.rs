//! A layer that is trained on the outputs of a convolution, and tasks with and without order.

use super::lengths::accuracies;
use crate::experiment::{Encoding, Task, Trained, carries, each_seed, less, mean, number, share};
use crate::picture::{Axis, Chart, Colours, Heat, figure};
use crate::{Context, Finding, Table};
use regard::Result;
use regard::layers::{
    AttentionConfig, AttentionLayer, Context as Surroundings, KeySource, Parameters, RelativeConfig,
    RelativePositions,
};
use regard::ops::{AdamW, Attention, AttentionOp, WeightsRequest};
use regard::prelude::*;

/// F-12: a task on sets and a task of order, each with and without positions.
pub fn order_free(context: &Context) -> Result<Finding> {
    let steps = context.size(250, 600);
    let mut table = Table::new("Accuracy", &["task", "with positions", "without", "chance"]);
    let mut finding = Finding::measured("");
    let mut values = vec![];
    for (name, task) in
        [("majority", Task::Majority { symbols: 4 }), ("reversal", Task::Reverse { symbols: 8 })]
    {
        let kinds = [Encoding::Learned, Encoding::None];
        let found = accuracies(context, task, &kinds, [9, steps], &[9])?;
        let [with, without] = [0, 1].map(|at| found[at].iter().map(|run| run[0]).collect::<Vec<f64>>());
        // 64 sequences of nine answers each.
        finding = finding
            .seeds(with.len())
            .number(share(format!("{name} with positions: accuracy"), &with, 64))
            .number(share(format!("{name} without positions: accuracy"), &without, 64))
            .number(less(format!("{name}: accuracy without positions less with them"), &without, &with));
        let own = [mean(&with), mean(&without)];
        table.row([name.to_string(), figure(own[0]), figure(own[1]), figure(task.chance())]);
        values.push(own);
    }
    finding.summary = format!(
        "Majority is right {} with positions and {} without; reversal {} with and {} without. {}",
        figure(values[0][0]),
        figure(values[0][1]),
        figure(values[1][0]),
        figure(values[1][1]),
        carries(context)
    );
    Ok(finding
        .table(table)
        .picture(
            Chart::new("Accuracy by task", Axis::names("task", ["majority", "reversal"]), Axis::new("accuracy").covering(&[0.0, 1.0]))
                .bars("with positions", (0..2).map(|at| (at as f64, values[at][0])))
                .points("without", (0..2).map(|at| (at as f64, values[at][1]))),
        )
        .how("Two layers in both directions, width 32, nine tokens; without positions outputs are the same for the same token (F-2), so that reversal can be right only where the middle token or chance helps."))
}

/// F-10: one layer, trained on the outputs of a convolution.
pub fn learns_band(context: &Context) -> Result<Finding> {
    let (batch, n, width, taps) = (16usize, 12usize, 8usize, [0.25, 0.5, 0.25]);
    let steps = context.size(300, 2500);
    let config = AttentionConfig { std: 0.35, ..AttentionConfig::new(width, 1)? };
    let mut parameters = Parameters::new();
    let layer = AttentionLayer::new(config, &mut parameters)?;
    let relative = parameters
        .under("relative", |p| RelativePositions::new(RelativeConfig::Clipped { reach: n - 1 }, 1, p))?;
    let found = each_seed(context, |seed| {
        let device = context.engine()?;
        let mut store = Store::new(seed);
        let mut training =
            Program::new(record_step(&layer, &relative, batch, n, width)?, &[], &mut store, &device)?;
        let mut draws = Context { seed, ..*context }.draws("F-10");
        let (mut losses, mut x) = (vec![], vec![]);
        for at in 0..steps {
            x = draws.normals(batch * n * width).iter().map(|x| *x as f32).collect::<Vec<f32>>();
            training.set_f32("x", &[batch, n, width], &x)?;
            training.set_f32("wanted", &[batch, n, width], &convolved(&x, n, width, taps))?;
            training.set_f32("lr", &[], &[(0.02 * (1.0 - at as f64 / steps as f64)) as f32])?;
            training.set_i32("step", &[], &[at as i32 + 1])?;
            training.run(&mut store)?;
            losses.push(training.scalar("loss")? as f64);
        }
        let mut g = Graph::inference();
        record_look(&mut g, &layer, &relative, batch, n, width)?;
        let mut look = Program::new(g, &[], &mut store, &device)?;
        look.set_f32("x", &[batch, n, width], &x)?;
        look.run(&mut store)?;
        let weights = look.array("weights")?;
        let mut even = vec![0.0; n * n];
        for row in weights.data().chunks(n * n) {
            even.iter_mut().zip(row).for_each(|(sum, w)| *sum += w / batch as f64);
        }
        let band = (0..n * n).filter(|at| (at / n).abs_diff(at % n) <= 1).map(|at| even[at]).sum::<f64>();
        let last = mean(&losses[losses.len() - losses.len().div_ceil(10)..]);
        Ok((band / n as f64, last, even, Trained::curve(&losses, 50)))
    })?;
    let (in_band, losses): (Vec<f64>, Vec<f64>) = found.iter().map(|run| (run.0, run.1)).unzip();
    let (_, _, picture, curve) = found[0].clone();
    Ok(Finding::measured(format!(
        "A layer with a learned number for each distance, trained on the outputs of ¼ ½ ¼, puts {} of its weight on the band; {} of \
         it would be there by chance. Mean squared error {} (targets have variance 0.38). {}",
        figure(mean(&in_band)),
        figure((3.0 * n as f64 - 2.0) / (n * n) as f64),
        figure(mean(&losses)),
        carries(context)
    ))
    .seeds(in_band.len())
    .number(number("weight on distances −1, 0, 1", &in_band))
    .number(number("mean squared error at the end", &losses))
    .picture(Heat::new("Learned weights, mean over examples", "query", "key", n, picture, Colours::Rising))
    .picture(Chart::new("Training", Axis::new("step"), Axis::log("mean squared error")).line("", curve))
    .how("One head of width 8 over 12 positions of random numbers, with a table of biases by distance; targets renormalise at the border, as attention must."))
}

/// The step of F-10.
fn record_step(
    layer: &AttentionLayer,
    relative: &RelativePositions,
    batch: usize,
    n: usize,
    width: usize,
) -> Result<Graph> {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [batch, n, width])?;
    let wanted = g.input("wanted", DType::F32, [batch, n, width])?;
    let (lr, step) = (g.input("lr", DType::F32, shape![])?, g.input("step", DType::I32, shape![])?);
    let bias = relative.bias(&mut g)?;
    let y = layer.forward(&mut g, x, KeySource::Own, &Surroundings { bias, ..Default::default() })?;
    let off = g.sub(y, wanted)?;
    let squares = g.square(off)?;
    let sum = g.sum_all(squares)?;
    let loss = g.scale(sum, 1.0 / (batch * n * width) as f32)?;
    g.output("loss", loss)?;
    let all = g.parameters();
    let gradients = g.gradient(loss, &all)?;
    let pairs: Vec<(Var, Var)> = all.into_iter().zip(gradients).collect();
    g.adamw_step(&pairs, &AdamW { weight_decay: 0.0, ..Default::default() }, lr, step, None)?;
    Ok(g)
}

/// The weights of F-10, as an output.
fn record_look(
    g: &mut Graph,
    layer: &AttentionLayer,
    relative: &RelativePositions,
    batch: usize,
    n: usize,
    width: usize,
) -> Result<()> {
    let x = g.input("x", DType::F32, [batch, n, width])?;
    let bias = relative.bias(g)?;
    layer.forward(g, x, KeySource::Own, &Surroundings { bias, ..Default::default() })?;
    let found = g.nodes().iter().find(|node| node.is::<AttentionOp>());
    if let Some([q, k, lse]) = found.map(|node| [node.inputs[0], node.inputs[1], node.outputs[1]]) {
        let spec = Attention { bias, ..Default::default() };
        let request = WeightsRequest::Block { queries: 0..n, keys: 0..n };
        let weights = g.attention_weights(q, k, lse, &spec, request)?.values;
        g.output("weights", weights)?;
    }
    Ok(())
}

/// Σ_δ w_δ x_{t+δ}, renormalised at the border as attention must.
fn convolved(x: &[f32], n: usize, width: usize, taps: [f64; 3]) -> Vec<f32> {
    let rows = x.len() / (n * width);
    let mut out = vec![0.0; x.len()];
    for row in 0..rows {
        for t in 0..n {
            let near: Vec<(usize, f64)> = (0..3)
                .filter_map(|tap| (t + tap).checked_sub(1).filter(|s| *s < n).map(|s| (s, taps[tap])))
                .collect();
            let total: f64 = near.iter().map(|(_, w)| w).sum();
            for c in 0..width {
                let sum: f64 =
                    near.iter().map(|&(s, w)| w / total * x[(row * n + s) * width + c] as f64).sum();
                out[(row * n + t) * width + c] = sum as f32;
            }
        }
    }
    out
}
