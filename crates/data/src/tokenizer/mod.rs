//! Text to ids and back. Three kinds: Hugging Face's `tokenizer.json`, the tokenizers of llama2.c, and bytes, for models
//! that have nothing else. [`Tokenizer::stream`] turns ids to text as they come, a whole character at a time.

mod pieces;
mod stream;

pub use stream::Stream;

use crate::checkpoint::{JSON_LIMIT, read_small};
use crate::error::shown_text;
use crate::{Error, Result, llama2c};
use pieces::Pieces;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Turns text to ids and ids to text.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    HuggingFace(Box<tokenizers::Tokenizer>),
    Pieces(Pieces),
    Bytes,
}

impl Tokenizer {
    /// The ids 0 to 255 are the bytes of UTF-8; there are no others.
    pub fn bytes() -> Tokenizer {
        Tokenizer { kind: Kind::Bytes }
    }

    /// Reads a `tokenizer.json` of Hugging Face. What it says of cutting and padding is not followed: how long a text
    /// may be is a matter of the model, and a cut that nobody sees is an error.
    pub fn open(path: impl AsRef<Path>) -> Result<Tokenizer> {
        let path = path.as_ref();
        let bytes = read_small(path, JSON_LIMIT)?;
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        if text.trim_ascii().is_empty() {
            return Err(Error::file(path, "is empty", "copy or download it again"));
        }
        // The syntax is checked first: the package panics at some mistakes.
        let text = std::str::from_utf8(text).map_err(|error| {
            let what = format!("is not UTF-8 from byte {} on", error.valid_up_to());
            Error::file(path, what, "copy or download it again")
        })?;
        serde_json::from_str::<serde::de::IgnoredAny>(text)
            .map_err(|error| Error::json(path, &error, "mend the JSON or copy it again"))?;
        let mut inner = guarded(|| tokenizers::Tokenizer::from_bytes(text)).map_err(|error| {
            let what = format!("is JSON, but no tokenizer: {error}");
            Error::file(path, what, "save it with the Python package `tokenizers` 0.23 or older")
        })?;
        if inner.get_vocab_size(true) == 0 {
            return Err(Error::file(path, "knows no token", "copy or download it again"));
        }
        let _ = inner.with_truncation(None);
        inner.with_padding(None);
        Ok(Tokenizer { kind: Kind::HuggingFace(Box::new(inner)) })
    }

    /// Reads a tokenizer of llama2.c, which does not say how many pieces it has; the model does.
    pub fn llama2c(path: impl AsRef<Path>, vocabulary: usize) -> Result<Tokenizer> {
        let path = path.as_ref();
        let pieces = Pieces::new(llama2c::tokenizer(path, vocabulary)?);
        Ok(Tokenizer { kind: Kind::Pieces(pieces) })
    }

    /// The tokenizer that lies beside a model: `tokenizer.json` in its folder, else, for a `.bin` of llama2.c,
    /// `tokenizer.bin` or the only `tok*.bin`. `model` is the folder, or a file in it.
    pub fn beside(model: &Path, vocabulary: usize) -> Result<Tokenizer> {
        let folder = match model.parent() {
            Some(parent) if !model.is_dir() => parent,
            _ => model,
        };
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let json = folder.join("tokenizer.json");
        if json.is_file() {
            return Tokenizer::open(json);
        }
        let mut found: Vec<PathBuf> = fs::read_dir(folder)
            .map_err(|e| Error::io("list", folder, e))?
            .flatten()
            .map(|item| item.path())
            .filter(|path| {
                let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
                path.is_file() && name.starts_with("tok") && name.ends_with(".bin")
            })
            .collect();
        found.sort();
        let plain = folder.join("tokenizer.bin");
        if found.contains(&plain) {
            found = vec![plain];
        }
        match found.as_slice() {
            [only] => Tokenizer::llama2c(only, vocabulary),
            [] => {
                let what = "no tokenizer here: looked for tokenizer.json, tokenizer.bin and tok*.bin";
                let advice = "copy it from where the model came from: ids mean nothing without it";
                Err(Error::file(folder, what, advice))
            }
            several => {
                let what = format!("has {} tokenizers of llama2.c and none is tokenizer.bin", several.len());
                Err(Error::file(folder, what, "rename the one of this model to tokenizer.bin"))
            }
        }
    }

    /// How many tokens it knows.
    pub fn vocabulary(&self) -> usize {
        match &self.kind {
            Kind::HuggingFace(inner) => inner.get_vocab_size(true),
            Kind::Pieces(pieces) => pieces.len(),
            Kind::Bytes => 256,
        }
    }

    /// The ids of a text, with the special tokens that the model expects around it: `[CLS]` and `[SEP]` for BERT, the
    /// one that begins a text for Llama, none for GPT-2.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        match &self.kind {
            Kind::HuggingFace(inner) => {
                let encoding = guarded(|| inner.encode_fast(text, true)).map_err(|error| {
                    let what = format!("the text has no ids: {error}");
                    Error::invalid(what, "check that the tokenizer belongs to the model")
                })?;
                Ok(encoding.get_ids().to_vec())
            }
            Kind::Pieces(pieces) => pieces.encode(text),
            Kind::Bytes => Ok(text.bytes().map(u32::from).collect()),
        }
    }

    /// The ids of a text for a model that knows this many: none is too large for it.
    pub fn encode_for(&self, text: &str, vocabulary: usize) -> Result<Vec<u32>> {
        let ids = self.encode(text)?;
        match ids.iter().find(|&&id| id as usize >= vocabulary) {
            None => Ok(ids),
            Some(id) => Err(Error::invalid(
                format!("the tokenizer gives the id {id}, the model knows {vocabulary} tokens"),
                "use the tokenizer that came with the model",
            )),
        }
    }

    /// The text of some ids, without special tokens. Bytes that are no UTF-8 become `�`.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        match &self.kind {
            Kind::HuggingFace(inner) => {
                ids.iter().try_for_each(|&id| self.known(id))?;
                guarded(|| inner.decode(ids, true)).map_err(|error| {
                    let what = format!("the ids have no text: {error}");
                    Error::invalid(what, "check that the tokenizer belongs to the model")
                })
            }
            Kind::Pieces(_) | Kind::Bytes => {
                let mut bytes = Vec::new();
                let mut before = None;
                for &id in ids {
                    bytes.extend_from_slice(self.raw(before, id)?);
                    before = Some(id);
                }
                Ok(String::from_utf8_lossy(&bytes).into_owned())
            }
        }
    }

    /// Turns ids to text as they come, after ids whose text is known already (a prompt, or none).
    pub fn stream(&self, after: &[u32]) -> Stream<'_> {
        Stream::new(self, after)
    }

    /// The id of a token by its exact text, if there is one: `</s>`, `[PAD]`.
    pub fn id(&self, token: &str) -> Option<u32> {
        match &self.kind {
            Kind::HuggingFace(inner) => inner.token_to_id(token),
            Kind::Pieces(pieces) => pieces.id(token.as_bytes()),
            Kind::Bytes => match token.as_bytes() {
                [byte] => Some(u32::from(*byte)),
                _ => None,
            },
        }
    }

    /// Whether some token has this id. Models often know a few more than their tokenizers, to round up a size.
    pub fn knows(&self, id: u32) -> bool {
        match &self.kind {
            Kind::HuggingFace(inner) => inner.id_to_token(id).is_some(),
            Kind::Pieces(pieces) => (id as usize) < pieces.len(),
            Kind::Bytes => id < 256,
        }
    }

    fn known(&self, id: u32) -> Result<()> {
        if self.knows(id) {
            return Ok(());
        }
        Err(Error::invalid(
            format!("no token has the id {id}; there are {}", self.vocabulary()),
            "use the tokenizer that came with the model",
        ))
    }

    /// The bytes of one id after another one, where ids have bytes of their own.
    fn raw(&self, before: Option<u32>, id: u32) -> Result<&[u8]> {
        self.known(id)?;
        Ok(match &self.kind {
            Kind::Pieces(pieces) => pieces.decode(before, id),
            _ => std::slice::from_ref(&BYTES[id as usize & 255]),
        })
    }
}

/// Runs a function of the package `tokenizers`, which returns errors for most mistakes in a file and panics at others.
fn guarded<T>(run: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, String> {
    // What may be left half done is dropped with the closure, or only read.
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(shown_text(&error.to_string())),
        Err(_) => Err("the package `tokenizers` gave up on it".into()),
    }
}

/// Each byte, to be lent.
static BYTES: [u8; 256] = {
    let mut bytes = [0; 256];
    let mut i = 0;
    while i < 256 {
        bytes[i] = i as u8;
        i += 1;
    }
    bytes
};
