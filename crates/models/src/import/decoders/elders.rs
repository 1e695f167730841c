//! The tables of families with blocks of their own: both parts from one stream, LayerNorm, projections
//! stacked head by head.

use super::families::{
    ATTENTION_BIAS, GATED_SILU, GROUPS, LLAMA_NAMES, MLP_BIAS, ROPE, SIZES, UNTIED, put, put_rope, rotary,
};
use super::layers::{settle, sliding, types};
use super::rope::{self, KINDS, RopeWords};
use super::{Dialect, Names, Part, Word};
use crate::gpt::GptConfig;
use crate::import::json::Fields;
use crate::mechanisms::decimal;
use crate::positions::Positions;
use crate::variants::{LayerSet, OtherLayers};
use regard_graph::Result;
use regard_layers::{FeedForwardKind, HeadScale, NormKind, NormPlace};
use regard_ops::{Pairing, RotarySpec};
use serde_json::{Map, Value};

const GELUS: &[(&str, FeedForwardKind)] = &[
    ("gelu", FeedForwardKind::Gelu),
    ("gelu_new", FeedForwardKind::GeluTanh),
    ("gelu_fast", FeedForwardKind::GeluTanh),
    ("gelu_pytorch_tanh", FeedForwardKind::GeluTanh),
    ("relu", FeedForwardKind::Relu),
];

/// GPT-NeoX and Pythia: both parts read the same stream, a quarter of each head turns, and queries, keys and
/// values of one head stand together.
pub static GPT_NEOX: Dialect = Dialect {
    model_type: "gpt_neox",
    architecture: "GPTNeoXForCausalLM",
    usual: GptConfig {
        norm: NormKind::Layer,
        place: NormPlace::Parallel,
        attention_bias: true,
        feed_forward_bias: true,
        ..GptConfig::LLAMA
    },
    words: &[
        SIZES,
        &[
            Word::SizeOr("max_position_embeddings", |c| &mut c.context, 2048),
            Word::Activation("hidden_act", GELUS),
            Word::Number("layer_norm_eps", |c| &mut c.epsilon, 1e-5),
            Word::Number("hidden_dropout", |c| &mut c.dropout, 0.0),
            Word::Truth("attention_bias", |c| &mut c.attention_bias, true),
            Word::Other {
                what: "place of norms",
                read: |fields, c| {
                    let parallel = fields.truth("use_parallel_residual")?.unwrap_or(true);
                    c.place = if parallel { NormPlace::Parallel } else { NormPlace::Pre };
                    Ok(())
                },
                write: |c, out| put(out, "use_parallel_residual", c.place == NormPlace::Parallel),
            },
            Word::Other {
                what: "positions",
                read: |fields, c| {
                    let spec = rope::read(fields, &NEOX_ROPE, c.head_width(), c.context)?;
                    c.positions = Positions::Rotary(spec);
                    Ok(())
                },
                write: |c, out| put_rope(c, &NEOX_ROPE, out),
            },
        ],
        UNTIED,
    ],
    names: Names {
        layers: "gpt_neox.layers",
        outside: &[
            ("token_embedding", "gpt_neox.embed_in"),
            ("final_norm", "gpt_neox.final_layer_norm"),
            ("head", "embed_out"),
        ],
        parts: &[
            ("attention_norm", "input_layernorm", Part::Whole),
            ("attention.query", "attention.query_key_value", Part::Rows(|c| of_head(c, 0))),
            ("attention.key", "attention.query_key_value", Part::Rows(|c| of_head(c, 1))),
            ("attention.value", "attention.query_key_value", Part::Rows(|c| of_head(c, 2))),
            ("attention.output", "attention.dense", Part::Whole),
            ("feed_forward_norm", "post_attention_layernorm", Part::Whole),
            ("feed_forward.up", "mlp.dense_h_to_4h", Part::Whole),
            ("feed_forward.down", "mlp.dense_4h_to_h", Part::Whole),
        ],
        ignored: &[
            "gpt_neox.layers.*.attention.bias",
            "gpt_neox.layers.*.attention.masked_bias",
            "gpt_neox.layers.*.attention.rotary_emb.inv_freq",
        ],
        tied: &[("embed_out.weight", "gpt_neox.embed_in.weight")],
    },
};

const NEOX_ROPE: RopeWords = RopeWords {
    base: "rotary_emb_base",
    usual_base: 10_000.0,
    share: Some(("rotary_pct", 0.25)),
    kinds: &KINDS,
};

/// The rows of a head's queries (0), keys (1) or values (2), head after head.
fn of_head(config: &GptConfig, which: usize) -> [usize; 3] {
    let width = config.head_width();
    [3 * width, which * width, width]
}

/// GPT-J: both parts read the same norm, neighbouring channels turn, the head has a bias.
pub static GPTJ: Dialect = Dialect {
    model_type: "gptj",
    architecture: "GPTJForCausalLM",
    usual: GptConfig {
        norm: NormKind::Layer,
        place: NormPlace::ParallelShared,
        feed_forward_bias: true,
        head_bias: true,
        ..GptConfig::LLAMA
    },
    words: &[
        &[
            Word::Size("n_layer", |c| &mut c.layers),
            Word::Size("n_head", |c| &mut c.heads),
            Word::Size("n_embd", |c| &mut c.width),
            Word::MaybeSize("n_inner", |c| &mut c.hidden, None),
            Word::SizeOr("n_positions", |c| &mut c.context, 2048),
            Word::Size("vocab_size", |c| &mut c.vocabulary),
            Word::Activation(
                "activation_function",
                &[
                    ("gelu_new", FeedForwardKind::GeluTanh),
                    ("gelu_fast", FeedForwardKind::GeluTanh),
                    ("gelu_pytorch_tanh", FeedForwardKind::GeluTanh),
                    ("gelu", FeedForwardKind::Gelu),
                    ("relu", FeedForwardKind::Relu),
                ],
            ),
            Word::Number("layer_norm_epsilon", |c| &mut c.epsilon, 1e-5),
            Word::Number("initializer_range", |c| &mut c.std, 0.02),
            Word::Other { what: "dropout", read: read_gptj_dropouts, write: write_gptj_dropouts },
            Word::Other {
                what: "positions",
                read: |fields, c| {
                    let width = match fields.has("rotary_dim") {
                        true => fields.size("rotary_dim")?,
                        false => 64,
                    };
                    let pairing = Pairing::Interleaved;
                    let spec = RotarySpec { width: Some(width), pairing, ..RotarySpec::default() };
                    c.positions = Positions::Rotary(spec);
                    Ok(())
                },
                write: |c, out| match rotary(c) {
                    Some(spec) => put(out, "rotary_dim", spec.width.unwrap_or(c.head_width())),
                    None => false,
                },
            },
        ],
        UNTIED,
    ],
    names: Names {
        layers: "transformer.h",
        outside: &[
            ("token_embedding", "transformer.wte"),
            ("final_norm", "transformer.ln_f"),
            ("head", "lm_head"),
        ],
        parts: &[
            ("attention_norm", "ln_1", Part::Whole),
            ("attention.query", "attn.q_proj", Part::Whole),
            ("attention.key", "attn.k_proj", Part::Whole),
            ("attention.value", "attn.v_proj", Part::Whole),
            ("attention.output", "attn.out_proj", Part::Whole),
            ("feed_forward.up", "mlp.fc_in", Part::Whole),
            ("feed_forward.down", "mlp.fc_out", Part::Whole),
        ],
        ignored: &["transformer.h.*.attn.bias", "transformer.h.*.attn.masked_bias"],
        tied: &[],
    },
};

fn read_gptj_dropouts(fields: &Fields<'_>, c: &mut GptConfig) -> Result<()> {
    let (residual, embedding) = (fields.number("resid_pdrop")?, fields.number("embd_pdrop")?);
    let (residual, embedding) = (residual.unwrap_or(0.0), embedding.unwrap_or(0.0));
    if residual != embedding {
        return Err(fields.wrong(
            format!("`resid_pdrop` is {residual}, `embd_pdrop` is {embedding}"),
            "only models with the same dropout in both places can be imported; it acts in training alone",
        ));
    }
    c.dropout = residual as f32;
    c.attention_dropout = Some(fields.number("attn_pdrop")?.unwrap_or(0.0) as f32);
    Ok(())
}

fn write_gptj_dropouts(c: &GptConfig, out: &mut Map<String, Value>) -> bool {
    put(out, "resid_pdrop", decimal(c.dropout))
        && put(out, "embd_pdrop", decimal(c.dropout))
        && put(out, "attn_pdrop", decimal(c.attention_dropout.unwrap_or(c.dropout)))
}

/// StableLM: Llama with LayerNorm, a quarter of each head turning, and either way past the parts.
pub static STABLELM: Dialect = Dialect {
    model_type: "stablelm",
    architecture: "StableLmForCausalLM",
    usual: GptConfig { norm: NormKind::Layer, output_bias: Some(false), ..GptConfig::LLAMA },
    words: &[
        SIZES,
        &[
            Word::MaybeSize("num_key_value_heads", |c| &mut c.groups, Some(32)),
            Word::SizeOr("max_position_embeddings", |c| &mut c.context, 4096),
            Word::Number("layer_norm_eps", |c| &mut c.epsilon, 1e-5),
            Word::Truth("use_qkv_bias", |c| &mut c.attention_bias, false),
            Word::Must("qk_layernorm", false),
            Word::Other {
                what: "place of norms",
                read: |fields, c| {
                    let parallel = fields.truth("use_parallel_residual")?.unwrap_or(false);
                    c.place = if parallel { NormPlace::ParallelShared } else { NormPlace::Pre };
                    Ok(())
                },
                write: |c, out| put(out, "use_parallel_residual", c.place == NormPlace::ParallelShared),
            },
            // It acts on the feed-forward part alone, in training.
            Word::Other {
                what: "dropout",
                read: |fields, _| match fields.number("hidden_dropout")?.unwrap_or(0.0) {
                    0.0 => Ok(()),
                    dropout => Err(fields.wrong(
                        format!("`hidden_dropout` is {dropout}"),
                        "only models without it can be imported; it acts in training alone: make it 0",
                    )),
                },
                write: |_, _| true,
            },
            Word::Other {
                what: "positions",
                read: |fields, c| {
                    let spec = rope::read(fields, &STABLELM_ROPE, c.head_width(), c.context)?;
                    c.positions = Positions::Rotary(spec);
                    Ok(())
                },
                write: |c, out| put_rope(c, &STABLELM_ROPE, out),
            },
        ],
        GATED_SILU,
        UNTIED,
    ],
    names: LLAMA_NAMES,
};

const STABLELM_ROPE: RopeWords =
    RopeWords { share: Some(("partial_rotary_factor", 0.25)), ..RopeWords::PLAIN };

/// Granite: Llama with numbers that streams and scores are multiplied by.
pub static GRANITE: Dialect = Dialect {
    model_type: "granite",
    architecture: "GraniteForCausalLM",
    usual: GptConfig::LLAMA,
    words: &[
        SIZES,
        GROUPS,
        super::families::HEAD_WIDTH,
        &[
            Word::SizeOr("max_position_embeddings", |c| &mut c.context, 2048),
            Word::Number("embedding_multiplier", |c| &mut c.multipliers.embedding, 1.0),
            Word::Number("residual_multiplier", |c| &mut c.multipliers.residual, 1.0),
            Word::Other {
                what: "settings",
                read: |fields, c| {
                    let over = fields.number("logits_scaling")?.unwrap_or(1.0);
                    c.multipliers.logits = (1.0 / over) as f32;
                    Ok(())
                },
                write: |c, out| {
                    // The short decimal that was meant, where it reads back as the same.
                    let over = 1.0 / f64::from(c.multipliers.logits);
                    let short = decimal(over as f32);
                    let same = (1.0 / short) as f32 == c.multipliers.logits;
                    put(out, "logits_scaling", if same { short } else { over })
                },
            },
            Word::Other {
                what: "scale",
                read: |fields, c| {
                    let beta = fields.number("attention_multiplier")?.unwrap_or(1.0);
                    c.scale = HeadScale::Constant(beta as f32);
                    Ok(())
                },
                write: |c, out| match c.scale {
                    HeadScale::Constant(beta) => put(out, "attention_multiplier", decimal(beta)),
                    _ => false,
                },
            },
        ],
        GATED_SILU,
        super::families::EPSILON,
        UNTIED,
        ATTENTION_BIAS,
        MLP_BIAS,
        ROPE,
    ],
    names: LLAMA_NAMES,
};

/// SmolLM3: Llama, some of whose layers do not turn.
pub static SMOLLM3: Dialect = Dialect {
    model_type: "smollm3",
    architecture: "SmolLM3ForCausalLM",
    usual: GptConfig { tied: true, ..GptConfig::LLAMA },
    words: &[
        SIZES,
        super::families::HEAD_WIDTH,
        &[
            Word::MaybeSize("num_key_value_heads", |c| &mut c.groups, Some(4)),
            Word::SizeOr("max_position_embeddings", |c| &mut c.context, 32_768),
            Word::Truth("tie_word_embeddings", |c| &mut c.tied, true),
            Word::Other {
                what: "positions",
                read: |fields, c| {
                    let spec = rope::read(fields, &SMOLLM3_ROPE, c.head_width(), c.context)?;
                    c.positions = Positions::Rotary(spec);
                    Ok(())
                },
                write: |c, out| put_rope(c, &SMOLLM3_ROPE, out),
            },
            Word::Other {
                what: "layers of another kind",
                read: read_smollm3_layers,
                write: write_smollm3_layers,
            },
        ],
        GATED_SILU,
        super::families::EPSILON,
        ATTENTION_BIAS,
        MLP_BIAS,
    ],
    names: LLAMA_NAMES,
};

const SMOLLM3_ROPE: RopeWords = RopeWords { usual_base: 2e6, ..RopeWords::PLAIN };

/// Which layers turn (`no_rope_layers`, where 1 means that they do), and which see through a window.
fn read_smollm3_layers(fields: &Fields<'_>, c: &mut GptConfig) -> Result<()> {
    let interval = fields.size_or_none("no_rope_layer_interval")?.unwrap_or(4).max(1);
    let turns: Vec<bool> = match fields.sizes("no_rope_layers")? {
        Some(listed) if listed.len() != c.layers => {
            return Err(fields.wrong(
                format!("`no_rope_layers` has {} entries, for {} layers", listed.len(), c.layers),
                "give one for each layer",
            ));
        }
        Some(listed) => listed.iter().map(|&turns| turns != 0).collect(),
        None => (0..c.layers).map(|layer| (layer + 1) % interval != 0).collect(),
    };
    let used = fields.truth("use_sliding_window")?.unwrap_or(false);
    let window = fields.size_or_none("sliding_window")?.filter(|_| used);
    let slides = sliding(fields, c.layers, |layer| window.is_some() && !turns[layer])?;
    let slides: Vec<bool> = slides.into_iter().map(|slides| slides && window.is_some()).collect();
    let spec = rotary(c);
    if !turns.contains(&false) {
        return settle(c, &slides, window, [spec, spec]);
    }
    let mixed = (0..c.layers).any(|layer| turns[layer] && slides[layer])
        || (slides.contains(&true) && (0..c.layers).any(|layer| !turns[layer] && !slides[layer]));
    if mixed || !turns.contains(&true) {
        return Err(fields.wrong(
            "`no_rope_layers` and `layer_types` make more than two kinds of layers",
            "only models whose layers without rotary positions are those with a window can be imported",
        ));
    }
    c.window = None;
    let layers = LayerSet::of(c.layers, |layer| !turns[layer])?;
    let window = window.filter(|_| slides.contains(&true));
    c.others = Some(OtherLayers { layers, window, rotary: None });
    Ok(())
}

fn write_smollm3_layers(c: &GptConfig, out: &mut Map<String, Value>) -> bool {
    let Some((types, window)) = types(c) else { return false };
    let turns: Vec<usize> = (0..c.layers).map(|layer| usize::from(c.rotary_of(layer).is_some())).collect();
    put(out, "no_rope_layers", turns)
        && put(out, "layer_types", types)
        && put(out, "use_sliding_window", window.is_some())
        && put(out, "sliding_window", window)
}
