//! `regard export`: writes a model for others, under the names and in the layout that transformers expects,
//! in the dtype and in files of the size that they ask for; or as one GGUF file for llama.cpp.

use crate::model::{Weights, store};
use crate::model_folder::{Target, WeightDtype};
use crate::output::{Replace, files_of};
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use regard_hub::{DType, save_gguf};
use regard_models::Registry;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Options of `regard export`.
#[derive(Args)]
#[command(after_help = "\
Without --dtype the weights keep the dtype of most numbers of the model. With --shard-bytes they are written in several
files and an index; a tensor that is larger than N has a file of its own. The tokenizer comes along, and what else lies in
the folder of a sentence-transformer. An adapter is written as PEFT keeps it (adapter_config.json,
adapter_model.safetensors), or with --merge as a whole model.

A model that transformers has a form for is written in that form, also one that was made here; of any other it is said what
differs, and it is written in our own.

With --gguf one file is written instead of a folder, as llama.cpp reads it, tokenizer included. Matrices are of --type; where
rows are no whole blocks of it (256 for q4_k and q6_k, 32 for q8_0 and q4_0), they are q8_0 or f16 instead.

Example:  regard export crates/conformance/goldens/parity/gpt2/model gpt2-bf16 --dtype bf16
          regard export crates/conformance/goldens/parity/llama/model --gguf llama.gguf --type f16")]
pub struct Options {
    /// A folder with config.json and weights, a run, organisation/name from a local Hugging Face cache, a
    /// .gguf file, or a `.bin` of llama2.c
    #[arg(value_name = "MODEL")]
    model: String,
    /// The dtype of the weights to write [default: as they are]
    #[arg(long, value_name = "DTYPE")]
    dtype: Option<WeightDtype>,
    /// Of an adapter (LoRA): write the whole model with the adapter added to its weights, instead of the
    /// adapter's own files
    #[arg(long)]
    merge: bool,
    /// The most bytes of weights in one file [default: 5000000000]
    #[arg(long, value_name = "N")]
    shard_bytes: Option<u64>,
    /// The folder to write, which must be new or empty
    #[arg(value_name = "DIR", required_unless_present = "gguf", conflicts_with = "gguf")]
    folder: Option<PathBuf>,
    /// Write one GGUF file instead of a folder
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dtype", "shard_bytes"])]
    gguf: Option<PathBuf>,
    /// What matrices are in a GGUF file
    #[arg(long = "type", value_name = "TYPE", default_value = "q8_0", requires = "gguf")]
    kind: GgufType,
    /// Write although the folder holds something, or the file is there; files of the same names are replaced
    #[arg(long)]
    replace: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    weights: Weights,
}

/// What matrices can be in a GGUF file.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
enum GgufType {
    F32,
    F16,
    Bf16,
    #[value(name = "q8_0")]
    Q8,
    #[value(name = "q4_0")]
    Q4,
    #[value(name = "q4_k")]
    Q4k,
    #[value(name = "q6_k")]
    Q6k,
}

impl GgufType {
    fn dtype(self) -> DType {
        match self {
            GgufType::F32 => DType::F32,
            GgufType::F16 => DType::F16,
            GgufType::Bf16 => DType::BF16,
            GgufType::Q8 => DType::Q8_0,
            GgufType::Q4 => DType::Q4_0,
            GgufType::Q4k => DType::Q4K,
            GgufType::Q6k => DType::Q6K,
        }
    }
}

/// Exports.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    if options.shard_bytes == Some(0) {
        bail!("--shard-bytes 0: no tensor fits into no bytes; choose at least 1");
    }
    if let Some(file) = &options.gguf {
        return to_gguf(options, file, registry);
    }
    let folder = options.folder.clone().unwrap_or_default();
    let target = Target { folder, replace: options.replace, json: options.json };
    target.check()?;
    let opened = options.weights.open(&options.model, registry)?;
    match (opened.adapter_folder(), options.merge) {
        (None, true) => bail!("--merge: {} is no adapter; leave it out", options.model),
        (Some(folder), false) => {
            if options.dtype.is_some() || options.shard_bytes.is_some() {
                bail!("--dtype and --shard-bytes are for whole models; add --merge, or leave them out");
            }
            return target.copy_adapter(folder);
        }
        _ => {}
    }
    let dtype = options.dtype.map_or_else(|| usual(&opened), WeightDtype::dtype);
    target.write(&opened, dtype, options.shard_bytes)
}

/// Writes one GGUF file.
fn to_gguf(options: &Options, file: &Path, registry: &Registry) -> Result<()> {
    let replace = Replace { replace: options.replace };
    replace.check(&[("--gguf", file)], &files_of(Path::new(&options.model)))?;
    let opened = options.weights.open(&options.model, registry)?;
    let store = store(&opened)?;
    let (written, note) = save_gguf(&*opened.model, &store, file, options.kind.dtype(), &opened)?;
    let kinds: Vec<String> = written.kinds.iter().map(|(kind, count)| format!("{count} in {kind}")).collect();
    let mut out = std::io::stdout().lock();
    if options.json {
        let kinds: serde_json::Map<String, serde_json::Value> =
            written.kinds.iter().map(|(kind, count)| (kind.to_string(), json!(count))).collect();
        let page = json!({
            "family": opened.model.family(), "file": file.display().to_string(), "bytes": written.bytes,
            "tensors": kinds, "tokenizer": note.is_none(),
        });
        writeln!(out, "{page}")?;
        return Ok(());
    }
    writeln!(
        out,
        "{}: {}, tensors: {}; {} bytes",
        file.display(),
        opened.model.family(),
        kinds.join(", "),
        written.bytes
    )?;
    if let Some(note) = note {
        writeln!(out, "  {note}")?;
    }
    Ok(())
}

/// The dtype of most numbers; f32 for those that cannot be written.
fn usual(opened: &regard_hub::Opened) -> DType {
    let count = |dtype: DType| -> usize {
        let own = opened.checkpoint().tensors().filter(|tensor| tensor.dtype == dtype);
        own.map(|tensor| tensor.len()).sum()
    };
    let known = [DType::F32, DType::F16, DType::BF16];
    // The last of equals is the largest: f32 goes last.
    known.into_iter().rev().max_by_key(|&dtype| count(dtype)).unwrap_or(DType::F32)
}
