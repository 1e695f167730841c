//! BERT as transformers keeps it: `BertModel`, `BertForMaskedLM`, `BertForSequenceClassification`,
//! `BertForTokenClassification`.

use super::fields::{Fields, activation_name, short};
use super::{Import, Map};
use crate::bert::{BertConfig, BertHead};
use regard_graph::Result;
use serde_json::{Map as Object, Value, json};

/// The settings that a `config.json` speaks of; the head is that of its architecture.
pub fn config_from_json(json: &Value) -> Result<BertConfig> {
    let fields = Fields::new("bert", json)?;
    if let Value::String(kind) = fields.get("position_embedding_type")
        && kind != "absolute"
    {
        return Err(fields.wrong("position_embedding_type", kind, "\"absolute\""));
    }
    for flag in ["is_decoder", "add_cross_attention"] {
        if fields.truth_or(flag, false)? {
            return Err(fields.wrong(flag, true, "false: this BERT is an encoder"));
        }
    }
    let head = match fields.architecture() {
        None | Some("BertModel") => BertHead::Pooler,
        Some("BertForMaskedLM") => BertHead::Masked,
        Some("BertForSequenceClassification") => BertHead::Classes(fields.classes()?),
        Some("BertForTokenClassification") => BertHead::Labels(fields.classes()?),
        Some(other) => {
            let known =
                "BertModel, BertForMaskedLM, BertForSequenceClassification or BertForTokenClassification";
            return Err(fields.wrong("architectures", other, known));
        }
    };
    Ok(BertConfig {
        layers: fields.size_or("num_hidden_layers", 12)?,
        heads: fields.size_or("num_attention_heads", 12)?,
        width: fields.size_or("hidden_size", 768)?,
        hidden: fields.size_or("intermediate_size", 3072)?,
        context: fields.size_or("max_position_embeddings", 512)?,
        vocabulary: fields.size_or("vocab_size", 30522)?,
        token_types: fields.size_or("type_vocab_size", 2)?,
        activation: fields.activation()?,
        epsilon: fields.number_or("layer_norm_eps", 1e-12)?,
        dropout: fields.number_or("hidden_dropout_prob", 0.1)?,
        attention_dropout: fields.number_or("attention_probs_dropout_prob", 0.1)?,
        std: fields.number_or("initializer_range", 0.02)?,
        head,
    })
}

/// The `config.json` of these settings, as transformers reads it.
pub fn config_to_json(config: &BertConfig) -> Result<Value> {
    let architecture = match config.head {
        BertHead::None | BertHead::Pooler => "BertModel",
        BertHead::Masked => "BertForMaskedLM",
        BertHead::Classes(_) => "BertForSequenceClassification",
        BertHead::Labels(_) => "BertForTokenClassification",
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
        "hidden_act": activation_name(config.activation)?,
        "layer_norm_eps": short(config.epsilon),
        "hidden_dropout_prob": short(config.dropout),
        "attention_probs_dropout_prob": short(config.attention_dropout),
        "initializer_range": short(config.std),
        "position_embedding_type": "absolute",
        "tie_word_embeddings": true,
        "pad_token_id": 0,
    });
    if let BertHead::Classes(labels) | BertHead::Labels(labels) = config.head {
        json["id2label"] = labels_of(labels);
    }
    Ok(json)
}

/// `{"0": "LABEL_0", …}`, from which transformers counts classes.
pub(super) fn labels_of(labels: usize) -> Value {
    let named = (0..labels).map(|label| (label.to_string(), Value::from(format!("LABEL_{label}"))));
    Value::Object(named.collect::<Object<_, _>>())
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
        table.push(Import { ours: ours.into(), theirs, map: Map::Same });
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
        BertHead::Labels(_) => both("head", "classifier"),
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
        let refused = |json: Value| config_from_json(&json).unwrap_err().to_string();
        assert_eq!(
            refused(json!({"model_type": "gpt2"})),
            "bert: config.json: model_type is \"gpt2\"; expected a config of \"bert\""
        );
        assert_eq!(
            refused(json!({})),
            "bert: config.json: model_type is not there; expected a config of \"bert\""
        );
        assert_eq!(
            refused(json!({"model_type": "bert", "hidden_size": "wide"})),
            "bert: config.json: hidden_size is \"wide\"; expected a whole number"
        );
        assert_eq!(
            refused(json!({"model_type": "bert", "layer_norm_eps": []})),
            "bert: config.json: layer_norm_eps is []; expected a number"
        );
        assert_eq!(
            refused(json!({"model_type": "bert", "is_decoder": true})),
            "bert: config.json: is_decoder is true; expected false: this BERT is an encoder"
        );
        assert_eq!(
            refused(json!({"model_type": "bert", "is_decoder": 3})),
            "bert: config.json: is_decoder is 3; expected true or false"
        );
        assert_eq!(
            refused(json!({"model_type": "bert", "position_embedding_type": "relative_key"})),
            "bert: config.json: position_embedding_type is relative_key; expected \"absolute\""
        );
        assert_eq!(
            refused(json!({"model_type": "bert", "hidden_act": "swish"})),
            "bert: config.json: hidden_act is \"swish\"; expected \"gelu\", \"gelu_new\", \"gelu_pytorch_tanh\" or \
             \"relu\""
        );
        assert_eq!(
            refused(json!({"model_type": "bert", "architectures": ["BertForNextSentencePrediction"]})),
            "bert: config.json: architectures is BertForNextSentencePrediction; expected BertModel, BertForMaskedLM, \
             BertForSequenceClassification or BertForTokenClassification"
        );
    }
}
