//! minGPT: GPT-2's names with PyTorch's linear layers, output first, and a head of its own. The masks that its
//! checkpoints hold as `attn.bias` are no parameters.

use super::json::Fields;
use super::{Import, Map, gpt2};
use crate::gpt::GptConfig;
use regard_graph::Result;
use serde_json::Value;

/// Our names and theirs.
pub fn imports(config: &GptConfig) -> Vec<Import> {
    let mut table = gpt2::imports(config, "transformer.");
    for import in &mut table {
        import.map = match import.map {
            Map::Transposed => Map::Same,
            Map::SplitTransposed { index, parts } => Map::Split { index, parts },
            map => map,
        };
    }
    table
}

/// The settings of a minGPT, in the names of its own config.
pub fn config_from_json(config: &Value) -> Result<GptConfig> {
    let fields = Fields::new("mingpt", config)?;
    let config = GptConfig {
        layers: fields.size("n_layer")?,
        heads: fields.size("n_head")?,
        width: fields.size("n_embd")?,
        context: fields.size("block_size")?,
        vocabulary: fields.size("vocab_size")?,
        dropout: fields.number("resid_pdrop")?.unwrap_or(0.1) as f32,
        ..GptConfig::MINGPT
    };
    crate::Gpt::new(config).map(|_| config)
}
