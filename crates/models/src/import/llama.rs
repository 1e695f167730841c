//! Llama as transformers writes it: queries and keys turn by halves. Files of llama2.c are read under the
//! same names, their neighbouring channels already put in halves.

use super::gpt2::plain;
use super::json::Fields;
use super::{Import, Map};
use crate::gpt::GptConfig;
use crate::mechanisms::decimal;
use crate::positions::Positions;
use regard_graph::{Error, Result};
use regard_layers::{FeedForwardKind, NormKind};
use regard_ops::{Pairing, RotarySpec, Stretch};
use serde_json::{Value, json};

/// Theirs for each part of a block.
const PARTS: [(&str, &str); 9] = [
    ("attention_norm", "input_layernorm"),
    ("attention.query", "self_attn.q_proj"),
    ("attention.key", "self_attn.k_proj"),
    ("attention.value", "self_attn.v_proj"),
    ("attention.output", "self_attn.o_proj"),
    ("feed_forward_norm", "post_attention_layernorm"),
    ("feed_forward.gate", "mlp.gate_proj"),
    ("feed_forward.up", "mlp.up_proj"),
    ("feed_forward.down", "mlp.down_proj"),
];

/// Our names and those of transformers.
pub fn imports(config: &GptConfig) -> Vec<Import> {
    let mut table = vec![Import::new("token_embedding.weight", "model.embed_tokens.weight", Map::Same)];
    for layer in 0..config.layers {
        for (ours, theirs) in PARTS {
            let biased = match ours.split_once('.') {
                Some(("attention", _)) => config.attention_bias,
                Some(("feed_forward", _)) => config.feed_forward_bias,
                _ => false,
            };
            for kind in ["weight", "bias"].into_iter().take(1 + usize::from(biased)) {
                let theirs = format!("model.layers.{layer}.{theirs}.{kind}");
                table.push(Import::new(format!("block.{layer}.{ours}.{kind}"), theirs, Map::Same));
            }
        }
    }
    table.push(Import::new("final_norm.weight", "model.norm.weight", Map::Same));
    if !config.tied {
        table.push(Import::new("head.weight", "lm_head.weight", Map::Same));
    }
    table
}

/// The settings that a config.json of model_type `llama` describes.
pub fn config_from_json(config: &Value) -> Result<GptConfig> {
    let fields = Fields::new("llama", config)?;
    let activation = fields.text("hidden_act")?.unwrap_or("silu");
    if !["silu", "swish"].contains(&activation) {
        return Err(fields.unknown("hidden_act", activation, &["silu", "swish"]));
    }
    let config = GptConfig {
        layers: fields.size("num_hidden_layers")?,
        heads: fields.size("num_attention_heads")?,
        groups: fields.size_or_none("num_key_value_heads")?,
        width: fields.size("hidden_size")?,
        head_width: fields.size_or_none("head_dim")?,
        hidden: Some(fields.size("intermediate_size")?),
        context: fields.size_or_none("max_position_embeddings")?.unwrap_or(2048),
        vocabulary: fields.size("vocab_size")?,
        positions: Positions::Rotary(rotary(&fields)?),
        epsilon: fields.number("rms_norm_eps")?.unwrap_or(1e-6) as f32,
        attention_bias: fields.truth("attention_bias")?.unwrap_or(false),
        feed_forward_bias: fields.truth("mlp_bias")?.unwrap_or(false),
        tied: fields.truth("tie_word_embeddings")?.unwrap_or(false),
        attention_dropout: Some(fields.number("attention_dropout")?.unwrap_or(0.0) as f32),
        std: fields.number("initializer_range")?.unwrap_or(0.02) as f32,
        ..GptConfig::LLAMA
    };
    crate::Gpt::new(config).map(|_| config)
}

/// How queries and keys turn: `rope_parameters`, or `rope_theta` and `rope_scaling` in older configs.
fn rotary(fields: &Fields<'_>) -> Result<RotarySpec> {
    let (newer, older) = (fields.inner("rope_parameters")?, fields.inner("rope_scaling")?);
    if newer.is_some() && older.is_some() {
        return Err(fields.wrong(
            "both `rope_parameters` and `rope_scaling` are given",
            "they say the same in newer and older words: leave one out",
        ));
    }
    let inner = match newer {
        Some(newer) => newer.number("rope_theta")?,
        None => None,
    };
    let outer = fields.number("rope_theta")?;
    if let (Some(inner), Some(outer)) = (inner, outer)
        && inner != outer
    {
        return Err(fields.wrong(
            format!("`rope_theta` is {outer}, and {inner} in `rope_parameters`"),
            "make them the same, or leave one out",
        ));
    }
    let base = inner.or(outer).unwrap_or(10_000.0);
    let spec = RotarySpec { base, pairing: Pairing::Halves, ..Default::default() };
    let Some(scaling) = newer.or(older) else { return Ok(spec) };
    // Configs of 2023 say `type`.
    let kind = match scaling.text("rope_type")? {
        Some(kind) => Some(kind),
        None => scaling.text("type")?,
    };
    match kind.unwrap_or("default") {
        "default" => Ok(spec),
        "llama3" => {
            let number = |name: &str| {
                scaling.number(name)?.ok_or_else(|| {
                    scaling.wrong(format!("rope_type `llama3` has no `{name}`"), "give the whole config.json")
                })
            };
            let stretch = Stretch {
                factor: number("factor")?,
                low: number("low_freq_factor")?,
                high: number("high_freq_factor")?,
                original: number("original_max_position_embeddings")?,
            };
            Ok(RotarySpec { stretch: Some(stretch), ..spec })
        }
        other => Err(scaling.unknown("rope_type", other, &["default", "llama3"])),
    }
}

/// The config.json that transformers reads as this model; an error if Llama has no such form.
pub fn config_to_json(config: &GptConfig) -> Result<Value> {
    let refuse = |what: &str| Err(Error::invalid("llama", what, "export it as another family"));
    let Positions::Rotary(spec) = config.positions else {
        return refuse("Llama has rotary positions");
    };
    if spec.pairing != Pairing::Halves || spec.width.is_some_and(|width| width != config.head_width()) {
        return refuse("Llama turns whole heads, by halves");
    }
    if config.norm != NormKind::Rms || config.feed_forward != FeedForwardKind::GatedSilu {
        return refuse("Llama has RMSNorm and a feed-forward part gated by SiLU");
    }
    if !plain(config) {
        return refuse("Llama has pre-norm blocks of soft attention with β = 1/√D");
    }
    if config.window.is_some() {
        return refuse("Llama has no window");
    }
    if config.dropout != 0.0 {
        return refuse("Llama drops attention weights only");
    }
    let mut rope = json!({ "rope_type": "default", "rope_theta": spec.base });
    if let Some(Stretch { factor, low, high, original }) = spec.stretch {
        rope = json!({
            "rope_type": "llama3",
            "rope_theta": spec.base,
            "factor": factor,
            "low_freq_factor": low,
            "high_freq_factor": high,
            "original_max_position_embeddings": original as u64,
        });
    }
    Ok(json!({
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.groups(),
        "hidden_size": config.width,
        "head_dim": config.head_width(),
        "intermediate_size": config.hidden(),
        "max_position_embeddings": config.context,
        "vocab_size": config.vocabulary,
        "hidden_act": "silu",
        "rms_norm_eps": decimal(config.epsilon),
        "rope_parameters": rope,
        "attention_bias": config.attention_bias,
        "mlp_bias": config.feed_forward_bias,
        "tie_word_embeddings": config.tied,
        "attention_dropout": decimal(config.attention_dropout.unwrap_or(0.0)),
        "initializer_range": decimal(config.std),
        "dtype": "float32",
    }))
}
