//! BART, mBART and Marian as transformers keeps them (`BartForConditionalGeneration`,
//! `MBartForConditionalGeneration`, `MarianMTModel`, and the bare models): names and `config.json`. Layers
//! are never dropped here, and what files hold of Marian's sinusoids is computed instead. In training, the
//! vector of padding learns like any other where a text begins with it; transformers keeps it as it is.

use super::encoder::short;
use super::json::Fields;
use super::{Import, Map};
use crate::family::Weights;
use crate::{Descent, Kin, Mechanisms, Transformer, TransformerConfig};
use regard_graph::Result;
use regard_layers::FeedForwardKind;
use serde_json::{Value, json};

/// Their `model_type`s and architectures.
pub const KIN: [(&str, Kin, &[&str]); 3] = [
    ("bart", Kin::Bart, &["BartForConditionalGeneration", "BartModel"]),
    ("mbart", Kin::MBart, &["MBartForConditionalGeneration", "MBartModel"]),
    ("marian", Kin::Marian, &["MarianMTModel", "MarianModel"]),
];

/// The names that transformers has for activations, and what they are.
const ACTIVATIONS: [(&str, FeedForwardKind); 7] = [
    ("gelu", FeedForwardKind::Gelu),
    ("gelu_new", FeedForwardKind::GeluTanh),
    ("gelu_pytorch_tanh", FeedForwardKind::GeluTanh),
    ("gelu_fast", FeedForwardKind::GeluTanh),
    ("relu", FeedForwardKind::Relu),
    ("swish", FeedForwardKind::Silu),
    ("silu", FeedForwardKind::Silu),
];

/// Names under which files hold one matrix again, and the one that counts.
pub const COPIES: [(&str, &str); 9] = [
    ("model.encoder.embed_tokens.weight", "model.shared.weight"),
    ("model.decoder.embed_tokens.weight", "model.shared.weight"),
    ("lm_head.weight", "model.shared.weight"),
    ("encoder.embed_tokens.weight", "shared.weight"),
    ("decoder.embed_tokens.weight", "shared.weight"),
    ("lm_head.weight", "shared.weight"),
    ("lm_head.weight", "model.decoder.embed_tokens.weight"),
    ("lm_head.weight", "decoder.embed_tokens.weight"),
    ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"),
];

/// What files hold of sinusoids, which are computed, and what the first versions counted.
pub const IGNORED: [&str; 8] = [
    "model.encoder.embed_positions.weight",
    "model.decoder.embed_positions.weight",
    "encoder.embed_positions.weight",
    "decoder.embed_positions.weight",
    "model.encoder.version",
    "model.decoder.version",
    "encoder.version",
    "decoder.version",
];

/// The model_type of a kin.
pub fn model_type(kin: Kin) -> &'static str {
    KIN.iter().find(|(_, known, _)| *known == kin).map_or("", |(name, _, _)| name)
}

/// Where each parameter of a descendant stands: under `model.`, or bare in the files of a model without a
/// head, which the weights show.
pub fn imports(model: &Transformer, kin: Kin, weights: Option<&dyn Weights>) -> Vec<Import> {
    let config = model.config();
    let has = |name: &str| weights.is_some_and(|weights| weights.has(name));
    let bare = ["shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"];
    let prefix = if bare.iter().any(|name| has(name)) { "" } else { "model." };
    let mut table = Vec::new();
    let mut add = |ours: String, theirs: String| table.push(Import::new(ours, theirs, Map::Same));
    let both = |add: &mut dyn FnMut(String, String), ours: &str, theirs: &str| {
        for part in ["weight", "bias"] {
            add(format!("{ours}.{part}"), format!("{theirs}.{part}"));
        }
    };
    if config.shared {
        // Of names for one matrix, files that hold each once may have kept another than the first.
        let names =
            ["shared", "decoder.embed_tokens", "encoder.embed_tokens"].map(|n| format!("{prefix}{n}.weight"));
        let own = names.iter().find(|name| has(name)).unwrap_or(&names[0]);
        add("token_embedding.weight".into(), own.clone());
    } else {
        add("source_embedding.weight".into(), format!("{prefix}encoder.embed_tokens.weight"));
        add("target_embedding.weight".into(), format!("{prefix}decoder.embed_tokens.weight"));
    }
    for (stack, layers) in [("encoder", config.encoder_layers), ("decoder", config.decoder_layers)] {
        if kin.norms_embeddings() {
            add(
                format!("{stack}.position_embedding.weight"),
                format!("{prefix}{stack}.embed_positions.weight"),
            );
            both(
                &mut add,
                &format!("{stack}.embedding_norm"),
                &format!("{prefix}{stack}.layernorm_embedding"),
            );
        }
        for layer in 0..layers {
            let (ours, theirs) =
                (format!("{stack}.block.{layer}"), format!("{prefix}{stack}.layers.{layer}"));
            let mut line = |own: &str, foreign: &str| {
                both(&mut add, &format!("{ours}.{own}"), &format!("{theirs}.{foreign}"));
            };
            let attentions = [("attention", "self_attn"), ("cross", "encoder_attn")];
            for (own, foreign) in &attentions[..if stack == "decoder" { 2 } else { 1 }] {
                for (part, name) in
                    [("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj"), ("output", "out_proj")]
                {
                    line(&format!("{own}.{part}"), &format!("{foreign}.{name}"));
                }
                line(&format!("{own}_norm"), &format!("{foreign}_layer_norm"));
            }
            line("feed_forward.up", "fc1");
            line("feed_forward.down", "fc2");
            line("feed_forward_norm", "final_layer_norm");
        }
        if kin == Kin::MBart {
            both(&mut add, &format!("{stack}.final_norm"), &format!("{prefix}{stack}.layer_norm"));
        }
    }
    if config.descent.is_some_and(|descent| descent.logits_bias) {
        table.push(Import::reshaped("logits_bias", "final_logits_bias", &[1, config.vocabulary]));
    }
    table
}

/// Reads transformers' `config.json` of one of [`KIN`]. Whether there is a bias of scores, the weights know.
pub fn config_from_json(json: &Value) -> Result<TransformerConfig> {
    let kind = json["model_type"].as_str().unwrap_or("bart");
    let (name, kin, _) = *KIN.iter().find(|(name, _, _)| *name == kind).unwrap_or(&KIN[0]);
    let fields = Fields::new(name, json)?;
    fields.must_be("is_encoder_decoder", true)?;
    fields.must_be("is_decoder", false)?;
    fields.must_be("tie_word_embeddings", true)?;
    // Words of older files, which newer versions of transformers do not read: one that says something else
    // speaks of another model.
    fields.must_be("normalize_before", kin == Kin::MBart)?;
    fields.must_be("add_final_layer_norm", kin == Kin::MBart)?;
    fields.must_be("normalize_embedding", kin != Kin::Marian)?;
    fields.must_be("static_position_embeddings", kin == Kin::Marian)?;
    let activation = fields.text("activation_function")?.unwrap_or("gelu");
    let known = ACTIVATIONS.iter().find(|(name, _)| *name == activation);
    let Some(&(_, activation)) = known else {
        return Err(fields.unknown("activation_function", activation, &ACTIVATIONS.map(|(name, _)| name)));
    };
    let size = |name: &str, default: usize| Ok(fields.size_or_none(name)?.unwrap_or(default));
    let number = |name: &str, default: f64| Ok(fields.number(name)?.unwrap_or(default) as f32);
    let source_vocabulary = fields.size("vocab_size")?;
    let shared = kin != Kin::Marian || fields.truth("share_encoder_decoder_embeddings")?.unwrap_or(true);
    let vocabulary = match kin {
        Kin::Marian => size("decoder_vocab_size", source_vocabulary)?,
        Kin::Bart | Kin::MBart => source_vocabulary,
    };
    Ok(TransformerConfig {
        source_vocabulary,
        vocabulary,
        width: fields.size("d_model")?,
        heads: size("encoder_attention_heads", 16)?,
        hidden: size("encoder_ffn_dim", 4096)?,
        encoder_layers: fields.size("encoder_layers")?,
        decoder_layers: fields.size("decoder_layers")?,
        context: size("max_position_embeddings", 1024)?,
        shared,
        final_norm: kin == Kin::MBart,
        dropout: number("dropout", 0.1)?,
        mechanisms: Mechanisms {
            attention_dropout: Some(number("attention_dropout", 0.0)?),
            hidden_dropout: Some(number("activation_dropout", 0.0)?),
            ..Mechanisms::default()
        },
        descent: Some(Descent {
            kin,
            decoder_heads: size("decoder_attention_heads", 16)?,
            decoder_hidden: size("decoder_ffn_dim", 4096)?,
            activation,
            scaled: fields.truth("scale_embedding")?.unwrap_or(false),
            logits_bias: fields.truth("add_bias_logits")?.unwrap_or(true),
            std: number("init_std", 0.02)?,
        }),
    })
}

/// Writes a `config.json` that transformers reads.
pub fn config_to_json(config: &TransformerConfig, descent: &Descent) -> Value {
    let Descent { kin, decoder_heads, decoder_hidden, activation, scaled, logits_bias, std } = *descent;
    let architecture = KIN.iter().find(|(_, known, _)| *known == kin).map(|(_, _, names)| names[0]);
    let activation = ACTIVATIONS.iter().find(|(_, kind)| *kind == activation).map(|(name, _)| name);
    let mechanisms = &config.mechanisms;
    let mut json = json!({
        "architectures": [architecture],
        "model_type": model_type(kin),
        "is_encoder_decoder": true,
        "vocab_size": config.source_vocabulary,
        "d_model": config.width,
        "encoder_layers": config.encoder_layers,
        "encoder_attention_heads": config.heads,
        "encoder_ffn_dim": config.hidden,
        "decoder_layers": config.decoder_layers,
        "decoder_attention_heads": decoder_heads,
        "decoder_ffn_dim": decoder_hidden,
        "max_position_embeddings": config.context,
        "activation_function": activation,
        "scale_embedding": scaled,
        "tie_word_embeddings": true,
        "dropout": short(config.dropout),
        "attention_dropout": short(mechanisms.attention_dropout.unwrap_or(config.dropout)),
        "activation_dropout": short(mechanisms.hidden_dropout.unwrap_or(config.dropout)),
        "init_std": short(std),
    });
    if kin == Kin::Marian {
        json["decoder_vocab_size"] = config.vocabulary.into();
        json["share_encoder_decoder_embeddings"] = config.shared.into();
    }
    // A word of older files: without one, a run that has no weights yet would wait for the bias.
    if !logits_bias {
        json["add_bias_logits"] = false.into();
    }
    json
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::NoWeights;

    fn small(kin: Kin) -> TransformerConfig {
        let base = TransformerConfig {
            encoder_layers: 2,
            decoder_layers: 1,
            context: 20,
            ..TransformerConfig::base(50)
        };
        TransformerConfig {
            final_norm: kin == Kin::MBart,
            mechanisms: Mechanisms {
                attention_dropout: Some(0.2),
                hidden_dropout: Some(0.0),
                ..Mechanisms::default()
            },
            descent: Some(Descent {
                kin,
                decoder_heads: 4,
                decoder_hidden: 30,
                activation: FeedForwardKind::Silu,
                scaled: true,
                logits_bias: true,
                std: 0.02,
            }),
            ..base
        }
    }

    #[test]
    fn every_parameter_has_one_source_and_settings_come_back() {
        let separate = TransformerConfig { source_vocabulary: 40, shared: false, ..small(Kin::Marian) };
        let mut configs = KIN.map(|(_, kin, _)| small(kin)).to_vec();
        configs.push(separate);
        for config in configs {
            let descent = config.descent.unwrap();
            for logits_bias in [true, false] {
                let descent = Descent { logits_bias, ..descent };
                let config = TransformerConfig { descent: Some(descent), ..config };
                let model = Transformer::new(config).unwrap();
                let table = imports(&model, descent.kin, None);
                let mut ours: Vec<&str> = table.iter().map(|import| import.ours.as_str()).collect();
                let mut declared: Vec<&str> = model.parameters().all().map(|d| d.name.as_str()).collect();
                ours.sort_unstable();
                declared.sort_unstable();
                assert_eq!(ours, declared);
                assert_eq!(config_from_json(&config_to_json(&config, &descent)).unwrap(), config);
            }
        }
    }

    #[test]
    fn bare_files_have_no_prefix() {
        struct Bare;
        impl Weights for Bare {
            fn has(&self, name: &str) -> bool {
                ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"].contains(&name)
            }

            fn same(&self, _: &str, _: &str) -> Option<bool> {
                None
            }

            fn count(&self) -> Option<usize> {
                Some(2)
            }
        }
        let model = Transformer::new(small(Kin::Bart)).unwrap();
        let table = |weights: &dyn Weights| imports(&model, Kin::Bart, Some(weights));
        assert_eq!(table(&NoWeights)[0].theirs, "model.shared.weight");
        assert_eq!(table(&Bare)[0].theirs, "decoder.embed_tokens.weight");
        assert!(table(&Bare).iter().any(|line| line.theirs == "encoder.layers.1.fc1.weight"));
    }

    #[test]
    fn strange_configs_are_refused() {
        let refused = |kin: Kin, name: &str, value: Value| {
            let config = small(kin);
            let mut json = config_to_json(&config, &config.descent.unwrap());
            json[name] = value;
            config_from_json(&json).unwrap_err().to_string()
        };
        assert_eq!(
            refused(Kin::Bart, "activation_function", json!("quick_gelu")),
            "bart: `activation_function` is `quick_gelu`; what can be imported is `gelu`, `gelu_new`, `gelu_pytorch_tanh`, \
             `gelu_fast`, `relu`, `swish`, `silu`"
        );
        assert_eq!(
            refused(Kin::Bart, "normalize_before", json!(true)),
            "bart: `normalize_before` is true; only models with `normalize_before` false can be imported"
        );
        assert!(
            refused(Kin::Marian, "normalize_embedding", json!(true))
                .starts_with("marian: `normalize_embedding`")
        );
        assert!(
            refused(Kin::MBart, "tie_word_embeddings", json!(false))
                .starts_with("mbart: `tie_word_embeddings`")
        );
        assert_eq!(
            refused(Kin::Marian, "d_model", Value::Null),
            "marian: the config has no `d_model`; give the whole config.json of the model"
        );
    }
}
