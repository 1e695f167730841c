//! What the study is made of: lines about people, questions about where they were born, and a vocabulary of characters.

use crate::{Error, Result};
use regard_data::Tokenizer;
use regard_data::biographies::{self, Biographies};
use regard_data::dataset::{Format, Lines, Table};
use regard_data::tokenizer::Reserved;
use std::collections::HashMap;
use std::path::Path;

/// A question, and its answer where it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// `Where was … born?`
    pub text: String,
    /// The place.
    pub place: String,
}

/// The data of the study.
#[derive(Clone, Debug)]
pub struct StudyData {
    /// One line for each person: what is read before any question.
    pub lines: Vec<String>,
    /// Questions with answers, to learn from.
    pub train: Vec<Question>,
    /// Questions with answers, to be examined with.
    pub dev: Vec<Question>,
    /// Questions without answers.
    pub test: Vec<String>,
    /// `□` is 0 and pads, `⁇` is 1 and marks; then the characters of the lines, sorted.
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

impl StudyData {
    /// Invented people, always the same for the same settings.
    pub fn invented(settings: biographies::Settings) -> Result<StudyData> {
        let made = Biographies::new(settings)?;
        let question = |(text, place): (String, &str)| Question { text, place: place.into() };
        StudyData::new(
            made.text().lines().map(str::to_string).collect(),
            made.train().map(question).collect(),
            made.dev().map(question).collect(),
            made.test().map(|(text, _)| text).collect(),
        )
    }

    /// 120 invented people, told of in sentences of one kind: what [`StudySettings::small`](super::StudySettings::small) can
    /// learn in minutes.
    pub fn small() -> Result<StudyData> {
        StudyData::invented(biographies::Settings {
            people: 120,
            places: 25,
            templates: 1,
            dev: 0.45,
            test: 0.05,
            ..Default::default()
        })
    }

    /// Real files.
    pub fn open(files: StudyFiles<'_>) -> Result<StudyData> {
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
        StudyData::new(lines(files.text)?, questions(files.train)?, questions(files.dev)?, test)
    }

    fn new(
        lines: Vec<String>,
        train: Vec<Question>,
        dev: Vec<Question>,
        test: Vec<String>,
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
        let tokenizer = Tokenizer::characters(&lines, Reserved::study())?;
        Ok(StudyData { lines, train, dev, test, tokenizer })
    }

    /// The answer that is most frequent among the questions to learn from, and how many of the dev questions it is right
    /// for: what can be had without knowing anybody. Ties go to the first in the alphabet.
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
        self.lines.iter().map(String::as_str).find(|line| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with('.') || rest.starts_with(' '))
        })
    }
}
