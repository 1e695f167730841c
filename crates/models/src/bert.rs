//! BERT (Devlin et al. 2019): token, position and token-type embeddings with a norm, post-norm blocks of
//! attention in both directions, and a head; with other settings around the same blocks, RoBERTa, DistilBERT,
//! MPNet, ELECTRA and ALBERT ([`BertVariant`]). Letters: B batch, T positions, C width, F hidden width, V
//! vocabulary, L labels.

mod head;
mod variant;

pub use head::BertHead;
pub use variant::{BertFamily, BertVariant, FirstActivation};

use crate::mechanisms::Mechanisms;
use crate::model::SentencePooling;
use crate::positions::{Positions, check_positions};
use crate::sentence;
use head::Head;
use regard_graph::{DType, Error, Graph, Init, Result, Var};
use regard_layers::{
    AbsoluteConfig, AbsolutePositions, AttentionConfig, BlockConfig, Context, EmbeddingConfig,
    EmbeddingLayer, FeedForwardConfig, FeedForwardKind, LinearConfig, LinearLayer, NormConfig, NormLayer,
    NormPlace, Parameter, Parameters, RelativeConfig, Stack, StackConfig,
};
use regard_ops::AttentionMask;
use regard_ops::prelude::*;
use variant::MAX_DISTANCE;

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
    /// How many types of tokens there are: first and second sentence, as a rule. 0 if it is told none.
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
    /// In what it differs from BERT around the blocks: RoBERTa, DistilBERT and others.
    pub variant: BertVariant,
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
        variant: BertVariant::BERT,
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

    /// The width of the embeddings.
    pub fn embedding_width(&self) -> usize {
        self.variant.embedding_width.unwrap_or(self.width)
    }

    /// What is added to the embeddings, and what acts inside of attention, to tell order.
    fn order(&self) -> (AbsoluteConfig, RelativeConfig) {
        let BertVariant { position_offset, buckets, .. } = self.variant;
        let chosen = self.mechanisms.positions.unwrap_or(Positions::Learned);
        let most = self.context.saturating_add(position_offset);
        let (absolute, relative) = chosen.parts(self.embedding_width(), most, self.std, true);
        match buckets {
            Some(buckets) if self.mechanisms.positions.is_none() => {
                let max_distance = MAX_DISTANCE;
                (absolute, RelativeConfig::Buckets { buckets, max_distance, bidirectional: true })
            }
            _ => (absolute, relative),
        }
    }

    fn check(&self) -> Result<()> {
        let nonsense = |what: String, advice: &str| Err(Error::invalid("bert", what, advice));
        let BertConfig { layers, heads, width, hidden, context, vocabulary, .. } = *self;
        if [layers, heads, width, hidden, context, vocabulary, self.embedding_width()].contains(&0) {
            return nonsense(format!("one of the sizes is 0: {self:?}"), "give every size at least 1");
        }
        if !width.is_multiple_of(heads) && self.mechanisms.head_width.is_none() {
            return nonsense(
                format!("a width of {width} cannot be shared by {heads} heads"),
                "choose a width that is a multiple of the heads",
            );
        }
        self.mechanisms.check("bert", false)?;
        let gated =
            [Some(self.activation), self.variant.masked].into_iter().flatten().find(|kind| kind.is_gated());
        if let Some(kind) = gated {
            return nonsense(format!("the feed-forward parts are {kind:?}"), "choose Gelu, GeluTanh or Relu");
        }
        if !(self.std.is_finite() && self.std >= 0.0) {
            return nonsense(
                format!("the standard deviation of the weights is {}", self.std),
                "give a number that is not negative",
            );
        }
        let head_dropout = self.variant.head_dropout.unwrap_or(0.0);
        for (name, probability) in [
            ("dropout", self.dropout),
            ("attention_dropout", self.attention_dropout),
            ("head_dropout", head_dropout),
        ] {
            if !(0.0..1.0).contains(&probability) {
                return nonsense(
                    format!("{name} is {probability}"),
                    "choose a probability from 0 up to, not including, 1",
                );
            }
        }
        if let Some(buckets) = self.variant.buckets {
            let distances = Positions::Buckets { buckets, max_distance: MAX_DISTANCE };
            check_positions("bert", distances, true)?;
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

/// A BERT. All methods record; parameters are made in the store at the first use.
#[derive(Clone, Debug)]
pub struct Bert {
    config: BertConfig,
    parameters: Parameters,
    tokens: EmbeddingLayer,
    token_types: Option<Parameter>,
    positions: AbsolutePositions,
    embedding_norm: NormLayer,
    projection: Option<LinearLayer>,
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
        let narrow = config.embedding_width();
        let table = EmbeddingConfig { tokens: config.vocabulary, width: narrow, std };
        let tokens = p.under("token_embedding", |p| EmbeddingLayer::new(table, p))?;
        let token_types = match config.token_types {
            0 => None,
            types => Some(p.declare("token_type_embedding.weight", [types, narrow], Init::Normal(std))?),
        };
        let mechanisms = config.mechanisms;
        let (absolute, relative) = config.order();
        let positions = p.under("position_embedding", |p| AbsolutePositions::new(absolute, p))?;
        let norm = mechanisms.norm_of(NormConfig { epsilon, ..NormConfig::layer(width) });
        let narrow_norm = NormConfig { width: narrow, ..norm };
        let embedding_norm = p.under("embedding_norm", |p| NormLayer::new(narrow_norm, p))?;
        let projection = match config.variant.embedding_width {
            None => None,
            Some(inputs) => {
                let sizes = LinearConfig { inputs, outputs: width, bias: true, std };
                Some(p.under("embedding_projection", |p| LinearLayer::new(sizes, p))?)
            }
        };
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
        let final_norm = block.place.leaves_raw();
        let stack = StackConfig { layers: config.layers, block, final_norm, relative };
        let stack = match config.variant.shared {
            true => Stack::repeated(stack, p)?,
            false => Stack::new(stack, p)?,
        };
        let head = Head::new(&config, narrow_norm, p)?;
        Ok(Bert {
            config,
            parameters,
            tokens,
            token_types,
            positions,
            embedding_norm,
            projection,
            stack,
            head,
        })
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
        let x = match &self.token_types {
            Some(table) => self.add_types(g, x, table, text.token_types)?,
            None => x,
        };
        let x = self.add_positions(g, x)?;
        let x = self.embedding_norm.forward_f32(g, x)?;
        let Some(projection) = &self.projection else {
            let x = g.tap("stream", x)?;
            return g.dropout(x, self.config.dropout);
        };
        let x = g.dropout(x, self.config.dropout)?;
        let x = projection.forward_f32(g, x)?;
        g.tap("stream", x)
    }

    /// With the vector of each token's type, or of type 0: B T C -> B T C.
    fn add_types(&self, g: &mut Graph, x: Var, table: &Parameter, types: Option<Var>) -> Result<Var> {
        let table = table.var(g)?;
        let types = match types {
            Some(types) => g.scope("token_types", |g| g.embedding(table, types, Some(DType::F32)))?,
            None => g.slice(table, 0, 0, 1)?, // 1 C, the same for all
        };
        g.add(x, types)
    }

    /// With the vector of each position, of which the first stand for none: B T C -> B T C.
    fn add_positions(&self, g: &mut Graph, x: Var) -> Result<Var> {
        match (&self.positions, self.config.variant.position_offset) {
            (AbsolutePositions::Learned(table), offset @ 1..) => {
                let table = table.var(g)?;
                let table = g.slice(table, 0, offset, self.config.context)?;
                g.add_position(x, table, None)
            }
            (positions, _) => positions.forward(g, x, None),
        }
    }

    /// The mean of the hidden states of all tokens that are not padding: B T -> B C; 0 for a text without
    /// any.
    pub fn mean(&self, g: &mut Graph, text: &BertText) -> Result<Var> {
        let x = self.hidden(g, text)?;
        self.mean_of(g, text, x)
    }

    fn mean_of(&self, g: &mut Graph, text: &BertText, x: Var) -> Result<Var> {
        sentence::mean(g, x, text.key_mask)
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
        g.scope("sentence", |g| sentence::normalized(g, one))
    }
}
