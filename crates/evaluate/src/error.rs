//! What can be wrong with predictions. Every text says what was found and what to do about it.

/// The result of a fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can be wrong with predictions.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentence above each variant
pub enum Error {
    #[error("{metric}: {what}; {advice}")]
    Invalid { metric: &'static str, what: String, advice: String },
}

impl Error {
    pub(crate) fn invalid(metric: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Error {
        Error::Invalid { metric, what: what.into(), advice: advice.into() }
    }
}

/// Refuses nothing at all, and predictions without a partner.
pub(crate) fn paired(metric: &'static str, predictions: usize, answers: usize) -> Result<()> {
    if predictions != answers {
        let what = format!("{predictions} predictions for {answers} answers");
        return Err(Error::invalid(metric, what, "give each answer its prediction, in the same order"));
    }
    if predictions == 0 {
        return Err(Error::invalid(metric, "there are no predictions", "give at least one"));
    }
    Ok(())
}
