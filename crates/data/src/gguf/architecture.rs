//! The architectures that are understood, as data: what their tensors are called here and there, and how the
//! settings of the file become a `config.json`. Every setting of an architecture is either read, known to
//! change no number, or refused by its name: a file is never computed with half of what it says.

use super::{File, Value};
use crate::error::{listed, shown};
use crate::{Error, Result};
use serde_json::{Map, Value as Json, json};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// One architecture.
pub(super) struct Architecture {
    /// `general.architecture`.
    pub name: &'static str,
    /// Names of the file and of transformers, without `.weight` and `.bias`; `*` is the number of the block.
    pub names: &'static [(&'static str, &'static str)],
    /// The config.
    pub config: fn(&Settings) -> Result<Json>,
    /// What is done to a tensor, by its name in the file.
    pub change: fn(&str) -> Change,
}

/// What stands between the tensor of a file and that of transformers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing.
    Same,
    /// Rows of each query head stand as rotary pairs of neighbours; transformers has them in halves.
    QueryHalves,
    /// The same of key heads.
    KeyHalves,
    /// Rows are columns there.
    Transposed,
    /// Norms hold 1 more than there.
    OneMore,
}

const LLAMA: &[(&str, &str)] = &[
    ("token_embd", "model.embed_tokens"),
    ("blk.*.attn_norm", "model.layers.*.input_layernorm"),
    ("blk.*.attn_q", "model.layers.*.self_attn.q_proj"),
    ("blk.*.attn_k", "model.layers.*.self_attn.k_proj"),
    ("blk.*.attn_v", "model.layers.*.self_attn.v_proj"),
    ("blk.*.attn_output", "model.layers.*.self_attn.o_proj"),
    ("blk.*.attn_q_norm", "model.layers.*.self_attn.q_norm"),
    ("blk.*.attn_k_norm", "model.layers.*.self_attn.k_norm"),
    ("blk.*.ffn_norm", "model.layers.*.post_attention_layernorm"),
    ("blk.*.ffn_gate", "model.layers.*.mlp.gate_proj"),
    ("blk.*.ffn_up", "model.layers.*.mlp.up_proj"),
    ("blk.*.ffn_down", "model.layers.*.mlp.down_proj"),
    ("output_norm", "model.norm"),
    ("output", "lm_head"),
];

const GEMMA: &[(&str, &str)] = &[
    ("token_embd", "model.embed_tokens"),
    ("blk.*.attn_norm", "model.layers.*.input_layernorm"),
    ("blk.*.attn_q", "model.layers.*.self_attn.q_proj"),
    ("blk.*.attn_k", "model.layers.*.self_attn.k_proj"),
    ("blk.*.attn_v", "model.layers.*.self_attn.v_proj"),
    ("blk.*.attn_output", "model.layers.*.self_attn.o_proj"),
    ("blk.*.attn_q_norm", "model.layers.*.self_attn.q_norm"),
    ("blk.*.attn_k_norm", "model.layers.*.self_attn.k_norm"),
    ("blk.*.post_attention_norm", "model.layers.*.post_attention_layernorm"),
    ("blk.*.ffn_norm", "model.layers.*.pre_feedforward_layernorm"),
    ("blk.*.post_ffw_norm", "model.layers.*.post_feedforward_layernorm"),
    ("blk.*.ffn_gate", "model.layers.*.mlp.gate_proj"),
    ("blk.*.ffn_up", "model.layers.*.mlp.up_proj"),
    ("blk.*.ffn_down", "model.layers.*.mlp.down_proj"),
    ("output_norm", "model.norm"),
];

const PHI3: &[(&str, &str)] = &[
    ("token_embd", "model.embed_tokens"),
    ("blk.*.attn_norm", "model.layers.*.input_layernorm"),
    ("blk.*.attn_qkv", "model.layers.*.self_attn.qkv_proj"),
    ("blk.*.attn_output", "model.layers.*.self_attn.o_proj"),
    ("blk.*.ffn_norm", "model.layers.*.post_attention_layernorm"),
    ("blk.*.ffn_up", "model.layers.*.mlp.gate_up_proj"),
    ("blk.*.ffn_down", "model.layers.*.mlp.down_proj"),
    ("output_norm", "model.norm"),
    ("output", "lm_head"),
];

const GPT2: &[(&str, &str)] = &[
    ("token_embd", "transformer.wte"),
    ("position_embd", "transformer.wpe"),
    ("blk.*.attn_norm", "transformer.h.*.ln_1"),
    ("blk.*.attn_qkv", "transformer.h.*.attn.c_attn"),
    ("blk.*.attn_output", "transformer.h.*.attn.c_proj"),
    ("blk.*.ffn_norm", "transformer.h.*.ln_2"),
    ("blk.*.ffn_up", "transformer.h.*.mlp.c_fc"),
    ("blk.*.ffn_down", "transformer.h.*.mlp.c_proj"),
    ("output_norm", "transformer.ln_f"),
    ("output", "lm_head"),
];

/// All of them.
pub(super) const ALL: [Architecture; 8] = [
    Architecture { name: "llama", names: LLAMA, config: llama, change: in_pairs },
    Architecture {
        name: "qwen2",
        names: LLAMA,
        config: |s| like_llama(s, "qwen2", "Qwen2ForCausalLM"),
        change: same,
    },
    Architecture {
        name: "qwen3",
        names: LLAMA,
        config: |s| like_llama(s, "qwen3", "Qwen3ForCausalLM"),
        change: same,
    },
    Architecture { name: "phi3", names: PHI3, config: phi3, change: same },
    Architecture { name: "gemma", names: LLAMA, config: gemma, change: one_more },
    Architecture { name: "gemma2", names: GEMMA, config: gemma2, change: one_more },
    Architecture { name: "gemma3", names: GEMMA, config: gemma3, change: one_more },
    Architecture { name: "gpt2", names: GPT2, config: gpt2, change: transposed },
];

fn same(_: &str) -> Change {
    Change::Same
}

fn in_pairs(name: &str) -> Change {
    match name.rsplit_once('.').map(|(part, _)| part) {
        Some(part) if part.ends_with(".attn_q") => Change::QueryHalves,
        Some(part) if part.ends_with(".attn_k") => Change::KeyHalves,
        _ => Change::Same,
    }
}

fn one_more(name: &str) -> Change {
    if name.ends_with("norm.weight") { Change::OneMore } else { Change::Same }
}

fn transposed(name: &str) -> Change {
    let matrix = ["attn_qkv.weight", "attn_output.weight", "ffn_up.weight", "ffn_down.weight"];
    if matrix.iter().any(|end| name.ends_with(end)) { Change::Transposed } else { Change::Same }
}

/// The settings of an architecture, and which of them were read.
pub(super) struct Settings<'a> {
    pub file: &'a File,
    architecture: &'a str,
    read: RefCell<BTreeSet<String>>,
}

impl<'a> Settings<'a> {
    pub fn new(file: &'a File, architecture: &'a str) -> Settings<'a> {
        Settings { file, architecture, read: RefCell::default() }
    }

    fn key(&self, name: &str) -> String {
        let key = format!("{}.{name}", self.architecture);
        self.read.borrow_mut().insert(key.clone());
        key
    }

    fn size(&self, name: &str) -> Result<usize> {
        self.size_or_none(name)?.ok_or_else(|| {
            let what = format!("does not say `{}.{name}`", self.architecture);
            Error::file(&self.file.path, what, "convert the model again with a newer llama.cpp")
        })
    }

    fn size_or_none(&self, name: &str) -> Result<Option<usize>> {
        self.file.size(&self.key(name))
    }

    fn number(&self, name: &str) -> Result<Option<f64>> {
        self.file.number(&self.key(name))
    }

    fn text(&self, name: &str) -> Result<Option<&'a str>> {
        self.file.text(&self.key(name))
    }

    fn refused(&self, what: String) -> Error {
        let advice =
            "only models with the usual setting can be read; take the folder as Hugging Face keeps it";
        Error::file(&self.file.path, what, advice)
    }

    /// A number of heads, which some files give for each block.
    fn heads(&self, name: &str) -> Result<Option<usize>> {
        let key = self.key(name);
        if let Some(Value::Ints(each)) = self.file.get(&key) {
            return match each.split_first() {
                Some((&first, rest)) if rest.iter().all(|&n| n == first) => Ok(usize::try_from(first).ok()),
                _ => Err(self.refused(format!("`{key}` is not the same for all blocks"))),
            };
        }
        self.file.size(&key)
    }

    /// Whether the file has a tensor.
    fn has(&self, name: &str) -> bool {
        self.file.checkpoint.find(name).is_some()
    }

    /// How many tokens there are: the rows of their table.
    fn vocabulary(&self) -> Result<usize> {
        let rows = self.file.checkpoint.get("token_embd.weight")?.shape.first().copied().unwrap_or(0);
        match self.size_or_none("vocab_size")? {
            Some(other) if other != rows => Err(self.refused(format!(
                "`{}.vocab_size` is {other}, and the table of tokens has {rows} rows",
                self.architecture
            ))),
            _ => Ok(rows),
        }
    }

    /// Refuses what was not read and may change a number.
    pub fn all_read(&self) -> Result<()> {
        const HARMLESS: [&str; 4] =
            ["name", "training_length", "rope.scaling.finetuned", "rope.scaling.original_name"];
        let read = self.read.borrow();
        let prefix = format!("{}.", self.architecture);
        let unread: Vec<String> = (self.file.settings.iter())
            .filter(|(key, _)| key.starts_with(&prefix) && !read.contains(*key))
            .filter(|(key, _)| !HARMLESS.contains(&&key[prefix.len()..]))
            .filter(|(_, value)| **value != Value::Int(0))
            .map(|(key, value)| format!("{key} = {}", value.kind()))
            .collect();
        match unread.is_empty() {
            true => Ok(()),
            false => Err(self.refused(format!("says what is not understood: {}", listed(&unread)))),
        }
    }
}

/// What all decoders with rotary positions have.
fn rotary(s: &Settings, model_type: &str, architecture: &str) -> Result<Map<String, Json>> {
    let (width, heads) = (s.size("embedding_length")?, s.heads("attention.head_count")?.unwrap_or(0));
    let Some(even) =
        width.checked_div(heads).filter(|even| even * heads == width || s.has_key("attention.key_length"))
    else {
        return Err(s.refused(format!("has a width of {width} and {heads} heads, which do not divide")));
    };
    let head = s.size_or_none("attention.key_length")?.unwrap_or(even);
    if s.size_or_none("attention.value_length")?.is_some_and(|other| other != head) {
        return Err(s.refused("has values of another width than its keys".into()));
    }
    let epsilon = s.number("attention.layer_norm_rms_epsilon")?.unwrap_or(1e-5);
    let mut config = json!({
        "model_type": model_type,
        "architectures": [architecture],
        "num_hidden_layers": s.size("block_count")?,
        "max_position_embeddings": s.size("context_length")?,
        "hidden_size": width,
        "intermediate_size": s.size("feed_forward_length")?,
        "num_attention_heads": heads,
        "num_key_value_heads": s.heads("attention.head_count_kv")?.unwrap_or(heads),
        "head_dim": head,
        "rms_norm_eps": short(epsilon),
        "rope_theta": s.number("rope.freq_base")?.unwrap_or(10_000.0),
        "vocab_size": s.vocabulary()?,
        "tie_word_embeddings": !s.has("output.weight"),
        "hidden_act": "silu",
    });
    if let Some(scaling) = scaling(s)? {
        config["rope_scaling"] = scaling;
    }
    let turned = s.size_or_none("rope.dimension_count")?.unwrap_or(head);
    if turned != head {
        if model_type != "phi3" {
            return Err(s.refused(format!("turns {turned} of {head} channels of a head")));
        }
        config["partial_rotary_factor"] = json!(turned as f64 / head as f64);
    }
    match config {
        Json::Object(map) => Ok(map),
        _ => unreachable!("it was made as an object"),
    }
}

impl Settings<'_> {
    fn has_key(&self, name: &str) -> bool {
        self.file.get(&format!("{}.{name}", self.architecture)).is_some()
    }
}

/// A number that was written as f32, in the decimals that it was made from.
fn short(number: f64) -> Json {
    let text = (number as f32).to_string();
    json!(text.parse::<f64>().unwrap_or(number))
}

/// How positions are stretched.
fn scaling(s: &Settings) -> Result<Option<Json>> {
    let original = s.number("rope.scaling.original_context_length")?;
    let factor = s.number("rope.scaling.factor")?.or(s.number("rope.scale_linear")?);
    let stretched = factor.filter(|&factor| factor != 1.0 && factor != 0.0);
    let kind = s.text("rope.scaling.type")?.unwrap_or(if stretched.is_some() { "linear" } else { "none" });
    let factor = match (kind, stretched) {
        ("none", _) | (_, None) => return Ok(None),
        (_, Some(factor)) => factor,
    };
    match (kind, original) {
        ("linear", _) => Ok(Some(json!({"rope_type": "linear", "factor": factor}))),
        ("yarn", Some(original)) => Ok(Some(json!({
            "rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original as u64,
        }))),
        _ => Err(s.refused(format!("stretches its positions by `{}`", shown(kind)))),
    }
}

fn like_llama(s: &Settings, model_type: &str, architecture: &str) -> Result<Json> {
    rotary(s, model_type, architecture).map(Json::Object)
}

fn llama(s: &Settings) -> Result<Json> {
    let mut config = rotary(s, "llama", "LlamaForCausalLM")?;
    let bias = |part: &str| json!(s.has(&format!("blk.0.{part}.bias")));
    config.insert("attention_bias".into(), bias("attn_output"));
    config.insert("mlp_bias".into(), bias("ffn_down"));
    if let Some(factors) = s.file.checkpoint.find("rope_freqs.weight") {
        let theta = config["rope_theta"].as_f64().unwrap_or(0.0);
        let Some(factor) = llama3(&factors.f32s(), theta) else {
            return Err(s.refused("stretches its positions by factors that are not those of Llama 3".into()));
        };
        let scaling = json!({
            "rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        });
        config.insert("rope_scaling".into(), scaling);
    }
    Ok(Json::Object(config))
}

/// The factor of Llama 3's stretching, if the divisors of all frequencies are what it gives with the other
/// settings of that family, which files do not hold.
fn llama3(divisors: &[f32], theta: f64) -> Option<f64> {
    let factor = f64::from(divisors.iter().copied().fold(1.0, f32::max));
    let (low, high, original) = (1.0, 4.0, 8192.0);
    let fits = divisors.iter().enumerate().all(|(i, &divisor)| {
        let length = std::f64::consts::TAU * theta.powf(i as f64 / divisors.len() as f64);
        let turns = original / length;
        let smooth = ((turns - low) / (high - low)).clamp(0.0, 1.0);
        let expected = 1.0 / ((1.0 - smooth) / factor + smooth);
        (expected - f64::from(divisor)).abs() <= 1e-4 * expected
    });
    fits.then_some(factor)
}

fn phi3(s: &Settings) -> Result<Json> {
    let mut config = rotary(s, "phi3", "Phi3ForCausalLM")?;
    if let Some(window) = s.size_or_none("attention.sliding_window")?.filter(|&window| window > 0) {
        config.insert("sliding_window".into(), json!(window));
    }
    s.size_or_none("rope.scaling.original_context_length")?;
    Ok(Json::Object(config))
}

fn gemma_like(s: &Settings, model_type: &str, architecture: &str, large: usize) -> Result<Map<String, Json>> {
    let mut config = rotary(s, model_type, architecture)?;
    config.remove("hidden_act");
    config.insert("hidden_activation".into(), json!("gelu_pytorch_tanh"));
    config.insert("tie_word_embeddings".into(), json!(true));
    let size = |name: &str| config[name].as_u64().unwrap_or(0);
    // Files do not say by what scores are divided; the largest model of each family differs.
    let scalar = match size("num_hidden_layers") == large as u64 {
        true => size("hidden_size") / size("num_attention_heads").max(1),
        false => size("head_dim"),
    };
    config.insert("query_pre_attn_scalar".into(), json!(scalar));
    if let Some(window) = s.size_or_none("attention.sliding_window")? {
        config.insert("sliding_window".into(), json!(window));
    }
    for (theirs, ours) in [
        ("attn_logit_softcapping", "attn_logit_softcapping"),
        ("final_logit_softcapping", "final_logit_softcapping"),
    ] {
        if let Some(cap) = s.number(theirs)? {
            config.insert(ours.into(), short(cap));
        }
    }
    Ok(config)
}

fn gemma(s: &Settings) -> Result<Json> {
    let mut config = gemma_like(s, "gemma", "GemmaForCausalLM", 0)?;
    config.remove("query_pre_attn_scalar");
    Ok(Json::Object(config))
}

fn gemma2(s: &Settings) -> Result<Json> {
    gemma_like(s, "gemma2", "Gemma2ForCausalLM", 46).map(Json::Object)
}

fn gemma3(s: &Settings) -> Result<Json> {
    let mut config = gemma_like(s, "gemma3_text", "Gemma3ForCausalLM", 62)?;
    let local = s.number("rope.local.freq_base")?.or(s.number("rope.freq_base_swa")?).unwrap_or(10_000.0);
    config.insert("rope_local_base_freq".into(), json!(local));
    let pattern = s.size_or_none("attention.sliding_window_pattern")?.unwrap_or(6);
    config.insert("sliding_window_pattern".into(), json!(pattern));
    Ok(Json::Object(config))
}

fn gpt2(s: &Settings) -> Result<Json> {
    let (width, context) = (s.size("embedding_length")?, s.size("context_length")?);
    let tokens = &s.file.checkpoint;
    let twin = tokens.find("output.weight").zip(tokens.find("token_embd.weight"));
    let tied = twin.is_none_or(|(head, table)| (head.dtype, head.bytes) == (table.dtype, table.bytes));
    let epsilon = s.number("attention.layer_norm_epsilon")?.unwrap_or(1e-5);
    Ok(json!({
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "n_layer": s.size("block_count")?,
        "n_positions": context,
        "n_embd": width,
        "n_inner": s.size("feed_forward_length")?,
        "n_head": s.size("attention.head_count")?,
        "layer_norm_epsilon": short(epsilon),
        "vocab_size": s.vocabulary()?,
        "tie_word_embeddings": tied,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stretching_of_llama_3_is_told_from_its_divisors() {
        let (theta, factor) = (500_000f64, 32.0);
        let divisor = |i: i32| {
            let turns = 8192.0 / (std::f64::consts::TAU * theta.powf(f64::from(i) / 32.0));
            let smooth = ((turns - 1.0) / 3.0).clamp(0.0, 1.0);
            (1.0 / ((1.0 - smooth) / factor + smooth)) as f32
        };
        let mut divisors: Vec<f32> = (0..32).map(divisor).collect();
        assert_eq!(llama3(&divisors, theta), Some(32.0));
        assert_eq!(llama3(&divisors, 10_000.0), None);
        divisors[20] *= 1.01;
        assert_eq!(llama3(&divisors, theta), None);
    }
}
