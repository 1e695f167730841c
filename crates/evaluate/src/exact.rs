//! Shares of predictions that are right: of classes, and of texts.

use crate::Result;
use crate::error::paired;

/// The mark around an answer in the birth-place study: `question⁇answer⁇`.
pub const MASK: char = '\u{2047}';

/// The share of predictions that equal their answer.
pub fn accuracy<T: PartialEq>(predictions: &[T], answers: &[T]) -> Result<f64> {
    paired("accuracy", predictions.len(), answers.len())?;
    let right = predictions.iter().zip(answers).filter(|(prediction, answer)| prediction == answer).count();
    Ok(right as f64 / answers.len() as f64)
}

/// The share of texts that equal their answer, to the character.
pub fn exact_match<P: AsRef<str>, A: AsRef<str>>(predictions: &[P], answers: &[A]) -> Result<f64> {
    paired("exact match", predictions.len(), answers.len())?;
    let same = |(prediction, answer): &(&P, &A)| prediction.as_ref() == answer.as_ref();
    Ok(predictions.iter().zip(answers).filter(same).count() as f64 / answers.len() as f64)
}

/// What a generated text answers by the study's rule: what stands between its first two [`MASK`]s, or all
/// that follows the first where there is no second. None without a mark.
pub fn marked_answer(text: &str) -> Option<&str> {
    text.split(MASK).nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_what_is_right() {
        assert_eq!(accuracy(&[1, 2, 3, 4], &[1, 0, 3, 0]), Ok(0.5));
        assert_eq!(exact_match(&["a", "b ", "C"], &["a", "b", "c"]), Ok(1.0 / 3.0));
    }

    #[test]
    fn an_answer_stands_between_the_first_two_marks() {
        assert_eq!(marked_answer("Where was Ada born?⁇London⁇⁇⁇□□"), Some("London"));
        assert_eq!(marked_answer("Where was Ada born?⁇⁇London"), Some(""));
        assert_eq!(marked_answer("Where was Ada born?⁇London"), Some("London"));
        assert_eq!(marked_answer("Where was Ada born?"), None);
    }

    #[test]
    fn predictions_without_a_partner_are_refused() {
        assert_eq!(
            accuracy(&[1], &[1, 2]).unwrap_err().to_string(),
            "accuracy: 1 predictions for 2 answers; give each answer its prediction, in the same order"
        );
        assert_eq!(
            exact_match::<&str, &str>(&[], &[]).unwrap_err().to_string(),
            "exact match: there are no predictions; give at least one"
        );
    }
}
