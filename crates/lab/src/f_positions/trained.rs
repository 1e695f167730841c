//! Trained experiments on positions: other lengths, tasks with and without order, where absolute and where
//! relative ones win, and whether a layer finds a convolution.

use crate::experiment::{
    Encoding, Model, Task, Tiny, Training, carries, evaluate, number, one_cpu, over_seeds, seeds, train,
};
use crate::picture::{Axis, Chart, Colours, Heat, figure};
use crate::statistics::Estimate;
use crate::{Context, Finding, Table, Verdict};
use regard::Result;
use regard::layers::{
    AttentionConfig, AttentionLayer, Context as Surroundings, KeySource, Parameters, RelativeConfig,
    RelativePositions,
};
use regard::ops::{AdamW, Attention, AttentionOp, WeightsRequest};
use regard::prelude::*;

/// Accuracies at each length, after training at one.
fn at_lengths(
    context: &Context,
    task: Task,
    encoding: Encoding,
    causal: bool,
    [trained_at, steps]: [usize; 2],
    lengths: &[usize],
    full: usize,
) -> Result<Vec<Estimate>> {
    let most = lengths.iter().copied().max().unwrap_or(trained_at);
    let tiny = Tiny { encoding, causal, most, heads: 4, layers: 2, ..Tiny::new(task.vocabulary(), 32) };
    let model = Model::new(tiny)?;
    let mut found = vec![Vec::new(); lengths.len()];
    for seed in seeds(context, full) {
        let training = Training { seed, steps, batch: 16, length: trained_at, rate: 4e-3, watch: &[] };
        let mut trained = train(&model, task, &training)?;
        for (found, &length) in found.iter_mut().zip(lengths) {
            found.push(evaluate(&model, &mut trained.store, task, 64, length)?.accuracy);
        }
    }
    Ok(found.iter().map(|found| over_seeds(found)).collect())
}

/// F-5: train at n, test at 2n to 4n.
pub fn extrapolation(context: &Context) -> Result<Finding> {
    let task = Task::Back { symbols: 8, distance: 2 };
    let lengths = [12usize, 16, 24, 36, 48];
    let steps = context.size(160, 600);
    let mut table = Table::new("Accuracy, trained at 12", &["positions", "12", "16", "24", "36", "48"]);
    let mut chart = Chart::new(
        "Lengths beyond training",
        Axis::new("length"),
        Axis::new("accuracy").covering(&[0.0, 1.0]),
    );
    let (mut numbers, mut far) = (vec![], vec![]);
    for encoding in Encoding::ALL {
        let found = at_lengths(context, task, encoding, true, [12, steps], &lengths, 3)?;
        table.row(
            [vec![encoding.name().to_string()], found.iter().map(|e| figure(e.value)).collect()].concat(),
        );
        chart = chart.line(encoding.name(), lengths.iter().zip(&found).map(|(&n, e)| (n as f64, e.value)));
        numbers.push(number(format!("{}: accuracy at 12", encoding.name()), found[0]));
        numbers.push(number(format!("{}: accuracy at 48", encoding.name()), found[4]));
        far.push(format!("{} {}", encoding.name(), figure(found[4].value)));
    }
    Ok(Finding::new(
        Verdict::Measured,
        format!(
            "Trained at 12 and asked at 48 for the token two places before, the encodings get: {}. {}",
            far.join(", "),
            carries(context, 3)
        ),
    )
    .numbers(numbers)
    .table(table)
    .picture(chart)
    .how("Two causal layers of width 32; learned tables have rows for 48 positions, of which training sees 12."))
}

/// F-12: a task on sets and a task of order, each with and without positions.
pub fn order_free(context: &Context) -> Result<Finding> {
    let steps = context.size(250, 600);
    let mut table = Table::new("Accuracy", &["task", "with positions", "without", "chance"]);
    let (mut numbers, mut values) = (vec![], vec![]);
    for (name, task) in
        [("majority", Task::Majority { symbols: 4 }), ("reversal", Task::Reverse { symbols: 8 })]
    {
        let mut own = vec![];
        for encoding in [Encoding::Learned, Encoding::None] {
            let found = at_lengths(context, task, encoding, false, [9, steps], &[9], 3)?[0];
            numbers.push(number(format!("{name}, positions {}: accuracy", encoding.name()), found));
            own.push(found.value);
        }
        table.row([name.to_string(), figure(own[0]), figure(own[1]), figure(task.chance())]);
        values.push(own);
    }
    Ok(Finding::new(
        Verdict::Measured,
        format!(
            "Majority is right {} with positions and {} without; reversal {} with and {} without. {}",
            figure(values[0][0]),
            figure(values[0][1]),
            figure(values[1][0]),
            figure(values[1][1]),
            carries(context, 3)
        ),
    )
    .numbers(numbers)
    .table(table)
    .picture(
        Chart::new("Accuracy by task", Axis::names("task", ["majority", "reversal"]), Axis::new("accuracy").covering(&[0.0, 1.0]))
            .bars("with positions", (0..2).map(|at| (at as f64, values[at][0])))
            .points("without", (0..2).map(|at| (at as f64, values[at][1]))),
    )
    .how("Two layers in both directions, width 32, nine tokens; without positions outputs are the same for the same token (F-2), so that reversal can be right only where the middle token or chance helps."))
}

/// F-13: a place that carries meaning, and a relation that does.
pub fn absolute_or_relative(context: &Context) -> Result<Finding> {
    let steps = context.size(160, 600);
    let tasks = [
        ("the token at place 3", Task::At { symbols: 8, place: 3 }, 12usize),
        ("the token two before, at twice the length", Task::Back { symbols: 8, distance: 2 }, 24),
    ];
    let mut table =
        Table::new("Accuracy", &["positions", "the token at place 3", "the token two before, n = 24"]);
    let mut rows = vec![vec![]; Encoding::ALL.len()];
    let mut numbers = vec![];
    for (name, task, asked) in tasks {
        for (row, encoding) in rows.iter_mut().zip(Encoding::ALL) {
            let found = at_lengths(context, task, encoding, task.causal(), [12, steps], &[asked], 3)?[0];
            numbers.push(number(format!("{name}: {}", encoding.name()), found));
            row.push(found.value);
        }
    }
    for (row, encoding) in rows.iter().zip(Encoding::ALL) {
        table.row([encoding.name().to_string(), figure(row[0]), figure(row[1])]);
    }
    let best = |task: usize, which: &[usize]| which.iter().map(|&at| rows[at][task]).fold(0.0, f64::max);
    Ok(Finding::new(
        Verdict::Measured,
        format!(
            "A fixed place: absolute encodings reach {}, relative ones {}. A fixed distance at twice the length: absolute {}, relative {}. {}",
            figure(best(0, &[0, 1])),
            figure(best(0, &[2, 3, 4])),
            figure(best(1, &[0, 1])),
            figure(best(1, &[2, 3, 4])),
            carries(context, 3)
        ),
    )
    .numbers(numbers)
    .table(table)
    .picture(
        Chart::new("Accuracy by encoding", Axis::names("positions", Encoding::ALL.map(Encoding::name)), Axis::new("accuracy").covering(&[0.0, 1.0]))
            .bars("a fixed place", rows.iter().enumerate().map(|(at, row)| (at as f64, row[0])))
            .points("a fixed distance, twice the length", rows.iter().enumerate().map(|(at, row)| (at as f64, row[1]))),
    )
    .how("Two layers of width 32, trained at 12 tokens. The ends of a sequence tell relative encodings something of places: that is why they are not at chance."))
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
    let (mut in_band, mut losses, mut picture) = (vec![], vec![], vec![]);
    let mut curve = vec![];
    let seeds = seeds(context, 5);
    for &seed in &seeds {
        let cpu = one_cpu()?;
        let mut store = Store::new(seed);
        let mut training =
            Program::new(record_step(&layer, &relative, batch, n, width)?, &[], &mut store, &cpu)?;
        let mut draws = Context { seed, ..*context }.draws("F-10");
        let mut last = vec![];
        let mut x = vec![];
        for at in 0..steps {
            x = draws.normals(batch * n * width).iter().map(|x| *x as f32).collect::<Vec<f32>>();
            training.set_f32("x", &[batch, n, width], &x)?;
            training.set_f32("wanted", &[batch, n, width], &convolved(&x, n, width, taps))?;
            training.set_f32("lr", &[], &[(0.02 * (1.0 - at as f64 / steps as f64)) as f32])?;
            training.set_i32("step", &[], &[at as i32 + 1])?;
            training.run(&mut store)?;
            last.push(training.scalar("loss")? as f64);
        }
        let mut g = Graph::inference();
        record_look(&mut g, &layer, &relative, batch, n, width)?;
        let mut look = Program::new(g, &[], &mut store, &cpu)?;
        look.set_f32("x", &[batch, n, width], &x)?;
        look.run(&mut store)?;
        let weights = look.array("weights")?;
        let mut mean = vec![0.0; n * n];
        for row in weights.data().chunks(n * n) {
            mean.iter_mut().zip(row).for_each(|(sum, w)| *sum += w / batch as f64);
        }
        let band: f64 =
            (0..n * n).filter(|at| (at / n).abs_diff(at % n) <= 1).map(|at| mean[at]).sum::<f64>() / n as f64;
        in_band.push(band);
        losses.push(
            last[last.len() - last.len().div_ceil(10)..].iter().sum::<f64>() / last.len().div_ceil(10) as f64,
        );
        if picture.is_empty() {
            picture = mean;
            curve = crate::experiment::Trained::curve(&last, 50);
        }
    }
    Ok(Finding::new(
        Verdict::Measured,
        format!(
            "A layer with a learned number for each distance, trained on the outputs of ¼ ½ ¼, puts {} of its weight on the band; {} of \
             it would be there by chance. Mean squared error {} (targets have variance 0.38). {}",
            figure(over_seeds(&in_band).value),
            figure((3.0 * n as f64 - 2.0) / (n * n) as f64),
            figure(over_seeds(&losses).value),
            carries(context, seeds.len())
        ),
    )
    .number(number("weight on distances −1, 0, 1", over_seeds(&in_band)))
    .number(number("mean squared error at the end", over_seeds(&losses)))
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
