//! Models in our own words: settings under the names of our configs, tensors under our own names. For models
//! that no other software has a form for: a GPT with rotary positions and LayerNorm, a Perceiver, and any
//! family with a mechanism that is not its own, such as a BERT with ALiBi.

use super::json::Fields;
use super::{Import, Map};
use crate::bert::{BertConfig, BertHead};
use crate::gpt::GptConfig;
use crate::keys::ModelKeys;
use crate::mechanisms::{ACTIVATIONS, KEYS, Mechanisms, NORMS, PAIRINGS, decimal, spelled};
use crate::perceiver::{PerceiverConfig, PerceiverMasking};
use crate::positions::Positions;
use crate::t5::T5Config;
use crate::transformer::TransformerConfig;
use crate::vit::{VitConfig, VitForm, VitHead, VitPooling};
use regard_graph::Result;
use regard_layers::Parameters;
use regard_ops::{RotarySpec, Stretch};
use serde_json::{Value, json};

/// The `model_type` of a GPT in our own words.
pub const GPT: &str = "regard-gpt";
/// The `model_type` of a Perceiver.
pub const PERCEIVER: &str = "regard-perceiver";
/// The `model_type` of a BERT in our own words.
pub const BERT: &str = "regard-bert";

/// The `model_type` of a ViT in our own words.
pub const VIT: &str = "regard-vit";
/// The `model_type` of a T5 in our own words.
pub const T5: &str = "regard-t5";
/// The `model_type` of a Transformer in our own words.
pub const TRANSFORMER: &str = "regard-transformer";

/// Words for who sees whom in a Perceiver.
pub const MASKINGS: [(&str, PerceiverMasking); 5] = [
    ("prefix", PerceiverMasking::Prefix),
    ("chunk", PerceiverMasking::Chunk),
    ("tapered", PerceiverMasking::Tapered),
    ("corner", PerceiverMasking::Corner),
    ("open", PerceiverMasking::Open),
];
/// Words for what the head of a ViT reads.
pub const POOLINGS: [(&str, VitPooling); 3] =
    [("class", VitPooling::Class), ("mean", VitPooling::Mean), ("class-and-mean", VitPooling::ClassAndMean)];

/// Every parameter under its own name.
pub fn imports(parameters: &Parameters) -> Vec<Import> {
    parameters.all().map(|one| Import::new(&one.name, &one.name, Map::Same)).collect()
}

/// The settings of a GPT.
pub fn gpt_from_json(config: &Value) -> Result<GptConfig> {
    let fields = Fields::new(GPT, config)?;
    for name in ["norm", "activation"] {
        fields.text(name)?.ok_or_else(|| absent(&fields, name))?;
    }
    let rotary = fields.inner("rotary")?;
    if rotary.is_none() {
        fields.text("positions")?.ok_or_else(|| absent(&fields, "positions"))?;
    }
    let own = mechanisms_among(&fields, config)?;
    let positions = match rotary {
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
        None => own.positions.unwrap_or(Positions::None),
    };
    let plain = GptConfig::SMALL;
    let config = GptConfig {
        layers: fields.size("layers")?,
        heads: fields.size("heads")?,
        groups: own.groups,
        width: fields.size("width")?,
        head_width: own.head_width,
        hidden: fields.size_or_none("hidden")?,
        context: fields.size("context")?,
        vocabulary: fields.size("vocabulary")?,
        positions,
        window: own.window,
        scale: own.scale.unwrap_or(plain.scale),
        attention: own.attention.unwrap_or(plain.attention),
        norm: own.norm.unwrap_or(plain.norm),
        place: own.place.unwrap_or(plain.place),
        epsilon: number(&fields, "epsilon")? as f32,
        feed_forward: own.activation.unwrap_or(plain.feed_forward),
        attention_bias: truth(&fields, "attention_bias")?,
        feed_forward_bias: truth(&fields, "feed_forward_bias")?,
        tied: truth(&fields, "tied")?,
        dropout: number(&fields, "dropout")? as f32,
        attention_dropout: own.attention_dropout,
        hidden_dropout: own.hidden_dropout,
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
    // What earlier GPTs did not have is said where it departs from theirs.
    let plain = GptConfig::SMALL;
    let mut departing = Mechanisms {
        positions: Some(config.positions),
        scale: (config.scale != plain.scale).then_some(config.scale),
        attention: (config.attention != plain.attention).then_some(config.attention),
        place: (config.place != plain.place).then_some(config.place),
        hidden_dropout: config.hidden_dropout,
        ..Mechanisms::default()
    };
    if let Positions::Rotary(RotarySpec { base, width, pairing, stretch, .. }) = config.positions {
        let stretch = stretch.map(|Stretch { factor, low, high, original }| {
            json!({"factor": factor, "low": low, "high": high, "original": original})
        });
        let pairing = spelled(pairing, &PAIRINGS);
        words["rotary"] = json!({"base": base, "width": width, "pairing": pairing, "stretch": stretch});
        departing.positions = None;
    }
    if let (Value::Object(words), Value::Object(own)) = (&mut words, departing.to_keys().to_json()) {
        words.extend(own);
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
        mechanisms: mechanisms(&fields, config)?,
    };
    crate::Perceiver::new(config).map(|_| config)
}

/// The config of a Perceiver.
pub fn perceiver_to_json(config: &PerceiverConfig) -> Value {
    let words = json!({
        "model_type": PERCEIVER,
        "layers": config.layers,
        "heads": config.heads,
        "width": config.width,
        "latents": config.latents,
        "context": config.context,
        "vocabulary": config.vocabulary,
        "masking": spelled(config.masking, &MASKINGS),
        "dropout": decimal(config.dropout),
    });
    with_mechanisms(words, &config.mechanisms)
}

/// The settings of a BERT.
pub fn bert_from_json(config: &Value) -> Result<BertConfig> {
    let fields = Fields::new(BERT, config)?;
    let classes = fields.size_or_none("classes")?;
    let head = match (fields.text("head")?, classes) {
        (None | Some("mean"), Some(classes)) => BertHead::MeanClasses(classes),
        (Some("classes"), Some(classes)) => BertHead::Classes(classes),
        (Some("labels"), Some(classes)) => BertHead::Labels(classes),
        (Some("masked"), _) => BertHead::Masked,
        (Some("pooler"), _) => BertHead::Pooler,
        (Some("none"), _) => BertHead::None,
        (None | Some("mean" | "classes" | "labels"), None) => return Err(absent(&fields, "classes")),
        (Some(other), _) => {
            let known = ["mean", "classes", "labels", "masked", "pooler", "none"];
            return Err(fields.unknown("head", other, &known));
        }
    };
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
        head,
        mechanisms: mechanisms(&fields, config)?,
    };
    crate::Bert::new(config).map(|_| config)
}

/// The config of a BERT.
pub fn bert_to_json(config: &BertConfig) -> Value {
    let mut words = json!({
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
    });
    let (head, classes) = match config.head {
        BertHead::MeanClasses(classes) => (None, Some(classes)),
        BertHead::Classes(classes) => (Some("classes"), Some(classes)),
        BertHead::Labels(labels) => (Some("labels"), Some(labels)),
        BertHead::Masked => (Some("masked"), None),
        BertHead::Pooler => (Some("pooler"), None),
        BertHead::None => (Some("none"), None),
    };
    if let Some(head) = head {
        words["head"] = head.into();
    }
    if let Some(classes) = classes {
        words["classes"] = classes.into();
    }
    with_mechanisms(words, &config.mechanisms)
}

/// The settings of a ViT.
pub fn vit_from_json(config: &Value) -> Result<VitConfig> {
    let fields = Fields::new(VIT, config)?;
    let sizes = |[height, width]: [&str; 2]| Ok([fields.size(height)?, fields.size(width)?]);
    let head = match (fields.size_or_none("classes")?, fields.size_or_none("head_hidden")?) {
        (None, None) => VitHead::None,
        (None, Some(width)) => VitHead::Pooler(width),
        (Some(classes), None) => VitHead::Linear(classes),
        (Some(classes), Some(hidden)) => VitHead::Mlp { hidden, classes },
    };
    let config = VitConfig {
        image: sizes(["image_height", "image_width"])?,
        patch: sizes(["patch_height", "patch_width"])?,
        channels: fields.size("channels")?,
        layers: fields.size("layers")?,
        heads: fields.size("heads")?,
        width: fields.size("width")?,
        hidden: fields.size("hidden")?,
        activation: word(&fields, "activation", &ACTIVATIONS)?,
        input_bias: truth(&fields, "input_bias")?,
        positions: truth(&fields, "positions")?,
        pooling: word(&fields, "pooling", &POOLINGS)?,
        head,
        epsilon: number(&fields, "epsilon")? as f32,
        dropout: number(&fields, "dropout")? as f32,
        attention_dropout: number(&fields, "attention_dropout")? as f32,
        std: number(&fields, "std")? as f32,
        mechanisms: mechanisms(&fields, config)?,
        form: VitForm::Plain,
    };
    crate::Vit::new(config).map(|_| config)
}

/// The config of a ViT.
pub fn vit_to_json(config: &VitConfig) -> Value {
    let (classes, head_hidden) = match config.head {
        VitHead::None => (None, None),
        VitHead::Pooler(width) => (None, Some(width)),
        VitHead::Linear(classes) | VitHead::Taught(classes) => (Some(classes), None),
        VitHead::Mlp { hidden, classes } => (Some(classes), Some(hidden)),
    };
    let words = json!({
        "model_type": VIT,
        "image_height": config.image[0],
        "image_width": config.image[1],
        "patch_height": config.patch[0],
        "patch_width": config.patch[1],
        "channels": config.channels,
        "layers": config.layers,
        "heads": config.heads,
        "width": config.width,
        "hidden": config.hidden,
        "activation": spelled(config.activation, &ACTIVATIONS),
        "input_bias": config.input_bias,
        "positions": config.positions,
        "pooling": spelled(config.pooling, &POOLINGS),
        "classes": classes,
        "head_hidden": head_hidden,
        "epsilon": decimal(config.epsilon),
        "dropout": decimal(config.dropout),
        "attention_dropout": decimal(config.attention_dropout),
        "std": decimal(config.std),
    });
    with_mechanisms(words, &config.mechanisms)
}

/// The settings of a T5.
pub fn t5_from_json(config: &Value) -> Result<T5Config> {
    let fields = Fields::new(T5, config)?;
    let config = T5Config {
        vocabulary: fields.size("vocabulary")?,
        width: fields.size("width")?,
        heads: fields.size("heads")?,
        head_width: fields.size("head_width")?,
        hidden: fields.size("hidden")?,
        encoder_layers: fields.size("encoder_layers")?,
        decoder_layers: fields.size("decoder_layers")?,
        buckets: fields.size("buckets")?,
        max_distance: fields.size("max_distance")?,
        gated: truth(&fields, "gated")?,
        tied: truth(&fields, "tied")?,
        scaled: truth(&fields, "scaled")?,
        multilingual: false,
        own_tables: false,
        epsilon: number(&fields, "epsilon")? as f32,
        dropout: number(&fields, "dropout")? as f32,
        mechanisms: mechanisms(&fields, config)?,
    };
    crate::T5::new(config).map(|_| config)
}

/// The config of a T5.
pub fn t5_to_json(config: &T5Config) -> Value {
    let words = json!({
        "model_type": T5,
        "vocabulary": config.vocabulary,
        "width": config.width,
        "heads": config.heads,
        "head_width": config.head_width,
        "hidden": config.hidden,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "buckets": config.buckets,
        "max_distance": config.max_distance,
        "gated": config.gated,
        "tied": config.tied,
        "scaled": config.scaled,
        "epsilon": decimal(config.epsilon),
        "dropout": decimal(config.dropout),
    });
    with_mechanisms(words, &config.mechanisms)
}

/// The settings of a Transformer.
pub fn transformer_from_json(config: &Value) -> Result<TransformerConfig> {
    let fields = Fields::new(TRANSFORMER, config)?;
    let config = TransformerConfig {
        source_vocabulary: fields.size("source_vocabulary")?,
        vocabulary: fields.size("vocabulary")?,
        width: fields.size("width")?,
        heads: fields.size("heads")?,
        hidden: fields.size("hidden")?,
        encoder_layers: fields.size("encoder_layers")?,
        decoder_layers: fields.size("decoder_layers")?,
        context: fields.size("context")?,
        shared: truth(&fields, "shared")?,
        final_norm: truth(&fields, "final_norm")?,
        dropout: number(&fields, "dropout")? as f32,
        mechanisms: mechanisms(&fields, config)?,
        descent: None,
    };
    crate::Transformer::new(config).map(|_| config)
}

/// The config of a Transformer.
pub fn transformer_to_json(config: &TransformerConfig) -> Value {
    let words = json!({
        "model_type": TRANSFORMER,
        "source_vocabulary": config.source_vocabulary,
        "vocabulary": config.vocabulary,
        "width": config.width,
        "heads": config.heads,
        "hidden": config.hidden,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "context": config.context,
        "shared": config.shared,
        "final_norm": config.final_norm,
        "dropout": decimal(config.dropout),
    });
    with_mechanisms(words, &config.mechanisms)
}

/// The mechanisms that a config keeps in an object of their own, as [`with_mechanisms`] writes them; those of
/// the family if there is none.
pub fn mechanisms(fields: &Fields, config: &Value) -> Result<Mechanisms> {
    match fields.inner("mechanisms")? {
        None => Ok(Mechanisms::default()),
        Some(_) => mechanisms_among(fields, &config["mechanisms"]),
    }
}

/// The mechanisms among the fields of an object.
fn mechanisms_among(fields: &Fields, object: &Value) -> Result<Mechanisms> {
    let given = |name: &str| object.get(name).filter(|value| !value.is_null());
    let keys: ModelKeys =
        KEYS.iter().filter_map(|key| Some((key.name.to_string(), given(key.name)?.clone()))).collect();
    keys.check("", &KEYS, &|_| false).map_err(|fault| fields.wrong(fault.what, fault.advice))?;
    Mechanisms::from_keys(&keys)
}

/// A config with the mechanisms of its blocks in an object of their own, where they depart from the family's.
pub fn with_mechanisms(mut words: Value, mechanisms: &Mechanisms) -> Value {
    if *mechanisms != Mechanisms::default() {
        words["mechanisms"] = mechanisms.to_keys().to_json();
    }
    words
}

fn number(fields: &Fields, name: &str) -> Result<f64> {
    fields.number(name)?.ok_or_else(|| absent(fields, name))
}

fn truth(fields: &Fields, name: &str) -> Result<bool> {
    fields.truth(name)?.ok_or_else(|| absent(fields, name))
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

#[cfg(test)]
mod tests {
    use super::*;
    use regard_ops::Pairing;

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
                mechanisms: Mechanisms::default(),
            };
            assert_eq!(perceiver_from_json(&perceiver_to_json(&config)).unwrap(), config);
        }
        let config = BertConfig { head: BertHead::MeanClasses(3), ..crate::bert::PRESETS[0].1 };
        assert_eq!(bert_from_json(&bert_to_json(&config)).unwrap(), config);
    }

    #[test]
    fn mechanisms_stand_in_an_object_of_their_own() {
        let own = Mechanisms { groups: Some(2), ..Mechanisms::default() };
        let config = with_mechanisms(json!({ "layers": 3 }), &own);
        assert_eq!(config, json!({ "layers": 3, "mechanisms": { "groups": 2 } }));
        let read = |config: &Value| mechanisms(&Fields::new("mine", config)?, config);
        assert_eq!(read(&config).unwrap(), own);
        assert_eq!(read(&with_mechanisms(json!({}), &Mechanisms::default())).unwrap(), Mechanisms::default());
        assert_eq!(
            read(&json!({ "mechanisms": { "norm": "rns" } })).unwrap_err().to_string(),
            "mine: `rns` is not known here; did you mean `rms`?"
        );
    }

    #[test]
    fn what_is_missing_or_unknown_is_named() {
        let mut words = gpt_to_json(&GptConfig::SMALL);
        words["norm"] = "group".into();
        assert_eq!(
            gpt_from_json(&words).unwrap_err().to_string(),
            "regard-gpt: `group` is not known here; known are layer, rms, batch"
        );
        words["norm"] = Value::Null;
        assert_eq!(
            gpt_from_json(&words).unwrap_err().to_string(),
            "regard-gpt: the config has no `norm`; give the whole config.json of the model"
        );
    }
}
