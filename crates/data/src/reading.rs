//! Retrieve and read: a question with the line that answers it before it, so that a model can learn to find
//! the answer there instead of remembering it. `line end-of-line question mark answer mark`.
//!
//! In a share of the examples the answer is exchanged, in the line as well, for another one, or for one that
//! nobody has: the beginning of one and the end of another. Whoever knows places by heart is wrong then, and
//! whoever reads is right, also what was never read before.

use crate::corruption::{Example, answer};
use crate::draws::Draws;
use crate::{Error, Result};

/// A line, and the question below it.
pub fn passage(line: &str, question: &str) -> String {
    match line.is_empty() {
        true => question.into(),
        false => format!("{line}\n{question}"),
    }
}

/// A question with what there is to read, as numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// The line, with its end.
    pub line: Vec<u32>,
    /// The question.
    pub question: Vec<u32>,
    /// The answer.
    pub answer: Vec<u32>,
}

/// How passages become examples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Of all draws.
    pub seed: u64,
    /// The token that closes question and answer.
    pub mark: u32,
    /// The most tokens of an example: what a line has beyond is cut at its end.
    pub room: usize,
    /// The share of examples whose answer is exchanged.
    pub exchanged: f64,
}

impl Reading {
    /// Refuses a share that is none.
    pub fn new(seed: u64, mark: u32, room: usize, exchanged: f64) -> Result<Reading> {
        if !(0.0..=1.0).contains(&exchanged) {
            return Err(Error::invalid(
                format!("answers are exchanged in a share of {exchanged}"),
                "choose from 0 to 1",
            ));
        }
        Ok(Reading { seed, mark, room, exchanged })
    }

    /// One passage of all as an example; with another answer, in its share of epochs, if the line has its
    /// own.
    pub fn example(&self, epoch: u64, number: usize, all: &[Passage]) -> Result<Example> {
        let own = &all[number];
        let mut draws = Draws::new(self.seed, epoch, "reading.exchange", number as u64);
        if draws.unit() < self.exchanged && !own.answer.is_empty() {
            let other = exchanged(&mut draws, all);
            let line = replaced(&own.line, &own.answer, &other);
            let fits = own.question.len() + other.len() < self.room;
            if fits && !other.is_empty() && line != own.line {
                return self.assembled(&line, &own.question, &other);
            }
        }
        self.assembled(&own.line, &own.question, &own.answer)
    }

    fn assembled(&self, line: &[u32], question: &[u32], right: &[u32]) -> Result<Example> {
        // The last mark is a target only, and takes no room.
        let asked = question.len() + right.len() + 1;
        let left = self.room.checked_sub(asked).ok_or_else(|| {
            Error::invalid(
                format!("a question of {asked} tokens with its answer"),
                format!("the model has room for {}: give it a longer context", self.room),
            )
        })?;
        let line = match line.len() <= left {
            true => line.to_vec(),
            // What ends the line stays.
            false => [&line[..left.saturating_sub(1)], &line[line.len() - left.min(1)..]].concat(),
        };
        answer(&[&line, question].concat(), right, self.mark)
    }
}

/// Another answer: as often one of all, as the beginning of one and the end of another.
fn exchanged(draws: &mut Draws, all: &[Passage]) -> Vec<u32> {
    let one = &all[draws.below(all.len())].answer;
    let two = &all[draws.below(all.len())].answer;
    if draws.below(2) == 0 || one.is_empty() {
        return one.clone();
    }
    let head = &one[..1 + draws.below(one.len())];
    [head, &two[draws.below(two.len() + 1)..]].concat()
}

/// A text in which every place of one run of tokens has another.
fn replaced(text: &[u32], old: &[u32], new: &[u32]) -> Vec<u32> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        if rest.starts_with(old) {
            out.extend(new);
            rest = &rest[old.len()..];
        } else {
            out.push(rest[0]);
            rest = &rest[1..];
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corruption::IGNORE;

    fn passages() -> Vec<Passage> {
        let one = |line: &[u32], answer: &[u32]| Passage {
            line: line.to_vec(),
            question: vec![20, 21],
            answer: answer.to_vec(),
        };
        vec![one(&[10, 30, 31, 11, 9], &[30, 31]), one(&[12, 40, 9], &[40]), one(&[13, 9], &[50])]
    }

    #[test]
    fn a_line_stands_before_its_question() {
        assert_eq!(passage("Ada, born in London.", "Where?"), "Ada, born in London.\nWhere?");
        assert_eq!(passage("", "Where?"), "Where?");
        let example = Reading::new(3, 1, 100, 0.0).unwrap().example(0, 0, &passages()).unwrap();
        assert_eq!(example.ids, [10, 30, 31, 11, 9, 20, 21, 1, 30, 31]);
        let ignored = [IGNORE; 7];
        assert_eq!(example.targets, [&ignored[..], &[30, 31, 1]].concat());
    }

    #[test]
    fn answers_are_exchanged_in_the_line_as_well() {
        let reading = Reading::new(3, 1, 100, 0.5).unwrap();
        let (mut exchanged, epochs) = (0, 2000);
        for epoch in 0..epochs {
            let example = reading.example(epoch, 0, &passages()).unwrap();
            assert_eq!(example, reading.example(epoch, 0, &passages()).unwrap());
            let text = example.ids.split(|&id| id == 1).collect::<Vec<_>>();
            assert!(text[0].windows(text[1].len()).any(|own| own == text[1]), "{example:?}");
            exchanged += usize::from(text[1] != [30, 31]);
        }
        // A half: of its whole answers a third is the own one, of its mixed ones 5 of 54. Five standard
        // errors are 0.055.
        let share = exchanged as f64 / epochs as f64;
        let expected = 0.25 * (2.0 / 3.0) + 0.25 * (49.0 / 54.0);
        assert!((share - expected).abs() < 0.055, "{share}");
        // A line that does not have its answer keeps it.
        for epoch in 0..50 {
            assert!(reading.example(epoch, 2, &passages()).unwrap().ids.ends_with(&[1, 50]));
        }
    }

    #[test]
    fn what_does_not_fit_is_cut_or_refused() {
        let reading = |room| Reading::new(3, 1, room, 0.0).unwrap().example(0, 0, &passages());
        assert_eq!(reading(8).unwrap().ids, [10, 30, 9, 20, 21, 1, 30, 31]);
        assert_eq!(reading(6).unwrap().ids, [9, 20, 21, 1, 30, 31]);
        assert_eq!(reading(5).unwrap().ids, [20, 21, 1, 30, 31]);
        assert_eq!(
            reading(4).unwrap_err().to_string(),
            "a question of 5 tokens with its answer; the model has room for 4: give it a longer context"
        );
        assert_eq!(
            Reading::new(3, 1, 9, 1.5).unwrap_err().to_string(),
            "answers are exchanged in a share of 1.5; choose from 0 to 1"
        );
    }
}
