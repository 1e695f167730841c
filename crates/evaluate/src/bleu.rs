//! BLEU (Papineni et al., 2002) as sacrebleu computes it (Post, 2018): the geometric mean of n-gram
//! precisions, times a penalty for being shorter than the references. n-grams count as often as in the one
//! reference that has most of them; the length that counts is that of the reference nearest in length, the
//! shorter of two.

use crate::error::paired;
use crate::ngrams::{Counts, count, shared, total};
use crate::tokens::{Tokens, is_space};
use crate::{Error, Result};
use std::collections::HashMap;
use std::fmt;

/// N, the longest n-grams.
const ORDERS: usize = 4;

/// The settings. The default is sacrebleu's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bleu {
    /// How lines are cut into words.
    pub tokens: Tokens,
    /// Whether upper and lower case are the same.
    pub lowercase: bool,
    /// What becomes of orders without a match.
    pub smoothing: Smoothing,
    /// Only orders that the hypotheses are long enough for: for single sentences. [`Bleu::sentence`] sets it.
    pub effective_order: bool,
}

/// What becomes of orders without a match (Chen and Cherry, 2014).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Smoothing {
    /// 1/2, 1/4, 1/8 … of a match.
    #[default]
    Exponential,
    /// This part of a match; usually 0.1.
    Floor(f64),
    /// This many more matches and n-grams for all orders from 2 on; usually 1.
    AddK(f64),
    /// Nothing: the score is 0.
    None,
}

/// A score, and what it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct BleuScore {
    /// From 0 to 100.
    pub score: f64,
    /// Of 1-grams to 4-grams, from 0 to 100.
    pub precisions: [f64; ORDERS],
    /// 1, or less where hypotheses are too short.
    pub brevity_penalty: f64,
    /// Words of the hypotheses.
    pub length: u64,
    /// Words of the references.
    pub reference_length: u64,
}

/// What the score of a corpus is made of: sums over its segments.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    length: u64,
    reference_length: u64,
    right: [u64; ORDERS],
    all: [u64; ORDERS],
}

impl Bleu {
    /// The score of a corpus. `references[i]` are those of hypothesis i, at least one.
    pub fn corpus<H: AsRef<str>, R: AsRef<str>>(
        &self,
        hypotheses: &[H],
        references: &[Vec<R>],
    ) -> Result<BleuScore> {
        check_segments("BLEU", hypotheses.len(), references)?;
        self.check()?;
        let mut sums = Sums::default();
        for (hypothesis, references) in hypotheses.iter().zip(references) {
            self.segment(hypothesis.as_ref(), references, &mut sums);
        }
        Ok(self.score(&sums))
    }

    /// The score of one sentence, of orders that it is long enough for.
    pub fn sentence<R: AsRef<str>>(&self, hypothesis: &str, references: &[R]) -> Result<BleuScore> {
        let references: Vec<&str> = references.iter().map(AsRef::as_ref).collect();
        Bleu { effective_order: true, ..*self }.corpus(&[hypothesis], &[references])
    }

    /// How a score came about, as sacrebleu writes it:
    /// `nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:…`.
    pub fn signature<R>(&self, references: &[Vec<R>]) -> String {
        let smoothing = match self.smoothing {
            Smoothing::Exponential => "exp".to_owned(),
            Smoothing::Floor(value) => format!("floor[{value:.2}]"),
            Smoothing::AddK(value) => format!("add-k[{value:.2}]"),
            Smoothing::None => "none".to_owned(),
        };
        format!(
            "nrefs:{}|case:{}|eff:{}|tok:{}|smooth:{smoothing}|version:{VERSION}",
            count_of_references(references),
            if self.lowercase { "lc" } else { "mixed" },
            if self.effective_order { "yes" } else { "no" },
            self.tokens.name(),
        )
    }

    fn check(&self) -> Result<()> {
        match self.smoothing {
            Smoothing::Floor(value) | Smoothing::AddK(value) if !(value.is_finite() && value >= 0.0) => {
                let what = format!("the smoothing value is {value}");
                Err(Error::invalid("BLEU", what, "choose 0 or more; usual are 0.1 for floor, 1 for add-k"))
            }
            _ => Ok(()),
        }
    }

    fn words(&self, line: &str) -> Vec<String> {
        let line = if self.lowercase { line.to_lowercase() } else { line.to_owned() };
        self.tokens.cut(line.trim_end_matches(is_space))
    }

    fn segment<R: AsRef<str>>(&self, hypothesis: &str, references: &[R], sums: &mut Sums) {
        let hypothesis = self.words(hypothesis);
        let references: Vec<Vec<String>> = references.iter().map(|line| self.words(line.as_ref())).collect();
        let nearest = references.iter().map(Vec::len).min_by_key(|&n| (n.abs_diff(hypothesis.len()), n));
        sums.length += hypothesis.len() as u64;
        sums.reference_length += nearest.unwrap_or(0) as u64;
        for n in 1..=ORDERS {
            let mut most: Counts<'_, String> = HashMap::new();
            for (run, found) in references.iter().flat_map(|reference| count(reference, n)) {
                let known = most.entry(run).or_insert(0);
                *known = found.max(*known);
            }
            sums.right[n - 1] += shared(&count(&hypothesis, n), &most);
            sums.all[n - 1] += total(&hypothesis, n);
        }
    }

    fn score(&self, sums: &Sums) -> BleuScore {
        let Sums { length, reference_length, right, all } = *sums;
        let brevity_penalty = match length {
            0 if reference_length > 0 => 0.0,
            _ if length < reference_length => (1.0 - reference_length as f64 / length as f64).exp(),
            _ => 1.0,
        };
        let mut precisions = [0.0; ORDERS];
        let mut score = BleuScore { score: 0.0, precisions, brevity_penalty, length, reference_length };
        if right == [0; ORDERS] {
            return score;
        }
        let (mut halved, mut orders) = (1.0, ORDERS);
        for (at, precision) in precisions.iter_mut().enumerate() {
            let more = match self.smoothing {
                Smoothing::AddK(k) if at > 0 => k,
                _ => 0.0,
            };
            let (right, all) = (right[at] as f64 + more, all[at] as f64 + more);
            if all == 0.0 {
                break;
            }
            if self.effective_order {
                orders = at + 1;
            }
            let matches = match self.smoothing {
                _ if right > 0.0 => right,
                Smoothing::Exponential => {
                    halved /= 2.0;
                    halved
                }
                Smoothing::Floor(value) => value,
                _ => 0.0,
            };
            *precision = 100.0 * matches / all;
        }
        let logs: f64 = precisions[..orders].iter().map(|precision| precision.ln()).sum();
        score.precisions = precisions;
        score.score = brevity_penalty * (logs / orders as f64).exp();
        score
    }
}

/// As sacrebleu prints it, with two digits.
impl fmt::Display for BleuScore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BleuScore { score, brevity_penalty, length, reference_length, .. } = self;
        let precisions = self.precisions.map(|precision| format!("{precision:.1}")).join("/");
        let ratio = if *reference_length == 0 { 0.0 } else { *length as f64 / *reference_length as f64 };
        write!(
            f,
            "BLEU = {score:.2} {precisions} (BP = {brevity_penalty:.3} ratio = {ratio:.3} hyp_len = {length} \
             ref_len = {reference_length})"
        )
    }
}

/// What follows `version:` in signatures: these are our numbers, if equal ones.
pub(crate) const VERSION: &str = concat!("regard-", env!("CARGO_PKG_VERSION"));

/// How many references each hypothesis has, or `var`.
pub(crate) fn count_of_references<R>(references: &[Vec<R>]) -> String {
    match references {
        [first, rest @ ..] if rest.iter().all(|own| own.len() == first.len()) => first.len().to_string(),
        _ => "var".into(),
    }
}

pub(crate) fn check_segments<R>(
    metric: &'static str,
    hypotheses: usize,
    references: &[Vec<R>],
) -> Result<()> {
    paired(metric, hypotheses, references.len())?;
    if let Some(row) = references.iter().position(Vec::is_empty) {
        let what = format!("hypothesis {row} has no reference");
        return Err(Error::invalid(metric, what, "give it at least one"));
    }
    Ok(())
}
