//! Writes a model as its family's own software keeps it: `config.json` and `model.safetensors`, or shards and
//! an index.

use crate::open::Opened;
use crate::table::{Foreign, foreign};
use crate::{Result, side_files};
use regard_data::whole::{self, Access};
use regard_data::{DType, Data, Save, Saved, save_folder};
use regard_engine::Store;
use regard_models::Model;
use std::fs;
use std::io::Write;
use std::path::Path;

/// How to save a model.
#[derive(Clone, Copy, Debug)]
pub struct SaveOptions<'a> {
    /// The dtype of the weights: `F32`, `F16` or `BF16`.
    pub dtype: DType,
    /// The most bytes of one file of weights; 5 GB if not given.
    pub shard_bytes: Option<u64>,
    /// Where the model came from: its tokenizer and the settings that no computation here depends on (labels,
    /// special tokens, dropout) come along.
    pub like: Option<&'a Opened>,
    /// Settings besides, such as the names of classes; they go before what `like` says.
    pub settings: &'a [(&'a str, serde_json::Value)],
}

impl Default for SaveOptions<'_> {
    /// f32, large files, nothing else.
    fn default() -> Self {
        SaveOptions { dtype: DType::F32, shard_bytes: None, like: None, settings: &[] }
    }
}

/// Settings of a foreign config that our models do not keep.
const KEPT: [&str; 19] = [
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "sep_token_id",
    "cls_token_id",
    "mask_token_id",
    "decoder_start_token_id",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "bad_words_ids",
    "min_length",
    "max_length",
    "no_repeat_ngram_size",
    "num_beams",
    "length_penalty",
    "early_stopping",
    "id2label",
    "label2id",
    "problem_type",
];

/// Settings that an opened model was trained with and answers without.
const DROPOUT: [&str; 15] = [
    "resid_pdrop",
    "embd_pdrop",
    "attn_pdrop",
    "attention_dropout",
    "activation_dropout",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "dropout_rate",
    "dropout",
    "hidden_dropout",
    "classifier_dropout",
    "classifier_dropout_prob",
    "seq_classif_dropout",
    "qa_dropout",
    "mechanisms",
];

/// Saves the parameters of a store under the names and in the layout of the model's family, in a folder that
/// is made if need be. Each file is written whole or not at all; the weights come first, so that a new folder
/// without `config.json` is one that was not finished.
pub fn save(
    model: &dyn Model,
    store: &Store,
    folder: impl AsRef<Path>,
    options: &SaveOptions,
) -> Result<Saved> {
    let folder = folder.as_ref();
    let mut config = model.config_to_json()?;
    if let Some(opened) = options.like {
        let trained = match opened.for_training() {
            trained if trained.family() == model.family() => trained.config_to_json()?,
            // Written in another form than it was opened in, which may have no words for its dropout.
            trained => match trained.in_other_form().filter(|other| other.family() == model.family()) {
                Some(other) => other.config_to_json()?,
                None => serde_json::Value::Null,
            },
        };
        let kept = KEPT.map(|name| (name, opened.config.get(name)));
        let dropout = DROPOUT.map(|name| (name, trained.get(name)));
        // Names of classes come along where there is one for each.
        let classes = config["id2label"].as_object().map(serde_json::Map::len);
        let fits = |name: &str, value: &serde_json::Value| {
            !name.contains("label")
                || classes.is_none_or(|count| value.as_object().is_some_and(|own| own.len() == count))
        };
        for (name, value) in kept.into_iter().chain(dropout) {
            if let Some(value) = value.filter(|value| fits(name, value)) {
                config[name] = value.clone();
            }
        }
    }
    for (name, value) in options.settings {
        config[*name] = value.clone();
    }
    config["dtype"] = match options.dtype {
        DType::BF16 => "bfloat16",
        DType::F16 => "float16",
        _ => "float32",
    }
    .into();
    let from = options.like.and_then(Opened::folder);
    let mut copied = from.map(|from| side_files::read(from.path(), folder)).transpose()?.unwrap_or_default();
    if let Some(adapter) = options.like.and_then(Opened::adapter_folder) {
        // What lies beside an adapter goes before what lies beside its model.
        let own = side_files::read(adapter, folder)?;
        copied.retain(|file| !own.iter().any(|other| other.name == file.name));
        copied.extend(own);
    }
    let access = options.like.map(access_of).unwrap_or_default();
    let tensors = foreign(model, store)?;
    let saves: Vec<Save> = tensors
        .iter()
        .map(|Foreign { name, shape, numbers }| Save { name, shape, data: Data::F32(numbers) })
        .collect();
    let mut how = regard_data::SaveOptions { dtype: Some(options.dtype), access, ..Default::default() };
    how.shard_bytes = options.shard_bytes.or(how.shard_bytes);
    let mut saved = save_folder(folder, &saves, &how)?;
    let mut put = |name: &str, bytes: &[u8], access: Access| {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|error| regard_data::Error::io("make", parent, error))?;
        }
        whole::write_for(&path, access, |file| file.write_all(bytes))?;
        saved.bytes += bytes.len() as u64;
        saved.files.push(path);
        Ok::<(), crate::Error>(())
    };
    for file in &copied {
        put(&file.name, &file.bytes, file.access)?;
    }
    if let Some(opened) = options.like {
        for (name, text) in side_files::inside(&opened.path)? {
            put(name, text.as_bytes(), access)?;
        }
    }
    let text = format!("{config:#}\n");
    put("config.json", text.as_bytes(), access)?;
    Ok(saved)
}

/// Who may read what is written of a model: those who may read all of its own weights.
fn access_of(opened: &Opened) -> Access {
    Access::of(&opened.checkpoint().files().map(Path::to_path_buf).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use regard_models::{Gpt, GptConfig};

    #[test]
    fn a_model_without_weights_is_refused_before_anything_is_written() {
        let config =
            GptConfig { layers: 1, heads: 2, width: 8, vocabulary: 5, context: 4, ..GptConfig::SMALL };
        let folder = std::env::temp_dir().join(format!("regard-save-{}", std::process::id()));
        let model = Gpt::new(config).unwrap();
        let message = save(&model, &Store::new(0), &folder, &SaveOptions::default()).unwrap_err().to_string();
        assert!(message.starts_with("no parameter or state is called `"), "{message}");
        assert!(!folder.exists());
    }
}
