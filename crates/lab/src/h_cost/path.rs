//! How far apart two positions are for a gradient: attention against recurrence, before training and in
//! copying.

use crate::experiment::{Task, carries, each_setting, less, mean, number};
use crate::picture::{Axis, Chart, figure};
use crate::recurrent::Recurrent;
use crate::{Context, Finding, Table};
use regard::Result;
use regard::layers::{
    AttentionConfig, AttentionLayer, Context as Surroundings, EmbeddingConfig, EmbeddingLayer, KeySource,
    LinearConfig, LinearLayer, Parameters,
};
use regard::ops::{AdamW, AttentionMask, CrossEntropyOptions, IGNORE_INDEX};
use regard::prelude::*;

/// Attention or recurrence over embedded tokens, with a head: what H4 trains.
enum Mixer {
    Attention(Box<AttentionLayer>),
    Recurrent(Recurrent),
}

struct Reader {
    mixer: Mixer,
    embedding: EmbeddingLayer,
    place: EmbeddingLayer,
    head: LinearLayer,
    width: usize,
}

impl Reader {
    fn new(attention: bool, symbols: usize, length: usize, width: usize) -> regard_graph::Result<Reader> {
        let std = 1.0 / (width as f32).sqrt();
        let p = &mut Parameters::new();
        let mixer = p.under("mixer", |p| -> regard_graph::Result<Mixer> {
            Ok(match attention {
                true => Mixer::Attention(Box::new(AttentionLayer::new(
                    AttentionConfig { std, ..AttentionConfig::new(width, 2)? },
                    p,
                )?)),
                false => Mixer::Recurrent(Recurrent::new(width, p)?),
            })
        })?;
        let embedding = p.under("tokens", |p| {
            EmbeddingLayer::new(EmbeddingConfig { tokens: symbols, width, std: 1.0 }, p)
        })?;
        let place = p.under("places", |p| {
            EmbeddingLayer::new(EmbeddingConfig { tokens: length, width, std: 1.0 }, p)
        })?;
        let head = p.under("head", |p| {
            LinearLayer::new(LinearConfig { inputs: width, outputs: symbols, bias: true, std }, p)
        })?;
        Ok(Reader { mixer, embedding, place, head, width })
    }

    fn embed(&self, g: &mut Graph, ids: Var) -> regard_graph::Result<Var> {
        let x = self.embedding.forward(g, ids)?;
        let table = self.place.weight(g)?;
        g.add_position(x, table, None)
    }

    fn scores(&self, g: &mut Graph, x: Var) -> regard_graph::Result<Var> {
        let y = match &self.mixer {
            Mixer::Attention(layer) => {
                let mask = AttentionMask { causal: true, ..Default::default() };
                layer.forward(g, x, KeySource::Own, &Surroundings { mask, ..Default::default() })?
            }
            Mixer::Recurrent(layer) => layer.forward(g, x)?,
        };
        self.head.forward(g, y)
    }
}

const KINDS: [(&str, bool); 2] = [("attention", true), ("recurrent", false)];

/// H4: gradients against distance, and copying against distance.
pub fn path_length(context: &Context) -> Result<Finding> {
    let (width, length, symbols) = (32usize, 48usize, 8usize);
    let gradients = each_setting(context, &KINDS, |&(_, attention), seed| {
        let reader = Reader::new(attention, symbols, length, width)?;
        let mut store = Store::new(seed);
        let mut program =
            Program::new(record_gradient(&reader, length)?, &[], &mut store, &context.engine()?)?;
        let draws = &mut Context { seed, ..*context }.draws("H4");
        let numbers: Vec<f32> = draws.normals(length * width).iter().map(|x| *x as f32).collect();
        program.set_f32("x", &[1, length, width], &numbers)?;
        program.run(&mut store)?;
        let norm = |row: &[f32]| row.iter().map(|x| f64::from(x * x)).sum::<f64>().sqrt();
        Ok(program.f32("gradient")?.chunks(width).rev().map(norm).collect::<Vec<f64>>())
    })?;
    let mut chart = Chart::new(
        "Gradient of the last score with respect to an input",
        Axis::new("distance"),
        Axis::log("norm"),
    );
    // What is left of a gradient after 40 places, in powers of ten: ratios multiply, so they are compared in
    // logarithms.
    let left = |kind: usize| -> Vec<f64> {
        gradients[kind].iter().map(|norms| (norms[40] / norms[1]).log10()).collect()
    };
    for (kind, (name, _)) in KINDS.iter().enumerate() {
        let means =
            (0..length).map(|at| mean(&gradients[kind].iter().map(|norms| norms[at]).collect::<Vec<_>>()));
        chart = chart.line(*name, means.enumerate().map(|(at, norm)| (at as f64, norm)));
    }
    let distances: &[usize] = &[2, 12, 6, 24][..context.size(2, 4)];
    let settings: Vec<(bool, usize)> =
        distances.iter().flat_map(|&distance| KINDS.map(|(_, attention)| (attention, distance))).collect();
    let copied = each_setting(context, &settings, |&(attention, distance), seed| {
        copy(context, attention, distance, symbols, width, seed)
    })?;
    let mut finding = Finding::measured(format!(
        "Before training, the gradient at a distance of 40 lies {} powers of ten from that at 1 through attention, {} through an Elman layer; \
         copying over a distance is in the table. {}",
        figure(mean(&left(0))),
        figure(mean(&left(1))),
        carries(context)
    ))
    .seeds(gradients[0].len())
    .number(number("attention: powers of ten left of a gradient after 40 places", &left(0)))
    .number(number("recurrent: powers of ten left of a gradient after 40 places", &left(1)))
    .number(less("powers of ten left of a gradient after 40 places, attention less recurrent", &left(0), &left(1)));
    let mut table =
        Table::new("Accuracy of copying from a distance", &["distance", "attention", "recurrent"]);
    let mut lines = [vec![], vec![]];
    for (own, distance) in copied.chunks(2).zip(distances) {
        for (at, (name, _)) in KINDS.iter().enumerate() {
            finding = finding.number(number(format!("{name}: accuracy at distance {distance}"), &own[at]));
            lines[at].push((*distance as f64, mean(&own[at])));
        }
        finding = finding.number(less(
            format!("accuracy at distance {distance}, attention less recurrent"),
            &own[0],
            &own[1],
        ));
        table.row([distance.to_string(), figure(mean(&own[0])), figure(mean(&own[1]))]);
    }
    let mut copies = Chart::new(
        "Copying from a distance",
        Axis::new("distance"),
        Axis::new("accuracy").covering(&[0.0, 1.0]),
    );
    for ((name, _), mut line) in KINDS.into_iter().zip(lines) {
        line.sort_by(|a, b| a.0.total_cmp(&b.0));
        copies = copies.line(name, line);
    }
    Ok(finding
        .table(table)
        .picture(chart)
        .picture(copies)
        .how("One causal attention layer against one Elman layer of width 32, both with learned places, the same head; gradients by the gradient reader; copying trained with AdamW; differences seed by seed."))
}

/// The gradient of Σ(last scores)² with respect to the inputs, as a program.
fn record_gradient(reader: &Reader, length: usize) -> Result<Graph> {
    let mut g = Graph::new();
    let x = g.input_with_gradient("x", [1, length, reader.width])?;
    let scores = reader.scores(&mut g, x)?;
    let last = g.slice_last(scores, 1, 1)?;
    let squares = g.square(last)?;
    let sum = g.sum_all(squares)?;
    let gradient = g.gradient(sum, &[x])?[0];
    g.output("gradient", gradient)?;
    Ok(g)
}

/// The accuracy of saying what stood so far back, on the last batches of training.
fn copy(
    context: &Context,
    attention: bool,
    distance: usize,
    symbols: usize,
    width: usize,
    seed: u64,
) -> Result<f64> {
    let (batch, length, steps) = (16usize, distance + 4, context.size(150, 800));
    let task = Task::Back { symbols, distance };
    let reader = Reader::new(attention, symbols, length, width)?;
    let mut g = Graph::new();
    let ids = g.input("ids", DType::I32, [batch, length])?;
    let targets = g.input("targets", DType::I32, [batch, length])?;
    let (lr, step) = (g.input("lr", DType::F32, shape![])?, g.input("step", DType::I32, shape![])?);
    let x = reader.embed(&mut g, ids)?;
    let scores = reader.scores(&mut g, x)?;
    let losses = g.cross_entropy(scores, targets, CrossEntropyOptions::default())?;
    let sum = g.sum_all(losses)?;
    let loss = g.scale(sum, 1.0 / (batch * 4) as f32)?;
    let chosen = g.argmax(scores, 2)?;
    g.output("chosen", chosen)?;
    let parameters = g.parameters();
    let gradients = g.gradient(loss, &parameters)?;
    let (_, factor) = g.clip_norm(&gradients, 1.0)?;
    let pairs: Vec<(Var, Var)> = parameters.into_iter().zip(gradients).collect();
    g.adamw_step(&pairs, &AdamW { weight_decay: 0.0, ..Default::default() }, lr, step, Some(factor))?;
    let mut store = Store::new(seed);
    let mut program = Program::new(g, &[], &mut store, &context.engine()?)?;
    let mut draws = Context { seed, ..*context }.draws("H4.copy");
    let (mut right, mut asked) = (0, 0);
    for at in 0..steps {
        let own = task.batch(&mut draws, batch, length);
        program.set_i32("ids", &[batch, length], &own.ids)?;
        program.set_i32("targets", &[batch, length], &own.targets)?;
        program.set_f32("lr", &[], &[(1e-2 * (1.0 - at as f64 / steps as f64)) as f32])?;
        program.set_i32("step", &[], &[at as i32 + 1])?;
        program.run(&mut store)?;
        if at + 10 >= steps {
            let chosen = program.i32("chosen")?;
            let pairs = || own.targets.iter().zip(&chosen).filter(|(target, _)| **target != IGNORE_INDEX);
            asked += pairs().count();
            right += pairs().filter(|(target, chosen)| target == chosen).count();
        }
    }
    Ok(right as f64 / asked.max(1) as f64)
}
