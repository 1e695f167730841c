//! A GPT: learned positions, pre-norm blocks of causal attention and a feed-forward part, a final norm, an
//! untied head. Letters: B batch, T positions, C width, H heads, D = C / H, F = 4 C, V vocabulary.

use regard_graph::{Error, Graph, Init, Result, Shape, Var};
use regard_ops::prelude::*;
use regard_ops::{Activation, Attention, CrossEntropyOptions, LinearOptions, NormSpec};

/// The sizes of a GPT.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GptConfig {
    /// How many blocks.
    pub layers: usize,
    /// Heads of each attention; they share the width.
    pub heads: usize,
    /// Width of the residual stream.
    pub width: usize,
    /// The most positions.
    pub context: usize,
    /// How many tokens there are.
    pub vocabulary: usize,
    /// Probability with which activations are dropped in training.
    pub dropout: f32,
}

/// A GPT of some size. All methods record; parameters are made in the store at the first use.
#[derive(Clone, Copy, Debug)]
pub struct Gpt {
    config: GptConfig,
}

impl Gpt {
    /// A model of these sizes, if they make sense.
    pub fn new(config: GptConfig) -> Result<Self> {
        let nonsense = |what: String, advice: &str| Err(Error::invalid("gpt", what, advice));
        let GptConfig { layers, heads, width, context, vocabulary, dropout } = config;
        if [layers, heads, width, context, vocabulary].contains(&0) {
            return nonsense(format!("one of the sizes is 0: {config:?}"), "give every size at least 1");
        }
        if width % heads != 0 {
            return nonsense(
                format!("a width of {width} cannot be shared by {heads} heads"),
                "choose a width that is a multiple of the heads",
            );
        }
        if !(0.0..1.0).contains(&dropout) {
            return nonsense(
                format!("dropout is {dropout}"),
                "choose a probability from 0 up to, not including, 1",
            );
        }
        Ok(Gpt { config })
    }

    /// Its sizes.
    pub fn config(&self) -> &GptConfig {
        &self.config
    }

    /// The scores of the next token at every position: B T -> B T V.
    pub fn logits(&self, g: &mut Graph, ids: Var) -> Result<Var> {
        let x = self.hidden(g, ids)?;
        let head = self.weight(g, "head.weight", [self.config.vocabulary, self.config.width])?;
        g.scope("head", |g| {
            g.linear(x, head, LinearOptions { output: Some(DType::F32), ..Default::default() })
        })
    }

    /// The sum of the losses of all targets times `scale`, a single number. Targets of −100 are ignored.
    pub fn loss(&self, g: &mut Graph, ids: Var, targets: Var, scale: Var) -> Result<Var> {
        let x = self.hidden(g, ids)?;
        let head = self.weight(g, "head.weight", [self.config.vocabulary, self.config.width])?;
        let options = CrossEntropyOptions::default();
        let losses = g.scope("head", |g| g.linear_cross_entropy(x, head, None, targets, scale, options))?;
        Ok(losses.loss)
    }

    /// The residual stream after the last norm: B T -> B T C.
    pub fn hidden(&self, g: &mut Graph, ids: Var) -> Result<Var> {
        let GptConfig { layers, width, context, vocabulary, .. } = self.config;
        let tokens = self.weight(g, "token_embedding.weight", [vocabulary, width])?;
        let positions = self.weight(g, "position_embedding.weight", [context, width])?;
        let mut x = g.scope("embedding", |g| -> Result<Var> {
            let x = g.embedding(tokens, ids, None)?; // B T C
            let x = g.add_position(x, positions, None)?;
            g.dropout(x, self.config.dropout)
        })?;
        for layer in 0..layers {
            x = g.scope(format!("block.{layer}"), |g| self.block(g, x, layer))?;
        }
        g.scope("final", |g| self.norm(g, x, "final_norm"))
    }

    fn block(&self, g: &mut Graph, x: Var, layer: usize) -> Result<Var> {
        let name = |part: &str| format!("block.{layer}.{part}");
        let x = g.scope("attention", |g| self.attention(g, x, &name))?;
        g.scope("feed_forward", |g| self.feed_forward(g, x, &name))
    }

    fn attention(&self, g: &mut Graph, x: Var, name: &dyn Fn(&str) -> String) -> Result<Var> {
        let c = self.config.width;
        let h = self.norm(g, x, &name("attention_norm"))?;
        let project = |g: &mut Graph, part: &str| -> Result<Var> {
            let weight = self.weight(g, &name(&format!("attention.{part}.weight")), [c, c])?;
            let bias = g.parameter(&name(&format!("attention.{part}.bias")), [c], Init::Zeros)?;
            let y = g.linear(h, weight, LinearOptions { bias: Some(bias), ..Default::default() })?;
            g.split_heads(y, self.config.heads) // B T (H D) -> B T H D
        };
        let (query, key, value) = (project(g, "query")?, project(g, "key")?, project(g, "value")?);
        let spec = Attention { dropout: self.config.dropout, ..Attention::causal() };
        let mixed = g.attention(query, key, value, &spec)?.y; // B T H D
        let mixed = g.merge_heads(mixed)?;
        let weight = self.weight(g, &name("attention.output.weight"), [c, c])?;
        let bias = g.parameter(&name("attention.output.bias"), [c], Init::Zeros)?;
        self.join(g, x, mixed, weight, bias)
    }

    fn feed_forward(&self, g: &mut Graph, x: Var, name: &dyn Fn(&str) -> String) -> Result<Var> {
        let (c, f) = (self.config.width, self.config.width.saturating_mul(4));
        let h = self.norm(g, x, &name("feed_forward_norm"))?;
        let weight = self.weight(g, &name("feed_forward.up.weight"), [f, c])?;
        let bias = g.parameter(&name("feed_forward.up.bias"), [f], Init::Zeros)?;
        let options = LinearOptions { bias: Some(bias), activation: Activation::Gelu, ..Default::default() };
        let h = g.linear(h, weight, options)?;
        let weight = self.weight(g, &name("feed_forward.down.weight"), [c, f])?;
        let bias = g.parameter(&name("feed_forward.down.bias"), [c], Init::Zeros)?;
        self.join(g, x, h, weight, bias)
    }

    /// x + dropout(h · Wᵀ + bias); without dropout the sum is part of the product.
    fn join(&self, g: &mut Graph, x: Var, h: Var, weight: Var, bias: Var) -> Result<Var> {
        if self.config.dropout == 0.0 {
            return g.linear(
                h,
                weight,
                LinearOptions { bias: Some(bias), residual: Some(x), ..Default::default() },
            );
        }
        let y = g.linear(h, weight, LinearOptions { bias: Some(bias), ..Default::default() })?;
        let y = g.dropout(y, self.config.dropout)?;
        g.add(x, y)
    }

    fn norm(&self, g: &mut Graph, x: Var, name: &str) -> Result<Var> {
        let weight = g.parameter(&format!("{name}.weight"), [self.config.width], Init::Ones)?;
        let bias = g.parameter(&format!("{name}.bias"), [self.config.width], Init::Zeros)?;
        let spec = NormSpec { output: Some(g.precision().activation()), ..Default::default() };
        g.layer_norm(x, Some(weight), Some(bias), spec)
    }

    fn weight(&self, g: &mut Graph, name: &str, shape: impl Into<Shape>) -> Result<Var> {
        g.parameter(name, shape, Init::Normal(0.02))
    }
}
