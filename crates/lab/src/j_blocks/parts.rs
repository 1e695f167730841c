//! The parts of a block and the families made of them: feed-forward parts, who mixes what, parameters,
//! caches.

use crate::compute::{array, compute, compute_on_cpu, differing, largest_difference};
use crate::picture::{Axis, Chart, Colours, Heat};
use crate::specimens::{VOCABULARY, bert, gpt, in_chunks, other_bits, t5, whole};
use crate::{Context, Draws, Finding, Number, Table, Verdict};
use regard::generate::{Generator, Request, Sampling, Settings};
use regard::layers::{
    AbsoluteConfig, AbsolutePositions, AttentionConfig, AttentionLayer, Context as Surroundings, FeedForward,
    FeedForwardConfig, FeedForwardKind, KeySource, Parameters, sinusoids,
};
use regard::models::{BertText, Positions, Transformer, TransformerConfig};
use regard::ops::Attention;
use regard::prelude::*;
use regard::{Result, reach};

fn feed_forward(width: usize, hidden: usize, kind: FeedForwardKind) -> Result<(FeedForward, Parameters)> {
    let mut parameters = Parameters::new();
    let config = FeedForwardConfig { width, hidden, kind, bias: true, dropout: 0.0, std: 0.5 };
    Ok((FeedForward::new(config, &mut parameters)?, parameters))
}

/// Random numbers for everything declared.
fn stored(feed: Feed, parameters: &Parameters, draws: &mut Draws) -> Result<Feed> {
    let mut feed = feed;
    for declared in parameters.declared() {
        let dims = declared.shape.bound();
        feed = feed.with_stored(&declared.name, array(&dims, &draws.normals(dims.count()))?);
    }
    Ok(feed)
}

/// J1: ReLU(xW₁ + b₁)W₂ + b₂.
pub fn formula(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("J1");
    let (n, width, hidden) = (4usize, 6usize, 24usize);
    let (part, parameters) = feed_forward(width, hidden, FeedForwardKind::Relu)?;
    let x = draws.normals(n * width);
    let feed = stored(Feed::new().with("x", array(&[1, n, width], &x)?), &parameters, &mut draws)?;
    let found = compute(&feed, |g| {
        let x = g.input("x", DType::F32, [1, n, width])?;
        Ok(vec![part.forward(g, x)?])
    })?;
    let of = |name: &str| feed.stored[name].data().to_vec();
    let (up, up_bias, down, down_bias) = (of("up.weight"), of("up.bias"), of("down.weight"), of("down.bias"));
    let mut wanted = vec![0.0; n * width];
    for t in 0..n {
        let row = &x[t * width..(t + 1) * width];
        let hidden: Vec<f64> = (0..hidden)
            .map(|f| (up_bias[f] + (0..width).map(|c| up[f * width + c] * row[c]).sum::<f64>()).max(0.0))
            .collect();
        for c in 0..width {
            wanted[t * width + c] = down_bias[c]
                + hidden.iter().enumerate().map(|(f, h)| down[c * hidden.len() + f] * h).sum::<f64>();
        }
    }
    let (_, full) = feed_forward(512, 2048, FeedForwardKind::Relu)?;
    // gelu(x) − gelu(−x) = x, for x·Φ(x) and Φ(x) + Φ(−x) = 1.
    let grid: Vec<f64> = (-40..=40).map(|i| f64::from(i) * 0.1).collect();
    let curves = compute(&Feed::new().with("x", array(&[grid.len()], &grid)?), |g| {
        let x = g.input("x", DType::F32, [grid.len()])?;
        let minus = g.scale(x, -1.0)?;
        let (gelu, other) = (g.gelu(x)?, g.gelu(minus)?);
        Ok(vec![gelu, g.sub(gelu, other)?, g.relu(x)?])
    })?;
    let line = |at: usize| grid.iter().copied().zip(curves[at].data().to_vec()).collect::<Vec<_>>();
    Ok(Finding::new(Verdict::Holds, "The feed-forward part is ReLU(xW₁ + b₁)W₂ + b₂; with 512 → 2048 → 512 it has 2,099,712 parameters. GELU is an option.")
        .number(Number::at_most("against plain loops", largest_difference(found[0].data(), &wanted), 1e-12))
        .number(Number::count("parameters of 512 → 2048 → 512", full.count(), 2 * 512 * 2048 + 2048 + 512))
        .number(Number::at_most("gelu(x) − gelu(−x) against x", largest_difference(curves[1].data(), &grid), 1e-12))
        .picture(Chart::new("Non-linearities", Axis::new("x"), Axis::new("f(x)")).line("ReLU", line(2)).line("GELU", line(0)))
        .how("The feed-forward layer of the library, by the reference engine, against loops; parameters as it declares them."))
}

/// Which inputs can change which outputs, position by position and channel by channel.
fn map(
    record: impl FnOnce(&mut Graph, Var) -> regard_graph::Result<Var>,
    n: usize,
    width: usize,
) -> Result<Vec<f64>> {
    let mut g = Graph::inference();
    let x = g.input("x", DType::F32, [1, n, width])?;
    let y = record(&mut g, x)?;
    let reaches = reach::reach(&g, &reach::Query { from: vec![x], to: vec![y], ..Default::default() })?;
    let mut can = Vec::new();
    for to in reaches.cells(y)? {
        for from in reaches.cells(x)? {
            can.push(f64::from(u8::from(reaches.can(from, to)?)));
        }
    }
    Ok(can)
}

/// J2: each position by itself, all alike.
pub fn position_wise(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("J2");
    let (n, width) = (6usize, 8usize);
    let (part, _) = feed_forward(width, 32, FeedForwardKind::Relu)?;
    let x = draws.normals(n * width);
    let run = |x: &[f64], n: usize| -> Result<Vec<f64>> {
        let feed = Feed::new().with("x", array(&[1, n, width], x)?);
        Ok(compute_on_cpu(&feed, 1, |g| {
            let x = g.input("x", DType::F32, [1, n, width])?;
            Ok(vec![part.forward(g, x)?])
        })?[0]
            .data()
            .to_vec())
    };
    let before = run(&x, n)?;
    let (mut wrong, mut alone) = (0, 0);
    let mut seen = Vec::new();
    for p in 0..n {
        let mut moved = x.clone();
        moved[p * width] += 1.0;
        let after = run(&moved, n)?;
        for t in 0..n {
            let changed =
                differing(&before[t * width..(t + 1) * width], &after[t * width..(t + 1) * width]) > 0;
            wrong += usize::from(changed != (t == p));
            seen.push(f64::from(u8::from(changed)));
        }
        alone += differing(&run(&x[p * width..(p + 1) * width], 1)?, &before[p * width..(p + 1) * width]);
    }
    let order = draws.permutation(n);
    let shuffled: Vec<f64> = order.iter().flat_map(|&t| x[t * width..(t + 1) * width].to_vec()).collect();
    let moved: Vec<f64> = order.iter().flat_map(|&t| before[t * width..(t + 1) * width].to_vec()).collect();
    Ok(Finding::new(Verdict::Holds, "A change at one position changes that output and no other, to the bit; each position by itself gives the same bits: a 1 × 1 convolution.")
        .number(Number::count("pairs of positions that are not as they should be", wrong, 0))
        .number(Number::count("numbers that differ when a position stands alone", alone, 0))
        .number(Number::count("numbers that differ after a shuffle of positions", differing(&run(&shuffled, n)?, &moved), 0))
        .picture(Heat::new("Outputs that change with one position", "changed", "output", n, seen, Colours::Rising))
        .how("The feed-forward layer on the CPU engine, each position changed in turn, alone, and in another order."))
}

/// J3: attention mixes positions, the feed-forward part features.
pub fn who_mixes(_context: &Context) -> Result<Finding> {
    let (n, width) = (4usize, 4usize);
    let (part, _) = feed_forward(width, 8, FeedForwardKind::Relu)?;
    let forward = map(|g, x| part.forward(g, x), n, width)?;
    // The mixing itself, for given weights: values alone, one head.
    let mixing = map(
        |g, x| {
            let value = g.split_heads(x, 1)?;
            let nothing = g.fill(DType::F32, [1, n, 1, 1], 0.0)?;
            let y = g.attention(nothing, nothing, value, &Attention::default())?.y;
            g.merge_heads(y)
        },
        n,
        width,
    )?;
    let layer = AttentionLayer::new(AttentionConfig::new(width, 2)?, &mut Parameters::new())?;
    let whole = map(|g, x| layer.forward(g, x, KeySource::Own, &Surroundings::default()), n, width)?;
    let size = n * width;
    let count = |can: &[f64], of: &dyn Fn(usize, usize) -> bool| {
        (0..size * size).filter(|at| can[*at] == 1.0 && of(at / size, at % size)).count()
    };
    let other_place = |a: usize, b: usize| a / width != b / width;
    let other_channel = |a: usize, b: usize| a % width != b % width;
    Ok(Finding::new(
        Verdict::Holds,
        "For given weights attention moves each channel between positions and mixes no channels; the feed-forward part mixes channels \
         within a position and moves nothing. (An attention layer’s projections mix channels as well.)",
    )
    .number(Number::count("feed-forward: dependences across positions", count(&forward, &other_place), 0))
    .number(Number::count("feed-forward: dependences across channels of a position, all", count(&forward, &|a, b| !other_place(a, b) && other_channel(a, b)), n * width * (width - 1)))
    .number(Number::count("mixing by given weights: dependences across channels", count(&mixing, &other_channel), 0))
    .number(Number::count("mixing by given weights: dependences across positions, all", count(&mixing, &other_place), n * (n - 1) * width))
    .number(Number::count("a whole attention layer: dependences, all", count(&whole, &|_, _| true), size * size))
    .picture(Heat::new("Feed-forward part: (position, channel) × (position, channel)", "output", "input", size, forward, Colours::Rising))
    .picture(Heat::new("Attention with given weights", "output", "input", size, mixing, Colours::Rising))
    .how("The reach reader, element by element, on both layers of the library."))
}

/// J5: own parameters in every layer.
pub fn own_parameters(_context: &Context) -> Result<Finding> {
    let model = gpt(Positions::Learned)?;
    let of = |layer: usize| -> Vec<(String, String)> {
        let prefix = format!("block.{layer}.feed_forward.");
        let own = model.parameters().declared().filter(|d| d.name.starts_with(&prefix));
        own.map(|d| (d.name.clone(), d.shape.to_string())).collect()
    };
    let mut table = Table::new("Feed-forward parameters of a decoder of two layers", &["parameter", "shape"]);
    for (name, shape) in of(0).into_iter().chain(of(1)) {
        table.row([name, shape]);
    }
    let with_positions = |n: usize| -> Result<usize> {
        let mut g = Graph::inference();
        let ids = g.input("ids", DType::I32, [1, n])?;
        model.logits(&mut g, ids)?;
        Ok(g.stored()
            .iter()
            .filter(|stored| stored.name.contains("feed_forward"))
            .map(|stored| stored.fact.shape.bound().count())
            .sum())
    };
    let mut store = Store::new(0);
    for declared in model.parameters().declared() {
        store.declare(&declared.name, declared.shape.clone(), declared.init.clone())?;
    }
    let first = store.f32("block.0.feed_forward.up.weight")?;
    let second = store.f32("block.1.feed_forward.up.weight")?;
    let same = first.iter().zip(&second).filter(|(a, b)| a == b).count();
    let picture: Vec<f64> = first.iter().chain(&second).map(|x| f64::from(*x)).collect();
    Ok(Finding::new(Verdict::Holds, "Each layer has feed-forward parameters of its own; all positions share them, so that their number does not depend on the length.")
        .number(Number::count("parameters of layer 0", of(0).len(), 4))
        .number(Number::count("parameters of layer 1", of(1).len(), 4))
        .number(Number::count("numbers that two layers begin with in common", same, 0).erratum("E22"))
        .number(Number::equal("feed-forward numbers at 40 positions less those at 5", with_positions(40)? as f64 - with_positions(5)? as f64, 0.0, 0.0).erratum("E22"))
        .table(table)
        .picture(Heat::new("W₁ of layer 0 above that of layer 1", "hidden unit", "channel", 16, picture, Colours::Signed))
        .how("The parameters that a GPT of the library declares, and what it begins with."))
}

/// J6: three families of one block.
pub fn families(_context: &Context) -> Result<Finding> {
    let transformer = Transformer::new(TransformerConfig {
        width: 16,
        heads: 4,
        hidden: 32,
        encoder_layers: 2,
        decoder_layers: 2,
        context: 16,
        dropout: 0.0,
        ..TransformerConfig::base(VOCABULARY)
    })?;
    let (bert, gpt, t5) = (bert()?, gpt(Positions::Learned)?, t5()?);
    let kinds = |parameters: &Parameters| -> Vec<String> {
        let mut kinds: Vec<String> = parameters
            .declared()
            .filter_map(|d| {
                d.name
                    .split_once("block.0.")
                    .map(|(_, rest)| rest.split('.').next().unwrap_or(rest).to_string())
            })
            .collect();
        kinds.sort();
        kinds.dedup();
        kinds
    };
    let mut table = Table::new("What the first blocks are made of", &["model", "parts"]);
    let all = [
        ("encoder-decoder (2017)", transformer.parameters()),
        ("encoder (BERT)", bert.parameters()),
        ("decoder (GPT)", gpt.parameters()),
        ("encoder-decoder (T5)", t5.parameters()),
    ];
    for (name, parameters) in all {
        table.row([name.to_string(), kinds(parameters).join(", ")]);
    }
    let shared = ["attention", "attention_norm", "feed_forward", "feed_forward_norm"];
    let lacking =
        all.iter().filter(|(_, p)| !shared.iter().all(|part| kinds(p).contains(&part.to_string()))).count();
    let n = 6;
    let sees = |record: &dyn Fn(&mut Graph, Var) -> regard_graph::Result<Var>| -> Result<Vec<f64>> {
        let mut g = Graph::inference();
        let ids = g.input("ids", DType::I32, [1, n])?;
        let y = record(&mut g, ids)?;
        let reaches = reach::reach(
            &g,
            &reach::Query {
                from: vec![ids],
                to: vec![y],
                grain: reach::Grain::Position,
                ..Default::default()
            },
        )?;
        let mut can = Vec::new();
        for to in reaches.cells(y)? {
            for from in reaches.cells(ids)? {
                can.push(f64::from(u8::from(reaches.can(from, to)?)));
            }
        }
        Ok(can)
    };
    let encoder = sees(&|g, ids| bert.hidden(g, &BertText { ids, token_types: None, key_mask: None }))?;
    let decoder = sees(&|g, ids| gpt.logits(g, ids))?;
    let source = sees(&|g, ids| {
        let target = g.constant(DType::I32, [1, n], &vec![1.0; n])?;
        transformer.logits(g, ids, None, target)
    })?;
    let count = |can: &[f64]| can.iter().sum::<f64>() as usize;
    Ok(Finding::new(Verdict::Holds, "All three families are stacks of the same block: attention and a feed-forward part with their norms; a decoder that reads a source has cross-attention besides, and only masks differ.")
        .number(Number::count("families whose blocks lack one of the four parts", lacking, 0))
        .number(Number::count("encoder: pairs of positions that see each other, all", count(&encoder), n * n))
        .number(Number::count("decoder: pairs, its own and earlier ones", count(&decoder), n * (n + 1) / 2))
        .number(Number::count("encoder-decoder: pairs of source and target, all", count(&source), n * n))
        .table(table)
        .picture(Heat::new("Encoder", "output", "input", n, encoder, Colours::Rising))
        .picture(Heat::new("Decoder", "output", "input", n, decoder, Colours::Rising))
        .how("The models of the library: the names of their parameters, and the reach reader on their graphs."))
}

/// J8: a cache changes nothing; four ways to choose a token.
pub fn generates(context: &Context) -> Result<Finding> {
    let model = gpt(Positions::Learned)?;
    let mut draws = context.draws("J8");
    let prompt: Vec<i32> = (0..6).map(|_| draws.below(VOCABULARY) as i32).collect();
    let generate = |sampling: Sampling, rows: usize| -> Result<Vec<Vec<i32>>> {
        let mut store = Store::new(0);
        let cpu = crate::experiment::one_cpu()?;
        let mut generator =
            Generator::new(&model, Settings { rows, ..Default::default() }, &mut store, &cpu)?;
        let prompts = vec![prompt.clone(); rows];
        let request = Request { sampling, ..Request::greedy(&prompts, 20) };
        Ok(generator.generate(&request, &mut store)?.into_iter().map(|row| row.ids).collect())
    };
    let greedy = generate(Sampling::greedy(), 1)?.remove(0);
    // The same without any cache: the whole sequence again for every token.
    let mut seen = prompt.clone();
    for _ in 0..20 {
        let scores = whole(&model, &seen, 1)?;
        let last = &scores[scores.len() - VOCABULARY..];
        let best = (0..VOCABULARY).rev().max_by(|&a, &b| last[a].total_cmp(&last[b])).unwrap_or(0);
        seen.push(best as i32);
    }
    let other = greedy.iter().zip(&seen[6..]).filter(|(a, b)| a != b).count();
    let bits = other_bits(&in_chunks(&model, &seen, &[6, 1, 1, 1, 1, 16])?, &whole(&model, &seen, 1)?);
    let mut table = Table::new("Continuations of one prompt", &["sampling", "tokens", "distinct rows of 16"]);
    let mut repeated = 0;
    for (name, sampling) in [
        ("greedy", Sampling::greedy()),
        ("plain", Sampling::plain(3)),
        ("temperature ½", Sampling { temperature: 0.5, ..Sampling::plain(3) }),
        ("top-k 2", Sampling { top_k: Some(2), ..Sampling::plain(3) }),
        ("top-p 0.5", Sampling { top_p: 0.5, ..Sampling::plain(3) }),
    ] {
        let rows = generate(sampling, 16)?;
        repeated += usize::from(rows != generate(sampling, 16)?);
        let mut distinct = rows.clone();
        distinct.sort();
        distinct.dedup();
        let text = rows[0].iter().take(10).map(i32::to_string).collect::<Vec<_>>().join(" ");
        table.row([name.to_string(), text, distinct.len().to_string()]);
    }
    let picture: Vec<f64> =
        generate(Sampling::plain(3), 16)?.concat().iter().map(|&id| f64::from(id)).collect();
    Ok(Finding::new(Verdict::Holds, "Through a cache the scores are the same to the bit, and so are the tokens; draws repeat with their seed.")
        .number(Number::count("scores with other bits: cached against whole", bits, 0))
        .number(Number::count("greedy tokens that differ from recomputing everything for each", other, 0))
        .number(Number::count("ways of sampling that do not repeat", repeated, 0))
        .table(table)
        .picture(Heat::new("Sixteen draws of one prompt, row × step", "row", "step", 20, picture, Colours::Rising))
        .how("The generator on a GPT of two layers, and the same model without caches."))
}

/// J12: sinusoids are added to embeddings.
pub fn added_positions(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("J12");
    let (n, width) = (24usize, 16usize);
    let positions =
        AbsolutePositions::new(AbsoluteConfig::Sinusoidal { width, most: 32 }, &mut Parameters::new())?;
    let x = draws.normals(n * width);
    let feed = Feed::new().with("x", array(&[1, n, width], &x)?);
    let found = compute(&feed, |g| {
        let x = g.input("x", DType::F32, [1, n, width])?;
        Ok(vec![positions.forward(g, x, None)?])
    })?;
    let table = sinusoids(n, width);
    let wanted: Vec<f64> = x.iter().zip(&table).map(|(x, p)| x + p).collect();
    let formula: Vec<f64> = (0..n * width)
        .map(|at| (at / width, at % width))
        .map(|(p, c)| {
            let angle = p as f64 / 10000f64.powf((c - c % 2) as f64 / width as f64);
            if c % 2 == 0 { angle.sin() } else { angle.cos() }
        })
        .collect();
    Ok(Finding::new(
        Verdict::Holds,
        "x + PE(p): sines at even channels, cosines at odd ones, added to whatever stands there.",
    )
    .number(Number::at_most("output against x + PE", largest_difference(found[0].data(), &wanted), 1e-14))
    .number(Number::at_most("PE against the formula", largest_difference(&table, &formula), 1e-14))
    .picture(Heat::new("PE, position × channel", "position", "channel", width, table, Colours::Signed))
    .how("The absolute positions of the library, by the reference engine, against the formula."))
}
