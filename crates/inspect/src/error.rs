//! What can be wrong with a question to a model: what the rooms below say, and what only this one can know.

/// The result of a fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can be wrong with a question.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentence above each variant
pub enum Error {
    #[error(transparent)]
    Engine(#[from] regard_engine::Error),

    #[error(transparent)]
    Graph(#[from] regard_graph::Error),

    #[error("{what}; {advice}")]
    Invalid { what: String, advice: String },
}

impl Error {
    pub(crate) fn invalid(what: impl Into<String>, advice: impl Into<String>) -> Error {
        Error::Invalid { what: what.into(), advice: advice.into() }
    }
}
