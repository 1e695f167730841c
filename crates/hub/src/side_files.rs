//! What lies beside a model's weights and comes along when it is saved elsewhere: tokenizers, what
//! sentence-transformers and image processors keep. Files are copied as they are, so none is followed out of
//! the model's own folder, and who may not read one there may not read its copy either.

use crate::{Error, Result};
use regard_data::folder::read_json_list;
use regard_data::gguf;
use regard_data::whole::Access;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// The files that belong to a model.
const NAMES: [&str; 14] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenizer.model",
    "generation_config.json",
    "preprocessor_config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
];

/// The folders of a sentence-transformer's modules that need no list, and what lies in each.
const MODULES: [&str; 1] = ["1_Pooling"];
const MODULE_FILES: [&str; 3] = ["config.json", "model.safetensors", "pytorch_model.bin"];

/// A file that comes along.
pub(crate) struct Beside {
    /// Its name in the model's folder.
    pub name: String,
    /// What it holds.
    pub bytes: Vec<u8>,
    /// Who may read its copy.
    pub access: Access,
}

/// What lies in a folder and is not in `target` already.
pub(crate) fn read(folder: &Path, target: &Path) -> Result<Vec<Beside>> {
    let mut all = Vec::new();
    for name in names(folder)? {
        let path = folder.join(&name);
        if !path.is_file() || same_place(&path, &target.join(&name)) {
            continue;
        }
        let failed = |error| regard_data::Error::io("read", &path, error);
        let real = fs::canonicalize(&path).map_err(failed)?;
        if !real.starts_with(home(folder).map_err(failed)?) {
            return Err(Error::Refused {
                path: path.display().to_string(),
                what: format!("leads out of the model's folder, to {}", real.display()),
                advice: "put the file itself there, if it belongs to the model, or remove the link".into(),
            });
        }
        let bytes = fs::read(&path).map_err(failed)?;
        all.push(Beside { name, bytes, access: Access::of(&[path]) });
    }
    Ok(all)
}

/// The names of all files that may belong to a model: those that any has, and those of the modules that its
/// list names.
fn names(folder: &Path) -> Result<Vec<String>> {
    let list = folder.join("modules.json");
    let mut modules = MODULES.map(str::to_owned).to_vec();
    if list.is_file() {
        let listed = read_json_list(&list)?;
        let places = listed.iter().filter_map(|module| module["path"].as_str());
        for place in places.filter(|place| is_plain(place)) {
            if !modules.iter().any(|known| known == place) {
                modules.push(place.to_owned());
            }
        }
    }
    let inside = modules.iter().flat_map(|module| MODULE_FILES.map(|file| format!("{module}/{file}")));
    Ok(NAMES.map(str::to_owned).into_iter().chain(inside).collect())
}

/// A folder directly inside.
fn is_plain(place: &str) -> bool {
    !place.is_empty() && !place.starts_with('.') && !place.contains(['/', '\\'])
}

/// What a GGUF file holds inside and a folder has beside its weights: its tokenizer, where that is
/// understood, and its template of chats.
pub(crate) fn inside(model: &Path) -> Result<Vec<(&'static str, String)>> {
    if !model.is_file() || model.extension().is_none_or(|ending| ending != "gguf") {
        return Ok(Vec::new());
    }
    let file = gguf::File::open(model)?;
    let mut all = Vec::new();
    if let Some(text) = gguf::tokenizer::of(&file).ok().and_then(|tokenizer| tokenizer.to_json()) {
        all.push(("tokenizer.json", text));
    }
    let mut config = json!({"tokenizer_class": "PreTrainedTokenizerFast"});
    if let Some(template) = file.get("tokenizer.chat_template").and_then(gguf::Value::as_text) {
        config["chat_template"] = json!(template);
    }
    let tokens = file.get("tokenizer.ggml.tokens").and_then(gguf::Value::as_texts).unwrap_or(&[]);
    for (theirs, ours) in [("bos", "bos_token"), ("eos", "eos_token"), ("padding", "pad_token")] {
        let id = file.get(&format!("tokenizer.ggml.{theirs}_token_id")).and_then(gguf::Value::as_int);
        if let Some(token) = id.and_then(|id| tokens.get(usize::try_from(id).ok()?)) {
            config[ours] = json!(token);
        }
    }
    all.push(("tokenizer_config.json", format!("{config:#}\n")));
    Ok(all)
}

/// How far links may lead: to the folder itself, or, in a local cache, to where the files of all snapshots
/// lie.
fn home(folder: &Path) -> std::io::Result<PathBuf> {
    let own = fs::canonicalize(folder)?;
    let above = own.parent().filter(|above| above.ends_with("snapshots")).and_then(Path::parent);
    let is_cached =
        |home: &&Path| home.file_name().is_some_and(|name| name.to_string_lossy().starts_with("models--"));
    Ok(above.filter(is_cached).map(Path::to_path_buf).unwrap_or(own))
}

/// A model that is saved over itself has its tokenizer already.
fn same_place(a: &Path, b: &Path) -> bool {
    matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}
