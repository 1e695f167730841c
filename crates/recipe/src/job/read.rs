//! From `[data]` to texts, classes, pairs and images as they are in the files: what is trained on, what the
//! best epoch is chosen with, and what is examined at the end.

use crate::job::chats;
use crate::job::columns::columns;
use crate::job::contrast;
use crate::language::{DataKind, DataRecipe, FormRecipe, Kind, Recipe, TokenizerKind};
use crate::study::{Question, StudyData, StudyFiles, Vocabulary, wordings};
use crate::{Error, Result};
use regard_data::biographies;
use regard_data::dataset::{Amount, Cut, Format, Images, Labels, Parallel, Table, TextRows, held_out};
use regard_data::reading::passage;
use regard_runtime::{ChatTemplate, Marked, Replies};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Examples as they are in the files.
#[derive(Clone, Debug)]
pub(crate) enum Raw {
    /// One long text.
    Text(String),
    /// Texts that stand for themselves.
    Lines(Vec<String>),
    /// Texts with their classes.
    Classes(Vec<(String, usize)>),
    /// Texts with their translations.
    Pairs(Vec<(String, String)>),
    /// Some of the images of a set.
    Images(Arc<Images>, Vec<usize>),
    /// Lines of which spans are taken out.
    Spans(Vec<String>),
    /// Questions with their answers.
    Questions(Vec<(String, String)>),
    /// Texts that belong together.
    Couples(Vec<(String, String)>),
    /// Conversations as texts, with what the model is to say.
    Chats(Vec<Replies>, Marked),
    /// Both of these.
    Both(Vec<String>, Vec<(String, String)>),
}

impl Raw {
    /// How many examples there are; of a text, characters.
    pub fn len(&self) -> usize {
        match self {
            Raw::Text(text) => text.chars().count(),
            Raw::Lines(lines) | Raw::Spans(lines) => lines.len(),
            Raw::Classes(all) => all.len(),
            Raw::Pairs(all) | Raw::Questions(all) | Raw::Couples(all) => all.len(),
            Raw::Images(_, rows) => rows.len(),
            Raw::Chats(all, _) => all.len(),
            Raw::Both(lines, questions) => lines.len() + questions.len(),
        }
    }

    /// How many, in words.
    pub fn summary(&self) -> String {
        let what = match self {
            Raw::Text(_) => "characters",
            Raw::Lines(_) | Raw::Spans(_) => "lines",
            Raw::Classes(_) => "texts",
            Raw::Pairs(_) | Raw::Couples(_) => "pairs",
            Raw::Images(..) => "images",
            Raw::Questions(_) => "questions",
            Raw::Chats(..) => "conversations",
            Raw::Both(..) => "lines and questions",
        };
        format!("{} {what}", self.len())
    }

    /// All texts from which a tokenizer is learned.
    pub fn texts(&self) -> Vec<&str> {
        match self {
            Raw::Text(text) => vec![text],
            Raw::Lines(lines) | Raw::Spans(lines) => lines.iter().map(String::as_str).collect(),
            Raw::Classes(all) => all.iter().map(|(text, _)| text.as_str()).collect(),
            Raw::Pairs(all) | Raw::Questions(all) | Raw::Couples(all) => {
                all.iter().flat_map(|(source, target)| [source.as_str(), target.as_str()]).collect()
            }
            Raw::Both(lines, questions) => {
                let asked = questions.iter().flat_map(|(text, place)| [text.as_str(), place.as_str()]);
                lines.iter().map(String::as_str).chain(asked).collect()
            }
            Raw::Chats(all, _) => all.iter().map(|one| one.text.as_str()).collect(),
            Raw::Images(..) => Vec::new(),
        }
    }
}

/// What a recipe's data comes to.
#[derive(Clone, Debug)]
pub(crate) struct Material {
    /// To learn from.
    pub train: Raw,
    /// To choose the best epoch with.
    pub choose: Option<Raw>,
    /// To examine once, at the end; where there is none, it is what the choice was made with.
    pub last: Option<Raw>,
    /// The classes.
    pub labels: Option<Labels>,
    /// All characters of a study, which has a vocabulary of its own.
    pub study: Option<StudyData>,
}

impl Material {
    /// Reads the data of a recipe of one stage.
    pub fn read(recipe: &Recipe, template: Option<&ChatTemplate>) -> Result<Material> {
        let (data, seed) = (&recipe.data, recipe.seed);
        fits(recipe.task, data.kind)?;
        if let (DataKind::Chats, Some(template), true) = (data.kind, template, data.train.is_empty()) {
            let (all, how) = chats::invented(data.people, seed, template)?;
            let (train, held) = divided(Raw::Chats(all, how), data.hold_out.max(0.1), seed)?;
            return Ok(Material { train, choose: Some(held), last: None, labels: None, study: None });
        }
        if data.kind != DataKind::Biographies && data.train.is_empty() {
            return Err(Error::invalid(
                "data.train names no file",
                "give the training files: data.train=my.txt",
            ));
        }
        if data.kind == DataKind::Biographies {
            return study(recipe);
        }
        let mut labels = None;
        let mut train = read(recipe.task, data, &data.train, &data.train_target, &mut labels, template)?;
        if data.limit > 0 {
            train = limited(train, data.limit);
        }
        let evaluate = match (data.evaluate.is_empty(), data.kind) {
            // The folder has both.
            (true, DataKind::Mnist) => Some(mnist(&data.train[0], "t10k")?),
            (true, _) => None,
            (false, DataKind::Mnist) => Some(mnist(&data.evaluate[0], "t10k")?),
            (false, _) => {
                let (files, targets) = (&data.evaluate, &data.evaluate_target);
                Some(read(recipe.task, data, files, targets, &mut labels, template)?)
            }
        };
        let (train, held) = match data.hold_out > 0.0 {
            true => {
                let (train, held) = divided(train, data.hold_out, seed)?;
                (train, Some(held))
            }
            false => (train, None),
        };
        let (choose, last) = match (held, evaluate) {
            (Some(held), evaluate) => (Some(held), evaluate),
            (None, evaluate) => (evaluate, None),
        };
        Ok(Material { train, choose, last, labels, study: None })
    }
}

/// Reads files other than those of the recipe, to examine with.
pub(crate) fn other(
    kind: Kind,
    data: &DataRecipe,
    files: &[PathBuf],
    targets: &[PathBuf],
    labels: Option<&Labels>,
    template: Option<&ChatTemplate>,
) -> Result<Raw> {
    let mut labels = labels.cloned();
    if data.kind == DataKind::Mnist {
        return mnist(&files[0], "t10k");
    }
    read(kind, data, files, targets, &mut labels, template)
}

/// Files as examples of a task. Labels that are known must be met again; others are taken from the first
/// files.
fn read(
    kind: Kind,
    data: &DataRecipe,
    files: &[PathBuf],
    targets: &[PathBuf],
    labels: &mut Option<Labels>,
    template: Option<&ChatTemplate>,
) -> Result<Raw> {
    match (data.kind, kind) {
        (DataKind::Couples, _) => Ok(Raw::Couples(match targets.is_empty() {
            true => contrast::read(files, &data.columns)?,
            false => parallel(files, targets)?,
        })),
        (DataKind::Chats, _) => {
            let Some(template) = template else {
                return Err(Error::invalid(
                    "there is no chat template for the conversations",
                    "put one beside the model, or name one: data.template",
                ));
            };
            let (all, how) = chats::read(files, template)?;
            Ok(Raw::Chats(all, how))
        }
        (DataKind::Text, Kind::Masked) => {
            let mut lines = Vec::new();
            for path in files {
                let rows = TextRows::open(path, Cut::Lines)?;
                for row in rows.iter() {
                    lines.push(row?.into_owned());
                }
            }
            Ok(Raw::Lines(lines))
        }
        (DataKind::Text | DataKind::Biographies, _) => {
            let mut text = String::new();
            for path in files {
                let rows = TextRows::open(path, Cut::Whole)?;
                for row in rows.iter() {
                    text.push_str(&row?);
                }
            }
            Ok(Raw::Text(text))
        }
        (DataKind::Classes, _) => classes(data, files, labels),
        (DataKind::Pairs, _) => Ok(Raw::Pairs(parallel(files, targets)?)),
        (DataKind::Mnist, _) => {
            let raw = mnist(&files[0], "train")?;
            if let Raw::Images(images, _) = &raw {
                labels.get_or_insert_with(|| images.labels().clone());
            }
            Ok(raw)
        }
        (DataKind::Cifar, _) => {
            let images = Images::cifar10(files)?;
            labels.get_or_insert_with(|| images.labels().clone());
            let rows = (0..images.len()).collect();
            Ok(Raw::Images(Arc::new(images), rows))
        }
    }
}

/// Texts of files and those on the same lines of others.
fn parallel(files: &[PathBuf], targets: &[PathBuf]) -> Result<Vec<(String, String)>> {
    if files.len() != targets.len() {
        return Err(Error::invalid(
            format!("{} files of sources and {} of targets", files.len(), targets.len()),
            "give each source file its target: data.train_target, data.evaluate_target",
        ));
    }
    let mut pairs = Vec::new();
    for (source, target) in files.iter().zip(targets) {
        let both = Parallel::open(source, target)?;
        for index in 0..both.len() {
            let (source, target) = both.get(index)?;
            pairs.push((source.to_string(), target.to_string()));
        }
    }
    Ok(pairs)
}

fn classes(data: &DataRecipe, files: &[PathBuf], labels: &mut Option<Labels>) -> Result<Raw> {
    let mut all = Vec::new();
    for path in files {
        let format = Format::of(path).unwrap_or(Format::Tsv);
        let table = Table::open(path, format, !data.columns.is_empty())?;
        let [texts, names] = columns(&table, format, &data.columns)?;
        if labels.is_none() {
            *labels = Some(names.labels()?);
        }
        let Some(labels) = labels.as_ref() else { continue };
        let classes = names.classes(labels)?;
        for (row, class) in classes.into_iter().enumerate() {
            all.push((texts.get(row)?.into_owned(), class));
        }
    }
    Ok(Raw::Classes(all))
}

/// One half of MNIST: `train` or `t10k`, packed or not.
fn mnist(folder: &Path, half: &str) -> Result<Raw> {
    let file = |what: &str| {
        let plain = folder.join(format!("{half}-{what}-ubyte"));
        let packed = folder.join(format!("{half}-{what}-ubyte.gz"));
        if plain.is_file() { plain } else { packed }
    };
    let images = Images::idx(file("images-idx3"), file("labels-idx1"))?;
    let rows = (0..images.len()).collect();
    Ok(Raw::Images(Arc::new(images), rows))
}

/// The first so many.
fn limited(raw: Raw, most: usize) -> Raw {
    match raw {
        Raw::Text(text) => Raw::Text(text.chars().take(most).collect()),
        Raw::Lines(lines) => Raw::Lines(lines.into_iter().take(most).collect()),
        Raw::Spans(lines) => Raw::Spans(lines.into_iter().take(most).collect()),
        Raw::Classes(all) => Raw::Classes(all.into_iter().take(most).collect()),
        Raw::Pairs(all) => Raw::Pairs(all.into_iter().take(most).collect()),
        Raw::Questions(all) => Raw::Questions(all.into_iter().take(most).collect()),
        Raw::Couples(all) => Raw::Couples(all.into_iter().take(most).collect()),
        Raw::Chats(all, how) => Raw::Chats(all.into_iter().take(most).collect(), how),
        Raw::Both(lines, all) => {
            let rest = most.saturating_sub(lines.len());
            Raw::Both(lines.into_iter().take(most).collect(), all.into_iter().take(rest).collect())
        }
        Raw::Images(images, rows) => Raw::Images(images, rows.into_iter().take(most).collect()),
    }
}

/// The end of a text, or a drawn part of what stands for itself, is withheld.
fn divided(raw: Raw, part: f64, seed: u64) -> Result<(Raw, Raw)> {
    if let Raw::Text(text) = raw {
        let characters = text.chars().count();
        let kept = characters - (characters as f64 * part).round() as usize;
        let at = text.char_indices().nth(kept).map_or(text.len(), |(at, _)| at);
        if at == 0 || at == text.len() {
            return Err(Error::invalid(
                format!("a text of {characters} characters cannot be divided by data.hold_out = {part}"),
                "give a longer text, or files to examine with: data.evaluate=my.txt",
            ));
        }
        let end = text[at..].to_string();
        let mut text = text;
        text.truncate(at);
        return Ok((Raw::Text(text), Raw::Text(end)));
    }
    let (left, held) = held_out(raw.len(), Amount::Fraction(part), seed)?;
    Ok((chosen(&raw, &left), chosen(&raw, &held)))
}

/// Some examples of all.
fn chosen(raw: &Raw, rows: &[usize]) -> Raw {
    fn of<T: Clone>(all: &[T], rows: &[usize]) -> Vec<T> {
        rows.iter().map(|&row| all[row].clone()).collect()
    }
    match raw {
        Raw::Text(text) => Raw::Text(text.clone()),
        Raw::Lines(lines) => Raw::Lines(of(lines, rows)),
        Raw::Spans(lines) => Raw::Spans(of(lines, rows)),
        Raw::Classes(all) => Raw::Classes(of(all, rows)),
        Raw::Pairs(all) => Raw::Pairs(of(all, rows)),
        Raw::Questions(all) => Raw::Questions(of(all, rows)),
        Raw::Couples(all) => Raw::Couples(of(all, rows)),
        Raw::Chats(all, how) => Raw::Chats(of(all, rows), *how),
        Raw::Both(lines, all) => {
            let (read, asked): (Vec<usize>, Vec<usize>) = rows.iter().partition(|&&row| row < lines.len());
            let asked: Vec<usize> = asked.iter().map(|row| row - lines.len()).collect();
            Raw::Both(of(lines, &read), of(all, &asked))
        }
        Raw::Images(images, all) => Raw::Images(images.clone(), of(all, rows)),
    }
}

/// Lines about people and questions about them: files, or invented.
fn study(recipe: &Recipe) -> Result<Material> {
    let data = &recipe.data;
    let vocabulary = match recipe.tokenizer.kind {
        TokenizerKind::Characters => Vocabulary::Characters,
        TokenizerKind::Wordpiece => Vocabulary::Pieces(recipe.tokenizer.vocabulary),
        _ => {
            return Err(Error::invalid(
                "biographies are read in characters or in pieces of words",
                "give tokenizer.kind = \"characters\" or \"wordpiece\"",
            ));
        }
    };
    let study = match (&data.text, data.train.as_slice(), data.evaluate.as_slice()) {
        (Some(text), [train, ..], [dev, ..]) => {
            StudyData::open(StudyFiles { text, train, dev, test: data.test.as_deref() }, vocabulary)?
        }
        (None, [], []) => StudyData::invented(
            biographies::Settings { people: data.people, seed: recipe.seed, ..Default::default() },
            vocabulary,
        )?,
        _ => {
            return Err(Error::invalid(
                "biographies with some of their files only",
                "give data.text, data.train and data.evaluate, or none of them for invented people",
            ));
        }
    };
    // A model that learns to read has the line about the person before each question.
    let reads = data.form == FormRecipe::Reading;
    let asked = |text: &str| if reads { with_line(recipe, &study, text) } else { text.to_string() };
    let pair = |one: &Question| (asked(&one.text), one.place.clone());
    let (mut questions, mut held) = (study.train.iter().collect::<Vec<_>>(), None);
    if data.hold_out > 0.0 {
        // The same people in all stages: nobody who is asked about at the end was asked about before.
        let (left, out) = held_out(questions.len(), Amount::Fraction(data.hold_out), recipe.seed)?;
        let of = |rows: &[usize]| rows.iter().map(|&row| questions[row]).collect::<Vec<_>>();
        (questions, held) = (of(&left), Some(of(&out)));
    }
    let worded = |one: &&Question| -> Vec<(String, String)> {
        let texts = wordings(&one.text, data.wordings).into_iter();
        if reads { vec![pair(one)] } else { texts.map(|text| (text, one.place.clone())).collect() }
    };
    let learned: Vec<(String, String)> = questions.iter().flat_map(worded).collect();
    let train = match data.form {
        FormRecipe::Spans => Raw::Spans(study.lines.clone()),
        FormRecipe::Questions | FormRecipe::Reading => Raw::Questions(learned),
        FormRecipe::Both => Raw::Both(study.lines.clone(), learned),
    };
    let train = if data.limit > 0 { limited(train, data.limit) } else { train };
    let (choose, last) = match data.form {
        FormRecipe::Questions | FormRecipe::Reading => {
            let held = held.map(|held| Raw::Questions(held.into_iter().map(pair).collect()));
            (held, Some(Raw::Questions(study.dev.iter().map(pair).collect())))
        }
        FormRecipe::Spans | FormRecipe::Both => (None, None),
    };
    Ok(Material { train, choose, last, labels: None, study: Some(study) })
}

/// A question with the line about its person before it, cut where the model has no room for all of it.
pub(crate) fn with_line(recipe: &Recipe, study: &StudyData, question: &str) -> String {
    // The end of the line, the two marks, and no more tokens than characters.
    const MARKS: usize = 3;
    let asked = question.chars().count() + recipe.evaluate.most + MARKS;
    let room = recipe.model.context().map_or(usize::MAX, |context| context.saturating_sub(asked));
    let line: String = study.line_of(question).unwrap_or("").chars().take(room).collect();
    passage(&line, question)
}

/// Refuses data that a task cannot learn from.
fn fits(task: Kind, data: DataKind) -> Result<()> {
    let kinds: &[DataKind] = match task {
        Kind::Language => &[DataKind::Text, DataKind::Biographies, DataKind::Chats],
        Kind::Masked => &[DataKind::Text],
        Kind::Classify => &[DataKind::Classes],
        Kind::Translate => &[DataKind::Pairs],
        Kind::Contrast => &[DataKind::Couples],
        Kind::Images => &[DataKind::Mnist, DataKind::Cifar],
    };
    if kinds.contains(&data) {
        return Ok(());
    }
    let word = super::model::word::<DataKind>;
    let names: Vec<String> = kinds.iter().map(|kind| format!("\"{}\"", word(*kind))).collect();
    Err(Error::invalid(
        format!("the task `{}` with data of the kind `{}`", super::model::word(task), word(data)),
        format!("give data.kind = {}", names.join(" or ")),
    ))
}

/// The distinct texts of training that are examined again: none, if the data was divided well.
pub(crate) fn seen_before(train: &Raw, exam: &Raw) -> usize {
    let known: HashSet<&str> = match train {
        Raw::Classes(all) => all.iter().map(|(text, _)| text.as_str()).collect(),
        Raw::Pairs(all) => all.iter().map(|(source, _)| source.as_str()).collect(),
        _ => return 0,
    };
    match exam {
        Raw::Classes(all) => all.iter().filter(|(text, _)| known.contains(text.as_str())).count(),
        Raw::Pairs(all) => all.iter().filter(|(source, _)| known.contains(source.as_str())).count(),
        _ => 0,
    }
}
