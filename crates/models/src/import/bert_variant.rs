//! In what an encoder differs from BERT, in our own words: the object `variant` of our `config.json`, for a
//! RoBERTa, say, that classifies by the mean.

use super::json::Fields;
use crate::bert::{BertFamily, BertVariant, FirstActivation};
use crate::mechanisms::{ACTIVATIONS, decimal, spelled};
use regard_graph::Result;
use serde_json::{Value, json};

const FAMILIES: [(&str, BertFamily); 7] = [
    ("bert", BertFamily::Bert),
    ("roberta", BertFamily::Roberta),
    ("xlm-roberta", BertFamily::XlmRoberta),
    ("distilbert", BertFamily::Distilbert),
    ("mpnet", BertFamily::Mpnet),
    ("electra", BertFamily::Electra),
    ("albert", BertFamily::Albert),
];
const FIRST: [(&str, FirstActivation); 3] =
    [("tanh", FirstActivation::Tanh), ("relu", FirstActivation::Relu), ("gelu", FirstActivation::Gelu)];

/// What a config says in the object `variant`; BERT itself where there is none.
pub(super) fn variant_from_json(fields: &Fields<'_>) -> Result<BertVariant> {
    let Some(inner) = fields.inner("variant")? else { return Ok(BertVariant::BERT) };
    let plain = BertVariant::BERT;
    Ok(BertVariant {
        family: word(&inner, "family", &FAMILIES)?.unwrap_or_default(),
        position_offset: inner.size_or_none("position_offset")?.unwrap_or(0),
        padding: inner.size_or_none("padding")?,
        buckets: inner.size_or_none("buckets")?,
        embedding_width: inner.size_or_none("embedding_width")?,
        shared: inner.truth("shared")?.unwrap_or(plain.shared),
        first: word(&inner, "first", &FIRST)?.unwrap_or_default(),
        drops_first: inner.truth("drops_first")?.unwrap_or(plain.drops_first),
        masked: word(&inner, "masked", &ACTIVATIONS)?,
        head_dropout: inner.number("head_dropout")?.map(|number| number as f32),
    })
}

/// A config with the object `variant`, where there is something to say.
pub(super) fn with_variant(mut words: Value, variant: &BertVariant) -> Value {
    if *variant != BertVariant::BERT {
        words["variant"] = json!({
            "family": spelled(variant.family, &FAMILIES),
            "position_offset": variant.position_offset,
            "padding": variant.padding,
            "buckets": variant.buckets,
            "embedding_width": variant.embedding_width,
            "shared": variant.shared,
            "first": spelled(variant.first, &FIRST),
            "drops_first": variant.drops_first,
            "masked": variant.masked.map(|kind| spelled(kind, &ACTIVATIONS)),
            "head_dropout": variant.head_dropout.map(decimal),
        });
    }
    words
}

fn word<T: Copy>(fields: &Fields<'_>, name: &str, words: &[(&str, T)]) -> Result<Option<T>> {
    let Some(text) = fields.text(name)? else { return Ok(None) };
    let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| Some(*value)).ok_or_else(|| fields.unknown(name, text, &known))
}
