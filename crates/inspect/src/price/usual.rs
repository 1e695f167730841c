//! The small programs on which rates are measured: an embedding, a block or some, and a head, in the styles
//! that most models are of, at sizes that lie apart. No model is one of them.

use regard_engine::Program;
use regard_graph::{DType, Graph, Precision, Result};
use regard_layers::{
    AbsoluteConfig, AbsolutePositions, AttentionConfig, BlockConfig, Context, EmbeddingConfig,
    EmbeddingLayer, FeedForwardConfig, FeedForwardKind, NormConfig, NormPlace, Parameters, RelativeConfig,
    Stack, StackConfig,
};
use regard_ops::prelude::*;
use regard_ops::{AdamW, CrossEntropyOptions};

/// Layers, batch, positions, width, heads, tokens.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    layers: usize,
    batch: usize,
    length: usize,
    width: usize,
    heads: usize,
    vocabulary: usize,
}

const fn size(batch: usize, length: usize, width: usize, heads: usize, vocabulary: usize) -> Size {
    Size { layers: 1, batch, length, width, heads, vocabulary }
}

impl Size {
    const fn layers(self, layers: usize) -> Size {
        Size { layers, ..self }
    }
}

/// From hardly anything, where starting a kernel is all there is, to one token in a wide model and many in a
/// narrow one; heads that fill vectors of sixteen, and heads that do not. One layer alone stays in the caches
/// unless it is large; of several, each comes from afar when it is its turn, with weights that are small.
const SIZES: [Size; 23] = [
    size(1, 14, 80, 5, 400).layers(16),
    size(1, 20, 176, 4, 1200).layers(6),
    size(1, 10, 300, 6, 2400).layers(3),
    size(1, 1, 512, 8, 300).layers(10),
    size(1, 6, 24, 3, 50),
    size(1, 1, 128, 4, 300),
    size(1, 1, 200, 5, 1500),
    size(1, 1, 768, 12, 2500),
    size(1, 1, 1280, 20, 300),
    size(1, 12, 96, 3, 300),
    size(2, 18, 72, 3, 200),
    size(1, 24, 512, 8, 2000),
    size(2, 40, 64, 2, 100),
    size(1, 80, 192, 6, 1000),
    size(3, 36, 156, 3, 400),
    size(1, 40, 320, 5, 6000),
    size(1, 76, 352, 8, 900),
    size(4, 60, 320, 5, 1000),
    size(1, 56, 768, 12, 2500),
    size(8, 60, 128, 2, 300),
    size(1, 260, 120, 3, 500),
    size(1, 512, 128, 4, 1000),
    size(1, 820, 160, 4, 300),
];

/// How a block is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// LayerNorm, GELU, learned positions, biases; causal.
    Classic,
    /// RMSNorm, gated, rotary; causal.
    Gated,
    /// As the classic one, but open to both sides, with a mask and dropout, norms behind.
    Open,
    /// RMSNorm, ReLU, buckets of distances, a mask, no biases.
    Bucketed,
}

/// The programs: all styles of a size, or one where a pass takes long. Steps of training take three times as
/// long, so two styles have to do, and none is as large.
pub fn programs(training: bool) -> impl Iterator<Item = (Size, Style)> {
    let weights = |size: &Size| 12 * size.layers * size.width * size.width;
    let sizes = SIZES.into_iter().filter(move |size| !training || weights(size) <= LARGE);
    sizes.enumerate().flat_map(move |(at, size)| {
        let others = [Style::Gated, Style::Open, Style::Bucketed];
        let count = match training {
            _ if weights(&size) * size.batch * size.length > 250_000_000 || weights(&size) >= LARGE => 0,
            true => 1,
            false => others.len(),
        };
        let others = others.into_iter().cycle().skip(at).take(count);
        [Style::Classic].into_iter().chain(others).map(move |style| (size, style))
    })
}

/// So many weights fill tens of megabytes.
const LARGE: usize = 12 * 768 * 768;

/// Records a pass, or a step of training.
pub fn record(size: Size, style: Style, training: bool, precision: Precision) -> Result<Graph> {
    let Size { layers, batch, length, width, heads, vocabulary } = size;
    let mut parameters = Parameters::new();
    let p = &mut parameters;
    let (rms, std) = (matches!(style, Style::Gated | Style::Bucketed), 0.02);
    // Nothing is dropped in a pass.
    let dropout = if training && style == Style::Open { 0.1 } else { 0.0 };
    let kind = match style {
        Style::Classic => FeedForwardKind::GeluTanh,
        Style::Gated => FeedForwardKind::GatedSilu,
        Style::Open => FeedForwardKind::Gelu,
        Style::Bucketed => FeedForwardKind::Relu,
    };
    let hidden = if style == Style::Gated { width * 8 / 3 } else { 4 * width };
    let block = BlockConfig {
        attention: AttentionConfig { dropout, ..AttentionConfig::new(width, heads)? },
        cross: None,
        feed_forward: FeedForwardConfig { width, hidden, kind, bias: !rms, dropout, std },
        norm: if rms { NormConfig::rms(width) } else { NormConfig::layer(width) },
        place: if style == Style::Open { NormPlace::Post } else { NormPlace::Pre },
        dropout,
    };
    let relative = match style {
        Style::Gated => RelativeConfig::Rotary(RotarySpec::default()),
        Style::Bucketed => RelativeConfig::Buckets { buckets: 32, max_distance: 128, bidirectional: true },
        _ => RelativeConfig::None,
    };
    let tokens =
        p.under("tokens", |p| EmbeddingLayer::new(EmbeddingConfig { tokens: vocabulary, width, std }, p))?;
    let absolute =
        if rms { AbsoluteConfig::None } else { AbsoluteConfig::Learned { width, most: length, std } };
    let positions = p.under("positions", |p| AbsolutePositions::new(absolute, p))?;
    let stack = Stack::new(StackConfig { layers, block, final_norm: style != Style::Open, relative }, p)?;
    let mut g = if training { Graph::new() } else { Graph::inference() };
    g.set_precision(precision);
    let ids = g.input("ids", DType::I32, [batch, length])?;
    let x = tokens.forward(&mut g, ids)?;
    let x = positions.forward(&mut g, x, None)?;
    let mut context = Context::causal();
    if matches!(style, Style::Open | Style::Bucketed) {
        context = Context::default();
        context.mask.key_mask = Some(g.input("mask", DType::Bool, [batch, length])?);
    }
    let x = stack.forward(&mut g, x, &context, None)?;
    if !training {
        let scores = tokens.head(&mut g, x)?;
        g.output("scores", scores)?;
        return Ok(g);
    }
    let targets = g.input("targets", DType::I32, [batch, length])?;
    let scale = g.input("scale", DType::F32, shape![])?;
    let rate = g.input("rate", DType::F32, shape![])?;
    let step = g.input("step", DType::I32, shape![])?;
    let weight = tokens.weight(&mut g)?;
    let loss = g.linear_cross_entropy(x, weight, None, targets, scale, CrossEntropyOptions::default())?.loss;
    g.output("loss", loss)?;
    let parameters = g.parameters();
    let gradients = g.gradient(loss, &parameters)?;
    let pairs: Vec<_> = parameters.into_iter().zip(gradients).collect();
    g.adamw_step(&pairs, &AdamW::default(), rate, step, None)?;
    Ok(g)
}

/// Sets the inputs.
pub fn feed(program: &mut Program, size: Size) -> regard_engine::Result<()> {
    let inputs: Vec<(String, DType, Vec<usize>)> = {
        let g = program.graph();
        g.inputs().map(|(name, var)| (name.into(), g.dtype(var), g.shape(var).bound().to_vec())).collect()
    };
    for (name, dtype, dims) in inputs {
        let count: usize = dims.iter().product();
        match dtype {
            DType::Bool => program.set_bools(&name, &dims, &vec![true; count])?,
            DType::I32 => {
                let ids = (0..count).map(|i| ((i * 7919 + 1) % size.vocabulary) as i32);
                program.set_i32(&name, &dims, &ids.collect::<Vec<_>>())?;
            }
            _ => program.set_f32(&name, &dims, &vec![1e-4; count])?,
        }
    }
    Ok(())
}
