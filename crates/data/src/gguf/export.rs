//! A model of transformers as a GGUF file: the tables that read one, the other way round. Matrices are
//! quantised where their rows are whole blocks; where they are not, the next wider type is taken, and said.
//! Norms and biases stay f32, as everywhere.

use super::Value;
use super::architecture::{ALL, Architecture, Change};
use super::write::{Tensor, save};
use crate::checkpoint::DType;
use crate::error::shown;
use crate::whole::Access;
use crate::{Error, Result};
use serde_json::Value as Json;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

/// A tensor under the name of transformers.
#[derive(Clone, Debug)]
pub struct Given<'a> {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its numbers.
    pub numbers: Cow<'a, [f32]>,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Bytes of the file.
    pub bytes: u64,
    /// How many tensors have each type.
    pub kinds: BTreeMap<DType, usize>,
}

/// Writes a model: its `config.json`, its tensors, and settings of its tokenizer
/// ([`super::tokenizer::settings`]).
pub fn export(
    path: &Path,
    config: &Json,
    tensors: Vec<Given>,
    tokenizer: Vec<(String, Value)>,
    dtype: DType,
    access: Access,
) -> Result<Exported> {
    let kind = config["model_type"].as_str().unwrap_or_default();
    let architecture =
        ALL.iter().find(|known| WRITTEN.contains(&known.name) && known.name == kind).ok_or_else(|| {
            let what = format!("a model of model_type `{}` is not written as GGUF", shown(kind));
            Error::invalid(what, format!("written are {}; keep it as a folder", WRITTEN.join(", ")))
        })?;
    let mut settings = settings(architecture.name, config, dtype)?;
    settings.extend(tokenizer);
    let heads = |name: &str| config[name].as_u64().unwrap_or(1) as usize;
    let (queries, keys) = (heads("num_attention_heads"), heads("num_key_value_heads"));
    let mut all = Vec::with_capacity(tensors.len());
    for given in tensors {
        let Some(name) = own_name(architecture, &given.name) else {
            let what =
                format!("tensor `{}` has no name in a GGUF of {}", shown(&given.name), architecture.name);
            return Err(Error::invalid(what, "keep the model as a folder"));
        };
        let Given { mut shape, mut numbers, .. } = given;
        let change = (architecture.change)(&name);
        match change {
            Change::Same => {}
            Change::QueryHalves => numbers = Cow::Owned(in_pairs(&numbers, &shape, queries)),
            Change::KeyHalves => numbers = Cow::Owned(in_pairs(&numbers, &shape, keys)),
            Change::OneMore => numbers = Cow::Owned(numbers.iter().map(|x| x + 1.0).collect()),
            Change::Transposed => {
                numbers = Cow::Owned(turned(&numbers, &shape));
                shape.reverse();
            }
        }
        let dtype = fitting(dtype, &name, &shape);
        all.push(Tensor { name, shape, dtype, numbers });
    }
    if let Some(divisors) = divisors(config)? {
        let name = "rope_freqs.weight".into();
        all.push(Tensor { name, shape: vec![divisors.len()], dtype: DType::F32, numbers: divisors.into() });
    }
    let mut kinds = BTreeMap::new();
    all.iter().for_each(|tensor| *kinds.entry(tensor.dtype).or_default() += 1);
    Ok(Exported { bytes: save(path, &settings, &all, access)?, kinds })
}

/// The families that are written.
const WRITTEN: [&str; 4] = ["llama", "qwen2", "qwen3", "gpt2"];

/// The type of one tensor: vectors and tables of positions are f32; rows that are no whole blocks go to 8
/// bits or, if they do not fit there either, to f16.
fn fitting(wanted: DType, name: &str, shape: &[usize]) -> DType {
    if shape.len() < 2 || name.starts_with("position_embd") {
        return DType::F32;
    }
    let row = shape.last().copied().unwrap_or(0);
    let fits = |dtype: &DType| row.is_multiple_of(dtype.block().0);
    [wanted, DType::Q8_0, DType::F16].into_iter().find(fits).unwrap_or(DType::F16)
}

/// The name in the file of a name of transformers.
fn own_name(architecture: &Architecture, name: &str) -> Option<String> {
    let (part, kind) = name.rsplit_once('.')?;
    architecture.names.iter().find_map(|(own, theirs)| match theirs.split_once('*') {
        None => (*theirs == part).then(|| format!("{own}.{kind}")),
        Some((before, after)) => {
            let number = part.strip_prefix(before)?.strip_suffix(after)?;
            let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| format!("{}.{kind}", own.replacen('*', number, 1)))
        }
    })
}

/// Rows of each head as pairs of neighbours: what [`crate::llama2c`] undoes.
fn in_pairs(numbers: &[f32], shape: &[usize], heads: usize) -> Vec<f32> {
    let rows = shape.first().copied().unwrap_or(0);
    let (row, head) = (numbers.len() / rows.max(1), rows / heads.max(1));
    let mut out = Vec::with_capacity(numbers.len());
    for head_rows in numbers.chunks_exact((head * row).max(1)) {
        for pair in 0..head / 2 {
            out.extend_from_slice(&head_rows[pair * row..][..row]);
            out.extend_from_slice(&head_rows[(pair + head / 2) * row..][..row]);
        }
    }
    out
}

fn turned(numbers: &[f32], shape: &[usize]) -> Vec<f32> {
    let &[rows, columns] = shape else { return numbers.to_vec() };
    (0..columns).flat_map(|column| (0..rows).map(move |row| numbers[row * columns + column])).collect()
}

/// The family whose config has words of its own.
const OLD: &str = "gpt2";

/// Sizes, as the file and as its config call them.
const OLD_SIZES: &[(&str, &str)] = &[
    ("block_count", "n_layer"),
    ("context_length", "n_positions"),
    ("embedding_length", "n_embd"),
    ("feed_forward_length", "n_inner"),
    ("attention.head_count", "n_head"),
];

/// The same of all others.
const SIZES: &[(&str, &str)] = &[
    ("block_count", "num_hidden_layers"),
    ("context_length", "max_position_embeddings"),
    ("embedding_length", "hidden_size"),
    ("feed_forward_length", "intermediate_size"),
    ("attention.head_count", "num_attention_heads"),
    ("attention.head_count_kv", "num_key_value_heads"),
];

/// What the file says of a model.
fn settings(name: &str, config: &Json, dtype: DType) -> Result<Vec<(String, Value)>> {
    // Readers show this number; they look at each tensor for what it is.
    let file_type = match dtype {
        DType::F32 => 0,
        DType::F16 => 1,
        DType::Q4_0 => 2,
        DType::Q8_0 => 7,
        DType::Q4K => 14,
        DType::Q6K => 18,
        _ => 32,
    };
    let mut all = vec![
        ("general.architecture".to_owned(), Value::Text(name.into())),
        ("general.type".to_owned(), Value::Text("model".into())),
        ("general.file_type".to_owned(), Value::Int(file_type)),
        ("general.quantization_version".to_owned(), Value::Int(2)),
    ];
    let mut put = |key: &str, value: Value| all.push((format!("{name}.{key}"), value));
    let old = name == OLD;
    let sizes = if old { OLD_SIZES } else { SIZES };
    for (key, ours) in sizes {
        let own = config[*ours].as_i64();
        let usual = (*ours == "n_inner").then(|| config["n_embd"].as_i64().map(|width| 4 * width)).flatten();
        let Some(size) = own.or(usual) else {
            return Err(Error::invalid(format!("the config has no `{ours}`"), "give the whole config.json"));
        };
        put(key, Value::Int(size));
    }
    put("vocab_size", Value::Int(config["vocab_size"].as_i64().unwrap_or(0)));
    if old {
        let epsilon = config["layer_norm_epsilon"].as_f64().unwrap_or(1e-5);
        put("attention.layer_norm_epsilon", Value::Float(epsilon));
        if config["activation_function"].as_str().is_some_and(|act| act != "gelu_new") {
            let what = "a GPT-2 in GGUF has the activation gelu_new, and this one has another";
            return Err(Error::invalid(what, "keep it as a folder"));
        }
        return Ok(all);
    }
    put("attention.layer_norm_rms_epsilon", Value::Float(config["rms_norm_eps"].as_f64().unwrap_or(1e-6)));
    if let Some(head) = config["head_dim"].as_i64() {
        put("rope.dimension_count", Value::Int(head));
        put("attention.key_length", Value::Int(head));
        put("attention.value_length", Value::Int(head));
    }
    let rope = rope(config);
    let theta = rope["rope_theta"].as_f64().or(config["rope_theta"].as_f64()).unwrap_or(10_000.0);
    put("rope.freq_base", Value::Float(theta));
    let factor = rope["factor"].as_f64().unwrap_or(1.0);
    match rope["rope_type"].as_str().or(rope["type"].as_str()).unwrap_or("default") {
        "default" | "llama3" => {}
        kind @ ("linear" | "yarn") => {
            put("rope.scaling.type", Value::Text(kind.into()));
            put("rope.scaling.factor", Value::Float(factor));
            if let Some(original) = rope["original_max_position_embeddings"].as_i64() {
                put("rope.scaling.original_context_length", Value::Int(original));
            }
        }
        other => {
            let what = format!("positions stretched by `{}` have no words in GGUF", shown(other));
            return Err(Error::invalid(what, "keep the model as a folder"));
        }
    }
    Ok(all)
}

fn rope(config: &Json) -> &Json {
    match &config["rope_parameters"] {
        Json::Null => &config["rope_scaling"],
        own => own,
    }
}

/// The divisors of Llama 3's stretching, which stand in a tensor.
fn divisors(config: &Json) -> Result<Option<Vec<f32>>> {
    let rope = rope(config);
    if rope["rope_type"].as_str() != Some("llama3") {
        return Ok(None);
    }
    let number = |name: &str| {
        rope[name].as_f64().ok_or_else(|| {
            Error::invalid(format!("rope_type `llama3` has no `{name}`"), "give the whole config.json")
        })
    };
    let (factor, low, high) = (number("factor")?, number("low_freq_factor")?, number("high_freq_factor")?);
    let original = number("original_max_position_embeddings")?;
    let theta = rope["rope_theta"].as_f64().or(config["rope_theta"].as_f64()).unwrap_or(10_000.0);
    let half = config["head_dim"].as_u64().unwrap_or(0) as usize / 2;
    let divisor = |i: usize| {
        let turns = original / (std::f64::consts::TAU * theta.powf(i as f64 / half as f64));
        let smooth = ((turns - low) / (high - low)).clamp(0.0, 1.0);
        (1.0 / ((1.0 - smooth) / factor + smooth)) as f32
    };
    Ok(Some((0..half).map(divisor).collect()))
}
