//! Writes a model as its family's own software keeps it: `config.json` and `model.safetensors`, or shards and
//! an index.

use crate::Result;
use crate::open::Opened;
use crate::table::{Foreign, foreign};
use regard_data::{DType, Data, Save, Saved, save_folder, whole};
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
const KEPT: [&str; 10] = [
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "sep_token_id",
    "cls_token_id",
    "mask_token_id",
    "decoder_start_token_id",
    "id2label",
    "label2id",
    "problem_type",
];

/// Settings that an opened model was trained with and answers without.
const DROPOUT: [&str; 10] = [
    "resid_pdrop",
    "embd_pdrop",
    "attn_pdrop",
    "attention_dropout",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "dropout_rate",
    "dropout",
    "hidden_dropout",
    "mechanisms",
];

/// Files that lie beside the weights and belong to the same model.
const BESIDE: [&str; 10] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenizer.model",
    "generation_config.json",
    "preprocessor_config.json",
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
        let trained = opened.for_training().config_to_json()?;
        let kept = KEPT.map(|name| (name, opened.config.get(name)));
        let dropout = DROPOUT.map(|name| (name, trained.get(name)));
        for (name, value) in kept.into_iter().chain(dropout) {
            if let Some(value) = value {
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
    let tensors = foreign(model, store)?;
    let saves: Vec<Save> = tensors
        .iter()
        .map(|Foreign { name, shape, numbers }| Save { name, shape, data: Data::F32(numbers) })
        .collect();
    let mut how = regard_data::SaveOptions { dtype: Some(options.dtype), ..Default::default() };
    how.shard_bytes = options.shard_bytes.or(how.shard_bytes);
    let mut saved = save_folder(folder, &saves, &how)?;
    let mut put = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        whole::write(&path, |file| file.write_all(bytes))?;
        saved.bytes += bytes.len() as u64;
        saved.files.push(path);
        Ok::<(), crate::Error>(())
    };
    if let Some(from) = options.like.and_then(Opened::folder) {
        for name in BESIDE {
            let path = from.path().join(name);
            if path.is_file() && !same_place(&path, &folder.join(name)) {
                let bytes = fs::read(&path).map_err(|e| regard_data::Error::io("read", &path, e))?;
                put(name, &bytes)?;
            }
        }
    }
    let text = format!("{config:#}\n");
    put("config.json", text.as_bytes())?;
    Ok(saved)
}

/// A model that is saved over itself has its tokenizer already.
fn same_place(a: &Path, b: &Path) -> bool {
    matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
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
