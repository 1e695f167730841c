//! A model at work on examples: the loss of a source, the scores of classes, translations. Programs are planned once and
//! read the parameters that are in the store when they run.

use super::beside::Beside;
use crate::{Bounds, Error, ModelTask, Result};
use regard_data::{Batch, Source, Tokenizer};
use regard_engine::{Cpu, Program, Store};
use regard_generate::{Beams, Generator, Settings};
use regard_graph::{DType, Graph, Precision, Shape};
use regard_models::model::output;
use regard_models::{Labels, Model};
use regard_train::{Mode, Task};

/// The mean loss of what a source asks for.
pub struct LossMeter {
    program: Program,
}

impl LossMeter {
    /// Plans the program.
    pub fn new(task: &ModelTask, precision: Precision, store: &mut Store, cpu: &Cpu) -> Result<LossMeter> {
        let mut g = Graph::inference();
        g.set_precision(precision);
        let scale = g.input("scale", DType::F32, Shape::scalar())?;
        let loss = task.record(&mut g, scale, Mode::Evaluate)?;
        g.output("loss", loss)?;
        Ok(LossMeter { program: Program::new(g, &[], store, cpu)? })
    }

    /// The mean over all targets of the first epoch, and how many there are.
    pub fn loss(&mut self, source: &dyn Source, store: &mut Store) -> Result<(f64, u64)> {
        let (mut sum, mut targets) = (0.0, 0);
        for index in 0..source.batches(0) {
            let batch = source.batch(0, index)?;
            if batch.targets == 0 {
                continue;
            }
            feed(&mut self.program, &batch)?;
            // The mean of a batch, not its sum: a single f32 holds it better.
            self.program.set_f32("scale", &[], &[(1.0 / batch.targets as f64) as f32])?;
            self.program.run(store)?;
            sum += f64::from(self.program.scalar("loss")?) * batch.targets as f64;
            targets += batch.targets;
        }
        match targets {
            0 => Err(Error::invalid("there is nothing to examine with", "give data with targets")),
            _ => Ok((sum / targets as f64, targets)),
        }
    }
}

/// The scores of the classes of texts or images.
pub struct Classifier {
    program: Program,
    classes: usize,
}

impl Classifier {
    /// Plans the program of a model with classes.
    pub fn new(
        model: &dyn Model,
        bounds: Bounds,
        precision: Precision,
        store: &mut Store,
        cpu: &Cpu,
    ) -> Result<Classifier> {
        let mut g = Graph::inference();
        g.set_precision(precision);
        let inputs = model.reads().declare_open(&mut g, bounds.sizes())?;
        let classes = model.task().filter(|task| matches!(task.labels, Labels::Example | Labels::Position));
        let outputs = model.pass(&mut g, &inputs)?;
        let (Some(_), Some(scores)) = (classes, output(&outputs, "logits")) else {
            return Err(Error::invalid(
                format!("a model of the family {} has no classes", model.family()),
                "give a classifier of text or of images",
            ));
        };
        let shape = g.shape(scores);
        if shape.len() != 2 {
            return Err(Error::invalid(
                "the model scores tokens, not whole texts",
                "give a classifier of texts",
            ));
        }
        let classes = shape.bound()[1];
        g.output("scores", scores)?;
        Ok(Classifier { program: Program::new(g, &[], store, cpu)?, classes })
    }

    /// The scores of each example of a batch.
    pub fn scores(&mut self, batch: &Batch, store: &mut Store) -> Result<Vec<Vec<f32>>> {
        feed(&mut self.program, batch)?;
        self.program.run(store)?;
        let scores = self.program.f32("scores")?;
        Ok(scores.chunks(self.classes).take(batch.examples as usize).map(<[f32]>::to_vec).collect())
    }

    /// The scores of each example of a source's first epoch, in its order.
    pub fn all(&mut self, source: &dyn Source, store: &mut Store) -> Result<Vec<Vec<f32>>> {
        let mut all = Vec::new();
        for index in 0..source.batches(0) {
            all.extend(self.scores(&source.batch(0, index)?, store)?);
        }
        Ok(all)
    }
}

/// The class with the highest score; the first of several.
pub fn highest(scores: &[f32]) -> usize {
    let mut best = 0;
    for (class, score) in scores.iter().enumerate() {
        if *score > scores[best] {
            best = class;
        }
    }
    best
}

/// Probabilities of scores.
pub fn probabilities(scores: &[f32]) -> Vec<f64> {
    let most = scores.iter().fold(f64::NEG_INFINITY, |most, &score| most.max(f64::from(score)));
    let parts: Vec<f64> = scores.iter().map(|&score| (f64::from(score) - most).exp()).collect();
    let sum: f64 = parts.iter().sum();
    parts.into_iter().map(|part| part / sum).collect()
}

/// An encoder-decoder that translates, many texts at a time.
pub struct Translator {
    generator: Generator,
    tokenizer: Tokenizer,
    start: i32,
    stop: Vec<i32>,
    rows: usize,
    beams: usize,
    most: usize,
}

/// How a translator works.
#[derive(Clone, Copy, Debug)]
pub struct Translating {
    /// Texts at a time.
    pub rows: usize,
    /// How many translations are tried side by side; 1 is greedy.
    pub beams: usize,
    /// The most tokens of a translation.
    pub most: usize,
    /// The most tokens of a text.
    pub source: usize,
    /// How products are computed.
    pub precision: Precision,
}

impl Translator {
    /// Plans the programs.
    pub fn new(
        model: &dyn Model,
        beside: &Beside,
        how: Translating,
        store: &mut Store,
        cpu: &Cpu,
    ) -> Result<Translator> {
        let (Some(pair), Some(start)) = (model.as_encoder_decoder(), beside.start) else {
            return Err(Error::invalid(
                format!("a model of the family {} does not translate", model.family()),
                "give an encoder-decoder whose config.json has a decoder_start_token_id",
            ));
        };
        let Translating { rows, beams, most, source, precision } = how;
        let room = pair.context().unwrap_or(usize::MAX);
        let settings = Settings {
            rows: rows.max(1),
            beams: beams.max(1),
            capacity: Some(most.saturating_add(1).min(room)),
            source: Some(source.max(1)),
            precision,
            ..Settings::default()
        };
        let generator = Generator::with_sources(pair, settings, store, cpu)?;
        let tokenizer = beside.tokenizer()?.clone();
        let stop = beside.end.iter().map(|&id| id as i32).collect();
        let (rows, beams) = (settings.rows, settings.beams);
        Ok(Translator { generator, tokenizer, start: start as i32, stop, rows, beams, most })
    }

    /// The best translation of each source.
    pub fn translate(&mut self, sources: &[Vec<u32>], store: &mut Store) -> Result<Vec<String>> {
        // Texts of about the same length together: a batch takes as long as its longest.
        let mut order: Vec<usize> = (0..sources.len()).collect();
        order.sort_by_key(|&row| sources[row].len());
        let mut translations = vec![String::new(); sources.len()];
        for rows in order.chunks(self.rows) {
            let ids: Vec<Vec<i32>> =
                rows.iter().map(|&row| sources[row].iter().map(|&id| id as i32).collect()).collect();
            let starts = vec![vec![self.start]; rows.len()];
            self.generator.read(&ids, store)?;
            let beams = Beams { stop: &self.stop, ..Beams::new(&starts, self.beams, self.most) };
            for (&row, found) in rows.iter().zip(self.generator.search(&beams, store)?) {
                let ids = found.first().map(|beam| beam.ids.as_slice()).unwrap_or_default();
                let known: Vec<u32> =
                    ids.iter().map(|&id| id as u32).filter(|&id| self.tokenizer.knows(id)).collect();
                translations[row] = self.tokenizer.decode(&known)?.trim().to_string();
            }
        }
        Ok(translations)
    }
}

/// Feeds the inputs that a program has with the fields of a batch.
fn feed(program: &mut Program, batch: &Batch) -> Result<()> {
    Ok(regard_hub::forward::feed(program, &batch.fields)?)
}
