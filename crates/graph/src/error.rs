//! What can be wrong with a recording. Every text names the op, the operand, what was expected, what was
//! given, and what to do about it.

use strsim::levenshtein;

/// The result of a fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can be wrong with a recording, or with the sizes of a replay.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentence above each variant
pub enum Error {
    #[error("{op}: {operand} is {got}, expected {expected}{origin}")]
    Shape { op: String, operand: String, got: String, expected: String, origin: String },

    #[error("{op}: {operand} is {got}, expected {expected}; {advice}")]
    DType { op: String, operand: String, got: String, expected: String, advice: String },

    #[error("{op}: {what}; {advice}")]
    Invalid { op: String, what: String, advice: String },

    #[error(
        "{op}: no derivative exists with respect to {operand}: {reason}; use stop_gradient if none is wanted"
    )]
    NoGradient { op: String, operand: String, reason: String },

    #[error("{op}: reads `{name}` as it was before {by} replaced it; use the value that {by} returned")]
    StaleState { op: String, name: String, by: String },

    #[error("{op}: operand {operand} belongs to another graph; record it in this one")]
    ForeignVar { op: String, operand: usize },

    #[error("{kind} `{name}` is declared twice: {first}, then {second}; give one of them another name")]
    Duplicate { kind: String, name: String, first: String, second: String },

    #[error("no {kind} is called `{name}`{nearest}")]
    Unknown { kind: String, name: String, nearest: String },

    #[error("size: the letter {letter} is open and has no size yet; feed an input whose shape has {letter}")]
    SizeMissing { letter: char },

    #[error(
        "size: {letter} = {got} is over the bound {bound} that the program was planned for; record it with a larger bound"
    )]
    OverBound { letter: char, bound: usize, got: usize },

    #[error("size: {letter} is {known} in one input and {got} in another; inputs of one run must agree")]
    SizeConflict { letter: char, known: usize, got: usize },

    #[error("size: no room for the open letter {letter}: a program has at most {most}; fix the size of one")]
    TooManyLetters { letter: char, most: usize },
}

impl Error {
    /// An [`Error::Invalid`]: what is wrong with the op's settings or operands, and what to do.
    pub fn invalid(op: &str, what: impl Into<String>, advice: impl Into<String>) -> Error {
        Error::Invalid { op: op.into(), what: what.into(), advice: advice.into() }
    }

    /// An [`Error::Unknown`] that offers the nearest of the known names.
    pub fn unknown<'a>(kind: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Error {
        let nearest = format!("; {}", offer(kind, name, known));
        Error::Unknown { kind: kind.into(), name: name.into(), nearest }
    }
}

/// The known name that somebody who wrote `name` most likely meant, if one is near enough.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |k: &&str| levenshtein(name, k);
    known.into_iter().min_by_key(distance).filter(|k| distance(k) <= 1 + name.len() / 3)
}

/// What to say after an unknown name: the nearest one, or those there are.
pub fn offer<'a>(kind: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    if known.is_empty() {
        return format!("there is no {kind} here");
    }
    if let Some(k) = nearest(name, known.iter().copied()) {
        return format!("did you mean `{k}`?");
    }
    let shown: Vec<String> = known.iter().take(8).map(|k| format!("`{k}`")).collect();
    let more = if known.len() > 8 { format!(" and {} more", known.len() - 8) } else { String::new() };
    format!("there are {}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_offer_the_nearest() {
        let known = ["loss", "logits", "block.0.attention.pattern"];
        assert_eq!(
            Error::unknown("output", "lossy", known).to_string(),
            "no output is called `lossy`; did you mean `loss`?"
        );
        assert_eq!(
            Error::unknown("output", "zebra", ["loss", "logits"]).to_string(),
            "no output is called `zebra`; there are `loss`, `logits`"
        );
        assert_eq!(Error::unknown("tap", "x", []).to_string(), "no tap is called `x`; there is no tap here");
        assert_eq!((nearest("lossy", known), nearest("zebra", known)), (Some("loss"), None));
        assert_eq!(
            offer("tap", "zebra", ["a"; 9]),
            "there are `a`, `a`, `a`, `a`, `a`, `a`, `a`, `a` and 1 more"
        );
    }
}
