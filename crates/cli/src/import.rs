//! `regard import`: a model from elsewhere (a `.bin` of llama2.c, a folder in half precision, a name in a
//! local cache) becomes a folder that every command here takes and that transformers loads: `config.json` and
//! `model.safetensors`.

use crate::model::tell;
use crate::model_folder::{Target, WeightDtype};
use anyhow::Result;
use clap::Args;
use regard_models::Registry;

/// Options of `regard import`.
#[derive(Args)]
#[command(after_help = "\
The weights are f32 unless --dtype says otherwise, in one file up to 5 GB. A tokenizer that lies in the source's folder, or in
a GGUF file, comes along.

Example:  regard import crates/conformance/goldens/parity/llama/model llama-f16 --dtype f16")]
pub struct Options {
    /// A `.gguf` file, a `.bin` of llama2.c, a folder with config.json and weights, or organisation/name from
    /// a local Hugging Face cache
    #[arg(value_name = "SOURCE")]
    source: String,
    /// The dtype of the weights in the new folder
    #[arg(long, default_value = "f32", value_name = "DTYPE")]
    dtype: WeightDtype,
    /// Pass over tensors of the source that the model does not have, such as a head: `cls.*`, where * stands
    /// for any signs; may be given several times
    #[arg(long, value_name = "PATTERN")]
    ignore: Vec<String>,
    #[command(flatten)]
    target: Target,
}

/// Imports.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    options.target.check()?;
    let opened = regard_hub::open_ignoring(&options.source, registry, &options.ignore)?;
    tell(&opened);
    options.target.write(&opened, options.dtype.dtype(), None)
}
