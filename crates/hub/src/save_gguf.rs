//! Writes a model as one GGUF file: weights, config and tokenizer together.

use crate::Result;
use crate::open::Opened;
use crate::table::{Foreign, foreign};
use regard_data::gguf::{self, Exported, Given, Value};
use regard_data::whole::Access;
use regard_data::{DType, Tokenizer};
use regard_engine::Store;
use regard_models::Model;
use std::path::{Path, PathBuf};

/// Writes the parameters of a store as a GGUF file, matrices in `dtype`, with the tokenizer of the model that
/// it came from. Gives what was written, and a sentence for what could not be.
pub fn save_gguf(
    model: &dyn Model,
    store: &Store,
    path: impl AsRef<Path>,
    dtype: DType,
    like: &Opened,
) -> Result<(Exported, Option<String>)> {
    let config = model.config_to_json()?;
    let (mut tokenizer, note) = match tokenizer(like) {
        Ok(settings) => (settings, None),
        Err(why) => (Vec::new(), Some(format!("the tokenizer is not in the file: {why}"))),
    };
    for (ours, theirs) in [("bos_token_id", "bos"), ("eos_token_id", "eos"), ("pad_token_id", "padding")] {
        let own = &like.config[ours];
        let key = format!("tokenizer.ggml.{theirs}_token_id");
        // Of several that end a text the first is meant; the others end turns of a chat.
        let id =
            own.as_i64().or(own[0].as_i64()).filter(|_| !tokenizer.iter().any(|(known, _)| *known == key));
        tokenizer.extend(id.map(|id| (key, Value::Int(id))));
    }
    let tensors = foreign(model, store)?.into_iter();
    let given = tensors.map(|Foreign { name, shape, numbers }| Given { name, shape, numbers }).collect();
    let files: Vec<PathBuf> = like.checkpoint().files().map(Path::to_path_buf).collect();
    Ok((gguf::export(path.as_ref(), &config, given, tokenizer, dtype, Access::of(&files))?, note))
}

/// What the file will say of texts; or why it cannot.
fn tokenizer(like: &Opened) -> Result<Vec<(String, Value)>, String> {
    if like.path.is_file() && like.path.extension().is_some_and(|ending| ending == "gguf") {
        let file = gguf::File::open(&like.path).map_err(|error| error.to_string())?;
        return Ok(file.settings.into_iter().filter(|(key, _)| key.starts_with("tokenizer.")).collect());
    }
    let vocabulary = like.model.reads().vocabulary().unwrap_or(0);
    let own = Tokenizer::of_model(&like.path, vocabulary).map_err(|error| error.to_string())?;
    let mut settings = gguf::tokenizer::settings(&own)?;
    let config = like.path.join("tokenizer_config.json");
    if let Ok(config) = regard_data::folder::read_json(&config)
        && let Some(template) = config["chat_template"].as_str()
    {
        settings.push(("tokenizer.chat_template".into(), Value::Text(template.into())));
    }
    Ok(settings)
}
