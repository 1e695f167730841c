//! Files of `torch.save`: `pytorch_model.bin`, `.pt`, `.pth`. A pickle is a program, and PyTorch's own reader
//! runs it; ours is a reader that can make tensors, dictionaries and numbers, and nothing else. Whatever a
//! file names besides is refused by that name before anything is done with it.
//!
//! Both forms are read: the zip of PyTorch 1.6 and newer, whose storages are stored entries, and the older
//! one, a row of pickles with the storages behind them. Dense tensors stay where they lie in the mapped file;
//! those with other strides are copied.

mod legacy;
mod machine;
mod state;
mod tensors;
mod zip;

use crate::checkpoint::{Bytes, Checkpoint, Entry, Source};
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a file of `torch.save` can begin with: a zip, or a pickle of protocol 2 and later.
pub(crate) fn is_pickle(head: &[u8]) -> bool {
    head.starts_with(b"PK\x03\x04") || matches!(head, [0x80, 2..=5, ..])
}

/// The files that tensors lie in, with the tensors of each: the file itself, and the copies of those that are
/// not dense there.
pub(crate) type Parts = Vec<(Source, Vec<(String, Entry)>)>;

/// Reads a file; its tensors stay where they are.
pub(crate) fn parts(path: PathBuf, bytes: Bytes) -> Result<Parts> {
    let file = bytes.as_slice();
    if !is_pickle(file) {
        let what = "is no file of `torch.save`: it begins neither as a zip nor as a pickle";
        return Err(Error::file(&path, what, "name the file that holds the weights"));
    }
    let (program, storages) = match file.starts_with(b"PK") {
        true => zip::load(&path, file)?,
        false => legacy::load(&path, file)?,
    };
    let found = state::find(&path, &program)?;
    let placed = tensors::place(&path, file, &program, &storages, &found)?;
    let source = |bytes| Source { path: path.clone(), bytes, metadata: BTreeMap::new() };
    let copies = source(Bytes::Owned(placed.copies));
    Ok(vec![(source(bytes), placed.dense), (copies, placed.copied)])
}

/// A file in memory, for who has it there; `name` stands for its path in errors.
pub fn from_bytes(name: impl Into<PathBuf>, bytes: Vec<u8>) -> Result<Checkpoint> {
    Checkpoint::assemble(parts(name.into(), Bytes::Owned(bytes))?)
}

const AGAIN: &str = "copy or download it again";

fn broken(path: &Path, what: impl Into<String>) -> Error {
    Error::file(path, what, format!("it is damaged or no file of `torch.save`: {AGAIN}"))
}
