//! What the study is made of: lines about people, questions about where they were born, and a vocabulary.

use crate::{Error, Result};
use regard_data::Tokenizer;
use regard_data::biographies::{self, Biographies};
use regard_data::dataset::{Format, Lines, Table};
use regard_data::tokenizer::{Method, Reserved, Training};
use std::collections::HashMap;
use std::path::Path;

/// Pieces of words in the small study: enough for each place to be one of them, not for each name.
const PIECES: usize = 500;

/// A question, and its answer where it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// `Where was … born?`
    pub text: String,
    /// The place.
    pub place: String,
}

/// What texts are cut into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vocabulary {
    /// Characters, as in the course: `□` is 0 and pads, `⁇` is 1 and marks; then those of the lines, of
    /// their ends and of the questions, sorted.
    Characters,
    /// So many pieces of words, learned from the lines and the questions. A line has a quarter of the tokens,
    /// and a place is one or two of them, so that a small model has less to learn.
    Pieces(usize),
}

/// The data of the study.
#[derive(Clone, Debug)]
pub struct StudyData {
    /// Lines about each person: what is read before any question.
    pub lines: Vec<String>,
    /// Questions with answers, to learn from.
    pub train: Vec<Question>,
    /// Questions with answers, to be examined with.
    pub dev: Vec<Question>,
    /// Questions without answers.
    pub test: Vec<String>,
    /// Has a token that pads and one that marks.
    pub tokenizer: Tokenizer,
}

/// The files of the study.
#[derive(Clone, Copy, Debug)]
pub struct StudyFiles<'a> {
    /// One line for each person.
    pub text: &'a Path,
    /// `question TAB place`.
    pub train: &'a Path,
    /// The same.
    pub dev: &'a Path,
    /// Questions alone.
    pub test: Option<&'a Path>,
}

/// A question in so many wordings, itself the first: what is learned in one wording alone is easily bound to
/// it. One that does not ask where somebody was born has no other.
pub fn wordings(question: &str, most: usize) -> Vec<String> {
    let name = question.strip_prefix("Where was ").and_then(|rest| rest.strip_suffix(" born?"));
    let others = name.into_iter().flat_map(|name| {
        [
            format!("What is the birth place of {name}?"),
            format!("{name} was born in which place?"),
            format!("In which place was {name} born?"),
            format!("Where does {name} come from?"),
            format!("Birth place of {name}?"),
            format!("Where did {name} come into the world?"),
            format!("{name}: born where?"),
        ]
    });
    std::iter::once(question.to_string()).chain(others).take(most.max(1)).collect()
}

impl StudyData {
    /// Invented people, always the same for the same settings.
    pub fn invented(settings: biographies::Settings, vocabulary: Vocabulary) -> Result<StudyData> {
        let made = Biographies::new(settings)?;
        let question = |(text, place): (String, &str)| Question { text, place: place.into() };
        StudyData::new(
            made.text().lines().map(str::to_string).collect(),
            made.train().map(question).collect(),
            made.dev().map(question).collect(),
            made.test().map(|(text, _)| text).collect(),
            vocabulary,
        )
    }

    /// 320 invented people: what [`StudySettings::small`](super::StudySettings::small) can learn in minutes.
    pub fn small() -> Result<StudyData> {
        let settings =
            biographies::Settings { people: 320, places: 25, dev: 0.25, test: 0.05, ..Default::default() };
        StudyData::invented(settings, Vocabulary::Pieces(PIECES))
    }

    /// Real files.
    pub fn open(files: StudyFiles<'_>, vocabulary: Vocabulary) -> Result<StudyData> {
        let questions = |path: &Path| -> Result<Vec<Question>> {
            let table = Table::open(path, Format::Tsv, false)?;
            let (texts, places) = (table.column_at(0)?, table.column_at(1)?);
            (0..table.len())
                .map(|row| {
                    let text = texts.get(row)?.into_owned();
                    Ok(Question { text, place: places.get(row)?.into_owned() })
                })
                .collect()
        };
        let lines = |path: &Path| -> Result<Vec<String>> {
            let lines = Lines::open(path)?;
            let all = (0..lines.len()).map(|line| Ok(lines.get(line)?.to_string()));
            all.filter(|line: &Result<String>| line.as_ref().map_or(true, |line| !line.trim().is_empty()))
                .collect()
        };
        let test = files.test.map(lines).transpose()?.unwrap_or_default();
        let (train, dev) = (questions(files.train)?, questions(files.dev)?);
        StudyData::new(lines(files.text)?, train, dev, test, vocabulary)
    }

    fn new(
        lines: Vec<String>,
        train: Vec<Question>,
        dev: Vec<Question>,
        test: Vec<String>,
        vocabulary: Vocabulary,
    ) -> Result<StudyData> {
        if lines.is_empty() || train.is_empty() || dev.is_empty() {
            return Err(Error::invalid(
                format!(
                    "{} lines, {} questions to learn from and {} to examine",
                    lines.len(),
                    train.len(),
                    dev.len()
                ),
                "give at least one of each",
            ));
        }
        let tokenizer = match vocabulary {
            // The end of a line is a character of the text, too. A character that only questions have is
            // known as well: it carries nothing but its existence.
            Vocabulary::Characters => {
                let asked = train.iter().chain(&dev).flat_map(|one| [one.text.as_str(), one.place.as_str()]);
                let asked = asked.chain(test.iter().map(String::as_str));
                let texts = lines.iter().map(String::as_str).chain(asked).chain(["\n"]);
                Tokenizer::characters(texts, Reserved::study())?
            }
            Vocabulary::Pieces(most) => {
                let method = Method::WordPiece { lowercase: false };
                let texts = lines.iter().chain(train.iter().map(|question| &question.text));
                Tokenizer::train(&Training { method, ..Training::word_piece(most) }, texts)?
            }
        };
        Ok(StudyData { lines, train, dev, test, tokenizer })
    }

    /// The answer that is most frequent among the questions to learn from, and how many of the dev questions
    /// it is right for: what can be had without knowing anybody. Ties go to the first in the alphabet.
    pub fn most_frequent(&self) -> (String, usize) {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        self.train.iter().for_each(|question| *counts.entry(&question.place).or_default() += 1);
        let best = counts.into_iter().max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(a.0)));
        let place = best.map(|(place, _)| place.to_string()).unwrap_or_default();
        let right = self.dev.iter().filter(|question| question.place == place).count();
        (place, right)
    }

    /// The line of the person that a question asks about, where it names one.
    pub fn line_of(&self, question: &str) -> Option<&str> {
        let name = question.strip_prefix("Where was ")?.strip_suffix(" born?")?;
        // Whole words: nobody is part of somebody with a longer name.
        let whole = |line: &str, at: usize| {
            let letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
            !letter(line[..at].chars().next_back()) && !letter(line[at + name.len()..].chars().next())
        };
        let lines = self.lines.iter().map(String::as_str);
        lines.into_iter().find(|line| line.match_indices(name).any(|(at, _)| whole(line, at)))
    }
}
