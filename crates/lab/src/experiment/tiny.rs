//! A Transformer for experiments: the layers of the library, put together so that norms, residuals, positions
//! and the feed-forward part can each be changed or left out.

use regard::layers::{
    AbsoluteConfig, AbsolutePositions, AttentionConfig, AttentionLayer, Context as Surroundings,
    EmbeddingConfig, EmbeddingLayer, FeedForward, FeedForwardConfig, FeedForwardKind, HeadScale, KeySource,
    LinearConfig, LinearLayer, NormConfig, NormLayer, Parameters, RelativeConfig, RelativePositions,
};
use regard::ops::{Attention, AttentionKind, AttentionMask, AttentionScale};
use regard::prelude::*;
use regard_graph::Result;

/// How order is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Not at all.
    None,
    /// A learned vector for each place.
    Learned,
    /// Sines and cosines.
    Sinusoidal,
    /// Queries and keys are turned.
    Rotary,
    /// Scores fall with the distance.
    Alibi,
    /// T5's buckets of distances.
    Buckets,
}

impl Encoding {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::None => "none",
            Encoding::Learned => "learned",
            Encoding::Sinusoidal => "sinusoidal",
            Encoding::Rotary => "rotary",
            Encoding::Alibi => "ALiBi",
            Encoding::Buckets => "T5 buckets",
        }
    }
}

/// Where the norms stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norming {
    /// Nowhere.
    None,
    /// Before each part, and at the end.
    Pre,
    /// After each sum.
    Post,
}

/// What stands between two attentions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Middle {
    /// Nothing.
    None,
    /// Two linear layers and nothing between them.
    Linear,
    /// Two linear layers and a non-linearity.
    Curved(FeedForwardKind),
}

/// The settings.
#[derive(Clone, Copy, Debug)]
pub struct Tiny {
    /// Tokens.
    pub vocabulary: usize,
    /// C.
    pub width: usize,
    /// H.
    pub heads: usize,
    /// Blocks.
    pub layers: usize,
    /// The hidden width of the feed-forward part.
    pub hidden: usize,
    /// How order is told.
    pub encoding: Encoding,
    /// Rows of a table of positions.
    pub most: usize,
    /// Whether a position sees only what came before.
    pub causal: bool,
    /// β.
    pub scale: HeadScale,
    /// Soft or hard.
    pub kind: AttentionKind,
    /// Where the norms stand.
    pub norming: Norming,
    /// Whether there is a way past each part.
    pub residual: bool,
    /// What stands between two attentions.
    pub middle: Middle,
    /// Standard deviation of the weights at the beginning, in units of 1/√C.
    pub gain: f32,
}

impl Tiny {
    /// One pre-norm block of two heads with ReLU and learned positions.
    pub fn new(vocabulary: usize, width: usize) -> Self {
        Tiny {
            vocabulary,
            width,
            heads: 2,
            layers: 1,
            hidden: 4 * width,
            encoding: Encoding::Learned,
            most: 64,
            causal: false,
            scale: HeadScale::Default,
            kind: AttentionKind::Soft,
            norming: Norming::Pre,
            residual: true,
            middle: Middle::Curved(FeedForwardKind::Relu),
            gain: 1.0,
        }
    }
}

#[derive(Clone, Debug)]
enum Between {
    None,
    Linear(LinearLayer, LinearLayer),
    Curved(FeedForward),
}

#[derive(Clone, Debug)]
struct Block {
    attention: AttentionLayer,
    between: Between,
    norms: Option<[NormLayer; 2]>,
}

/// A model. Parameters: `token_embedding`, `position_embedding`, `relative`, `block.<n>.attention`,
/// `.between`, `.norm`, `final_norm`, `head`.
#[derive(Clone, Debug)]
pub struct Model {
    config: Tiny,
    parameters: Parameters,
    tokens: EmbeddingLayer,
    absolute: AbsolutePositions,
    relative: RelativePositions,
    blocks: Vec<Block>,
    final_norm: Option<NormLayer>,
    head: LinearLayer,
}

impl Model {
    /// Declares the parameters.
    pub fn new(config: Tiny) -> Result<Self> {
        let Tiny { vocabulary, width, heads, hidden, most, .. } = config;
        let std = config.gain / (width as f32).sqrt();
        let mut parameters = Parameters::new();
        let p = &mut parameters;
        let tokens = p.under("token_embedding", |p| {
            EmbeddingLayer::new(EmbeddingConfig { tokens: vocabulary, width, std: 1.0 }, p)
        })?;
        let absolute = match config.encoding {
            Encoding::Learned => AbsoluteConfig::Learned { width, most, std: 0.5 },
            Encoding::Sinusoidal => AbsoluteConfig::Sinusoidal { width, most },
            _ => AbsoluteConfig::None,
        };
        let absolute = p.under("position_embedding", |p| AbsolutePositions::new(absolute, p))?;
        let relative = match config.encoding {
            Encoding::Rotary => RelativeConfig::Rotary(RotarySpec::default()),
            Encoding::Alibi => RelativeConfig::Alibi,
            Encoding::Buckets => {
                RelativeConfig::Buckets { buckets: 16, max_distance: 32, bidirectional: !config.causal }
            }
            _ => RelativeConfig::None,
        };
        let relative = p.under("relative", |p| RelativePositions::new(relative, heads, p))?;
        let attention = AttentionConfig {
            rotary: relative.rotary(),
            scale: config.scale,
            kind: config.kind,
            std,
            ..AttentionConfig::new(width, heads)?
        };
        let linear = |inputs, outputs| LinearConfig { inputs, outputs, bias: true, std };
        let mut blocks = Vec::new();
        for layer in 0..config.layers {
            blocks.push(p.under(format!("block.{layer}"), |p| -> Result<Block> {
                let attention = p.under("attention", |p| AttentionLayer::new(attention, p))?;
                let between = p.under("between", |p| -> Result<Between> {
                    Ok(match config.middle {
                        Middle::None => Between::None,
                        Middle::Linear => Between::Linear(
                            p.under("up", |p| LinearLayer::new(linear(width, hidden), p))?,
                            p.under("down", |p| LinearLayer::new(linear(hidden, width), p))?,
                        ),
                        Middle::Curved(kind) => {
                            let own =
                                FeedForwardConfig { width, hidden, kind, bias: true, dropout: 0.0, std };
                            Between::Curved(FeedForward::new(own, p)?)
                        }
                    })
                })?;
                let mut norm = |name: &str| p.under(name, |p| NormLayer::new(NormConfig::layer(width), p));
                let norms = match config.norming {
                    Norming::None => None,
                    _ => Some([norm("attention_norm")?, norm("between_norm")?]),
                };
                Ok(Block { attention, between, norms })
            })?);
        }
        let final_norm = match config.norming {
            Norming::Pre => Some(p.under("final_norm", |p| NormLayer::new(NormConfig::layer(width), p))?),
            _ => None,
        };
        let head = p.under("head", |p| LinearLayer::new(linear(width, vocabulary), p))?;
        Ok(Model { config, parameters, tokens, absolute, relative, blocks, final_norm, head })
    }

    /// Its settings.
    pub fn config(&self) -> &Tiny {
        &self.config
    }

    /// What it learns.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The same parameters under other settings of attention.
    pub fn with(&self, change: impl FnOnce(&mut Tiny)) -> Result<Model> {
        let mut config = self.config;
        change(&mut config);
        Model::new(config)
    }

    /// The embedded ids with their positions: B T -> B T C. Tap: `embedding`.
    pub fn embed(&self, g: &mut Graph, ids: Var) -> Result<Var> {
        let x = self.tokens.forward(g, ids)?;
        let x = self.absolute.forward(g, x, None)?;
        g.tap("embedding", x)
    }

    /// From embeddings to scores: B T C -> B T V. Taps: `stream.<layer>`.
    pub fn scores(&self, g: &mut Graph, x: Var) -> Result<Var> {
        let surroundings = Surroundings {
            mask: AttentionMask { causal: self.config.causal, ..Default::default() },
            bias: self.relative.bias(g)?,
            ..Default::default()
        };
        let mut x = x;
        for (layer, block) in self.blocks.iter().enumerate() {
            x = self
                .part(g, x, block, 0, |g, x| block.attention.forward(g, x, KeySource::Own, &surroundings))?;
            x = match &block.between {
                Between::None => x,
                Between::Linear(up, down) => self.part(g, x, block, 1, |g, x| {
                    let x = up.forward(g, x)?;
                    down.forward(g, x)
                })?,
                Between::Curved(part) => self.part(g, x, block, 1, |g, x| part.forward(g, x))?,
            };
            x = g.tap(&format!("stream.{layer}"), x)?;
        }
        if let Some(norm) = &self.final_norm {
            x = norm.forward(g, x)?;
        }
        self.head.forward(g, x)
    }

    /// B T -> B T V
    pub fn logits(&self, g: &mut Graph, ids: Var) -> Result<Var> {
        let x = self.embed(g, ids)?;
        self.scores(g, x)
    }

    /// What its attentions are like, for looking at weights; not for biases by distance.
    pub fn spec(&self) -> Attention {
        let scale = match self.config.scale {
            HeadScale::Constant(beta) => AttentionScale::Constant(beta),
            _ => AttentionScale::Default,
        };
        let mask = AttentionMask { causal: self.config.causal, ..Default::default() };
        Attention { scale, mask, kind: self.config.kind, ..Default::default() }
    }

    /// One part with its norm and the way past it, as far as there are such.
    fn part(
        &self,
        g: &mut Graph,
        x: Var,
        block: &Block,
        which: usize,
        record: impl FnOnce(&mut Graph, Var) -> Result<Var>,
    ) -> Result<Var> {
        let norm = block.norms.as_ref().map(|norms| &norms[which]);
        let before = match (norm, self.config.norming) {
            (Some(norm), Norming::Pre) => norm.forward(g, x)?,
            _ => x,
        };
        let y = record(g, before)?;
        let y = if self.config.residual { g.add(x, y)? } else { y };
        match (norm, self.config.norming) {
            (Some(norm), Norming::Post) => norm.forward(g, y),
            _ => Ok(y),
        }
    }
}
