//! GGUF, the file of llama.cpp: settings by dotted keys, a tokenizer, a template for chats, and tensors, many
//! of them in quantised blocks, all in one file. Read in versions 2 and 3, and written.
//!
//! [`File`] is the file as it is, under its own names. [`Model`] is the model that it holds as transformers
//! would keep it: a config, and tensors under the names that the families know. Tensors stay in the mapped
//! file, in their blocks, and become f32 when they are read; only those whose rows stand in another order are
//! copied, block by block.

mod architecture;
mod export;
mod model;
mod parse;
mod quantise;
pub mod tokenizer;
mod value;
pub mod write;

pub use export::{Exported, Given, export};
pub use model::Model;
pub use value::Value;

use crate::checkpoint::{Bytes, Checkpoint, DType, Source};
use crate::error::shown;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a file begins with.
pub(crate) const MAGIC: &[u8; 4] = b"GGUF";

/// A GGUF file: what it says, and its tensors under its own names.
#[derive(Debug)]
pub struct File {
    /// Where it is.
    pub path: PathBuf,
    /// What it says, by dotted keys.
    pub settings: BTreeMap<String, Value>,
    /// Its tensors. Shapes are outermost first, as everywhere here; the file has them the other way round.
    pub checkpoint: Checkpoint,
}

impl File {
    /// Opens a file: all that it says is read, the tensors stay where they are.
    pub fn open(path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        File::read(path.into(), Bytes::map(path)?)
    }

    /// Reads a file that is already in memory; `name` stands for its path in errors.
    pub fn from_bytes(name: impl Into<PathBuf>, bytes: Vec<u8>) -> Result<File> {
        File::read(name.into(), Bytes::Owned(bytes))
    }

    fn read(path: PathBuf, bytes: Bytes) -> Result<File> {
        let parse::Parsed { settings, tensors } = parse::parse(&path, bytes.as_slice())?;
        let source = Source { path: path.clone(), bytes, metadata: BTreeMap::new() };
        Ok(File { path, settings, checkpoint: Checkpoint::assemble(vec![(source, tensors)])? })
    }

    /// A setting that may be absent.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.settings.get(key)
    }

    /// A text that may be absent.
    pub(crate) fn text(&self, key: &str) -> Result<Option<&str>> {
        self.read_as(key, "a text", Value::as_text)
    }

    /// A size that may be absent.
    pub(crate) fn size(&self, key: &str) -> Result<Option<usize>> {
        self.read_as(key, "a whole number", |value| value.as_int().and_then(|n| usize::try_from(n).ok()))
    }

    /// A number that may be absent.
    pub(crate) fn number(&self, key: &str) -> Result<Option<f64>> {
        self.read_as(key, "a number", Value::as_float)
    }

    /// A truth that may be absent.
    pub(crate) fn truth(&self, key: &str) -> Result<Option<bool>> {
        self.read_as(key, "true or false", Value::as_bool)
    }

    fn read_as<'a, T>(
        &'a self,
        key: &str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        match self.settings.get(key) {
            None => Ok(None),
            Some(value) => read(value).map(Some).ok_or_else(|| {
                let what = format!("`{}` is {}, expected {expected}", shown(key), value.kind());
                Error::file(&self.path, what, "it is damaged, or of a program that we do not know")
            }),
        }
    }
}

/// The number under which the format knows a dtype, and the other way round. Those with five bits and 32 to a
/// block, of older files, are read; those with fewer than four bits are not.
pub(crate) const TYPES: [(u32, DType); 12] = [
    (0, DType::F32),
    (1, DType::F16),
    (2, DType::Q4_0),
    (3, DType::Q4_1),
    (6, DType::Q5_0),
    (7, DType::Q5_1),
    (8, DType::Q8_0),
    (12, DType::Q4K),
    (13, DType::Q5K),
    (14, DType::Q6K),
    (28, DType::F64),
    (30, DType::BF16),
];
