//! The span corruption of the birth-place study, for decoders of one stream: a text is cut to a random
//! length, one part of it is taken out, and the model is to say it at the end: `prefix mark suffix mark
//! masked`.

use super::{Example, next_token, without_mark};
use crate::draws::Draws;
use crate::{Error, Result};

/// The shortest length to which a text is cut.
const SHORTEST: usize = 4;

/// How a text is corrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spans {
    /// Of all draws.
    pub seed: u64,
    /// The token that stands for the missing part, and before it at the end.
    pub mark: u32,
    /// The most tokens of a corrupted text. Texts are cut to between 4 and 7/8 of this, evenly.
    pub context: usize,
    /// Whether one more mark closes the missing part.
    pub closed: bool,
    /// Whether texts stay whole as far as there is room, instead of being cut to a random length.
    pub whole: bool,
}

/// Where a text is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// How much of the text there is.
    pub length: usize,
    /// Where the missing part begins.
    pub start: usize,
    /// How long it is: a quarter of `length` in the mean.
    pub masked: usize,
}

impl Spans {
    /// Corruption for this context, closed as in the worked examples of the study.
    pub fn new(seed: u64, mark: u32, context: usize) -> Result<Spans> {
        let spans = Spans { seed, mark, context, closed: true, whole: false };
        match spans.longest() {
            SHORTEST.. => Ok(spans),
            _ => Err(Error::invalid(
                format!("a context of {context} tokens is too short for span corruption"),
                "give it 7 tokens at least: 4 of text and 3 marks",
            )),
        }
    }

    /// The greatest length to which a text is cut: 7/8 of the context, and room for the marks.
    fn longest(&self) -> usize {
        (self.context - self.context.div_ceil(8)).min(self.context.saturating_sub(3))
    }

    /// Where a text of this many tokens is cut. Of a whole one, the last mark is nobody's input: two of them
    /// need room.
    pub fn cut(&self, epoch: u64, example: u64, tokens: usize) -> Cut {
        let mut draws = Draws::new(self.seed, epoch, "corruption.spans", example);
        let choices = (self.longest() + 1).saturating_sub(SHORTEST);
        let drawn = SHORTEST + draws.below(choices);
        let length = if self.whole { tokens.min(self.context.saturating_sub(2)) } else { drawn.min(tokens) };
        // Evenly from 1 to m has the mean (m + 1) / 2, which is a quarter of the length for m = length / 2 -
        // 1. Where the length is odd, m is rounded up half of the time.
        let most = (length + draws.below(2)).saturating_sub(2) / 2;
        let masked = (1 + draws.below(most)).min(length);
        Cut { length, start: draws.below(length - masked + 1), masked }
    }

    /// `prefix mark suffix mark masked`, and one more mark if closed.
    pub fn corrupt(&self, epoch: u64, example: u64, ids: &[u32]) -> Result<Vec<u32>> {
        without_mark(ids, self.mark)?;
        let Cut { length, start, masked } = self.cut(epoch, example, ids.len());
        let (prefix, rest) = ids[..length].split_at(start);
        let (masked, suffix) = rest.split_at(masked);
        let mark: &[u32] = &[self.mark];
        let closing = if self.closed { mark } else { &[] };
        Ok([prefix, mark, suffix, mark, masked, closing].concat())
    }

    /// A corrupted text whose every token is to be predicted from those before it.
    pub fn example(&self, epoch: u64, example: u64, ids: &[u32]) -> Result<Example> {
        Ok(next_token(&self.corrupt(epoch, example, ids)?))
    }

    /// The text that was corrupted, as far as it was not cut off.
    pub fn restore(&self, corrupted: &[u32]) -> Result<Vec<u32>> {
        let parts: Vec<&[u32]> = corrupted.split(|&id| id == self.mark).collect();
        match (parts.as_slice(), self.closed) {
            ([prefix, suffix, masked], false) | ([prefix, suffix, masked, []], true) => {
                Ok([*prefix, *masked, *suffix].concat())
            }
            _ => Err(Error::invalid(
                format!("this is no corrupted text: it has {} marks", parts.len() - 1),
                "give what `corrupt` gave, without padding",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(length: usize) -> Vec<u32> {
        (0..length as u32).map(|i| 2 + i).collect()
    }

    #[test]
    fn restoring_undoes_corrupting() {
        for closed in [false, true] {
            let spans = Spans { closed, ..Spans::new(3, 1, 128).unwrap() };
            for example in 0..2000 {
                let ids = text(example as usize % 150);
                let cut = spans.cut(7, example, ids.len());
                let corrupted = spans.corrupt(7, example, &ids).unwrap();
                assert_eq!(spans.restore(&corrupted).unwrap(), ids[..cut.length]);
                assert_eq!(corrupted.len(), cut.length + 2 + closed as usize);
                assert!(corrupted.len() <= 128);
                let at_end = &corrupted[cut.length + 2 - cut.masked..][..cut.masked];
                assert_eq!(at_end, &ids[cut.start..cut.start + cut.masked]);
            }
        }
    }

    #[test]
    fn lengths_are_even_and_a_quarter_is_masked() {
        const N: u64 = 20_000;
        let spans = Spans::new(11, 1, 128).unwrap();
        let cuts: Vec<Cut> = (0..N).map(|example| spans.cut(0, example, 500)).collect();
        assert_eq!(cuts.iter().map(|cut| cut.length).min(), Some(4));
        assert_eq!(cuts.iter().map(|cut| cut.length).max(), Some(112));
        let mean = |of: &dyn Fn(&Cut) -> f64| cuts.iter().map(of).sum::<f64>() / N as f64;
        // Evenly over 4..=112: the mean is 58, the standard deviation 31.5; five standard errors are 1.12.
        let length = mean(&|cut| cut.length as f64);
        assert!((length - 58.0).abs() < 1.12, "{length}");
        // Given the length, the share is about even over (0, 1/2): a standard deviation of 0.145 at most.
        let share = mean(&|cut| cut.masked as f64 / cut.length as f64);
        assert!((share - 0.25).abs() < 0.0052, "{share}");
        // The missing part is nowhere rather than elsewhere: its beginning is even over what is left.
        let place = mean(&|cut| cut.start as f64 / (cut.length - cut.masked) as f64);
        assert!((place - 0.5).abs() < 0.013, "{place}");
    }

    #[test]
    fn a_quarter_is_masked_at_every_length() {
        const N: u64 = 4000;
        let spans = Spans::new(11, 1, 1000).unwrap();
        for length in [4, 5, 6, 7, 9, 20] {
            // Texts that are shorter than what is drawn for them keep their length.
            let masked =
                (0..N).map(|example| spans.cut(1, example, length)).filter(|cut| cut.length == length);
            let masked: Vec<f64> = masked.map(|cut| cut.masked as f64).collect();
            let mean = masked.iter().sum::<f64>() / masked.len() as f64;
            let bound = 5.0 * 0.145 * length as f64 / (masked.len() as f64).sqrt();
            assert!((mean - length as f64 / 4.0).abs() <= bound, "{length}: {mean}");
        }
    }

    #[test]
    fn short_texts_are_corrupted_too() {
        let spans = Spans { closed: false, ..Spans::new(3, 1, 128).unwrap() };
        assert_eq!(spans.corrupt(0, 0, &[]).unwrap(), [1, 1]);
        assert_eq!(spans.corrupt(0, 0, &[9]).unwrap(), [1, 1, 9]);
        assert_eq!(spans.example(0, 0, &[9]).unwrap().counted(), 2);
    }

    #[test]
    fn the_shortest_context_has_room_for_all_marks() {
        let spans = Spans::new(3, 1, 7).unwrap();
        for example in 0..200 {
            assert!(spans.corrupt(0, example, &text(50)).unwrap().len() <= 7);
        }
    }

    #[test]
    fn epochs_and_examples_differ_and_repeat() {
        let spans = Spans::new(3, 1, 128).unwrap();
        let ids = text(200);
        let one = spans.corrupt(4, 5, &ids).unwrap();
        assert_eq!(one, spans.corrupt(4, 5, &ids).unwrap());
        assert_ne!(one, spans.corrupt(5, 5, &ids).unwrap());
        assert_ne!(one, spans.corrupt(4, 6, &ids).unwrap());
        assert_ne!(one, Spans { seed: 4, ..spans }.corrupt(4, 5, &ids).unwrap());
    }

    #[test]
    fn nonsense_is_refused() {
        let text = Spans::new(0, 1, 6).unwrap_err().to_string();
        assert!(text.contains("a context of 6 tokens is too short for span corruption"), "{text}");
        let spans = Spans::new(0, 1, 8).unwrap();
        let text = spans.corrupt(0, 0, &[2, 3, 1]).unwrap_err().to_string();
        assert!(text.contains("the token 1 at position 2"), "{text}");
        let text = spans.example(0, 0, &[1, 2, 3]).unwrap_err().to_string();
        assert!(text.contains("the token 1 at position 0"), "{text}");
        let text = spans.restore(&[2, 1, 3]).unwrap_err().to_string();
        assert!(text.contains("this is no corrupted text: it has 1 marks"), "{text}");
    }
}
