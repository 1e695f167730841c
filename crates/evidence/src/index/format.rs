//! The file of an index, from front to back: a magic line; the text; how many lines end before every 4096th
//! byte; the sorted suffixes of each shard, four bytes each; a directory in JSON; its length and digest, and
//! a magic word. Sizes are compared with the file before anything is read or allocated by them.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::ops::Range;

/// What a file of this kind begins with.
pub(super) const MAGIC: &[u8; 16] = b"regard evidence\n";
/// What it ends with.
pub(super) const CLOSING: &[u8; 8] = b"evidence";
/// Length of the directory, its digest, the magic word.
const TAIL: usize = 8 + 32 + 8;
/// Bytes of text from one mark of lines to the next.
pub(super) const MARK: u64 = 4096;
/// What stands between two files: no UTF-8 text has it.
pub(super) const SEPARATOR: u8 = 0xff;
/// The newest layout.
pub(super) const VERSION: u32 = 1;

/// A file that was indexed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFile {
    /// Where it was, from the root.
    pub path: String,
    /// How long it was.
    pub bytes: u64,
    /// When it was last changed: seconds and nanoseconds since 1970, if the system knew.
    pub modified: Option<(u64, u32)>,
    /// The digest of its bytes.
    pub sha256: String,
}

/// A part of the text whose suffixes are sorted together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Shard {
    /// Where it begins in the text.
    pub start: u64,
    /// How many suffixes begin in it.
    pub length: u64,
    /// The digest of its sorted suffixes.
    pub sha256: String,
}

/// What an index says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Directory {
    pub version: u32,
    pub files: Vec<SourceFile>,
    /// Bytes of the text, separators included.
    pub text: u64,
    /// The digest of the marks of lines.
    pub marks: String,
    pub shards: Vec<Shard>,
}

/// Where the parts of an index lie in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sections {
    pub text: Range<usize>,
    pub marks: Range<usize>,
    pub suffixes: Vec<Range<usize>>,
}

/// Bytes as people read them.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// How many marks a text has: one at each multiple of [`MARK`], the end included.
pub(super) fn marks(text: u64) -> u64 {
    text / MARK + 1
}

impl Directory {
    /// What closes the file.
    pub fn tail(&self) -> Vec<u8> {
        // Strings, numbers and lists of them: nothing that JSON cannot hold.
        let mut all = serde_json::to_vec(self).unwrap_or_default();
        let (length, digest) = ((all.len() as u64).to_le_bytes(), Sha256::digest(&all));
        all.extend(length);
        all.extend(&digest[..]);
        all.extend(CLOSING);
        all
    }

    /// Where everything lies, if the numbers fit one another; the end of the last section beside it.
    fn sections(&self) -> Option<(Sections, u64)> {
        let mut at = MAGIC.len() as u64;
        let mut take = |bytes: u64| -> Option<Range<usize>> {
            let end = at.checked_add(bytes)?;
            let range = usize::try_from(at).ok()?..usize::try_from(end).ok()?;
            at = end;
            Some(range)
        };
        let text = take(self.text)?;
        let marks = take(marks(self.text).checked_mul(8)?)?;
        let mut suffixes = Vec::with_capacity(self.shards.len());
        let mut covered = 0u64;
        for shard in &self.shards {
            if shard.start != covered || shard.length == 0 || shard.length > u64::from(u32::MAX) {
                return None;
            }
            covered = covered.checked_add(shard.length)?;
            suffixes.push(take(shard.length.checked_mul(4)?)?);
        }
        let files = self.files.iter().try_fold(0u64, |sum, file| sum.checked_add(file.bytes)?.checked_add(1));
        // Files have a separator behind each of them but the last.
        let files = files?.checked_sub(1)?;
        (covered == self.text && files == self.text).then_some((Sections { text, marks, suffixes }, at))
    }
}

/// Reads what an index says about itself, and compares it with the file. The error is what is wrong, in
/// words.
pub(super) fn read(bytes: &[u8]) -> Result<(Directory, Sections), String> {
    if !bytes.starts_with(MAGIC) {
        return Err("does not begin as an index of evidence does".into());
    }
    let room = bytes.len() - MAGIC.len();
    if room < TAIL || !bytes.ends_with(CLOSING) {
        return Err("does not end as an index of evidence does: it was cut".into());
    }
    let tail = &bytes[bytes.len() - TAIL..];
    let length = u64::from_le_bytes(tail[..8].try_into().unwrap_or_default());
    let Some(length) = usize::try_from(length).ok().filter(|&length| length <= room - TAIL) else {
        return Err(format!("its directory is said to have {length} bytes, more than the file has"));
    };
    let begin = bytes.len() - TAIL - length;
    let json = &bytes[begin..begin + length];
    if Sha256::digest(json)[..] != tail[8..40] {
        return Err("its directory does not fit its digest".into());
    }
    let directory: Directory =
        serde_json::from_slice(json).map_err(|error| format!("its directory cannot be read ({error})"))?;
    if directory.version != VERSION {
        return Err(format!("it has the layout {}, this program knows {VERSION}", directory.version));
    }
    match directory.sections() {
        Some((sections, end)) if end == begin as u64 => Ok((directory, sections)),
        _ => Err(format!("the sizes in its directory do not make up its {} bytes", bytes.len())),
    }
}
