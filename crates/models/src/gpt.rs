//! A GPT: learned positions, pre-norm blocks of causal attention and a feed-forward part, a final norm, an
//! untied head. Letters: B batch, T positions, C width, H heads, D = C / H, F = 4 C, V vocabulary.

use regard_graph::{Error, Graph, Init, Result, Shape, Var};
use regard_ops::prelude::*;
use regard_ops::{Activation, Attention, AttentionMask, CrossEntropyOptions, LinearOptions, NormSpec};

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

/// Where the positions of a run stand when keys and values are kept from run to run. The caches are states
/// `cache.<layer>.key` and `cache.<layer>.value`, one row of the context's length for each example of the batch,
/// whose size is therefore fixed.
#[derive(Clone, Copy, Debug)]
pub struct Cached {
    /// The position of each id, i32 `[B T]`; its key and value go to the same place in the caches.
    pub position: Var,
    /// How many positions of each example are known, those of this run among them, i32 `[B]`.
    pub lengths: Var,
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
        let x = self.hidden(g, ids, None)?;
        self.head(g, x)
    }

    /// The same for positions that follow those of earlier runs: a prompt in chunks, then one id at a time. The
    /// bits are those of [`Gpt::logits`] for the whole sequence.
    pub fn decode(&self, g: &mut Graph, ids: Var, cached: Cached) -> Result<Var> {
        let x = self.hidden(g, ids, Some(cached))?;
        self.head(g, x)
    }

    fn head(&self, g: &mut Graph, x: Var) -> Result<Var> {
        let head = self.weight(g, "head.weight", [self.config.vocabulary, self.config.width])?;
        g.scope("head", |g| {
            g.linear(x, head, LinearOptions { output: Some(DType::F32), ..Default::default() })
        })
    }

    /// The sum of the losses of all targets times `scale`, a single number. Targets of −100 are ignored.
    pub fn loss(&self, g: &mut Graph, ids: Var, targets: Var, scale: Var) -> Result<Var> {
        let x = self.hidden(g, ids, None)?;
        let head = self.weight(g, "head.weight", [self.config.vocabulary, self.config.width])?;
        let options = CrossEntropyOptions::default();
        let losses = g.scope("head", |g| g.linear_cross_entropy(x, head, None, targets, scale, options))?;
        Ok(losses.loss)
    }

    /// The residual stream after the last norm: B T -> B T C. Taps: `block.<layer>.stream`.
    pub fn hidden(&self, g: &mut Graph, ids: Var, cached: Option<Cached>) -> Result<Var> {
        let GptConfig { layers, width, context, vocabulary, .. } = self.config;
        let tokens = self.weight(g, "token_embedding.weight", [vocabulary, width])?;
        let positions = self.weight(g, "position_embedding.weight", [context, width])?;
        let mut x = g.scope("embedding", |g| -> Result<Var> {
            let x = g.embedding(tokens, ids, None)?; // B T C
            let x = g.add_position(x, positions, cached.map(|cached| cached.position))?;
            g.dropout(x, self.config.dropout)
        })?;
        for layer in 0..layers {
            x = g.scope(format!("block.{layer}"), |g| self.block(g, x, layer, cached))?;
        }
        g.scope("final", |g| self.norm(g, x, "final_norm"))
    }

    fn block(&self, g: &mut Graph, x: Var, layer: usize, cached: Option<Cached>) -> Result<Var> {
        let name = |part: &str| format!("block.{layer}.{part}");
        let x = g.scope("attention", |g| self.attention(g, x, layer, cached))?;
        let x = g.scope("feed_forward", |g| self.feed_forward(g, x, &name))?;
        g.tap("stream", x)
    }

    fn attention(&self, g: &mut Graph, x: Var, layer: usize, cached: Option<Cached>) -> Result<Var> {
        let name = |part: &str| format!("block.{layer}.{part}");
        let c = self.config.width;
        let h = self.norm(g, x, &name("attention_norm"))?;
        let project = |g: &mut Graph, part: &str| -> Result<Var> {
            let weight = self.weight(g, &name(&format!("attention.{part}.weight")), [c, c])?;
            let bias = g.parameter(&name(&format!("attention.{part}.bias")), [c], Init::Zeros)?;
            let y = g.linear(h, weight, LinearOptions { bias: Some(bias), ..Default::default() })?;
            g.split_heads(y, self.config.heads) // B T (H D) -> B T H D
        };
        let (query, key, value) = (project(g, "query")?, project(g, "key")?, project(g, "value")?);
        let mut spec = Attention { dropout: self.config.dropout, ..Attention::causal() };
        let (mut key, mut value) = (key, value);
        if let Some(Cached { position, lengths }) = cached {
            key = self.keep(g, &format!("cache.{layer}.key"), key, position)?;
            value = self.keep(g, &format!("cache.{layer}.value"), value, position)?;
            spec.query_position = Some(position);
            spec.mask = AttentionMask { key_lengths: Some(lengths), ..spec.mask };
        }
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

    /// Writes new keys or values into their cache, which takes their place: B T H D -> B S H D.
    fn keep(&self, g: &mut Graph, name: &str, new: Var, position: Var) -> Result<Var> {
        let Some(rows) = g.shape(new)[0].fixed() else {
            return Err(Error::invalid(
                "gpt",
                "the batch of a run with caches is open",
                "give ids of a fixed batch: each example has a row of its own in the caches",
            ));
        };
        let GptConfig { heads, width, context, .. } = self.config;
        let cache = g.state(name, g.dtype(new), [rows, context, heads, width / heads], Init::Zeros)?;
        g.cache_write(cache, new, position, None)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_have_a_row_for_each_example() {
        let config = GptConfig { layers: 1, heads: 1, width: 4, context: 3, vocabulary: 5, dropout: 0.0 };
        let mut g = Graph::inference();
        let b = g.open('B', 2).unwrap();
        let ids = g.input("ids", DType::I32, shape![b, 1]).unwrap();
        let position = g.input("position", DType::I32, shape![b, 1]).unwrap();
        let lengths = g.input("lengths", DType::I32, shape![b]).unwrap();
        let decoded = Gpt::new(config).unwrap().decode(&mut g, ids, Cached { position, lengths });
        let text = decoded.unwrap_err().to_string();
        assert!(text.contains("the batch of a run with caches is open; give ids of a fixed batch"), "{text}");
    }
}
