//! A family of one's own: decoders whose blocks read the stream once, norm(x), and add what attention and the
//! feed-forward part make of it at the same time: x + attention(norm(x)) + feed_forward(norm(x)), as in GPT-J
//! and PaLM. One norm and one way past it in each block, rotary positions, the head is the table of the
//! embedding. Letters: B batch, T positions, C width, H heads, V vocabulary.

use regard::graph::{Graph, Result, Var};
use regard::layers::{
    AttentionConfig, AttentionLayer, Context, EmbeddingConfig, EmbeddingLayer, FeedForward,
    FeedForwardConfig, FeedForwardKind, KeySource, NormConfig, NormLayer, Parameters,
};
use regard::models::import::json::Fields;
use regard::models::{
    Caches, Decoder, Dropout, Expected, Family, Form, Inputs, Key, Known, Labels, Model, ModelKeys, Needs,
    Outputs, Promises, Reads, Task, Tokens, Weights,
};
use regard::ops::prelude::*;
use regard::ops::{CrossEntropyOptions, RotarySpec};
use serde_json::{Value, json};
use std::sync::Arc;

/// What `config.json` calls it.
const MODEL_TYPE: &str = "parallel";

/// The sizes of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sizes {
    layers: usize,
    heads: usize,
    width: usize,
    context: usize,
    vocabulary: usize,
}

/// A decoder of parallel blocks. Parameters: `token_embedding`, `block.<n>.norm`, `.attention`,
/// `.feed_forward`, `final_norm`.
#[derive(Clone, Debug)]
struct Parallel {
    sizes: Sizes,
    parameters: Parameters,
    tokens: EmbeddingLayer,
    blocks: Vec<Block>,
    final_norm: NormLayer,
}

#[derive(Clone, Debug)]
struct Block {
    norm: NormLayer,
    attention: AttentionLayer,
    feed_forward: FeedForward,
}

impl Block {
    fn new(width: usize, heads: usize, p: &mut Parameters) -> Result<Block> {
        let attention =
            AttentionConfig { rotary: Some(RotarySpec::default()), ..AttentionConfig::new(width, heads)? };
        let feed_forward = FeedForwardConfig {
            width,
            hidden: 4 * width,
            kind: FeedForwardKind::Gelu,
            bias: true,
            dropout: 0.0,
            std: 0.02,
        };
        Ok(Block {
            norm: p.under("norm", |p| NormLayer::new(NormConfig::layer(width), p))?,
            attention: p.under("attention", |p| AttentionLayer::new(attention, p))?,
            feed_forward: p.under("feed_forward", |p| FeedForward::new(feed_forward, p))?,
        })
    }

    /// x + attention(norm(x)) + feed_forward(norm(x)): B T C -> B T C
    fn forward(&self, g: &mut Graph, x: Var, seen: &Context) -> Result<Var> {
        let normed = self.norm.forward(g, x)?;
        let attended = g.scope("attention", |g| self.attention.forward(g, normed, KeySource::Own, seen))?;
        let computed = g.scope("feed_forward", |g| self.feed_forward.forward(g, normed))?;
        let x = g.add(x, attended)?;
        let x = g.add(x, computed)?;
        g.tap("stream", x)
    }
}

impl Parallel {
    fn new(sizes: Sizes) -> Result<Parallel> {
        let Sizes { layers, heads, width, vocabulary, .. } = sizes;
        let mut parameters = Parameters::new();
        let p = &mut parameters;
        let table = EmbeddingConfig { tokens: vocabulary, width, std: 0.02 };
        let tokens = p.under("token_embedding", |p| EmbeddingLayer::new(table, p))?;
        let mut blocks = Vec::new();
        for layer in 0..layers {
            blocks.push(p.under(format!("block.{layer}"), |p| Block::new(width, heads, p))?);
        }
        let final_norm = p.under("final_norm", |p| NormLayer::new(NormConfig::layer(width), p))?;
        Ok(Parallel { sizes, parameters, tokens, blocks, final_norm })
    }

    /// The stream after the last norm: B T -> B T C
    fn hidden(&self, g: &mut Graph, ids: Var, seen: &Context) -> Result<Var> {
        let mut x = g.scope("embedding", |g| self.tokens.forward(g, ids))?;
        for (layer, block) in self.blocks.iter().enumerate() {
            x = g.scope(format!("block.{layer}"), |g| block.forward(g, x, seen))?;
        }
        g.scope("final_norm", |g| self.final_norm.forward(g, x))
    }
}

/// What a pass sees: all that came before, and no padding where there is a mask.
fn seen(inputs: &Inputs) -> Context {
    let mut seen = Context::causal();
    seen.query_position = inputs.position;
    seen.mask.key_mask = inputs.mask;
    seen
}

impl Model for Parallel {
    fn family(&self) -> &str {
        MODEL_TYPE
    }

    fn kind(&self) -> &str {
        "a decoder"
    }

    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn reads(&self) -> Reads {
        let Sizes { vocabulary, context, .. } = self.sizes;
        Reads::text(Tokens { placed: true, ..Tokens::causal(vocabulary, Some(context)) })
    }

    fn pass(&self, g: &mut Graph, inputs: &Inputs) -> Result<Outputs> {
        let hidden = self.hidden(g, inputs.ids()?, &seen(inputs))?;
        let logits = self.scores(g, hidden)?;
        Ok(vec![("logits", logits), ("hidden", hidden)])
    }

    fn task(&self) -> Option<Task> {
        Some(Task { name: "language", labels: Labels::Next, choices: self.sizes.vocabulary })
    }

    fn loss(
        &self,
        g: &mut Graph,
        inputs: &Inputs,
        labels: Var,
        scale: Var,
        options: CrossEntropyOptions,
    ) -> Result<Var> {
        let x = self.hidden(g, inputs.ids()?, &seen(inputs))?;
        let table = self.tokens.weight(g)?;
        Ok(g.scope("head", |g| g.linear_cross_entropy(x, table, None, labels, scale, options))?.loss)
    }

    fn promises(&self) -> Promises {
        Promises { anywhere: true, ..Promises::DECODER } // rotary positions tell distances
    }

    fn with_dropout(&self, _: Dropout) -> Result<Arc<dyn Model>> {
        Ok(Arc::new(self.clone())) // it has none
    }

    fn config_to_json(&self) -> Result<Value> {
        let Sizes { layers, heads, width, context, vocabulary } = self.sizes;
        Ok(
            json!({ "model_type": MODEL_TYPE, "layers": layers, "heads": heads, "width": width, "context": context,
            "vocabulary": vocabulary }),
        )
    }

    fn as_decoder(&self) -> Option<&dyn Decoder> {
        Some(self)
    }
}

impl Decoder for Parallel {
    fn vocabulary(&self) -> usize {
        self.sizes.vocabulary
    }

    fn context(&self) -> Option<usize> {
        Some(self.sizes.context)
    }

    fn window(&self) -> Option<usize> {
        None
    }

    fn caches(&self) -> Caches {
        Caches::Keys
    }

    fn resume(&self, g: &mut Graph, ids: Var, known: Known) -> Result<Var> {
        let seen = match known {
            Known::Cached(cached) => cached.context(g, ids)?,
            Known::Nothing { .. } => Context::causal(),
        };
        self.hidden(g, ids, &seen)
    }

    fn scores(&self, g: &mut Graph, x: Var) -> Result<Var> {
        g.scope("head", |g| self.tokens.head(g, x))
    }
}

/// The family.
pub struct Parallels;

impl Family for Parallels {
    fn name(&self) -> &str {
        MODEL_TYPE
    }

    fn about(&self) -> &str {
        "a decoder of parallel blocks"
    }

    fn forms(&self) -> Vec<Form> {
        vec![Form { model_type: MODEL_TYPE, architectures: &[] }]
    }

    fn open(&self, _: &str, config: &Value, _: &dyn Weights) -> Result<Arc<dyn Model>> {
        let fields = Fields::new(MODEL_TYPE, config)?;
        Ok(Arc::new(Parallel::new(Sizes {
            layers: fields.size("layers")?,
            heads: fields.size("heads")?,
            width: fields.size("width")?,
            context: fields.size("context")?,
            vocabulary: fields.size("vocabulary")?,
        })?))
    }

    fn tasks(&self) -> &[&str] {
        &["language"]
    }

    fn keys(&self) -> Vec<Key> {
        vec![
            Key::new("layers", Expected::Size, "how many blocks"),
            Key::new("heads", Expected::Size, "heads of each attention"),
            Key::new("width", Expected::Size, "the width of the stream"),
            Key::new("context", Expected::Size, "the most positions"),
        ]
    }

    fn make(&self, keys: &ModelKeys, needs: &Needs) -> Result<Arc<dyn Model>> {
        Ok(Arc::new(Parallel::new(Sizes {
            layers: keys.size("layers").unwrap_or(2),
            heads: keys.size("heads").unwrap_or(2),
            width: keys.size("width").unwrap_or(32),
            context: keys.size("context").unwrap_or(64),
            vocabulary: needs.vocabulary,
        })?))
    }
}
