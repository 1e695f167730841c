//! An index of a text: every place of every string, found by halving a sorted list of all suffixes (Manber
//! and Myers 1990). The index is one file, mapped into memory, and holds the text as it was indexed, so that
//! it can be asked wherever the files have gone since; it knows them by size, time and digest, and says which
//! have changed.
//!
//! Files stand one after the other with a byte between them that no UTF-8 text has: no string is found
//! across two files. Suffixes are sorted in shards of the text, so that building takes bounded memory; each
//! shard is sorted with the beginning of the next, so that no string is lost where they meet.

mod build;
mod format;
mod search;

pub use build::Settings;
pub use format::SourceFile;
pub use search::Found;

use crate::{Error, Result};
use format::{Directory, MARK, Sections};
use regard_data::MappedFile;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The text that a model learned from, ready to be asked.
#[derive(Debug)]
pub struct Index {
    path: PathBuf,
    map: Held,
    directory: Directory,
    sections: Sections,
    /// Where each file begins in the text.
    starts: Vec<u64>,
}

/// Where the bytes of an index are.
#[derive(Debug)]
enum Held {
    /// In a file.
    Mapped(MappedFile),
    /// In memory.
    Owned(Vec<u8>),
}

impl Held {
    fn bytes(&self) -> &[u8] {
        match self {
            Held::Mapped(file) => file.bytes(),
            Held::Owned(bytes) => bytes,
        }
    }
}

/// Where something stands in the files.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file, by its number among [`Index::files`].
    pub file: usize,
    /// Its line, from 1.
    pub line: u64,
    /// The byte in the file, from 0.
    pub offset: u64,
    /// The byte in the whole text of the index.
    pub(crate) at: u64,
}

/// A line of a file, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Where it begins, or where what is shown of it does.
    pub place: Place,
    /// Its text; what is no UTF-8 is `�`.
    pub text: String,
    /// Whether the line goes on beyond what is shown.
    pub cut: bool,
}

/// A file that is no longer what it was when it was indexed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stale {
    /// It has other bytes.
    Changed(PathBuf),
    /// It is not there, or cannot be read.
    Missing(PathBuf),
}

impl std::fmt::Display for Stale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stale::Changed(path) => write!(f, "{} has changed since it was indexed", path.display()),
            Stale::Missing(path) => write!(f, "{} was indexed and is not there any more", path.display()),
        }
    }
}

/// What is shown of a line to either side of a place: no book has longer ones, and a file without an end of
/// line must not fill the memory.
const LINE_SIDE: u64 = 2048;

impl Index {
    /// Opens an index. Its layout is checked against the file; [`Index::verify`] also reads all of it.
    pub fn open(path: impl AsRef<Path>) -> Result<Index> {
        let path = path.as_ref().to_path_buf();
        let map = Held::Mapped(MappedFile::open(&path)?);
        Index::held(path, map)
    }

    fn held(path: PathBuf, map: Held) -> Result<Index> {
        let (directory, sections) = format::read(map.bytes()).map_err(|what| Error::damaged(&path, what))?;
        let mut starts = Vec::with_capacity(directory.files.len());
        let mut at = 0;
        for file in &directory.files {
            starts.push(at);
            // Cannot overflow: the sum was compared with the length of the text.
            at += file.bytes + 1;
        }
        Ok(Index { path, map, directory, sections, starts })
    }

    /// Reads all of the index and compares it with the digests that it carries.
    pub fn verify(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::damaged(&self.path, what));
        for (file, &start) in self.directory.files.iter().zip(&self.starts) {
            let own = &self.text()[start as usize..(start + file.bytes) as usize];
            if format::hex(&Sha256::digest(own)) != file.sha256 {
                return wrong(format!("the text of {} is not the one that was indexed", file.path));
            }
        }
        if format::hex(&Sha256::digest(&self.map.bytes()[self.sections.marks.clone()]))
            != self.directory.marks
        {
            return wrong("the table of lines does not fit its digest".into());
        }
        for (number, (shard, range)) in self.directory.shards.iter().zip(&self.sections.suffixes).enumerate()
        {
            if format::hex(&Sha256::digest(&self.map.bytes()[range.clone()])) != shard.sha256 {
                return wrong(format!("the suffixes of shard {} do not fit their digest", number + 1));
            }
        }
        Ok(())
    }

    /// Where the index lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The files that were indexed.
    pub fn files(&self) -> &[SourceFile] {
        &self.directory.files
    }

    /// Bytes of all files together.
    pub fn bytes(&self) -> u64 {
        self.directory.files.iter().map(|file| file.bytes).sum()
    }

    /// The files that are no longer as they were indexed. One that has the same size and time is believed;
    /// one that has the same size at another time is read and compared.
    pub fn stale(&self) -> Vec<Stale> {
        self.directory.files.iter().filter_map(stale).collect()
    }

    /// Whether the index is of these files, in this order, as they are now.
    pub fn is_of(&self, files: &[PathBuf]) -> bool {
        let known = self.directory.files.iter().map(|file| file.path.as_str());
        let given = files.iter().map(|file| std::fs::canonicalize(file).unwrap_or_else(|_| file.clone()));
        known.map(PathBuf::from).eq(given) && self.stale().is_empty()
    }

    /// The whole text, files one after the other.
    fn text(&self) -> &[u8] {
        &self.map.bytes()[self.sections.text.clone()]
    }

    /// Where a byte of the text stands.
    pub(crate) fn place(&self, at: u64) -> Place {
        let file = self.starts.partition_point(|&start| start <= at).saturating_sub(1);
        let start = self.starts[file];
        // The marks of a damaged index may say anything.
        let line = self.newlines(at).wrapping_sub(self.newlines(start)).wrapping_add(1);
        Place { file, line, offset: at - start, at }
    }

    /// Ends of lines before a byte of the text.
    fn newlines(&self, at: u64) -> u64 {
        let block = at / MARK;
        let marks = &self.map.bytes()[self.sections.marks.clone()];
        let own = &marks[8 * block as usize..][..8];
        let before = u64::from_le_bytes(own.try_into().unwrap_or_default());
        let rest = &self.text()[(block * MARK) as usize..at as usize];
        before.wrapping_add(rest.iter().filter(|&&byte| byte == b'\n').count() as u64)
    }

    /// The line around a place, at most 2 KiB to either side of it.
    pub fn line(&self, place: &Place) -> Line {
        let at = place.at.min(self.text().len() as u64);
        let (file_start, file_end) = (self.starts[place.file], self.end(place.file));
        let low = at.saturating_sub(LINE_SIDE).max(file_start);
        let high = (at + LINE_SIDE).min(file_end);
        let before = &self.text()[low as usize..at as usize];
        let after = &self.text()[at as usize..high as usize];
        let begin = before.iter().rposition(|&byte| byte == b'\n').map(|found| low + found as u64 + 1);
        let end = after.iter().position(|&byte| byte == b'\n').map(|found| at + found as u64);
        let (from, to) = (begin.unwrap_or(low), end.unwrap_or(high));
        let cut = (begin.is_none() && low > file_start) || (end.is_none() && high < file_end);
        let own = &self.text()[from as usize..to as usize];
        let own = own.strip_suffix(b"\r").unwrap_or(own);
        Line { place: self.place(from), text: String::from_utf8_lossy(own).into_owned(), cut }
    }

    /// Where a file ends in the text.
    fn end(&self, file: usize) -> u64 {
        self.starts[file] + self.directory.files[file].bytes
    }

    /// The characters before and behind a part of the text; none at the ends of a file, and for what is no
    /// UTF-8.
    pub(crate) fn neighbours(&self, at: u64, length: u64) -> (Option<char>, Option<char>) {
        let text = self.text();
        let low = at.saturating_sub(4) as usize;
        let before = &text[low..at as usize];
        let first = (0..before.len()).find_map(|skip| std::str::from_utf8(&before[skip..]).ok());
        let end = ((at + length) as usize).min(text.len());
        let after = &text[end..text.len().min(end + 4)];
        let last = (1..=after.len()).find_map(|take| std::str::from_utf8(&after[..take]).ok());
        (first.and_then(|text| text.chars().next_back()), last.and_then(|text| text.chars().next()))
    }
}

/// What has become of a file since.
fn stale(file: &SourceFile) -> Option<Stale> {
    let path = PathBuf::from(&file.path);
    let Ok(known) = std::fs::metadata(&path) else { return Some(Stale::Missing(path)) };
    if known.len() != file.bytes {
        return Some(Stale::Changed(path));
    }
    if file.modified.is_some() && build::modified(&known) == file.modified {
        return None;
    }
    match digest(&path) {
        Ok(now) if now == file.sha256 => None,
        Ok(_) => Some(Stale::Changed(path)),
        Err(_) => Some(Stale::Missing(path)),
    }
}

/// The digest of a file.
fn digest(path: &Path) -> std::io::Result<String> {
    let (mut file, mut hash, mut buffer) = (File::open(path)?, Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(format::hex(&hash.finalize())),
            read => hash.update(&buffer[..read]),
        }
    }
}
