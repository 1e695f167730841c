//! From `[data]` and `[tokenizer]` to sources of batches, and to what the model is examined with.

use super::baseline::{self, Baseline};
use super::model::Facts;
use crate::language::{DataKind, FormRecipe, Kind, Recipe, TokenizerKind};
use crate::study::{Question, StudyData, StudyFiles};
use crate::{Bounds, Error, Result};
use regard_data::batching::{
    Augmentation, ByLength, Classified, Order, Padding, Pairs, Pictures, Plan, Sequences, TokenRows,
};
use regard_data::biographies;
use regard_data::corruption::{Masked, Spans, answer};
use regard_data::dataset::{Amount, Cut, Format, Images, Labels, Parallel, Table, TextRows, held_out};
use regard_data::tokenizer::{Reserved, Special, Training};
use regard_data::{Source, Tokenizer};
use std::path::PathBuf;
use std::sync::Arc;

/// Everything that data decides.
pub(crate) struct Prepared {
    pub train: Arc<dyn Source>,
    /// What the evaluation loss is of.
    pub evaluation: Option<Arc<dyn Source>>,
    pub bounds: Bounds,
    pub facts: Facts,
    pub tokenizer: Option<Tokenizer>,
    pub labels: Option<Labels>,
    pub exam: Exam,
    pub baselines: Vec<Baseline>,
}

/// What a model is examined with beyond the loss.
pub(crate) enum Exam {
    /// Nothing.
    Loss,
    /// Classes: on what the best is chosen, and what is examined once, at the end.
    Classes { choose: Option<Arc<dyn Source>>, test: Option<Arc<dyn Source>> },
    /// Questions, to be answered to the letter.
    Questions(Vec<Question>),
    /// Translations: sources, and what people made of them.
    Translations { sources: Vec<Vec<i32>>, references: Vec<String>, start: i32, end: i32 },
}

/// What the rest of a recipe says to data.
pub(crate) struct Frame<'a> {
    pub recipe: &'a Recipe,
    /// The most tokens of a text.
    pub context: usize,
    /// The tokenizer of the model to start from.
    pub tokenizer: Option<&'a Tokenizer>,
}

impl Frame<'_> {
    fn batch(&self) -> usize {
        self.recipe.train.micro_batch.unwrap_or(self.recipe.train.batch)
    }

    fn evaluation_batch(&self) -> usize {
        self.recipe.evaluate.batch.unwrap_or(self.batch())
    }

    fn bounds(&self, length: usize, source: usize) -> Bounds {
        let batch = self.batch().max(self.evaluation_batch());
        Bounds { batch, length, source }
    }

    fn order(&self) -> Order {
        match self.recipe.data.shuffle {
            true => Order::Shuffled { seed: self.recipe.seed },
            false => Order::Sequential,
        }
    }

    fn files<'f>(&self, key: &str, files: &'f [PathBuf]) -> Result<&'f [PathBuf]> {
        match files {
            [] => Err(Error::invalid(
                format!("data.{key} names no file"),
                format!(
                    "give it in the recipe or as an override: data.{key}=path; paths are relative to where the command runs"
                ),
            )),
            files => Ok(files),
        }
    }

    fn limited(&self, count: usize) -> usize {
        match self.recipe.data.limit {
            0 => count,
            limit => count.min(limit),
        }
    }

    /// The tokenizer that a model brings along, or the one that the recipe asks for.
    fn tokenizer(&self, texts: &[&str]) -> Result<Tokenizer> {
        if let Some(known) = self.tokenizer {
            return Ok(known.clone());
        }
        let wanted = &self.recipe.tokenizer;
        let learned = |training: Training| Ok(Tokenizer::train(&training, texts)?);
        match (wanted.kind, &wanted.path) {
            (TokenizerKind::Characters, _) => Ok(Tokenizer::characters(texts, Reserved::default())?),
            (TokenizerKind::Bytes, _) => Ok(Tokenizer::bytes()),
            (TokenizerKind::Bpe, _) => learned(Training::bpe(wanted.vocabulary)),
            (TokenizerKind::Wordpiece, _) => learned(Training::word_piece(wanted.vocabulary)),
            (TokenizerKind::File, Some(path)) => Ok(Tokenizer::open(path)?),
            (TokenizerKind::File, None) => Err(Error::invalid(
                "tokenizer.kind is `file`, and tokenizer.path is not given",
                "name a tokenizer.json",
            )),
        }
    }
}

/// Reads the data of a recipe.
pub(crate) fn prepare(frame: &Frame<'_>) -> Result<Prepared> {
    let recipe = frame.recipe;
    match (recipe.data.kind, recipe.task) {
        (DataKind::Text, Kind::Language) => running_text(frame),
        (DataKind::Text, Kind::Masked) => masked(frame),
        (DataKind::Biographies, Kind::Language) => biographies(frame),
        (DataKind::Classes, Kind::Classify) => classes(frame),
        (DataKind::Pairs, Kind::Translate) => pairs(frame),
        (DataKind::Mnist | DataKind::Cifar, Kind::Images) => images(frame),
        (data, task) => Err(Error::invalid(
            format!("data of the kind {data:?} has nothing for the task {task:?}"),
            "language takes text or biographies, masked text, classify classes, translate pairs, images mnist or cifar",
        )),
    }
}

/// Whole files as texts.
fn read_all(files: &[PathBuf]) -> Result<Vec<String>> {
    files
        .iter()
        .map(|path| {
            let rows = TextRows::open(path, Cut::Whole)?;
            Ok(rows.get(0)?.into_owned())
        })
        .collect()
}

fn running_text(frame: &Frame<'_>) -> Result<Prepared> {
    let data = &frame.recipe.data;
    let train = read_all(frame.files("train", &data.train)?)?.join("\n");
    let other = read_all(&data.evaluate)?.join("\n");
    let tokenizer = frame.tokenizer(&[&train, &other])?;
    let mut ids = tokenizer.encode_bare(&train)?;
    let mut kept = tokenizer.encode_bare(&other)?;
    if kept.is_empty() && data.hold_out > 0.0 {
        // The end of the text, all of it.
        kept = ids.split_off(ids.len() - (ids.len() as f64 * data.hold_out).round() as usize);
    }
    ids.truncate(frame.limited(ids.len()));
    let (batch, context) = (frame.batch(), frame.context);
    let source: Arc<dyn Source> = match data.shuffle {
        true => {
            let batches = (ids.len() / (batch * context)).max(1);
            Arc::new(TokenRows::random(ids, context, batch, batches, frame.recipe.seed)?)
        }
        false => Arc::new(TokenRows::consecutive(ids, context, batch, Order::Sequential, false)?),
    };
    let evaluation: Option<Arc<dyn Source>> = match kept.is_empty() {
        true => None,
        false => {
            let rows =
                TokenRows::consecutive(kept, context, frame.evaluation_batch(), Order::Sequential, false)?;
            Some(Arc::new(rows))
        }
    };
    Ok(Prepared {
        train: source,
        evaluation,
        bounds: frame.bounds(context, 0),
        facts: Facts { vocabulary: tokenizer.vocabulary(), ..Default::default() },
        tokenizer: Some(tokenizer),
        labels: None,
        exam: Exam::Loss,
        baselines: Vec::new(),
    })
}

fn masked(frame: &Frame<'_>) -> Result<Prepared> {
    let data = &frame.recipe.data;
    let lines = |files: &[PathBuf]| -> Result<Vec<String>> {
        let mut all = Vec::new();
        for path in files {
            let rows = TextRows::open(path, Cut::Lines)?;
            for row in rows.iter() {
                all.push(row?.into_owned());
            }
        }
        Ok(all)
    };
    let mut train = lines(frame.files("train", &data.train)?)?;
    let mut other = lines(&data.evaluate)?;
    if other.is_empty() && data.hold_out > 0.0 {
        let (stay, held) = held_out(train.len(), Amount::Fraction(data.hold_out), frame.recipe.seed)?;
        other = held.iter().map(|&row| train[row].clone()).collect();
        train = stay.iter().map(|&row| train[row].clone()).collect();
    }
    train.truncate(frame.limited(train.len()));
    let texts: Vec<&str> = train.iter().map(String::as_str).collect();
    let tokenizer = frame.tokenizer(&texts)?;
    let mask = special(&tokenizer, Special::Mask)?;
    let pad = special(&tokenizer, Special::Pad)?;
    let all = [Special::Pad, Special::Class, Special::Separator, Special::Unknown];
    let specials: Vec<u32> = all.iter().filter_map(|one| tokenizer.special(*one)).collect();
    let masked = Masked::new(frame.recipe.seed, mask, tokenizer.vocabulary(), &specials)?;
    let source = |texts: &[String], batch: usize, order: Order| -> Result<Arc<dyn Source>> {
        let ids =
            texts.iter().map(|text| cut(&tokenizer, text, frame.context)).collect::<Result<Vec<_>>>()?;
        let plan = Plan::fixed(ids.len(), batch, order, false)?;
        let masked = masked.clone();
        let make = move |epoch, row: usize| masked.example(epoch, row as u64, &ids[row]);
        Ok(Arc::new(Sequences::new(plan, Padding::right(pad), make).with_mask()))
    };
    let evaluation = match other.is_empty() {
        true => None,
        false => Some(source(&other, frame.evaluation_batch(), Order::Sequential)?),
    };
    Ok(Prepared {
        train: source(&train, frame.batch(), frame.order())?,
        evaluation,
        bounds: frame.bounds(frame.context, 0),
        facts: Facts { vocabulary: tokenizer.vocabulary(), ..Default::default() },
        tokenizer: Some(tokenizer),
        labels: None,
        exam: Exam::Loss,
        baselines: Vec::new(),
    })
}

fn biographies(frame: &Frame<'_>) -> Result<Prepared> {
    let data = &frame.recipe.data;
    let study = match (&data.text, data.train.as_slice(), data.evaluate.as_slice()) {
        (None, [], []) => {
            StudyData::invented(biographies::Settings { people: data.people, ..Default::default() })?
        }
        (Some(text), [train], [dev]) => {
            StudyData::open(StudyFiles { text, train, dev, test: data.test.as_deref() })?
        }
        _ => {
            return Err(Error::invalid(
                "of the files of the biographies only some are given",
                "give data.text, data.train and data.evaluate, or none of them",
            ));
        }
    };
    let tokenizer = frame.tokenizer.cloned().unwrap_or_else(|| study.tokenizer.clone());
    let (mark, pad) = (special(&tokenizer, Special::Mask)?, special(&tokenizer, Special::Pad)?);
    let (context, seed) = (frame.context, frame.recipe.seed);
    let padding = Padding::right(pad);
    let questions = |questions: &[Question], batch: usize, order: Order| -> Result<Arc<dyn Source>> {
        let mut examples = Vec::new();
        for Question { text, place } in questions {
            let example = answer(&tokenizer.encode_bare(text)?, &tokenizer.encode_bare(place)?, mark)?;
            if example.ids.len() > context {
                return Err(Error::invalid(
                    format!("`{text}` has {} tokens with its answer", example.ids.len()),
                    format!("the model has room for {context}: set model.context"),
                ));
            }
            examples.push(example);
        }
        let plan = Plan::fixed(examples.len(), batch, order, false)?;
        let make = move |_, row: usize| Ok(examples[row].clone());
        Ok(Arc::new(Sequences::new(plan, padding, make)))
    };
    let (train, exam): (Arc<dyn Source>, Exam) = match data.form {
        FormRecipe::Questions => {
            let count = frame.limited(study.train.len());
            (
                questions(&study.train[..count], frame.batch(), frame.order())?,
                Exam::Questions(study.dev.clone()),
            )
        }
        FormRecipe::Spans => {
            let encode = |line: &String| -> Result<Vec<u32>> {
                let mut ids = tokenizer.encode_bare(line)?;
                ids.truncate(context.saturating_sub(2));
                Ok(ids)
            };
            let lines = study.lines.iter().map(encode).collect::<Result<Vec<_>>>()?;
            let plan = Plan::fixed(lines.len(), frame.batch(), frame.order(), false)?;
            let spans = Spans::new(seed, mark, context)?;
            let make = move |epoch, line: usize| spans.example(epoch, line as u64, &lines[line]);
            (Arc::new(Sequences::new(plan, padding, make)), Exam::Loss)
        }
    };
    let (evaluation, baselines) = match data.form {
        FormRecipe::Spans => (None, Vec::new()),
        FormRecipe::Questions => {
            let (place, right) = study.most_frequent();
            let value = right as f64 / study.dev.len() as f64;
            let always = Baseline { name: format!("always “{place}”"), metric: "exact", value };
            (Some(questions(&study.dev, frame.evaluation_batch(), Order::Sequential)?), vec![always])
        }
    };
    Ok(Prepared {
        train,
        evaluation,
        bounds: frame.bounds(context, 0),
        facts: Facts { vocabulary: tokenizer.vocabulary(), ..Default::default() },
        tokenizer: Some(tokenizer),
        labels: None,
        exam,
        baselines,
    })
}

/// Texts and their classes.
struct Texts {
    texts: Vec<String>,
    classes: Vec<usize>,
}

impl Texts {
    fn some(&self, rows: &[usize]) -> Texts {
        Texts {
            texts: rows.iter().map(|&row| self.texts[row].clone()).collect(),
            classes: rows.iter().map(|&row| self.classes[row]).collect(),
        }
    }
}

fn classes(frame: &Frame<'_>) -> Result<Prepared> {
    let data = &frame.recipe.data;
    let tables = |files: &[PathBuf]| -> Result<Vec<Table>> {
        files.iter().map(|path| Ok(Table::open(path, Format::of(path)?, data.header)?)).collect()
    };
    let train = tables(frame.files("train", &data.train)?)?;
    let other = tables(&data.evaluate)?;
    let columns = |table: &Table| -> Result<[String; 2]> {
        let find = |names: &[&str], place: usize| {
            let named = table.names().iter().find(|name| names.contains(&name.as_str()));
            match named {
                Some(name) => Ok::<String, Error>(name.clone()),
                None => Ok(table.column_at(place)?.name().to_string()),
            }
        };
        Ok([find(&["sentence", "text"], 0)?, find(&["label", "class"], 1)?])
    };
    let mut names = Vec::new();
    for table in &train {
        let [_, label] = columns(table)?;
        for name in table.column(&label)?.iter() {
            names.push(name?.into_owned());
        }
    }
    let labels = Labels::of(&names)?;
    let gather = |tables: &[Table]| -> Result<Texts> {
        let mut all = Texts { texts: Vec::new(), classes: Vec::new() };
        for table in tables {
            let [text, label] = columns(table)?;
            all.classes.extend(table.column(&label)?.classes(&labels)?);
            for cell in table.column(&text)?.iter() {
                all.texts.push(cell?.into_owned());
            }
        }
        Ok(all)
    };
    let (mut train, other) = (gather(&train)?, gather(&other)?);
    let limit = frame.limited(train.texts.len());
    train.texts.truncate(limit);
    train.classes.truncate(limit);
    // The best epoch is chosen on what is withheld, where something is; then the other files are for the end.
    let (mut choose, mut test) = (other, None);
    if data.hold_out > 0.0 {
        let (stay, held) = held_out(train.texts.len(), Amount::Fraction(data.hold_out), frame.recipe.seed)?;
        let (rest, part) = (train.some(&stay), train.some(&held));
        test = (!choose.texts.is_empty()).then_some(choose);
        (train, choose) = (rest, part);
    }
    let texts: Vec<&str> = train.texts.iter().map(String::as_str).collect();
    let tokenizer = frame.tokenizer(&texts)?;
    let pad = special(&tokenizer, Special::Pad)?;
    let source = |texts: &Texts, batch: usize, order: Order| -> Result<Arc<dyn Source>> {
        let ids = texts
            .texts
            .iter()
            .map(|text| cut(&tokenizer, text, frame.context))
            .collect::<Result<Vec<_>>>()?;
        let classes = texts.classes.clone();
        let plan = Plan::fixed(ids.len(), batch, order, false)?;
        let make = move |_, row: usize| Ok((ids[row].clone(), classes[row] as i32));
        Ok(Arc::new(Classified::new(plan, Padding::right(pad), make)))
    };
    let examine = |texts: &Texts| source(texts, frame.evaluation_batch(), Order::Sequential);
    let evaluation = if choose.texts.is_empty() { None } else { Some(examine(&choose)?) };
    let judged = test.as_ref().unwrap_or(&choose);
    let baselines = match frame.recipe.evaluate.baseline && !judged.texts.is_empty() {
        true => baseline::of_texts((&train.texts, &train.classes), (&judged.texts, &judged.classes), &labels),
        false => Vec::new(),
    };
    let facts = Facts { vocabulary: tokenizer.vocabulary(), classes: labels.len(), ..Default::default() };
    Ok(Prepared {
        train: source(&train, frame.batch(), frame.order())?,
        evaluation: evaluation.clone(),
        bounds: frame.bounds(frame.context, 0),
        facts,
        tokenizer: Some(tokenizer.clone()),
        labels: Some(labels),
        exam: Exam::Classes { choose: evaluation, test: test.as_ref().map(examine).transpose()? },
        baselines,
    })
}

fn pairs(frame: &Frame<'_>) -> Result<Prepared> {
    let data = &frame.recipe.data;
    let open = |name: &str, source: &[PathBuf], target: &[PathBuf]| -> Result<Vec<(String, String)>> {
        if source.len() != target.len() {
            return Err(Error::invalid(
                format!("data.{name} names {} files, data.{name}_target {}", source.len(), target.len()),
                "give each file its other side",
            ));
        }
        let mut all = Vec::new();
        for (source, target) in source.iter().zip(target) {
            let pairs = Parallel::open(source, target)?;
            for row in 0..pairs.len() {
                let (source, target) = pairs.get(row)?;
                all.push((source.to_string(), target.to_string()));
            }
        }
        Ok(all)
    };
    let mut train = open("train", frame.files("train", &data.train)?, &data.train_target)?;
    let other = open("evaluate", &data.evaluate, &data.evaluate_target)?;
    train.truncate(frame.limited(train.len()));
    let texts: Vec<&str> = train.iter().flat_map(|(a, b)| [a.as_str(), b.as_str()]).collect();
    let tokenizer = frame.tokenizer(&texts)?;
    let pad = special(&tokenizer, Special::Pad)?;
    let end = special(&tokenizer, Special::End)?;
    // T5 has no token that begins a text: padding does.
    let start = tokenizer.special(Special::Begin).unwrap_or(pad);
    let context = frame.context;
    let encode = |text: &str, most: usize| -> Result<Vec<u32>> {
        let mut ids = tokenizer.encode_bare(text)?;
        ids.truncate(most);
        Ok(ids)
    };
    let source_of = |text: &str| -> Result<Vec<u32>> {
        let mut ids = encode(text, context - 1)?;
        ids.push(end);
        Ok(ids)
    };
    let prepared = |pairs: &[(String, String)]| -> Result<Vec<(Vec<u32>, Vec<u32>)>> {
        pairs.iter().map(|(a, b)| Ok((source_of(a)?, encode(b, context - 1)?))).collect()
    };
    let padding = Padding::right(pad);
    let source = |pairs: Vec<(Vec<u32>, Vec<u32>)>, batch: usize, order: Order, tokens: Option<usize>| {
        let plan = match tokens {
            None => Plan::fixed(pairs.len(), batch, order, false)?,
            Some(tokens) => {
                let lengths = pairs.iter().map(|(a, b)| a.len().max(b.len() + 1) as u32).collect();
                Plan::by_length(lengths, ByLength { tokens, examples: batch, window: 100 * batch }, order)?
            }
        };
        let make = move |_, row: usize| Ok(pairs[row].clone());
        Ok::<Arc<dyn Source>, Error>(Arc::new(Pairs::new(plan, padding, start, Some(end), make)))
    };
    let evaluation = match other.is_empty() {
        true => None,
        false => Some(source(prepared(&other)?, frame.evaluation_batch(), Order::Sequential, None)?),
    };
    let exam = match other.is_empty() {
        true => Exam::Loss,
        false => {
            let ids = |ids: Vec<u32>| ids.into_iter().map(|id| id as i32).collect();
            let sources =
                other.iter().map(|(text, _)| Ok(ids(source_of(text)?))).collect::<Result<Vec<Vec<i32>>>>()?;
            let references = other.iter().map(|(_, text)| text.clone()).collect();
            Exam::Translations { sources, references, start: start as i32, end: end as i32 }
        }
    };
    Ok(Prepared {
        train: source(prepared(&train)?, frame.batch(), frame.order(), frame.recipe.train.batch_tokens)?,
        evaluation,
        bounds: frame.bounds(context, context),
        facts: Facts { vocabulary: tokenizer.vocabulary(), ..Default::default() },
        tokenizer: Some(tokenizer.clone()),
        labels: None,
        exam,
        baselines: Vec::new(),
    })
}

fn images(frame: &Frame<'_>) -> Result<Prepared> {
    let data = &frame.recipe.data;
    let open = |files: &[PathBuf], part: &str| -> Result<Images> {
        match (data.kind, files) {
            (DataKind::Mnist, [folder]) => {
                let file = |what: &str| {
                    let plain = folder.join(format!("{part}-{what}-ubyte"));
                    if plain.is_file() { plain } else { folder.join(format!("{part}-{what}-ubyte.gz")) }
                };
                Ok(Images::idx(file("images-idx3"), file("labels-idx1"))?)
            }
            (DataKind::Mnist, files) => Err(Error::invalid(
                format!("{} paths for MNIST", files.len()),
                "give its folder, with train-images-idx3-ubyte and so on in it",
            )),
            _ => Ok(Images::cifar10(files)?),
        }
    };
    let train = open(frame.files("train", &data.train)?, "train")?;
    let other = match (data.evaluate.as_slice(), data.kind) {
        ([], DataKind::Mnist) => Some(open(&data.train, "t10k")?),
        ([], _) => None,
        (files, _) => Some(open(files, "t10k")?),
    };
    let dims = [train.channels(), train.height(), train.width()];
    let labels = train.labels().clone();
    let (mean, std) = brightness(&train);
    let all: Vec<usize> = (0..frame.limited(train.len())).collect();
    let (stay, held) = match data.hold_out > 0.0 {
        true => held_out(all.len(), Amount::Fraction(data.hold_out), frame.recipe.seed)?,
        false => (all, Vec::new()),
    };
    let count = |rows: &[usize]| {
        let mut counts = vec![0usize; labels.len()];
        rows.iter().for_each(|&row| counts[train.label(row)] += 1);
        counts
    };
    let counts = count(&stay);
    let train = Arc::new(train);
    let source = |images: &Arc<Images>, rows: Vec<usize>, batch: usize, order: Order, train: bool| {
        let plan = Plan::fixed(rows.len(), batch, order, false)?;
        let images = images.clone();
        let make =
            move |_, row: usize| Ok((images.pixels(rows[row]).to_vec(), images.label(rows[row]) as i32));
        let pictures = Pictures::from_fn(plan, dims, make)?.normalised(&mean, &std)?;
        let Some(augmentation) = (train && (data.shift > 0 || data.flip)).then_some(Augmentation {
            seed: frame.recipe.seed,
            shift: data.shift,
            flip: data.flip,
        }) else {
            return Ok(Arc::new(pictures) as Arc<dyn Source>);
        };
        Ok::<Arc<dyn Source>, Error>(Arc::new(pictures.augmented(augmentation)))
    };
    let examine = |images: &Arc<Images>, rows: Vec<usize>| {
        source(images, rows, frame.evaluation_batch(), Order::Sequential, false)
    };
    let mut test_classes: Vec<usize> = Vec::new();
    let test = match other {
        None => None,
        Some(other) => {
            let other = Arc::new(other);
            test_classes = (0..other.len()).map(|row| other.label(row)).collect();
            Some(examine(&other, (0..other.len()).collect())?)
        }
    };
    let (choose, test) = match held.is_empty() {
        true => (test, None),
        false => {
            if test.is_none() {
                test_classes = held.iter().map(|&row| train.label(row)).collect();
            }
            (Some(examine(&train, held)?), test)
        }
    };
    let baselines = match frame.recipe.evaluate.baseline && !test_classes.is_empty() {
        true => vec![baseline::most_frequent(&counts, &test_classes, &labels)],
        false => Vec::new(),
    };
    Ok(Prepared {
        train: source(&train, stay, frame.batch(), frame.order(), true)?,
        evaluation: choose.clone(),
        bounds: frame.bounds(1, 0),
        facts: Facts { vocabulary: 0, classes: labels.len(), image: dims },
        tokenizer: None,
        labels: Some(labels.clone()),
        exam: Exam::Classes { choose, test },
        baselines,
    })
}

/// Mean and standard deviation of each channel, as numbers from 0 to 1.
fn brightness(images: &Images) -> (Vec<f32>, Vec<f32>) {
    let (channels, size) = (images.channels(), images.height() * images.width());
    let mut sums = vec![(0.0f64, 0.0f64); channels];
    // A thousand images tell it well enough.
    let rows = images.len().min(1000);
    for row in 0..rows {
        for (channel, plane) in images.pixels(row).chunks_exact(size).enumerate() {
            for &byte in plane {
                let x = f64::from(byte) / 255.0;
                sums[channel].0 += x;
                sums[channel].1 += x * x;
            }
        }
    }
    let count = (rows * size).max(1) as f64;
    let mean = sums.iter().map(|(sum, _)| (sum / count) as f32).collect();
    let std =
        sums.iter().map(|(sum, squares)| (squares / count - (sum / count).powi(2)).max(1e-6).sqrt() as f32);
    (mean, std.collect())
}

/// The ids of a text with the tokens around it; a long one is cut, and its last token stays.
fn cut(tokenizer: &Tokenizer, text: &str, most: usize) -> Result<Vec<u32>> {
    let mut ids = tokenizer.encode(text)?;
    if ids.len() > most
        && let Some(&last) = ids.last()
    {
        ids.truncate(most - 1);
        ids.push(last);
    }
    Ok(ids)
}

fn special(tokenizer: &Tokenizer, special: Special) -> Result<u32> {
    tokenizer.special(special).ok_or_else(|| {
        Error::invalid(
            format!("the tokenizer has no token for {special:?}"),
            "choose another kind: wordpiece for classes, bpe for pairs",
        )
    })
}
