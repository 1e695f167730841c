//! What stands on top of the blocks of a BERT: the pooler, the scores of masked tokens, of classes, of
//! labels, of the ends of an answer, of replaced tokens. Letters: B batch, T positions, C width, V
//! vocabulary, L labels.

use super::variant::{FirstActivation, activation_of};
use super::{Bert, BertConfig, BertText};
use regard_graph::{DType, Error, Graph, Init, Result, Var};
use regard_layers::{LinearConfig, LinearLayer, NormConfig, NormLayer, Parameter, Parameters};
use regard_ops::prelude::*;
use regard_ops::{Activation, CrossEntropyOptions, LinearOptions};

/// What stands on top of the blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BertHead {
    /// Nothing: hidden states, and embeddings of sentences by their mean.
    #[default]
    None,
    /// The pooler alone: a linear layer on the first position, and tanh of it in BERT itself.
    Pooler,
    /// Scores of the token at each position: a transform, then the token embedding once more, with a bias.
    Masked,
    /// The same, and from the pooler two scores of whether the second sentence follows the first.
    Pretraining,
    /// Scores of this many classes for the whole text, from the pooler.
    Classes(usize),
    /// The same from the mean of all positions, without a pooler.
    MeanClasses(usize),
    /// Scores of this many labels for each position.
    Labels(usize),
    /// Two scores for each position: of an answer that begins there, and of one that ends there.
    Span,
    /// One score for each position: of a token that was put in another's place.
    Replaced,
}

/// The parts of the head.
#[derive(Clone, Debug)]
pub(super) enum Head {
    None,
    Pooler(LinearLayer),
    Masked(MaskedHead),
    Pretraining { masked: MaskedHead, pooler: LinearLayer, follows: LinearLayer },
    Classes { pooler: LinearLayer, classes: LinearLayer },
    MeanClasses(LinearLayer),
    Labels(LinearLayer),
    Replaced { transform: LinearLayer, score: LinearLayer },
}

/// Scores of tokens: norm(activation(linear)), then the table of the embedding.
#[derive(Clone, Debug)]
pub(super) struct MaskedHead {
    transform: LinearLayer,
    norm: NormLayer,
    bias: Parameter,
}

impl Head {
    /// Declares the parameters. The norm is that of the embeddings, to whose width masked tokens go back.
    pub fn new(config: &BertConfig, norm: NormConfig, p: &mut Parameters) -> Result<Head> {
        let BertConfig { width, std, vocabulary, .. } = *config;
        let narrow = config.embedding_width();
        let linear = |p: &mut Parameters, name: &str, outputs: usize| {
            let sizes = LinearConfig { inputs: width, outputs, bias: true, std };
            p.under(name, |p| LinearLayer::new(sizes, p))
        };
        let masked = |p: &mut Parameters| {
            Ok(MaskedHead {
                transform: linear(p, "transform", narrow)?,
                norm: p.under("transform_norm", |p| NormLayer::new(norm, p))?,
                bias: p.declare("head.bias", [vocabulary], Init::Zeros)?,
            })
        };
        Ok(match config.head {
            BertHead::None => Head::None,
            BertHead::Pooler => Head::Pooler(linear(p, "pooler", width)?),
            BertHead::Masked => Head::Masked(masked(p)?),
            BertHead::Pretraining => Head::Pretraining {
                masked: masked(p)?,
                pooler: linear(p, "pooler", width)?,
                follows: linear(p, "follows", 2)?,
            },
            BertHead::Classes(classes) => {
                Head::Classes { pooler: linear(p, "pooler", width)?, classes: linear(p, "head", classes)? }
            }
            BertHead::MeanClasses(classes) => Head::MeanClasses(linear(p, "head", classes)?),
            BertHead::Labels(labels) => Head::Labels(linear(p, "head", labels)?),
            BertHead::Span => Head::Labels(linear(p, "head", 2)?),
            BertHead::Replaced => {
                Head::Replaced { transform: linear(p, "transform", width)?, score: linear(p, "head", 1)? }
            }
        })
    }
}

impl Bert {
    /// A linear layer on the first position and its activation: B T -> B C.
    pub fn pooled(&self, g: &mut Graph, text: &BertText) -> Result<Var> {
        self.pooler()?;
        let x = self.hidden(g, text)?;
        self.pooled_of(g, x)
    }

    /// The same of hidden states: B T C -> B C.
    pub(crate) fn pooled_of(&self, g: &mut Graph, x: Var) -> Result<Var> {
        let pooler = self.pooler()?;
        g.scope("pooler", |g| self.pool(g, pooler, x))
    }

    fn pooler(&self) -> Result<&LinearLayer> {
        match &self.head {
            Head::Pooler(pooler) | Head::Classes { pooler, .. } | Head::Pretraining { pooler, .. } => {
                Ok(pooler)
            }
            _ => Err(self.lacks("pooler", "Pooler, Classes or Pretraining")),
        }
    }

    fn pool(&self, g: &mut Graph, pooler: &LinearLayer, x: Var) -> Result<Var> {
        let mut first = self.first_of(g, x)?;
        if self.config.variant.drops_first {
            first = g.dropout(first, self.head_dropout())?;
        }
        let y = match self.config.variant.first {
            FirstActivation::Tanh => {
                let y = pooler.forward(g, first)?;
                g.tanh(y)?
            }
            FirstActivation::Relu => pooler.activated(g, first, Activation::Relu)?,
            FirstActivation::Gelu => pooler.activated(g, first, Activation::Gelu)?,
        };
        g.tap("pooled", y)
    }

    /// The hidden states of the first token: B T C -> B C.
    pub(super) fn first_of(&self, g: &mut Graph, x: Var) -> Result<Var> {
        let [b, _, c] = g.dims(x, "B T C")?;
        let first = g.slice(x, 1, 0, 1)?;
        g.reshape(first, shape![b, c])
    }

    /// The scores of the head: B T -> B T V for masked tokens, B L for classes, B T L for labels, B T 2 for
    /// the ends of an answer, B T 1 for replaced tokens.
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

    /// Whether the second sentence follows the first (score 0) or not (score 1): B T C -> B 2.
    pub(crate) fn follows_of(&self, g: &mut Graph, x: Var) -> Result<Var> {
        let Head::Pretraining { follows, .. } = &self.head else {
            return Err(self.lacks("scores of sentences that follow", "Pretraining"));
        };
        let pooled = self.pooled_of(g, x)?;
        g.scope("follows", |g| follows.forward_f32(g, pooled))
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
        let dropped = |g: &mut Graph, x: Var| g.scope("head", |g| g.dropout(x, self.head_dropout()));
        match &self.head {
            Head::Masked(MaskedHead { transform, norm, bias })
            | Head::Pretraining { masked: MaskedHead { transform, norm, bias }, .. } => {
                let kind = self.config.variant.masked.unwrap_or(self.config.activation);
                let x = g.scope("transform", |g| {
                    let x = transform.activated(g, x, activation_of(kind))?;
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
            Head::Replaced { transform, score } => {
                let kind = activation_of(self.config.activation);
                let x = g.scope("transform", |g| transform.activated(g, x, kind))?;
                Ok((x, score.weight(g)?, score.bias(g)?))
            }
            Head::None | Head::Pooler(_) => {
                Err(self
                    .lacks("scores", "Masked, Pretraining, Classes, MeanClasses, Labels, Span or Replaced"))
            }
        }
    }

    /// What the head drops of its input: what the blocks drop, and nothing before the ends of an answer.
    fn head_dropout(&self) -> f32 {
        let usual = if self.config.head == BertHead::Span { 0.0 } else { self.config.dropout };
        self.config.variant.head_dropout.unwrap_or(usual)
    }

    fn lacks(&self, what: &str, heads: &str) -> Error {
        Error::invalid(
            "bert",
            format!("a model with the head {:?} has no {what}", self.config.head),
            format!("make it with the head {heads}"),
        )
    }
}
