//! BERT (Devlin et al. 2019): token, position and token-type embeddings with a norm, post-norm blocks of
//! attention in both directions, and a head. Letters: B batch, T positions, C width, F hidden width, V
//! vocabulary, L labels.

use crate::mechanisms::Mechanisms;
use crate::model::SentencePooling;
use crate::positions::Positions;
use regard_graph::{DType, Dim, Error, Graph, Init, Result, Var};
use regard_layers::{
    AbsolutePositions, AttentionConfig, BlockConfig, Context, EmbeddingConfig, EmbeddingLayer,
    FeedForwardConfig, FeedForwardKind, LinearConfig, LinearLayer, NormConfig, NormLayer, NormPlace,
    Parameter, Parameters, Stack, StackConfig,
};
use regard_ops::prelude::*;
use regard_ops::{Activation, AttentionMask, CrossEntropyOptions, LinearOptions};

/// The settings of a BERT.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BertConfig {
    /// How many blocks.
    pub layers: usize,
    /// H, heads of each attention; they share the width.
    pub heads: usize,
    /// C, width of the residual stream.
    pub width: usize,
    /// F, hidden width of the feed-forward parts.
    pub hidden: usize,
    /// The most positions.
    pub context: usize,
    /// V, how many tokens there are.
    pub vocabulary: usize,
    /// How many types of tokens there are: first and second sentence, as a rule.
    pub token_types: usize,
    /// What happens inside of the feed-forward parts and of the head for masked tokens.
    pub activation: FeedForwardKind,
    /// Added to the variance in all norms.
    pub epsilon: f32,
    /// Probability with which activations are dropped in training.
    pub dropout: f32,
    /// Probability with which attention weights are dropped in training.
    pub attention_dropout: f32,
    /// Standard deviation of the weights at the beginning.
    pub std: f32,
    /// What stands on top.
    pub head: BertHead,
    /// What its blocks are made of where that is not BERT's own.
    pub mechanisms: Mechanisms,
}

/// What stands on top of the blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BertHead {
    /// Nothing: hidden states, and embeddings of sentences by their mean.
    #[default]
    None,
    /// The pooler alone: tanh of a linear layer on the first position.
    Pooler,
    /// Scores of the token at each position: a transform, then the token embedding once more, with a bias.
    Masked,
    /// Scores of this many classes for the whole text, from the pooler.
    Classes(usize),
    /// The same from the mean of all positions, without a pooler.
    MeanClasses(usize),
    /// Scores of this many labels for each position.
    Labels(usize),
}

/// Named sizes; all without a head and with the vocabulary of the English uncased models.
pub const PRESETS: [(&str, BertConfig); 5] = [
    ("bert-tiny", sized(2, 2, 128)),
    ("bert-mini", sized(4, 4, 256)),
    ("minilm-l6", sized(6, 12, 384)),
    ("bert-base", sized(12, 12, 768)),
    ("bert-large", sized(24, 16, 1024)),
];

const fn sized(layers: usize, heads: usize, width: usize) -> BertConfig {
    BertConfig {
        layers,
        heads,
        width,
        hidden: 4 * width,
        context: 512,
        vocabulary: 30522,
        token_types: 2,
        activation: FeedForwardKind::Gelu,
        epsilon: 1e-12,
        dropout: 0.1,
        attention_dropout: 0.1,
        std: 0.02,
        head: BertHead::None,
        mechanisms: Mechanisms::NONE,
    }
}

impl Default for BertConfig {
    /// BERT base, without a head.
    fn default() -> Self {
        sized(12, 12, 768)
    }
}

impl BertConfig {
    /// A named size of [`PRESETS`].
    pub fn preset(name: &str) -> Result<BertConfig> {
        match PRESETS.iter().find(|(known, _)| *known == name) {
            Some((_, config)) => Ok(*config),
            None => Err(Error::unknown("preset", name, PRESETS.iter().map(|(known, _)| *known))),
        }
    }

    /// The same without dropout: for everything but training.
    pub fn without_dropout(self) -> BertConfig {
        BertConfig { dropout: 0.0, attention_dropout: 0.0, ..self }
    }

    fn check(&self) -> Result<()> {
        let nonsense = |what: String, advice: &str| Err(Error::invalid("bert", what, advice));
        let BertConfig { layers, heads, width, hidden, context, vocabulary, token_types, .. } = *self;
        if [layers, heads, width, hidden, context, vocabulary, token_types].contains(&0) {
            return nonsense(format!("one of the sizes is 0: {self:?}"), "give every size at least 1");
        }
        if !width.is_multiple_of(heads) && self.mechanisms.head_width.is_none() {
            return nonsense(
                format!("a width of {width} cannot be shared by {heads} heads"),
                "choose a width that is a multiple of the heads",
            );
        }
        self.mechanisms.check("bert", false)?;
        if matches!(self.activation, FeedForwardKind::GatedSilu | FeedForwardKind::GatedGelu) {
            return nonsense(
                format!("the feed-forward parts are {:?}", self.activation),
                "choose Gelu, GeluTanh or Relu",
            );
        }
        if !(self.std.is_finite() && self.std >= 0.0) {
            return nonsense(
                format!("the standard deviation of the weights is {}", self.std),
                "give a number that is not negative",
            );
        }
        for (name, probability) in [("dropout", self.dropout), ("attention_dropout", self.attention_dropout)]
        {
            if !(0.0..1.0).contains(&probability) {
                return nonsense(
                    format!("{name} is {probability}"),
                    "choose a probability from 0 up to, not including, 1",
                );
            }
        }
        if let BertHead::Classes(0) | BertHead::MeanClasses(0) | BertHead::Labels(0) = self.head {
            return nonsense(format!("the head is {:?}", self.head), "give at least 1 class or label");
        }
        Ok(())
    }
}

/// What a BERT reads.
#[derive(Clone, Copy, Debug)]
pub struct BertText {
    /// The tokens, i32 `[B T]`.
    pub ids: Var,
    /// The type of each token, i32 `[B T]`; all 0 if not given.
    pub token_types: Option<Var>,
    /// True for tokens, false for padding, bool `[B T]`; all true if not given.
    pub key_mask: Option<Var>,
}

/// The parts of the head.
#[derive(Clone, Debug)]
enum Head {
    None,
    Pooler(LinearLayer),
    Masked { transform: LinearLayer, norm: NormLayer, bias: Parameter },
    Classes { pooler: LinearLayer, classes: LinearLayer },
    MeanClasses(LinearLayer),
    Labels(LinearLayer),
}

/// A BERT. All methods record; parameters are made in the store at the first use.
#[derive(Clone, Debug)]
pub struct Bert {
    config: BertConfig,
    parameters: Parameters,
    tokens: EmbeddingLayer,
    token_types: Parameter,
    positions: AbsolutePositions,
    embedding_norm: NormLayer,
    stack: Stack,
    head: Head,
}

impl Bert {
    /// Declares the parameters, if the settings make sense.
    pub fn new(config: BertConfig) -> Result<Self> {
        config.check()?;
        let BertConfig { width, std, dropout, epsilon, .. } = config;
        let mut parameters = Parameters::new();
        let p = &mut parameters;
        let table = EmbeddingConfig { tokens: config.vocabulary, width, std };
        let tokens = p.under("token_embedding", |p| EmbeddingLayer::new(table, p))?;
        let token_types =
            p.declare("token_type_embedding.weight", [config.token_types, width], Init::Normal(std))?;
        let mechanisms = config.mechanisms;
        let chosen = mechanisms.positions.unwrap_or(Positions::Learned);
        let (absolute, relative) = chosen.parts(width, config.context, std, true);
        let positions = p.under("position_embedding", |p| AbsolutePositions::new(absolute, p))?;
        let norm = NormConfig { epsilon, ..NormConfig::layer(width) };
        let norm = mechanisms.norm_of(norm);
        let embedding_norm = p.under("embedding_norm", |p| NormLayer::new(norm, p))?;
        let attention = AttentionConfig {
            dropout: config.attention_dropout,
            std,
            ..mechanisms.attention_of(width, config.heads)?
        };
        let feed_forward = FeedForwardConfig {
            width,
            hidden: config.hidden,
            kind: config.activation,
            bias: true,
            dropout: 0.0,
            std,
        };
        let mut block =
            BlockConfig { attention, cross: None, feed_forward, norm, place: NormPlace::Post, dropout };
        mechanisms.apply(&mut block);
        let final_norm = block.place == NormPlace::Pre;
        let stack = StackConfig { layers: config.layers, block, final_norm, relative };
        let stack = Stack::new(stack, p)?;
        let mut linear = |name: &str, outputs: usize| {
            let sizes = LinearConfig { inputs: width, outputs, bias: true, std };
            p.under(name, |p| LinearLayer::new(sizes, p))
        };
        let head = match config.head {
            BertHead::None => Head::None,
            BertHead::Pooler => Head::Pooler(linear("pooler", width)?),
            BertHead::Masked => {
                let transform = linear("transform", width)?;
                let norm = p.under("transform_norm", |p| NormLayer::new(norm, p))?;
                Head::Masked {
                    transform,
                    norm,
                    bias: p.declare("head.bias", [config.vocabulary], Init::Zeros)?,
                }
            }
            BertHead::Classes(classes) => {
                Head::Classes { pooler: linear("pooler", width)?, classes: linear("head", classes)? }
            }
            BertHead::MeanClasses(classes) => Head::MeanClasses(linear("head", classes)?),
            BertHead::Labels(labels) => Head::Labels(linear("head", labels)?),
        };
        Ok(Bert { config, parameters, tokens, token_types, positions, embedding_norm, stack, head })
    }

    /// Its settings.
    pub fn config(&self) -> &BertConfig {
        &self.config
    }

    /// What it learns.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The residual stream after the last block: B T -> B T C.
    pub fn hidden(&self, g: &mut Graph, text: &BertText) -> Result<Var> {
        let x = g.scope("embedding", |g| self.embed(g, text))?;
        let mask = AttentionMask { key_mask: text.key_mask, ..Default::default() };
        self.stack.forward(g, x, &Context { mask, ..Default::default() }, None)
    }

    /// The sum of three embeddings, normed: B T -> B T C.
    fn embed(&self, g: &mut Graph, text: &BertText) -> Result<Var> {
        let [_, t] = g.dims(text.ids, "B T")?;
        let context = self.config.context;
        if t.bound() > context {
            return Err(Error::invalid(
                "bert",
                format!("texts of up to T={} tokens, the model has positions for {context}", t.bound()),
                "cut the texts, or use a model with more positions",
            ));
        }
        let x = g.scope("tokens", |g| self.tokens.forward(g, text.ids))?;
        let table = self.token_types.var(g)?;
        let types = match text.token_types {
            Some(types) => g.scope("token_types", |g| g.embedding(table, types, Some(DType::F32)))?,
            None => g.slice(table, 0, 0, 1)?, // 1 C, the same for all
        };
        let x = g.add(x, types)?;
        let x = self.positions.forward(g, x, None)?;
        let x = self.embedding_norm.forward_f32(g, x)?;
        let x = g.tap("stream", x)?;
        g.dropout(x, self.config.dropout)
    }

    /// tanh of a linear layer on the first position: B T -> B C.
    pub fn pooled(&self, g: &mut Graph, text: &BertText) -> Result<Var> {
        match &self.head {
            Head::Pooler(_) | Head::Classes { .. } => {
                let x = self.hidden(g, text)?;
                self.pooled_of(g, x)
            }
            _ => Err(self.lacks("pooler", "Pooler or Classes")),
        }
    }

    /// The same of hidden states: B T C -> B C.
    pub(crate) fn pooled_of(&self, g: &mut Graph, x: Var) -> Result<Var> {
        match &self.head {
            Head::Pooler(pooler) | Head::Classes { pooler, .. } => {
                g.scope("pooler", |g| self.pool(g, pooler, x))
            }
            _ => Err(self.lacks("pooler", "Pooler or Classes")),
        }
    }

    fn pool(&self, g: &mut Graph, pooler: &LinearLayer, x: Var) -> Result<Var> {
        let first = self.first_of(g, x)?;
        let y = pooler.forward(g, first)?;
        let y = g.tanh(y)?;
        g.tap("pooled", y)
    }

    /// The hidden states of the first token: B T C -> B C.
    fn first_of(&self, g: &mut Graph, x: Var) -> Result<Var> {
        let [b, _, c] = g.dims(x, "B T C")?;
        let first = g.slice(x, 1, 0, 1)?;
        g.reshape(first, shape![b, c])
    }

    /// The scores of the head: B T -> B T V for masked tokens, B L for classes, B T L for labels.
    pub fn logits(&self, g: &mut Graph, text: &BertText) -> Result<Var> {
        let x = self.hidden(g, text)?;
        self.logits_of(g, text, x)
    }

    /// The same of hidden states.
    pub(crate) fn logits_of(&self, g: &mut Graph, text: &BertText, x: Var) -> Result<Var> {
        let (x, weight, bias) = self.before_scores(g, text, x)?;
        let options = LinearOptions { bias, output: Some(DType::F32), ..Default::default() };
        g.scope("head", |g| g.linear(x, weight, options))
    }

    /// The sum of the losses of all targets times `scale`, a single number. Targets are i32, `[B T]` or, for
    /// classes, `[B]`; those of −100 are ignored.
    pub fn loss(&self, g: &mut Graph, text: &BertText, targets: Var, scale: Var) -> Result<Var> {
        self.loss_with(g, text, targets, scale, CrossEntropyOptions::default())
    }

    /// The same with settings of its own, such as smoothed targets.
    pub fn loss_with(
        &self,
        g: &mut Graph,
        text: &BertText,
        targets: Var,
        scale: Var,
        options: CrossEntropyOptions,
    ) -> Result<Var> {
        let x = self.hidden(g, text)?;
        let (x, weight, bias) = self.before_scores(g, text, x)?;
        let losses = g.scope("head", |g| g.linear_cross_entropy(x, weight, bias, targets, scale, options))?;
        Ok(losses.loss)
    }

    /// What the last product of the head takes: its input, its weight and its bias.
    fn before_scores(&self, g: &mut Graph, text: &BertText, x: Var) -> Result<(Var, Var, Option<Var>)> {
        let dropped = |g: &mut Graph, x: Var| g.scope("head", |g| g.dropout(x, self.config.dropout));
        match &self.head {
            Head::Masked { transform, norm, bias } => {
                let activation = match self.config.activation {
                    FeedForwardKind::Relu => Activation::Relu,
                    FeedForwardKind::GeluTanh => Activation::GeluTanh,
                    FeedForwardKind::Silu => Activation::Silu,
                    _ => Activation::Gelu,
                };
                let x = g.scope("transform", |g| {
                    let x = transform.activated(g, x, activation)?;
                    norm.forward(g, x)
                })?;
                Ok((x, self.tokens.weight(g)?, Some(bias.var(g)?)))
            }
            Head::Classes { pooler, classes } => {
                let x = g.scope("pooler", |g| self.pool(g, pooler, x))?;
                Ok((dropped(g, x)?, classes.weight(g)?, classes.bias(g)?))
            }
            Head::MeanClasses(classes) => {
                let x = self.mean_of(g, text, x)?;
                Ok((dropped(g, x)?, classes.weight(g)?, classes.bias(g)?))
            }
            Head::Labels(labels) => Ok((dropped(g, x)?, labels.weight(g)?, labels.bias(g)?)),
            Head::None | Head::Pooler(_) => {
                Err(self.lacks("scores", "Masked, Classes, MeanClasses or Labels"))
            }
        }
    }

    /// The mean of the hidden states of all tokens that are not padding: B T -> B C; 0 for a text without
    /// any.
    pub fn mean(&self, g: &mut Graph, text: &BertText) -> Result<Var> {
        let x = self.hidden(g, text)?;
        self.mean_of(g, text, x)
    }

    fn mean_of(&self, g: &mut Graph, text: &BertText, x: Var) -> Result<Var> {
        g.scope("mean", |g| {
            let [b, t, c] = g.dims(x, "B T C")?;
            let Some(mask) = text.key_mask else { return g.mean(x, &[1]) };
            let mask = g.reshape(mask, shape![&b, &t, Dim::from(1)])?;
            // Chosen, not multiplied: whatever stands at padding stays out.
            let nothing = g.fill(DType::F32, shape![c], 0.0)?;
            let kept = g.select(mask, x, nothing)?;
            let sum = g.sum(kept, &[1])?; // B C
            let counted = g.cast(mask, DType::F32)?;
            let count = g.sum(counted, &[1])?; // B 1
            let count = g.shift(count, 1e-9)?; // changes no count but 0
            g.div(sum, count)
        })
    }

    /// The embedding of each text as sentence-transformers make it: the mean over its tokens at length 1. B T
    /// -> B C
    pub fn sentence(&self, g: &mut Graph, text: &BertText) -> Result<Var> {
        self.sentence_by(g, text, SentencePooling::Mean)
    }

    /// The same by the mean or by the first token alone.
    pub(crate) fn sentence_by(
        &self,
        g: &mut Graph,
        text: &BertText,
        pooling: SentencePooling,
    ) -> Result<Var> {
        let one = match pooling {
            SentencePooling::Mean => self.mean(g, text)?,
            SentencePooling::First => {
                let x = self.hidden(g, text)?;
                self.first_of(g, x)?
            }
        };
        g.scope("sentence", |g| {
            // x / √(mean x² + ε), then over √C: at length 1, and 0 for 0.
            let spec = NormSpec { epsilon: 1e-24, output: Some(DType::F32) };
            let unit = g.rms_norm(one, None, spec)?;
            g.scale(unit, 1.0 / (self.config.width as f32).sqrt())
        })
    }

    fn lacks(&self, what: &str, heads: &str) -> Error {
        Error::invalid(
            "bert",
            format!("a model with the head {:?} has no {what}", self.config.head),
            format!("make it with the head {heads}"),
        )
    }
}
