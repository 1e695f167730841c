//! What can be wrong with a request to generate. Every text says what to do about it.

/// The result of a fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can be wrong with a request to generate.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentence above each variant
pub enum Error {
    #[error("sampling: {what}; {advice}")]
    Sampling { what: String, advice: String },

    #[error("{what} {row}: {problem}; {advice}")]
    Ids { what: &'static str, row: usize, problem: String, advice: String },

    #[error("beams: {what}; {advice}")]
    Beams { what: String, advice: String },

    #[error("generate: {what}; {advice}")]
    Request { what: String, advice: String },

    #[error(
        "generate: the scores of row {row} are not numbers after {length} tokens; check the model's weights"
    )]
    Scores { row: usize, length: usize },

    #[error(transparent)]
    Engine(#[from] regard_engine::Error),
}

impl From<regard_graph::Error> for Error {
    fn from(error: regard_graph::Error) -> Self {
        Error::Engine(error.into())
    }
}
