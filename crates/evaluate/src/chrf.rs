//! chrF (Popović, 2015) and chrF++ (2017) as sacrebleu computes them: the F-score of character n-grams, and
//! of word n-grams for chrF++. Precisions and recalls are averaged over the orders that both sides are long
//! enough for; of several references the one with the best score counts.

use crate::Result;
use crate::bleu::{VERSION, check_segments, count_of_references};
use crate::ngrams::{count, shared, total};
use crate::tokens::words;
use std::hash::Hash;

/// The settings. The default is chrF; [`Chrf::plus_plus`] is chrF++.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chrf {
    /// The longest runs of characters.
    pub characters: usize,
    /// The longest runs of words; 0 is chrF, 2 is chrF++.
    pub words: usize,
    /// How many times as important recall is as precision.
    pub beta: f64,
    /// Whether upper and lower case are the same.
    pub lowercase: bool,
    /// Whether spaces are characters, too.
    pub spaces: bool,
}

impl Default for Chrf {
    fn default() -> Self {
        Chrf { characters: 6, words: 0, beta: 2.0, lowercase: false, spaces: false }
    }
}

/// Of one order: n-grams of the hypothesis, of the reference, and of both.
#[derive(Clone, Copy, Debug, Default)]
struct Order {
    hypothesis: u64,
    reference: u64,
    both: u64,
}

impl Chrf {
    /// chrF++: characters and up to two words.
    pub fn plus_plus() -> Self {
        Chrf { words: 2, ..Chrf::default() }
    }

    /// The score of a corpus, from 0 to 100. `references[i]` are those of hypothesis i, at least one.
    pub fn corpus<H: AsRef<str>, R: AsRef<str>>(
        &self,
        hypotheses: &[H],
        references: &[Vec<R>],
    ) -> Result<f64> {
        check_segments("chrF", hypotheses.len(), references)?;
        let mut sums = vec![Order::default(); self.characters + self.words];
        for (hypothesis, references) in hypotheses.iter().zip(references) {
            for (sum, own) in sums.iter_mut().zip(self.best(hypothesis.as_ref(), references)) {
                sum.hypothesis += own.hypothesis;
                sum.reference += own.reference;
                sum.both += own.both;
            }
        }
        Ok(self.score(&sums))
    }

    /// The score of one sentence.
    pub fn sentence<R: AsRef<str>>(&self, hypothesis: &str, references: &[R]) -> Result<f64> {
        let references: Vec<&str> = references.iter().map(AsRef::as_ref).collect();
        self.corpus(&[hypothesis], &[references])
    }

    /// `chrF2`, `chrF2++`: the name with β.
    pub fn name(&self) -> String {
        format!("chrF{}{}", self.beta, "+".repeat(self.words))
    }

    /// How a score came about, as sacrebleu writes it.
    pub fn signature<R>(&self, references: &[Vec<R>]) -> String {
        format!(
            "nrefs:{}|case:{}|eff:yes|nc:{}|nw:{}|space:{}|version:{VERSION}",
            count_of_references(references),
            if self.lowercase { "lc" } else { "mixed" },
            self.characters,
            self.words,
            if self.spaces { "yes" } else { "no" },
        )
    }

    /// The orders of the reference with the best score, the first of equals.
    fn best<R: AsRef<str>>(&self, hypothesis: &str, references: &[R]) -> Vec<Order> {
        let hypothesis = self.prepare(hypothesis);
        let mut best: Option<(f64, Vec<Order>)> = None;
        for reference in references {
            let orders = self.orders(&hypothesis, &self.prepare(reference.as_ref()));
            let score = self.score(&orders);
            if best.as_ref().is_none_or(|(most, _)| score > *most) {
                best = Some((score, orders));
            }
        }
        best.map(|(_, orders)| orders).unwrap_or_default()
    }

    /// A line's characters and words.
    fn prepare(&self, line: &str) -> (Vec<char>, Vec<String>) {
        let line = if self.lowercase { line.to_lowercase() } else { line.to_owned() };
        let characters =
            if self.spaces { line.chars().collect() } else { words(&line).flat_map(str::chars).collect() };
        (characters, if self.words > 0 { plain_words(&line) } else { Vec::new() })
    }

    fn orders(&self, ours: &(Vec<char>, Vec<String>), theirs: &(Vec<char>, Vec<String>)) -> Vec<Order> {
        let characters = (1..=self.characters).map(|n| order(&ours.0, &theirs.0, n));
        characters.chain((1..=self.words).map(|n| order(&ours.1, &theirs.1, n))).collect()
    }

    fn score(&self, orders: &[Order]) -> f64 {
        let known: Vec<&Order> = orders.iter().filter(|o| o.hypothesis > 0 && o.reference > 0).collect();
        let mean = |of: fn(&Order) -> u64| {
            known.iter().map(|order| order.both as f64 / of(order) as f64).sum::<f64>() / known.len() as f64
        };
        let (precision, recall) = (mean(|order| order.hypothesis), mean(|order| order.reference));
        let factor = self.beta * self.beta;
        // Without a known order both are NaN.
        if precision + recall > 0.0 {
            100.0 * ((1.0 + factor) * precision * recall / (factor * precision + recall))
        } else {
            0.0
        }
    }
}

/// n-grams of the hypothesis do not count where the reference is too short to have any.
fn order<T: Eq + Hash>(ours: &[T], theirs: &[T], n: usize) -> Order {
    let reference = total(theirs, n);
    Order {
        hypothesis: if reference > 0 { total(ours, n) } else { 0 },
        reference,
        both: shared(&count(ours, n), &count(theirs, n)),
    }
}

/// Words at spaces; one ASCII punctuation mark at the end of a word stands alone, or else one at its
/// beginning.
fn plain_words(line: &str) -> Vec<String> {
    let mut all = Vec::new();
    for word in words(line) {
        let mut rest = word.chars();
        let (first, last) = (rest.next(), rest.next_back());
        let is_mark = |c: &Option<char>| c.is_some_and(|c| c.is_ascii_punctuation());
        let cut = match (first, last) {
            (_, None) => word.len(), // one character
            _ if is_mark(&last) => word.len() - 1,
            _ if is_mark(&first) => 1,
            _ => word.len(),
        };
        let (before, after) = word.split_at(cut);
        all.extend([before, after].into_iter().filter(|part| !part.is_empty()).map(str::to_owned));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_mark_is_cut_off() {
        assert_eq!(
            plain_words("(hi) \"so, a . -x ö!"),
            ["(hi", ")", "\"so", ",", "a", ".", "-", "x", "ö", "!"]
        );
    }
}
