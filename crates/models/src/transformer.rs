//! The Transformer of Vaswani et al., "Attention Is All You Need", 2017: an encoder and a decoder of
//! post-norm blocks with ReLU, sinusoids added to embeddings times √C. In the paper's form one matrix serves
//! both embeddings and the head, and no norm follows the stacks; `torch.nn.Transformer` by itself adds one
//! after each. BART, mBART and Marian are the same with the settings of a [`Descent`]. Letters: B batch, S
//! source positions, T target positions, C width, H heads, F hidden, V vocabulary.

use crate::decoding::{EncoderDecoder, padded};
use crate::descent::{Descent, Entry, Places};
use crate::mechanisms::Mechanisms;
use crate::positions::Positions;
use regard_graph::{Error, Graph, Init, Result, Var};
use regard_layers::{
    AbsolutePositions, AttentionConfig, BlockConfig, Context, EmbeddingConfig, EmbeddingLayer,
    FeedForwardConfig, FeedForwardKind, KeySource, KeySourceConfig, LinearConfig, LinearLayer, NormConfig,
    NormPlace, Parameters, Stack, StackConfig, State,
};
use regard_ops::prelude::*;
use regard_ops::{CrossEntropyOptions, LinearOptions};
use std::sync::Arc;

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
    /// One matrix for both embeddings and the head, which then has no bias: the paper's form. Where it is
    /// not, the head is a matrix of its own, or that of the target in a descendant.
    pub shared: bool,
    /// A norm follows the last block of each stack: PyTorch's form.
    pub final_norm: bool,
    /// Probability with which what each part adds is dropped in training, and embeddings are.
    pub dropout: f32,
    /// What its blocks are made of where that is not the paper's.
    pub mechanisms: Mechanisms,
    /// What makes a BART, an mBART or a Marian of it.
    pub descent: Option<Descent>,
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
            descent: None,
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
        self.descent.map_or(Ok(()), |descent| descent.check(width))?;
        if !(0.0..1.0).contains(&self.dropout) {
            let what = format!("dropout is {}", self.dropout);
            return nonsense(what, "choose a probability from 0 up to, not including, 1");
        }
        Ok(())
    }

    /// One of the two stacks.
    fn stack(&self, layers: usize, decoder: bool) -> Result<StackConfig> {
        let TransformerConfig { width, dropout, .. } = *self;
        let std = self.std();
        let (heads, hidden) = match self.descent {
            Some(descent) if decoder => (descent.decoder_heads, descent.decoder_hidden),
            _ => (self.heads, self.hidden),
        };
        let own = AttentionConfig { dropout, std, ..self.mechanisms.attention_of(width, heads)? };
        let cross = AttentionConfig { source: KeySourceConfig::Memory(width), ..own };
        let kind = self.descent.map_or(FeedForwardKind::Relu, |descent| descent.activation);
        let mut block = BlockConfig {
            attention: own,
            cross: decoder.then_some(cross),
            feed_forward: FeedForwardConfig { width, hidden, kind, bias: true, dropout, std },
            norm: NormConfig::layer(width),
            place: self.descent.map_or(NormPlace::Post, |descent| descent.kin.place()),
            dropout,
        };
        self.mechanisms.apply(&mut block);
        let (_, relative) = self.positions().parts(width, self.context, std, !decoder);
        let final_norm = self.final_norm || block.place.leaves_raw();
        Ok(StackConfig { layers, block, final_norm, relative })
    }

    /// How order is told: by sinusoids in the paper.
    pub(crate) fn positions(&self) -> Positions {
        let own = self.descent.map_or(Positions::Sinusoidal, |descent| descent.kin.positions());
        self.mechanisms.positions.unwrap_or(own)
    }

    /// What stands before each stack. The paper's stacks share their positions, descendants have their own.
    fn entries(&self, tables: [EmbeddingLayer; 2], p: &mut Parameters) -> Result<[Entry; 2]> {
        let TransformerConfig { width, context, dropout, .. } = *self;
        let root = (width as f32).sqrt();
        let Some(descent) = self.descent else {
            let (absolute, _) = self.positions().parts(width, context, self.std(), true);
            let both = p.under("position_embedding", |p| AbsolutePositions::new(absolute, p))?;
            let places = Arc::new(Places::From(both));
            return Ok(tables.map(|tokens| Entry {
                tokens,
                scale: Some(root),
                places: Arc::clone(&places),
                norm: None,
                dropout,
            }));
        };
        let mut entry = |stack: &str, tokens: EmbeddingLayer| {
            p.under(stack, |p| {
                let places = Arc::new(descent.places(width, context, p)?);
                let norm = Entry::norm_of(descent.kin, width, p)?;
                Ok(Entry { tokens, scale: descent.scaled.then_some(root), places, norm, dropout })
            })
        };
        let [source, target] = tables;
        Ok([entry("encoder", source)?, entry("decoder", target)?])
    }

    /// Times √C, embeddings begin with variance 1, like the sinusoids.
    fn std(&self) -> f32 {
        self.descent.map_or((self.width as f32).powf(-0.5), |descent| descent.std)
    }
}

/// A Transformer of some size. All methods record. Parameters: `token_embedding`, or `source_embedding`,
/// `target_embedding` and `head` where they are not shared; `encoder`, `decoder`. Descendants have
/// `position_embedding` and `embedding_norm` in each stack, and keep `logits_bias`.
#[derive(Clone, Debug)]
pub struct Transformer {
    config: TransformerConfig,
    parameters: Parameters,
    source: Entry,
    target: Entry,
    encoder: Stack,
    decoder: Stack,
    head: Option<LinearLayer>,
    logits_bias: Option<State>,
}

impl Transformer {
    /// A model of these sizes, if they make sense.
    pub fn new(config: TransformerConfig) -> Result<Self> {
        config.check()?;
        let TransformerConfig { width, shared, descent, .. } = config;
        let mut parameters = Parameters::new();
        let p = &mut parameters;
        let std = config.std();
        let mut embedding = |name: &str, tokens: usize| {
            p.under(name, |p| EmbeddingLayer::new(EmbeddingConfig { tokens, width, std }, p))
        };
        let (source, target) = if shared {
            let both = embedding("token_embedding", config.vocabulary)?;
            (both.clone(), both)
        } else {
            let source = embedding("source_embedding", config.source_vocabulary)?;
            (source, embedding("target_embedding", config.vocabulary)?)
        };
        let [source, target] = config.entries([source, target], p)?;
        let encoder = config.stack(config.encoder_layers, false)?;
        let encoder = p.under("encoder", |p| Stack::new(encoder, p))?;
        let decoder = config.stack(config.decoder_layers, true)?;
        let decoder = p.under("decoder", |p| Stack::new(decoder, p))?;
        let own = LinearConfig { std, ..LinearConfig::new(width, config.vocabulary) };
        let head = match shared || descent.is_some() {
            true => None,
            false => Some(p.under("head", |p| LinearLayer::new(own, p))?),
        };
        let logits_bias = match descent.is_some_and(|descent| descent.logits_bias) {
            true => Some(p.keep("logits_bias", [config.vocabulary], Init::Zeros)?),
            false => None,
        };
        Ok(Transformer { config, parameters, source, target, encoder, decoder, head, logits_bias })
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
            let x = self.source.forward(g, source, None)?;
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
        g.scope("head", |g| {
            let (weight, bias) = self.head(g)?;
            g.linear(x, weight, LinearOptions { bias, output: Some(DType::F32), ..Default::default() })
        })
    }

    /// The matrix of the last product, and what is added to it.
    fn head(&self, g: &mut Graph) -> Result<(Var, Option<Var>)> {
        match &self.head {
            Some(head) => Ok((head.weight(g)?, head.bias(g)?)),
            None => {
                let weight = self.target.tokens.weight(g)?;
                Ok((weight, self.logits_bias.as_ref().map(|bias| bias.var(g)).transpose()?))
            }
        }
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
            let (weight, bias) = self.head(g)?;
            Ok(g.linear_cross_entropy(x, weight, bias, labels, scale, options)?.loss)
        })
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
            let x = self.target.forward(g, target, own.query_position)?;
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
