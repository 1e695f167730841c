//! Two text files whose lines belong together, such as sentences and their translations.

use super::{Lines, lines::at};
use crate::error::shown_path;
use crate::{Error, Result};
use std::path::Path;

/// Pairs of lines of two files.
#[derive(Debug)]
pub struct Parallel {
    source: Lines,
    target: Lines,
}

impl Parallel {
    /// Opens two files with the same number of lines, none of which is blank.
    pub fn open(source: impl AsRef<Path>, target: impl AsRef<Path>) -> Result<Parallel> {
        let (source, target) = (Lines::open(source)?, Lines::open(target)?);
        if source.len() != target.len() {
            return Err(Error::invalid(
                format!(
                    "{} has {} lines, {} has {}, expected as many",
                    shown_path(source.path()),
                    source.len(),
                    shown_path(target.path()),
                    target.len()
                ),
                "line i of one belongs to line i of the other: copy both again",
            ));
        }
        for lines in [&source, &target] {
            lines.check_lengths()?;
            for index in 0..lines.len() {
                if lines.get(index)?.trim().is_empty() {
                    let advice = "leave this line out of both files";
                    return Err(at(lines.path(), index + 1, "is blank, expected a text", advice));
                }
            }
        }
        Ok(Parallel { source, target })
    }

    /// How many pairs there are.
    pub fn len(&self) -> usize {
        self.source.len()
    }

    /// False: an empty file is an error when it is opened.
    pub fn is_empty(&self) -> bool {
        self.source.is_empty()
    }

    /// A pair, the first one being 0.
    pub fn get(&self, index: usize) -> Result<(&str, &str)> {
        Ok((self.source.get(index)?, self.target.get(index)?))
    }

    /// The lines of the first file.
    pub fn source(&self) -> &Lines {
        &self.source
    }

    /// The lines of the second file.
    pub fn target(&self) -> &Lines {
        &self.target
    }
}
