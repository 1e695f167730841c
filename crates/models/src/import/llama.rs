//! Llama as transformers writes it, by its table among the decoders: queries and keys turn by halves. Files
//! of llama2.c are read under the same names, their neighbouring channels already put in halves.

use super::Import;
use super::decoders::families::LLAMA;
use crate::gpt::{Gpt, GptConfig};
use regard_graph::Result;
use serde_json::Value;

/// Our names and those of transformers; nothing for settings that make no model.
pub fn imports(config: &GptConfig) -> Vec<Import> {
    Gpt::new(*config).map(|gpt| LLAMA.files(&gpt).imports).unwrap_or_default()
}

/// The settings that a config.json of model_type `llama` describes.
pub fn config_from_json(config: &Value) -> Result<GptConfig> {
    LLAMA.config_from_json(config)
}

/// The config.json that transformers reads as this model; an error if Llama has no such form.
pub fn config_to_json(config: &GptConfig) -> Result<Value> {
    LLAMA.config_to_json(config)
}
