//! ViT as transformers keeps it: `ViTForImageClassification`, and `ViTModel`, whose pooler is a layer with
//! tanh over the class token, or not there at all: its weights decide.

use super::encoder::{activation, activation_name, architecture, classes, labels, short};
use super::json::Fields;
use super::{Import, Map};
use crate::Mechanisms;
use crate::vit::{VitConfig, VitHead, VitPooling};
use regard_graph::{Error, Result};
use serde_json::{Value, json};

/// The settings that a `config.json` speaks of; the head is that of its architecture.
pub fn config_from_json(config: &Value) -> Result<VitConfig> {
    let fields = Fields::new("vit", config)?;
    let head = match architecture(config) {
        None | Some("ViTModel") => {
            if let Some(other) = fields.text("pooler_act")?.filter(|act| *act != "tanh") {
                return Err(fields.unknown("pooler_act", other, &["tanh"]));
            }
            let width = fields.size_or_none("pooler_output_size")?;
            VitHead::Pooler(width.or(fields.size_or_none("hidden_size")?).unwrap_or(768))
        }
        Some("ViTForImageClassification") => VitHead::Linear(classes(&fields, config)?),
        Some(other) => {
            return Err(fields.wrong(
                format!("the config is one of a {other}"),
                "give one of a ViTModel or ViTForImageClassification",
            ));
        }
    };
    let size = |name: &str, default: usize| Ok(fields.size_or_none(name)?.unwrap_or(default));
    let number = |name: &str, default: f64| Ok(fields.number(name)?.unwrap_or(default) as f32);
    // One size for both axes, or height and width.
    let pair = |name: &str, default: usize| match &config[name] {
        Value::Array(pair) => match pair.iter().map(Value::as_u64).collect::<Vec<_>>()[..] {
            [Some(height), Some(width)] => Ok([height as usize, width as usize]),
            _ => Err(fields.wrong(
                format!("`{name}` is {}", config[name]),
                "it should be a whole number, or height and width",
            )),
        },
        _ => Ok([size(name, default)?; 2]),
    };
    Ok(VitConfig {
        image: pair("image_size", 224)?,
        patch: pair("patch_size", 16)?,
        channels: size("num_channels", 3)?,
        layers: size("num_hidden_layers", 12)?,
        heads: size("num_attention_heads", 12)?,
        width: size("hidden_size", 768)?,
        hidden: size("intermediate_size", 3072)?,
        activation: activation(&fields)?,
        input_bias: fields.truth("qkv_bias")?.unwrap_or(true),
        positions: true,
        pooling: VitPooling::Class,
        head,
        epsilon: number("layer_norm_eps", 1e-12)?,
        dropout: number("hidden_dropout_prob", 0.0)?,
        attention_dropout: number("attention_probs_dropout_prob", 0.0)?,
        std: number("initializer_range", 0.02)?,
        mechanisms: Mechanisms::default(),
    })
}

/// The `config.json` of these settings, as transformers reads it; an error for what it has no words for.
pub fn config_to_json(config: &VitConfig) -> Result<Value> {
    let foreign = |what: &str| {
        let what = format!("transformers' ViT has no {what}");
        Err(Error::invalid("vit", what, "keep such a model as a checkpoint of our own"))
    };
    if !config.mechanisms.are_the_family_s() {
        return foreign("words for the mechanisms of these blocks");
    }
    if !config.positions {
        return foreign("form without positions");
    }
    if config.pooling == VitPooling::Mean {
        return foreign("pooling by the mean");
    }
    let architecture = match config.head {
        VitHead::None | VitHead::Pooler(_) => "ViTModel",
        VitHead::Linear(_) => "ViTForImageClassification",
        VitHead::Mlp { .. } => return foreign("head with a hidden layer"),
    };
    let pair =
        |[height, width]: [usize; 2]| if height == width { json!(height) } else { json!([height, width]) };
    let mut json = json!({
        "architectures": [architecture],
        "model_type": "vit",
        "image_size": pair(config.image),
        "patch_size": pair(config.patch),
        "num_channels": config.channels,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "hidden_size": config.width,
        "intermediate_size": config.hidden,
        "hidden_act": activation_name("vit", config.activation)?,
        "qkv_bias": config.input_bias,
        "layer_norm_eps": short(config.epsilon),
        "hidden_dropout_prob": short(config.dropout),
        "attention_probs_dropout_prob": short(config.attention_dropout),
        "initializer_range": short(config.std),
    });
    match config.head {
        VitHead::Linear(classes) => json["id2label"] = labels(classes),
        VitHead::Pooler(width) => json["pooler_output_size"] = json!(width),
        VitHead::None | VitHead::Mlp { .. } => {}
    }
    Ok(json)
}

/// Where each parameter stands: in a `ViTModel` without prefix, in a model with a head under `vit.`. A head
/// with a hidden layer has no place there and begins anew, as does the head of a model with other classes.
pub fn imports(config: &VitConfig) -> Vec<Import> {
    let bare = matches!(config.head, VitHead::None | VitHead::Pooler(_));
    let prefix = if bare { "" } else { "vit." };
    imports_under(config, prefix)
}

/// The same with the encoder under any prefix.
pub fn imports_under(config: &VitConfig, prefix: &str) -> Vec<Import> {
    let mut table = Vec::new();
    let VitConfig { width, channels, patch: [p, q], .. } = *config;
    let projection = format!("{prefix}embeddings.patch_embeddings.projection");
    let kernel = [width, channels, p, q]; // C (Ch p q) from C Ch p q
    table.push(Import::reshaped("patch_embedding.weight", format!("{projection}.weight"), &kernel));
    table.push(Import::new("patch_embedding.bias", format!("{projection}.bias"), Map::Same));
    // The class token and the positions stand in a batch of one.
    table.push(Import::reshaped("class_token", format!("{prefix}embeddings.cls_token"), &[1, 1, width]));
    if config.positions {
        let theirs = format!("{prefix}embeddings.position_embeddings");
        let [rows, columns] = config.grid();
        table.push(Import::reshaped("position_embedding.weight", theirs, &[1, 1 + rows * columns, width]));
    }
    let mut one = |ours: String, theirs: String, map: Map| table.push(Import::new(ours, theirs, map));
    for layer in 0..config.layers {
        for (ours, theirs, bias) in [
            ("attention_norm", "layernorm_before", true),
            ("attention.query", "attention.attention.query", config.input_bias),
            ("attention.key", "attention.attention.key", config.input_bias),
            ("attention.value", "attention.attention.value", config.input_bias),
            ("attention.output", "attention.output.dense", true),
            ("feed_forward_norm", "layernorm_after", true),
            ("feed_forward.up", "intermediate.dense", true),
            ("feed_forward.down", "output.dense", true),
        ] {
            let (ours, theirs) =
                (format!("block.{layer}.{ours}"), format!("{prefix}encoder.layer.{layer}.{theirs}"));
            one(format!("{ours}.weight"), format!("{theirs}.weight"), Map::Same);
            if bias {
                one(format!("{ours}.bias"), format!("{theirs}.bias"), Map::Same);
            }
        }
    }
    for part in ["weight", "bias"] {
        one(format!("final_norm.{part}"), format!("{prefix}layernorm.{part}"), Map::Same);
        match config.head {
            VitHead::Linear(_) => one(format!("head.{part}"), format!("classifier.{part}"), Map::Same),
            VitHead::Pooler(_) => {
                one(format!("pooler.{part}"), format!("{prefix}pooler.dense.{part}"), Map::Same)
            }
            VitHead::None | VitHead::Mlp { .. } => {}
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vit::{PRESETS, Vit};

    #[test]
    fn every_parameter_stands_in_the_table_once() {
        for (head, input_bias, positions) in [
            (VitHead::None, true, true),
            (VitHead::Pooler(9), true, true),
            (VitHead::Linear(7), false, true),
            (VitHead::Linear(2), true, false),
        ] {
            let sizes = VitConfig { layers: 2, width: 12, hidden: 12, image: [32, 48], ..PRESETS[0].1 };
            let config = VitConfig { head, input_bias, positions, ..sizes };
            let vit = Vit::new(config).unwrap();
            let mut ours: Vec<String> = vit.parameters().declared().map(|one| one.name.clone()).collect();
            let mut table: Vec<String> = imports(&config).into_iter().map(|one| one.ours).collect();
            ours.sort();
            table.sort();
            assert_eq!(ours, table, "{head:?}");
        }
    }

    #[test]
    fn a_config_survives_the_way_there_and_back() {
        for (_, preset) in PRESETS {
            for head in [VitHead::Pooler(preset.width), VitHead::Pooler(5), VitHead::Linear(5)] {
                let config = VitConfig { head, image: [32, 64], input_bias: false, ..preset };
                assert_eq!(config_from_json(&config_to_json(&config).unwrap()).unwrap(), config);
            }
        }
    }

    #[test]
    fn what_transformers_has_no_words_for_is_refused() {
        let refused = |config: VitConfig| config_to_json(&config).unwrap_err().to_string();
        let base = PRESETS[0].1;
        assert_eq!(
            refused(VitConfig { pooling: VitPooling::Mean, ..base }),
            "vit: transformers' ViT has no pooling by the mean; keep such a model as a checkpoint of our own"
        );
        assert!(refused(VitConfig { positions: false, ..base }).contains("no form without positions"));
        let head = VitHead::Mlp { hidden: 5, classes: 3 };
        assert!(refused(VitConfig { head, ..base }).contains("no head with a hidden layer"));
        let refused = |field: &str, value: Value| {
            let mut config = json!({"model_type": "vit"});
            config[field] = value;
            config_from_json(&config).unwrap_err().to_string()
        };
        assert_eq!(
            refused("patch_size", json!([16, 16, 2])),
            "vit: `patch_size` is [16,16,2]; it should be a whole number, or height and width"
        );
        assert_eq!(
            refused("architectures", json!(["ViTForMaskedImageModeling"])),
            "vit: the config is one of a ViTForMaskedImageModeling; give one of a ViTModel or ViTForImageClassification"
        );
    }
}
