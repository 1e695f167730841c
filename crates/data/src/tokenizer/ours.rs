//! Tokenizers that the field has no file for, in a small JSON of ours under the usual name: which kind, and
//! for characters what is reserved and all others in the order of their ids.

use super::characters::{Characters, Reserved};
use super::{Kind, Tokenizer};
use crate::{Error, Result, whole};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::Path;

/// The key that tells our files from those of Hugging Face.
const KEY: &str = "regard_tokenizer";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ours {
    regard_tokenizer: Named,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reserved: Option<Reserved>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    characters: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Named {
    Bytes,
    Characters,
}

/// Reads a file of ours; `None` if it is none. The text is JSON already.
pub(super) fn read(path: &Path, text: &str) -> Result<Option<Tokenizer>> {
    if !text.contains(KEY) {
        return Ok(None);
    }
    // A piece of a foreign vocabulary may have that name, too; as a key of the whole file it can only be
    // ours.
    let marked = serde_json::from_str::<serde_json::Value>(text).is_ok_and(|value| value.get(KEY).is_some());
    if !marked {
        return Ok(None);
    }
    let ours: Ours = serde_json::from_str(text)
        .map_err(|error| Error::json(path, &error, "copy it again from where the model came from"))?;
    let kind = match ours.regard_tokenizer {
        Named::Bytes => Kind::Bytes,
        Named::Characters => {
            let rest = ours.characters.unwrap_or_default();
            if rest.is_empty() {
                let advice = "copy it again from where the model came from";
                return Err(Error::file(path, "has no `characters`", advice));
            }
            let reserved = ours.reserved.unwrap_or_default();
            let characters = Characters::new(reserved, rest.chars())
                .map_err(|error| Error::file(path, error.to_string(), "copy it again"))?;
            Kind::Characters(characters)
        }
    };
    Ok(Some(Tokenizer { kind }))
}

impl Tokenizer {
    /// The `tokenizer.json` of Hugging Face that it is; none for other kinds.
    pub fn to_json(&self) -> Option<String> {
        match &self.kind {
            Kind::HuggingFace(inner) => inner.to_string(false).ok(),
            _ => None,
        }
    }

    /// Writes it to a file, whole or not at all. By the name `tokenizer.json`, beside a model,
    /// [`Tokenizer::of_model`] finds it again.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let ours = |name, reserved, characters| {
            serde_json::to_string(&Ours { regard_tokenizer: name, reserved, characters })
                .map_err(|error| error.to_string())
        };
        let text = match &self.kind {
            Kind::HuggingFace(inner) => inner.to_string(false).map_err(|error| error.to_string()),
            Kind::Characters(all) => ours(Named::Characters, Some(all.reserved), Some(all.rest())),
            Kind::Bytes => ours(Named::Bytes, None, None),
            Kind::Pieces(_) => Err("a tokenizer of llama2.c has a format of its own".into()),
        };
        let text = text.map_err(|error| {
            let what = format!("the tokenizer cannot be written: {error}");
            Error::file(path, what, "copy the file that it was read from")
        })?;
        whole::write(path, |file| file.write_all(text.as_bytes()))
    }
}
