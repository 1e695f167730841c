//! Which parts of a text stand in the index as they are: the longest runs of whole words, with their sources,
//! and how many of its n-grams are new. What OLMoTrace (Liu and others 2025) shows, for any index.

use crate::words::words;
use crate::{Error, Index, Place, Result};
use std::ops::Range;

/// What counts as a span, and how much is told about each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The fewest words of a span.
    pub words: usize,
    /// The most places that are told of each.
    pub places: usize,
    /// N-grams are counted up to this many words.
    pub ngrams: usize,
}

impl Default for Rule {
    fn default() -> Self {
        Rule { words: 4, places: 3, ngrams: 8 }
    }
}

/// The most words of n-grams that can be asked for.
const MOST_NGRAMS: usize = 64;

/// A part of a text that stands in the index as it is, and is in no longer one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its bytes in the text.
    pub at: Range<usize>,
    /// How many words it has.
    pub words: usize,
    /// How often it stands in the index.
    pub count: u64,
    /// Some of these places, the first ones.
    pub places: Vec<Place>,
}

/// How many of the runs of so many words stand nowhere in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Novelty {
    /// Words of a run.
    pub words: usize,
    /// Runs in the text.
    pub all: usize,
    /// Those that the index has not.
    pub new: usize,
}

impl Novelty {
    /// The share that is new.
    pub fn share(&self) -> f64 {
        self.new as f64 / self.all.max(1) as f64
    }
}

/// What a text has from the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Its spans, in order; they may overlap.
    pub spans: Vec<Span>,
    /// What is new, for runs of one word, of two, and so on, as far as the text has them.
    pub novelty: Vec<Novelty>,
    /// Words of the text.
    pub words: usize,
}

impl Trace {
    /// The share of words that lie in a span.
    pub fn covered(&self, text: &str) -> f64 {
        let all = words(text);
        let inside = |at: &Range<usize>| {
            self.spans.iter().any(|span| span.at.start <= at.start && at.end <= span.at.end)
        };
        all.iter().filter(|word| inside(&word.at)).count() as f64 / all.len().max(1) as f64
    }
}

/// Traces a text back to the index.
pub fn trace(index: &Index, text: &str, rule: Rule) -> Result<Trace> {
    if rule.words == 0 || rule.ngrams > MOST_NGRAMS {
        return Err(Error::invalid(
            format!("spans of {} words, n-grams of up to {}", rule.words, rule.ngrams),
            format!("choose at least 1 word, and n-grams of at most {MOST_NGRAMS}"),
        ));
    }
    let words = words(text);
    // From each word on, how many words stand in the index as they are.
    let mut runs = Vec::with_capacity(words.len());
    for (first, word) in words.iter().enumerate() {
        let end = word.at.start + index.longest(&text[word.at.start..])?;
        let run = words[first..].iter().take_while(|word| word.at.end <= end).count();
        runs.push(run);
    }
    let mut spans = Vec::new();
    let mut reached = 0;
    for (first, &run) in runs.iter().enumerate() {
        // One that ends no later than an earlier one lies inside of it.
        if run >= rule.words && first + run > reached {
            let at = words[first].at.start..words[first + run - 1].at.end;
            let found = index.find(&text[at.clone()])?;
            spans.push(Span { at, words: run, count: found.count(), places: found.places(rule.places)? });
        }
        reached = reached.max(first + run);
    }
    let novelty = (1..=rule.ngrams.min(words.len()))
        .map(|length| {
            let all = words.len() + 1 - length;
            Novelty { words: length, all, new: runs[..all].iter().filter(|&&run| run < length).count() }
        })
        .collect();
    Ok(Trace { spans, novelty, words: words.len() })
}
