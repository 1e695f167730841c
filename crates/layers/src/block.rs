//! Blocks and stacks: attention, cross-attention where there is a memory, feed-forward, each with its norm
//! and its way past it. Encoders, decoders and encoder-decoders are the same block with other settings.

use crate::taps::tap;
use crate::{
    AttentionConfig, AttentionLayer, Cached, Context, FeedForward, FeedForwardConfig, KeySource, NormConfig,
    NormLayer, Parameter, Parameters, RelativeConfig, RelativePositions,
};
use regard_graph::{Error, Graph, Init, Result, Var};
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

impl BlockConfig {
    /// The usual one, as in GPT-2: LayerNorm before each part, GELU over four times the width, no memory, no
    /// dropout.
    pub fn new(width: usize, heads: usize) -> Result<Self> {
        Ok(BlockConfig {
            attention: AttentionConfig::new(width, heads)?,
            cross: None,
            feed_forward: FeedForwardConfig::new(width),
            norm: NormConfig::layer(width),
            place: NormPlace::Pre,
            dropout: 0.0,
        })
    }
}

/// A block. Parameters: `attention`, `attention_norm`, `cross`, `cross_norm`, `feed_forward`,
/// `feed_forward_norm`; `attention_scale` and `feed_forward_scale` where what is added is scaled.
#[derive(Clone, Debug)]
pub struct Block {
    attention: AttentionLayer,
    attention_norm: NormLayer,
    cross: Option<(AttentionLayer, NormLayer)>,
    feed_forward: FeedForward,
    feed_forward_norm: NormLayer,
    place: NormPlace,
    dropout: f32,
    /// What the channels of self-attention and feed-forward are multiplied by before they are added.
    scales: Option<[Parameter; 2]>,
}

impl Block {
    /// Declares the parameters.
    pub fn new(config: BlockConfig, parameters: &mut Parameters) -> Result<Self> {
        let BlockConfig { attention, cross, feed_forward, norm, place, dropout } = config;
        // What is added to the stream as it is is f32, as the stream is; what goes through dropout first is
        // an activation.
        let wide = dropout == 0.0;
        let norm_of = |name: &str, p: &mut Parameters| p.under(name, |p| NormLayer::new(norm, p));
        let attention_norm = norm_of("attention_norm", parameters)?;
        let attention = parameters.under("attention", |p| AttentionLayer::new(attention, p))?.wide(wide);
        let cross = match cross {
            Some(cross) => {
                let norm = norm_of("cross_norm", parameters)?;
                Some((parameters.under("cross", |p| AttentionLayer::new(cross, p))?.wide(wide), norm))
            }
            None => None,
        };
        let feed_forward_norm = norm_of("feed_forward_norm", parameters)?;
        let feed_forward =
            parameters.under("feed_forward", |p| FeedForward::new(feed_forward, p))?.wide(wide);
        let scales = None;
        Ok(Block {
            attention,
            attention_norm,
            cross,
            feed_forward,
            feed_forward_norm,
            place,
            dropout,
            scales,
        })
    }

    /// The same with a learned number for each channel that attention and feed-forward add, beginning with
    /// `begin`.
    fn scaled(self, width: usize, begin: f32, parameters: &mut Parameters) -> Result<Self> {
        let mut scale = |name: &str| parameters.declare(name, [width], Init::Constant(begin));
        let scales = Some([scale("attention_scale")?, scale("feed_forward_scale")?]);
        // The numbers are f32, and so is what they are multiplied with.
        let (attention, feed_forward) = (self.attention.wide(true), self.feed_forward.wide(true));
        Ok(Block { attention, feed_forward, scales, ..self })
    }

    /// B T C -> B T C, with what the stream may see of itself and, in a decoder, of a memory. Taps: see
    /// [`crate::taps`].
    pub fn forward(
        &self,
        g: &mut Graph,
        x: Var,
        own: &Context,
        memory: Option<(KeySource, &Context)>,
    ) -> Result<Var> {
        // x + dropout(attention(norm(x))), or norm(x + dropout(attention(x)))
        let mut x = g.scope("attention", |g| {
            let read = self.read(g, x, &self.attention_norm)?;
            let added = self.attention.forward(g, read, KeySource::Own, own)?;
            let added = self.rescaled(g, added, 0)?;
            self.add(g, x, added, &self.attention_norm)
        })?;
        if let (Some((cross, norm)), Some((source, context))) = (&self.cross, memory) {
            x = g.scope("cross", |g| {
                let read = self.read(g, x, norm)?;
                let added = cross.forward(g, read, source, context)?;
                self.add(g, x, added, norm)
            })?;
        }
        let x = g.scope("feed_forward", |g| {
            let read = self.read(g, x, &self.feed_forward_norm)?;
            let added = self.feed_forward.forward(g, read)?;
            let added = self.rescaled(g, added, 1)?;
            self.add(g, x, added, &self.feed_forward_norm)
        })?;
        tap(g, "stream", x)
    }

    /// What a part adds, each channel times its learned number where there is one.
    fn rescaled(&self, g: &mut Graph, added: Var, part: usize) -> Result<Var> {
        match &self.scales {
            None => Ok(added),
            Some(scales) => {
                let scale = scales[part].var(g)?;
                g.mul(added, scale)
            }
        }
    }

    /// What a part reads of the stream: norm(x) where norms come first, x itself where they come last.
    fn read(&self, g: &mut Graph, x: Var, norm: &NormLayer) -> Result<Var> {
        match self.place {
            NormPlace::Pre => {
                let normed = norm.forward(g, x)?;
                tap(g, "norm", normed)
            }
            NormPlace::Post => Ok(x),
        }
    }

    /// The stream behind a part: x + dropout(added), and the norm of that where norms come last.
    fn add(&self, g: &mut Graph, x: Var, added: Var, norm: &NormLayer) -> Result<Var> {
        let added = g.dropout(added, self.dropout)?;
        let added = tap(g, "added", added)?;
        let x = g.add(x, added)?;
        match self.place {
            NormPlace::Pre => Ok(x),
            NormPlace::Post => {
                let normed = norm.forward_f32(g, x)?;
                tap(g, "norm", normed)
            }
        }
    }

    /// The attention to a memory, to keep its keys and values.
    pub fn cross(&self) -> Option<&AttentionLayer> {
        self.cross.as_ref().map(|(cross, _)| cross)
    }
}

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

impl StackConfig {
    /// So many of the usual blocks ([`BlockConfig::new`]) and a norm behind them. Attention learns of no
    /// distances: set `relative`, or add positions to the embeddings.
    pub fn new(layers: usize, width: usize, heads: usize) -> Result<Self> {
        let block = BlockConfig::new(width, heads)?;
        Ok(StackConfig { layers, block, final_norm: true, relative: RelativeConfig::None })
    }
}

/// The most blocks of a stack: a hundred times as many as the deepest models have.
pub const MOST_LAYERS: usize = 10_000;

/// Blocks one after another. Parameters: `block.0`, `block.1`, …, `final_norm`, `relative`, or `relative` of
/// each block.
#[derive(Clone, Debug)]
pub struct Stack {
    blocks: Vec<Block>,
    final_norm: Option<NormLayer>,
    relative: RelativePositions,
    /// Of each block its own, instead of one for all.
    own_relatives: Vec<RelativePositions>,
}

impl Stack {
    /// Declares the parameters.
    pub fn new(config: StackConfig, parameters: &mut Parameters) -> Result<Self> {
        let StackConfig { layers, mut block, final_norm, relative } = config;
        if layers > MOST_LAYERS {
            return Err(Error::invalid(
                "stack",
                format!("{layers} blocks one after another"),
                format!("choose at most {MOST_LAYERS}"),
            ));
        }
        let heads = block.attention.heads;
        let relative = parameters.under("relative", |p| RelativePositions::new(relative, heads, p))?;
        block.attention.rotary = relative.rotary().or(block.attention.rotary);
        let mut blocks = Vec::new();
        for layer in 0..layers {
            blocks.push(parameters.under(format!("block.{layer}"), |p| Block::new(block, p))?);
        }
        let final_norm = match final_norm {
            true => Some(parameters.under("final_norm", |p| NormLayer::new(block.norm, p))?),
            false => None,
        };
        Ok(Stack { blocks, final_norm, relative, own_relatives: Vec::new() })
    }

    /// The same, where each block has a table of distances of its own instead of one for all, as in umT5.
    pub fn with_own_relatives(
        mut self,
        relative: RelativeConfig,
        heads: usize,
        parameters: &mut Parameters,
    ) -> Result<Self> {
        for layer in 0..self.blocks.len() {
            let name = format!("block.{layer}.relative");
            let own = parameters.under(name, |p| RelativePositions::new(relative, heads, p))?;
            self.own_relatives.push(own);
        }
        Ok(self)
    }

    /// The same with layer scale in every block (Touvron et al. 2021): a learned number for each channel that
    /// attention and feed-forward add, beginning with `begin`.
    pub fn scaled(mut self, width: usize, begin: f32, parameters: &mut Parameters) -> Result<Self> {
        let mut blocks = Vec::with_capacity(self.blocks.len());
        for (layer, block) in self.blocks.into_iter().enumerate() {
            blocks.push(parameters.under(format!("block.{layer}"), |p| block.scaled(width, begin, p))?);
        }
        self.blocks = blocks;
        Ok(self)
    }

    /// B T C -> B T C
    pub fn forward(
        &self,
        g: &mut Graph,
        x: Var,
        own: &Context,
        memory: Option<(KeySource, &Context)>,
    ) -> Result<Var> {
        let own = Context { bias: self.relative.bias(g)?, ..*own };
        let mut x = x;
        for (layer, block) in self.blocks.iter().enumerate() {
            let own = match self.own_relatives.get(layer) {
                Some(relative) => Context { bias: relative.bias(g)?, ..own },
                None => own,
            };
            x = g.scope(format!("block.{layer}"), |g| block.forward(g, x, &own, memory))?;
        }
        match &self.final_norm {
            Some(norm) => g.scope("final_norm", |g| norm.forward(g, x)),
            None => Ok(x),
        }
    }

    /// Computes every block's keys and values of a memory and keeps them for later runs: see
    /// [`AttentionLayer::keep`] and [`KeySource::Kept`].
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
