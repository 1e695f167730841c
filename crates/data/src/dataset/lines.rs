//! The lines of a text file: mapped, with an index of where each begins, eight bytes a line. A byte order
//! mark is skipped, a line ends with a line feed or a carriage return and a line feed, and the last one need
//! not.

use super::file;
use crate::checkpoint::Bytes;
use crate::error::shown_path;
use crate::{Error, Result};
use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The lines of a text file, which was found to be UTF-8 when it was opened.
#[derive(Debug)]
pub struct Lines {
    path: PathBuf,
    bytes: Bytes,
    /// Where each line begins, and one more place: where the next would.
    starts: Vec<u64>,
}

const MARK: &[u8] = b"\xef\xbb\xbf";

/// The most bytes of a text that stands for itself on a line. None that a model reads as a whole is nearly as
/// long, and to cut one into tokens takes more than a hundred times its size.
pub const MOST_OF_A_TEXT: usize = 1 << 20;

impl Lines {
    /// Opens a file: reads it once to find its lines and to check that they are UTF-8.
    pub fn open(path: impl AsRef<Path>) -> Result<Lines> {
        let path = path.as_ref().to_path_buf();
        let bytes = file::map(&path)?;
        let all = bytes.as_slice();
        let mut starts = vec![if all.starts_with(MARK) { MARK.len() as u64 } else { 0 }];
        let mut start = starts[0] as usize;
        while start < all.len() {
            let end = all[start..].iter().position(|&b| b == b'\n').map_or(all.len(), |at| start + at);
            check(&path, starts.len(), &all[start..end])?;
            start = end + 1;
            starts.push(start as u64);
        }
        if starts.len() == 1 {
            return Err(Error::file(&path, "has a byte order mark and no text", "copy or download it again"));
        }
        Ok(Lines { path, bytes, starts })
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// False: an empty file is an error when it is opened.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A line without its end, the first one being 0.
    pub fn get(&self, index: usize) -> Result<&str> {
        let Some(range) = self.place(index) else {
            return Err(Error::file(
                &self.path,
                format!("has no line {}; it has {}", index.saturating_add(1), self.len()),
                "ask for one that is there",
            ));
        };
        // Checked once more: whoever changes a mapped file in place changes it here, too.
        let line = &self.bytes.as_slice()[range];
        std::str::from_utf8(line).map_err(|_| {
            let at = format!("{}:{}", shown_path(&self.path), index + 1);
            Error::file(Path::new(&at), "was changed while it was read", "open it again")
        })
    }

    /// Refuses a file with a line that is too long for a text of its own.
    pub fn check_lengths(&self) -> Result<()> {
        (self.starts.windows(2).enumerate())
            .try_for_each(|(index, ends)| check_length(&self.path, index + 1, (ends[1] - ends[0]) as usize))
    }

    /// All lines, in order.
    pub fn iter(&self) -> impl Iterator<Item = Result<&str>> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where a line lies, without its end.
    fn place(&self, index: usize) -> Option<Range<usize>> {
        let (start, next) =
            (*self.starts.get(index)? as usize, *self.starts.get(index.checked_add(1)?)? as usize);
        let line = &self.bytes.as_slice()[start..next - 1];
        let end = next - 1 - usize::from(line.last() == Some(&b'\r'));
        Some(start..end)
    }

    /// The text of some lines, without the last line end.
    pub(super) fn span(&self, lines: Range<usize>) -> Result<Cow<'_, str>> {
        let start = self.place(lines.start).map_or(0, |first| first.start);
        let end = lines.end.checked_sub(1).and_then(|last| self.place(last)).map_or(start, |last| last.end);
        self.text(start..end)
    }

    /// All text after a byte order mark, to the last byte.
    pub(super) fn whole(&self) -> Result<Cow<'_, str>> {
        self.text(self.starts[0] as usize..self.bytes.as_slice().len())
    }

    /// A part of the file, its line ends all being line feeds.
    fn text(&self, range: Range<usize>) -> Result<Cow<'_, str>> {
        let text = std::str::from_utf8(&self.bytes.as_slice()[range])
            .map_err(|_| Error::file(&self.path, "was changed while it was read", "open it again"))?;
        Ok(match text.contains("\r\n") {
            true => Cow::Owned(text.replace("\r\n", "\n")),
            false => Cow::Borrowed(text),
        })
    }
}

/// Checks that a line is UTF-8.
pub(super) fn check(path: &Path, line: usize, bytes: &[u8]) -> Result<()> {
    let Err(error) = std::str::from_utf8(bytes) else { return Ok(()) };
    let place = error.valid_up_to();
    let what = format!("is not UTF-8: byte {} of the line is {:#04x}", place + 1, bytes[place]);
    Err(at(path, line, what, "save the file as UTF-8"))
}

/// Refuses a line that is too long for a text of its own; its end may count.
pub(super) fn check_length(path: &Path, line: usize, bytes: usize) -> Result<()> {
    if bytes <= MOST_OF_A_TEXT + 2 {
        return Ok(());
    }
    let what = format!("has {bytes} bytes, and the most of one text are {MOST_OF_A_TEXT}");
    Err(at(path, line, what, "divide it into several lines"))
}

/// An error in a line, the first one being 1.
pub(super) fn at(path: &Path, line: usize, what: impl Into<String>, advice: impl Into<String>) -> Error {
    Error::File { path: format!("{}:{line}", shown_path(path)), what: what.into(), advice: advice.into() }
}
