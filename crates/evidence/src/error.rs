//! What can be wrong with an index, or with what is asked of this room. Every text says where, what was
//! found, what was expected, and what to do.

use std::path::Path;

/// The result of a fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can be wrong with evidence.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentence above each variant
pub enum Error {
    #[error(transparent)]
    Data(#[from] regard_data::Error),

    /// An index that was cut, overwritten, or made by something else.
    #[error("{path}: {what}; the index is damaged or none of ours: remove it, and build it again")]
    Damaged { path: String, what: String },

    #[error("{what}; {advice}")]
    Invalid { what: String, advice: String },
}

impl Error {
    pub(crate) fn invalid(what: impl Into<String>, advice: impl Into<String>) -> Error {
        Error::Invalid { what: what.into(), advice: advice.into() }
    }

    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Error {
        Error::Damaged { path: path.display().to_string(), what: what.into() }
    }
}
