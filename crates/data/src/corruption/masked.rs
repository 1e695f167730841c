//! Masked tokens as in BERT (Devlin et al. 2019): of the tokens chosen, 80 % become the mask, 10 % some other
//! token, 10 % stay as they are; the model is to say what they were.

use super::{Example, IGNORE};
use crate::draws::Draws;
use crate::{Error, Result};

/// How tokens are masked.
#[derive(Clone, Debug, PartialEq)]
pub struct Masked {
    seed: u64,
    mask: u32,
    rate: f64,
    /// True for ids that are never chosen, nor put in place of others; as many as there are ids.
    special: Vec<bool>,
    /// The ids that can be put in place of others.
    ordinary: Vec<u32>,
}

impl Masked {
    /// Masking at a rate of 0.15, with tokens of `0..vocabulary`. `special` are the ids that are left alone:
    /// padding, the beginning and end of texts; the mask is one of them.
    pub fn new(seed: u64, mask: u32, vocabulary: usize, special: &[u32]) -> Result<Masked> {
        if vocabulary > i32::MAX as usize {
            return Err(Error::invalid(
                format!("{vocabulary} tokens are more than ids can count"),
                "give the size of the vocabulary",
            ));
        }
        let mut marks = vec![false; vocabulary];
        for &id in special.iter().chain([&mask]) {
            match marks.get_mut(id as usize) {
                Some(mark) => *mark = true,
                None => {
                    return Err(Error::invalid(
                        format!("the special token {id} is not among {vocabulary} tokens"),
                        "give ids below the size of the vocabulary",
                    ));
                }
            }
        }
        let ordinary: Vec<u32> = (0..vocabulary as u32).filter(|&id| !marks[id as usize]).collect();
        if ordinary.is_empty() {
            return Err(Error::invalid(
                format!("all {vocabulary} tokens are special: none can be masked"),
                "give only those as special that stand around texts",
            ));
        }
        Ok(Masked { seed, mask, rate: 0.15, special: marks, ordinary })
    }

    /// The same at another rate.
    pub fn with_rate(self, rate: f64) -> Result<Masked> {
        match rate > 0.0 && rate <= 1.0 {
            true => Ok(Masked { rate, ..self }),
            false => Err(Error::invalid(
                format!("tokens cannot be masked at a rate of {rate}"),
                "choose a rate above 0, at most 1",
            )),
        }
    }

    /// The text with tokens masked; targets are what the chosen tokens were. Each token is chosen by itself,
    /// so that a short text may have no target.
    pub fn example(&self, epoch: u64, example: u64, ids: &[u32]) -> Result<Example> {
        let mut draws = Draws::new(self.seed, epoch, "corruption.masked", example);
        let mut out = Example { ids: ids.to_vec(), targets: vec![IGNORE; ids.len()] };
        for (position, &id) in ids.iter().enumerate() {
            let special = *self.special.get(id as usize).ok_or_else(|| {
                Error::invalid(
                    format!(
                        "the token {id} at position {position} is not among {} tokens",
                        self.special.len()
                    ),
                    "take the vocabulary of the tokenizer that made the text",
                )
            })?;
            // Always the same number of draws: what is special does not change what happens to the tokens
            // after it.
            let (chosen, what, other) =
                (draws.unit() < self.rate, draws.unit(), draws.below(self.ordinary.len()));
            if special || !chosen {
                continue;
            }
            out.targets[position] = id as i32;
            out.ids[position] = match what {
                w if w < 0.8 => self.mask,
                w if w < 0.9 => self.ordinary[other],
                _ => id,
            };
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_80_10_10_of_15_and_special_tokens_stay() {
        const TEXTS: u64 = 500;
        let masked = Masked::new(21, 4, 1005, &[0, 1, 2, 3]).unwrap();
        let text: Vec<u32> = [1].into_iter().chain(5..205).chain([2, 0, 0]).collect();
        let (mut chosen, mut mask, mut other, mut same) = (0u32, 0u32, 0u32, 0u32);
        for number in 0..TEXTS {
            let example = masked.example(3, number, &text).unwrap();
            for ((&was, &is), &target) in text.iter().zip(&example.ids).zip(&example.targets) {
                if target == IGNORE {
                    assert_eq!(was, is);
                    continue;
                }
                assert!(was > 4 && target == was as i32);
                chosen += 1;
                match is {
                    4 => mask += 1,
                    is if is == was => same += 1,
                    is => {
                        assert!(is > 4);
                        other += 1;
                    }
                }
            }
        }
        // 100,000 ordinary tokens; five standard deviations each of the binomials.
        let tokens = (TEXTS * 200) as f64;
        let near = |count: u32, of: f64, rate: f64| {
            let bound = 5.0 * (of * rate * (1.0 - rate)).sqrt();
            assert!((count as f64 - of * rate).abs() < bound, "{count} of {of}, {rate}");
        };
        near(chosen, tokens, 0.15);
        near(mask, chosen as f64, 0.8);
        // One in a thousand of the other tokens happens to be the same.
        near(other, chosen as f64, 0.1 * 0.999);
        near(same, chosen as f64, 0.1 + 0.1 * 0.001);
    }

    #[test]
    fn a_rate_of_one_chooses_all() {
        let masked = Masked::new(1, 0, 50, &[]).unwrap().with_rate(1.0).unwrap();
        let text: Vec<u32> = (1..50).collect();
        assert_eq!(masked.example(0, 0, &text).unwrap().counted(), 49);
    }

    #[test]
    fn epochs_and_examples_differ_and_repeat() {
        let masked = Masked::new(1, 0, 50, &[]).unwrap();
        let text: Vec<u32> = (1..50).collect();
        let make = |epoch, example| masked.example(epoch, example, &text).unwrap();
        assert_eq!(make(1, 2), make(1, 2));
        assert_ne!(make(1, 2), make(2, 2));
        assert_ne!(make(1, 2), make(1, 3));
    }

    #[test]
    fn nonsense_is_refused() {
        let check = |text: String, part: &str| assert!(text.contains(part), "{text}");
        let text = Masked::new(0, 9, 9, &[]).unwrap_err().to_string();
        check(text, "the special token 9 is not among 9 tokens");
        let text = Masked::new(0, 0, usize::MAX, &[]).unwrap_err().to_string();
        check(text, "18446744073709551615 tokens are more than ids can count");
        let text = Masked::new(0, 0, 2, &[1]).unwrap_err().to_string();
        check(text, "all 2 tokens are special: none can be masked");
        let masked = Masked::new(0, 0, 9, &[]).unwrap();
        let text = masked.clone().with_rate(0.0).unwrap_err().to_string();
        check(text, "tokens cannot be masked at a rate of 0;");
        let text = masked.example(0, 0, &[1, 9]).unwrap_err().to_string();
        check(text, "the token 9 at position 1 is not among 9 tokens");
    }
}
