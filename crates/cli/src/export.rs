//! `regard export`: writes a model for others, under the names and in the layout that transformers expects,
//! in the dtype and in files of the size that they ask for.

use crate::model::Weights;
use crate::model_folder::{Target, WeightDtype};
use anyhow::{Result, bail};
use clap::Args;
use regard_hub::DType;
use regard_models::Registry;

/// Options of `regard export`.
#[derive(Args)]
#[command(after_help = "\
Without --dtype the weights keep the dtype of most numbers of the model. With --shard-bytes they are written in several
files and an index; a tensor that is larger than N has a file of its own. The tokenizer comes along. An adapter is written
as PEFT keeps it (adapter_config.json, adapter_model.safetensors), or with --merge as a whole model.

Example:  regard export crates/conformance/goldens/parity/gpt2/model gpt2-bf16 --dtype bf16")]
pub struct Options {
    /// A folder with config.json and weights, a run, organisation/name from a local Hugging Face cache, or a
    /// `.bin` of llama2.c
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
    #[command(flatten)]
    weights: Weights,
    #[command(flatten)]
    target: Target,
}

/// Exports.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    if options.shard_bytes == Some(0) {
        bail!("--shard-bytes 0: no tensor fits into no bytes; choose at least 1");
    }
    options.target.check()?;
    let opened = options.weights.open(&options.model, registry)?;
    match (opened.adapter_folder(), options.merge) {
        (None, true) => bail!("--merge: {} is no adapter; leave it out", options.model),
        (Some(folder), false) => {
            if options.dtype.is_some() || options.shard_bytes.is_some() {
                bail!("--dtype and --shard-bytes are for whole models; add --merge, or leave them out");
            }
            return options.target.copy_adapter(folder);
        }
        _ => {}
    }
    let dtype = options.dtype.map_or_else(|| usual(&opened), WeightDtype::dtype);
    options.target.write(&opened, dtype, options.shard_bytes)
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
