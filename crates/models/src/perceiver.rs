//! A Perceiver (Jaegle et al., "Perceiver", 2021) as a language model: M learned latents ask the embedded
//! input once (down), blocks work on the latents alone, and the embedded input asks the latents at the end
//! (up). Everything in between costs M² instead of T². Letters: B batch, T positions, M latents, C width, H
//! heads, F hidden, V vocabulary, L layers.

use crate::decoder::{Caches, Decoder, Known};
use crate::mechanisms::Mechanisms;
use crate::positions::Positions;
use regard_graph::{Dim, Error, Graph, Init, Result, Shape, Var};
use regard_layers::{
    AbsolutePositions, AttentionConfig, AttentionLayer, BlockConfig, Context, EmbeddingConfig,
    EmbeddingLayer, FeedForward, FeedForwardConfig, FeedForwardKind, KeySource, KeySourceConfig,
    LinearConfig, LinearLayer, NormConfig, NormLayer, NormPlace, Parameter, Parameters, Stack, StackConfig,
};
use regard_ops::prelude::*;
use regard_ops::{AttentionMask, CrossEntropyOptions, LinearOptions};

/// Who may see whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PerceiverMasking {
    /// All latents see all tokens, all tokens all latents: for encoders; of no use for next tokens.
    Open,
    /// Latent i owns the tokens up to the end of chunk i, of ⌈context / M⌉ tokens each; a token sees the
    /// latents whose last token is its own or an earlier one. Of the chunk that is still going on, a token
    /// sees only itself.
    #[default]
    Prefix,
    /// As [`PerceiverMasking::Prefix`], but latent i asks chunk i alone; the blocks on the latents carry the
    /// rest.
    Chunk,
    /// As [`PerceiverMasking::Prefix`], but three quarters of the latents own one token each, from the first
    /// on, and the others share the rest: a text that is short for the context is read token by token.
    Tapered,
    /// The top left corner of one lower triangle for all attentions: latent i sees the tokens up to i, token
    /// t the latents up to t. Nothing leaks, but of the tokens from M on each sees only itself and the first
    /// M.
    Corner,
}

/// The sizes of a Perceiver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerceiverConfig {
    /// L: down, L − 2 blocks on the latents, up.
    pub layers: usize,
    /// H; they share the width.
    pub heads: usize,
    /// C.
    pub width: usize,
    /// M.
    pub latents: usize,
    /// The most positions.
    pub context: usize,
    /// V.
    pub vocabulary: usize,
    /// Who may see whom.
    pub masking: PerceiverMasking,
    /// Probability with which activations are dropped in training.
    pub dropout: f32,
    /// What its blocks are made of where that is not its own.
    pub mechanisms: Mechanisms,
}

impl PerceiverConfig {
    /// The usual one for so many tokens: two blocks on 64 latents, between reading and writing; nothing is
    /// seen before it is there.
    pub fn new(vocabulary: usize) -> Self {
        PerceiverConfig {
            layers: 4,
            heads: 8,
            width: 256,
            latents: 64,
            context: 128,
            vocabulary,
            masking: PerceiverMasking::Prefix,
            dropout: 0.0,
            mechanisms: Mechanisms::NONE,
        }
    }

    fn check(&self) -> Result<()> {
        let nonsense = |what: String, advice: &str| Err(Error::invalid("perceiver", what, advice));
        let PerceiverConfig { layers, heads, width, latents, context, vocabulary, dropout, .. } = *self;
        if [heads, width, latents, context, vocabulary].contains(&0) {
            return nonsense(format!("one of the sizes is 0: {self:?}"), "give every size at least 1");
        }
        if layers < 2 {
            return nonsense(
                format!("{layers} layers"),
                "give at least 2: one goes down to the latents, one comes up again",
            );
        }
        if latents > context {
            return nonsense(
                format!("{latents} latents for {context} positions"),
                "choose at most as many latents as positions: they are there to be fewer",
            );
        }
        self.mechanisms.check("perceiver", self.masking != PerceiverMasking::Open)?;
        if self.mechanisms.place == Some(NormPlace::Post) {
            return nonsense(
                "norms behind each part".into(),
                "leave norm_place at pre: what the latents are asked is normed, what they hold is not",
            );
        }
        if self.mechanisms.positions.is_some_and(|chosen| chosen != Positions::None && !chosen.end()) {
            return nonsense(
                "positions inside of attention, and latents that stand nowhere".into(),
                "choose learned, sinusoidal or none",
            );
        }
        if self.mechanisms.window.is_some() {
            return nonsense("a window".into(), "leave it out: what a token sees is settled by the masking");
        }
        if !(0.0..1.0).contains(&dropout) {
            let what = format!("dropout is {dropout}");
            return nonsense(what, "choose a probability from 0 up to, not including, 1");
        }
        Ok(())
    }

    /// The tokens of one latent.
    fn chunk(&self) -> usize {
        self.context.div_ceil(self.latents)
    }

    /// How many tokens latent i and those before it own when they are tapered.
    fn tapered(&self, i: usize) -> usize {
        let fine = self.latents - self.latents / 4;
        if i < fine {
            return i + 1;
        }
        fine + ((i + 1 - fine) * (self.context - fine)).div_ceil(self.latents - fine)
    }

    /// Whether latent i sees token t on the way down.
    pub fn sees_token(&self, i: usize, t: usize) -> bool {
        let chunk = self.chunk();
        match self.masking {
            PerceiverMasking::Open => true,
            PerceiverMasking::Prefix => t < (i + 1) * chunk,
            PerceiverMasking::Chunk => t / chunk == i,
            PerceiverMasking::Tapered => t < self.tapered(i),
            PerceiverMasking::Corner => t <= i,
        }
    }

    /// Whether token t sees latent i on the way up.
    pub fn sees_latent(&self, t: usize, i: usize) -> bool {
        match self.masking {
            PerceiverMasking::Open => true,
            PerceiverMasking::Prefix | PerceiverMasking::Chunk => (i + 1) * self.chunk() <= t + 1,
            PerceiverMasking::Tapered => self.tapered(i) <= t + 1,
            PerceiverMasking::Corner => i <= t,
        }
    }
}

/// Attention to another stream and a feed-forward part. Parameters: `attention_norm`, `attention`,
/// `feed_forward_norm`, `feed_forward`.
#[derive(Clone, Debug)]
struct Crossing {
    attention_norm: NormLayer,
    attention: AttentionLayer,
    feed_forward_norm: NormLayer,
    feed_forward: FeedForward,
    dropout: f32,
}

impl Crossing {
    fn new(block: &BlockConfig, p: &mut Parameters) -> Result<Self> {
        let attention =
            AttentionConfig { source: KeySourceConfig::Memory(block.attention.width), ..block.attention };
        Ok(Crossing {
            attention_norm: p.under("attention_norm", |p| NormLayer::new(block.norm, p))?,
            attention: p.under("attention", |p| AttentionLayer::new(attention, p))?,
            feed_forward_norm: p.under("feed_forward_norm", |p| NormLayer::new(block.norm, p))?,
            feed_forward: p.under("feed_forward", |p| FeedForward::new(block.feed_forward, p))?,
            dropout: block.dropout,
        })
    }

    /// x + attention(norm(x), from), then the feed-forward part. Only what asks is normed. Taps as in a
    /// block.
    fn forward(&self, g: &mut Graph, x: Var, from: Var, mask: Option<Var>) -> Result<Var> {
        let mask = AttentionMask { explicit: mask, ..Default::default() };
        let context = Context { mask, ..Default::default() };
        let x = g.scope("attention", |g| {
            let read = self.read(g, x, &self.attention_norm)?;
            let added = self.attention.forward(g, read, KeySource::Memory(from), &context)?;
            self.add(g, x, added)
        })?;
        let x = g.scope("feed_forward", |g| {
            let read = self.read(g, x, &self.feed_forward_norm)?;
            let added = self.feed_forward.forward(g, read)?;
            self.add(g, x, added)
        })?;
        g.tap("stream", x)
    }

    fn read(&self, g: &mut Graph, x: Var, norm: &NormLayer) -> Result<Var> {
        let normed = norm.forward(g, x)?;
        g.tap("norm", normed)
    }

    fn add(&self, g: &mut Graph, x: Var, added: Var) -> Result<Var> {
        let added = g.dropout(added, self.dropout)?;
        let added = g.tap("added", added)?;
        g.add(x, added)
    }
}

/// A Perceiver of some size. All methods record. Parameters: `token_embedding`, `position_embedding`,
/// `latents` [M C], `down`, `stack`, `up`, `final_norm`, `head`.
#[derive(Clone, Debug)]
pub struct Perceiver {
    config: PerceiverConfig,
    parameters: Parameters,
    embedding: EmbeddingLayer,
    positions: AbsolutePositions,
    latents: Parameter,
    down: Crossing,
    stack: Stack,
    up: Crossing,
    final_norm: NormLayer,
    head: LinearLayer,
}

impl Perceiver {
    /// A model of these sizes, if they make sense.
    pub fn new(config: PerceiverConfig) -> Result<Self> {
        config.check()?;
        let PerceiverConfig { layers, heads, width, latents, context, vocabulary, dropout, .. } = config;
        let (hidden, std, norm) = (4 * width, 0.02, NormConfig::layer(width));
        let kind = FeedForwardKind::Gelu;
        let mut block = BlockConfig {
            attention: AttentionConfig { dropout, ..config.mechanisms.attention_of(width, heads)? },
            cross: None,
            feed_forward: FeedForwardConfig { width, hidden, kind, bias: true, dropout: 0.0, std },
            norm,
            place: NormPlace::Pre,
            dropout,
        };
        config.mechanisms.apply(&mut block);
        let norm = block.norm;
        let mut parameters = Parameters::new();
        let p = &mut parameters;
        let table = EmbeddingConfig { tokens: vocabulary, width, std };
        let embedding = p.under("token_embedding", |p| EmbeddingLayer::new(table, p))?;
        let chosen = config.mechanisms.positions.unwrap_or(Positions::Learned);
        let (absolute, relative) = chosen.parts(width, context, std, true);
        let positions = p.under("position_embedding", |p| AbsolutePositions::new(absolute, p))?;
        let latents = p.declare("latents", [latents, width], Init::Normal(std))?;
        let down = p.under("down", |p| Crossing::new(&block, p))?;
        let stack = StackConfig { layers: layers - 2, block, final_norm: false, relative };
        let stack = p.under("stack", |p| Stack::new(stack, p))?;
        let up = p.under("up", |p| Crossing::new(&block, p))?;
        let final_norm = p.under("final_norm", |p| NormLayer::new(norm, p))?;
        let head = LinearConfig::new(width, vocabulary).without_bias();
        let head = p.under("head", |p| LinearLayer::new(head, p))?;
        Ok(Perceiver { config, parameters, embedding, positions, latents, down, stack, up, final_norm, head })
    }

    /// Its sizes.
    pub fn config(&self) -> &PerceiverConfig {
        &self.config
    }

    /// What it learns.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The scores of the next token at every position: B T -> B T V.
    pub fn logits(&self, g: &mut Graph, ids: Var) -> Result<Var> {
        let x = self.hidden(g, ids)?;
        self.scores(g, x)
    }

    /// What the head makes of a stream: … C -> … V, f32.
    pub fn scores(&self, g: &mut Graph, x: Var) -> Result<Var> {
        let options = LinearOptions { output: Some(DType::F32), ..Default::default() };
        g.scope("head", |g| self.head.forward_with(g, x, options))
    }

    /// The sum of the losses of all targets times `scale`, a single number. Targets of −100 are ignored.
    pub fn loss(&self, g: &mut Graph, ids: Var, targets: Var, scale: Var) -> Result<Var> {
        self.loss_with(g, ids, targets, scale, CrossEntropyOptions::default())
    }

    /// The same with settings of its own, such as smoothed targets.
    pub fn loss_with(
        &self,
        g: &mut Graph,
        ids: Var,
        targets: Var,
        scale: Var,
        options: CrossEntropyOptions,
    ) -> Result<Var> {
        let x = self.hidden(g, ids)?;
        let weight = self.head.weight(g)?;
        let losses = g.scope("head", |g| g.linear_cross_entropy(x, weight, None, targets, scale, options))?;
        Ok(losses.loss)
    }

    /// The stream after the last norm: B T -> B T C. Taps: `latents`, what the last block left in them.
    pub fn hidden(&self, g: &mut Graph, ids: Var) -> Result<Var> {
        let PerceiverConfig { latents, width, dropout, masking, .. } = self.config;
        g.check_operands("perceiver", &[ids])?;
        let [batch, length] = match g.shape(ids).as_ref() {
            [batch, length] => [batch.clone(), length.clone()],
            _ => {
                return Err(Error::invalid(
                    "perceiver",
                    format!("ids are {}", g.shape(ids)),
                    "give ids [B T]",
                ));
            }
        };
        let x = g.scope("embedding", |g| {
            let x = self.embedding.forward(g, ids)?; // B T C
            let x = self.positions.forward(g, x, None)?;
            g.dropout(x, dropout)
        })?;
        let [down, up] = self.masks(g, &length)?;
        let z = g.scope("down", |g| {
            // The same latents for every example: M C -> B M C
            let own = self.latents.var(g)?;
            let room = g.fill(DType::F32, Shape::new(vec![batch, latents.into(), width.into()]), 0.0)?;
            let own = g.broadcast_to(own, room)?;
            self.down.forward(g, own, x, down)
        })?;
        let among = if masking == PerceiverMasking::Open { Context::default() } else { Context::causal() };
        let z = g.scope("stack", |g| self.stack.forward(g, z, &among, None))?;
        let z = g.tap("latents", z)?;
        let x = g.scope("up", |g| self.up.forward(g, x, z, up))?;
        g.scope("final_norm", |g| self.final_norm.forward(g, x))
    }

    /// Who sees whom on the way down, bool [1 1 M T], and up, bool [1 1 T M].
    fn masks(&self, g: &mut Graph, length: &Dim) -> Result<[Option<Var>; 2]> {
        let PerceiverConfig { latents, context, masking, .. } = self.config;
        if masking == PerceiverMasking::Open {
            return Ok([None, None]);
        }
        // A length that is known gives constants, which readers can look into; an open one slices them.
        let most = length.fixed().map_or(context, |length| length.min(context));
        let number = |sees: bool| f64::from(u8::from(sees));
        let down: Vec<f64> = (0..latents)
            .flat_map(|i| (0..most).map(move |t| (i, t)))
            .map(|(i, t)| number(self.config.sees_token(i, t)))
            .collect();
        let up: Vec<f64> = (0..most)
            .flat_map(|t| (0..latents).map(move |i| (t, i)))
            .map(|(t, i)| number(self.config.sees_latent(t, i)))
            .collect();
        let mut down = g.constant(DType::Bool, [1, 1, latents, most], &down)?;
        let mut up = g.constant(DType::Bool, [1, 1, most, latents], &up)?;
        if length.fixed().is_none() {
            down = g.slice(down, 3, 0, length)?;
            up = g.slice(up, 2, 0, length)?;
        }
        Ok([Some(down), Some(up)])
    }
}

/// A latent changes with every token of its chunk, so that there is nothing to keep: whole texts are read
/// again.
impl Decoder for Perceiver {
    fn vocabulary(&self) -> usize {
        self.config.vocabulary
    }

    fn context(&self) -> Option<usize> {
        Some(self.config.context)
    }

    fn window(&self) -> Option<usize> {
        None
    }

    fn caches(&self) -> Caches {
        Caches::None
    }

    fn resume(&self, g: &mut Graph, ids: Var, known: Known) -> Result<Var> {
        let refuse = |what: &str, advice: &str| Err(Error::invalid("perceiver", what, advice));
        if let Known::Cached(_) = known {
            return refuse("it keeps nothing from run to run", "give it whole texts, and where each ends");
        }
        if self.config.masking == PerceiverMasking::Open {
            return refuse(
                "with open masks a token sees what follows it, padding too",
                "give it another masking to continue texts",
            );
        }
        self.hidden(g, ids)
    }

    fn scores(&self, g: &mut Graph, x: Var) -> Result<Var> {
        Perceiver::scores(self, g, x)
    }
}
