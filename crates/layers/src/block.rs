//! Blocks and stacks: attention, cross-attention where there is a memory, feed-forward, each with its norm
//! and its way past it. Encoders, decoders and encoder-decoders are the same block with other settings.

use crate::taps::tap;
use crate::{
    AttentionConfig, AttentionLayer, Cached, Context, FeedForward, FeedForwardConfig, KeySource, NormConfig,
    NormLayer, Parameter, Parameters, RelativeConfig, RelativePositions,
};
use regard_graph::{Error, Graph, Init, Result, Var};
use regard_ops::prelude::*;

/// Where the norms of the parts f stand, and what the parts read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NormPlace {
    /// x + f(norm(x)): GPT-2, T5, Llama, ViT.
    #[default]
    Pre,
    /// norm(x + f(x)): the original Transformer, BERT.
    Post,
    /// x + norm′(f(norm(x))): Gemma 2 and 3.
    Sandwich,
    /// x + norm(f(x)): OLMo 2.
    Output,
    /// x + attention(norm(x)) + feed_forward(norm′(x)), both from the same stream: GPT-NeoX.
    Parallel,
    /// The same with one norm for both: GPT-J.
    ParallelShared,
}

impl NormPlace {
    /// Whether what a block leaves behind has not been through a norm, so that one follows the last block.
    pub fn leaves_raw(self) -> bool {
        self != NormPlace::Post
    }

    /// Whether attention and the feed-forward part read the same stream.
    pub fn is_parallel(self) -> bool {
        matches!(self, NormPlace::Parallel | NormPlace::ParallelShared)
    }
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
/// `feed_forward_norm`; for [`NormPlace::Sandwich`] also `attention_output_norm` and so on; `attention_scale`
/// and `feed_forward_scale` where what is added is scaled.
#[derive(Clone, Debug)]
pub struct Block {
    attention: AttentionLayer,
    attention_norms: Norms,
    cross: Option<(AttentionLayer, Norms)>,
    feed_forward: FeedForward,
    feed_forward_norms: Norms,
    place: NormPlace,
    dropout: f32,
    residual_scale: f32,
    /// What the channels of self-attention and feed-forward are multiplied by before they are added.
    scales: Option<[Parameter; 2]>,
}

/// The norms of one part.
#[derive(Clone, Debug)]
struct Norms {
    /// Its norm, wherever it stands; none where it reads what another part has normed.
    main: Option<NormLayer>,
    /// The norm of what it adds, where it has one on either side.
    output: Option<NormLayer>,
}

impl Norms {
    fn new(part: &str, config: &BlockConfig, p: &mut Parameters) -> Result<Self> {
        let mut norm = |name: &str, there: bool| match there {
            true => p.under(format!("{part}_{name}"), |p| NormLayer::new(config.norm, p)).map(Some),
            false => Ok(None),
        };
        let shared = config.place == NormPlace::ParallelShared && part == "feed_forward";
        let main = norm("norm", !shared)?;
        Ok(Norms { main, output: norm("output_norm", config.place == NormPlace::Sandwich)? })
    }

    /// What the norm of this place makes of x, if it stands there.
    fn apply(norm: Option<&NormLayer>, g: &mut Graph, x: Var, wide: bool) -> Result<Var> {
        let Some(norm) = norm else { return Ok(x) };
        let normed = if wide { norm.forward_f32(g, x)? } else { norm.forward(g, x)? };
        tap(g, "norm", normed)
    }
}

impl Block {
    /// Declares the parameters.
    pub fn new(config: BlockConfig, parameters: &mut Parameters) -> Result<Self> {
        let BlockConfig { attention, cross, feed_forward, place, dropout, .. } = config;
        if place.is_parallel() && cross.is_some() {
            return Err(Error::invalid(
                "block",
                "parts that read the same stream, one of them attention to a memory",
                "let the parts follow each other, or leave the memory out",
            ));
        }
        // What is added to the stream as it is is f32, as the stream is; what goes through dropout first is
        // an activation.
        let wide = dropout == 0.0;
        let attention_norms = Norms::new("attention", &config, parameters)?;
        let attention = parameters.under("attention", |p| AttentionLayer::new(attention, p))?.wide(wide);
        let cross = match cross {
            Some(cross) => {
                let norms = Norms::new("cross", &config, parameters)?;
                Some((parameters.under("cross", |p| AttentionLayer::new(cross, p))?.wide(wide), norms))
            }
            None => None,
        };
        let feed_forward_norms = Norms::new("feed_forward", &config, parameters)?;
        let feed_forward =
            parameters.under("feed_forward", |p| FeedForward::new(feed_forward, p))?.wide(wide);
        Ok(Block {
            attention,
            attention_norms,
            cross,
            feed_forward,
            feed_forward_norms,
            place,
            dropout,
            residual_scale: 1.0,
            scales: None,
        })
    }

    /// The same block; what its parts add to the stream is multiplied by a number, as in Granite.
    pub fn residual_scale(self, residual_scale: f32) -> Self {
        Block { residual_scale, ..self }
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
        let entered = x;
        let mut shared = x;
        // x + dropout(attention(norm(x))), or norm(x + dropout(attention(x)))
        let mut x = g.scope("attention", |g| {
            shared = self.read(g, x, &self.attention_norms)?;
            let added = self.attention.forward(g, shared, KeySource::Own, own)?;
            let added = self.rescaled(g, added, 0)?;
            self.add(g, x, added, &self.attention_norms)
        })?;
        if let (Some((cross, norms)), Some((source, context))) = (&self.cross, memory) {
            x = g.scope("cross", |g| {
                let read = self.read(g, x, norms)?;
                let added = cross.forward(g, read, source, context)?;
                self.add(g, x, added, norms)
            })?;
        }
        let x = g.scope("feed_forward", |g| {
            let read = match self.place {
                NormPlace::Parallel => self.read(g, entered, &self.feed_forward_norms)?,
                NormPlace::ParallelShared => shared,
                _ => self.read(g, x, &self.feed_forward_norms)?,
            };
            let added = self.feed_forward.forward(g, read)?;
            let added = self.rescaled(g, added, 1)?;
            self.add(g, x, added, &self.feed_forward_norms)
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
    fn read(&self, g: &mut Graph, x: Var, norms: &Norms) -> Result<Var> {
        match self.place {
            NormPlace::Post | NormPlace::Output => Ok(x),
            _ => Norms::apply(norms.main.as_ref(), g, x, false),
        }
    }

    /// The stream behind a part: x + dropout(added), and the norm of either where it stands there.
    fn add(&self, g: &mut Graph, x: Var, added: Var, norms: &Norms) -> Result<Var> {
        let added = match self.place {
            NormPlace::Output => Norms::apply(norms.main.as_ref(), g, added, true)?,
            _ => Norms::apply(norms.output.as_ref(), g, added, true)?,
        };
        let added = if self.residual_scale == 1.0 { added } else { g.scale(added, self.residual_scale)? };
        let added = g.dropout(added, self.dropout)?;
        let added = tap(g, "added", added)?;
        let x = g.add(x, added)?;
        match self.place {
            NormPlace::Post => Norms::apply(norms.main.as_ref(), g, x, true),
            _ => Ok(x),
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
        Stack::of_blocks(config, |_| config.block, parameters)
    }

    /// The same with blocks that differ: `block` says what each layer is made of, in place of `config.block`.
    /// They have as many heads, and a norm of the same kind behind them.
    pub fn of_blocks(
        config: StackConfig,
        block: impl Fn(usize) -> BlockConfig,
        parameters: &mut Parameters,
    ) -> Result<Self> {
        let StackConfig { layers, block: usual, final_norm, relative } = config;
        if layers > MOST_LAYERS {
            return Err(Error::invalid(
                "stack",
                format!("{layers} blocks one after another"),
                format!("choose at most {MOST_LAYERS}"),
            ));
        }
        let heads = usual.attention.heads;
        let relative = parameters.under("relative", |p| RelativePositions::new(relative, heads, p))?;
        let mut blocks = Vec::new();
        for layer in 0..layers {
            let mut block = block(layer);
            block.attention.rotary = relative.rotary().or(block.attention.rotary);
            blocks.push(parameters.under(format!("block.{layer}"), |p| Block::new(block, p))?);
        }
        let final_norm = match final_norm {
            true => Some(parameters.under("final_norm", |p| NormLayer::new(usual.norm, p))?),
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

    /// The same stack; what its parts add to the stream is multiplied by a number, as in Granite.
    pub fn residual_scale(self, scale: f32) -> Self {
        let blocks = self.blocks.into_iter().map(|block| block.residual_scale(scale)).collect();
        Stack { blocks, ..self }
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

    /// The same of one block that runs again and again, as in ALBERT: its parameters are `block.0`.
    pub fn repeated(config: StackConfig, parameters: &mut Parameters) -> Result<Self> {
        let mut stack = Stack::new(StackConfig { layers: config.layers.min(1), ..config }, parameters)?;
        if config.layers > MOST_LAYERS {
            return Err(Error::invalid(
                "stack",
                format!("a block that runs {} times", config.layers),
                format!("choose at most {MOST_LAYERS}"),
            ));
        }
        if let Some(block) = stack.blocks.pop() {
            stack.blocks = vec![block; config.layers];
        }
        Ok(stack)
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
