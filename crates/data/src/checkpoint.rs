//! Checkpoints: named tensors in `safetensors` files, memory-mapped, one file or many. The parser is our own:
//! what a file may get wrong, and what is said about it, is the point of this module. It accepts what the
//! reference implementation (the `safetensors` crate 0.8) accepts, except duplicate names, which the format
//! forbids, ranks over 64, and element types narrower than a byte or complex, which nothing here reads.

mod blocks;
mod digest;
mod dtype;
mod header;
mod layout;
mod mapped;
mod read;
mod write;

pub use digest::Digest;
pub use dtype::DType;
pub use mapped::MappedFile;
pub use write::{Data, Save, SaveOptions, Saved, save_file, save_folder};

pub(crate) use mapped::Bytes;
pub(crate) use read::{JSON_LIMIT, read_small};

use crate::error::{listed, shown, similar};
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Named tensors, read from one file or several, in the order of their names.
///
/// The bytes are memory-mapped: opening costs the headers only, and many readers share one copy. A file that
/// is *replaced* (as [`save_folder`] does) stays readable through an open checkpoint; one that somebody cuts
/// short in place does not, and the operating system then ends the process.
#[derive(Debug)]
pub struct Checkpoint {
    sources: Vec<Source>,
    tensors: BTreeMap<String, Entry>,
}

/// One file, or one block of memory, in which tensors lie.
#[derive(Debug)]
pub(crate) struct Source {
    pub path: PathBuf,
    pub bytes: Bytes,
    pub metadata: BTreeMap<String, String>,
}

/// Where a tensor lies. `range` was checked against the source.
#[derive(Debug)]
pub(crate) struct Entry {
    pub source: usize,
    pub dtype: DType,
    pub shape: Vec<usize>,
    pub range: Range<usize>,
}

/// A tensor of a checkpoint: its bytes are dense, row-major, little-endian, of any alignment, and exactly as
/// many as shape and dtype demand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tensor<'a> {
    /// The name in the file, unescaped.
    pub name: &'a str,
    /// What the elements are.
    pub dtype: DType,
    /// The extents, outermost first; empty for a scalar.
    pub shape: &'a [usize],
    /// The elements.
    pub bytes: &'a [u8],
}

impl Checkpoint {
    /// Opens a folder (`model.safetensors`, else `model.safetensors.index.json` with its shards, else the
    /// only `*.safetensors` or `*.index.json` file there), a single file, or an index.
    pub fn open(path: impl AsRef<Path>) -> Result<Checkpoint> {
        read::open(path.as_ref())
    }

    /// Reads a `safetensors` file that is already in memory; `name` stands for its path in errors.
    pub fn from_bytes(name: impl Into<PathBuf>, bytes: Vec<u8>) -> Result<Checkpoint> {
        read::source(name.into(), Bytes::Owned(bytes)).and_then(|one| Checkpoint::assemble(vec![one]))
    }

    /// Puts files together; a name that stands in two of them is an error.
    pub(crate) fn assemble(parts: Vec<(Source, Vec<(String, Entry)>)>) -> Result<Checkpoint> {
        let mut whole = Checkpoint { sources: Vec::with_capacity(parts.len()), tensors: BTreeMap::new() };
        for (index, (source, entries)) in parts.into_iter().enumerate() {
            for (name, mut entry) in entries {
                entry.source = index;
                if let Some(first) = whole.tensors.get(&name) {
                    let elsewhere = whole.sources.get(first.source).map_or(&source.path, |s| &s.path);
                    let what = format!("is also in {}", crate::error::shown_path(elsewhere));
                    return Err(Error::tensor(
                        &source.path,
                        &name,
                        what,
                        "a name may occur once; save it again",
                    ));
                }
                whole.tensors.insert(name, entry);
            }
            whole.sources.push(source);
        }
        Ok(whole)
    }

    /// Takes it apart: what [`Checkpoint::assemble`] puts together.
    pub(crate) fn into_parts(self) -> Vec<(Source, Vec<(String, Entry)>)> {
        let mut parts: Vec<(Source, Vec<(String, Entry)>)> =
            self.sources.into_iter().map(|source| (source, Vec::new())).collect();
        for (name, entry) in self.tensors {
            parts[entry.source].1.push((name, entry));
        }
        parts
    }

    /// The tensor of this name.
    pub fn get(&self, name: &str) -> Result<Tensor<'_>> {
        let Some((name, entry)) = self.tensors.get_key_value(name) else {
            let near = similar(name, self.names());
            let advice = match near.len() {
                0 => format!("the checkpoint has {} tensors, none with a similar name", self.tensors.len()),
                _ => format!("the nearest are {}", listed(&near)),
            };
            return Err(Error::Unknown { kind: "tensor", name: shown(name), advice });
        };
        Ok(self.tensor(name, entry))
    }

    /// The tensor of this name, if there is one.
    pub fn find(&self, name: &str) -> Option<Tensor<'_>> {
        self.tensors.get_key_value(name).map(|(name, entry)| self.tensor(name, entry))
    }

    fn tensor<'a>(&'a self, name: &'a str, entry: &'a Entry) -> Tensor<'a> {
        let bytes = &self.sources[entry.source].bytes.as_slice()[entry.range.clone()];
        Tensor { name, dtype: entry.dtype, shape: &entry.shape, bytes }
    }

    /// Says that these bytes of a tensor were read and will hardly be again: memory that only mirrors the
    /// file goes back to the system. A later look reads the file again.
    pub fn passed(&self, name: &str, bytes: Range<usize>) {
        if let Some(entry) = self.tensors.get(name)
            && bytes.end <= entry.range.len()
        {
            let start = entry.range.start;
            self.sources[entry.source].bytes.give_back(start + bytes.start..start + bytes.end);
        }
    }

    /// All tensors, in the order of their names.
    pub fn tensors(&self) -> impl Iterator<Item = Tensor<'_>> {
        self.tensors.iter().map(|(name, entry)| self.tensor(name, entry))
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// How many tensors there are.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// True if there is no tensor.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// Bytes of all tensors.
    pub fn bytes(&self) -> u64 {
        self.tensors.values().map(|entry| entry.range.len() as u64).sum()
    }

    /// The files that it was read from.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.sources.iter().map(|source| source.path.as_path())
    }

    /// An entry of `__metadata__`, from the first file that has it.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.sources.iter().find_map(|source| source.metadata.get(key)).map(String::as_str)
    }

    /// The digest of all names, dtypes, shapes and bytes: the same however the tensors are spread over files.
    /// Reads everything once.
    pub fn checksum(&self) -> Digest {
        Digest::of(self.tensors())
    }

    /// Compares each file with the checksum that it carries (see [`SaveOptions::checksum`]). `Ok(true)`:
    /// every file carries one, and it is right. `Ok(false)`: none is wrong, but some file carries none. Reads
    /// everything once.
    pub fn verify(&self) -> Result<bool> {
        let mut all = true;
        for (index, source) in self.sources.iter().enumerate() {
            let Some(claimed) = source.metadata.get(Digest::KEY) else {
                all = false;
                continue;
            };
            let inside = self.tensors.iter().filter(|(_, entry)| entry.source == index);
            let actual = Digest::of(inside.map(|(name, entry)| self.tensor(name, entry))).to_string();
            if *claimed != actual {
                let what =
                    format!("the tensors have the checksum {actual}, the file says {}", shown(claimed));
                return Err(Error::file(
                    &source.path,
                    what,
                    "the file is damaged: copy or download it again",
                ));
            }
        }
        Ok(all)
    }
}

impl<'a> Tensor<'a> {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        let (elements, bytes) = self.dtype.block();
        self.bytes.len() / bytes * elements
    }

    /// True if an extent is 0.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The blocks of a quantised tensor as they lie in the file, one row of the last axis after another; none
    /// of a plain one. [`DType::block`] says how many elements and bytes each has.
    pub fn blocks(&self) -> Option<std::slice::ChunksExact<'a, u8>> {
        self.dtype.is_quantised().then(|| self.bytes.chunks_exact(self.dtype.block().1))
    }

    /// The elements as f32: exact from f16, bf16, bool and integers up to 2^24, else the nearest f32.
    pub fn to_f32(&self, out: &mut [f32]) -> Result<()> {
        if out.len() != self.len() {
            let what = format!(
                "tensor `{}` {:?} has {} elements, but the room given holds {}",
                shown(self.name),
                self.shape,
                self.len(),
                out.len()
            );
            return Err(Error::invalid(what, "give a slice of exactly that length"));
        }
        self.dtype.decode(self.bytes, out);
        Ok(())
    }

    /// The elements as f32, in a vector of their own. Its size is at most eight times that of the file.
    pub fn f32s(&self) -> Vec<f32> {
        let mut out = vec![0.0; self.len()];
        self.dtype.decode(self.bytes, &mut out);
        out
    }
}
