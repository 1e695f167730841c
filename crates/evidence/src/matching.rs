//! Whether a line names an answer: to the letter, without minding capitals and accents, or with a slip of the
//! pen. Words of the line that belong to the subject's own name do not count, and neither does an answer that
//! is only a part of a longer name there: whoever was born in New York was not born in York.

use crate::subject::is_empty_word;
use crate::words::{Word, base, folded_words, words};
use std::ops::Range;

/// How a line names an answer; the best is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Match {
    /// To the letter.
    Exact,
    /// But for capitals and accents.
    Folded,
    /// But for a letter or two.
    Near,
    /// Only as a part of a longer name.
    Part,
}

impl Match {
    /// In a word or two.
    pub fn name(self) -> &'static str {
        match self {
            Match::Exact => "to the letter",
            Match::Folded => "but for capitals or accents",
            Match::Near => "but for a letter or two",
            Match::Part => "as a part of a longer name",
        }
    }
}

/// An answer that lines are searched for.
pub(crate) struct Wanted {
    words: Vec<String>,
    folded: Vec<String>,
}

/// Where a line names an answer, and how.
pub(crate) struct Named {
    pub how: Match,
    pub at: Range<usize>,
}

/// The shortest answer that may be misspelled: shorter ones are other words too easily.
const SHORTEST_NEAR: usize = 5;
/// From this length on two letters may differ.
const LONG: usize = 10;

impl Wanted {
    /// An answer; nothing if it has no words.
    pub fn new(answer: &str) -> Option<Wanted> {
        let words: Vec<String> = words(answer).iter().map(|word| word.text.to_string()).collect();
        (!words.is_empty()).then(|| Wanted { words, folded: folded_words(answer) })
    }

    /// Where a line names the answer best, the first of equals. `subject` are folded words of which a run
    /// does not count; `may_slip` decides whether other words of the line can be the answer misspelled.
    pub fn in_line(
        &self,
        line: &str,
        subject: &[String],
        may_slip: &mut dyn FnMut(&str) -> bool,
    ) -> Option<Named> {
        let all = words(line);
        let plain = folded_words(line);
        let taken = runs_of(subject, &plain);
        let mut best: Option<Named> = None;
        for first in 0..(all.len() + 1).saturating_sub(self.words.len()) {
            let end = first + self.words.len();
            if (first..end).any(|word| taken[word]) {
                continue;
            }
            let at = all[first].at.start..all[end - 1].at.end;
            let Some(how) = self.compare(&all[first..end], &plain[first..end]) else { continue };
            let how = match how {
                Match::Near if !may_slip(&line[at.clone()]) => continue,
                _ if is_part(line, &all, first, end) => Match::Part,
                how => how,
            };
            if best.as_ref().is_none_or(|best| how < best.how) {
                best = Some(Named { how, at });
            }
        }
        best
    }

    fn compare(&self, own: &[Word<'_>], plain: &[String]) -> Option<Match> {
        let same = |(own, wanted): (&Word<'_>, &String)| own.text == wanted || base(own.text) == wanted;
        if own.iter().zip(&self.words).all(same) {
            return Some(Match::Exact);
        }
        if plain == self.folded {
            return Some(Match::Folded);
        }
        let (own, wanted) = (plain.join(" "), self.folded.join(" "));
        let letters = wanted.chars().count().min(own.chars().count());
        let most = match letters {
            ..SHORTEST_NEAR => return None,
            SHORTEST_NEAR..LONG => 1,
            _ => 2,
        };
        let lengths = wanted.chars().count().abs_diff(own.chars().count());
        (lengths <= most && strsim::osa_distance(&own, &wanted) <= most).then_some(Match::Near)
    }
}

/// Which words of a line belong to a run of these words.
fn runs_of(run: &[String], line: &[String]) -> Vec<bool> {
    let mut taken = vec![false; line.len()];
    if !run.is_empty() {
        for first in 0..(line.len() + 1).saturating_sub(run.len()) {
            if line[first..first + run.len()] == *run {
                taken[first..first + run.len()].fill(true);
            }
        }
    }
    taken
}

/// Whether a capital word stands right before or behind a name, so that both are one.
fn is_part(line: &str, all: &[Word<'_>], first: usize, end: usize) -> bool {
    let touch = |left: usize, right: usize| &line[all[left].at.end..all[right].at.start] == " ";
    let joins = |word: &Word<'_>| word.is_capital() && !is_empty_word(word.text);
    let before = first > 0 && all[first].is_capital() && touch(first - 1, first) && joins(&all[first - 1]);
    let behind = end < all.len() && all[end - 1].is_capital() && touch(end - 1, end) && joins(&all[end]);
    before || behind
}

#[cfg(test)]
mod tests {
    use super::*;

    fn how(answer: &str, line: &str) -> Option<Match> {
        let subject: Vec<String> = ["ada", "byron"].map(String::from).into();
        Wanted::new(answer)?.in_line(line, &subject, &mut |_| true).map(|named| named.how)
    }

    #[test]
    fn a_line_names_an_answer_in_four_ways() {
        assert_eq!(how("London", "Ada Byron, born 1815 in London."), Some(Match::Exact));
        assert_eq!(how("london", "Ada Byron, born 1815 in London."), Some(Match::Folded));
        assert_eq!(how("Besancon", "Ada Byron (Besançon, 1815)"), Some(Match::Folded));
        assert_eq!(how("Milan", "Ada Byron of Milano"), Some(Match::Near));
        assert_eq!(how("Philadelhpia", "in Philadelphia"), Some(Match::Near));
        assert_eq!(how("York", "in New York."), Some(Match::Part));
        assert_eq!(how("New York", "in New York."), Some(Match::Exact));
        assert_eq!(how("Luxembourg", "in Luxembourg City"), Some(Match::Part));
        assert_eq!(how("London", "In London she was born"), Some(Match::Exact), "no name before it");
        assert_eq!(how("London", "New London. London."), Some(Match::Exact), "the better of two");
        assert_eq!(how("London", "one of London's writers"), Some(Match::Exact));
    }

    #[test]
    fn what_is_something_else_does_not_count() {
        assert_eq!(how("Byron", "Ada Byron was born."), None, "her own name");
        assert_eq!(how("Byron", "Ada Byron and Lord Byron"), Some(Match::Part));
        assert_eq!(how("Lon", "in London"), None, "a part of a word");
        assert_eq!(how("Rome", "in Rouen"), None);
        assert_eq!(how("Iran", "in Iraq"), None, "too short to be misspelled");
        assert_eq!(how("", "in London"), None);
        assert_eq!(how("?!", "in London"), None);
        assert_eq!(how("London", ""), None);
    }
}
