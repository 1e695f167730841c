//! What can be wrong with using a model: what the rooms below say, and what only this one can know.

/// The result of a fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can be wrong with opening or using a model.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentence above each variant
pub enum Error {
    #[error(transparent)]
    Data(#[from] regard_data::Error),

    #[error(transparent)]
    Engine(#[from] regard_engine::Error),

    #[error(transparent)]
    Generate(#[from] regard_generate::Error),

    #[error(transparent)]
    Hub(#[from] regard_hub::Error),

    #[error(transparent)]
    Model(#[from] regard_graph::Error),

    #[error(transparent)]
    Train(#[from] regard_train::Error),

    /// The model is none that does what was asked for.
    #[error("{model} is {kind} ({family}); {asked} needs {needs}")]
    Unable { model: String, kind: String, family: String, asked: &'static str, needs: &'static str },

    /// A run has not come to the weights that were asked for.
    #[error("{run} is a run without {what}; {advice}")]
    NotYet { run: String, what: &'static str, advice: String },

    /// A text has more tokens than the model has room for.
    #[error("text {number} has {tokens} tokens, the model has room for {room}; {advice}")]
    TooLong { number: usize, tokens: usize, room: usize, advice: &'static str },

    /// A file beside the model says something that cannot be.
    #[error("{path}: {what}; {advice}")]
    File { path: String, what: String, advice: String },

    /// The caller wanted no more.
    #[error("broken off after {done} of {all}")]
    Cancelled { done: usize, all: usize },

    #[error("{what}; {advice}")]
    Invalid { what: String, advice: String },
}

impl Error {
    pub(crate) fn invalid(what: impl Into<String>, advice: impl Into<String>) -> Error {
        Error::Invalid { what: what.into(), advice: advice.into() }
    }
}
