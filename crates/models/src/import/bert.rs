//! BERT as transformers keeps it: `BertModel`, `BertForMaskedLM`, `BertForSequenceClassification`,
//! `BertForTokenClassification`.

use super::encoder::{activation, activation_name, architecture, classes, labels, short};
use super::json::Fields;
use super::{Import, Map};
use crate::Mechanisms;
use crate::bert::{BertConfig, BertHead};
use regard_graph::{Error, Result};
use serde_json::{Value, json};

/// The settings that a `config.json` speaks of; the head is that of its architecture.
pub fn config_from_json(config: &Value) -> Result<BertConfig> {
    let fields = Fields::new("bert", config)?;
    fields.must_be("is_decoder", false)?;
    fields.must_be("add_cross_attention", false)?;
    fields.must_be("tie_word_embeddings", true)?;
    if let Some(kind @ ("relative_key" | "relative_key_query")) = fields.text("position_embedding_type")? {
        return Err(fields.wrong(
            format!("`position_embedding_type` is \"{kind}\""),
            "only models with absolute positions can be imported",
        ));
    }
    let head = match architecture(config) {
        None | Some("BertModel") => BertHead::Pooler,
        Some("BertForMaskedLM") => BertHead::Masked,
        Some("BertForSequenceClassification") => BertHead::Classes(classes(&fields, config)?),
        Some("BertForTokenClassification") => BertHead::Labels(classes(&fields, config)?),
        Some(other) => {
            return Err(fields.wrong(
                format!("the config is one of a {other}"),
                "give one of a BertModel, BertForMaskedLM, BertForSequenceClassification or \
                 BertForTokenClassification",
            ));
        }
    };
    let size = |name: &str, default: usize| Ok(fields.size_or_none(name)?.unwrap_or(default));
    let number = |name: &str, default: f64| Ok(fields.number(name)?.unwrap_or(default) as f32);
    Ok(BertConfig {
        layers: size("num_hidden_layers", 12)?,
        heads: size("num_attention_heads", 12)?,
        width: size("hidden_size", 768)?,
        hidden: size("intermediate_size", 3072)?,
        context: size("max_position_embeddings", 512)?,
        vocabulary: size("vocab_size", 30522)?,
        token_types: size("type_vocab_size", 2)?,
        activation: activation(&fields)?,
        epsilon: number("layer_norm_eps", 1e-12)?,
        dropout: number("hidden_dropout_prob", 0.1)?,
        attention_dropout: number("attention_probs_dropout_prob", 0.1)?,
        std: number("initializer_range", 0.02)?,
        head,
        mechanisms: Mechanisms::default(),
    })
}

/// The `config.json` of these settings, as transformers reads it.
pub fn config_to_json(config: &BertConfig) -> Result<Value> {
    if !config.mechanisms.are_the_family_s() {
        return Err(Error::invalid(
            "bert",
            "transformers has no words for the mechanisms of these blocks",
            "save it in our own form",
        ));
    }
    let architecture = match config.head {
        BertHead::None | BertHead::Pooler => "BertModel",
        BertHead::Masked => "BertForMaskedLM",
        BertHead::Classes(_) => "BertForSequenceClassification",
        BertHead::Labels(_) => "BertForTokenClassification",
        BertHead::MeanClasses(_) => {
            return Err(Error::invalid(
                "bert",
                "transformers has no BERT that classifies by the mean",
                "save it in our own form",
            ));
        }
    };
    let mut json = json!({
        "architectures": [architecture],
        "model_type": "bert",
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "hidden_size": config.width,
        "intermediate_size": config.hidden,
        "max_position_embeddings": config.context,
        "vocab_size": config.vocabulary,
        "type_vocab_size": config.token_types,
        "hidden_act": activation_name("bert", config.activation)?,
        "layer_norm_eps": short(config.epsilon),
        "hidden_dropout_prob": short(config.dropout),
        "attention_probs_dropout_prob": short(config.attention_dropout),
        "initializer_range": short(config.std),
        "position_embedding_type": "absolute",
        "tie_word_embeddings": true,
        "pad_token_id": 0,
    });
    if let BertHead::Classes(count) | BertHead::Labels(count) = config.head {
        json["id2label"] = labels(count);
    }
    Ok(json)
}

/// Where each parameter stands: in a `BertModel` without prefix, in a model with a head under `bert.`.
pub fn imports(config: &BertConfig) -> Vec<Import> {
    let prefix = if matches!(config.head, BertHead::None | BertHead::Pooler) { "" } else { "bert." };
    imports_under(config, prefix)
}

/// The same with the encoder under any prefix: the encoder alone, say, of a model with a head.
pub fn imports_under(config: &BertConfig, prefix: &str) -> Vec<Import> {
    let mut table = Vec::new();
    let mut one = |ours: &str, theirs: String| {
        table.push(Import::new(ours, theirs, Map::Same));
    };
    one("token_embedding.weight", format!("{prefix}embeddings.word_embeddings.weight"));
    one("token_type_embedding.weight", format!("{prefix}embeddings.token_type_embeddings.weight"));
    one("position_embedding.weight", format!("{prefix}embeddings.position_embeddings.weight"));
    let mut both = |ours: &str, theirs: &str| {
        for part in ["weight", "bias"] {
            one(&format!("{ours}.{part}"), format!("{theirs}.{part}"));
        }
    };
    both("embedding_norm", &format!("{prefix}embeddings.LayerNorm"));
    for layer in 0..config.layers {
        for (ours, theirs) in [
            ("attention_norm", "attention.output.LayerNorm"),
            ("attention.query", "attention.self.query"),
            ("attention.key", "attention.self.key"),
            ("attention.value", "attention.self.value"),
            ("attention.output", "attention.output.dense"),
            ("feed_forward_norm", "output.LayerNorm"),
            ("feed_forward.up", "intermediate.dense"),
            ("feed_forward.down", "output.dense"),
        ] {
            both(&format!("block.{layer}.{ours}"), &format!("{prefix}encoder.layer.{layer}.{theirs}"));
        }
    }
    match config.head {
        BertHead::None => {}
        BertHead::Pooler => both("pooler", &format!("{prefix}pooler.dense")),
        BertHead::Masked => {
            both("transform", "cls.predictions.transform.dense");
            both("transform_norm", "cls.predictions.transform.LayerNorm");
            one("head.bias", "cls.predictions.bias".into());
        }
        BertHead::Classes(_) => {
            both("pooler", &format!("{prefix}pooler.dense"));
            both("head", "classifier");
        }
        BertHead::MeanClasses(_) | BertHead::Labels(_) => both("head", "classifier"),
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bert::{Bert, PRESETS};

    const HEADS: [BertHead; 5] =
        [BertHead::None, BertHead::Pooler, BertHead::Masked, BertHead::Classes(3), BertHead::Labels(9)];

    #[test]
    fn every_parameter_stands_in_the_table_once() {
        for head in HEADS {
            let config = BertConfig { layers: 2, width: 8, heads: 2, hidden: 12, head, ..PRESETS[0].1 };
            let bert = Bert::new(config).unwrap();
            let mut ours: Vec<String> = bert.parameters().declared().map(|one| one.name.clone()).collect();
            let mut table: Vec<String> = imports(&config).into_iter().map(|one| one.ours).collect();
            ours.sort();
            table.sort();
            assert_eq!(ours, table, "{head:?}");
        }
    }

    #[test]
    fn a_config_survives_the_way_there_and_back() {
        for head in HEADS.into_iter().skip(1) {
            for (_, preset) in PRESETS {
                let config = BertConfig { head, ..preset };
                assert_eq!(config_from_json(&config_to_json(&config).unwrap()).unwrap(), config);
            }
        }
    }

    #[test]
    fn epsilons_are_written_as_people_write_them() {
        let json = config_to_json(&PRESETS[0].1).unwrap();
        assert_eq!(json["layer_norm_eps"].to_string(), "1e-12");
        assert_eq!(json["hidden_dropout_prob"].to_string(), "0.1");
    }

    #[test]
    fn configs_that_are_not_ours_are_refused() {
        let refused = |field: &str, value: Value| {
            let mut config = json!({"model_type": "bert"});
            config[field] = value;
            config_from_json(&config).unwrap_err().to_string()
        };
        assert_eq!(
            refused("model_type", json!("gpt2")),
            "bert: the config is one of model_type `gpt2`; give one of model_type `bert`, or import it as what it is"
        );
        assert_eq!(
            refused("hidden_size", json!("wide")),
            "bert: `hidden_size` is \"wide\"; it should be a whole number"
        );
        assert_eq!(
            refused("layer_norm_eps", json!([])),
            "bert: `layer_norm_eps` is []; it should be a number"
        );
        assert_eq!(
            refused("is_decoder", json!(true)),
            "bert: `is_decoder` is true; only models with `is_decoder` false can be imported"
        );
        assert_eq!(
            refused("position_embedding_type", json!("relative_key")),
            "bert: `position_embedding_type` is \"relative_key\"; only models with absolute positions can be imported"
        );
        assert_eq!(
            refused("hidden_act", json!("swish")),
            "bert: `hidden_act` is \"swish\"; it should be \"gelu\", \"gelu_new\", \"gelu_pytorch_tanh\" or \"relu\""
        );
        assert_eq!(
            refused("architectures", json!(["BertForNextSentencePrediction"])),
            "bert: the config is one of a BertForNextSentencePrediction; give one of a BertModel, BertForMaskedLM, \
             BertForSequenceClassification or BertForTokenClassification"
        );
    }
}
