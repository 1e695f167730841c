//! The Transformer of Vaswani et al., "Attention Is All You Need", 2017: an encoder and a decoder of
//! post-norm blocks with ReLU, sinusoids added to embeddings times √C. In the paper's form one matrix serves
//! both embeddings and the head, and no norm follows the stacks; `torch.nn.Transformer` by itself adds one
//! after each. Letters: B batch, S source positions, T target positions, C width, H heads, F hidden, V
//! vocabulary.

use crate::decoding::{EncoderDecoder, padded};
use crate::mechanisms::Mechanisms;
use crate::positions::Positions;
use regard_graph::{Error, Graph, Result, Var};
use regard_layers::{
    AbsolutePositions, AttentionConfig, BlockConfig, Context, EmbeddingConfig, EmbeddingLayer,
    FeedForwardConfig, FeedForwardKind, KeySource, KeySourceConfig, LinearConfig, LinearLayer, NormConfig,
    NormPlace, Parameters, Stack, StackConfig,
};
use regard_ops::prelude::*;
use regard_ops::{CrossEntropyOptions, LinearOptions};

/// The sizes of a Transformer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TransformerConfig {
    /// Tokens of the source; as many as of the target where the matrices are shared.
    pub source_vocabulary: usize,
    /// V, tokens of the target.
    pub vocabulary: usize,
    /// C, the width of the streams, even.
    pub width: usize,
    /// H; they share the width.
    pub heads: usize,
    /// F, the hidden width of the feed-forward parts.
    pub hidden: usize,
    /// Blocks of the encoder.
    pub encoder_layers: usize,
    /// Blocks of the decoder.
    pub decoder_layers: usize,
    /// The most positions of source and target.
    pub context: usize,
    /// One matrix for both embeddings and the head, which then has no bias: the paper's form.
    pub shared: bool,
    /// A norm follows the last block of each stack: PyTorch's form.
    pub final_norm: bool,
    /// Probability with which what each part adds is dropped in training, and embeddings are.
    pub dropout: f32,
    /// What its blocks are made of where that is not the paper's.
    pub mechanisms: Mechanisms,
}

impl TransformerConfig {
    /// The base model of the paper, for a shared vocabulary of this size.
    pub fn base(vocabulary: usize) -> Self {
        TransformerConfig {
            source_vocabulary: vocabulary,
            vocabulary,
            width: 512,
            heads: 8,
            hidden: 2048,
            encoder_layers: 6,
            decoder_layers: 6,
            context: 1024,
            shared: true,
            final_norm: false,
            dropout: 0.1,
            mechanisms: Mechanisms::NONE,
        }
    }

    fn check(&self) -> Result<()> {
        let nonsense = |what: String, advice: &str| Err(Error::invalid("transformer", what, advice));
        let TransformerConfig { source_vocabulary, vocabulary, width, heads, hidden, context, .. } = *self;
        let layers = [self.encoder_layers, self.decoder_layers];
        if [source_vocabulary, vocabulary, width, heads, hidden, context].contains(&0) || layers.contains(&0)
        {
            return nonsense(format!("one of the sizes is 0: {self:?}"), "give every size at least 1");
        }
        if self.shared && source_vocabulary != vocabulary {
            return nonsense(
                format!("one matrix for {source_vocabulary} source tokens and {vocabulary} target tokens"),
                "give both the same vocabulary, or do not share the matrix",
            );
        }
        self.mechanisms.check("transformer", true)?;
        if !(0.0..1.0).contains(&self.dropout) {
            let what = format!("dropout is {}", self.dropout);
            return nonsense(what, "choose a probability from 0 up to, not including, 1");
        }
        Ok(())
    }

    /// One of the two stacks.
    fn stack(&self, layers: usize, decoder: bool) -> Result<StackConfig> {
        let TransformerConfig { width, heads, hidden, dropout, .. } = *self;
        let std = (width as f32).powf(-0.5);
        let own = AttentionConfig { dropout, std, ..self.mechanisms.attention_of(width, heads)? };
        let cross = AttentionConfig { source: KeySourceConfig::Memory(width), ..own };
        let kind = FeedForwardKind::Relu;
        let mut block = BlockConfig {
            attention: own,
            cross: decoder.then_some(cross),
            feed_forward: FeedForwardConfig { width, hidden, kind, bias: true, dropout, std },
            norm: NormConfig::layer(width),
            place: NormPlace::Post,
            dropout,
        };
        self.mechanisms.apply(&mut block);
        let (_, relative) = self.positions().parts(width, self.context, std, !decoder);
        let final_norm = self.final_norm || block.place == NormPlace::Pre;
        Ok(StackConfig { layers, block, final_norm, relative })
    }

    /// How order is told: by sinusoids in the paper.
    pub(crate) fn positions(&self) -> Positions {
        self.mechanisms.positions.unwrap_or(Positions::Sinusoidal)
    }
}

/// A Transformer of some size. All methods record. Parameters: `token_embedding`, or `source_embedding`,
/// `target_embedding` and `head` where they are not shared; `encoder`, `decoder`.
#[derive(Clone, Debug)]
pub struct Transformer {
    config: TransformerConfig,
    parameters: Parameters,
    source_embedding: EmbeddingLayer,
    target_embedding: EmbeddingLayer,
    positions: AbsolutePositions,
    encoder: Stack,
    decoder: Stack,
    head: Option<LinearLayer>,
}

impl Transformer {
    /// A model of these sizes, if they make sense.
    pub fn new(config: TransformerConfig) -> Result<Self> {
        config.check()?;
        let TransformerConfig { width, context, shared, .. } = config;
        let mut parameters = Parameters::new();
        let p = &mut parameters;
        // Times √C, embeddings begin with variance 1, like the sinusoids.
        let std = (width as f32).powf(-0.5);
        let mut embedding = |name: &str, tokens: usize| {
            p.under(name, |p| EmbeddingLayer::new(EmbeddingConfig { tokens, width, std }, p))
        };
        let (source_embedding, target_embedding) = if shared {
            let both = embedding("token_embedding", config.vocabulary)?;
            (both.clone(), both)
        } else {
            let source = embedding("source_embedding", config.source_vocabulary)?;
            (source, embedding("target_embedding", config.vocabulary)?)
        };
        let (absolute, _) = config.positions().parts(width, context, std, true);
        let positions = p.under("position_embedding", |p| AbsolutePositions::new(absolute, p))?;
        let encoder = config.stack(config.encoder_layers, false)?;
        let encoder = p.under("encoder", |p| Stack::new(encoder, p))?;
        let decoder = config.stack(config.decoder_layers, true)?;
        let decoder = p.under("decoder", |p| Stack::new(decoder, p))?;
        let own = LinearConfig { std, ..LinearConfig::new(width, config.vocabulary) };
        let head = if shared { None } else { Some(p.under("head", |p| LinearLayer::new(own, p))?) };
        Ok(Transformer {
            config,
            parameters,
            source_embedding,
            target_embedding,
            positions,
            encoder,
            decoder,
            head,
        })
    }

    /// Its sizes.
    pub fn config(&self) -> &TransformerConfig {
        &self.config
    }

    /// What it learns.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The memory: B S -> B S C. `mask` is bool [B S], true where there is a token.
    pub fn encode(&self, g: &mut Graph, source: Var, mask: Option<Var>) -> Result<Var> {
        g.scope("encoder", |g| {
            let x = self.embed(g, &self.source_embedding, source, None)?;
            self.encoder.forward(g, x, &padded(mask), None)
        })
    }

    /// The decoder's stream at the end: B T and a memory B S C -> B T C.
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
        g.scope("head", |g| match &self.head {
            Some(head) => {
                head.forward_with(g, x, LinearOptions { output: Some(DType::F32), ..Default::default() })
            }
            None => self.target_embedding.head(g, x),
        })
    }

    /// The sum of the losses of all `labels` (B T, −100 is ignored) times `scale`, a single number.
    pub fn loss(
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
            let (weight, bias) = match &self.head {
                Some(head) => (head.weight(g)?, head.bias(g)?),
                None => (self.target_embedding.weight(g)?, None),
            };
            Ok(g.linear_cross_entropy(x, weight, bias, labels, scale, options)?.loss)
        })
    }

    /// √C · table[id] + sinusoid[position]
    fn embed(&self, g: &mut Graph, table: &EmbeddingLayer, ids: Var, position: Option<Var>) -> Result<Var> {
        let x = g.scope("embedding", |g| {
            let x = table.forward(g, ids)?;
            let x = g.scale(x, (self.config.width as f32).sqrt())?;
            self.positions.forward(g, x, position)
        })?;
        g.dropout(x, self.config.dropout)
    }
}

impl EncoderDecoder for Transformer {
    fn vocabulary(&self) -> usize {
        self.config.vocabulary
    }

    fn source_vocabulary(&self) -> usize {
        self.config.source_vocabulary
    }

    fn context(&self) -> Option<usize> {
        Some(self.config.context)
    }

    fn encode(&self, g: &mut Graph, source: Var, mask: Option<Var>) -> Result<Var> {
        Transformer::encode(self, g, source, mask)
    }

    fn stream(
        &self,
        g: &mut Graph,
        target: Var,
        own: &Context,
        memory: (KeySource, &Context),
    ) -> Result<Var> {
        g.scope("decoder", |g| {
            let x = self.embed(g, &self.target_embedding, target, own.query_position)?;
            self.decoder.forward(g, x, own, Some(memory))
        })
    }

    fn scores(&self, g: &mut Graph, x: Var) -> Result<Var> {
        Transformer::scores(self, g, x)
    }

    fn decoder(&self) -> &Stack {
        &self.decoder
    }
}
