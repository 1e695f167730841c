//! Whom or what a question asks about: of its runs of words that stand in the index, the rarest, and of
//! equally rare ones the longest. Names go before other words, and a name of which the index has only a part
//! is nobody that it knows.

use crate::words::{Word, words};
use crate::{Error, Index, Result};

/// What a question asks about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// As the question has it.
    pub text: String,
    /// How often it stands in the index, as whole words; 0 for one that the index does not know. At most
    /// a thousand are counted.
    pub count: usize,
}

/// The most places of a subject that are looked at: what stands in more is a common word, or a text about
/// nothing else.
pub(crate) const MOST: usize = 1000;

/// Words that questions are made of, and that name nothing (English).
const EMPTY: &[&str] = &[
    "a", "about", "after", "all", "an", "and", "any", "are", "as", "at", "be", "been", "before", "but", "by",
    "can", "could", "did", "do", "does", "for", "from", "had", "has", "have", "he", "her", "his", "how", "i",
    "in", "into", "is", "it", "its", "many", "me", "much", "my", "near", "no", "not", "of", "on", "or",
    "our", "she", "should", "some", "tell", "than", "that", "the", "their", "them", "there", "they", "this",
    "to", "us", "was", "we", "were", "what", "when", "where", "which", "who", "whom", "whose", "why", "will",
    "with", "would", "you", "your",
];

/// Whether a word only joins others.
pub(crate) fn is_empty_word(word: &str) -> bool {
    EMPTY.binary_search(&word.to_lowercase().as_str()).is_ok()
}

/// A run of words of the question that stands in the index.
struct Run {
    first: usize,
    end: usize,
    count: usize,
}

/// What a question asks about; nothing, where the index has none of its words but common ones.
pub fn subject(index: &Index, question: &str) -> Result<Option<Subject>> {
    let all = words(question);
    if all.is_empty() {
        return Err(Error::invalid(format!("the question `{question}` has no words"), "ask about something"));
    }
    let names: Vec<bool> = all.iter().enumerate().map(|(at, word)| is_name(at, word)).collect();
    let has_names = names.contains(&true);
    let mut runs: Vec<Run> = Vec::new();
    let mut reached = 0;
    for first in 0..all.len() {
        let Some(run) = longest_run(index, question, &all, first)? else { continue };
        if run.end > reached {
            reached = run.end;
            runs.extend(trimmed(index, question, &all, &names, run)?);
        }
    }
    let better = |run: &&Run| {
        let bytes = all[run.end - 1].at.end - all[run.first].at.start;
        (run.count, std::cmp::Reverse(bytes))
    };
    let found = runs.iter().filter(|run| !has_names || names[run.first..run.end].contains(&true));
    let Some(best) = found.min_by_key(better) else {
        return Ok(has_names.then(|| unknown(question, &all, &names, None)));
    };
    let is_part = (best.first > 0 && names[best.first - 1] && beside(question, &all, best.first))
        || (best.end < all.len() && names[best.end] && beside(question, &all, best.end));
    if is_part {
        return Ok(Some(unknown(question, &all, &names, Some(best.first))));
    }
    let text = question[all[best.first].at.start..all[best.end - 1].at.end].to_string();
    Ok((best.count <= MOST).then_some(Subject { text, count: best.count }))
}

/// A word with a capital, or that begins with a digit, unless it only opens the question.
fn is_name(at: usize, word: &Word<'_>) -> bool {
    let digit = |c: char| c.is_ascii_digit();
    let named = word.text.chars().any(char::is_uppercase) || word.text.starts_with(digit);
    named && (at > 0 || !is_empty_word(word.text))
}

/// Whether only a space stands before a word.
fn beside(question: &str, all: &[Word<'_>], at: usize) -> bool {
    question[all[at - 1].at.end..all[at].at.start].chars().all(char::is_whitespace)
}

/// The longest run of words from this one on that stands in the index between other words.
fn longest_run(index: &Index, question: &str, all: &[Word<'_>], first: usize) -> Result<Option<Run>> {
    let start = all[first].at.start;
    let reach = start + index.longest(&question[start..])?;
    let mut end = first + all[first..].iter().take_while(|word| word.at.end <= reach).count();
    while end > first {
        let count = count(index, &question[start..all[end - 1].at.end])?;
        if count > 0 {
            return Ok(Some(Run { first, end, count }));
        }
        end -= 1;
    }
    Ok(None)
}

/// A run without what does not belong to its names: small words at its ends that only join, or that are more
/// frequent than the rest ("born"). Nothing is left of a run that only joins.
fn trimmed(
    index: &Index,
    question: &str,
    all: &[Word<'_>],
    names: &[bool],
    mut run: Run,
) -> Result<Option<Run>> {
    if !names[run.first..run.end].contains(&true) {
        let only_joins = all[run.first..run.end].iter().all(|word| is_empty_word(word.text));
        return Ok((!only_joins).then_some(run));
    }
    let of = |first: usize, end: usize| count(index, &question[all[first].at.start..all[end - 1].at.end]);
    while !names[run.first] {
        let rest = of(run.first + 1, run.end)?;
        if !is_empty_word(all[run.first].text) && of(run.first, run.first + 1)? <= rest {
            break;
        }
        (run.first, run.count) = (run.first + 1, rest);
    }
    while !names[run.end - 1] {
        let rest = of(run.first, run.end - 1)?;
        if !is_empty_word(all[run.end - 1].text) && of(run.end - 1, run.end)? <= rest {
            break;
        }
        (run.end, run.count) = (run.end - 1, rest);
    }
    Ok(Some(run))
}

/// How often a string stands in the index between other words; one more than [`MOST`] for more.
fn count(index: &Index, text: &str) -> Result<usize> {
    index.find(text)?.count_of_words(MOST + 1)
}

/// The names around a word, which the index does not have together; the first ones if no word is given.
fn unknown(question: &str, all: &[Word<'_>], names: &[bool], around: Option<usize>) -> Subject {
    let middle = around.or_else(|| names.iter().position(|name| *name)).unwrap_or(0);
    let mut first = middle;
    while first > 0 && names[first - 1] && beside(question, all, first) {
        first -= 1;
    }
    let mut end = middle + 1;
    while end < all.len() && names[end] && beside(question, all, end) {
        end += 1;
    }
    Subject { text: question[all[first].at.start..all[end - 1].at.end].to_string(), count: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_words_can_be_looked_up() {
        assert!(EMPTY.is_sorted());
        assert!(
            is_empty_word("Where") && is_empty_word("a") && is_empty_word("your") && !is_empty_word("born")
        );
    }
}
