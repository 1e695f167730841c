//! The bytes of a file, in memory or mapped: the one place of this crate where the compiler takes our word.
#![allow(unsafe_code)]

use crate::{Error, Result};
use memmap2::Mmap;
use std::fs::{self, File};
use std::ops::Range;
use std::path::Path;

/// A file as one slice of bytes: mapped, so that a part that nobody looks at is never read.
///
/// ```
/// let path = std::env::temp_dir().join(format!("regard-mapped-{}", std::process::id()));
/// std::fs::write(&path, "all of it").unwrap();
/// assert_eq!(regard_data::MappedFile::open(&path)?.bytes(), b"all of it");
/// # std::fs::remove_file(&path).ok();
/// # Ok::<(), regard_data::Error>(())
/// ```
#[derive(Debug)]
pub struct MappedFile(Bytes);

impl MappedFile {
    /// Maps a regular file. Nobody may change it in place while it is mapped; [`whole::write`](crate::whole)
    /// never does.
    pub fn open(path: impl AsRef<Path>) -> Result<MappedFile> {
        Ok(MappedFile(Bytes::map(path.as_ref())?))
    }

    /// The bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        self.0.as_slice()
    }
}

/// Bytes that tensors lie in.
#[derive(Debug)]
pub(crate) enum Bytes {
    /// A file.
    Mapped(Mmap),
    /// Memory of our own.
    Owned(Vec<u8>),
}

impl Bytes {
    /// Maps a file. Anything but a regular file (a pipe would block, a device has no size) is refused.
    pub fn map(path: &Path) -> Result<Bytes> {
        let known = fs::metadata(path).map_err(|e| Error::io("open", path, e))?;
        if !known.is_file() {
            let what = if known.is_dir() { "is a folder" } else { "is not a regular file" };
            return Err(Error::file(path, what, "name a file"));
        }
        let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
        // SAFETY: the mapping is private and read-only, so that nothing in this process writes to it. That no
        // other process changes the file is for the caller to uphold, as with every mapped file: a file cut
        // short in place ends the process with SIGBUS, and one rewritten in place shows other numbers.
        // Neither breaks a bound: the slice keeps its length, ranges were checked against that length, and
        // every pattern of bits is a valid element; text is checked to be UTF-8 each time it is lent.
        // `save_file` and `save_folder` never write in place.
        let map = unsafe { Mmap::map(&file) }.map_err(|e| Error::io("map", path, e))?;
        Ok(Bytes::Mapped(map))
    }

    /// Gives the memory back that mirrors this range of a file: whoever looks there again has it read again.
    pub fn give_back(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let Bytes::Mapped(map) = self
            && range.end <= map.len()
        {
            // SAFETY: the mapping is private and nothing writes to it, so that its pages are those of the
            // file and come back as they were. Where the advice is not taken nothing changes.
            let _ = unsafe {
                map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, range.start, range.len())
            };
        }
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_is_refused() {
        let folder = std::env::temp_dir();
        let text = MappedFile::open(&folder).unwrap_err().to_string();
        assert_eq!(text, format!("{}: is a folder; name a file", folder.display()));
    }
}
