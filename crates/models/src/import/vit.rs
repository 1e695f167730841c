//! ViT, DeiT and DINOv2 as transformers keeps them: with a head for classes, or bare. The pooler of a bare
//! ViT or DeiT is a layer with tanh over the class token, or not there at all: its weights decide; a bare
//! DINOv2 has none. DINOv2's mask token is for training by masks, which is not done here: it is passed over.

use super::encoder::{activation, activation_name, architecture, classes, labels, short};
use super::json::Fields;
use super::{Import, Map};
use crate::Mechanisms;
use crate::vit::{VitConfig, VitForm, VitHead, VitPooling};
use regard_graph::{Error, Result};
use regard_layers::FeedForwardKind;
use serde_json::{Value, json};

/// What files may hold that is not read: see above.
pub const IGNORED: [&str; 2] = ["embeddings.mask_token", "dinov2.embeddings.mask_token"];

/// The `model_type` of a form, which is also the prefix of its names.
pub fn model_type(form: VitForm) -> &'static str {
    match form {
        VitForm::Plain => "vit",
        VitForm::Deit => "deit",
        VitForm::Dinov2 { .. } => "dinov2",
    }
}

/// The architectures of a `model_type`: the bare one first.
pub fn architectures(model_type: &str) -> &'static [&'static str] {
    match model_type {
        "deit" => &["DeiTModel", "DeiTForImageClassification", "DeiTForImageClassificationWithTeacher"],
        "dinov2" => &["Dinov2Model", "Dinov2ForImageClassification"],
        _ => &["ViTModel", "ViTForImageClassification"],
    }
}

/// The head of an architecture, and what it reads.
fn head_of(fields: &Fields<'_>, kind: &str, config: &Value) -> Result<(VitPooling, VitHead)> {
    let known = architectures(kind);
    match architecture(config) {
        Some("Dinov2ForImageClassification") => {
            Ok((VitPooling::ClassAndMean, VitHead::Linear(classes(fields, config)?)))
        }
        Some("DeiTForImageClassificationWithTeacher") => {
            Ok((VitPooling::Class, VitHead::Taught(classes(fields, config)?)))
        }
        Some("ViTForImageClassification" | "DeiTForImageClassification") => {
            Ok((VitPooling::Class, VitHead::Linear(classes(fields, config)?)))
        }
        Some(other) if !known.contains(&other) => Err(fields.wrong(
            format!("the config is one of a {other}"),
            format!("give one of a {}", known.join(" or ")),
        )),
        _ if kind == "dinov2" => Ok((VitPooling::Class, VitHead::None)),
        _ => {
            if let Some(other) = fields.text("pooler_act")?.filter(|act| *act != "tanh") {
                return Err(fields.unknown("pooler_act", other, &["tanh"]));
            }
            let width = fields.size_or_none("pooler_output_size")?;
            let width = width.or(fields.size_or_none("hidden_size")?).unwrap_or(768);
            Ok((VitPooling::Class, VitHead::Pooler(width)))
        }
    }
}

/// DINOv2's hidden width: the width times `mlp_ratio`, of which a gated part has two thirds, rounded up to a
/// multiple of 8.
fn dinov2_hidden(width: usize, ratio: usize, gated: bool) -> usize {
    let whole = width.saturating_mul(ratio);
    if gated { (whole.saturating_mul(2) / 3).saturating_add(7) / 8 * 8 } else { whole }
}

/// The settings that a `config.json` speaks of; the head is that of its architecture.
pub fn config_from_json(config: &Value) -> Result<VitConfig> {
    let kind =
        config["model_type"].as_str().filter(|kind| ["deit", "dinov2"].contains(kind)).unwrap_or("vit");
    let fields = Fields::new(kind, config)?;
    let (pooling, head) = head_of(&fields, kind, config)?;
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
    let width = size("hidden_size", 768)?;
    let (form, epsilon) = match kind {
        "deit" => (VitForm::Deit, 1e-12),
        "dinov2" => (VitForm::Dinov2 { scale: number("layerscale_value", 1.0)?, learned: None }, 1e-6),
        _ => (VitForm::Plain, 1e-12),
    };
    let (mut activation, mut hidden) = (activation(&fields)?, size("intermediate_size", 3072)?);
    if kind == "dinov2" {
        let gated = fields.truth("use_swiglu_ffn")?.unwrap_or(false);
        hidden = dinov2_hidden(width, size("mlp_ratio", 4)?, gated);
        activation = if gated { FeedForwardKind::GatedSilu } else { activation };
    }
    let (image, patch) =
        (pair("image_size", 224)?, pair("patch_size", if kind == "dinov2" { 14 } else { 16 })?);
    if kind == "dinov2" && (image[0] != image[1] || patch[0] != patch[1]) {
        return Err(fields.wrong(
            format!("images of {} by {} in patches of {} by {}", image[0], image[1], patch[0], patch[1]),
            "its positions are made for squares: give one size for both axes",
        ));
    }
    Ok(VitConfig {
        image,
        patch,
        channels: size("num_channels", 3)?,
        layers: size("num_hidden_layers", 12)?,
        heads: size("num_attention_heads", 12)?,
        width,
        hidden,
        activation,
        input_bias: fields.truth("qkv_bias")?.unwrap_or(true),
        positions: true,
        pooling,
        head,
        epsilon: number("layer_norm_eps", epsilon)?,
        dropout: number("hidden_dropout_prob", 0.0)?,
        attention_dropout: number("attention_probs_dropout_prob", 0.0)?,
        std: number("initializer_range", 0.02)?,
        mechanisms: Mechanisms::default(),
        form,
    })
}

/// The `config.json` of these settings, as transformers reads it; an error for what it has no words for.
pub fn config_to_json(config: &VitConfig) -> Result<Value> {
    let kind = model_type(config.form);
    let foreign = |what: &str| {
        let name = match config.form {
            VitForm::Plain => "ViT",
            VitForm::Deit => "DeiT",
            VitForm::Dinov2 { .. } => "DINOv2",
        };
        let what = format!("transformers' {name} has no {what}");
        Err(Error::invalid(kind, what, "keep such a model as a checkpoint of our own"))
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
    let architecture = match (config.head, architectures(kind)) {
        (VitHead::Pooler(_), _) if kind == "dinov2" => return foreign("pooler"),
        (VitHead::None | VitHead::Pooler(_), names) => names[0],
        (VitHead::Linear(_), names) => names[1],
        (VitHead::Taught(_), names) => names[names.len() - 1],
        (VitHead::Mlp { .. }, _) => return foreign("head with a hidden layer"),
    };
    let reads = match (kind, config.head) {
        ("dinov2", VitHead::Linear(_)) => VitPooling::ClassAndMean,
        _ => VitPooling::Class,
    };
    if config.pooling != reads {
        return foreign("head that reads the class token and the mean of the patches alike");
    }
    let pair =
        |[height, width]: [usize; 2]| if height == width { json!(height) } else { json!([height, width]) };
    // Of a DINOv2 for images of another size, that of its weights.
    let [rows, columns] = config.learned_grid();
    let image =
        if kind == "dinov2" { [rows * config.patch[0], columns * config.patch[1]] } else { config.image };
    let gated = kind == "dinov2" && config.activation == FeedForwardKind::GatedSilu;
    let mut json = json!({
        "architectures": [architecture],
        "model_type": kind,
        "image_size": pair(image),
        "patch_size": pair(config.patch),
        "num_channels": config.channels,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "hidden_size": config.width,
        "hidden_act": if gated { "gelu" } else { activation_name(kind, config.activation)? },
        "qkv_bias": config.input_bias,
        "layer_norm_eps": short(config.epsilon),
        "hidden_dropout_prob": short(config.dropout),
        "attention_probs_dropout_prob": short(config.attention_dropout),
        "initializer_range": short(config.std),
    });
    match config.form {
        VitForm::Plain | VitForm::Deit => json["intermediate_size"] = config.hidden.into(),
        VitForm::Dinov2 { scale, .. } => {
            let ratios = 1..=64;
            let fits = |ratio: &usize| dinov2_hidden(config.width, *ratio, gated) == config.hidden;
            let Some(ratio) = ratios.into_iter().find(fits) else {
                return foreign("word for this hidden width, which is no multiple of the width");
            };
            json["mlp_ratio"] = ratio.into();
            json["use_swiglu_ffn"] = gated.into();
            json["layerscale_value"] = short(scale);
            json["use_mask_token"] = false.into();
        }
    }
    match config.head {
        VitHead::Linear(classes) | VitHead::Taught(classes) => json["id2label"] = labels(classes),
        VitHead::Pooler(width) => json["pooler_output_size"] = json!(width),
        VitHead::None | VitHead::Mlp { .. } => {}
    }
    Ok(json)
}

/// Where each parameter stands: in a bare model without prefix, in one with a head under `vit.`, say. A head
/// with a hidden layer has no place there and begins anew, as does the head of a model with other classes.
pub fn imports(config: &VitConfig) -> Vec<Import> {
    let bare = matches!(config.head, VitHead::None | VitHead::Pooler(_));
    let prefix = if bare { String::new() } else { format!("{}.", model_type(config.form)) };
    imports_under(config, &prefix)
}

/// The same with the encoder under any prefix.
pub fn imports_under(config: &VitConfig, prefix: &str) -> Vec<Import> {
    let mut table = Vec::new();
    let VitConfig { width, channels, patch: [p, q], .. } = *config;
    let projection = format!("{prefix}embeddings.patch_embeddings.projection");
    let kernel = [width, channels, p, q]; // C (Ch p q) from C Ch p q
    table.push(Import::reshaped("patch_embedding.weight", format!("{projection}.weight"), &kernel));
    table.push(Import::new("patch_embedding.bias", format!("{projection}.bias"), Map::Same));
    // Tokens and positions stand in a batch of one.
    table.push(Import::reshaped("class_token", format!("{prefix}embeddings.cls_token"), &[1, 1, width]));
    if config.form == VitForm::Deit {
        let theirs = format!("{prefix}embeddings.distillation_token");
        table.push(Import::reshaped("distillation_token", theirs, &[1, 1, width]));
    }
    if config.positions {
        let theirs = format!("{prefix}embeddings.position_embeddings");
        let [rows, columns] = config.learned_grid();
        let places = config.form.tokens() + rows * columns;
        table.push(Import::reshaped("position_embedding.weight", theirs, &[1, places, width]));
    }
    let dinov2 = matches!(config.form, VitForm::Dinov2 { .. });
    let norms = if dinov2 { ["norm1", "norm2"] } else { ["layernorm_before", "layernorm_after"] };
    let gated = config.activation.is_gated();
    let feed_forward: &[(&str, &str, Map)] = match (dinov2, gated) {
        (false, _) => &[("up", "intermediate.dense", Map::Same), ("down", "output.dense", Map::Same)],
        (true, false) => &[("up", "mlp.fc1", Map::Same), ("down", "mlp.fc2", Map::Same)],
        (true, true) => &[
            ("gate", "mlp.weights_in", Map::Split { index: 0, parts: 2 }),
            ("up", "mlp.weights_in", Map::Split { index: 1, parts: 2 }),
            ("down", "mlp.weights_out", Map::Same),
        ],
    };
    let mut one = |ours: String, theirs: String, map: Map| table.push(Import::new(ours, theirs, map));
    for layer in 0..config.layers {
        let (ours, theirs) = (format!("block.{layer}"), format!("{prefix}encoder.layer.{layer}"));
        let mut line = |own: &str, foreign: &str, bias: bool, map: Map| {
            one(format!("{ours}.{own}.weight"), format!("{theirs}.{foreign}.weight"), map);
            if bias {
                one(format!("{ours}.{own}.bias"), format!("{theirs}.{foreign}.bias"), map);
            }
        };
        for (own, foreign) in ["attention_norm", "feed_forward_norm"].into_iter().zip(norms) {
            line(own, foreign, true, Map::Same);
        }
        for part in ["query", "key", "value"] {
            let (own, foreign) = (format!("attention.{part}"), format!("attention.attention.{part}"));
            line(&own, &foreign, config.input_bias, Map::Same);
        }
        line("attention.output", "attention.output.dense", true, Map::Same);
        for (own, foreign, map) in feed_forward {
            line(&format!("feed_forward.{own}"), foreign, true, *map);
        }
        if dinov2 {
            for (own, foreign) in
                [("attention_scale", "layer_scale1"), ("feed_forward_scale", "layer_scale2")]
            {
                one(format!("{ours}.{own}"), format!("{theirs}.{foreign}.lambda1"), Map::Same);
            }
        }
    }
    for part in ["weight", "bias"] {
        one(format!("final_norm.{part}"), format!("{prefix}layernorm.{part}"), Map::Same);
        match config.head {
            VitHead::Linear(_) => one(format!("head.{part}"), format!("classifier.{part}"), Map::Same),
            VitHead::Taught(_) => {
                one(format!("head.{part}"), format!("cls_classifier.{part}"), Map::Same);
                one(format!("taught.{part}"), format!("distillation_classifier.{part}"), Map::Same);
            }
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
            assert_whole(VitConfig { head, input_bias, positions, ..sizes });
        }
        let square = VitConfig { layers: 2, width: 12, hidden: 12, ..PRESETS[0].1 };
        let deit = VitConfig { form: VitForm::Deit, ..square };
        for head in [VitHead::Pooler(9), VitHead::Linear(7), VitHead::Taught(7)] {
            assert_whole(VitConfig { head, ..deit });
        }
        let form = VitForm::Dinov2 { scale: 0.5, learned: Some([3, 5]) };
        for activation in [FeedForwardKind::Gelu, FeedForwardKind::GatedSilu] {
            let dinov2 = VitConfig { form, activation, pooling: VitPooling::ClassAndMean, ..square };
            assert_whole(dinov2);
            assert_whole(VitConfig { head: VitHead::None, ..dinov2 });
        }
    }

    fn assert_whole(config: VitConfig) {
        let vit = Vit::new(config).unwrap();
        let mut ours: Vec<String> = vit.parameters().declared().map(|one| one.name.clone()).collect();
        let mut table: Vec<String> = imports(&config).into_iter().map(|one| one.ours).collect();
        ours.sort();
        table.sort();
        assert_eq!(ours, table, "{config:?}");
    }

    #[test]
    fn a_config_survives_the_way_there_and_back() {
        for (_, preset) in PRESETS {
            for head in [VitHead::Pooler(preset.width), VitHead::Pooler(5), VitHead::Linear(5)] {
                let config = VitConfig { head, image: [32, 64], input_bias: false, ..preset };
                assert_eq!(config_from_json(&config_to_json(&config).unwrap()).unwrap(), config);
            }
        }
        let base = PRESETS[0].1;
        for head in [VitHead::Pooler(5), VitHead::Linear(5), VitHead::Taught(5)] {
            let config = VitConfig { head, form: VitForm::Deit, ..base };
            assert_eq!(config_from_json(&config_to_json(&config).unwrap()).unwrap(), config);
        }
        let dinov2 = VitConfig {
            form: VitForm::Dinov2 { scale: 0.5, learned: None },
            pooling: VitPooling::ClassAndMean,
            width: 48,
            hidden: 4 * 48,
            ..base
        };
        let gated = VitConfig { activation: FeedForwardKind::GatedSilu, hidden: 128, ..dinov2 };
        let bare = VitConfig { head: VitHead::None, pooling: VitPooling::Class, ..dinov2 };
        for config in [dinov2, gated, bare] {
            assert_eq!(config_from_json(&config_to_json(&config).unwrap()).unwrap(), config);
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
        let form = VitForm::Dinov2 { scale: 1.0, learned: None };
        let dinov2 = VitConfig { form, head: VitHead::None, ..base };
        assert_eq!(
            refused(VitConfig { hidden: 7, ..dinov2 }),
            "dinov2: transformers' DINOv2 has no word for this hidden width, which is no multiple of the width; keep such \
             a model as a checkpoint of our own"
        );
        assert!(refused(VitConfig { head: VitHead::Pooler(3), ..dinov2 }).contains("DINOv2 has no pooler"));
        assert!(refused(VitConfig { head: VitHead::Linear(3), ..dinov2 }).contains("has no head that reads"));
        let oblong = json!({"model_type": "dinov2", "image_size": [28, 42]});
        assert_eq!(
            config_from_json(&oblong).unwrap_err().to_string(),
            "dinov2: images of 28 by 42 in patches of 14 by 14; its positions are made for squares: give one size for both axes"
        );
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
