//! What a model is when its `config.json` says neither `model_type` nor `architectures`, as those of 2019 do
//! not: told by the names of its tensors, where only one family has such names. What several have stays open,
//! and is refused as before.

use crate::Weights;
use serde_json::{Value, json};

/// A tensor that tells a family, behind its prefix, and the heads that tell a class of it.
struct Sign {
    model_type: &'static str,
    /// The prefixes that this family puts before its body; an empty one is a body without a head.
    prefixes: &'static [&'static str],
    tensors: &'static [&'static str],
    /// Tensors that others have, who are like it otherwise.
    without: &'static [&'static str],
    /// A tensor of a head, and the class that has it, the most telling first.
    heads: &'static [(&'static str, &'static str)],
    bare: &'static str,
}

const SIGNS: &[Sign] = &[
    Sign {
        model_type: "bert",
        prefixes: &["bert.", ""],
        tensors: &["embeddings.word_embeddings.weight", "encoder.layer.0.attention.self.query.weight"],
        without: &[],
        heads: &[
            ("cls.seq_relationship.weight", "BertForPreTraining"),
            ("cls.predictions.transform.dense.weight", "BertForMaskedLM"),
            ("qa_outputs.weight", "BertForQuestionAnswering"),
            ("classifier.weight", "BertForSequenceClassification"),
        ],
        bare: "BertModel",
    },
    Sign {
        model_type: "gpt2",
        prefixes: &["transformer.", ""],
        tensors: &["wte.weight", "wpe.weight", "h.0.attn.c_attn.weight"],
        without: &[],
        heads: &[],
        bare: "GPT2LMHeadModel",
    },
    Sign {
        model_type: "vit",
        prefixes: &["vit.", ""],
        tensors: &[
            "embeddings.cls_token",
            "embeddings.patch_embeddings.projection.weight",
            "encoder.layer.0.layernorm_before.weight",
        ],
        without: &["embeddings.distillation_token", "embeddings.mask_token"],
        heads: &[("classifier.weight", "ViTForImageClassification")],
        bare: "ViTModel",
    },
];

/// Puts what the tensors tell into a config that says nothing, and gives the sentence that says so.
pub fn recognise(config: &mut Value, weights: &dyn Weights) -> Option<String> {
    if !config["model_type"].is_null() || !config["architectures"].is_null() || !config.is_object() {
        return None;
    }
    // A body of RoBERTa has the names of BERT's; it has one type of tokens, and counts positions from 2.
    if config["type_vocab_size"].as_u64() == Some(1) {
        return None;
    }
    let has = |name: &str| weights.has(name);
    let (sign, _) = SIGNS.iter().find_map(|sign| {
        let fits = |prefix: &&&str| {
            let there = |name: &&str| has(&format!("{prefix}{name}"));
            sign.tensors.iter().all(there) && !sign.without.iter().any(there)
        };
        sign.prefixes.iter().find(fits).map(|prefix| (sign, prefix))
    })?;
    let class = sign.heads.iter().find(|(tensor, _)| has(tensor)).map_or(sign.bare, |(_, class)| class);
    config["model_type"] = json!(sign.model_type);
    config["architectures"] = json!([class]);
    Some(format!(
        "config.json does not say what it is; by the names of its tensors it is a {class} (model_type `{}`)",
        sign.model_type
    ))
}
