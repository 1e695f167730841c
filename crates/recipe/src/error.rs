//! What can be wrong between a recipe and a run: what the rooms below say, and what only a recipe can get
//! wrong.

/// The result of a fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can be wrong with a recipe, or with what it asks for.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentence above each variant
pub enum Error {
    #[error(transparent)]
    Data(#[from] regard_data::Error),

    #[error(transparent)]
    Engine(#[from] regard_engine::Error),

    #[error(transparent)]
    Evaluate(#[from] regard_evaluate::Error),

    #[error(transparent)]
    Generate(#[from] regard_generate::Error),

    #[error(transparent)]
    Hub(#[from] regard_hub::Error),

    #[error(transparent)]
    Model(#[from] regard_graph::Error),

    #[error(transparent)]
    Runtime(#[from] regard_runtime::Error),

    #[error(transparent)]
    Train(#[from] regard_train::Error),

    #[error("{place}: {what}; {advice}")]
    Recipe { place: String, what: String, advice: String },

    #[error("{what}; {advice}")]
    Invalid { what: String, advice: String },
}

impl Error {
    /// Something that does not fit, and what to do.
    pub fn invalid(what: impl Into<String>, advice: impl Into<String>) -> Error {
        Error::Invalid { what: what.into(), advice: advice.into() }
    }

    /// Something wrong at a place of a recipe: `recipes/x.toml:12` or `train.lr=x`.
    pub(crate) fn at(place: &str, what: impl Into<String>, advice: impl Into<String>) -> Error {
        Error::Recipe { place: place.into(), what: what.into(), advice: advice.into() }
    }
}
