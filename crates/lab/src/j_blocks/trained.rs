//! Blocks in training: what the non-linearity is for, hidden width, vectors in context, and recurrence beside
//! attention.

use crate::compute::{dot, length};
use crate::experiment::{
    INDUCTION, INDUCTION_LENGTH, Middle, Model, Norming, Task, Tiny, Trained, Training, carries, evaluate,
    induction, number, one_cpu, over_seeds, seeds, train,
};
use crate::picture::{Axis, Chart, figure};
use crate::{Context, Finding, Table, Verdict};
use regard::Result;
use regard::layers::{
    FeedForward, FeedForwardConfig, FeedForwardKind, LinearConfig, LinearLayer, Parameters,
};
use regard::ops::AdamW;
use regard::prelude::*;

/// J4: the feed-forward part as it is, linear, and left out.
pub fn needs_curves(context: &Context) -> Result<Finding> {
    let task = Task::SumOfTwo { symbols: 7 };
    let seeds = seeds(context, 4);
    let kinds = [
        ("ReLU", Middle::Curved(FeedForwardKind::Relu)),
        ("linear", Middle::Linear),
        ("left out", Middle::None),
    ];
    let mut table = Table::new(
        "The sum of two tokens modulo 7",
        &["feed-forward part", "parameters", "accuracy", "loss"],
    );
    let mut chart = Chart::new("Loss", Axis::new("step"), Axis::new("loss").covering(&[0.0]));
    let (mut numbers, mut accuracies) = (vec![], vec![]);
    for (name, middle) in kinds {
        // No norms: they are non-linear themselves.
        let model =
            Model::new(Tiny { middle, norming: Norming::None, causal: true, most: 8, ..Tiny::new(7, 32) })?;
        let (mut accuracy, mut loss) = (vec![], vec![]);
        for &seed in &seeds {
            let training = Training {
                seed,
                steps: context.size(300, 1200),
                batch: 16,
                length: 8,
                rate: 4e-3,
                watch: &[],
            };
            let mut trained = train(&model, task, &training)?;
            let score = evaluate(&model, &mut trained.store, task, 128, 8)?;
            accuracy.push(score.accuracy);
            loss.push(score.loss);
            if seed == seeds[0] {
                chart = chart.line(name, Trained::curve(&trained.losses, 40));
            }
        }
        let (a, l) = (over_seeds(&accuracy), over_seeds(&loss));
        table.row([
            name.to_string(),
            model.parameters().count().to_string(),
            figure(a.value),
            figure(l.value),
        ]);
        numbers.push(number(format!("{name}: accuracy"), a));
        accuracies.push(a.value);
    }
    Ok(Finding::new(
        Verdict::Measured,
        format!(
            "Sums modulo 7 of two tokens: {} right with ReLU, {} with a linear part, {} with none; {} by chance. Attention is linear in its \
             values only: its weights are not, and that is what the other two live on. {}",
            figure(accuracies[0]),
            figure(accuracies[1]),
            figure(accuracies[2]),
            figure(task.chance()),
            carries(context, seeds.len())
        ),
    )
    .numbers(numbers)
    .table(table)
    .picture(chart)
    .how("One causal layer of width 32 without norms; the head is linear."))
}

/// J13: fit error against hidden width.
pub fn hidden_width(context: &Context) -> Result<Finding> {
    let widths: &[usize] = &[1, 2, 4, 8, 16, 32, 64];
    let seeds = seeds(context, 4);
    let mut table =
        Table::new("Mean squared error (the target has variance 0.5)", &["hidden width", "ReLU", "linear"]);
    let mut lines = [vec![], vec![]];
    let mut numbers = vec![];
    for &hidden in widths {
        let mut cells = vec![hidden.to_string()];
        for (line, curved) in lines.iter_mut().zip([true, false]) {
            let own =
                seeds.iter().map(|&seed| fit(context, hidden, curved, seed)).collect::<Result<Vec<f64>>>()?;
            let found = over_seeds(&own);
            cells.push(figure(found.value));
            line.push((hidden as f64, found.value));
            if [1, 8, 64].contains(&hidden) {
                numbers.push(number(
                    format!("{hidden} hidden units, {}: error", if curved { "ReLU" } else { "linear" }),
                    found,
                ));
            }
        }
        table.row(cells);
    }
    let [curved, straight] = lines;
    let (few, many, line) = (curved[0].1, curved[widths.len() - 1].1, straight[widths.len() - 1].1);
    Ok(Finding::new(
        Verdict::Measured,
        format!(
            "The error of fitting sin 3x falls from {} with one hidden unit to {} with 64; without the non-linearity 64 units leave {}. {}",
            figure(few),
            figure(many),
            figure(line),
            carries(context, seeds.len())
        ),
    )
    .numbers(numbers)
    .table(table)
    .picture(
        Chart::new("Error of the fit", Axis::log("hidden width"), Axis::log("mean squared error"))
            .line("ReLU", curved)
            .line("linear", straight),
    )
    .how("A feed-forward part from (x, 1) to one number, trained on sin 3x for x between −2 and 2, the same at every position; AdamW."))
}

/// The error of a feed-forward part of this hidden width on sin 3x.
fn fit(context: &Context, hidden: usize, curved: bool, seed: u64) -> Result<f64> {
    let (points, steps) = (64usize, context.size(300, 3000));
    let mut p = Parameters::new();
    let config = FeedForwardConfig {
        width: 2,
        hidden,
        kind: FeedForwardKind::Relu,
        bias: true,
        dropout: 0.0,
        std: 1.0,
    };
    let linear = |inputs, outputs| LinearConfig { inputs, outputs, bias: true, std: 1.0 };
    let part = p.under("curved", |p| FeedForward::new(config, p))?;
    let (up, down) = (
        p.under("up", |p| LinearLayer::new(linear(2, hidden), p))?,
        p.under("down", |p| LinearLayer::new(linear(hidden, 2), p))?,
    );
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [1, points, 2])?;
    let wanted = g.input("wanted", DType::F32, [1, points, 1])?;
    let (lr, step) = (g.input("lr", DType::F32, shape![])?, g.input("step", DType::I32, shape![])?);
    let y = match curved {
        true => part.forward(&mut g, x)?,
        false => {
            let y = up.forward(&mut g, x)?;
            down.forward(&mut g, y)?
        }
    };
    let y = g.slice(y, 2, 0, 1)?;
    let off = g.sub(y, wanted)?;
    let squares = g.square(off)?;
    let loss = g.mean_all(squares)?;
    g.output("loss", loss)?;
    let all = g.parameters();
    let gradients = g.gradient(loss, &all)?;
    let pairs: Vec<(Var, Var)> = all.into_iter().zip(gradients).collect();
    g.adamw_step(&pairs, &AdamW { weight_decay: 0.0, ..Default::default() }, lr, step, None)?;
    let mut store = Store::new(seed);
    let mut program = Program::new(g, &[], &mut store, &one_cpu()?)?;
    let places: Vec<f32> = (0..points).map(|i| -2.0 + 4.0 * i as f32 / (points - 1) as f32).collect();
    program.set_f32("x", &[1, points, 2], &places.iter().flat_map(|x| [*x, 1.0]).collect::<Vec<f32>>())?;
    program.set_f32(
        "wanted",
        &[1, points, 1],
        &places.iter().map(|x| (3.0 * x).sin()).collect::<Vec<f32>>(),
    )?;
    for at in 0..steps {
        program.set_f32("lr", &[], &[(0.02 * (1.0 - at as f64 / steps as f64)) as f32])?;
        program.set_i32("step", &[], &[at as i32 + 1])?;
        program.run(&mut store)?;
    }
    Ok(f64::from(program.scalar("loss")?))
}

/// J10: one token in two contexts, layer by layer.
pub fn in_context(context: &Context) -> Result<Finding> {
    let seeds = seeds(context, 4);
    let places = ["embedding", "stream.0", "stream.1"];
    let mut cosines = vec![vec![]; places.len()];
    for &seed in &seeds {
        let (model, mut trained) = induction(context, seed)?;
        let n = INDUCTION_LENGTH;
        // Pairs of sequences that differ everywhere but at the last place.
        let mut draws = Context { seed: seed + 1, ..*context }.draws("J10");
        let (a, mut b) = (INDUCTION.batch(&mut draws, 64, n), INDUCTION.batch(&mut draws, 64, n));
        for row in 0..64 {
            b.ids[row * n + n - 1] = a.ids[row * n + n - 1];
        }
        let mut g = Graph::inference();
        let ids = g.input("ids", DType::I32, [128, n])?;
        let logits = model.logits(&mut g, ids)?;
        g.output("logits", logits)?;
        let mut program = Program::new(g, &places, &mut trained.store, &one_cpu()?)?;
        program.set_i32("ids", &[128, n], &[a.ids, b.ids].concat())?;
        program.run(&mut trained.store)?;
        for (cosines, place) in cosines.iter_mut().zip(places) {
            let found = program.array(place)?;
            let width = model.config().width;
            let last = |row: usize| &found.data()[(row * n + n - 1) * width..(row * n + n) * width];
            let own = (0..64).map(|row| {
                let (x, y) = (last(row), last(row + 64));
                dot(x, y) / (length(x) * length(y))
            });
            cosines.push(own.sum::<f64>() / 64.0);
        }
    }
    let found: Vec<_> = cosines.iter().map(|cosines| over_seeds(cosines)).collect();
    let mut finding = Finding::new(
        Verdict::Measured,
        format!(
            "The same token at the same place in two contexts: cosine {} of the embeddings, {} after one block, {} after two. {}",
            figure(found[0].value),
            figure(found[1].value),
            figure(found[2].value),
            carries(context, seeds.len())
        ),
    );
    for (name, found) in ["embedding", "after block 1", "after block 2"].iter().zip(&found) {
        finding = finding.number(number(format!("{name}: cosine of two contexts"), *found));
    }
    Ok(finding
        .picture(
            Chart::new(
                "Cosine of one token’s vectors in two contexts",
                Axis::names("", ["embedding", "block 1", "block 2"]),
                Axis::new("cosine").covering(&[0.0, 1.0]),
            )
            .line("", found.iter().enumerate().map(|(at, e)| (at as f64, e.value))),
        )
        .how("The model of E-7 on 64 pairs of sequences that share their last token; taps on the stream."))
}
