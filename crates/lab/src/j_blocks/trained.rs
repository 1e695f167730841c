//! Blocks in training: what the non-linearity is for, hidden width, vectors in context, and recurrence beside
//! attention.

use crate::compute::{dot, length};
use crate::experiment::{
    INDUCTION, INDUCTION_LENGTH, Inductive, Middle, Model, Norming, Task, Tiny, Trained, Training, carries,
    each_seed, each_setting, evaluate, induction, less, mean, number, share, train,
};
use crate::picture::{Axis, Chart, figure};
use crate::{Context, Finding, Table};
use regard::Result;
use regard::layers::{
    FeedForward, FeedForwardConfig, FeedForwardKind, LinearConfig, LinearLayer, Parameters,
};
use regard::ops::AdamW;
use regard::prelude::*;

/// J4: the feed-forward part as it is, linear, and left out.
pub fn needs_curves(context: &Context) -> Result<Finding> {
    const SYMBOLS: usize = 32;
    let task = Task::TableOfTwo { symbols: SYMBOLS };
    let kinds = [
        ("ReLU", Middle::Curved(FeedForwardKind::Relu)),
        ("linear", Middle::Linear),
        ("left out", Middle::None),
    ];
    let steps = context.size(300, 1500);
    // No norms: they are non-linear themselves.
    let model = |middle: Middle| {
        Model::new(Tiny { middle, norming: Norming::None, causal: true, most: 8, ..Tiny::new(SYMBOLS, 24) })
    };
    let found = each_setting(context, &kinds, |&(_, middle), seed| {
        let model = model(middle)?;
        let training = Training { seed, steps, batch: 32, length: 8, rate: 4e-3, watch: &[] };
        let mut trained = train(context, &model, task, &training)?;
        let score = evaluate(context, &model, &mut trained.store, task, 128, 8)?;
        Ok((score.accuracy, score.loss, Trained::curve(&trained.losses, 40)))
    })?;
    let accuracy = |kind: usize| found[kind].iter().map(|run| run.0).collect::<Vec<f64>>();
    let mut table = Table::new(
        "A random table of two tokens of 32",
        &["feed-forward part", "parameters", "accuracy", "loss"],
    );
    let mut chart = Chart::new("Loss", Axis::new("step"), Axis::new("loss").covering(&[0.0]));
    let mut finding = Finding::measured(format!(
        "What a random table says to two tokens of 32: {} right with ReLU, {} with a linear part, {} with none; {} by chance. Attention is \
         linear in its values only: its weights are not, and that is what the other two live on. {}",
        figure(mean(&accuracy(0))),
        figure(mean(&accuracy(1))),
        figure(mean(&accuracy(2))),
        figure(task.chance()),
        carries(context)
    ))
    .seeds(found[0].len());
    for (kind, (name, middle)) in kinds.iter().enumerate() {
        let loss: Vec<f64> = found[kind].iter().map(|run| run.1).collect();
        chart = chart.line(*name, found[kind][0].2.clone());
        table.row([
            name.to_string(),
            model(*middle)?.parameters().count().to_string(),
            figure(mean(&accuracy(kind))),
            figure(mean(&loss)),
        ]);
        finding = finding.number(share(format!("{name}: accuracy"), &accuracy(kind), 128));
    }
    Ok(finding
        .number(less("accuracy with ReLU less with a linear part", &accuracy(0), &accuracy(1)))
        .number(less("accuracy with ReLU less with none", &accuracy(0), &accuracy(2)))
        .table(table)
        .picture(chart)
        .how("One causal layer of width 24 without norms; the head is linear. The answer to two neighbours stands in a fixed random table of 1024 entries: no sum of something about each of them gives it. Differences seed by seed."))
}

/// J13: fit error against hidden width.
pub fn hidden_width(context: &Context) -> Result<Finding> {
    let widths: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
    let settings: Vec<(usize, bool)> =
        widths.iter().flat_map(|&hidden| [true, false].map(|curved| (hidden, curved))).collect();
    let errors =
        each_setting(context, &settings, |&(hidden, curved), seed| fit(context, hidden, curved, seed))?;
    let of = |hidden: usize, curved: bool| {
        settings.iter().position(|own| *own == (hidden, curved)).map_or(&[][..], |at| &errors[at])
    };
    let mut table =
        Table::new("Mean squared error (the target has variance 0.5)", &["hidden width", "ReLU", "linear"]);
    let mut lines = [vec![], vec![]];
    let mut finding = Finding::measured(format!(
        "The error of fitting sin 3x falls from {} with one hidden unit to {} with 64; without the non-linearity 64 units leave {}. {}",
        figure(mean(of(1, true))),
        figure(mean(of(64, true))),
        figure(mean(of(64, false))),
        carries(context)
    ))
    .seeds(errors[0].len());
    for hidden in widths {
        let own = [true, false].map(|curved| mean(of(hidden, curved)));
        table.row([hidden.to_string(), figure(own[0]), figure(own[1])]);
        lines.iter_mut().zip(own).for_each(|(line, error)| line.push((hidden as f64, error)));
    }
    for hidden in [1, 8, 64] {
        for (name, curved) in [("ReLU", true), ("linear", false)] {
            finding =
                finding.number(number(format!("{hidden} hidden units, {name}: error"), of(hidden, curved)));
        }
    }
    let [curved, straight] = lines;
    Ok(finding
        .number(less("error with 8 hidden units less with one", of(8, true), of(1, true)))
        .number(less("error with 64 hidden units less with 8", of(64, true), of(8, true)))
        .number(less("64 units: error with ReLU less without", of(64, true), of(64, false)))
        .table(table)
        .picture(
            Chart::new("Error of the fit", Axis::log("hidden width"), Axis::log("mean squared error"))
                .line("ReLU", curved)
                .line("linear", straight),
        )
        .how("A feed-forward part from (x, 1) to one number, trained on sin 3x for x between −2 and 2, the same at every position; AdamW; differences seed by seed."))
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
    let mut program = Program::new(g, &[], &mut store, &context.engine()?)?;
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
    let places = ["embedding", "stream.0", "stream.1"];
    let cosines = each_seed(context, |seed| {
        let Inductive { model, learned: mut store, .. } = induction(context, seed)?;
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
        let mut program = Program::new(g, &places, &mut store, &context.engine()?)?;
        program.set_i32("ids", &[128, n], &[a.ids, b.ids].concat())?;
        program.run(&mut store)?;
        let width = model.config().width;
        let of = |place: &&str| -> Result<f64> {
            let found = program.array(place)?;
            let last = |row: usize| &found.data()[(row * n + n - 1) * width..(row * n + n) * width];
            let pairs = (0..64).map(|row| (last(row), last(row + 64)));
            Ok(pairs.map(|(x, y)| dot(x, y) / (length(x) * length(y))).sum::<f64>() / 64.0)
        };
        places.iter().map(of).collect::<Result<Vec<f64>>>()
    })?;
    let of = |place: usize| cosines.iter().map(|run| run[place]).collect::<Vec<f64>>();
    let means = [0, 1, 2].map(|place| mean(&of(place)));
    let mut finding = Finding::measured(format!(
        "The same token at the same place in two contexts: cosine {} of the embeddings, {} after one block, {} after two. {}",
        figure(means[0]),
        figure(means[1]),
        figure(means[2]),
        carries(context)
    ))
    .seeds(cosines.len());
    for (place, name) in ["embedding", "after block 1", "after block 2"].iter().enumerate() {
        finding = finding.number(number(format!("{name}: cosine of two contexts"), &of(place)));
    }
    Ok(finding
        .picture(
            Chart::new(
                "Cosine of one token’s vectors in two contexts",
                Axis::names("", ["embedding", "block 1", "block 2"]),
                Axis::new("cosine").covering(&[0.0, 1.0]),
            )
            .line("", means.iter().enumerate().map(|(at, x)| (at as f64, *x))),
        )
        .how("The model of E-7 on 64 pairs of sequences that share their last token; taps on the stream."))
}
