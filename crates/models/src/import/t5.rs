//! T5, mT5 and umT5 as transformers writes them (`T5ForConditionalGeneration`, `T5EncoderModel`): names and
//! `config.json`.

use super::json::Fields;
use super::{Import, Map};
use crate::mechanisms::decimal;
use crate::{Mechanisms, T5, T5Config};
use regard_graph::Result;
use serde_json::{Value, json};

/// Where each parameter of a model stands in transformers' checkpoints.
pub fn imports(model: &T5) -> Vec<Import> {
    let config = model.config();
    let mut table = encoder_imports(config);
    table.extend(stack_imports(config, true));
    if !config.tied {
        table.push(same("head.weight", "lm_head.weight"));
    }
    table
}

/// The same for an encoder by itself.
pub fn encoder_imports(config: &T5Config) -> Vec<Import> {
    let mut table = vec![same("token_embedding.weight", "shared.weight")];
    table.extend(stack_imports(config, false));
    table
}

fn stack_imports(config: &T5Config, decoder: bool) -> Vec<Import> {
    let mut table = Vec::new();
    let (stack, layers) = match decoder {
        true => ("decoder", config.decoder_layers),
        false => ("encoder", config.encoder_layers),
    };
    let mut add = |ours: String, theirs: String| {
        table.push(same(format!("{stack}.{ours}"), format!("{stack}.{theirs}")));
    };
    let distances = "layer.0.SelfAttention.relative_attention_bias.weight";
    if !config.own_tables {
        add("relative.table".into(), format!("block.0.{distances}"));
    }
    for block in 0..layers {
        if config.own_tables {
            add(format!("block.{block}.relative.table"), format!("block.{block}.{distances}"));
        }
        let mut parts = vec![("attention", "SelfAttention")];
        parts.extend(decoder.then_some(("cross", "EncDecAttention")));
        let last = parts.len();
        for (layer, (ours, theirs)) in parts.into_iter().enumerate() {
            let at = format!("block.{block}.layer.{layer}");
            for (own, letter) in [("query", "q"), ("key", "k"), ("value", "v"), ("output", "o")] {
                add(format!("block.{block}.{ours}.{own}.weight"), format!("{at}.{theirs}.{letter}.weight"));
            }
            add(format!("block.{block}.{ours}_norm.weight"), format!("{at}.layer_norm.weight"));
        }
        let at = format!("block.{block}.layer.{last}");
        // wi_0 passes through the activation: it is the gate.
        let matrices = match config.gated {
            true => vec![("gate", "wi_0"), ("up", "wi_1"), ("down", "wo")],
            false => vec![("up", "wi"), ("down", "wo")],
        };
        for (ours, theirs) in matrices {
            add(
                format!("block.{block}.feed_forward.{ours}.weight"),
                format!("{at}.DenseReluDense.{theirs}.weight"),
            );
        }
        add(format!("block.{block}.feed_forward_norm.weight"), format!("{at}.layer_norm.weight"));
    }
    add("final_norm.weight".into(), "final_layer_norm.weight".into());
    table
}

/// Reads transformers' `config.json`.
///
/// Older files say with `tie_word_embeddings` whether the decoder's output is scaled, newer ones with
/// `scale_decoder_outputs`, and then `tie_word_embeddings` is always true. Published models scale if and only
/// if they tie, so `tied` is taken to be the same; whether a checkpoint has an `lm_head.weight` of its own
/// decides. An mT5 is never scaled: newer files of it say `tie_word_embeddings: true` like all others, and
/// have no word for the scale. A umT5 is scaled if its config says `tie_word_embeddings: true`, as newer
/// files all do; published ones say false and are not (newer versions of transformers scale them
/// nevertheless, which changes probabilities, and no order).
pub fn config_from_json(json: &Value) -> Result<T5Config> {
    let (multilingual, own_tables) = (json["model_type"] == "mt5", json["model_type"] == "umt5");
    let fields = Fields::new(
        if multilingual {
            "mt5"
        } else if own_tables {
            "umt5"
        } else {
            "t5"
        },
        json,
    )?;
    let gated = match fields.text("feed_forward_proj")? {
        None => multilingual || own_tables,
        Some("relu") => false,
        Some("gated-gelu") => true,
        Some(other) => {
            return Err(fields.wrong(
                format!("`feed_forward_proj` is \"{other}\""),
                "only models with \"relu\" or \"gated-gelu\" can be imported",
            ));
        }
    };
    // Where both are there, transformers takes this one.
    let usual = if gated { "gelu_new" } else { "relu" };
    if let Some(other) = fields.text("dense_act_fn")?.filter(|own| *own != usual) {
        return Err(fields.wrong(
            format!("`dense_act_fn` is \"{other}\""),
            "only models with \"relu\", or gated ones with \"gelu_new\", can be imported",
        ));
    }
    let own = fields.truth("tie_word_embeddings")?;
    let (tied, scaled) = match fields.truth("scale_decoder_outputs")? {
        _ if multilingual => (own.unwrap_or(false), false),
        _ if own_tables => (own.unwrap_or(true), own.unwrap_or(true)),
        Some(scaled) => (scaled, scaled),
        None => (own.unwrap_or(true), own.unwrap_or(true)),
    };
    let size_or = |name: &str, default: usize| Ok(fields.size_or_none(name)?.unwrap_or(default));
    let number_or = |name: &str, default: f64| Ok(fields.number(name)?.unwrap_or(default) as f32);
    let encoder_layers = fields.size("num_layers")?;
    Ok(T5Config {
        vocabulary: fields.size("vocab_size")?,
        width: fields.size("d_model")?,
        heads: fields.size("num_heads")?,
        head_width: fields.size("d_kv")?,
        hidden: fields.size("d_ff")?,
        encoder_layers,
        decoder_layers: size_or("num_decoder_layers", encoder_layers)?,
        buckets: size_or("relative_attention_num_buckets", 32)?,
        max_distance: size_or("relative_attention_max_distance", 128)?,
        gated,
        tied,
        scaled,
        multilingual,
        own_tables,
        epsilon: number_or("layer_norm_epsilon", 1e-6)?,
        dropout: number_or("dropout_rate", 0.1)?,
        mechanisms: Mechanisms::default(),
    })
}

/// Writes a `config.json` that transformers reads. Both older and newer versions take `tie_word_embeddings`
/// for the scaling, and untie when the checkpoint has an `lm_head.weight`; an mT5 has no scaling, and the
/// field means what it says.
pub fn config_to_json(config: &T5Config) -> Value {
    let (architecture, model_type, tie) = match (config.multilingual, config.own_tables) {
        (true, _) => ("MT5ForConditionalGeneration", "mt5", config.tied),
        (false, true) => ("UMT5ForConditionalGeneration", "umt5", config.scaled),
        (false, false) => ("T5ForConditionalGeneration", "t5", config.scaled),
    };
    json!({
        "architectures": [architecture],
        "model_type": model_type,
        "is_encoder_decoder": true,
        "vocab_size": config.vocabulary,
        "d_model": config.width,
        "num_heads": config.heads,
        "d_kv": config.head_width,
        "d_ff": config.hidden,
        "num_layers": config.encoder_layers,
        "num_decoder_layers": config.decoder_layers,
        "relative_attention_num_buckets": config.buckets,
        "relative_attention_max_distance": config.max_distance,
        "feed_forward_proj": if config.gated { "gated-gelu" } else { "relu" },
        "tie_word_embeddings": tie,
        "layer_norm_epsilon": decimal(config.epsilon),
        "dropout_rate": decimal(config.dropout),
        "pad_token_id": 0,
        "eos_token_id": 1,
        "decoder_start_token_id": 0,
    })
}

/// The same for an encoder by itself.
pub fn encoder_config_to_json(config: &T5Config) -> Value {
    let mut json = config_to_json(config);
    let architecture = match (config.multilingual, config.own_tables) {
        (true, _) => "MT5EncoderModel",
        (false, true) => "UMT5EncoderModel",
        (false, false) => "T5EncoderModel",
    };
    json["architectures"] = json!([architecture]);
    json["is_encoder_decoder"] = json!(false);
    json
}

fn same(ours: impl Into<String>, theirs: impl Into<String>) -> Import {
    Import::new(ours, theirs, Map::Same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_has_one_source() {
        for config in [
            T5Config { decoder_layers: 3, ..T5Config::small() },
            T5Config { gated: true, tied: false, scaled: false, ..T5Config::small() },
            T5Config { gated: true, scaled: false, multilingual: true, ..T5Config::small() },
            T5Config { gated: true, own_tables: true, ..T5Config::small() },
        ] {
            let model = T5::new(config).unwrap();
            let table = imports(&model);
            let mut ours: Vec<&str> = table.iter().map(|import| import.ours.as_str()).collect();
            let mut declared: Vec<&str> = model.parameters().declared().map(|d| d.name.as_str()).collect();
            ours.sort_unstable();
            declared.sort_unstable();
            assert_eq!(ours, declared);
            let mut theirs: Vec<&str> = table.iter().map(|import| import.theirs.as_str()).collect();
            theirs.sort_unstable();
            theirs.dedup();
            assert_eq!(theirs.len(), table.len());
            assert_eq!(config_from_json(&config_to_json(&config)).unwrap(), config);
        }
    }

    #[test]
    fn an_mt5_is_never_scaled() {
        let mut json = config_to_json(&T5Config { gated: true, ..T5Config::small() });
        json["model_type"] = json!("mt5");
        // As transformers 5 saves every mT5, and as published folders say it.
        for (tie, scale) in
            [(json!(true), Value::Null), (json!(false), Value::Null), (json!(true), json!(true))]
        {
            json["tie_word_embeddings"] = tie;
            json["scale_decoder_outputs"] = scale;
            let config = config_from_json(&json).unwrap();
            assert!(!config.scaled && config.multilingual, "{json}");
            assert_eq!(config_to_json(&config)["architectures"], json!(["MT5ForConditionalGeneration"]));
        }
    }

    #[test]
    fn strange_configs_are_refused() {
        let refused = |name: &str, value: Value| {
            let mut json = config_to_json(&T5Config::small());
            json[name] = value;
            config_from_json(&json).unwrap_err().to_string()
        };
        assert_eq!(
            refused("feed_forward_proj", json!("gated-silu")),
            "t5: `feed_forward_proj` is \"gated-silu\"; only models with \"relu\" or \"gated-gelu\" can be imported"
        );
        assert_eq!(
            refused("dense_act_fn", json!("silu")),
            "t5: `dense_act_fn` is \"silu\"; only models with \"relu\", or gated ones with \"gelu_new\", can be imported"
        );
        assert_eq!(refused("d_model", json!(-4)), "t5: `d_model` is -4; it should be a whole number");
        assert_eq!(
            refused("d_kv", Value::Null),
            "t5: the config has no `d_kv`; give the whole config.json of the model"
        );
        assert_eq!(
            refused("model_type", json!("gpt2")),
            "t5: the config is one of model_type `gpt2`; give one of model_type `t5`, or import it as what it is"
        );
    }
}
