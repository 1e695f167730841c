//! What attention costs, line by line, where its parts cross, and against recurrence: the cost reader against
//! closed forms, and times on this machine beside them.

use crate::experiment::one_cpu;
use crate::picture::{Axis, Chart, figure};
use crate::recurrent::Recurrent;
use crate::{Context, Finding, Number, Table, Verdict};
use regard::layers::{
    AttentionConfig, AttentionLayer, Context as Surroundings, FeedForward, FeedForwardConfig,
    FeedForwardKind, KeySource, KeySourceConfig, Parameters,
};
use regard::ops::AttentionOp;
use regard::prelude::*;
use regard::{Result, cost};
use regard_graph::{Integers, Sizes};
use std::time::Instant;

/// A graph of one attention layer over n_t queries and n_s keys.
fn layer(d: usize, heads: usize, queries: usize, keys: usize) -> Result<Graph> {
    let config = AttentionConfig { source: KeySourceConfig::Memory(d), ..AttentionConfig::new(d, heads)? };
    let layer = AttentionLayer::new(config, &mut Parameters::new())?;
    let mut g = Graph::inference();
    let x = g.input("x", DType::F32, [1, queries, d])?;
    let memory = g.input("memory", DType::F32, [1, keys, d])?;
    let y = layer.forward(&mut g, x, KeySource::Memory(memory), &Surroundings::default())?;
    g.output("y", y)?;
    Ok(g)
}

pub(super) fn costs(g: &Graph) -> Result<cost::Costs> {
    Ok(cost::cost(g, &Sizes::none(), &Integers::none(), None)?)
}

/// The least time of some runs, in seconds, and the nanoseconds of each node in the fastest.
pub(super) fn timed(g: Graph, runs: usize) -> Result<(f64, Vec<(usize, u64)>)> {
    let mut store = Store::new(0);
    let names: Vec<(String, Vec<usize>)> =
        g.inputs().map(|(name, var)| (name.to_string(), g.shape(var).bound().to_vec())).collect();
    let mut program = Program::new(g, &[], &mut store, &one_cpu()?)?;
    for (name, dims) in names {
        let count: usize = dims.iter().product();
        let numbers: Vec<f32> = (0..count).map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0).collect();
        program.set_f32(&name, &dims, &numbers)?;
    }
    program.run(&mut store)?;
    let (mut best, mut nodes) = (f64::INFINITY, vec![]);
    for _ in 0..runs {
        program.measure();
        let begun = Instant::now();
        program.run(&mut store)?;
        let took = begun.elapsed().as_secs_f64();
        if took < best {
            best = took;
            nodes = program.spent().collect();
        }
    }
    Ok((best, nodes))
}

/// H1: multiply-adds of every line, and times as a sum of the three terms.
pub fn line_by_line(context: &Context) -> Result<Finding> {
    let (d, heads, n_t, n_s) = (48usize, 4usize, 40usize, 56usize);
    let found = costs(&layer(d, heads, n_t, n_s)?)?;
    let of = |part: &str| {
        found.rows.iter().filter(|row| row.name.contains(part)).map(|row| row.cost.macs).sum::<u64>()
    };
    let linear: Vec<u64> =
        found.rows.iter().filter(|row| row.op == "linear").map(|row| row.cost.macs).collect();
    let attention = of("attention");
    let lines = [
        ("query projection", linear[0], n_t * d * d, "n_t·d²"),
        ("key projection", linear[1], n_s * d * d, "n_s·d²"),
        ("value projection", linear[2], n_s * d * d, "n_s·d²"),
        ("scores and weighted sum", attention, 2 * n_t * n_s * d, "2·n_t·n_s·d"),
        ("output projection", linear[3], n_t * d * d, "n_t·d²"),
        ("splitting and joining heads", found.total().macs - linear.iter().sum::<u64>() - attention, 0, "0"),
    ];
    let mut table = Table::new("d = 48, h = 4, n_t = 40, n_s = 56", &["line", "formula", "multiply-adds"]);
    let mut finding = Finding::new(
        Verdict::Holds,
        "Every line has exactly the multiply-adds of its closed form, 2n_t·d² + 2n_s·d² + 2n_t·n_s·d in all. How far times on this machine \
         are a sum of the three terms is in the numbers.",
    );
    for (line, macs, wanted, formula) in lines {
        table.row([line.to_string(), formula.to_string(), macs.to_string()]);
        finding = finding.number(Number::count(format!("{line}: {formula}"), macs as usize, wanted));
    }
    // Times against n_t·d² + n_s·d² (projections) and n_t·n_s·d (attention), least squares with no constant.
    let mut rows = Vec::new();
    for &d in &[32usize, 64, 128] {
        for &n_t in &[32usize, 128, 384] {
            for &n_s in &[32usize, 128, 384] {
                let (seconds, _) = timed(layer(d, 4, n_t, n_s)?, context.size(3, 12))?;
                rows.push(([(n_t * d * d) as f64, (n_s * d * d) as f64, (n_t * n_s * d) as f64], seconds));
            }
        }
    }
    let weights = least_squares(&rows);
    let fitted = |x: &[f64; 3]| x.iter().zip(&weights).map(|(x, w)| x * w).sum::<f64>();
    let mean = rows.iter().map(|(_, y)| y).sum::<f64>() / rows.len() as f64;
    let residual: f64 = rows.iter().map(|(x, y)| (y - fitted(x)).powi(2)).sum();
    let total: f64 = rows.iter().map(|(_, y)| (y - mean).powi(2)).sum();
    Ok(finding
        .number(Number::shown("share of the variance of measured times that the three terms explain", 1.0 - residual / total))
        .number(Number::shown("picoseconds for each n_t·d²", weights[0] * 1e12))
        .number(Number::shown("picoseconds for each n_s·d²", weights[1] * 1e12))
        .number(Number::shown("picoseconds for each n_t·n_s·d", weights[2] * 1e12))
        .table(table)
        .picture(
            Chart::new("Measured times against the fit", Axis::log("fitted, µs"), Axis::log("measured, µs"))
                .points("one layer", rows.iter().map(|(x, y)| (fitted(x).max(1e-9) * 1e6, y * 1e6)))
                .dashed("equal", [(1.0, 1.0), (1e4, 1e4)]),
        )
        .how("The cost reader on the layer’s graph; times are the least of a few runs on one thread, d in {32, 64, 128}, n_t and n_s in {32, 128, 384}. The line numbers of the note’s listing are off by some (E27)."))
}

/// Weights of three terms that fit best; relative errors count, so that short runs are not drowned by long
/// ones.
fn least_squares(rows: &[([f64; 3], f64)]) -> [f64; 3] {
    let (mut a, mut b) = ([[0.0; 3]; 3], [0.0; 3]);
    for (x, y) in rows {
        for i in 0..3 {
            for j in 0..3 {
                a[i][j] += x[i] * x[j] / (y * y);
            }
            b[i] += x[i] / y;
        }
    }
    for pivot in 0..3 {
        for row in 0..3 {
            if row != pivot {
                let factor = a[row][pivot] / a[pivot][pivot];
                let own = a[pivot];
                a[row].iter_mut().zip(own).for_each(|(x, own)| *x -= factor * own);
                b[row] -= factor * b[pivot];
            }
        }
    }
    [0, 1, 2].map(|i| b[i] / a[i][i])
}

/// A graph of self-attention, with a feed-forward part behind it or not.
fn block(d: usize, n: usize, feed_forward: bool) -> Result<Graph> {
    let mut parameters = Parameters::new();
    let attention = parameters.under("attention", |p| AttentionLayer::new(AttentionConfig::new(d, 4)?, p))?;
    let mut g = Graph::inference();
    let x = g.input("x", DType::F32, [1, n, d])?;
    let mut y = attention.forward(&mut g, x, KeySource::Own, &Surroundings::default())?;
    if feed_forward {
        let config = FeedForwardConfig {
            width: d,
            hidden: 4 * d,
            kind: FeedForwardKind::Relu,
            bias: true,
            dropout: 0.0,
            std: 0.02,
        };
        let part = parameters.under("feed_forward", |p| FeedForward::new(config, p))?;
        y = part.forward(&mut g, y)?;
    }
    g.output("y", y)?;
    Ok(g)
}

/// Multiply-adds of (products with weights, attention).
fn two_parts(g: &Graph) -> Result<[u64; 2]> {
    let found = costs(g)?;
    let of = |attention: bool| {
        found.rows.iter().filter(|row| (row.op == "attention") == attention).map(|row| row.cost.macs).sum()
    };
    Ok([of(false), of(true)])
}

/// H2: predicted and measured crossovers.
pub fn crossover(context: &Context) -> Result<Finding> {
    let mut finding = Finding::new(
        Verdict::Conditional,
        "Multiply-adds of projections and of scores with weighted sums are equal at n = 2d, with a feed-forward part of 4d at n = \
         6d. Times cross elsewhere, because a product with weights runs at another speed than attention.",
    );
    for d in [32usize, 64, 128] {
        for (name, with, times) in [("attention alone", false, 2), ("with the feed-forward part", true, 6)] {
            let [weights, scores] = two_parts(&block(d, times * d, with)?)?;
            finding = finding.number(
                Number::equal(
                    format!("d = {d}, {name}: work of scores over work of weights at n = {times}d"),
                    scores as f64 / weights as f64,
                    1.0,
                    0.0,
                )
                .erratum("E28"),
            );
        }
    }
    let ratio = |d: usize, n: usize| -> Result<f64> {
        let [weights, scores] = two_parts(&block(d, n, false)?)?;
        Ok(scores as f64 / weights as f64)
    };
    let over =
        |times: usize| [32, 64, 128].iter().map(|&d| ratio(d, times * d)).collect::<Result<Vec<f64>>>();
    finding = finding
        .number(Number::shown("n = 96, d = 32: work of scores over work of weights", ratio(32, 96)?))
        .number(Number::shown(
            "n = d: work of scores over work of weights, largest over d",
            over(1)?.into_iter().fold(0.0, f64::max),
        ))
        .number(Number::shown(
            "n = 4d: work of scores over work of weights, smallest over d",
            over(4)?.into_iter().fold(f64::INFINITY, f64::min),
        ));
    let d = 64;
    let mut table = Table::new(
        "Measured, d = 64, one thread",
        &["n", "products with weights, µs", "attention, µs", "with the feed-forward part, µs"],
    );
    let (mut weights, mut scores, mut more) = (vec![], vec![], vec![]);
    for n in [32usize, 64, 96, 128, 192, 256, 384, 512, 768] {
        let split = |g: Graph| -> Result<[f64; 2]> {
            let attention: Vec<bool> = g.nodes().iter().map(|node| node.is::<AttentionOp>()).collect();
            let (_, nodes) = timed(g, context.size(3, 15))?;
            let of = |wanted: bool| {
                nodes
                    .iter()
                    .filter(|(node, _)| attention[*node] == wanted)
                    .map(|(_, ns)| *ns as f64 / 1e3)
                    .sum()
            };
            Ok([of(false), of(true)])
        };
        let [linear, attention] = split(block(d, n, false)?)?;
        let [with, _] = split(block(d, n, true)?)?;
        table.row([n.to_string(), figure(linear), figure(attention), figure(with)]);
        weights.push((n as f64, linear));
        scores.push((n as f64, attention));
        more.push((n as f64, with));
    }
    let crosses = |line: &[(f64, f64)]| -> f64 {
        let ratio: Vec<(f64, f64)> = line.iter().zip(&scores).map(|(l, s)| (l.0, (s.1 / l.1).ln())).collect();
        let pair = ratio.windows(2).find(|pair| pair[0].1 < 0.0 && pair[1].1 >= 0.0);
        pair.map_or(f64::NAN, |p| p[0].0 + (p[1].0 - p[0].0) * -p[0].1 / (p[1].1 - p[0].1))
    };
    Ok(finding
        .number(Number::shown("measured crossover in units of d, attention alone", crosses(&weights) / d as f64))
        .number(Number::shown("measured crossover in units of d, with the feed-forward part", crosses(&more) / d as f64))
        .table(table)
        .picture(
            Chart::new("Time of the two parts, d = 64", Axis::log("n"), Axis::log("µs"))
                .line("projections", weights)
                .line("scores and weighted sum", scores)
                .line("projections and feed-forward part", more)
                .dashed("n = 2d", [(128.0, 10.0), (128.0, 3000.0)])
                .dashed("n = 6d", [(384.0, 10.0), (384.0, 3000.0)]),
        )
        .how("The cost reader at n = 2d and 6d; times of single nodes, the least of a few runs on one thread. NaN: no crossing in the range measured."))
}

/// H3: recurrence against attention.
pub fn against_recurrence(context: &Context) -> Result<Finding> {
    let d = 48;
    let recurrent = Recurrent::new(d, &mut Parameters::new())?;
    let graph = |n: usize| -> Result<Graph> {
        let mut g = Graph::inference();
        let x = g.input("x", DType::F32, [1, n, d])?;
        let y = recurrent.forward(&mut g, x)?;
        g.output("y", y)?;
        Ok(g)
    };
    let mut table = Table::new(
        "d = 48",
        &[
            "n",
            "recurrent, MACs",
            "scores and sum, MACs",
            "whole attention, MACs",
            "recurrent, µs",
            "attention, µs",
        ],
    );
    let (mut wrong, mut cheaper) = (0, vec![]);
    let mut lines = [vec![], vec![], vec![]];
    for n in [12usize, 24, 48, 96, 192] {
        let own = costs(&graph(n)?)?.total().macs;
        let [weights, scores] = two_parts(&block(d, n, false)?)?;
        wrong += usize::from(own != (2 * n * d * d) as u64) + usize::from(scores != (2 * n * n * d) as u64);
        cheaper.push((n, scores < own, weights + scores < own));
        let (a, _) = timed(graph(n)?, context.size(3, 10))?;
        let (b, _) = timed(block(d, n, false)?, context.size(3, 10))?;
        table.row([
            n.to_string(),
            own.to_string(),
            scores.to_string(),
            (weights + scores).to_string(),
            figure(a * 1e6),
            figure(b * 1e6),
        ]);
        lines[0].push((n as f64, own as f64));
        lines[1].push((n as f64, scores as f64));
        lines[2].push((n as f64, (weights + scores) as f64));
    }
    let right = cheaper.iter().filter(|(n, scores, _)| *scores == (*n < d)).count();
    let whole = cheaper.iter().filter(|(_, _, whole)| *whole).count();
    let [recurrent, scores, all] = lines;
    Ok(Finding::new(
        Verdict::Conditional,
        "Mixing positions costs 2n²d by attention and 2nd² by a recurrent layer (which counts its input’s product): attention is cheaper \
         exactly where n < d. With its four projections it never is. A recurrent layer takes n steps one after another all the same.",
    )
    .number(Number::count("multiply-adds that differ from 2nd² and 2n²d", wrong, 0))
    .number(Number::count("lengths for which “scores are cheaper” and “n < d” agree", right, 5).erratum("E19"))
    .number(Number::count("lengths for which the whole layer with projections is cheaper", whole, 0).erratum("E19"))
    .counter_example("n = 96, d = 48: the scores alone take twice the work of recurrence.")
    .table(table)
    .picture(
        Chart::new("Work, d = 48", Axis::log("n"), Axis::log("multiply-adds"))
            .line("recurrent", recurrent)
            .line("scores and weighted sum", scores)
            .line("attention with projections", all)
            .dashed("n = d", [(48.0, 1e4), (48.0, 1e7)]),
    )
    .how("An Elman layer h = tanh(Wx + Uh) recorded step by step with the ops of the library, and an attention layer; cost reader and times on one thread."))
}
