//! A text file as rows to learn from: its lines, its documents with blank lines between them, or all of it.

use super::Lines;
use crate::{Error, Result};
use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

/// How a text file is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Each line is a row; blank ones are left out.
    Lines,
    /// Rows are separated by one or more blank lines.
    Documents,
    /// The whole file is one row.
    Whole,
}

/// The rows of a text file.
#[derive(Debug)]
pub struct TextRows {
    lines: Lines,
    cut: Cut,
    /// The lines of each row.
    rows: Vec<Range<usize>>,
}

impl TextRows {
    /// Opens a text file.
    pub fn open(path: impl AsRef<Path>, cut: Cut) -> Result<TextRows> {
        let lines = Lines::open(path)?;
        if cut == Cut::Lines {
            lines.check_lengths()?;
        }
        let mut rows: Vec<Range<usize>> = Vec::new();
        let mut blank = true;
        for index in 0..lines.len() {
            let before = std::mem::replace(&mut blank, lines.get(index)?.trim().is_empty());
            match (blank, cut, rows.last_mut()) {
                (true, ..) => {}
                (false, Cut::Documents, Some(row)) if !before => row.end = index + 1,
                (false, Cut::Documents | Cut::Lines, _) => rows.push(index..index + 1),
                (false, Cut::Whole, _) => {
                    rows.push(0..lines.len());
                    break;
                }
            }
        }
        if rows.is_empty() {
            return Err(Error::file(
                lines.path(),
                format!("has {} lines, and all are blank", lines.len()),
                "give a file with text",
            ));
        }
        Ok(TextRows { lines, cut, rows })
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// False: a file without text is an error when it is opened.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// A row, the first one being 0. Its lines end with line feeds, whatever they end with in the file; the
    /// whole file keeps the last one.
    pub fn get(&self, index: usize) -> Result<Cow<'_, str>> {
        let Some(row) = self.rows.get(index) else {
            return Err(Error::file(
                self.lines.path(),
                format!("has no row {}; it has {}", index.saturating_add(1), self.len()),
                "ask for one that is there",
            ));
        };
        match self.cut {
            Cut::Lines => self.lines.get(row.start).map(Cow::Borrowed),
            Cut::Documents => self.lines.span(row.clone()),
            Cut::Whole => self.lines.whole(),
        }
    }

    /// The line on which a row begins, the first one being 1: for errors.
    pub fn line(&self, index: usize) -> usize {
        self.rows.get(index).map_or(0, |row| row.start + 1)
    }

    /// All rows, in order.
    pub fn iter(&self) -> impl Iterator<Item = Result<Cow<'_, str>>> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.lines.path()
    }
}
