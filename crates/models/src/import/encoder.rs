//! What the configs of encoders have in common: their activation, their architecture, how labels are counted.

use super::json::Fields;
use regard_graph::{Error, Result};
use regard_layers::FeedForwardKind;
use serde_json::{Map, Value};

/// What happens inside of the feed-forward parts: `hidden_act`.
pub(super) fn activation(fields: &Fields<'_>) -> Result<FeedForwardKind> {
    activation_at(fields, "hidden_act")
}

/// The same under a name of the family's own.
pub(super) fn activation_at(fields: &Fields<'_>, key: &str) -> Result<FeedForwardKind> {
    match fields.text(key)? {
        None | Some("gelu") => Ok(FeedForwardKind::Gelu),
        Some("gelu_new" | "gelu_pytorch_tanh" | "gelu_fast") => Ok(FeedForwardKind::GeluTanh),
        Some("relu") => Ok(FeedForwardKind::Relu),
        Some("silu" | "swish") => Ok(FeedForwardKind::Silu),
        Some(other) => Err(fields.wrong(
            format!("`{key}` is \"{other}\""),
            "it should be \"gelu\", \"gelu_new\", \"gelu_pytorch_tanh\", \"relu\" or \"silu\"",
        )),
    }
}

/// `hidden_act` of a kind of feed-forward part, where transformers has a name for it.
pub(super) fn activation_name(family: &str, kind: FeedForwardKind) -> Result<&'static str> {
    match kind {
        FeedForwardKind::Gelu => Ok("gelu"),
        FeedForwardKind::GeluTanh => Ok("gelu_pytorch_tanh"),
        FeedForwardKind::Relu => Ok("relu"),
        FeedForwardKind::Silu => Ok("silu"),
        FeedForwardKind::GatedSilu | FeedForwardKind::GatedGelu => Err(Error::invalid(
            family,
            format!("transformers has no name for {kind:?} in this family"),
            "use Gelu, GeluTanh or Relu",
        )),
    }
}

/// The model that the weights were written from: the first of `architectures`.
pub(super) fn architecture(config: &Value) -> Option<&str> {
    config["architectures"][0].as_str()
}

/// How many classes there are: `id2label`, or `num_labels`; 2 where neither is there, as in transformers.
pub(super) fn classes(fields: &Fields<'_>, config: &Value) -> Result<usize> {
    match &config["id2label"] {
        Value::Object(labels) => Ok(labels.len()),
        _ => Ok(fields.size_or_none("num_labels")?.unwrap_or(2)),
    }
}

/// `{"0": "LABEL_0", …}`, from which transformers counts classes.
pub(super) fn labels(count: usize) -> Value {
    let named = (0..count).map(|label| (label.to_string(), Value::from(format!("LABEL_{label}"))));
    Value::Object(named.collect::<Map<_, _>>())
}

/// f32 as the f64 of the fewest digits that reads as the same number: 1e-12, not 9.999999960041972e-13.
pub(super) fn short(number: f32) -> Value {
    format!("{number:e}").parse::<f64>().map_or(Value::Null, Value::from)
}
