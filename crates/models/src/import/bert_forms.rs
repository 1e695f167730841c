//! The files of BERT and of the encoders that descend from it, as tables: how their configs name our settings
//! and what stands there if nothing is said, how their tensors are called, and which heads they have.

use crate::bert::{BertConfig, BertFamily, BertHead, BertVariant, PRESETS};
use regard_layers::FeedForwardKind;

/// How one of these families keeps its models.
pub(super) struct BertForm {
    /// Whose they are.
    pub family: BertFamily,
    /// `model_type` of its configs.
    pub model_type: &'static str,
    /// What people call it.
    pub name: &'static str,
    /// Its architectures, in the order of `heads`; the first has no head.
    pub architectures: &'static [&'static str],
    /// Under what the encoder stands in a model with a head: `bert.`.
    pub prefix: &'static str,
    /// How its configs name what all of them have.
    pub keys: Keys,
    /// What holds where a config is silent.
    pub defaults: BertConfig,
    /// Our names and theirs around the blocks, without prefix; those that end in a dot have weight and bias.
    pub embedding: &'static [(&'static str, &'static str)],
    /// Where the blocks stand.
    pub blocks: &'static str,
    /// Our names and theirs in each block.
    pub block: &'static [(&'static str, &'static str)],
    /// Its architectures and the tensors of their heads.
    pub heads: &'static [HeadForm],
    /// What the bias of masked tokens is called, and the other names of tied matrices.
    pub copies: &'static [(&'static str, &'static str)],
    /// Numbers that are no parameters.
    pub ignored: &'static [&'static str],
}

/// The names of settings in a config; of several, the first that is there.
pub(super) struct Keys {
    pub layers: &'static [&'static str],
    pub heads: &'static [&'static str],
    pub width: &'static [&'static str],
    pub hidden: &'static str,
    pub activation: &'static str,
    pub dropout: &'static str,
    pub attention_dropout: &'static str,
    /// None where it is a number of the family.
    pub epsilon: Option<&'static str>,
    /// None where tokens have no types.
    pub types: Option<&'static str>,
    /// None where embeddings are as wide as the blocks.
    pub embedding_width: Option<&'static str>,
    /// What the heads for classes, for labels and for answers drop.
    pub classes_dropout: Option<HeadDropout>,
    pub labels_dropout: Option<HeadDropout>,
    pub span_dropout: Option<HeadDropout>,
}

/// A dropout of a head.
pub(super) struct HeadDropout {
    /// Its key.
    pub key: &'static str,
    /// What it is where the config is silent; none for that of the blocks.
    pub default: Option<f32>,
}

/// One architecture.
pub(super) struct HeadForm {
    /// Its head; numbers of classes and labels are the config's.
    pub head: BertHead,
    /// Our names and theirs. Those that begin with a dot stand under the prefix.
    pub names: &'static [(&'static str, &'static str)],
}

const KEYS: Keys = Keys {
    layers: &["num_hidden_layers"],
    heads: &["num_attention_heads"],
    width: &["hidden_size"],
    hidden: "intermediate_size",
    activation: "hidden_act",
    dropout: "hidden_dropout_prob",
    attention_dropout: "attention_probs_dropout_prob",
    epsilon: Some("layer_norm_eps"),
    types: Some("type_vocab_size"),
    embedding_width: None,
    classes_dropout: Some(HeadDropout { key: "classifier_dropout", default: None }),
    labels_dropout: Some(HeadDropout { key: "classifier_dropout", default: None }),
    span_dropout: None,
};

/// BERT base.
const BASE: BertConfig = PRESETS[3].1;

const EMBEDDING: &[(&str, &str)] = &[
    ("token_embedding.weight", "embeddings.word_embeddings.weight"),
    ("token_type_embedding.weight", "embeddings.token_type_embeddings.weight"),
    ("position_embedding.weight", "embeddings.position_embeddings.weight"),
    ("embedding_norm.", "embeddings.LayerNorm."),
];

const BLOCK: &[(&str, &str)] = &[
    ("attention_norm.", "attention.output.LayerNorm."),
    ("attention.query.", "attention.self.query."),
    ("attention.key.", "attention.self.key."),
    ("attention.value.", "attention.self.value."),
    ("attention.output.", "attention.output.dense."),
    ("feed_forward_norm.", "output.LayerNorm."),
    ("feed_forward.up.", "intermediate.dense."),
    ("feed_forward.down.", "output.dense."),
];

/// The heads whose tensors are called the same everywhere.
const LABELS: HeadForm = HeadForm { head: BertHead::Labels(0), names: &[("head.", "classifier.")] };
const SPAN: HeadForm = HeadForm { head: BertHead::Span, names: &[("head.", "qa_outputs.")] };
const POOLER: HeadForm = HeadForm { head: BertHead::Pooler, names: &[("pooler.", ".pooler.dense.")] };
const NO_POOLER: HeadForm = HeadForm { head: BertHead::None, names: &[] };
/// Classes from two layers of the head's own, the first under a name of its own.
const TWO_LAYERS: HeadForm = HeadForm {
    head: BertHead::Classes(0),
    names: &[("pooler.", "classifier.dense."), ("head.", "classifier.out_proj.")],
};
/// The head for masked tokens that RoBERTa and MPNet have.
const LM_HEAD: HeadForm = HeadForm {
    head: BertHead::Masked,
    names: &[
        ("transform.", "lm_head.dense."),
        ("transform_norm.", "lm_head.layer_norm."),
        ("head.bias", "lm_head.bias"),
    ],
};

const BERT: BertForm = BertForm {
    family: BertFamily::Bert,
    model_type: "bert",
    name: "BERT",
    architectures: &[
        "BertModel",
        "BertForMaskedLM",
        "BertForPreTraining",
        "BertForSequenceClassification",
        "BertForTokenClassification",
        "BertForQuestionAnswering",
    ],
    prefix: "bert.",
    keys: KEYS,
    defaults: BASE,
    embedding: EMBEDDING,
    blocks: "encoder.layer",
    block: BLOCK,
    heads: &[
        POOLER,
        HeadForm {
            head: BertHead::Masked,
            names: &[
                ("transform.", "cls.predictions.transform.dense."),
                ("transform_norm.", "cls.predictions.transform.LayerNorm."),
                ("head.bias", "cls.predictions.bias"),
            ],
        },
        HeadForm {
            head: BertHead::Pretraining,
            names: &[
                ("transform.", "cls.predictions.transform.dense."),
                ("transform_norm.", "cls.predictions.transform.LayerNorm."),
                ("head.bias", "cls.predictions.bias"),
                ("pooler.", ".pooler.dense."),
                ("follows.", "cls.seq_relationship."),
            ],
        },
        HeadForm {
            head: BertHead::Classes(0),
            names: &[("pooler.", ".pooler.dense."), ("head.", "classifier.")],
        },
        LABELS,
        SPAN,
    ],
    copies: &[
        ("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
        ("cls.predictions.decoder.bias", "cls.predictions.bias"),
    ],
    ignored: &["embeddings.position_ids", "bert.embeddings.position_ids"],
};

const ROBERTA: BertForm = BertForm {
    family: BertFamily::Roberta,
    model_type: "roberta",
    name: "RoBERTa",
    architectures: &[
        "RobertaModel",
        "RobertaForMaskedLM",
        "RobertaForSequenceClassification",
        "RobertaForTokenClassification",
        "RobertaForQuestionAnswering",
    ],
    prefix: "roberta.",
    defaults: BertConfig { vocabulary: 50265, variant: BertVariant::ROBERTA, ..BASE },
    heads: &[POOLER, LM_HEAD, TWO_LAYERS, LABELS, SPAN],
    copies: &[
        ("lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight"),
        ("lm_head.decoder.bias", "lm_head.bias"),
    ],
    ignored: &["embeddings.position_ids", "roberta.embeddings.position_ids"],
    ..BERT
};

/// Its tensors stand under `roberta`, too.
const XLM_ROBERTA: BertForm = BertForm {
    family: BertFamily::XlmRoberta,
    model_type: "xlm-roberta",
    name: "XLM-RoBERTa",
    architectures: &[
        "XLMRobertaModel",
        "XLMRobertaForMaskedLM",
        "XLMRobertaForSequenceClassification",
        "XLMRobertaForTokenClassification",
        "XLMRobertaForQuestionAnswering",
    ],
    defaults: BertConfig { variant: BertVariant::XLM_ROBERTA, ..BASE },
    ..ROBERTA
};

const DISTILBERT: BertForm = BertForm {
    family: BertFamily::Distilbert,
    model_type: "distilbert",
    name: "DistilBERT",
    architectures: &[
        "DistilBertModel",
        "DistilBertForMaskedLM",
        "DistilBertForSequenceClassification",
        "DistilBertForTokenClassification",
        "DistilBertForQuestionAnswering",
    ],
    prefix: "distilbert.",
    keys: Keys {
        layers: &["n_layers", "num_hidden_layers"],
        heads: &["n_heads", "num_attention_heads"],
        width: &["dim", "hidden_size"],
        hidden: "hidden_dim",
        activation: "activation",
        dropout: "dropout",
        attention_dropout: "attention_dropout",
        epsilon: None,
        types: None,
        embedding_width: None,
        classes_dropout: Some(HeadDropout { key: "seq_classif_dropout", default: Some(0.2) }),
        labels_dropout: None,
        span_dropout: Some(HeadDropout { key: "qa_dropout", default: Some(0.1) }),
    },
    defaults: BertConfig { layers: 6, token_types: 0, variant: BertVariant::DISTILBERT, ..BASE },
    embedding: &[
        ("token_embedding.weight", "embeddings.word_embeddings.weight"),
        ("position_embedding.weight", "embeddings.position_embeddings.weight"),
        ("embedding_norm.", "embeddings.LayerNorm."),
    ],
    blocks: "transformer.layer",
    block: &[
        ("attention_norm.", "sa_layer_norm."),
        ("attention.query.", "attention.q_lin."),
        ("attention.key.", "attention.k_lin."),
        ("attention.value.", "attention.v_lin."),
        ("attention.output.", "attention.out_lin."),
        ("feed_forward_norm.", "output_layer_norm."),
        ("feed_forward.up.", "ffn.lin1."),
        ("feed_forward.down.", "ffn.lin2."),
    ],
    heads: &[
        NO_POOLER,
        HeadForm {
            head: BertHead::Masked,
            names: &[
                ("transform.", "vocab_transform."),
                ("transform_norm.", "vocab_layer_norm."),
                ("head.bias", "vocab_projector.bias"),
            ],
        },
        HeadForm {
            head: BertHead::Classes(0),
            names: &[("pooler.", "pre_classifier."), ("head.", "classifier.")],
        },
        LABELS,
        SPAN,
    ],
    copies: &[("vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight")],
    ignored: &["embeddings.position_ids", "distilbert.embeddings.position_ids"],
};

const MPNET: BertForm = BertForm {
    family: BertFamily::Mpnet,
    model_type: "mpnet",
    name: "MPNet",
    architectures: &[
        "MPNetModel",
        "MPNetForMaskedLM",
        "MPNetForSequenceClassification",
        "MPNetForTokenClassification",
        "MPNetForQuestionAnswering",
    ],
    prefix: "mpnet.",
    keys: Keys { types: None, classes_dropout: None, labels_dropout: None, ..KEYS },
    defaults: BertConfig { vocabulary: 30527, token_types: 0, variant: BertVariant::MPNET, ..BASE },
    embedding: &[
        ("token_embedding.weight", "embeddings.word_embeddings.weight"),
        ("position_embedding.weight", "embeddings.position_embeddings.weight"),
        ("embedding_norm.", "embeddings.LayerNorm."),
        ("relative.table", "encoder.relative_attention_bias.weight"),
    ],
    blocks: "encoder.layer",
    block: &[
        ("attention_norm.", "attention.LayerNorm."),
        ("attention.query.", "attention.attn.q."),
        ("attention.key.", "attention.attn.k."),
        ("attention.value.", "attention.attn.v."),
        ("attention.output.", "attention.attn.o."),
        ("feed_forward_norm.", "output.LayerNorm."),
        ("feed_forward.up.", "intermediate.dense."),
        ("feed_forward.down.", "output.dense."),
    ],
    heads: &[POOLER, LM_HEAD, TWO_LAYERS, LABELS, SPAN],
    copies: &[
        ("lm_head.decoder.weight", "mpnet.embeddings.word_embeddings.weight"),
        ("lm_head.decoder.bias", "lm_head.bias"),
    ],
    ignored: &["embeddings.position_ids", "mpnet.embeddings.position_ids"],
};

const ELECTRA: BertForm = BertForm {
    family: BertFamily::Electra,
    model_type: "electra",
    name: "ELECTRA",
    architectures: &[
        "ElectraModel",
        "ElectraForMaskedLM",
        "ElectraForPreTraining",
        "ElectraForSequenceClassification",
        "ElectraForTokenClassification",
        "ElectraForQuestionAnswering",
    ],
    prefix: "electra.",
    keys: Keys { embedding_width: Some("embedding_size"), ..KEYS },
    defaults: BertConfig {
        heads: 4,
        width: 256,
        hidden: 1024,
        variant: BertVariant { embedding_width: Some(128), ..BertVariant::ELECTRA },
        ..BASE
    },
    embedding: &[
        ("token_embedding.weight", "embeddings.word_embeddings.weight"),
        ("token_type_embedding.weight", "embeddings.token_type_embeddings.weight"),
        ("position_embedding.weight", "embeddings.position_embeddings.weight"),
        ("embedding_norm.", "embeddings.LayerNorm."),
        ("embedding_projection.", "embeddings_project."),
    ],
    heads: &[
        NO_POOLER,
        HeadForm {
            head: BertHead::Masked,
            names: &[
                ("transform.", "generator_predictions.dense."),
                ("transform_norm.", "generator_predictions.LayerNorm."),
                ("head.bias", "generator_lm_head.bias"),
            ],
        },
        HeadForm {
            head: BertHead::Replaced,
            names: &[
                ("transform.", "discriminator_predictions.dense."),
                ("head.", "discriminator_predictions.dense_prediction."),
            ],
        },
        TWO_LAYERS,
        LABELS,
        SPAN,
    ],
    copies: &[("generator_lm_head.weight", "electra.embeddings.word_embeddings.weight")],
    ignored: &["embeddings.position_ids", "electra.embeddings.position_ids"],
    ..BERT
};

const ALBERT: BertForm = BertForm {
    family: BertFamily::Albert,
    model_type: "albert",
    name: "ALBERT",
    architectures: &[
        "AlbertModel",
        "AlbertForMaskedLM",
        "AlbertForPreTraining",
        "AlbertForSequenceClassification",
        "AlbertForTokenClassification",
        "AlbertForQuestionAnswering",
    ],
    prefix: "albert.",
    keys: Keys {
        embedding_width: Some("embedding_size"),
        classes_dropout: Some(HeadDropout { key: "classifier_dropout_prob", default: Some(0.1) }),
        labels_dropout: Some(HeadDropout { key: "classifier_dropout_prob", default: Some(0.1) }),
        ..KEYS
    },
    defaults: BertConfig {
        heads: 64,
        width: 4096,
        hidden: 16384,
        vocabulary: 30000,
        activation: FeedForwardKind::GeluTanh,
        dropout: 0.0,
        attention_dropout: 0.0,
        variant: BertVariant { embedding_width: Some(128), ..BertVariant::ALBERT },
        ..BASE
    },
    embedding: &[
        ("token_embedding.weight", "embeddings.word_embeddings.weight"),
        ("token_type_embedding.weight", "embeddings.token_type_embeddings.weight"),
        ("position_embedding.weight", "embeddings.position_embeddings.weight"),
        ("embedding_norm.", "embeddings.LayerNorm."),
        ("embedding_projection.", "encoder.embedding_hidden_mapping_in."),
    ],
    blocks: "encoder.albert_layer_groups",
    block: &[
        ("attention_norm.", "albert_layers.0.attention.LayerNorm."),
        ("attention.query.", "albert_layers.0.attention.query."),
        ("attention.key.", "albert_layers.0.attention.key."),
        ("attention.value.", "albert_layers.0.attention.value."),
        ("attention.output.", "albert_layers.0.attention.dense."),
        ("feed_forward_norm.", "albert_layers.0.full_layer_layer_norm."),
        ("feed_forward.up.", "albert_layers.0.ffn."),
        ("feed_forward.down.", "albert_layers.0.ffn_output."),
    ],
    heads: &[
        HeadForm { head: BertHead::Pooler, names: &[("pooler.", ".pooler.")] },
        HeadForm {
            head: BertHead::Masked,
            names: &[
                ("transform.", "predictions.dense."),
                ("transform_norm.", "predictions.LayerNorm."),
                ("head.bias", "predictions.bias"),
            ],
        },
        HeadForm {
            head: BertHead::Pretraining,
            names: &[
                ("transform.", "predictions.dense."),
                ("transform_norm.", "predictions.LayerNorm."),
                ("head.bias", "predictions.bias"),
                ("pooler.", ".pooler."),
                ("follows.", "sop_classifier.classifier."),
            ],
        },
        HeadForm { head: BertHead::Classes(0), names: &[("pooler.", ".pooler."), ("head.", "classifier.")] },
        LABELS,
        SPAN,
    ],
    copies: &[
        ("predictions.decoder.weight", "albert.embeddings.word_embeddings.weight"),
        ("predictions.decoder.bias", "predictions.bias"),
    ],
    ignored: &["embeddings.position_ids", "albert.embeddings.position_ids"],
};

/// All of them.
pub(super) static FORMS: [BertForm; 7] = [BERT, ROBERTA, XLM_ROBERTA, DISTILBERT, MPNET, ELECTRA, ALBERT];

/// That of a family.
pub(super) fn form_of(family: BertFamily) -> &'static BertForm {
    let known = FORMS.iter().find(|form| form.family == family);
    known.unwrap_or(&FORMS[0])
}

impl BertForm {
    /// The form of a head, numbers of classes left aside. A model without a pooler has that of one with it.
    pub fn head_form(&self, head: BertHead) -> Option<&HeadForm> {
        self.place(head).map(|place| &self.heads[place])
    }

    /// The architecture of a head.
    pub fn architecture(&self, head: BertHead) -> Option<&'static str> {
        self.place(head).map(|place| self.architectures[place])
    }

    fn place(&self, head: BertHead) -> Option<usize> {
        match head {
            BertHead::None => Some(0),
            head => self.heads.iter().position(|form| same_kind(form.head, head)),
        }
    }
}

fn same_kind(one: BertHead, other: BertHead) -> bool {
    match (one, other) {
        (BertHead::Classes(_), BertHead::Classes(_)) | (BertHead::Labels(_), BertHead::Labels(_)) => true,
        _ => one == other,
    }
}
