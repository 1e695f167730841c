//! Saves tensors as `safetensors`, one file or shards with an index, whole or not at all: nothing takes its
//! final name before all of it is on the disk, and one last rename (or removal) is the moment when the new
//! checkpoint replaces the old one.

use super::layout::{Layout, WriteError, stored};
use super::read::{INDEX, SINGLE, is_plain, read_index};
use super::{DType, Digest};
use crate::error::shown;
use crate::whole::{Access, Pending, folder_of, sync_folder};
use crate::{Error, Result};
use half::bf16;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// A tensor to save.
#[derive(Clone, Copy, Debug)]
pub struct Save<'a> {
    /// Its name in the file.
    pub name: &'a str,
    /// Its extents, outermost first.
    pub shape: &'a [usize],
    /// Its elements, dense and row-major.
    pub data: Data<'a>,
}

/// The elements of a tensor to save.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// Single precision.
    F32(&'a [f32]),
    /// Brain floats.
    BF16(&'a [bf16]),
    /// 32-bit integers.
    I32(&'a [i32]),
    /// Little-endian bytes of any dtype, such as a [`Tensor`](super::Tensor) holds.
    Bytes(DType, &'a [u8]),
}

impl Data<'_> {
    pub(super) fn dtype(&self) -> DType {
        match self {
            Data::F32(_) => DType::F32,
            Data::BF16(_) => DType::BF16,
            Data::I32(_) => DType::I32,
            Data::Bytes(dtype, _) => *dtype,
        }
    }

    /// Whole elements.
    pub(super) fn len(&self) -> usize {
        let (elements, bytes) = self.dtype().block();
        self.bytes() / bytes * elements
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Data::F32(data) => std::mem::size_of_val(*data),
            Data::BF16(data) => std::mem::size_of_val(*data),
            Data::I32(data) => std::mem::size_of_val(*data),
            Data::Bytes(_, data) => data.len(),
        }
    }
}

/// How to save.
#[derive(Clone, Debug)]
pub struct SaveOptions {
    /// Floats are converted to this dtype: `F32`, `F16` or `BF16`. `None` keeps each as it is. Integers stay.
    pub dtype: Option<DType>,
    /// The most bytes of tensors in one file of [`save_folder`]; a larger tensor has a file for itself.
    pub shard_bytes: Option<u64>,
    /// Each file carries its SHA-256, which [`Checkpoint::verify`](super::Checkpoint::verify) compares.
    pub checksum: bool,
    /// More entries for `__metadata__`; `format` and `sha256` are ours.
    pub metadata: BTreeMap<String, String>,
    /// Who may read the files.
    pub access: Access,
}

impl Default for SaveOptions {
    /// As they are, in files of at most 5 GB (as Hugging Face's tools), with a checksum.
    fn default() -> Self {
        let shard_bytes = Some(5_000_000_000);
        SaveOptions {
            dtype: None,
            shard_bytes,
            checksum: true,
            metadata: BTreeMap::new(),
            access: Access::default(),
        }
    }
}

/// What was saved.
#[derive(Clone, Debug, PartialEq)]
pub struct Saved {
    /// The files, in their order; the index, if there is one, last.
    pub files: Vec<PathBuf>,
    /// Bytes of all files.
    pub bytes: u64,
    /// What [`Checkpoint::checksum`](super::Checkpoint::checksum) of it gives.
    pub digest: Digest,
}

/// Saves to one file, in place of what was there.
pub fn save_file(path: impl AsRef<Path>, tensors: &[Save], options: &SaveOptions) -> Result<Saved> {
    let path = path.as_ref();
    check(tensors, options)?;
    let layout = Layout::new(tensors.iter(), options.dtype, &options.metadata, options.checksum)?;
    let (pending, digests) = put(&layout, path, options.access)?;
    pending.rename(path)?;
    sync_folder(folder_of(path))?;
    Ok(Saved { files: vec![path.into()], bytes: layout.size, digest: digests.finish() })
}

/// Saves to a folder, which is made if need be: `model.safetensors`, or shards and
/// `model.safetensors.index.json`.
///
/// The names of shards carry eight digits of the checksum (`model-1f0c5a77-00001-of-00003.safetensors`), so
/// that new shards lie beside the old ones until the index is replaced: a reader finds the old checkpoint or
/// the new one, never a mixture. What the old one leaves over is removed afterwards.
pub fn save_folder(folder: impl AsRef<Path>, tensors: &[Save], options: &SaveOptions) -> Result<Saved> {
    let folder = folder.as_ref();
    check(tensors, options)?;
    let shards = divide(tensors, options)?;
    fs::create_dir_all(folder).map_err(|e| Error::io("make", folder, e))?;
    let old = old_shards(folder);
    let (single, index) = (folder.join(SINGLE), folder.join(INDEX));
    if shards.len() <= 1 {
        // A reader prefers the single file: its rename is the moment.
        let saved = save_file(&single, tensors, options)?;
        remove(&index);
        old.iter().for_each(|name| remove(&folder.join(name)));
        return Ok(saved);
    }

    let mut all = super::digest::Digests::default();
    let mut bytes = 0;
    let mut pending = Vec::with_capacity(shards.len());
    for shard in &shards {
        let layout = Layout::new(shard.iter().copied(), options.dtype, &options.metadata, options.checksum)?;
        let (file, digests) = put(&layout, &single, options.access)?;
        all.extend(&digests);
        bytes += layout.size;
        pending.push(file);
    }
    let digest = all.finish();
    let tag = digest.to_string().split_off(56);
    let names: Vec<String> = (1..=shards.len())
        .map(|i| format!("model-{tag}-{i:05}-of-{:05}.safetensors", shards.len()))
        .collect();
    let text = index_text(&shards, &names, options.dtype)?;
    let mut last = Pending::for_file(&index, options.access)?;
    std::io::Write::write_all(last.file(), text.as_bytes()).map_err(|e| Error::io("write", &index, e))?;
    last.settle(&index)?;

    // All is on the disk; from here on, names only.
    for (file, name) in pending.into_iter().zip(&names) {
        file.rename(&folder.join(name))?;
    }
    sync_folder(folder)?;
    last.rename(&index)?;
    sync_folder(folder)?;
    // A reader prefers the single file: where there was one, its removal is the moment.
    if single.exists() {
        fs::remove_file(&single).map_err(|e| Error::io("replace", &single, e))?;
        sync_folder(folder)?;
    }
    old.iter().filter(|name| !names.contains(name)).for_each(|name| remove(&folder.join(name)));
    let mut files: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
    files.push(index);
    Ok(Saved { files, bytes: bytes + text.len() as u64, digest })
}

/// Writes one file to the disk under a temporary name.
fn put(layout: &Layout, path: &Path, access: Access) -> Result<(Pending, super::digest::Digests)> {
    let mut pending = Pending::for_file(path, access)?;
    let mut buffered = BufWriter::with_capacity(1 << 20, pending.file());
    let digests = layout.write(&mut buffered).map_err(|e| match e {
        WriteError::Io(e) => Error::io("write", path, e),
        WriteError::Value(e) => e,
    })?;
    drop(buffered);
    pending.settle(path)?;
    Ok((pending, digests))
}

/// What can be said against the tensors and options before anything is written.
fn check(tensors: &[Save], options: &SaveOptions) -> Result<()> {
    if let Some(dtype) = options.dtype.filter(|d| !matches!(d, DType::F32 | DType::F16 | DType::BF16)) {
        return Err(Error::invalid(format!("floats cannot be saved as {dtype}"), "choose F32, F16 or BF16"));
    }
    for key in ["format", Digest::KEY] {
        if options.metadata.contains_key(key) {
            return Err(Error::invalid(
                format!("the metadata `{key}` is written here"),
                "choose another key",
            ));
        }
    }
    let mut seen = BTreeSet::new();
    for tensor in tensors {
        if tensor.name == "__metadata__" {
            return Err(Error::invalid("no tensor can be called `__metadata__`", "choose another name"));
        }
        if !seen.insert(tensor.name) {
            let what = format!("two tensors are called `{}`", shown(tensor.name));
            return Err(Error::invalid(what, "rename one"));
        }
        stored(tensor, options.dtype)?;
    }
    Ok(())
}

/// Tensors by file, in the order given, each file filled up to the limit.
fn divide<'a>(tensors: &'a [Save<'a>], options: &SaveOptions) -> Result<Vec<Vec<&'a Save<'a>>>> {
    let limit = options.shard_bytes.unwrap_or(u64::MAX);
    let mut shards: Vec<Vec<&Save>> = Vec::new();
    let mut filled = 0u64;
    for tensor in tensors {
        let (_, bytes) = stored(tensor, options.dtype)?;
        let fits = filled.checked_add(bytes).filter(|&sum| sum <= limit);
        match (shards.last_mut(), fits) {
            (Some(shard), Some(sum)) => {
                shard.push(tensor);
                filled = sum;
            }
            _ => {
                shards.push(vec![tensor]);
                filled = bytes;
            }
        }
    }
    Ok(shards)
}

fn index_text(shards: &[Vec<&Save>], names: &[String], dtype: Option<DType>) -> Result<String> {
    let mut total = 0;
    let mut map = BTreeMap::new();
    for (shard, name) in shards.iter().zip(names) {
        for tensor in shard {
            total += stored(tensor, dtype)?.1;
            map.insert(tensor.name, name);
        }
    }
    let json = serde_json::json!({ "metadata": { "total_size": total }, "weight_map": map });
    Ok(format!("{json:#}\n"))
}

/// The shards that the index of a folder names, if it has a readable one. They will be removed: so only what
/// is called like a shard, whatever else an index may name.
fn old_shards(folder: &Path) -> BTreeSet<String> {
    let map = read_index(&folder.join(INDEX)).unwrap_or_default();
    map.into_values().filter(|name| is_plain(name) && is_shard(name)).collect()
}

/// True for `…-00001-of-00003.safetensors`.
fn is_shard(name: &str) -> bool {
    let digits = |text: &str| text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit());
    let parts = name.strip_suffix(".safetensors").map(|stem| stem.rsplitn(4, '-').collect::<Vec<_>>());
    matches!(parts.as_deref(), Some([of, "of", number, _]) if digits(of) && digits(number))
}

/// Removes what the new checkpoint has replaced; what stays costs room, not truth.
fn remove(path: &Path) {
    let _ = fs::remove_file(path);
}
