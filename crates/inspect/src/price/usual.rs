//! The small programs on which rates are measured: an embedding, one block and a head, in the two styles that most models are
//! of, at sizes that lie apart. No model is one of them.

use regard_engine::Program;
use regard_graph::{DType, Graph, Result};
use regard_layers::{
    AbsoluteConfig, AbsolutePositions, AttentionConfig, BlockConfig, Context, Embedding, EmbeddingConfig,
    FeedForwardConfig, FeedForwardKind, NormConfig, NormPlace, Parameters, RelativeConfig, Stack,
    StackConfig,
};
use regard_ops::prelude::*;
use regard_ops::{AdamW, CrossEntropyOptions};

/// Batch, positions, width, heads, tokens.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    batch: usize,
    length: usize,
    width: usize,
    heads: usize,
    vocabulary: usize,
}

const fn size(batch: usize, length: usize, width: usize, heads: usize, vocabulary: usize) -> Size {
    Size { batch, length, width, heads, vocabulary }
}

/// From hardly anything, where starting a kernel is all there is, to one token in a wide model and many in a narrow one.
pub const SIZES: [Size; 11] = [
    size(1, 6, 24, 3, 50),
    size(1, 1, 128, 4, 300),
    size(1, 1, 768, 12, 2500),
    size(1, 12, 96, 3, 300),
    size(1, 24, 512, 8, 2000),
    size(1, 80, 192, 6, 1000),
    size(4, 100, 320, 5, 1000),
    size(1, 160, 768, 12, 2500),
    size(8, 60, 128, 2, 300),
    size(1, 512, 128, 4, 1000),
    size(1, 900, 256, 4, 300),
];

/// How a block is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// LayerNorm, GELU, learned positions, biases; causal.
    Classic,
    /// RMSNorm, gated, rotary; causal.
    Gated,
    /// As the classic one, but open to both sides, norms behind.
    Open,
}

/// The styles in which a size is measured: all of them, or one where a pass takes long.
pub fn styles(size: Size) -> &'static [Style] {
    let macs = 12 * size.batch * size.length * size.width * size.width;
    if macs > 500_000_000 { &[Style::Classic] } else { &[Style::Classic, Style::Gated, Style::Open] }
}

/// Records a pass, or a step of training.
pub fn record(size: Size, style: Style, training: bool) -> Result<Graph> {
    let Size { batch, length, width, heads, vocabulary } = size;
    let mut parameters = Parameters::new();
    let p = &mut parameters;
    let (gated, std) = (style == Style::Gated, 0.02);
    let kind = match style {
        Style::Classic => FeedForwardKind::GeluTanh,
        Style::Gated => FeedForwardKind::GatedSilu,
        Style::Open => FeedForwardKind::Gelu,
    };
    let hidden = if gated { width * 8 / 3 } else { 4 * width };
    let block = BlockConfig {
        attention: AttentionConfig::new(width, heads)?,
        cross: None,
        feed_forward: FeedForwardConfig { width, hidden, kind, bias: !gated, dropout: 0.0, std },
        norm: if gated { NormConfig::rms(width) } else { NormConfig::layer(width) },
        place: if style == Style::Open { NormPlace::Post } else { NormPlace::Pre },
        dropout: 0.0,
    };
    let relative = if gated { RelativeConfig::Rotary(RotarySpec::default()) } else { RelativeConfig::None };
    let tokens =
        p.under("tokens", |p| Embedding::new(EmbeddingConfig { tokens: vocabulary, width, std }, p))?;
    let absolute =
        if gated { AbsoluteConfig::None } else { AbsoluteConfig::Learned { width, most: length, std } };
    let positions = p.under("positions", |p| AbsolutePositions::new(absolute, p))?;
    let stack = Stack::new(StackConfig { layers: 1, block, final_norm: style != Style::Open, relative }, p)?;
    let mut g = if training { Graph::new() } else { Graph::inference() };
    let ids = g.input("ids", DType::I32, [batch, length])?;
    let x = tokens.forward(&mut g, ids)?;
    let x = positions.forward(&mut g, x, None)?;
    let context = if style == Style::Open { Context::default() } else { Context::causal() };
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
pub fn feed(program: &mut Program, size: Size, training: bool) -> regard_engine::Result<()> {
    let Size { batch, length, vocabulary, .. } = size;
    let ids = |seed: usize| -> Vec<i32> {
        (0..batch * length).map(|i| ((i * 7919 + seed) % vocabulary) as i32).collect()
    };
    program.set_i32("ids", &[batch, length], &ids(1))?;
    if training {
        program.set_i32("targets", &[batch, length], &ids(2))?;
        program.set_f32("scale", &[], &[1.0 / (batch * length) as f32])?;
        program.set_f32("rate", &[], &[1e-4])?;
        program.set_i32("step", &[], &[1])?;
    }
    Ok(())
}
