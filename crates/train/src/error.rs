//! What can be wrong with a run. Every text says what, where, and what to do.

use crate::diagnose::Finding;
use std::path::Path;

/// The result of a fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can be wrong with a training run.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentence above each variant
pub enum Error {
    #[error(transparent)]
    Graph(#[from] regard_graph::Error),

    #[error(transparent)]
    Engine(#[from] regard_engine::Error),

    #[error(transparent)]
    Data(#[from] regard_data::Error),

    #[error("{what}; {advice}")]
    Invalid { what: String, advice: String },

    #[error("{path}: {what}; {advice}")]
    Folder { path: String, what: String, advice: String },

    #[error("{path}: the settings have changed since this run began: {changes}; {advice}")]
    Changed { path: String, changes: String, advice: &'static str },

    #[error("step {step} was not saved: {source}; the checkpoint before it ({kept}) is unharmed: {advice}")]
    NotSaved { step: u64, kept: String, source: Box<Error>, advice: &'static str },

    #[error("step {step}: the {what} is {number}: {finding}; {advice}")]
    NotFinite { step: u64, what: &'static str, number: f64, finding: Finding, advice: String },

    #[error(
        "step {step}: the loss is {loss:.4} and has been above {factor} times its best ({best:.4}) for {steps} steps; {advice}"
    )]
    Diverged { step: u64, loss: f64, best: f64, factor: f64, steps: u64, advice: String },

    #[error("the run needs about {needed}, and {available} of memory are available; {advice}")]
    TooLarge { needed: String, available: String, advice: &'static str },

    #[error("the metrics at step {step} could not be found: {source}")]
    Examiner { step: u64, source: Box<dyn std::error::Error + Send + Sync> },
}

impl Error {
    /// An [`Error::Invalid`].
    pub fn invalid(what: impl Into<String>, advice: impl Into<String>) -> Error {
        Error::Invalid { what: what.into(), advice: advice.into() }
    }

    pub(crate) fn folder(path: &Path, what: impl Into<String>, advice: impl Into<String>) -> Error {
        Error::Folder { path: path.display().to_string(), what: what.into(), advice: advice.into() }
    }

    pub(crate) fn io(doing: &'static str, path: &Path, source: std::io::Error) -> Error {
        Error::Data(regard_data::Error::io(doing, path, source))
    }
}
