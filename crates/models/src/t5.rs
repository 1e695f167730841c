//! T5 (Raffel et al., "Exploring the Limits of Transfer Learning", 2020): an encoder and a decoder of
//! pre-norm blocks with RMSNorm and no biases. Scores are q·k without 1/√D, plus one learned number for each
//! bucket of distances and head; the table is shared by all blocks of a stack, and attention to the memory
//! has none. v1.0: ReLU, the head is the embedding and its input is scaled by 1/√C. v1.1: gated GELU, a head
//! of its own. umT5 (Chung et al. 2023): a table of distances for each block. Letters: B batch, S source
//! positions, T target positions, C width, H heads, D head width, F hidden, V vocabulary.

use crate::decoding::{EncoderDecoder, padded};
use crate::mechanisms::Mechanisms;
use crate::positions::Positions;
use regard_graph::{Error, Graph, Result, Var};
use regard_layers::{
    AttentionConfig, Biases, BlockConfig, Context, EmbeddingConfig, EmbeddingLayer, FeedForwardConfig,
    FeedForwardKind, HeadScale, KeySource, KeySourceConfig, LinearConfig, LinearLayer, NormConfig, NormPlace,
    Parameters, RelativeConfig, Stack, StackConfig,
};
use regard_ops::prelude::*;
use regard_ops::{CrossEntropyOptions, LinearOptions};

/// The sizes of a T5.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct T5Config {
    /// V, how many tokens there are.
    pub vocabulary: usize,
    /// C, the width of the residual streams.
    pub width: usize,
    /// H.
    pub heads: usize,
    /// D; H·D need not be C.
    pub head_width: usize,
    /// F, the hidden width of the feed-forward parts.
    pub hidden: usize,
    /// Blocks of the encoder.
    pub encoder_layers: usize,
    /// Blocks of the decoder.
    pub decoder_layers: usize,
    /// Buckets of distances.
    pub buckets: usize,
    /// From this distance on all share the last bucket.
    pub max_distance: usize,
    /// gelu(gate) ⊙ up instead of ReLU: v1.1.
    pub gated: bool,
    /// The head is the embedding: v1.0.
    pub tied: bool,
    /// What enters the head is scaled by 1/√C: v1.0.
    pub scaled: bool,
    /// Kept as an mT5: the same model under a name of its own.
    pub multilingual: bool,
    /// Each block has its own table of distances: umT5.
    pub own_tables: bool,
    /// Added to mean squares in the norms.
    pub epsilon: f32,
    /// Probability with which activations are dropped in training.
    pub dropout: f32,
    /// What its blocks are made of where that is not T5's own.
    pub mechanisms: Mechanisms,
}

impl Default for T5Config {
    /// t5-small as first published.
    fn default() -> Self {
        T5Config::small()
    }
}

impl T5Config {
    /// t5-small as first published.
    pub fn small() -> Self {
        T5Config {
            vocabulary: 32128,
            width: 512,
            heads: 8,
            head_width: 64,
            hidden: 2048,
            encoder_layers: 6,
            decoder_layers: 6,
            buckets: 32,
            max_distance: 128,
            gated: false,
            tied: true,
            scaled: true,
            multilingual: false,
            own_tables: false,
            epsilon: 1e-6,
            dropout: 0.1,
            mechanisms: Mechanisms::NONE,
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let nonsense = |what: String, advice: &str| Err(Error::invalid("t5", what, advice));
        let T5Config { vocabulary, width, heads, head_width, hidden, buckets, max_distance, .. } = *self;
        let layers = [self.encoder_layers, self.decoder_layers];
        if [vocabulary, width, heads, head_width, hidden].contains(&0) || layers.contains(&0) {
            return nonsense(format!("one of the sizes is 0: {self:?}"), "give every size at least 1");
        }
        // The encoder halves the buckets for keys ahead, and half of what is left is for exact distances.
        if buckets < 4 || buckets % 2 != 0 {
            return nonsense(
                format!("{buckets} buckets of distances"),
                "choose an even number of at least 4: half are for keys ahead",
            );
        }
        if max_distance <= buckets / 2 {
            return nonsense(
                format!("distances up to {max_distance} for {buckets} buckets"),
                "choose a max_distance above half of the buckets, which stand for one distance each",
            );
        }
        self.mechanisms.check("t5", true)?;
        if self.own_tables && self.mechanisms.positions.is_some() {
            return nonsense(
                "a table of distances for each block, beside other positions".into(),
                "choose one of the two",
            );
        }
        if self.mechanisms.positions.is_some_and(Positions::end) {
            return nonsense(
                "a table of positions, where T5 tells distances".into(),
                "choose none, rotary, alibi, buckets or clipped, or the family transformer",
            );
        }
        if !(0.0..1.0).contains(&self.dropout) {
            let what = format!("dropout is {}", self.dropout);
            return nonsense(what, "choose a probability from 0 up to, not including, 1");
        }
        Ok(())
    }

    /// One of the two stacks, with its parameters declared.
    pub(crate) fn declare(&self, decoder: bool, p: &mut Parameters) -> Result<Stack> {
        let layers = if decoder { self.decoder_layers } else { self.encoder_layers };
        let config = self.stack(layers, decoder);
        if !self.own_tables {
            return Stack::new(config, p);
        }
        let relative = config.relative;
        let stack = Stack::new(StackConfig { relative: RelativeConfig::None, ..config }, p)?;
        stack.with_own_relatives(relative, self.heads, p)
    }

    /// The settings of one of the two stacks.
    fn stack(&self, layers: usize, decoder: bool) -> StackConfig {
        let T5Config { width, heads, head_width, hidden, dropout, .. } = *self;
        let own = AttentionConfig {
            width,
            source: KeySourceConfig::Own,
            heads,
            groups: heads,
            head_width,
            value_width: head_width,
            biases: Biases { inputs: false, output: false },
            scale: HeadScale::Constant(1.0),
            cap: None,
            query_key_norm: None,
            rotary: None,
            window: None,
            kind: Default::default(),
            dropout,
            // C^-½·D^-¼ in queries and in keys: scores begin as if they were divided by √D.
            std: (width as f32).powf(-0.5) * (head_width as f32).powf(-0.25),
        };
        let cross = AttentionConfig { source: KeySourceConfig::Memory(width), ..own };
        let feed_forward = FeedForwardConfig {
            width,
            hidden,
            kind: if self.gated { FeedForwardKind::GatedGelu } else { FeedForwardKind::Relu },
            bias: false,
            dropout,
            std: (width as f32).powf(-0.5),
        };
        let mut block = BlockConfig {
            attention: own,
            cross: decoder.then_some(cross),
            feed_forward,
            norm: NormConfig { epsilon: self.epsilon, ..NormConfig::rms(width) },
            place: NormPlace::Pre,
            dropout,
        };
        self.mechanisms.apply(&mut block);
        let own = Positions::Buckets { buckets: self.buckets, max_distance: self.max_distance };
        let chosen = self.mechanisms.positions.unwrap_or(own);
        let (_, relative) = chosen.parts(width, 0, block.attention.std, !decoder);
        StackConfig { layers, block, final_norm: block.place.leaves_raw(), relative }
    }
}

/// A T5 of some size. All methods record. Parameters: `token_embedding`, `encoder`, `decoder`, and `head`
/// where it is not tied.
#[derive(Clone, Debug)]
pub struct T5 {
    config: T5Config,
    parameters: Parameters,
    embedding: EmbeddingLayer,
    encoder: Stack,
    decoder: Stack,
    head: Option<LinearLayer>,
}

impl T5 {
    /// A model of these sizes, if they make sense.
    pub fn new(config: T5Config) -> Result<Self> {
        config.check()?;
        let T5Config { vocabulary, width, tied, .. } = config;
        let mut parameters = Parameters::new();
        let p = &mut parameters;
        let table = EmbeddingConfig { tokens: vocabulary, width, std: 1.0 };
        let embedding = p.under("token_embedding", |p| EmbeddingLayer::new(table, p))?;
        let encoder = p.under("encoder", |p| config.declare(false, p))?;
        let decoder = p.under("decoder", |p| config.declare(true, p))?;
        let own =
            LinearConfig { inputs: width, outputs: vocabulary, bias: false, std: (width as f32).powf(-0.5) };
        let head = if tied { None } else { Some(p.under("head", |p| LinearLayer::new(own, p))?) };
        Ok(T5 { config, parameters, embedding, encoder, decoder, head })
    }

    /// Its sizes.
    pub fn config(&self) -> &T5Config {
        &self.config
    }

    /// What it learns.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The memory: B S -> B S C. `mask` is bool [B S], true where there is a token.
    pub fn encode(&self, g: &mut Graph, source: Var, mask: Option<Var>) -> Result<Var> {
        encode(g, (&self.embedding, &self.encoder), source, mask, self.config.dropout)
    }

    /// The decoder's stream after its last norm: B T and a memory B S C -> B T C.
    pub fn hidden(&self, g: &mut Graph, memory: Var, mask: Option<Var>, target: Var) -> Result<Var> {
        self.stream(g, target, &Context::causal(), (KeySource::Memory(memory), &padded(mask)))
    }

    /// The scores of the next target token at every position: B S, bool B S, B T -> B T V.
    pub fn logits(&self, g: &mut Graph, source: Var, mask: Option<Var>, target: Var) -> Result<Var> {
        let memory = self.encode(g, source, mask)?;
        let x = self.hidden(g, memory, mask, target)?;
        self.scores(g, x)
    }

    /// What the head makes of the decoder's stream: B T C -> B T V.
    pub fn scores(&self, g: &mut Graph, x: Var) -> Result<Var> {
        g.scope("head", |g| {
            let x = self.scaled(g, x)?;
            match &self.head {
                Some(head) => {
                    head.forward_with(g, x, LinearOptions { output: Some(DType::F32), ..Default::default() })
                }
                None => self.embedding.head(g, x),
            }
        })
    }

    /// The sum of the losses of all `labels` (B T, −100 is ignored) times `scale`, a single number; `tokens`
    /// are source, target and labels. The target is what the decoder is given: the labels shifted by one
    /// behind the start token.
    pub fn loss(&self, g: &mut Graph, tokens: [Var; 3], mask: Option<Var>, scale: Var) -> Result<Var> {
        self.loss_with(g, tokens, mask, scale, CrossEntropyOptions::default())
    }

    /// The same with settings of its own, such as smoothed targets.
    pub fn loss_with(
        &self,
        g: &mut Graph,
        [source, target, labels]: [Var; 3],
        mask: Option<Var>,
        scale: Var,
        options: CrossEntropyOptions,
    ) -> Result<Var> {
        let memory = self.encode(g, source, mask)?;
        let x = self.hidden(g, memory, mask, target)?;
        g.scope("head", |g| {
            let x = self.scaled(g, x)?;
            let weight = match &self.head {
                Some(head) => head.weight(g)?,
                None => self.embedding.weight(g)?,
            };
            Ok(g.linear_cross_entropy(x, weight, None, labels, scale, options)?.loss)
        })
    }

    /// x / √C, because the embedding that is the head has vectors of length √C.
    fn scaled(&self, g: &mut Graph, x: Var) -> Result<Var> {
        if self.config.scaled { g.scale(x, (self.config.width as f32).powf(-0.5)) } else { Ok(x) }
    }
}

/// What an encoder makes of a text: B S -> B S C.
pub(crate) fn encode(
    g: &mut Graph,
    (embedding, encoder): (&EmbeddingLayer, &Stack),
    source: Var,
    mask: Option<Var>,
    dropout: f32,
) -> Result<Var> {
    g.scope("encoder", |g| {
        let x = embed(g, embedding, source, dropout)?;
        let x = encoder.forward(g, x, &padded(mask), None)?;
        g.dropout(x, dropout)
    })
}

fn embed(g: &mut Graph, embedding: &EmbeddingLayer, ids: Var, dropout: f32) -> Result<Var> {
    let x = g.scope("token_embedding", |g| embedding.forward(g, ids))?;
    g.dropout(x, dropout)
}

impl EncoderDecoder for T5 {
    fn vocabulary(&self) -> usize {
        self.config.vocabulary
    }

    fn source_vocabulary(&self) -> usize {
        self.config.vocabulary
    }

    fn context(&self) -> Option<usize> {
        None
    }

    fn encode(&self, g: &mut Graph, source: Var, mask: Option<Var>) -> Result<Var> {
        T5::encode(self, g, source, mask)
    }

    fn stream(
        &self,
        g: &mut Graph,
        target: Var,
        own: &Context,
        memory: (KeySource, &Context),
    ) -> Result<Var> {
        g.scope("decoder", |g| {
            let x = embed(g, &self.embedding, target, self.config.dropout)?;
            let x = self.decoder.forward(g, x, own, Some(memory))?;
            g.dropout(x, self.config.dropout)
        })
    }

    fn scores(&self, g: &mut Graph, x: Var) -> Result<Var> {
        T5::scores(self, g, x)
    }

    fn decoder(&self) -> &Stack {
        &self.decoder
    }
}
