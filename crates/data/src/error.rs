//! What can be wrong with a file, a folder or a table of names. Every text says where, what was found, what
//! was expected, and what to do. Names from files are shown escaped, so that a hostile one cannot paint a
//! terminal.

use crate::names::Problems;
use std::io::{self, ErrorKind};
use std::path::Path;

/// The result of a fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can be wrong with what is on the disk, or with what should go there.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentence above each variant
pub enum Error {
    #[error("cannot {doing} {path}: {source}; {advice}")]
    Io { doing: &'static str, path: String, source: io::Error, advice: String },

    #[error("{path}: {what}; {advice}")]
    File { path: String, what: String, advice: String },

    #[error(
        "{path}: no tokenizer here: looked for tokenizer.json, tokenizer.model, vocab.json with merges.txt, vocab.txt, tokenizer.bin and tok*.bin; copy it from where the model came from: ids mean nothing without it"
    )]
    NoTokenizer { path: String },

    #[error("{path}: tensor `{tensor}` {what}; {advice}")]
    Tensor { path: String, tensor: String, what: String, advice: String },

    #[error("{path}:{line}:{column}: {what}; {advice}")]
    Json { path: String, line: usize, column: usize, what: String, advice: String },

    #[error("no {kind} is called `{name}`; {advice}")]
    Unknown { kind: &'static str, name: String, advice: String },

    #[error("{what}; {advice}")]
    Invalid { what: String, advice: String },

    #[error("{0}")]
    Import(Problems),

    #[error("`{name}` was read, but not taken: {source}")]
    Refused { name: String, source: Box<dyn std::error::Error + Send + Sync> },
}

impl Error {
    /// An [`Error::Io`] with the advice that fits its kind.
    pub fn io(doing: &'static str, path: &Path, source: io::Error) -> Error {
        let advice = match source.kind() {
            ErrorKind::NotFound => "check the path",
            ErrorKind::PermissionDenied => "check who owns it and what its permissions allow",
            ErrorKind::ReadOnlyFilesystem => "that disk is only to be read: choose another",
            ErrorKind::FileTooLarge => {
                "no file may grow that large here: see `ulimit -f`, or choose another disk; what was there before is \
                 unchanged"
            }
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                "make room on that disk or choose another; what was there before is unchanged"
            }
            ErrorKind::NotADirectory => "a part of the path is a file, not a folder",
            _ => "the operating system gives no more detail",
        };
        Error::Io { doing, path: shown_path(path), source, advice: advice.into() }
    }

    pub(crate) fn file(path: &Path, what: impl Into<String>, advice: impl Into<String>) -> Error {
        Error::File { path: shown_path(path), what: what.into(), advice: advice.into() }
    }

    pub(crate) fn tensor(
        path: &Path,
        tensor: &str,
        what: impl Into<String>,
        advice: impl Into<String>,
    ) -> Error {
        Error::Tensor {
            path: shown_path(path),
            tensor: shown(tensor),
            what: what.into(),
            advice: advice.into(),
        }
    }

    pub(crate) fn invalid(what: impl Into<String>, advice: impl Into<String>) -> Error {
        Error::Invalid { what: what.into(), advice: advice.into() }
    }

    pub(crate) fn json(path: &Path, error: &serde_json::Error, advice: &str) -> Error {
        // serde_json appends the position to its text; it has its own place in ours.
        let text = error.to_string();
        let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
        Error::Json {
            path: shown_path(path),
            line: error.line(),
            column: error.column(),
            what: shown_text(what),
            advice: advice.into(),
        }
    }
}

/// A name from a file, safe to print: control and invisible characters escaped, cut at 120 characters.
pub(crate) fn shown(name: &str) -> String {
    escaped(name, 120)
}

/// Another library's sentence, which may quote names, safe to print.
pub(crate) fn shown_text(text: &str) -> String {
    escaped(text, 400)
}

/// A path, safe to print.
pub(crate) fn shown_path(path: &Path) -> String {
    escaped(&path.to_string_lossy(), 4096)
}

fn escaped(text: &str, most: usize) -> String {
    let mut out = String::new();
    for (i, c) in text.chars().enumerate() {
        if i == most {
            out.push_str(&format!("… ({} bytes)", text.len()));
            break;
        }
        match c {
            '"' | '\'' | '\\' => out.push(c),
            _ => out.extend(c.escape_debug()),
        }
    }
    out
}

/// A list of names for a sentence: the first few, then how many more.
pub(crate) fn listed<S: AsRef<str>>(names: &[S]) -> String {
    const MOST: usize = 8;
    let first: Vec<String> = names.iter().take(MOST).map(|n| format!("`{}`", shown(n.as_ref()))).collect();
    match names.len().saturating_sub(MOST) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// The known names that somebody may have meant: those that share the most of their dotted or slashed parts.
pub(crate) fn similar<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let split = |n: &'a str| n.split(['.', '/', '-', '_']);
    let parts: Vec<&str> = name.split(['.', '/', '-', '_']).filter(|p| !p.is_empty()).collect();
    let mut scored: Vec<(usize, &str)> = known
        .map(|k| (split(k).filter(|part| parts.contains(part)).count(), k))
        .filter(|&(score, _)| score > 0)
        .collect();
    // The sort is stable: among equals, the order of the file.
    scored.sort_by_key(|&(score, k)| (std::cmp::Reverse(score), k.len().abs_diff(name.len())));
    scored.into_iter().take(3).map(|(_, k)| k).collect()
}
