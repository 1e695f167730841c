//! The tables of the families that are Llama with some words, names and settings of their own.

use super::layers::{settle, sliding, types};
use super::rope::{self, RopeWords, Usual};
use super::{Dialect, Names, Part, Word};
use crate::gpt::GptConfig;
use crate::import::json::Fields;
use crate::positions::Positions;
use regard_graph::Result;
use regard_layers::{FeedForwardKind, HeadScale, NormKind, NormPlace, NormSpan};
use regard_ops::RotarySpec;
use serde_json::{Map, Value, json};

/// What Llama's config says of sizes, and all families that come after it.
pub(super) const SIZES: &[Word] = &[
    Word::Size("num_hidden_layers", |c| &mut c.layers),
    Word::Size("num_attention_heads", |c| &mut c.heads),
    Word::Size("hidden_size", |c| &mut c.width),
    Word::Other {
        what: "settings",
        read: |fields, c| {
            c.hidden = Some(fields.size("intermediate_size")?);
            Ok(())
        },
        write: |c, out| put(out, "intermediate_size", c.hidden()),
    },
    Word::Size("vocab_size", |c| &mut c.vocabulary),
    Word::Other {
        what: "dropout",
        read: |fields, c| {
            c.attention_dropout = Some(fields.number("attention_dropout")?.unwrap_or(0.0) as f32);
            Ok(())
        },
        write: |c, out| {
            let dropout = crate::mechanisms::decimal(c.attention_dropout.unwrap_or(c.dropout));
            put(out, "attention_dropout", dropout)
        },
    },
    Word::Number("initializer_range", |c| &mut c.std, 0.02),
];

/// Key/value heads: as many as heads where nothing is said.
pub(super) const GROUPS: &[Word] = &[Word::MaybeSize("num_key_value_heads", |c| &mut c.groups, None)];

/// A head width that need not be the width over the heads.
pub(super) const HEAD_WIDTH: &[Word] = &[Word::Other {
    what: "settings",
    read: |fields, c| {
        c.head_width = fields.size_or_none("head_dim")?;
        Ok(())
    },
    write: |c, out| c.head_width.is_none_or(|width| put(out, "head_dim", width)),
}];

/// One that is 128 where nothing is said.
const HEAD_WIDTH_128: &[Word] = &[Word::Other {
    what: "settings",
    read: |fields, c| {
        c.head_width = Some(fields.size_or_none("head_dim")?.unwrap_or(128));
        Ok(())
    },
    write: |c, out| put(out, "head_dim", c.head_width()),
}];

/// One that is 256.
const HEAD_WIDTH_256: &[Word] = &[Word::Other {
    what: "settings",
    read: |fields, c| {
        c.head_width = Some(fields.size_or_none("head_dim")?.unwrap_or(256));
        Ok(())
    },
    write: |c, out| put(out, "head_dim", c.head_width()),
}];

pub(super) const GATED_SILU: &[Word] = &[Word::Activation(
    "hidden_act",
    &[("silu", FeedForwardKind::GatedSilu), ("swish", FeedForwardKind::GatedSilu)],
)];

pub(super) const EPSILON: &[Word] = &[Word::Number("rms_norm_eps", |c| &mut c.epsilon, 1e-6)];
pub(super) const UNTIED: &[Word] = &[Word::Truth("tie_word_embeddings", |c| &mut c.tied, false)];
pub(super) const ATTENTION_BIAS: &[Word] = &[Word::Truth("attention_bias", |c| &mut c.attention_bias, false)];
pub(super) const MLP_BIAS: &[Word] = &[Word::Truth("mlp_bias", |c| &mut c.feed_forward_bias, false)];
pub(super) const ROPE: &[Word] = &[Word::Other {
    what: "positions",
    read: |fields, c| {
        c.positions = Positions::Rotary(rope::read(fields, &RopeWords::PLAIN, c.head_width(), c.context)?);
        Ok(())
    },
    write: |c, out| put_rope(c, &RopeWords::PLAIN, out),
}];

/// Llama's names, which most of the others have, too.
pub(super) const LLAMA_PARTS: &[(&str, &str, Part)] = &[
    ("attention_norm", "input_layernorm", Part::Whole),
    ("attention.query", "self_attn.q_proj", Part::Whole),
    ("attention.key", "self_attn.k_proj", Part::Whole),
    ("attention.value", "self_attn.v_proj", Part::Whole),
    ("attention.query_norm", "self_attn.q_norm", Part::Whole),
    ("attention.key_norm", "self_attn.k_norm", Part::Whole),
    ("attention.output", "self_attn.o_proj", Part::Whole),
    ("feed_forward_norm", "post_attention_layernorm", Part::Whole),
    ("feed_forward.gate", "mlp.gate_proj", Part::Whole),
    ("feed_forward.up", "mlp.up_proj", Part::Whole),
    ("feed_forward.down", "mlp.down_proj", Part::Whole),
];

pub(super) const LLAMA_NAMES: Names = Names {
    layers: "model.layers",
    outside: &[("token_embedding", "model.embed_tokens"), ("final_norm", "model.norm"), ("head", "lm_head")],
    parts: LLAMA_PARTS,
    ignored: &["model.layers.*.self_attn.rotary_emb.inv_freq"],
    tied: &[("lm_head.weight", "model.embed_tokens.weight")],
};

/// Llama.
pub static LLAMA: Dialect = Dialect {
    model_type: "llama",
    architecture: "LlamaForCausalLM",
    usual: GptConfig::LLAMA,
    words: &[
        SIZES,
        GROUPS,
        HEAD_WIDTH,
        &[Word::SizeOr("max_position_embeddings", |c| &mut c.context, 2048)],
        GATED_SILU,
        EPSILON,
        UNTIED,
        ATTENTION_BIAS,
        MLP_BIAS,
        ROPE,
    ],
    names: LLAMA_NAMES,
};

/// Mistral: Llama with a window.
pub static MISTRAL: Dialect = Dialect {
    model_type: "mistral",
    architecture: "MistralForCausalLM",
    usual: GptConfig::LLAMA,
    words: &[
        SIZES,
        HEAD_WIDTH,
        &[
            Word::MaybeSize("num_key_value_heads", |c| &mut c.groups, Some(8)),
            Word::SizeOr("max_position_embeddings", |c| &mut c.context, 131_072),
            Word::MaybeSize("sliding_window", |c| &mut c.window, Some(4096)),
        ],
        GATED_SILU,
        EPSILON,
        UNTIED,
        ROPE,
    ],
    names: LLAMA_NAMES,
};

/// What Qwen's configs say of windows: which layers have one, if they are used at all.
const QWEN_WINDOWS: &[Word] = &[Word::Other {
    what: "positions",
    read: |fields, c| {
        let used = fields.truth("use_sliding_window")?.unwrap_or(false);
        let window = window_or_4096(fields)?.filter(|_| used);
        let first = fields.size_or_none("max_window_layers")?.unwrap_or(28);
        let slides = sliding(fields, c.layers, |layer| window.is_some() && layer >= first)?;
        let spec = rotary(c);
        settle(c, &slides, window, [spec, spec])
    },
    write: |c, out| {
        put_windows(c, out)
            && put(out, "use_sliding_window", (0..c.layers).any(|layer| c.window_of(layer).is_some()))
    },
}];

/// Qwen 2 and 2.5: Llama with biases of queries, keys and values, and windows in some layers if asked for.
pub static QWEN2: Dialect = Dialect {
    model_type: "qwen2",
    architecture: "Qwen2ForCausalLM",
    usual: GptConfig { attention_bias: true, output_bias: Some(false), ..GptConfig::LLAMA },
    words: &[
        SIZES,
        HEAD_WIDTH,
        &[
            Word::MaybeSize("num_key_value_heads", |c| &mut c.groups, Some(32)),
            Word::SizeOr("max_position_embeddings", |c| &mut c.context, 32_768),
        ],
        GATED_SILU,
        EPSILON,
        UNTIED,
        ROPE,
        QWEN_WINDOWS,
    ],
    names: LLAMA_NAMES,
};

/// Qwen 3: a norm of each head's queries and keys instead of the biases.
pub static QWEN3: Dialect = Dialect {
    model_type: "qwen3",
    architecture: "Qwen3ForCausalLM",
    usual: GptConfig { query_key_norm: Some(NormSpan::Head), ..GptConfig::LLAMA },
    words: &[
        SIZES,
        HEAD_WIDTH_128,
        &[
            Word::MaybeSize("num_key_value_heads", |c| &mut c.groups, Some(32)),
            Word::SizeOr("max_position_embeddings", |c| &mut c.context, 32_768),
        ],
        GATED_SILU,
        EPSILON,
        UNTIED,
        ATTENTION_BIAS,
        ROPE,
        QWEN_WINDOWS,
    ],
    names: LLAMA_NAMES,
};

/// Phi-3: Llama whose projections stand in one tensor, and whose heads may turn in part.
pub static PHI3: Dialect = Dialect {
    model_type: "phi3",
    architecture: "Phi3ForCausalLM",
    usual: GptConfig::LLAMA,
    words: &[
        SIZES,
        GROUPS,
        HEAD_WIDTH,
        &[
            Word::SizeOr("max_position_embeddings", |c| &mut c.context, 4096),
            Word::MaybeSize("sliding_window", |c| &mut c.window, None),
            Word::Number("rms_norm_eps", |c| &mut c.epsilon, 1e-5),
            Word::Number("resid_pdrop", |c| &mut c.dropout, 0.0),
            Word::Other {
                what: "positions",
                read: |fields, c| {
                    let spec = rope::read(fields, &PHI3_ROPE, c.head_width(), c.context)?;
                    c.positions = Positions::Rotary(spec);
                    Ok(())
                },
                write: |c, out| put_rope(c, &PHI3_ROPE, out),
            },
        ],
        GATED_SILU,
        UNTIED,
    ],
    names: Names { parts: PHI3_PARTS, ..LLAMA_NAMES },
};

/// Its longer contexts (`longrope`) have a table of factors, one for each pair, and are not there yet.
const PHI3_ROPE: RopeWords =
    RopeWords { share: Some(("partial_rotary_factor", 1.0)), kinds: &["default"], ..RopeWords::PLAIN };

const PHI3_PARTS: &[(&str, &str, Part)] = &[
    ("attention_norm", "input_layernorm", Part::Whole),
    ("attention.query", "self_attn.qkv_proj", Part::Rows(|c| beside(c, 0, c.heads))),
    ("attention.key", "self_attn.qkv_proj", Part::Rows(|c| beside(c, c.heads, c.groups()))),
    ("attention.value", "self_attn.qkv_proj", Part::Rows(|c| beside(c, c.heads + c.groups(), c.groups()))),
    ("attention.output", "self_attn.o_proj", Part::Whole),
    ("feed_forward_norm", "post_attention_layernorm", Part::Whole),
    ("feed_forward.gate", "mlp.gate_up_proj", Part::Rows(|c| [2 * c.hidden(), 0, c.hidden()])),
    ("feed_forward.up", "mlp.gate_up_proj", Part::Rows(|c| [2 * c.hidden(), c.hidden(), c.hidden()])),
    ("feed_forward.down", "mlp.down_proj", Part::Whole),
];

/// The rows of some heads among those of queries, keys and values.
fn beside(config: &GptConfig, from: usize, heads: usize) -> [usize; 3] {
    let width = config.head_width();
    [(config.heads + 2 * config.groups()) * width, from * width, heads * width]
}

/// The norms of Gemma 2 and 3 stand before and behind each part.
const GEMMA_PARTS: &[(&str, &str, Part)] = &[
    ("attention_norm", "input_layernorm", Part::Whole),
    ("attention.query", "self_attn.q_proj", Part::Whole),
    ("attention.key", "self_attn.k_proj", Part::Whole),
    ("attention.value", "self_attn.v_proj", Part::Whole),
    ("attention.query_norm", "self_attn.q_norm", Part::Whole),
    ("attention.key_norm", "self_attn.k_norm", Part::Whole),
    ("attention.output", "self_attn.o_proj", Part::Whole),
    ("attention_output_norm", "post_attention_layernorm", Part::Whole),
    ("feed_forward_norm", "pre_feedforward_layernorm", Part::Whole),
    ("feed_forward.gate", "mlp.gate_proj", Part::Whole),
    ("feed_forward.up", "mlp.up_proj", Part::Whole),
    ("feed_forward.down", "mlp.down_proj", Part::Whole),
    ("feed_forward_output_norm", "post_feedforward_layernorm", Part::Whole),
];

/// What Gemma 1, 2 and 3 have in common: norms about one, a gate of GELU, embeddings times √C, a tied head.
const GEMMA: GptConfig = GptConfig {
    norm: NormKind::RmsAboveOne,
    feed_forward: FeedForwardKind::GatedGelu,
    tied: true,
    ..GptConfig::LLAMA
};

const GEMMA_WORDS: &[Word] = &[
    Word::Must("use_bidirectional_attention", false),
    Word::Truth("tie_word_embeddings", |c| &mut c.tied, true),
    // Nothing says it: embeddings are multiplied by √C.
    Word::Other {
        what: "settings",
        read: |_, c| {
            c.multipliers.embedding = (c.width as f64).sqrt() as f32;
            Ok(())
        },
        write: |_, _| true,
    },
];

const GATED_GELU: &[(&str, FeedForwardKind)] = &[("gelu_pytorch_tanh", FeedForwardKind::GatedGelu)];

/// Scores are divided by the root of a number of their own.
const PRE_ATTENTION: &[Word] = &[Word::Other {
    what: "scale",
    read: |fields, c| {
        let scalar = fields.number("query_pre_attn_scalar")?.unwrap_or(256.0);
        c.scale = HeadScale::Constant(scalar.powf(-0.5) as f32);
        Ok(())
    },
    write: |c, out| {
        let beta = match c.scale {
            HeadScale::Default => (c.head_width() as f64).powf(-0.5),
            HeadScale::Constant(beta) => f64::from(beta),
            HeadScale::Learned => return false,
        };
        // Whole in every config; of an f32 root, the nearest whole number is the one that it was.
        put(out, "query_pre_attn_scalar", beta.powi(-2).round() as u64)
    },
}];

/// Gemma: Llama with norms about one, a gate of GELU and scaled embeddings.
pub static GEMMA1: Dialect = Dialect {
    model_type: "gemma",
    architecture: "GemmaForCausalLM",
    usual: GEMMA,
    words: &[
        SIZES,
        HEAD_WIDTH_256,
        &[
            Word::MaybeSize("num_key_value_heads", |c| &mut c.groups, Some(16)),
            Word::SizeOr("max_position_embeddings", |c| &mut c.context, 8192),
            // The first configs said `gelu` and meant its tanh form.
            Word::Activation(
                "hidden_act",
                &[("gelu_pytorch_tanh", FeedForwardKind::GatedGelu), ("gelu", FeedForwardKind::GatedGelu)],
            ),
        ],
        EPSILON,
        GEMMA_WORDS,
        ATTENTION_BIAS,
        ROPE,
    ],
    names: LLAMA_NAMES,
};

/// Gemma 2: local and global layers in turn, norms on both sides of each part, soft caps.
pub static GEMMA2: Dialect = Dialect {
    model_type: "gemma2",
    architecture: "Gemma2ForCausalLM",
    usual: GptConfig { place: NormPlace::Sandwich, ..GEMMA },
    words: &[
        SIZES,
        HEAD_WIDTH_256,
        &[
            Word::MaybeSize("num_key_value_heads", |c| &mut c.groups, Some(4)),
            Word::SizeOr("max_position_embeddings", |c| &mut c.context, 8192),
            Word::Activation("hidden_activation", GATED_GELU),
            Word::MaybeNumber("attn_logit_softcapping", |c| &mut c.caps.scores, Some(50.0)),
            Word::MaybeNumber("final_logit_softcapping", |c| &mut c.caps.logits, Some(30.0)),
        ],
        EPSILON,
        GEMMA_WORDS,
        ATTENTION_BIAS,
        PRE_ATTENTION,
        ROPE,
        &[Word::Other {
            what: "positions",
            read: |fields, c| {
                let window = window_or_4096(fields)?;
                let slides = sliding(fields, c.layers, |layer| layer % 2 == 0)?;
                let spec = rotary(c);
                settle(c, &slides, window, [spec, spec])
            },
            write: put_windows,
        }],
    ],
    names: Names { parts: GEMMA_PARTS, ..LLAMA_NAMES },
};

/// Gemma 3, its text alone: norms of queries and keys instead of soft caps, five local layers to a global
/// one, each kind with a rotary base of its own.
pub static GEMMA3: Dialect = Dialect {
    model_type: "gemma3_text",
    architecture: "Gemma3ForCausalLM",
    usual: GptConfig { place: NormPlace::Sandwich, query_key_norm: Some(NormSpan::Head), ..GEMMA },
    words: &[
        SIZES,
        HEAD_WIDTH_256,
        &[
            Word::MaybeSize("num_key_value_heads", |c| &mut c.groups, Some(4)),
            Word::SizeOr("max_position_embeddings", |c| &mut c.context, 131_072),
            Word::Activation("hidden_activation", GATED_GELU),
            Word::MaybeNumber("final_logit_softcapping", |c| &mut c.caps.logits, None),
            Word::Other {
                what: "settings",
                read: |fields, _| match fields.number("attn_logit_softcapping")? {
                    None => Ok(()),
                    Some(cap) => Err(fields.wrong(
                        format!("`attn_logit_softcapping` is {cap}"),
                        "Gemma 3 has norms of queries and keys instead: make it null",
                    )),
                },
                write: |_, _| true,
            },
        ],
        EPSILON,
        GEMMA_WORDS,
        ATTENTION_BIAS,
        PRE_ATTENTION,
        &[Word::Other { what: "positions", read: read_gemma3_layers, write: write_gemma3_layers }],
    ],
    names: Names { parts: GEMMA_PARTS, ..LLAMA_NAMES },
};

/// The window, 4096 where nothing is said.
fn window_or_4096(fields: &Fields<'_>) -> Result<Option<usize>> {
    match fields.has("sliding_window") {
        true => fields.size_or_none("sliding_window"),
        false => Ok(Some(4096)),
    }
}

/// Which layers are local, and how both kinds turn: `rope_parameters` for each kind, or `rope_theta`,
/// `rope_scaling` and `rope_local_base_freq` in older configs.
fn read_gemma3_layers(fields: &Fields<'_>, c: &mut GptConfig) -> Result<()> {
    let period = fields.size_or_none("sliding_window_pattern")?.unwrap_or(6).max(1);
    let window = window_or_4096(fields)?;
    let slides = sliding(fields, c.layers, |layer| (layer + 1) % period != 0)?;
    let newer = fields.inner("rope_parameters")?;
    if let (Some(newer), None) = (newer, fields.inner("rope_scaling")?)
        && let Some(strange) =
            newer.names().find(|name| !["full_attention", "sliding_attention"].contains(name))
    {
        return Err(fields.wrong(
            format!("`rope_parameters` has `{strange}`"),
            "Gemma 3 has one object for `full_attention` and one for `sliding_attention`",
        ));
    }
    let of = |kind: &'static str, base: &'static str, fallback: f64| {
        let object = match newer {
            Some(newer) => newer.inner(kind)?,
            None if kind == "full_attention" => fields.inner("rope_scaling")?,
            None => None,
        };
        let words = RopeWords { base, ..RopeWords::PLAIN };
        let (head_width, context) = (c.head_width(), c.context);
        let usual = Usual { base: fields.number(base)?, fallback, share: None, head_width, context };
        rope::settings(fields, object, &words, &usual)
    };
    let wide = of("full_attention", "rope_theta", 1e6)?;
    let near = of("sliding_attention", "rope_local_base_freq", 1e4)?;
    settle(c, &slides, window, [Some(wide), Some(near)])
}

fn write_gemma3_layers(c: &GptConfig, out: &mut Map<String, Value>) -> bool {
    let near = (0..c.layers).find(|&layer| c.window_of(layer).is_some());
    let wide = (0..c.layers).find(|&layer| c.window_of(layer).is_none());
    let Some(any) = rotary(c) else { return false };
    let of = |layer: Option<usize>| {
        let spec = layer.map_or(Some(any), |layer| c.rotary_of(layer))?;
        rope::write(&spec, &RopeWords::PLAIN, c.head_width())
    };
    let (Some(wide), Some(near)) = (of(wide), of(near)) else { return false };
    put_windows(c, out)
        && put(out, "rope_parameters", json!({"full_attention": wide, "sliding_attention": near}))
}

/// Writes which layers have a window, and the window.
fn put_windows(c: &GptConfig, out: &mut Map<String, Value>) -> bool {
    let Some((types, window)) = types(c) else { return false };
    put(out, "layer_types", types) && put(out, "sliding_window", window)
}

/// OLMo 2: norms of what each part adds, and of all queries and keys of a position together.
pub static OLMO2: Dialect = Dialect {
    model_type: "olmo2",
    architecture: "Olmo2ForCausalLM",
    usual: GptConfig { place: NormPlace::Output, query_key_norm: Some(NormSpan::Width), ..GptConfig::LLAMA },
    words: &[
        SIZES,
        GROUPS,
        HEAD_WIDTH,
        &[
            Word::SizeOr("max_position_embeddings", |c| &mut c.context, 2048),
            Word::Number("rms_norm_eps", |c| &mut c.epsilon, 1e-5),
        ],
        GATED_SILU,
        UNTIED,
        ATTENTION_BIAS,
        ROPE,
    ],
    names: Names {
        parts: &[
            ("attention.query", "self_attn.q_proj", Part::Whole),
            ("attention.key", "self_attn.k_proj", Part::Whole),
            ("attention.value", "self_attn.v_proj", Part::Whole),
            ("attention.query_norm", "self_attn.q_norm", Part::Whole),
            ("attention.key_norm", "self_attn.k_norm", Part::Whole),
            ("attention.output", "self_attn.o_proj", Part::Whole),
            ("attention_norm", "post_attention_layernorm", Part::Whole),
            ("feed_forward.gate", "mlp.gate_proj", Part::Whole),
            ("feed_forward.up", "mlp.up_proj", Part::Whole),
            ("feed_forward.down", "mlp.down_proj", Part::Whole),
            ("feed_forward_norm", "post_feedforward_layernorm", Part::Whole),
        ],
        ..LLAMA_NAMES
    },
};

/// How the layers that do not depart turn.
pub(super) fn rotary(config: &GptConfig) -> Option<RotarySpec> {
    match config.positions {
        Positions::Rotary(spec) => Some(spec),
        _ => None,
    }
}

/// Writes the rotary positions of all layers; false where there are none, or none that a config can say.
pub(super) fn put_rope(config: &GptConfig, words: &RopeWords, out: &mut Map<String, Value>) -> bool {
    match rotary(config).and_then(|spec| rope::write(&spec, words, config.head_width())) {
        Some(rope) => put(out, "rope_parameters", rope),
        None => false,
    }
}

pub(super) fn put(out: &mut Map<String, Value>, key: &str, value: impl Into<Value>) -> bool {
    out.insert(key.into(), value.into());
    true
}
