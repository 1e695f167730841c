//! Spans that say something: names, places and dates instead of any stretch of letters. A line begins with
//! whom it is about; one of its facts is taken out, with more or less of what stands around it, and the model
//! is to say the fact at the end: `prefix mark suffix mark fact mark`. Where all but the name is gone, this
//! is a question without words.

use super::{Example, Spans, next_token, without_mark};
use crate::Result;
use crate::draws::Draws;
use std::ops::Range;

/// A text as tokens, with its facts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The tokens.
    pub ids: Vec<u32>,
    /// Whom it is about: so many of the first tokens, which are never taken out for a fact.
    pub title: usize,
    /// Where facts stand, in tokens, one after the other, all behind the title.
    pub facts: Vec<Range<usize>>,
}

/// Corruption that takes facts out of a part of the lines, and any span out of the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Salient {
    /// How any span is taken out.
    pub spans: Spans,
    /// How often it is a fact, where a line has one: between 0 and 1.
    pub share: f64,
}

impl Salient {
    /// A corrupted line whose every token is to be predicted from those before it.
    pub fn example(&self, epoch: u64, example: u64, line: &Line) -> Result<Example> {
        let mut draws = Draws::new(self.spans.seed, epoch, "corruption.salient", example);
        if line.facts.is_empty() || draws.unit() >= self.share {
            return self.spans.example(epoch, example, &line.ids);
        }
        without_mark(&line.ids, self.spans.mark)?;
        let fact = line.facts[draws.below(line.facts.len())].clone();
        // The fact alone is missing, or all but the title, or something in between.
        let (from, to) = match draws.below(3) {
            0 => (fact.start, fact.end),
            1 => (line.title, line.ids.len()),
            _ => (
                line.title + draws.below(fact.start - line.title + 1),
                fact.end + draws.below(line.ids.len() - fact.end + 1),
            ),
        };
        let mark: &[u32] = &[self.spans.mark];
        let closing = if self.spans.closed { mark } else { &[] };
        let parts = [&line.ids[..from], mark, &line.ids[to..], mark, &line.ids[fact], closing];
        Ok(next_token(&parts.concat()))
    }
}

/// Where the title of a text ends and where its facts stand, in bytes. The title goes up to the first full
/// stop that a space follows, with both. Facts are runs of words that begin with a capital letter or have a
/// digit, without the punctuation around them; a year ends one. Neither a single word at the beginning of a
/// sentence is one, nor words of the title again.
pub fn facts(text: &str) -> (usize, Vec<Range<usize>>) {
    let title = text.find(". ").map_or(0, |at| at + 2);
    let known: Vec<&str> = text[..title].split_whitespace().map(bare).collect();
    let mut all = Vec::new();
    let mut run: Option<(Range<usize>, bool)> = None; // and whether it began a sentence
    let mut begins = true;
    let mut close = |run: &mut Option<(Range<usize>, bool)>| {
        let Some((range, began)) = run.take() else { return };
        let words: Vec<&str> = text[range.clone()].split_whitespace().collect();
        let only = words.len() == 1 && began && !words[0].contains(|c: char| c.is_ascii_digit());
        if !only && !words.iter().all(|word| known.contains(&bare(word))) {
            all.push(range);
        }
    };
    for word in text[title..].split_whitespace() {
        let at = word.as_ptr() as usize - text.as_ptr() as usize;
        let inner = bare(word);
        let start = inner.as_ptr() as usize - text.as_ptr() as usize;
        let marked = inner.starts_with(char::is_uppercase) || inner.contains(|c: char| c.is_ascii_digit());
        // Punctuation before a word parts it from the run.
        if !marked || start > at {
            close(&mut run);
        }
        if marked {
            let began = run.as_ref().map_or(begins, |(_, began)| *began);
            let from = run.as_ref().map_or(start, |(range, _)| range.start);
            run = Some((from..start + inner.len(), began));
        }
        let after = &text[start + inner.len()..at + word.len()];
        let year = inner.len() == 4 && inner.bytes().all(|byte| byte.is_ascii_digit());
        if year || !after.is_empty() {
            close(&mut run);
        }
        begins = after.contains('.') || (inner.is_empty() && word.contains('.'));
    }
    close(&mut run);
    (title, all)
}

/// A word without the punctuation at its ends.
fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> (&str, Vec<&str>) {
        let (title, facts) = facts(text);
        (&text[..title], facts.into_iter().map(|range| &text[range]).collect())
    }

    #[test]
    fn facts_are_names_places_and_dates() {
        let text = "Jacob Studer. Jacob Studer (26 February 1840 Columbus, Ohio - 2 August 1904 New York \
                    City) was a printer active in Columbus .";
        let wanted = ["26 February 1840", "Columbus", "Ohio", "2 August 1904", "New York City", "Columbus"];
        assert_eq!(found(text), ("Jacob Studer. ", wanted.to_vec()));
        // A word that only begins a sentence is none; nor is the name again.
        let text = "John Stephen. Born in Glasgow, Stephen became a welder. He left in 1950 .";
        assert_eq!(found(text), ("John Stephen. ", vec!["Glasgow", "1950"]));
        assert_eq!(found("Ana Ruiz. É. 1900 foi"), ("Ana Ruiz. ", vec!["1900"]));
        assert_eq!(found("no title here"), ("", vec![]));
        assert_eq!(found(""), ("", vec![]));
    }

    #[test]
    fn a_fact_stands_at_the_end_and_the_title_stays() {
        let spans = Spans::new(3, 1, 64).unwrap();
        let line = Line { ids: (10..50).collect(), title: 5, facts: vec![8..12, 30..31] };
        let salient = Salient { spans, share: 1.0 };
        let mut seen = [0; 2];
        for example in 0..200 {
            let made = salient.example(0, example, &line).unwrap();
            let all: Vec<u32> =
                made.ids[..1].iter().copied().chain(made.targets.iter().map(|&t| t as u32)).collect();
            let parts: Vec<&[u32]> = all.split(|&id| id == 1).collect();
            let [prefix, suffix, fact, []] = parts.as_slice() else { panic!("{all:?}") };
            let which = line.facts.iter().position(|range| &line.ids[range.clone()] == *fact).unwrap();
            seen[which] += 1;
            assert!(prefix.len() >= line.title && line.ids.starts_with(prefix) && line.ids.ends_with(suffix));
            assert!(prefix.len() <= line.facts[which].start && suffix.len() <= 40 - line.facts[which].end);
        }
        assert!(seen.iter().all(|&count| count > 60), "{seen:?}");
        // Without a share, or without facts, it is any span.
        let none = Salient { share: 0.0, ..salient };
        assert_eq!(none.example(2, 7, &line).unwrap(), spans.example(2, 7, &line.ids).unwrap());
        let plain = Line { facts: vec![], ..line };
        assert_eq!(salient.example(2, 7, &plain).unwrap(), spans.example(2, 7, &plain.ids).unwrap());
    }
}
