//! An answer held against the text: is there a line about the subject of the question that names it, are
//! there lines that speak of the same and do not, or is there nothing? The verdict comes with its lines.
//!
//! Lines that hold the subject and a telling word of the question ("born") decide; where there are none,
//! lines that begin with the subject do. Other lines only mention it.

use crate::matching::{Match, Wanted};
use crate::subject::{MOST, Subject, is_empty_word, subject};
use crate::words::{folded, folded_words, words};
use crate::{Error, Index, Line, Result};
use std::ops::Range;

/// What the text says to an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// A line about the subject names it.
    Supported,
    /// There are lines about the subject, and none names it.
    Contradicted,
    /// No line says anything about it.
    NoEvidence,
}

impl Verdict {
    /// All, in this order.
    pub const ALL: [Verdict; 3] = [Verdict::Supported, Verdict::Contradicted, Verdict::NoEvidence];

    /// As people and programs read it.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Supported => "supported",
            Verdict::Contradicted => "contradicted",
            Verdict::NoEvidence => "no evidence",
        }
    }
}

/// A line, and where it names the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The line.
    pub line: Line,
    /// How it names the answer, and at which of its bytes.
    pub names: Option<(Match, Range<usize>)>,
}

/// An answer, judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// What the text says to it.
    pub verdict: Verdict,
    /// What the question was taken to ask about.
    pub subject: Option<Subject>,
    /// How the answer was found, where it was.
    pub how: Option<Match>,
    /// The lines that the verdict stands on: those that support it, or those that contradict it; where there
    /// is no evidence, those that at least mention the subject.
    pub lines: Vec<Evidence>,
    /// Of a supported answer, the lines that speak of the same and do not name it: not silence, if somebody
    /// wrote two things.
    pub against: Vec<Evidence>,
}

impl Judgement {
    /// Whether the answer may be given where harm is serious: a line names it, and not by a guess at what was
    /// meant.
    pub fn is_strict(&self) -> bool {
        self.verdict == Verdict::Supported && matches!(self.how, Some(Match::Exact | Match::Folded))
    }
}

/// The most lines of each kind that a judgement shows.
const SHOWN: usize = 5;

/// The subject of a question, and the lines that speak of it: those that decide first, then those that only
/// mention it. What a reader is given before the question.
pub fn lines_about(
    index: &Index,
    question: &str,
    given: Option<&str>,
) -> Result<(Option<Subject>, Vec<Line>)> {
    let (about, lines) = about(index, question, given)?;
    let own = about.as_ref().map(|subject| folded_words(&subject.text)).unwrap_or_default();
    let (mut deciding, mentions) = divided(lines, question, &own);
    deciding.extend(mentions);
    Ok((about, deciding))
}

/// The subject, as given or as found, and all of its lines.
fn about(index: &Index, question: &str, given: Option<&str>) -> Result<(Option<Subject>, Vec<Line>)> {
    let about = match given {
        Some(text) if words(text).is_empty() => {
            return Err(Error::invalid(format!("the subject `{text}` has no words"), "name somebody"));
        }
        Some(text) => {
            let count = index.find(text)?.count_of_words(MOST)?;
            Some(Subject { text: text.to_string(), count })
        }
        None => subject(index, question)?,
    };
    let lines = match &about {
        Some(subject) if subject.count > 0 => subject_lines(index, &subject.text)?,
        _ => Vec::new(),
    };
    Ok((about, lines))
}

/// Judges an answer. The subject is found in the question, unless it is given.
pub fn judge(index: &Index, question: &str, given: Option<&str>, answer: &str) -> Result<Judgement> {
    let (about, lines) = about(index, question, given)?;
    let wanted = Wanted::new(answer);
    let (Some(subject), Some(wanted)) = (&about, wanted) else {
        return Ok(Judgement {
            verdict: Verdict::NoEvidence,
            subject: about,
            how: None,
            lines: shown(lines.into_iter().map(unnamed)),
            against: Vec::new(),
        });
    };
    let own = folded_words(&subject.text);
    let (deciding, mentions) = divided(lines, question, &own);
    let mut slips = Slips { index, answer, known: None, deciding: &deciding };
    let (mut judged, mut failed) = (Vec::with_capacity(deciding.len()), None);
    for line in &deciding {
        let named = wanted.in_line(&line.text, &own, &mut |text| {
            slips.may(text).unwrap_or_else(|error| {
                failed = Some(error);
                false
            })
        });
        if let Some(error) = failed {
            return Err(error);
        }
        judged.push(Evidence { line: line.clone(), names: named.map(|named| (named.how, named.at)) });
    }
    Ok(decided(about, judged, mentions))
}

/// The verdict on lines that speak of the question.
fn decided(subject: Option<Subject>, judged: Vec<Evidence>, mentions: Vec<Line>) -> Judgement {
    let level = |one: &Evidence| one.names.as_ref().map(|(how, _)| *how);
    let how = judged.iter().filter_map(level).min();
    let (mut lines, mut against) = (Vec::new(), Vec::new());
    let verdict = match how {
        None if judged.is_empty() => Verdict::NoEvidence,
        None => Verdict::Contradicted,
        Some(Match::Part) => Verdict::NoEvidence,
        Some(_) => Verdict::Supported,
    };
    for one in judged {
        let supports = level(&one).is_some_and(|how| how != Match::Part);
        if supports || verdict != Verdict::Supported { lines.push(one) } else { against.push(one) }
    }
    lines.sort_by_key(|one| level(one).unwrap_or(Match::Part));
    if verdict == Verdict::NoEvidence {
        lines.extend(mentions.into_iter().map(unnamed));
    }
    Judgement { verdict, subject, how, lines: shown(lines), against: shown(against) }
}

fn unnamed(line: Line) -> Evidence {
    Evidence { line, names: None }
}

fn shown(lines: impl IntoIterator<Item = Evidence>) -> Vec<Evidence> {
    lines.into_iter().take(SHOWN).collect()
}

/// The lines that hold a subject as whole words, each once.
fn subject_lines(index: &Index, subject: &str) -> Result<Vec<Line>> {
    let mut lines: Vec<Line> = Vec::new();
    for place in index.find(subject)?.places_of_words(MOST)? {
        let line = index.line(&place);
        if lines.last().is_none_or(|last| last.place != line.place) {
            lines.push(line);
        }
    }
    Ok(lines)
}

/// Lines that decide, and lines that only mention the subject.
fn divided(lines: Vec<Line>, question: &str, subject: &[String]) -> (Vec<Line>, Vec<Line>) {
    let telling: Vec<String> = words(question)
        .iter()
        .filter(|word| !is_empty_word(word.text))
        .map(|word| folded(word.text))
        .filter(|word| !subject.contains(word))
        .collect();
    let plain =
        |line: &Line| -> Vec<String> { words(&line.text).iter().map(|word| folded(word.text)).collect() };
    let (telling, rest): (Vec<Line>, Vec<Line>) =
        lines.into_iter().partition(|line| plain(line).iter().any(|word| telling.contains(word)));
    if !telling.is_empty() {
        return (telling, rest);
    }
    rest.into_iter().partition(|line| plain(line).starts_with(subject))
}

/// Whether a word of a line may be the answer misspelled: if the answer stands nowhere in the text, or the
/// word nowhere else. Two words that both stand elsewhere are two words: Ireland is not Iceland.
struct Slips<'a> {
    index: &'a Index,
    answer: &'a str,
    /// Whether the answer stands somewhere.
    known: Option<bool>,
    deciding: &'a [Line],
}

impl Slips<'_> {
    fn may(&mut self, text: &str) -> Result<bool> {
        let known = match self.known {
            Some(known) => known,
            None => self.index.find(self.answer.trim())?.count_of_words(1)? > 0,
        };
        self.known = Some(known);
        let here: usize = self.deciding.iter().map(|line| line.text.matches(text).count()).sum();
        Ok(!known || self.index.find(text)?.count_of_words(here + 1)? <= here)
    }
}
