//! GPT-2 as transformers writes it. Its matrices stand input first, so they are transposed; `c_attn` holds
//! query, key and value side by side.

use super::json::Fields;
use super::{Import, Map};
use crate::gpt::GptConfig;
use crate::mechanisms::decimal;
use crate::positions::Positions;
use regard_graph::{Error, Result};
use regard_layers::{FeedForwardKind, HeadScale, NormKind, NormPlace};
use regard_ops::AttentionKind;
use serde_json::{Value, json};

/// Our names and theirs. The prefix is `transformer.` for a model with its head, empty for files of the bare
/// model.
pub fn imports(config: &GptConfig, prefix: &str) -> Vec<Import> {
    let mut table = vec![
        Import::new("token_embedding.weight", format!("{prefix}wte.weight"), Map::Same),
        Import::new("position_embedding.weight", format!("{prefix}wpe.weight"), Map::Same),
    ];
    for layer in 0..config.layers {
        let (ours, theirs) = (format!("block.{layer}"), format!("{prefix}h.{layer}"));
        for kind in ["weight", "bias"] {
            let mut add = |our: &str, their: &str, map| {
                let (our, their) = (format!("{ours}.{our}.{kind}"), format!("{theirs}.{their}.{kind}"));
                table.push(Import::new(our, their, map));
            };
            add("attention_norm", "ln_1", Map::Same);
            for (index, part) in ["query", "key", "value"].into_iter().enumerate() {
                let map = Map::SplitTransposed { index, parts: 3 };
                add(&format!("attention.{part}"), "attn.c_attn", map);
            }
            add("attention.output", "attn.c_proj", Map::Transposed);
            add("feed_forward_norm", "ln_2", Map::Same);
            add("feed_forward.up", "mlp.c_fc", Map::Transposed);
            add("feed_forward.down", "mlp.c_proj", Map::Transposed);
        }
    }
    for kind in ["weight", "bias"] {
        table.push(Import::new(format!("final_norm.{kind}"), format!("{prefix}ln_f.{kind}"), Map::Same));
    }
    if !config.tied {
        table.push(Import::new("head.weight", "lm_head.weight", Map::Same));
    }
    table
}

/// The names that transformers has for activations, and what they are.
const ACTIVATIONS: [(&str, FeedForwardKind); 5] = [
    ("gelu_new", FeedForwardKind::GeluTanh),
    ("gelu_pytorch_tanh", FeedForwardKind::GeluTanh),
    ("gelu_fast", FeedForwardKind::GeluTanh),
    ("gelu", FeedForwardKind::Gelu),
    ("relu", FeedForwardKind::Relu),
];

/// The settings that a config.json of model_type `gpt2` describes.
pub fn config_from_json(config: &Value) -> Result<GptConfig> {
    let fields = Fields::new("gpt2", config)?;
    fields.must_be("scale_attn_weights", true)?;
    fields.must_be("scale_attn_by_inverse_layer_idx", false)?;
    fields.must_be("add_cross_attention", false)?;
    let activation = fields.text("activation_function")?.unwrap_or("gelu_new");
    let known = ACTIVATIONS.iter().find(|(name, _)| *name == activation);
    let Some(&(_, feed_forward)) = known else {
        return Err(fields.unknown("activation_function", activation, &ACTIVATIONS.map(|(name, _)| name)));
    };
    let context = fields.size("n_positions")?;
    if let Some(other) = fields.size_or_none("n_ctx")?.filter(|&other| other != context) {
        return Err(fields.wrong(
            format!("`n_positions` is {context}, `n_ctx` is {other}"),
            "both mean the most positions: make them the same, or leave `n_ctx` out",
        ));
    }
    let dropout = fields.number("resid_pdrop")?.unwrap_or(0.1);
    let embedding = fields.number("embd_pdrop")?.unwrap_or(0.1);
    if dropout != embedding {
        return Err(fields.wrong(
            format!("`resid_pdrop` is {dropout}, `embd_pdrop` is {embedding}"),
            "only models with the same dropout in both places can be imported; it acts in training alone",
        ));
    }
    let config = GptConfig {
        layers: fields.size("n_layer")?,
        heads: fields.size("n_head")?,
        width: fields.size("n_embd")?,
        hidden: fields.size_or_none("n_inner")?,
        context,
        vocabulary: fields.size("vocab_size")?,
        epsilon: fields.number("layer_norm_epsilon")?.unwrap_or(1e-5) as f32,
        feed_forward,
        tied: fields.truth("tie_word_embeddings")?.unwrap_or(true),
        dropout: dropout as f32,
        attention_dropout: Some(fields.number("attn_pdrop")?.unwrap_or(0.1) as f32),
        std: fields.number("initializer_range")?.unwrap_or(0.02) as f32,
        ..GptConfig::GPT2
    };
    crate::Gpt::new(config).map(|_| config)
}

/// The config.json that transformers reads as this model; an error if GPT-2 has no such form.
pub fn config_to_json(config: &GptConfig) -> Result<Value> {
    let refuse = |what: &str| Err(Error::invalid("gpt2", what, "export it as another family"));
    let GptConfig { layers, heads, width, context, vocabulary, tied, .. } = *config;
    if config.positions != Positions::Learned || config.norm != NormKind::Layer || config.window.is_some() {
        return refuse("GPT-2 has learned positions, LayerNorm and no window");
    }
    if !plain(config) {
        return refuse("GPT-2 has pre-norm blocks of soft attention with β = 1/√D");
    }
    if config.groups() != heads || config.head_width() * heads != width {
        return refuse("the heads of GPT-2 share the width, and no keys or values");
    }
    if !config.attention_bias || !config.feed_forward_bias {
        return refuse("the layers of GPT-2 have biases");
    }
    let Some((activation, _)) = ACTIVATIONS.iter().find(|(_, kind)| *kind == config.feed_forward) else {
        return refuse("the feed-forward part of GPT-2 is not gated");
    };
    Ok(json!({
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "activation_function": activation,
        "n_layer": layers,
        "n_head": heads,
        "n_embd": width,
        "n_inner": config.hidden(),
        "n_positions": context,
        "vocab_size": vocabulary,
        "layer_norm_epsilon": decimal(config.epsilon),
        "tie_word_embeddings": tied,
        "resid_pdrop": decimal(config.dropout),
        "embd_pdrop": decimal(config.dropout),
        "attn_pdrop": decimal(config.attention_dropout.unwrap_or(config.dropout)),
        "initializer_range": decimal(config.std),
        "dtype": "float32",
    }))
}

/// Whether a model is as GPT-2 and minGPT have it: without what these have no words for.
pub(super) fn plain(config: &GptConfig) -> bool {
    let GptConfig { others, query_key_norm, output_bias, head_bias, multipliers, caps, .. } = GptConfig::GPT2;
    config.scale == HeadScale::Default
        && config.attention == AttentionKind::Soft
        && config.place == NormPlace::Pre
        && config.hidden_dropout.unwrap_or(0.0) == 0.0
        && output_bias == config.output_bias.filter(|&bias| bias != config.attention_bias)
        && GptConfig { others, query_key_norm, head_bias, multipliers, caps, ..*config } == *config
}
