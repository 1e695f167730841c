//! What a model is asked to make of a text: the next token, a part that was cut out, tokens that were masked,
//! an answer. All of it is drawn by (seed, epoch, example), so that an example comes out the same in whatever
//! batch, order or thread it is made.

mod masked;
mod salient;
mod sentinels;
mod spans;

pub use masked::Masked;
pub use salient::{Line, Salient, facts};
pub use sentinels::Sentinels;
pub use spans::{Cut, Spans};

use crate::{Error, Result};

/// A target that counts for nothing: what losses ignore.
pub const IGNORE: i32 = -100;

/// What a model reads, and what it should say at each position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Example {
    /// The tokens.
    pub ids: Vec<u32>,
    /// As many targets; [`IGNORE`] where nothing is asked.
    pub targets: Vec<i32>,
}

impl Example {
    /// How many targets count.
    pub fn counted(&self) -> u64 {
        self.targets.iter().filter(|&&target| target != IGNORE).count() as u64
    }
}

/// Each token but the last, with the one that follows it as its target. A text of fewer than two tokens has
/// none.
pub fn next_token(ids: &[u32]) -> Example {
    match ids {
        [] => Example::default(),
        [all @ .., _] => {
            Example { ids: all.to_vec(), targets: ids[1..].iter().map(|&id| id as i32).collect() }
        }
    }
}

/// A question with its answer, both closed by `mark`: `question mark answer mark`. Targets begin with the
/// answer; the mark that ends it is the last.
pub fn answer(question: &[u32], answer: &[u32], mark: u32) -> Result<Example> {
    without_mark(question, mark)?;
    without_mark(answer, mark)?;
    let mut all = prompt(question, mark);
    all.extend_from_slice(answer);
    all.push(mark);
    let mut example = next_token(&all);
    example.targets[..question.len()].fill(IGNORE);
    Ok(example)
}

/// What a model is given to answer a question: `question mark`.
pub fn prompt(question: &[u32], mark: u32) -> Vec<u32> {
    let mut ids = question.to_vec();
    ids.push(mark);
    ids
}

/// The answer in `question mark answer mark …`: what stands between the first two marks, or all after the
/// first if there is no second.
pub fn answered(ids: &[u32], mark: u32) -> &[u32] {
    ids.split(|&id| id == mark).nth(1).unwrap_or(&[])
}

/// A mark that stands in the text already would make two texts look the same.
fn without_mark(ids: &[u32], mark: u32) -> Result<()> {
    match ids.iter().position(|&id| id == mark) {
        None => Ok(()),
        Some(position) => Err(Error::invalid(
            format!("the text has the token {mark} at position {position}, which is kept as a mark"),
            "take another token as the mark, or the token out of the text",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_token_is_the_target() {
        let example = next_token(&[5, 6, 7]);
        assert_eq!(example, Example { ids: vec![5, 6], targets: vec![6, 7] });
        assert_eq!(next_token(&[]), Example::default());
        assert_eq!(next_token(&[5]), Example::default());
    }

    #[test]
    fn targets_begin_with_the_answer() {
        let example = answer(&[10, 11, 12], &[20, 21], 1).unwrap();
        assert_eq!(example.ids, [10, 11, 12, 1, 20, 21]);
        assert_eq!(example.targets, [IGNORE, IGNORE, IGNORE, 20, 21, 1]);
        assert_eq!(example.counted(), 3);
        assert_eq!(prompt(&[10, 11, 12], 1), example.ids[..4]);
    }

    #[test]
    fn an_answer_stands_between_the_first_two_marks() {
        assert_eq!(answered(&[10, 1, 20, 21, 1, 30, 1], 1), [20, 21]);
        assert_eq!(answered(&[10, 1, 20, 21], 1), [20, 21]);
        assert_eq!(answered(&[10, 1], 1), [0; 0]);
        assert_eq!(answered(&[10], 1), [0; 0]);
    }

    #[test]
    fn a_mark_inside_of_a_text_is_an_error() {
        for result in [answer(&[10, 1], &[20], 1), answer(&[0, 10], &[20, 1], 1)] {
            let text = result.unwrap_err().to_string();
            assert!(
                text.contains("the text has the token 1 at position 1, which is kept as a mark"),
                "{text}"
            );
            assert!(text.contains("take another token as the mark"), "{text}");
        }
    }
}
