//! A model as it lies on the disk: a folder with `config.json`, weights and perhaps `tokenizer.json`. A model
//! is named by its folder, or by the name under which a local Hugging Face cache holds it; nothing is
//! downloaded.

use crate::checkpoint::{Checkpoint, JSON_LIMIT, read_small};
use crate::error::{listed, shown, shown_path, similar};
use crate::{Error, Result};
use serde_json::Value;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// A folder that holds a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Finds the model that a person named: a folder, or `organisation/name` in a local Hugging Face cache
    /// (`$HF_HUB_CACHE`, `$HF_HOME/hub`, `$XDG_CACHE_HOME/huggingface/hub`, `~/.cache/huggingface/hub`).
    pub fn find(model: &str) -> Result<Folder> {
        Folder::find_in(model, &caches())
    }

    /// As [`Folder::find`], with the caches to look in.
    pub fn find_in(model: &str, caches: &[PathBuf]) -> Result<Folder> {
        let path = Path::new(model);
        if path.is_dir() {
            return Folder::open(path);
        }
        if path.exists() {
            return Err(Error::file(
                path,
                "is a file, not a model's folder",
                "name the folder that it lies in",
            ));
        }
        if !is_name(model) {
            let advice = "a model is a folder, or a name like `organisation/name` from a local cache";
            return Err(Error::Unknown { kind: "folder", name: shown(model), advice: advice.into() });
        }
        for cache in caches {
            let home = cache.join(format!("models--{}", model.replace('/', "--")));
            if home.is_dir() {
                return Folder::open(&snapshot(&home)?);
            }
        }
        let names = cached(caches);
        let near = similar(model, names.iter().map(String::as_str));
        let looked: Vec<String> = caches.iter().map(|cache| shown_path(cache)).collect();
        let mut advice = format!("looked for a folder of that name, then in {}", looked.join(", "));
        match (near.as_slice(), names.as_slice()) {
            ([], []) => {
                advice += "; no model is there. Nothing is downloaded: from the model's page take config.json, the \
                           weights (model.safetensors, or one .gguf file alone) and the tokenizer's files, put them \
                           into a folder of that name, and name it"
            }
            ([], _) => advice += &format!("; there is {}", listed(&names)),
            _ => advice += &format!("; did you mean {}?", listed(&near)),
        }
        Err(Error::Unknown { kind: "model", name: shown(model), advice })
    }

    /// A folder that is known to exist. One without a `config.json` and without weights is no model, and the
    /// error says what was looked for and what is there instead.
    pub fn open(path: impl Into<PathBuf>) -> Result<Folder> {
        let path = path.into();
        let mut inside: Vec<String> = fs::read_dir(&path)
            .and_then(|items| items.collect::<std::io::Result<Vec<_>>>())
            .map_err(|e| Error::io("list", &path, e))?
            .iter()
            .map(|item| item.file_name().to_string_lossy().into_owned())
            .filter(|name| !name.starts_with('.'))
            .collect();
        inside.sort();
        let weights = |name: &String| {
            let pickle = name.starts_with("pytorch_model") && name.ends_with(".bin");
            let pickle = pickle || name.ends_with(".pt") || name.ends_with(".pth");
            pickle || name.ends_with(".safetensors") || name.contains(".safetensors.index.")
        };
        if inside.iter().any(|name| name == "config.json" || weights(name)) {
            return Ok(Folder { path });
        }
        let here = if inside.is_empty() {
            "the folder is empty".into()
        } else {
            format!("it holds {}", listed(&inside))
        };
        let what = "is no model's folder: looked for config.json, model.safetensors, \
                    model.safetensors.index.json, any *.safetensors, and pytorch_model.bin";
        let advice = match inside.iter().find(|name| name.ends_with(".bin") && !name.starts_with("tok")) {
            Some(bin) => format!("for a model of llama2.c, name its file: {}", shown_path(&path.join(bin))),
            None => "name the folder that holds these".into(),
        };
        Err(Error::file(&path, format!("{what}; {here}"), advice))
    }

    /// The folder that a file of weights lies in.
    pub fn around(file: &Path) -> Result<Folder> {
        Folder::open(crate::whole::folder_of(file))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `config.json`, which must be an object.
    pub fn config(&self) -> Result<Value> {
        let path = self.path.join("config.json");
        if !path.exists() {
            let advice = "copy it from where the model came from: it holds the sizes of the model";
            return Err(Error::file(&self.path, "no config.json here", advice));
        }
        read_json(&path)
    }

    /// The path of `tokenizer.json`, if it is there.
    pub fn tokenizer(&self) -> Result<PathBuf> {
        let path = self.path.join("tokenizer.json");
        if path.is_file() {
            return Ok(path);
        }
        let advice = "copy it from where the model came from, or convert the tokenizer with `tokenizers`";
        Err(Error::file(&self.path, "no tokenizer.json here", advice))
    }

    /// Its weights.
    pub fn checkpoint(&self) -> Result<Checkpoint> {
        Checkpoint::open(&self.path)
    }
}

/// A JSON file that must hold an object, with line and column where it does not.
pub fn read_json(path: &Path) -> Result<Value> {
    let bytes = read_small(path, JSON_LIMIT)?;
    // Some editors begin a file with this mark; JSON does not know it.
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    if text.trim_ascii().is_empty() {
        return Err(Error::file(path, "is empty", "copy or download it again"));
    }
    let value: Value =
        serde_json::from_slice(text).map_err(|e| Error::json(path, &e, "mend the JSON or copy it again"))?;
    if !value.is_object() {
        return Err(Error::file(path, "is JSON, but not an object", "a configuration begins with `{`"));
    }
    Ok(value)
}

/// A JSON file that must hold a list.
pub fn read_json_list(path: &Path) -> Result<Vec<Value>> {
    let bytes = read_small(path, JSON_LIMIT)?;
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    match serde_json::from_slice(text) {
        Ok(Value::Array(list)) => Ok(list),
        Ok(_) => Err(Error::file(path, "is JSON, but not a list", "copy or download it again")),
        Err(error) => Err(Error::json(path, &error, "mend the JSON or copy it again")),
    }
}

/// Where a local Hugging Face cache may be, first choice first.
pub fn caches() -> Vec<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    caches_from(set("HF_HUB_CACHE"), set("HF_HOME"), set("XDG_CACHE_HOME"), env::home_dir())
}

fn caches_from(
    hub: Option<PathBuf>,
    hf: Option<PathBuf>,
    xdg: Option<PathBuf>,
    home: Option<PathBuf>,
) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = Vec::new();
    let places = [
        hub,
        hf.map(|path| path.join("hub")),
        xdg.map(|path| path.join("huggingface/hub")),
        home.map(|path| path.join(".cache/huggingface/hub")),
    ];
    for place in places.into_iter().flatten() {
        if !all.contains(&place) {
            all.push(place);
        }
    }
    all
}

/// `name` or `organisation/name`, of the letters that Hugging Face allows: nothing that could leave the
/// cache.
fn is_name(model: &str) -> bool {
    let plain = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && !part.contains("--")
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    let parts: Vec<&str> = model.split('/').collect();
    parts.len() <= 2 && parts.into_iter().all(plain)
}

/// The snapshot of a cached model: what `refs/main` points to, else the only one.
fn snapshot(home: &Path) -> Result<PathBuf> {
    let snapshots = home.join("snapshots");
    let main = home.join("refs/main");
    if main.is_file() {
        let revision = read_small(&main, 1000)?;
        let revision = String::from_utf8_lossy(&revision).trim().to_owned();
        if revision.is_empty() || !revision.bytes().all(|b| b.is_ascii_alphanumeric()) {
            let what = format!("holds `{}`, which is no revision", shown(&revision));
            return Err(Error::file(&main, what, "download the model again"));
        }
        let path = snapshots.join(&revision);
        if path.is_dir() {
            return Ok(path);
        }
        let what = format!("points to the revision {revision}, which is not in {}", shown_path(&snapshots));
        return Err(Error::file(&main, what, "the download was not finished: download the model again"));
    }
    let mut found: Vec<PathBuf> = fs::read_dir(&snapshots)
        .map(|items| items.flatten().map(|item| item.path()).filter(|path| path.is_dir()).collect())
        .unwrap_or_default();
    found.sort();
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Error::file(home, "the cache holds no snapshot of this model", "download it again")),
        _ => {
            let names: Vec<String> = found
                .iter()
                .filter_map(|p| p.file_name())
                .map(|n| n.to_string_lossy().into_owned())
                .collect();
            let what = format!("has no refs/main and {} snapshots: {}", names.len(), listed(&names));
            Err(Error::file(home, what, "name the folder of the snapshot"))
        }
    }
}

/// The names of all models in these caches.
fn cached(caches: &[PathBuf]) -> Vec<String> {
    let mut names: Vec<String> = caches
        .iter()
        .filter_map(|cache| fs::read_dir(cache).ok())
        .flat_map(|items| items.flatten())
        .filter_map(|item| name_of(&item.file_name()))
        .collect();
    names.sort();
    names.dedup();
    names
}

fn name_of(folder: &OsStr) -> Option<String> {
    folder.to_str()?.strip_prefix("models--").map(|name| name.replacen("--", "/", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_asked_in_the_order_of_hugging_face() {
        let path = |text: &str| Some(PathBuf::from(text));
        let all = caches_from(path("/hub"), path("/hf"), path("/xdg"), path("/home/a"));
        let expected = ["/hub", "/hf/hub", "/xdg/huggingface/hub", "/home/a/.cache/huggingface/hub"];
        assert_eq!(all, expected.map(PathBuf::from));
        assert_eq!(caches_from(path("/hf/hub"), path("/hf"), None, None), [PathBuf::from("/hf/hub")]);
    }

    #[test]
    fn names_cannot_leave_the_cache() {
        for good in ["gpt2", "openai-community/gpt2", "sentence-transformers/all-MiniLM-L6-v2", "a_b/c.d"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "/", "a/", "/etc", "../x", "a/..", "a/b/c", "a--b", "a\0b", "a b", "./a", "naïve"] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
