//! Blocks and stacks: attention, cross-attention where there is a memory, feed-forward, each with its norm and its way
//! past it. Encoders, decoders and encoder-decoders are the same block with other settings.

use crate::{
    AttentionConfig, AttentionLayer, Cached, Context, FeedForward, FeedForwardConfig, Norm, NormConfig,
    Parameters, RelativeConfig, RelativePositions, Source,
};
use regard_graph::{Graph, Result, Var};
use regard_ops::prelude::*;

/// Where the norms stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NormPlace {
    /// x + f(norm(x)): GPT-2, T5, Llama, ViT.
    #[default]
    Pre,
    /// norm(x + f(x)): the original Transformer, BERT.
    Post,
}

/// The settings of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockConfig {
    /// Self-attention.
    pub attention: AttentionConfig,
    /// Attention to a memory, in decoders that have one.
    pub cross: Option<AttentionConfig>,
    /// The feed-forward part.
    pub feed_forward: FeedForwardConfig,
    /// All norms of the block.
    pub norm: NormConfig,
    /// Where they stand.
    pub place: NormPlace,
    /// Probability of dropping what each part adds to the stream, in training.
    pub dropout: f32,
}

/// A block. Parameters: `attention`, `attention_norm`, `cross`, `cross_norm`, `feed_forward`, `feed_forward_norm`.
#[derive(Clone, Debug)]
pub struct Block {
    attention: AttentionLayer,
    attention_norm: Norm,
    cross: Option<(AttentionLayer, Norm)>,
    feed_forward: FeedForward,
    feed_forward_norm: Norm,
    place: NormPlace,
    dropout: f32,
}

impl Block {
    /// Declares the parameters.
    pub fn new(config: BlockConfig, parameters: &mut Parameters) -> Result<Self> {
        let BlockConfig { attention, cross, feed_forward, norm, place, dropout } = config;
        let norm_of = |name: &str, p: &mut Parameters| p.under(name, |p| Norm::new(norm, p));
        let attention_norm = norm_of("attention_norm", parameters)?;
        let attention = parameters.under("attention", |p| AttentionLayer::new(attention, p))?;
        let cross = match cross {
            Some(cross) => {
                let norm = norm_of("cross_norm", parameters)?;
                Some((parameters.under("cross", |p| AttentionLayer::new(cross, p))?, norm))
            }
            None => None,
        };
        let feed_forward_norm = norm_of("feed_forward_norm", parameters)?;
        let feed_forward = parameters.under("feed_forward", |p| FeedForward::new(feed_forward, p))?;
        Ok(Block { attention, attention_norm, cross, feed_forward, feed_forward_norm, place, dropout })
    }

    /// B T C -> B T C, with what the stream may see of itself and, in a decoder, of a memory.
    pub fn forward(
        &self,
        g: &mut Graph,
        x: Var,
        own: &Context,
        memory: Option<(Source, &Context)>,
    ) -> Result<Var> {
        let x = g.scope("attention", |g| {
            self.part(g, x, &self.attention_norm, &|g, stream, x| match stream {
                Some(stream) => self.attention.onto(g, stream, x, Source::Own, own),
                None => self.attention.forward(g, x, Source::Own, own),
            })
        })?;
        let x = match (&self.cross, memory) {
            (Some((cross, norm)), Some((source, context))) => g.scope("cross", |g| {
                self.part(g, x, norm, &|g, stream, x| match stream {
                    Some(stream) => cross.onto(g, stream, x, source, context),
                    None => cross.forward(g, x, source, context),
                })
            })?,
            _ => x,
        };
        let x = g.scope("feed_forward", |g| {
            self.part(g, x, &self.feed_forward_norm, &|g, stream, x| match stream {
                Some(stream) => self.feed_forward.onto(g, stream, x),
                None => self.feed_forward.forward(g, x),
            })
        })?;
        g.tap("stream", x)
    }

    /// The attention to a memory, to keep its keys and values.
    pub fn cross(&self) -> Option<&AttentionLayer> {
        self.cross.as_ref().map(|(cross, _)| cross)
    }

    /// One part with its norm and the way past it. Without dropout the sum is part of the part's last product.
    fn part(&self, g: &mut Graph, x: Var, norm: &Norm, part: &Part<'_>) -> Result<Var> {
        let before = if self.place == NormPlace::Pre { norm.forward(g, x)? } else { x };
        let sum = if self.dropout == 0.0 {
            part(g, Some(x), before)?
        } else {
            let y = part(g, None, before)?;
            let y = g.dropout(y, self.dropout)?;
            g.add(x, y)?
        };
        if self.place == NormPlace::Post { norm.forward_f32(g, sum) } else { Ok(sum) }
    }
}

/// Records a part: onto a stream if one is given, by itself otherwise.
type Part<'a> = dyn Fn(&mut Graph, Option<Var>, Var) -> Result<Var> + 'a;

/// The settings of a stack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StackConfig {
    /// How many blocks.
    pub layers: usize,
    /// Each of them.
    pub block: BlockConfig,
    /// Whether a norm follows the last one, as after pre-norm blocks.
    pub final_norm: bool,
    /// How attention learns of distances; tables are shared by all blocks.
    pub relative: RelativeConfig,
}

/// Blocks one after another. Parameters: `block.0`, `block.1`, …, `final_norm`, `relative`.
#[derive(Clone, Debug)]
pub struct Stack {
    blocks: Vec<Block>,
    final_norm: Option<Norm>,
    relative: RelativePositions,
}

impl Stack {
    /// Declares the parameters.
    pub fn new(config: StackConfig, parameters: &mut Parameters) -> Result<Self> {
        let StackConfig { layers, mut block, final_norm, relative } = config;
        let heads = block.attention.heads;
        let relative = parameters.under("relative", |p| RelativePositions::new(relative, heads, p))?;
        block.attention.rotary = relative.rotary().or(block.attention.rotary);
        let mut blocks = Vec::new();
        for layer in 0..layers {
            blocks.push(parameters.under(format!("block.{layer}"), |p| Block::new(block, p))?);
        }
        let final_norm = match final_norm {
            true => Some(parameters.under("final_norm", |p| Norm::new(block.norm, p))?),
            false => None,
        };
        Ok(Stack { blocks, final_norm, relative })
    }

    /// B T C -> B T C
    pub fn forward(
        &self,
        g: &mut Graph,
        x: Var,
        own: &Context,
        memory: Option<(Source, &Context)>,
    ) -> Result<Var> {
        let own = Context { bias: self.relative.bias(g)?, ..*own };
        let mut x = x;
        for (layer, block) in self.blocks.iter().enumerate() {
            x = g.scope(format!("block.{layer}"), |g| block.forward(g, x, &own, memory))?;
        }
        match &self.final_norm {
            Some(norm) => g.scope("final_norm", |g| norm.forward(g, x)),
            None => Ok(x),
        }
    }

    /// Computes every block's keys and values of a memory and keeps them for later runs: see
    /// [`AttentionLayer::keep`] and [`Source::Kept`].
    pub fn keep(&self, g: &mut Graph, memory: Var, cached: &Cached) -> Result<()> {
        for (layer, block) in self.blocks.iter().enumerate() {
            if let Some(cross) = block.cross() {
                g.scope(format!("block.{layer}.cross"), |g| cross.keep(g, memory, cached))?;
            }
        }
        Ok(())
    }

    /// Its blocks.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }
}
