//! minGPT: GPT-2's names with PyTorch's linear layers, output first, and a head of its own. The masks that
//! its checkpoints hold as `attn.bias` are no parameters.

use super::json::Fields;
use super::{Import, Map, gpt2};
use crate::gpt::GptConfig;
use crate::mechanisms::decimal;
use regard_graph::{Error, Result};
use serde_json::{Value, json};

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

/// minGPT's own words for its settings; an error for what it has none for.
pub fn config_to_json(config: &GptConfig) -> Result<Value> {
    let words = json!({
        "model_type": "mingpt",
        "n_layer": config.layers,
        "n_head": config.heads,
        "n_embd": config.width,
        "block_size": config.context,
        "vocab_size": config.vocabulary,
        "embd_pdrop": decimal(config.dropout),
        "resid_pdrop": decimal(config.dropout),
        "attn_pdrop": decimal(config.attention_dropout.unwrap_or(config.dropout)),
    });
    let read = config_from_json(&words)?;
    let same = GptConfig { hidden: Some(read.hidden()), attention_dropout: None, ..read };
    let ours = GptConfig { hidden: Some(config.hidden()), attention_dropout: None, ..*config };
    if same != ours {
        return Err(Error::invalid(
            "mingpt",
            "minGPT has no words for some of these settings",
            "save it as another family",
        ));
    }
    Ok(words)
}
