//! Decoders of one stream: GPT-2, Llama, Gemma, GPT-NeoX and what lies between them, told apart by their
//! settings alone. Embedding, blocks of causal attention and a feed-forward part, a final norm, a head.
//! Letters: B batch, T positions, C width, H heads, G key/value heads, D head width, F hidden width, V
//! vocabulary.

use crate::decoder::{Cached, Caches, Decoder, Known};
use crate::families::gpt::{GptForm, NATIVE};
use crate::mechanisms::{check_attention, check_dropouts, check_scale};
use crate::positions::{Positions, check_positions};
use crate::variants::{Multipliers, OtherLayers, SoftCaps};
use regard_graph::{Error, Graph, Result, Var};
use regard_layers::{
    AbsolutePositions, AttentionConfig, Biases, BlockConfig, Context, EmbeddingConfig, EmbeddingLayer,
    FeedForwardConfig, FeedForwardKind, HeadScale, KeySourceConfig, LinearConfig, LinearLayer, NormConfig,
    NormKind, NormPlace, NormSpan, Parameters, QueryKeyNorm, RelativeConfig, Stack, StackConfig,
};
use regard_ops::prelude::*;
use regard_ops::{AttentionKind, CrossEntropyOptions, LinearOptions, RotarySpec, Window};

/// The settings of a GPT. A variant is one of the presets with some fields of its own:
/// `GptConfig { layers: 2, width: 64, ..GptConfig::SMALL }`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GptConfig {
    /// L, how many blocks.
    pub layers: usize,
    /// H.
    pub heads: usize,
    /// G, key/value heads that the heads share; as many as heads if not given.
    pub groups: Option<usize>,
    /// C, the width of the residual stream.
    pub width: usize,
    /// D; C / H if not given.
    pub head_width: Option<usize>,
    /// F; 4 C if not given.
    pub hidden: Option<usize>,
    /// The most positions.
    pub context: usize,
    /// V, how many tokens there are.
    pub vocabulary: usize,
    /// How order is told.
    pub positions: Positions,
    /// How many keys a position sees, its own among them; all before it if not given.
    pub window: Option<usize>,
    /// β, by which scores are multiplied.
    pub scale: HeadScale,
    /// Soft, hard, straight-through or Gumbel.
    pub attention: AttentionKind,
    /// The layers that see or turn otherwise than `window` and `positions` say.
    pub others: Option<OtherLayers>,
    /// Whether queries and keys have a norm, of the kind that blocks have, and of what.
    pub query_key_norm: Option<NormSpan>,
    /// The norm: any but `Batch`.
    pub norm: NormKind,
    /// Where it stands.
    pub place: NormPlace,
    /// What the norms add to the variance.
    pub epsilon: f32,
    /// What happens inside of the feed-forward part.
    pub feed_forward: FeedForwardKind,
    /// Whether the projections of attention have biases.
    pub attention_bias: bool,
    /// Whether the output projection among them has one; as the others if not given.
    pub output_bias: Option<bool>,
    /// Whether the layers of the feed-forward part have biases.
    pub feed_forward_bias: bool,
    /// Whether the head is the table of the embedding; otherwise it has a weight of its own.
    pub tied: bool,
    /// Whether a head of its own has a bias.
    pub head_bias: bool,
    /// What streams are multiplied by.
    pub multipliers: Multipliers,
    /// How far scores can go.
    pub caps: SoftCaps,
    /// Probability with which embeddings and what blocks add are dropped in training.
    pub dropout: f32,
    /// The same for attention weights; as `dropout` if not given.
    pub attention_dropout: Option<f32>,
    /// The same for hidden activations of the feed-forward parts; 0 if not given.
    pub hidden_dropout: Option<f32>,
    /// Standard deviation of the weights at the beginning.
    pub std: f32,
}

impl GptConfig {
    /// G.
    pub fn groups(&self) -> usize {
        self.groups.unwrap_or(self.heads)
    }

    /// D.
    pub fn head_width(&self) -> usize {
        self.head_width.unwrap_or(self.width / self.heads.max(1))
    }

    /// F.
    pub fn hidden(&self) -> usize {
        self.hidden.unwrap_or(self.width.saturating_mul(4))
    }

    /// How many keys the positions of a layer see; all before them if none.
    pub fn window_of(&self, layer: usize) -> Option<usize> {
        match self.others {
            Some(others) if others.layers.has(layer) => others.window,
            _ => self.window,
        }
    }

    /// How the queries and keys of a layer turn, if they do.
    pub fn rotary_of(&self, layer: usize) -> Option<RotarySpec> {
        match (self.others, self.positions) {
            (Some(others), _) if others.layers.has(layer) => others.rotary,
            (_, Positions::Rotary(spec)) => Some(spec),
            _ => None,
        }
    }

    /// How many keys any layer sees: caches must keep so many; all if none.
    pub fn widest_window(&self) -> Option<usize> {
        (0..self.layers)
            .map(|layer| self.window_of(layer))
            .try_fold(1, |most, window| Some(most.max(window?)))
    }

    fn check(&self) -> Result<()> {
        let nonsense = |what: String, advice: &str| Err(Error::invalid("gpt", what, advice));
        let GptConfig { layers, heads, width, context, vocabulary, .. } = *self;
        let sizes = [("layers", layers), ("heads", heads), ("width", width), ("context", context)];
        let more = [("vocabulary", vocabulary), ("groups", self.groups.unwrap_or(1))];
        let given = [("head_width", self.head_width.unwrap_or(1)), ("hidden", self.hidden.unwrap_or(1))];
        let others = self.others.and_then(|others| others.window);
        let window = [("window", self.window.unwrap_or(1)), ("window", others.unwrap_or(1))];
        if let Some((name, _)) =
            sizes.iter().chain(&more).chain(&given).chain(&window).find(|(_, size)| *size == 0)
        {
            return nonsense(format!("{name} is 0"), "give every size at least 1");
        }
        if self.head_width.is_none() && width % heads != 0 {
            return nonsense(
                format!("a width of {width} cannot be shared by {heads} heads"),
                "choose a width that is a multiple of the heads, or give head_width",
            );
        }
        if heads % self.groups() != 0 {
            return nonsense(
                format!("{heads} heads cannot share {} key/value heads", self.groups()),
                "choose heads that are a multiple of the key/value heads",
            );
        }
        let turning = match self.positions {
            Positions::Rotary(spec) => Some(spec),
            _ => None,
        };
        for spec in turning.into_iter().chain(self.others.and_then(|others| others.rotary)) {
            let turning = spec.width.unwrap_or(self.head_width());
            if turning % 2 != 0 || turning > self.head_width() {
                return nonsense(
                    format!("{turning} channels turn in heads of width {}", self.head_width()),
                    "channels turn in pairs: let an even number turn, at most the whole head",
                );
            }
        }
        if self.norm == NormKind::Batch {
            return nonsense(
                "BatchNorm mixes later positions into earlier ones".into(),
                "choose Layer or Rms",
            );
        }
        if self.tied && self.head_bias {
            return nonsense(
                "a tied head with a bias".into(),
                "give the head a weight of its own, or no bias",
            );
        }
        self.multipliers.check()?;
        self.caps.check()?;
        check_positions("gpt", self.positions, false)?;
        check_attention("gpt", self.attention)?;
        check_scale("gpt", self.scale)?;
        let attention = ("attention_dropout", self.attention_dropout.unwrap_or(0.0));
        let hidden = ("hidden_dropout", self.hidden_dropout.unwrap_or(0.0));
        check_dropouts("gpt", &[("dropout", self.dropout), attention, hidden])
    }

    fn block(&self, layer: usize) -> BlockConfig {
        let GptConfig { heads, width, std, norm: kind, epsilon, .. } = *self;
        let head_width = self.head_width();
        let window = self.window_of(layer).map(|window| Window { before: window - 1, after: 0 });
        BlockConfig {
            attention: AttentionConfig {
                width,
                source: KeySourceConfig::Own,
                heads,
                groups: self.groups(),
                head_width,
                value_width: head_width,
                biases: Biases {
                    inputs: self.attention_bias,
                    output: self.output_bias.unwrap_or(self.attention_bias),
                },
                scale: self.scale,
                cap: self.caps.scores,
                query_key_norm: self.query_key_norm.map(|span| QueryKeyNorm { span, kind, epsilon }),
                rotary: self.rotary_of(layer),
                window,
                kind: self.attention,
                dropout: self.attention_dropout.unwrap_or(self.dropout),
                std,
            },
            cross: None,
            feed_forward: FeedForwardConfig {
                width,
                hidden: self.hidden(),
                kind: self.feed_forward,
                bias: self.feed_forward_bias,
                dropout: self.hidden_dropout.unwrap_or(0.0),
                std,
            },
            norm: NormConfig { kind, width, epsilon, shift: true },
            place: self.place,
            dropout: self.dropout,
        }
    }
}

/// What surrounds the ids of a run.
#[derive(Clone, Copy, Debug, Default)]
pub enum View {
    /// Whole sequences from position 0. Padding on the right needs no more: no position sees a later one.
    #[default]
    Whole,
    /// Padding anywhere, as on the left.
    Padded {
        /// The position of each id, i32 `[B T]`, counted from the first that is no padding.
        position: Var,
        /// True where an id is no padding, bool `[B T]`.
        mask: Var,
    },
    /// Ids that follow those of earlier runs.
    Cached(Cached),
}

/// A GPT. All methods record; parameters are made in the store at the first use.
#[derive(Clone, Debug)]
pub struct Gpt {
    config: GptConfig,
    form: &'static GptForm,
    parameters: Parameters,
    tokens: EmbeddingLayer,
    positions: AbsolutePositions,
    stack: Stack,
    head: Option<LinearLayer>,
}

impl Gpt {
    /// A model of these settings, if they make sense.
    pub fn new(config: GptConfig) -> Result<Self> {
        config.check()?;
        let GptConfig { width, vocabulary, context, std, .. } = config;
        let mut parameters = Parameters::new();
        let p = &mut parameters;
        let embedding = EmbeddingConfig { tokens: vocabulary, width, std };
        let tokens = p.under("token_embedding", |p| EmbeddingLayer::new(embedding, p))?;
        let (absolute, relative) = config.positions.parts(width, context, std, false);
        let positions = p.under("position_embedding", |p| AbsolutePositions::new(absolute, p))?;
        // Layers may turn in different ways, so each block is told its own.
        let relative = match relative {
            RelativeConfig::Rotary(_) => RelativeConfig::None,
            other => other,
        };
        let final_norm = config.place.leaves_raw();
        let stack = StackConfig { layers: config.layers, block: config.block(0), final_norm, relative };
        let stack = Stack::of_blocks(stack, |layer| config.block(layer), p)?;
        let stack = stack.residual_scale(config.multipliers.residual);
        let head = LinearConfig { inputs: width, outputs: vocabulary, bias: config.head_bias, std };
        let head = match config.tied {
            true => None,
            false => Some(p.under("head", |p| LinearLayer::new(head, p))?),
        };
        Ok(Gpt { config, form: &NATIVE, parameters, tokens, positions, stack, head })
    }

    /// The same model whose files have another form.
    pub fn in_form(self, form: &'static GptForm) -> Self {
        Gpt { form, ..self }
    }

    /// Whose names and layouts its files have.
    pub fn form(&self) -> &'static GptForm {
        self.form
    }

    /// Its settings.
    pub fn config(&self) -> &GptConfig {
        &self.config
    }

    /// What it learns.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The scores of the next token at every position: B T -> B T V.
    pub fn logits(&self, g: &mut Graph, ids: Var) -> Result<Var> {
        let x = self.hidden(g, ids, View::Whole)?;
        self.head(g, x)
    }

    /// The same for ids that follow those of earlier runs: a prompt in chunks, then one id at a time. Unless
    /// the caches are a ring, the bits are those of [`Gpt::logits`] for the whole sequence.
    pub fn decode(&self, g: &mut Graph, ids: Var, cached: Cached) -> Result<Var> {
        let x = self.hidden(g, ids, View::Cached(cached))?;
        self.head(g, x)
    }

    /// The sum of the losses of all targets times `scale`, a single number. Targets of −100 are ignored.
    pub fn loss(&self, g: &mut Graph, ids: Var, targets: Var, scale: Var) -> Result<Var> {
        let x = self.hidden(g, ids, View::Whole)?;
        self.loss_of(g, x, targets, scale)
    }

    /// The residual stream after the last norm: B T -> B T C. Taps: `embedding`, and those of
    /// the blocks ([`regard_layers::taps`]).
    pub fn hidden(&self, g: &mut Graph, ids: Var, view: View) -> Result<Var> {
        let context = self.context_of(g, ids, view)?;
        let x = g.scope("embedding", |g| -> Result<Var> {
            let x = self.tokens.forward(g, ids)?; // B T C
            let x = scaled(g, x, self.config.multipliers.embedding)?;
            let x = self.positions.forward(g, x, context.query_position)?;
            g.dropout(x, self.config.dropout)
        })?;
        let x = g.tap("embedding", x)?;
        self.stack.forward(g, x, &context, None)
    }

    /// The scores that a stream amounts to: B T C -> B T V, f32.
    pub fn head(&self, g: &mut Graph, x: Var) -> Result<Var> {
        let options = LinearOptions { output: Some(DType::F32), ..Default::default() };
        g.scope("head", |g| {
            let x = scaled(g, x, self.config.multipliers.logits)?;
            let logits = match &self.head {
                Some(head) => head.forward_with(g, x, options)?,
                None => self.tokens.head(g, x)?,
            };
            let Some(cap) = self.config.caps.logits else { return Ok(logits) };
            let within = g.scale(logits, 1.0 / cap)?;
            let within = g.tanh(within)?;
            g.scale(within, cap)
        })
    }

    /// The losses that a stream amounts to, as [`Gpt::loss`] gives them.
    pub fn loss_of(&self, g: &mut Graph, x: Var, targets: Var, scale: Var) -> Result<Var> {
        self.loss_of_with(g, x, targets, scale, CrossEntropyOptions::default())
    }

    /// The same with settings of its own, such as smoothed targets.
    pub fn loss_of_with(
        &self,
        g: &mut Graph,
        x: Var,
        targets: Var,
        scale: Var,
        options: CrossEntropyOptions,
    ) -> Result<Var> {
        if self.config.caps.logits.is_some() {
            // The fused loss makes its scores itself, and has no cap.
            let logits = self.head(g, x)?;
            return g.scope("head", |g| {
                let losses = g.cross_entropy(logits, targets, options)?;
                let sum = g.sum_all(losses)?;
                g.mul(sum, scale)
            });
        }
        let (weight, bias) = match &self.head {
            Some(head) => (head.weight(g)?, head.bias(g)?),
            None => (self.tokens.weight(g)?, None),
        };
        let losses = g.scope("head", |g| {
            let x = scaled(g, x, self.config.multipliers.logits)?;
            g.linear_cross_entropy(x, weight, bias, targets, scale, options)
        })?;
        Ok(losses.loss)
    }

    /// Who sees whom.
    fn context_of(&self, g: &Graph, ids: Var, view: View) -> Result<Context> {
        let mut context = Context::causal();
        match view {
            View::Whole => {}
            View::Padded { position, mask } => {
                context.query_position = Some(position);
                context.mask.key_mask = Some(mask);
            }
            View::Cached(cached) => {
                let rows = self.check_caches(g, ids, cached.capacity)?;
                cached.apply_to(&mut context, rows);
            }
        }
        Ok(context)
    }

    /// The rows of the caches, if these ids can go through caches of this capacity.
    fn check_caches(&self, g: &Graph, ids: Var, capacity: usize) -> Result<usize> {
        let [batch, length] = g.dims(ids, "B T")?;
        let Some(rows) = batch.fixed() else {
            return Err(Error::invalid(
                "gpt",
                "the batch of a run with caches is open",
                "give ids of a fixed batch: each example has a row of its own in the caches",
            ));
        };
        // A ring takes slots over; what the first of the new ids sees must outlive the last of them.
        let least = match self.config.widest_window() {
            Some(window) => {
                let seen = window.saturating_add(length.bound() - 1);
                Decoder::context(self).map_or(seen, |context| seen.min(context))
            }
            None => length.bound(),
        };
        if capacity < least {
            return Err(Error::invalid(
                "gpt",
                format!("caches of {capacity} slots for runs of up to {} ids", length.bound()),
                format!("give them at least {least}, or fewer ids at a time"),
            ));
        }
        Ok(rows)
    }
}

impl Decoder for Gpt {
    fn vocabulary(&self) -> usize {
        self.config.vocabulary
    }

    fn context(&self) -> Option<usize> {
        let GptConfig { positions, context, .. } = self.config;
        if self.window().is_some() && !positions.end() { None } else { Some(context) }
    }

    fn window(&self) -> Option<usize> {
        self.config.widest_window()
    }

    fn caches(&self) -> Caches {
        Caches::Keys
    }

    fn resume(&self, g: &mut Graph, ids: Var, known: Known) -> Result<Var> {
        let view = match known {
            Known::Cached(cached) => View::Cached(cached),
            Known::Nothing { .. } => View::Whole,
        };
        self.hidden(g, ids, view)
    }

    fn scores(&self, g: &mut Graph, x: Var) -> Result<Var> {
        self.head(g, x)
    }
}

/// x times a number, if it is another one than 1.
fn scaled(g: &mut Graph, x: Var, by: f32) -> Result<Var> {
    if by == 1.0 { Ok(x) } else { g.scale(x, by) }
}
