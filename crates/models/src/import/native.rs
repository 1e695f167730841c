//! Models in our own words: settings under the names of our configs, tensors under our own names. For models that no other
//! software has a form for: a GPT with rotary positions and LayerNorm, a Perceiver, a BERT that classifies by the mean.

use super::gpt2::decimal;
use super::json::Fields;
use super::{Import, Map};
use crate::bert::{BertConfig, BertHead};
use crate::gpt::{GptConfig, Positions};
use crate::perceiver::{PerceiverConfig, PerceiverMasking};
use regard_graph::Result;
use regard_layers::{FeedForwardKind, NormKind, Parameters};
use regard_ops::{Pairing, RotarySpec, Stretch};
use serde_json::{Value, json};

/// The `model_type` of a GPT in our own words.
pub const GPT: &str = "regard-gpt";
/// The `model_type` of a Perceiver.
pub const PERCEIVER: &str = "regard-perceiver";
/// The `model_type` of a BERT in our own words.
pub const BERT: &str = "regard-bert";

const ACTIVATIONS: [(&str, FeedForwardKind); 5] = [
    ("relu", FeedForwardKind::Relu),
    ("gelu", FeedForwardKind::Gelu),
    ("gelu-tanh", FeedForwardKind::GeluTanh),
    ("gated-silu", FeedForwardKind::GatedSilu),
    ("gated-gelu", FeedForwardKind::GatedGelu),
];
const NORMS: [(&str, NormKind); 3] =
    [("layer", NormKind::Layer), ("rms", NormKind::Rms), ("batch", NormKind::Batch)];
const PAIRINGS: [(&str, Pairing); 2] = [("halves", Pairing::Halves), ("interleaved", Pairing::Interleaved)];
const MASKINGS: [(&str, PerceiverMasking); 4] = [
    ("open", PerceiverMasking::Open),
    ("prefix", PerceiverMasking::Prefix),
    ("chunk", PerceiverMasking::Chunk),
    ("corner", PerceiverMasking::Corner),
];
const POSITIONS: [(&str, Positions); 4] = [
    ("none", Positions::None),
    ("learned", Positions::Learned),
    ("sinusoidal", Positions::Sinusoidal),
    ("alibi", Positions::Alibi),
];

/// Every parameter under its own name.
pub fn imports(parameters: &Parameters) -> Vec<Import> {
    parameters.declared().map(|one| Import::new(&one.name, &one.name, Map::Same)).collect()
}

/// The settings of a GPT.
pub fn gpt_from_json(config: &Value) -> Result<GptConfig> {
    let fields = Fields::new(GPT, config)?;
    let positions = match fields.inner("rotary")? {
        Some(rotary) => Positions::Rotary(RotarySpec {
            base: number(&rotary, "base")?,
            width: rotary.size_or_none("width")?,
            pairing: word(&rotary, "pairing", &PAIRINGS)?,
            inverse: false,
            stretch: match rotary.inner("stretch")? {
                None => None,
                Some(stretch) => Some(Stretch {
                    factor: number(&stretch, "factor")?,
                    low: number(&stretch, "low")?,
                    high: number(&stretch, "high")?,
                    original: number(&stretch, "original")?,
                }),
            },
        }),
        None => word(&fields, "positions", &POSITIONS)?,
    };
    let truth = |name: &str| fields.truth(name)?.ok_or_else(|| absent(&fields, name));
    let config = GptConfig {
        layers: fields.size("layers")?,
        heads: fields.size("heads")?,
        groups: fields.size_or_none("groups")?,
        width: fields.size("width")?,
        head_width: fields.size_or_none("head_width")?,
        hidden: fields.size_or_none("hidden")?,
        context: fields.size("context")?,
        vocabulary: fields.size("vocabulary")?,
        positions,
        window: fields.size_or_none("window")?,
        norm: word(&fields, "norm", &NORMS)?,
        epsilon: number(&fields, "epsilon")? as f32,
        feed_forward: word(&fields, "activation", &ACTIVATIONS)?,
        attention_bias: truth("attention_bias")?,
        feed_forward_bias: truth("feed_forward_bias")?,
        tied: truth("tied")?,
        dropout: number(&fields, "dropout")? as f32,
        attention_dropout: fields.number("attention_dropout")?.map(|number| number as f32),
        std: number(&fields, "std")? as f32,
    };
    crate::Gpt::new(config).map(|_| config)
}

/// The config of a GPT.
pub fn gpt_to_json(config: &GptConfig) -> Value {
    let mut words = json!({
        "model_type": GPT,
        "layers": config.layers,
        "heads": config.heads,
        "groups": config.groups,
        "width": config.width,
        "head_width": config.head_width,
        "hidden": config.hidden,
        "context": config.context,
        "vocabulary": config.vocabulary,
        "window": config.window,
        "norm": spelled(config.norm, &NORMS),
        "epsilon": decimal(config.epsilon),
        "activation": spelled(config.feed_forward, &ACTIVATIONS),
        "attention_bias": config.attention_bias,
        "feed_forward_bias": config.feed_forward_bias,
        "tied": config.tied,
        "dropout": decimal(config.dropout),
        "attention_dropout": config.attention_dropout.map(decimal),
        "std": decimal(config.std),
    });
    match config.positions {
        Positions::Rotary(RotarySpec { base, width, pairing, stretch, .. }) => {
            let stretch = stretch.map(|Stretch { factor, low, high, original }| {
                json!({"factor": factor, "low": low, "high": high, "original": original})
            });
            let pairing = spelled(pairing, &PAIRINGS);
            words["rotary"] = json!({"base": base, "width": width, "pairing": pairing, "stretch": stretch});
        }
        other => words["positions"] = spelled(other, &POSITIONS).into(),
    }
    words
}

/// The settings of a Perceiver.
pub fn perceiver_from_json(config: &Value) -> Result<PerceiverConfig> {
    let fields = Fields::new(PERCEIVER, config)?;
    let config = PerceiverConfig {
        layers: fields.size("layers")?,
        heads: fields.size("heads")?,
        width: fields.size("width")?,
        latents: fields.size("latents")?,
        context: fields.size("context")?,
        vocabulary: fields.size("vocabulary")?,
        masking: word(&fields, "masking", &MASKINGS)?,
        dropout: number(&fields, "dropout")? as f32,
    };
    crate::Perceiver::new(config).map(|_| config)
}

/// The config of a Perceiver.
pub fn perceiver_to_json(config: &PerceiverConfig) -> Value {
    json!({
        "model_type": PERCEIVER,
        "layers": config.layers,
        "heads": config.heads,
        "width": config.width,
        "latents": config.latents,
        "context": config.context,
        "vocabulary": config.vocabulary,
        "masking": spelled(config.masking, &MASKINGS),
        "dropout": decimal(config.dropout),
    })
}

/// The settings of a BERT that classifies by the mean.
pub fn bert_from_json(config: &Value) -> Result<BertConfig> {
    let fields = Fields::new(BERT, config)?;
    let config = BertConfig {
        layers: fields.size("layers")?,
        heads: fields.size("heads")?,
        width: fields.size("width")?,
        hidden: fields.size("hidden")?,
        context: fields.size("context")?,
        vocabulary: fields.size("vocabulary")?,
        token_types: fields.size("token_types")?,
        activation: word(&fields, "activation", &ACTIVATIONS)?,
        epsilon: number(&fields, "epsilon")? as f32,
        dropout: number(&fields, "dropout")? as f32,
        attention_dropout: number(&fields, "attention_dropout")? as f32,
        std: number(&fields, "std")? as f32,
        head: BertHead::MeanClasses(fields.size("classes")?),
    };
    crate::Bert::new(config).map(|_| config)
}

/// The config of a BERT with this many classes.
pub fn bert_to_json(config: &BertConfig, classes: usize) -> Value {
    json!({
        "model_type": BERT,
        "layers": config.layers,
        "heads": config.heads,
        "width": config.width,
        "hidden": config.hidden,
        "context": config.context,
        "vocabulary": config.vocabulary,
        "token_types": config.token_types,
        "activation": spelled(config.activation, &ACTIVATIONS),
        "epsilon": decimal(config.epsilon),
        "dropout": decimal(config.dropout),
        "attention_dropout": decimal(config.attention_dropout),
        "std": decimal(config.std),
        "classes": classes,
    })
}

fn number(fields: &Fields, name: &str) -> Result<f64> {
    fields.number(name)?.ok_or_else(|| absent(fields, name))
}

fn word<T: Copy>(fields: &Fields, name: &str, words: &[(&str, T)]) -> Result<T> {
    let text = fields.text(name)?.ok_or_else(|| absent(fields, name))?;
    let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value).ok_or_else(|| fields.unknown(name, text, &known))
}

fn absent(fields: &Fields, name: &str) -> regard_graph::Error {
    fields.wrong(format!("the config has no `{name}`"), "give the whole config.json of the model")
}

fn spelled<T: PartialEq>(value: T, words: &[(&'static str, T)]) -> &'static str {
    words.iter().find(|(_, known)| *known == value).map_or("", |(word, _)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_back() {
        for (name, config) in GptConfig::PRESETS {
            assert_eq!(gpt_from_json(&gpt_to_json(&config)).unwrap(), config, "{name}");
        }
        let rotary = Positions::Rotary(RotarySpec { pairing: Pairing::Interleaved, ..Default::default() });
        for positions in [Positions::None, Positions::Sinusoidal, Positions::Alibi, rotary] {
            let window = Some(9);
            let config = GptConfig { positions, window, attention_dropout: Some(0.3), ..GptConfig::SMALL };
            assert_eq!(gpt_from_json(&gpt_to_json(&config)).unwrap(), config);
        }
        for (_, masking) in MASKINGS {
            let config = PerceiverConfig {
                layers: 3,
                heads: 2,
                width: 8,
                latents: 4,
                context: 16,
                vocabulary: 11,
                masking,
                dropout: 0.1,
            };
            assert_eq!(perceiver_from_json(&perceiver_to_json(&config)).unwrap(), config);
        }
        let config = BertConfig { head: BertHead::MeanClasses(3), ..crate::bert::PRESETS[0].1 };
        assert_eq!(bert_from_json(&bert_to_json(&config, 3)).unwrap(), config);
    }

    #[test]
    fn what_is_missing_or_unknown_is_named() {
        let mut words = gpt_to_json(&GptConfig::SMALL);
        words["norm"] = "group".into();
        assert_eq!(
            gpt_from_json(&words).unwrap_err().to_string(),
            "regard-gpt: `norm` is `group`; what can be imported is `layer`, `rms`, `batch`"
        );
        words["norm"] = Value::Null;
        assert_eq!(
            gpt_from_json(&words).unwrap_err().to_string(),
            "regard-gpt: the config has no `norm`; give the whole config.json of the model"
        );
    }
}
