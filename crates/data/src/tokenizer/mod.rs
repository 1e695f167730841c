//! Text to ids and back. Four kinds: Hugging Face's `tokenizer.json`, the tokenizers of llama2.c, characters,
//! and bytes. [`Tokenizer::train`] makes new ones from texts, [`Tokenizer::stream`] turns ids to text as they
//! come, a whole character at a time.

mod characters;
mod cut;
pub(crate) mod described;
mod ours;
mod pieces;
mod places;
pub(crate) mod sentencepiece;
mod special;
mod stream;
mod train;
mod vocabulary_files;

pub use characters::Reserved;
pub use special::Special;
pub use stream::Stream;
pub use train::{Method, Training};

use crate::checkpoint::{JSON_LIMIT, read_small};
use crate::error::{shown, shown_path, shown_text};
use crate::{Error, Result, llama2c};
use characters::Characters;
use pieces::Pieces;
use regard_device::machine;
use std::cell::Cell;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Once;

/// Turns text to ids and ids to text.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    HuggingFace(Box<tokenizers::Tokenizer>),
    Pieces(Pieces),
    Characters(Characters),
    Bytes,
}

/// The ids of two texts in one row, as BERT reads them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The ids, special tokens included.
    pub ids: Vec<u32>,
    /// For each id, 0 if it belongs to the first text and 1 if to the second.
    pub segments: Vec<u32>,
}

impl Tokenizer {
    /// The ids 0 to 255 are the bytes of UTF-8; there are no others.
    pub fn bytes() -> Tokenizer {
        Tokenizer { kind: Kind::Bytes }
    }

    /// The reserved characters, then the distinct characters of these texts, sorted.
    ///
    /// ```
    /// use regard_data::tokenizer::{Reserved, Tokenizer};
    ///
    /// let tokenizer = Tokenizer::characters(["hello"], Reserved::study())?;
    /// assert_eq!(tokenizer.encode("hole⁇")?, [3, 5, 4, 2, 1]);
    /// # Ok::<(), regard_data::Error>(())
    /// ```
    pub fn characters<S: AsRef<str>>(
        texts: impl IntoIterator<Item = S>,
        reserved: Reserved,
    ) -> Result<Tokenizer> {
        Ok(Tokenizer { kind: Kind::Characters(Characters::of(texts, reserved)?) })
    }

    /// Reads a `tokenizer.json`: of Hugging Face, or what [`Tokenizer::save`] wrote. What a foreign one says
    /// of cutting and padding is not followed: how long a text may be is a matter of the model, and a cut
    /// that nobody sees is an error.
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
        if let Some(ours) = ours::read(path, text)? {
            return Ok(ours);
        }
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

    /// The tokenizer of a model: the one inside of a GGUF file; else what lies beside it: `tokenizer.json` in
    /// its folder, a SentencePiece `.model`, `vocab.json` with `merges.txt`, `vocab.txt`, or, for llama2.c,
    /// `tokenizer.bin` or the only `tok*.bin`. `model` is the folder, or a file in it.
    pub fn of_model(model: &Path, vocabulary: usize) -> Result<Tokenizer> {
        if model.extension().is_some_and(|ending| ending == "gguf") && model.is_file() {
            return crate::gguf::tokenizer::open(model);
        }
        let folder = match model.parent() {
            Some(parent) if !model.is_dir() => parent,
            _ => model,
        };
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let json = folder.join("tokenizer.json");
        if json.is_file() {
            return Tokenizer::open(json);
        }
        if model.is_dir()
            && let Some(tokenizer) = vocabulary_files::open(folder)?
        {
            return Ok(tokenizer);
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
            [] => Err(Error::NoTokenizer { path: shown_path(folder) }),
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
            Kind::Characters(characters) => characters.len(),
            Kind::Bytes => 256,
        }
    }

    /// The ids of a text, with the special tokens that the model expects around it: `[CLS]` and `[SEP]` for
    /// BERT, the one that begins a text for Llama, none for GPT-2.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        match &self.kind {
            Kind::HuggingFace(inner) => {
                cut::check_lines(text, cut::LIMITS)?;
                check_room(text.len(), machine::memory_available())?;
                let encoding = guarded(|| inner.encode_fast(text, true)).map_err(no_ids)?;
                Ok(encoding.get_ids().to_vec())
            }
            Kind::Pieces(pieces) => pieces.encode(text),
            Kind::Characters(characters) => characters.encode(text),
            Kind::Bytes => Ok(text.bytes().map(u32::from).collect()),
        }
    }

    /// The ids of a text without the special tokens around it, for a task that puts its own.
    pub fn encode_bare(&self, text: &str) -> Result<Vec<u32>> {
        match &self.kind {
            Kind::HuggingFace(inner) => cut::encode(inner, text, cut::LIMITS),
            // The one that begins a text comes first.
            Kind::Pieces(pieces) => pieces.encode(text).map(|ids| ids[1..].to_vec()),
            Kind::Characters(_) | Kind::Bytes => self.encode(text),
        }
    }

    /// The ids of two texts in one row, with the special tokens that the model expects around and between
    /// them. Only tokenizers of Hugging Face say which these are.
    pub fn encode_pair(&self, first: &str, second: &str) -> Result<Pair> {
        let Kind::HuggingFace(inner) = &self.kind else {
            return Err(Error::invalid(
                "this kind of tokenizer does not say how two texts stand in one row",
                "put a token of the task between them, or train a WordPiece tokenizer",
            ));
        };
        let encoding = guarded(|| inner.encode_fast((first, second), true)).map_err(no_ids)?;
        Ok(Pair { ids: encoding.get_ids().to_vec(), segments: encoding.get_type_ids().to_vec() })
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
            Kind::Pieces(_) | Kind::Characters(_) | Kind::Bytes => {
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
            Kind::Characters(characters) => characters.id(token),
            Kind::Bytes => match token.as_bytes() {
                [byte] => Some(u32::from(*byte)),
                _ => None,
            },
        }
    }

    /// The id of a token by its exact text, for a task that cannot do without.
    pub fn id_of(&self, token: &str) -> Result<u32> {
        self.id(token).ok_or_else(|| Error::Unknown {
            kind: "token",
            name: shown(token),
            advice: format!("the tokenizer knows {} others; use one that has it", self.vocabulary()),
        })
    }

    /// The text of one token as the vocabulary has it: `##ing`, `Ġthe`, `[PAD]`. Bytes that are no character
    /// are `�`.
    pub fn token_of(&self, id: u32) -> Option<String> {
        match &self.kind {
            Kind::HuggingFace(inner) => inner.id_to_token(id),
            Kind::Pieces(pieces) => pieces.token(id).map(|bytes| String::from_utf8_lossy(bytes).into_owned()),
            Kind::Characters(characters) => characters.token(id).map(str::to_owned),
            Kind::Bytes => u8::try_from(id).ok().map(|byte| String::from_utf8_lossy(&[byte]).into_owned()),
        }
    }

    /// Whether some token has this id. Models often know a few more than their tokenizers, to round up a
    /// size.
    pub fn knows(&self, id: u32) -> bool {
        match &self.kind {
            Kind::HuggingFace(inner) => inner.id_to_token(id).is_some(),
            Kind::Pieces(pieces) => (id as usize) < pieces.len(),
            Kind::Characters(characters) => (id as usize) < characters.len(),
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
            Kind::Characters(characters) => characters.printed(id).as_bytes(),
            _ => std::slice::from_ref(&BYTES[id as usize & 255]),
        })
    }
}

/// Refuses a text that would take more memory than there is while it is cut: the package keeps all of it at
/// once, with the place that every byte came from. It took 120 bytes for each.
fn check_room(bytes: usize, available: Option<u64>) -> Result<()> {
    const FOR_EACH: u64 = 120;
    // Not worth asking the system.
    const SMALL: usize = 1 << 22;
    let needed = (bytes as u64).saturating_mul(FOR_EACH);
    match available.filter(|&available| bytes > SMALL && needed > available) {
        None => Ok(()),
        Some(available) => Err(Error::invalid(
            format!(
                "to cut a text of {bytes} bytes into tokens takes about {needed} bytes of memory, and {available} are \
                 available"
            ),
            "give a shorter text, or use a tokenizer of characters or bytes",
        )),
    }
}

fn no_ids(error: String) -> Error {
    Error::invalid(format!("the text has no ids: {error}"), "check that the tokenizer belongs to the model")
}

/// Runs a function of the package `tokenizers`, which returns errors for most mistakes in a file and panics
/// at others.
fn guarded<T>(run: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, String> {
    thread_local! {
        static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
    }
    // What becomes an error is not told as a panic as well; any other panic is, as before.
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !IS_GUARDED.get() {
                before(panic);
            }
        }));
    });
    let outer = IS_GUARDED.replace(true);
    // What may be left half done is dropped with the closure, or only read.
    let result = catch_unwind(AssertUnwindSafe(run));
    IS_GUARDED.set(outer);
    match result {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_memory_cannot_hold_in_pieces_is_refused() {
        let gib = 1 << 30;
        assert_eq!(
            check_room(100 << 20, Some(gib)).unwrap_err().to_string(),
            "to cut a text of 104857600 bytes into tokens takes about 12582912000 bytes of memory, and 1073741824 are \
             available; give a shorter text, or use a tokenizer of characters or bytes"
        );
        check_room(100 << 20, Some(16 * gib)).unwrap();
        check_room(1 << 20, Some(1)).unwrap();
        check_room(usize::MAX, None).unwrap();
    }
}
