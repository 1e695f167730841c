//! Multi-head attention: projections, the fused attention op, the output projection.
//! Self: B T C -> B T C. Cross: B T C with a memory B S M -> B T C. Heads: H of width D, G key/value heads.

use crate::taps::tap;
use crate::{LinearConfig, LinearLayer, NormConfig, NormKind, NormLayer, Parameter, Parameters};
use regard_graph::{Error, Graph, Init, Result, Var};
use regard_ops::prelude::*;
use regard_ops::{
    Attention, AttentionBias, AttentionKind, AttentionMask, AttentionScale, RotarySpec, Window,
};

/// The settings of an attention layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionConfig {
    /// C, the width of the stream that asks.
    pub width: usize,
    /// Where keys and values come from.
    pub source: KeySourceConfig,
    /// H.
    pub heads: usize,
    /// G, key/value heads; H is a multiple of it.
    pub groups: usize,
    /// D, the width of queries and keys in each head.
    pub head_width: usize,
    /// E, the width of values in each head.
    pub value_width: usize,
    /// Which projections have a bias.
    pub biases: Biases,
    /// β, by which scores are multiplied.
    pub scale: HeadScale,
    /// A soft cap of the scaled scores.
    pub cap: Option<f32>,
    /// A norm of queries and keys before they turn.
    pub query_key_norm: Option<QueryKeyNorm>,
    /// How queries and keys are turned by their positions, if at all.
    pub rotary: Option<RotarySpec>,
    /// The keys near a query that this layer sees; as the call says if not given.
    pub window: Option<Window>,
    /// Soft, hard, Gumbel or straight-through.
    pub kind: AttentionKind,
    /// Probability of dropping a weight, in training.
    pub dropout: f32,
    /// Standard deviation of the projections at the beginning.
    pub std: f32,
}

/// Where keys and values come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeySourceConfig {
    /// The stream itself.
    #[default]
    Own,
    /// A memory of this width: cross-attention.
    Memory(usize),
}

/// A norm of queries and keys, with weights of its own for each of the two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueryKeyNorm {
    /// What is brought to one length.
    pub span: NormSpan,
    /// Which norm.
    pub kind: NormKind,
    /// Added to the variance.
    pub epsilon: f32,
}

/// What a norm of queries and keys brings to one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormSpan {
    /// Each head by itself, all with the same weights: Qwen 3, Gemma 3.
    Head,
    /// All heads together: OLMo 2.
    Width,
}

/// Which projections have a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Biases {
    /// Query, key and value.
    pub inputs: bool,
    /// The output.
    pub output: bool,
}

/// β, by which scores are multiplied.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum HeadScale {
    /// 1/√D.
    #[default]
    Default,
    /// A number of one's own.
    Constant(f32),
    /// Learned, one for each head, beginning at 1/√D.
    Learned,
}

impl Default for Biases {
    /// Everywhere.
    fn default() -> Self {
        Biases { inputs: true, output: true }
    }
}

impl AttentionConfig {
    /// The usual one: heads share the width, every projection has a bias, β = 1/√D. For heads of a width of
    /// their own, set `head_width` and `value_width` afterwards.
    pub fn new(width: usize, heads: usize) -> Result<Self> {
        if heads == 0 || !width.is_multiple_of(heads) {
            return Err(Error::invalid(
                "attention",
                format!("a width of {width} cannot be shared by {heads} heads"),
                "choose a width that is a multiple of the heads, or set head_width and value_width",
            ));
        }
        let head_width = width / heads;
        Ok(AttentionConfig {
            width,
            source: KeySourceConfig::Own,
            heads,
            groups: heads,
            head_width,
            value_width: head_width,
            biases: Biases::default(),
            scale: HeadScale::Default,
            cap: None,
            query_key_norm: None,
            rotary: None,
            window: None,
            kind: AttentionKind::Soft,
            dropout: 0.0,
            std: 0.02,
        })
    }

    fn check(&self) -> Result<()> {
        let AttentionConfig { width, heads, groups, head_width, value_width, .. } = *self;
        if [width, heads, groups, head_width, value_width].contains(&0) {
            return Err(Error::invalid(
                "attention",
                format!("{heads} heads of width {head_width} over a width of {width}"),
                "give every size at least 1",
            ));
        }
        if heads % groups != 0 {
            return Err(Error::invalid(
                "attention",
                format!("{heads} heads cannot share {groups} key/value heads"),
                "choose heads that are a multiple of the key/value heads",
            ));
        }
        // Where nothing is learned, Gumbel's temperature is a part of β, which would then lie inside of the
        // cap.
        if self.cap.is_some() && matches!(self.kind, AttentionKind::Gumbel { .. }) {
            return Err(Error::invalid(
                "attention",
                "scores with a soft cap and Gumbel's noise",
                "choose soft attention, or leave the cap out",
            ));
        }
        Ok(())
    }
}

impl QueryKeyNorm {
    /// The norm of this many heads of queries or keys.
    fn layer(&self, of: &str, heads: usize, head_width: usize, p: &mut Parameters) -> Result<NormLayer> {
        let QueryKeyNorm { span, kind, epsilon } = *self;
        let width = if span == NormSpan::Head { head_width } else { heads * head_width };
        let config = NormConfig { kind, width, epsilon, shift: true };
        p.under(format!("{of}_norm"), |p| NormLayer::new(config, p))
    }
}

/// Where keys and values of one call come from.
#[derive(Clone, Copy, Debug)]
pub enum KeySource {
    /// The stream itself.
    Own,
    /// A memory, B S M.
    Memory(Var),
    /// What [`AttentionLayer::keep`] kept of a memory in an earlier run: rows and slots of the caches.
    Kept {
        /// Rows of the caches.
        rows: usize,
        /// Slots of the caches.
        capacity: usize,
    },
}

/// What surrounds one call: who may see whom, where everybody stands, and what is kept from run to run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context {
    /// Which keys a query may attend to.
    pub mask: AttentionMask,
    /// The position of each query, i32 `[B T]`; counted from 0 if not given.
    pub query_position: Option<Var>,
    /// The position of each key, i32 `[B S]`; counted from 0 if not given.
    pub key_position: Option<Var>,
    /// For beam search: from which row of the caches each key comes, i32 `[B S]`.
    pub key_row: Option<Var>,
    /// What is added to the scores.
    pub bias: AttentionBias,
    /// Keys and values go into caches, and attention is over all that the caches hold.
    pub cached: Option<Cached>,
}

impl Context {
    /// Each position sees itself and what came before.
    pub fn causal() -> Self {
        Context { mask: AttentionMask { causal: true, ..Default::default() }, ..Default::default() }
    }
}

/// Caches of keys and values: states `cache.<layer>.key` and `.value`, `[rows capacity G D]`.
#[derive(Clone, Copy, Debug)]
pub struct Cached {
    /// The slot of each new key, i32 `[B T]`: its position, or its position modulo the capacity for a ring.
    pub slot: Var,
    /// Rows: the batch.
    pub rows: usize,
    /// Slots: the most keys that are remembered.
    pub capacity: usize,
}

/// Multi-head attention. Parameters: `query`, `key`, `value`, `output`, each a linear layer; `query_norm` and
/// `key_norm` where there are such norms; `scale` `[H]` if learned.
#[derive(Clone, Debug)]
pub struct AttentionLayer {
    config: AttentionConfig,
    query: LinearLayer,
    key: LinearLayer,
    value: LinearLayer,
    output: LinearLayer,
    /// The norms of queries and of keys.
    norms: Option<[NormLayer; 2]>,
    scale: Option<Parameter>,
    /// The names of the caches of keys and values.
    caches: [String; 2],
    wide: bool,
}

impl AttentionLayer {
    /// Declares the parameters.
    pub fn new(config: AttentionConfig, parameters: &mut Parameters) -> Result<Self> {
        config.check()?;
        let AttentionConfig { width, heads, groups, head_width, value_width, biases, std, .. } = config;
        let from = match config.source {
            KeySourceConfig::Own => width,
            KeySourceConfig::Memory(width) => width,
        };
        let mut linear = |name: &str, inputs: usize, outputs: usize, bias: bool| {
            parameters.under(name, |p| LinearLayer::new(LinearConfig { inputs, outputs, bias, std }, p))
        };
        let query = linear("query", width, heads * head_width, biases.inputs)?;
        let key = linear("key", from, groups * head_width, biases.inputs)?;
        let value = linear("value", from, groups * value_width, biases.inputs)?;
        let output = linear("output", heads * value_width, width, biases.output)?;
        let norms = match config.query_key_norm {
            Some(norm) => Some([
                norm.layer("query", heads, head_width, parameters)?,
                norm.layer("key", groups, head_width, parameters)?,
            ]),
            None => None,
        };
        let scale = match config.scale {
            HeadScale::Learned => Some(parameters.declare(
                "scale",
                [heads],
                Init::Constant(1.0 / (head_width as f32).sqrt()),
            )?),
            _ => None,
        };
        let caches = ["key", "value"].map(|name| format!("cache.{}", parameters.dotted(name)));
        Ok(AttentionLayer { config, query, key, value, output, norms, scale, caches, wide: false })
    }

    /// Whether its results are f32, as the residual stream is, instead of the dtype of activations: for one
    /// that is added to the stream as it is.
    pub fn wide(self, wide: bool) -> Self {
        AttentionLayer { wide, ..self }
    }

    /// output(attention(x)): B T C -> B T C. Taps: `query`, `key`, `value` as the heads compare and mix them,
    /// `mixed`; and `pattern` for those who ask ([`crate::taps::ask`]).
    pub fn forward(&self, g: &mut Graph, x: Var, source: KeySource, context: &Context) -> Result<Var> {
        let mixed = self.mix(g, x, source, context)?;
        if self.wide { self.output.forward_f32(g, mixed) } else { self.output.forward(g, mixed) }
    }

    /// Computes keys and values of a memory and keeps them for later runs, one slot for each position.
    pub fn keep(&self, g: &mut Graph, memory: Var, cached: &Cached) -> Result<()> {
        let (key, value) = self.keys_and_values(g, memory, None)?;
        self.remember(g, key, value, cached)?;
        Ok(())
    }

    /// The heads' mixed values, side by side: B T C -> B T (H E)
    fn mix(&self, g: &mut Graph, x: Var, source: KeySource, context: &Context) -> Result<Var> {
        let AttentionConfig { heads, .. } = self.config;
        let query = self.query.forward(g, x)?;
        let query = self.normed_heads(g, query, heads, 0)?; // B T (H D) -> B T H D
        let query = self.turned(g, query, context.query_position)?;
        let query = tap(g, "query", query)?;
        let (key, value) = match source {
            // New keys stand where the queries do; those in the caches have been turned already.
            KeySource::Own => self.keys_and_values(g, x, context.query_position)?,
            KeySource::Memory(memory) => self.keys_and_values(g, memory, context.key_position)?,
            KeySource::Kept { rows, capacity } => self.recall(g, rows, capacity)?,
        };
        let (key, value) = match (source, &context.cached) {
            (KeySource::Own, Some(cached)) => self.remember(g, key, value, cached)?,
            _ => (key, value),
        };
        let (kind, sharper) = self.weighing(g);
        let scale = match (self.config.scale, &self.scale) {
            (HeadScale::Constant(beta), _) => AttentionScale::Constant(beta * sharper),
            (_, Some(learned)) => {
                let beta = learned.var(g)?;
                AttentionScale::Parameter(if sharper == 1.0 { beta } else { g.scale(beta, sharper)? })
            }
            _ if sharper == 1.0 => AttentionScale::Default,
            _ => AttentionScale::Constant(sharper / (self.config.head_width as f32).sqrt()),
        };
        let key_position = match (source, context.cached, context.key_position) {
            (KeySource::Own, None, None) => context.query_position,
            (_, _, given) => given,
        };
        let spec = Attention {
            scale,
            cap: self.config.cap,
            mask: AttentionMask { window: self.config.window.or(context.mask.window), ..context.mask },
            query_position: context.query_position,
            key_position,
            key_row: context.key_row,
            bias: context.bias,
            kind,
            dropout: self.config.dropout,
        };
        let mixed = g.attention(query, key, value, &spec)?.y; // B T H D, B S G D, B S G E -> B T H E
        let mixed = tap(g, "mixed", mixed)?;
        g.merge_heads(mixed)
    }

    /// Queries (0) or keys (1) in their heads, under their norm where there is one: B T (H D) -> B T H D
    fn normed_heads(&self, g: &mut Graph, x: Var, heads: usize, which: usize) -> Result<Var> {
        let norm = self.norms.as_ref().map(|norms| &norms[which]);
        match (norm, self.config.query_key_norm.map(|norm| norm.span)) {
            (Some(norm), Some(NormSpan::Width)) => {
                let normed = norm.forward(g, x)?;
                g.split_heads(normed, heads)
            }
            (Some(norm), _) => {
                let x = g.split_heads(x, heads)?;
                norm.forward(g, x)
            }
            (None, _) => g.split_heads(x, heads),
        }
    }

    /// Turned by their positions, where this layer does that.
    fn turned(&self, g: &mut Graph, x: Var, position: Option<Var>) -> Result<Var> {
        match self.config.rotary {
            Some(spec) => g.rotary(x, position, spec),
            None => Ok(x),
        }
    }

    /// How attention weighs in this graph, and what β is multiplied by. Gumbel's noise is there to learn
    /// with: a graph that is not differentiated has none, only the temperature.
    fn weighing(&self, g: &Graph) -> (AttentionKind, f32) {
        match self.config.kind {
            AttentionKind::Gumbel { hard: true, .. } if !g.trains() => (AttentionKind::Hard, 1.0),
            AttentionKind::Gumbel { temperature, .. } if !g.trains() => {
                (AttentionKind::Soft, 1.0 / temperature)
            }
            kind => (kind, 1.0),
        }
    }

    /// B S M -> B S G D and B S G E
    fn keys_and_values(&self, g: &mut Graph, from: Var, position: Option<Var>) -> Result<(Var, Var)> {
        let key = self.key.forward(g, from)?;
        let key = self.normed_heads(g, key, self.config.groups, 1)?;
        let key = self.turned(g, key, position)?;
        let value = self.value.forward(g, from)?;
        let value = g.split_heads(value, self.config.groups)?;
        Ok((tap(g, "key", key)?, tap(g, "value", value)?))
    }

    /// Writes new keys and values into the caches, and gives back all that the caches hold. A second time in
    /// one graph is refused: it would put the keys of another part of the model over those of this one.
    fn remember(&self, g: &mut Graph, key: Var, value: Var, cached: &Cached) -> Result<(Var, Var)> {
        let (keys, values) = self.recall_as(g, g.dtype(key), cached.rows, cached.capacity)?;
        if g.nodes().iter().any(|node| node.outputs.contains(&keys)) {
            return Err(Error::invalid(
                "attention",
                format!("`{}` is written a second time in one graph", self.caches[0]),
                "a layer has one pair of caches: where it is applied more than once, keep nothing from run to run",
            ));
        }
        let keys = g.cache_write(keys, key, cached.slot, None)?;
        Ok((keys, g.cache_write(values, value, cached.slot, None)?))
    }

    fn recall(&self, g: &mut Graph, rows: usize, capacity: usize) -> Result<(Var, Var)> {
        let dtype = g.precision().activation();
        self.recall_as(g, dtype, rows, capacity)
    }

    fn recall_as(&self, g: &mut Graph, dtype: DType, rows: usize, capacity: usize) -> Result<(Var, Var)> {
        let AttentionConfig { groups, head_width, value_width, .. } = self.config;
        let [keys, values] = &self.caches;
        let keys = g.state(keys, dtype, [rows, capacity, groups, head_width], Init::Zeros)?;
        let values = g.state(values, dtype, [rows, capacity, groups, value_width], Init::Zeros)?;
        Ok((keys, values))
    }
}
