//! The multi-head layer of the library against heads done one by one, in exact arithmetic.

use crate::compute::{array, compute, differing, largest_difference};
use crate::picture::{Axis, Chart, Colours, Heat};
use crate::{Context, Draws, Finding, Number, Table, Verdict};
use regard::Result;
use regard::layers::{
    AttentionConfig, AttentionLayer, Context as Surroundings, KeySource, KeySourceConfig, Parameters,
};
use regard::ops::{Attention, AttentionMask, AttentionOp, LinearOptions};
use regard::prelude::*;
use regard::{cost, reach};
use regard_graph::{Integers, Sizes};
use std::collections::HashMap;

const WIDTH: usize = 12;
const HEADS: usize = 3;
const QUERIES: usize = 5;

/// A layer, numbers for its parameters, and for a stream `x` and a memory `memory`.
struct Scene {
    layer: AttentionLayer,
    config: AttentionConfig,
    feed: Feed,
    keys: usize,
}

impl Scene {
    fn new(draws: &mut Draws, config: AttentionConfig, keys: usize) -> Result<Scene> {
        let mut parameters = Parameters::new();
        let layer = AttentionLayer::new(config, &mut parameters)?;
        let mut feed = Feed::new()
            .with("x", array(&[1, QUERIES, config.width], &draws.normals(QUERIES * config.width))?)
            .with("memory", array(&[1, keys, config.width], &draws.normals(keys * config.width))?);
        for declared in parameters.declared() {
            let dims = declared.shape.bound();
            let numbers: Vec<f64> = draws.normals(dims.count()).iter().map(|x| x * 0.4).collect();
            feed = feed.with_stored(&declared.name, array(&dims, &numbers)?);
        }
        Ok(Scene { layer, config, feed, keys })
    }

    fn inputs(&self, g: &mut Graph) -> regard_graph::Result<[Var; 2]> {
        let x = g.input("x", DType::F32, [1, QUERIES, self.config.width])?;
        Ok([x, g.input("memory", DType::F32, [1, self.keys, self.config.width])?])
    }

    fn source(&self, memory: Var) -> KeySource {
        match self.config.source {
            KeySourceConfig::Own => KeySource::Own,
            KeySourceConfig::Memory(_) => KeySource::Memory(memory),
        }
    }

    /// What the layer itself gives.
    fn whole(&self, feed: &Feed) -> Result<Vec<f64>> {
        let found = compute(feed, |g| {
            let [x, memory] = self.inputs(g)?;
            Ok(vec![self.layer.forward(g, x, self.source(memory), &Surroundings::default())?])
        })?;
        Ok(found[0].data().to_vec())
    }

    /// The same by separate heads: rows of the projections for each, attention of one head, concatenation,
    /// one product.
    fn by_heads(&self) -> Result<Vec<f64>> {
        let AttentionConfig { heads, head_width, value_width, width, .. } = self.config;
        let found = compute(&self.feed, |g| {
            let [x, memory] = self.inputs(g)?;
            let from = if self.config.source == KeySourceConfig::Own { x } else { memory };
            let mut mixed = Vec::new();
            for head in 0..heads {
                let project = |g: &mut Graph, name: &str, x: Var, own: usize| -> regard_graph::Result<Var> {
                    let weight = g.parameter(&format!("{name}.weight"), [heads * own, width], Init::Zeros)?;
                    let bias = g.parameter(&format!("{name}.bias"), [heads * own], Init::Zeros)?;
                    let weight = g.slice(weight, 0, head * own, own)?;
                    let bias = Some(g.slice(bias, 0, head * own, own)?);
                    let y = g.linear(x, weight, LinearOptions { bias, ..Default::default() })?;
                    g.split_heads(y, 1)
                };
                let query = project(g, "query", x, head_width)?;
                let key = project(g, "key", from, head_width)?;
                let value = project(g, "value", from, value_width)?;
                let y = g.attention(query, key, value, &Attention::default())?.y;
                mixed.push(g.merge_heads(y)?);
            }
            let all = g.concat(&mixed, 2)?;
            let weight = g.parameter("output.weight", [width, heads * value_width], Init::Zeros)?;
            let bias = Some(g.parameter("output.bias", [width], Init::Zeros)?);
            Ok(vec![g.linear(all, weight, LinearOptions { bias, ..Default::default() })?])
        })?;
        Ok(found[0].data().to_vec())
    }

    /// The same numbers with the output matrix closed for all heads but one, and without its bias.
    fn only(&self, head: usize) -> Feed {
        let mut feed = self.feed.clone();
        let own = self.config.value_width;
        if let Some(weight) = feed.stored.get_mut("output.weight") {
            let columns = self.config.heads * own;
            let closed = |at: &usize| (at % columns) / own != head;
            (0..weight.data().len()).filter(closed).for_each(|at| weight.data_mut()[at] = 0.0);
        }
        if let Some(bias) = feed.stored.get_mut("output.bias") {
            bias.data_mut().fill(0.0);
        }
        feed
    }
}

/// E-1: equals separate heads, concatenation and one linear map.
pub fn separate_heads(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("E-1");
    let own = Scene::new(&mut draws, AttentionConfig::new(WIDTH, HEADS)?, 1)?;
    let free = AttentionConfig {
        source: KeySourceConfig::Memory(WIDTH),
        head_width: 5,
        value_width: 2,
        ..AttentionConfig::new(WIDTH, HEADS)?
    };
    let free = Scene::new(&mut draws, free, 7)?;
    let (whole, by_heads) = (own.whole(&own.feed)?, own.by_heads()?);
    let off = largest_difference(&whole, &by_heads);
    let off_free = largest_difference(&free.whole(&free.feed)?, &free.by_heads()?);
    Ok(Finding::new(
        Verdict::Holds,
        "The layer equals its heads done one by one: rows of W_Q, W_K, W_V for each head, concatenation, one product with W_O.",
    )
    .number(Number::at_most("self-attention, 3 heads of 4: largest difference", off, 1e-14))
    .number(Number::at_most("cross-attention, d_k = 5, d_v = 2: largest difference", off_free, 1e-14).erratum("E10"))
    .number(Number::count("numbers of the output: n × d", whole.len(), QUERIES * WIDTH))
    .picture(Heat::new("Output of the layer, query × channel", "query", "channel", WIDTH, whole, Colours::Signed))
    .how("The attention layer of the library and a graph of single heads over slices of the same parameters, by the reference engine."))
}

/// E-2: widths of heads; what does not divide is refused.
pub fn widths(_context: &Context) -> Result<Finding> {
    let usual = AttentionConfig::new(64, 8)?;
    let refused = AttentionConfig::new(10, 3).err().map(|error| error.to_string()).unwrap_or_default();
    let names_both = refused.contains("width of 10") && refused.contains("3 heads");
    let free = AttentionConfig { head_width: 7, value_width: 3, ..AttentionConfig::new(12, 3)? };
    let mut parameters = Parameters::new();
    AttentionLayer::new(free, &mut parameters)?;
    let mut table = Table::new(
        "Projections of 3 heads with d_k = 7 and d_v = 3 over a width of 12",
        &["parameter", "shape"],
    );
    for declared in parameters.declared() {
        table.row([declared.name.clone(), declared.shape.to_string()]);
    }
    let beta = |d: usize| -> Result<f64> {
        // One query and two keys along it: the weights say what β was.
        let feed = Feed::new()
            .with("q", array(&[1, 1, 1, d], &vec![1.0; d])?)
            .with("k", array(&[1, 2, 1, d], &[vec![1.0; d], vec![0.0; d]].concat())?);
        let found = compute(&feed, |g| {
            let q = g.input("q", DType::F32, [1, 1, 1, d])?;
            let k = g.input("k", DType::F32, [1, 2, 1, d])?;
            Ok(vec![g.attention(q, k, k, &Attention::default())?.y])
        })?;
        let first = found[0].data()[0];
        Ok((first / (1.0 - first)).ln() / d as f64)
    };
    let widths = [1usize, 4, 8, 16, 64];
    let betas = widths.iter().map(|&d| beta(d)).collect::<Result<Vec<f64>>>()?;
    let off =
        widths.iter().zip(&betas).map(|(&d, b)| (b * (d as f64).sqrt() - 1.0).abs()).fold(0.0, f64::max);
    Ok(Finding::new(
        Verdict::Holds,
        "Heads share the width by default; 10 among 3 is refused with the reason; other widths can be given; β follows the head’s width.",
    )
    .number(Number::count("d_k = 64/8", usual.head_width, 8))
    .number(Number::count("d_v = 64/8", usual.value_width, 8))
    .number(Number::count("a width of 10 for 3 heads is refused, and the text names both", usize::from(names_both), 1))
    .number(Number::at_most("β·√d_k against 1, from the weights", off, 1e-6))
    .table(table)
    .picture(
        Chart::new("β as the weights show it", Axis::log("d_k"), Axis::log("β"))
            .points("measured from weights", widths.iter().zip(&betas).map(|(&d, &b)| (d as f64, b)))
            .line("1/√d_k", (0..=60).map(|i| 10f64.powf(i as f64 * 0.03)).map(|d| (d, 1.0 / d.sqrt()))),
    )
    .how(format!("The config of the attention layer; its refusal reads: {refused}")))
}

/// E-3: the fused layout equals a loop over heads; a key mask holds for all heads.
pub fn split_and_join(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("E-3");
    let (batch, keys) = (2, 4);
    let x = draws.normals(batch * keys * WIDTH);
    let mask: Vec<f64> = (0..batch * keys).map(|at| f64::from(u8::from(at != 1 && at != 6))).collect();
    let feed =
        Feed::new().with("x", array(&[batch, keys, WIDTH], &x)?).with("mask", array(&[batch, keys], &mask)?);
    let repeated: Vec<f64> = (0..batch)
        .flat_map(|b| (0..HEADS * keys).map(move |_| b))
        .flat_map(|b| mask[b * keys..(b + 1) * keys].to_vec())
        .collect();
    let found = compute(&feed, |g| {
        let x = g.input("x", DType::F32, [batch, keys, WIDTH])?;
        let mask = g.input("mask", DType::Bool, [batch, keys])?;
        let heads = g.split_heads(x, HEADS)?;
        let back = g.merge_heads(heads)?;
        let fused = AttentionMask { key_mask: Some(mask), ..Default::default() };
        let all = g.attention(heads, heads, heads, &Attention { mask: fused, ..Default::default() })?.y;
        let explicit = Some(g.constant(DType::Bool, [batch, HEADS, keys, keys], &repeated)?);
        let repeated = AttentionMask { explicit, ..Default::default() };
        let repeated =
            g.attention(heads, heads, heads, &Attention { mask: repeated, ..Default::default() })?.y;
        let mut each = Vec::new();
        for head in 0..HEADS {
            let own = g.slice(x, 2, head * WIDTH / HEADS, WIDTH / HEADS)?;
            let own = g.split_heads(own, 1)?;
            each.push(g.attention(own, own, own, &Attention { mask: fused, ..Default::default() })?.y);
        }
        Ok(vec![heads, back, all, repeated, g.concat(&each, 2)?])
    })?;
    let place = |b: usize, t: usize, h: usize, d: usize| ((b * keys + t) * HEADS + h) * (WIDTH / HEADS) + d;
    let misplaced = (0..batch * keys * WIDTH)
        .filter(|&at| {
            let (b, t, c) = (at / (keys * WIDTH), at / WIDTH % keys, at % WIDTH);
            found[0].data()[place(b, t, c / 4, c % 4)] != x[at]
        })
        .count();
    Ok(Finding::new(
        Verdict::Holds,
        "Splitting B T (H D) into heads moves no number, joining undoes it, and attention over the fused layout equals a loop \
         over heads. A mask of keys equals the same mask repeated for every head.",
    )
    .number(Number::count("numbers that are not where b t (h d) says", misplaced, 0))
    .number(Number::count("numbers that differ after joining", differing(found[1].data(), &x), 0))
    .number(Number::count("outputs that differ from a loop over heads", differing(found[2].data(), found[4].data()), 0))
    .number(Number::count("outputs that differ from the repeated mask", differing(found[2].data(), found[3].data()), 0))
    .picture(Heat::new("Outputs, (batch, query) × (head, channel)", "row", "channel", WIDTH, found[2].data(), Colours::Signed))
    .how("split_heads, merge_heads and the attention op with a key mask, by the reference engine, compared to the bit."))
}

/// E-4: Y = bias + Σ W_O,i H_i.
pub fn additive(context: &Context) -> Result<Finding> {
    let scene = Scene::new(&mut context.draws("E-4"), AttentionConfig::new(WIDTH, HEADS)?, 1)?;
    let whole = scene.whole(&scene.feed)?;
    let parts = (0..HEADS).map(|head| scene.whole(&scene.only(head))).collect::<Result<Vec<Vec<f64>>>>()?;
    let bias = scene.feed.stored["output.bias"].data();
    let sum: Vec<f64> = (0..whole.len())
        .map(|at| bias[at % WIDTH] + parts.iter().map(|part| part[at]).sum::<f64>())
        .collect();
    let length = |part: &[f64], t: usize| crate::compute::length(&part[t * WIDTH..(t + 1) * WIDTH]);
    let shares: Vec<f64> = parts.iter().flat_map(|part| (0..QUERIES).map(move |t| length(part, t))).collect();
    Ok(Finding::new(
        Verdict::Holds,
        "Each head adds its own linear map of its own output; the bias comes once.",
    )
    .number(
        Number::at_most(
            "bias + Σ of single heads against the layer",
            largest_difference(&whole, &sum),
            1e-13,
        )
        .erratum("E10"),
    )
    .picture(Heat::new("Length of what each head adds", "head", "query", QUERIES, shares, Colours::Rising))
    .how(
        "The layer once as it is and once for each head with the columns of all other heads of W_O set to 0.",
    ))
}

/// E-5: parameters and multiply-adds are the same for every h; the softmax grows with h.
pub fn equal_cost(_context: &Context) -> Result<Finding> {
    let (width, n) = (64, 48);
    let counted = |heads: usize| -> Result<(usize, u64, u64)> {
        let mut parameters = Parameters::new();
        let layer = AttentionLayer::new(AttentionConfig::new(width, heads)?, &mut parameters)?;
        let mut g = Graph::inference();
        let x = g.input("x", DType::F32, [1, n, width])?;
        layer.forward(&mut g, x, KeySource::Own, &Surroundings::default())?;
        let work = cost::cost(&g, &Sizes::none(), &Integers::none(), None)?.total();
        Ok((parameters.count(), work.macs, work.flops))
    };
    let heads = [1usize, 2, 4, 8, 16, 32];
    let found = heads.iter().map(|&h| counted(h)).collect::<Result<Vec<_>>>()?;
    let mut table =
        Table::new("Width 64, 48 positions", &["heads", "parameters", "multiply-adds", "other arithmetic"]);
    for (h, (p, m, f)) in heads.iter().zip(&found) {
        table.row([h.to_string(), p.to_string(), m.to_string(), f.to_string()]);
    }
    let (parameters, macs, flops) = found[0];
    let per_head = (found[1].2 - flops) as f64;
    let bent =
        heads.iter().zip(&found).map(|(&h, f)| (f.2 as f64 - flops as f64 - (h - 1) as f64 * per_head).abs());
    let per_weight = per_head / (n * n) as f64;
    Ok(Finding::new(
        Verdict::Holds,
        "Parameters and multiply-adds do not depend on h at all; only the arithmetic of the softmax, h·n_t·n_s weights, grows with it.",
    )
    .number(Number::count("parameters that all have: 4d² + 4d", parameters, 4 * width * width + 4 * width).erratum("E42"))
    .number(Number::count("numbers of heads with other parameters", found.iter().filter(|f| f.0 != parameters).count(), 0))
    .number(Number::count("numbers of heads with other multiply-adds", found.iter().filter(|f| f.1 != macs).count(), 0))
    .number(Number::count("multiply-adds: 4nd² + 2n²d", macs as usize, 4 * n * width * width + 2 * n * n * width))
    .number(Number::at_most("other arithmetic: how far from a straight line in h", bent.fold(0.0, f64::max), 0.0))
    .number(Number::shown("other arithmetic of one more head, for each weight n_t·n_s", per_weight))
    .table(table)
    .picture(
        Chart::new("Work of one layer against the heads", Axis::log("heads"), Axis::new("operations").covering(&[0.0]))
            .line("multiply-adds", heads.iter().zip(&found).map(|(&h, f)| (h as f64, f.1 as f64)))
            .line("other arithmetic", heads.iter().zip(&found).map(|(&h, f)| (h as f64, f.2 as f64))),
    )
    .how("The parameters that the layer declares and the cost reader on its graph."))
}

/// Of the attentions of a T5's decoder: those whose keys know the target, and those whose keys know the
/// source alone, by which inputs each recorded value depends on.
fn kinds_of_attention() -> Result<[usize; 2]> {
    let model = crate::specimens::t5()?;
    let mut g = Graph::inference();
    let (source, target) = (g.input("source", DType::I32, [1, 6])?, g.input("target", DType::I32, [1, 5])?);
    let memory = model.encode(&mut g, source, None)?;
    let encoder = g.nodes().len();
    model.hidden(&mut g, memory, None, target)?;
    let mut knows: HashMap<Var, [bool; 2]> =
        HashMap::from([(source, [true, false]), (target, [false, true])]);
    let mut kinds = [0; 2];
    for (at, node) in g.nodes().iter().enumerate() {
        let of = |var: &Var| knows.get(var).copied().unwrap_or_default();
        if at >= encoder && node.is::<AttentionOp>() {
            match (of(&node.inputs[0]), of(&node.inputs[1])) {
                ([_, true], [_, true]) => kinds[0] += 1,
                ([_, true], [true, false]) => kinds[1] += 1,
                _ => {}
            }
        }
        let all = node.inputs.iter().map(of).fold([false; 2], |a, b| [a[0] || b[0], a[1] || b[1]]);
        node.outputs.iter().for_each(|&var| {
            knows.insert(var, all);
        });
    }
    Ok(kinds)
}

/// E-13: queries from one sequence, keys and values from another.
pub fn cross(context: &Context) -> Result<Finding> {
    let keys = 9;
    let config =
        AttentionConfig { source: KeySourceConfig::Memory(WIDTH), ..AttentionConfig::new(WIDTH, HEADS)? };
    let scene = Scene::new(&mut context.draws("E-13"), config, keys)?;
    let y = scene.whole(&scene.feed)?;
    let off = largest_difference(&y, &scene.by_heads()?);
    let mut g = Graph::inference();
    let [x, memory] = scene.inputs(&mut g)?;
    let out = scene.layer.forward(&mut g, x, KeySource::Memory(memory), &Surroundings::default())?;
    let query = reach::Query {
        from: vec![x, memory],
        to: vec![out],
        grain: reach::Grain::Position,
        ..Default::default()
    };
    let reaches = reach::reach(&g, &query)?;
    let pairs = |from: Var| -> Result<Vec<f64>> {
        let mut can = Vec::new();
        for to in reaches.cells(out)? {
            for from in reaches.cells(from)? {
                can.push(f64::from(u8::from(reaches.can(from, to)?)));
            }
        }
        Ok(can)
    };
    let (own, other) = (pairs(x)?, pairs(memory)?);
    let [selves, crosses] = kinds_of_attention()?;
    let total = |pairs: &[f64]| pairs.iter().sum::<f64>() as usize;
    Ok(Finding::new(
        Verdict::Holds,
        "With n_t ≠ n_s each output depends on its own query and on the whole memory, and on nothing else.",
    )
    .number(Number::count("numbers of the output: n_t × d", y.len(), QUERIES * WIDTH))
    .number(Number::at_most("against single heads", off, 1e-14))
    .number(Number::count("pairs of memory and output that reach finds: all n_s·n_t", total(&other), keys * QUERIES))
    .number(Number::count("pairs of query and output: each its own", total(&own), QUERIES))
    .number(Number::count("attentions of a T5’s decoder whose queries and keys come from one sequence", selves, 2))
    .number(Number::count("attentions of a T5’s decoder whose keys come from the other sequence alone", crosses, 2).erratum("E43"))
    .picture(Heat::new("What an output depends on: memory", "output", "memory position", keys, other, Colours::Rising))
    .picture(Heat::new("What an output depends on: queries", "output", "query position", QUERIES, own, Colours::Rising))
    .how("The attention layer with a memory of nine positions and five queries; numbers by the reference engine, dependence by the reach reader."))
}
