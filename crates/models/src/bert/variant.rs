//! In what the encoders that descend from BERT differ from it, as data: RoBERTa (Liu et al. 2019) and
//! XLM-RoBERTa, DistilBERT (Sanh et al. 2019), MPNet (Song et al. 2020), ELECTRA (Clark et al. 2020), ALBERT
//! (Lan et al. 2020). All of them are the blocks of BERT; here stands what is around the blocks, and whose
//! files a model has.

use regard_layers::FeedForwardKind;
use regard_ops::Activation;

/// Whose names and settings the files of an encoder have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BertFamily {
    /// BERT itself.
    #[default]
    Bert,
    /// RoBERTa.
    Roberta,
    /// RoBERTa of a hundred languages, in files of its own name.
    XlmRoberta,
    /// DistilBERT.
    Distilbert,
    /// MPNet.
    Mpnet,
    /// ELECTRA.
    Electra,
    /// ALBERT.
    Albert,
}

/// What follows the linear layer on the first position, from which classes are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstActivation {
    /// tanh: the pooler of BERT.
    #[default]
    Tanh,
    /// max(x, 0)
    Relu,
    /// GELU by the error function.
    Gelu,
}

/// In what an encoder differs from BERT.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BertVariant {
    /// Whose files it has.
    pub family: BertFamily,
    /// How many rows of the table of positions stand before that of the first token.
    pub position_offset: usize,
    /// The token that stands for padding alone, where positions are counted over all other tokens: with it
    /// inside of a text, the tokens behind it would stand elsewhere.
    pub padding: Option<usize>,
    /// Buckets of distances that all blocks share, beside absolute positions.
    pub buckets: Option<usize>,
    /// The width of the embeddings, where a layer brings them to that of the blocks.
    pub embedding_width: Option<usize>,
    /// Whether one block is run again and again, instead of one after another.
    pub shared: bool,
    /// What follows the linear layer on the first position.
    pub first: FirstActivation,
    /// Whether that layer drops its input, too, in training.
    pub drops_first: bool,
    /// What happens inside of the head for masked tokens, where it is not what happens inside of the blocks.
    pub masked: Option<FeedForwardKind>,
    /// Probability with which the head drops its input in training; that of the blocks if not given.
    pub head_dropout: Option<f32>,
}

/// From this distance on all share the last bucket.
pub(super) const MAX_DISTANCE: usize = 128;

impl BertVariant {
    /// BERT itself.
    pub const BERT: BertVariant = BertVariant {
        family: BertFamily::Bert,
        position_offset: 0,
        padding: None,
        buckets: None,
        embedding_width: None,
        shared: false,
        first: FirstActivation::Tanh,
        drops_first: false,
        masked: None,
        head_dropout: None,
    };
    /// RoBERTa: positions are counted behind the padding's, which is token 1.
    pub const ROBERTA: BertVariant = BertVariant {
        family: BertFamily::Roberta,
        position_offset: 2,
        padding: Some(1),
        drops_first: true,
        masked: Some(FeedForwardKind::Gelu),
        ..BertVariant::BERT
    };
    /// XLM-RoBERTa.
    pub const XLM_ROBERTA: BertVariant =
        BertVariant { family: BertFamily::XlmRoberta, ..BertVariant::ROBERTA };
    /// DistilBERT: classes come of a rectified layer.
    pub const DISTILBERT: BertVariant =
        BertVariant { family: BertFamily::Distilbert, first: FirstActivation::Relu, ..BertVariant::BERT };
    /// MPNet: RoBERTa's positions, and T5's buckets of distances.
    pub const MPNET: BertVariant =
        BertVariant { family: BertFamily::Mpnet, buckets: Some(32), ..BertVariant::ROBERTA };
    /// ELECTRA: narrow embeddings.
    pub const ELECTRA: BertVariant = BertVariant {
        family: BertFamily::Electra,
        first: FirstActivation::Gelu,
        drops_first: true,
        masked: Some(FeedForwardKind::Gelu),
        ..BertVariant::BERT
    };
    /// ALBERT: narrow embeddings, and one block for all.
    pub const ALBERT: BertVariant =
        BertVariant { family: BertFamily::Albert, shared: true, ..BertVariant::BERT };
}

/// The activation of a layer that is not gated.
pub(super) fn activation_of(kind: FeedForwardKind) -> Activation {
    match kind {
        FeedForwardKind::Relu => Activation::Relu,
        FeedForwardKind::GeluTanh => Activation::GeluTanh,
        FeedForwardKind::Silu => Activation::Silu,
        _ => Activation::Gelu,
    }
}
