//! The birth-place study (Stanford CS224N, assignment 5): can a model answer where somebody was born? A small
//! decoder learns to answer from questions alone; another one reads a line about each person first, with
//! spans taken out. Only the second can know people whom no question to learn from asks about. The same with
//! rotary positions, and with a Perceiver. One call gives the table, the baseline beside it, and every
//! answer.

mod data;
mod show;

pub use data::{Question, StudyData, StudyFiles, Vocabulary, wordings};
pub(crate) use show::write_predictions;

use crate::{Bounds, Error, ModelTask, Result};
use regard_data::batching::{Order, Padding, Plan, Sequences};
use regard_data::corruption::{Example, Spans, answer};
use regard_data::tokenizer::Special;
use regard_data::{Source, Tokenizer};
use regard_engine::{AsDevice, Device, Store};
use regard_graph::Precision;
use regard_hub::SaveOptions;
use regard_models::{
    Gpt, GptConfig, Mechanisms, Model, Perceiver, PerceiverConfig, PerceiverMasking, Positions,
};
use regard_ops::RotarySpec;
use regard_runtime::{Answerer, unheard};
use regard_train::{
    AdamW, Decay, Every, History, Length, Listener, Optimizer, Run, Schedule, Shape, Trainer, Unit,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The most characters of an answer.
const ANSWER: usize = 32;
/// Questions that are asked at a time.
const ROWS: usize = 64;

/// One way of getting to a model that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// A GPT, from questions alone.
    Alone,
    /// The same after reading the lines.
    Pretrained,
    /// The same with rotary instead of learned positions.
    Rotary,
    /// A Perceiver after reading the lines.
    Perceiver,
}

impl Arm {
    /// All, in the order of the study.
    pub const ALL: [Arm; 4] = [Arm::Alone, Arm::Pretrained, Arm::Rotary, Arm::Perceiver];

    /// As the table calls it.
    pub fn title(self) -> &'static str {
        match self {
            Arm::Alone => "no pretraining",
            Arm::Pretrained => "pretrained",
            Arm::Rotary => "pretrained, rotary",
            Arm::Perceiver => "pretrained, Perceiver",
        }
    }

    /// As a folder is called.
    pub fn name(self) -> &'static str {
        match self {
            Arm::Alone => "alone",
            Arm::Pretrained => "pretrained",
            Arm::Rotary => "rotary",
            Arm::Perceiver => "perceiver",
        }
    }
}

/// How one stage is trained: AdamW, a warm-up, then a cosine to a tenth of the rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// How often its data is gone through.
    pub epochs: u64,
    /// Examples of a step.
    pub batch: usize,
    /// The highest learning rate.
    pub lr: f64,
    /// After so many epochs the cosine is over; later than the end, if the rate should not come down all the
    /// way.
    pub decay_epochs: u64,
}

/// How the study is done.
#[derive(Clone, Debug, PartialEq)]
pub struct StudySettings {
    /// Blocks.
    pub layers: usize,
    /// Heads.
    pub heads: usize,
    /// Width.
    pub width: usize,
    /// The most characters of a text.
    pub context: usize,
    /// Latents of the Perceiver.
    pub latents: usize,
    /// Dropout everywhere.
    pub dropout: f32,
    /// Lines are cut to between 4 and 7/8 of so many characters before a span is taken out: as the study does
    /// it, the context; more, if lines should stay whole more often.
    pub cut: usize,
    /// Reading.
    pub pretrain: Stage,
    /// Learning to answer without having read.
    pub alone: Stage,
    /// Learning to answer after having read.
    pub after: Stage,
    /// Steps of the warm-up.
    pub warm_up: u64,
    /// Decay of all but biases.
    pub weight_decay: f64,
    /// Whether the order changes from epoch to epoch.
    pub shuffle: bool,
    /// How products are computed.
    pub precision: Precision,
    /// From this number weights, order, spans and dropout are drawn.
    pub seed: u64,
    /// What is compared.
    pub arms: Vec<Arm>,
}

impl StudySettings {
    /// As in the course: 3.3 million parameters, 650 epochs of reading. Hours on a small machine.
    pub fn course() -> StudySettings {
        let stage = |epochs, batch, lr, decay_epochs| Stage { epochs, batch, lr, decay_epochs };
        StudySettings {
            layers: 4,
            heads: 8,
            width: 256,
            context: 128,
            latents: 64,
            dropout: 0.1,
            cut: 128,
            pretrain: stage(650, 128, 6e-3, 650),
            alone: stage(75, 256, 6e-4, 200),
            after: stage(10, 256, 6e-4, 200),
            warm_up: 1,
            weight_decay: 0.1,
            shuffle: false,
            precision: Precision::F32,
            seed: 0,
            arms: Arm::ALL.to_vec(),
        }
    }

    /// A study of two or three minutes on two cores, for [`StudyData::small`]: 166 thousand parameters, lines
    /// that are not cut.
    pub fn small() -> StudySettings {
        let stage = |epochs, batch, lr| Stage { epochs, batch, lr, decay_epochs: epochs };
        StudySettings {
            layers: 2,
            heads: 4,
            width: 64,
            context: 40,
            latents: 24,
            dropout: 0.0,
            cut: 1024,
            pretrain: stage(70, 16, 4e-3),
            alone: stage(20, 16, 1e-3),
            after: stage(10, 16, 1e-3),
            warm_up: 20,
            shuffle: true,
            ..StudySettings::course()
        }
    }
}

/// An answer beside the right one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What was asked.
    pub question: String,
    /// What the model said.
    pub answered: String,
    /// What is right.
    pub place: String,
}

impl Answer {
    /// Whether it is right, to the letter.
    pub fn is_right(&self) -> bool {
        self.answered == self.place
    }
}

/// What became of one arm.
pub struct ArmResult {
    /// Which.
    pub arm: Arm,
    /// How many numbers it learned.
    pub parameters: usize,
    /// Seconds of training and examination.
    pub seconds: f64,
    /// How reading went; nothing for an arm that did not read.
    pub reading: History,
    /// How learning to answer went.
    pub answering: History,
    /// Answers to the dev questions.
    pub dev: Vec<Answer>,
    /// Answers to the test questions.
    pub test: Vec<String>,
    /// The model, without dropout.
    pub model: Arc<dyn Model>,
    /// Its parameters.
    pub store: Store,
}

impl ArmResult {
    /// The fraction of dev questions that were answered rightly.
    pub fn accuracy(&self) -> f64 {
        let right = self.dev.iter().filter(|answer| answer.is_right()).count();
        right as f64 / self.dev.len().max(1) as f64
    }

    /// The mean loss over the last tenth of reading; none for an arm that did not read.
    pub fn reading_loss(&self) -> Option<f64> {
        last_loss(&self.reading)
    }

    /// The same of learning to answer.
    pub fn answering_loss(&self) -> Option<f64> {
        last_loss(&self.answering)
    }

    /// Saves the model as a folder that `ask` and `generate` open.
    pub fn save(&self, tokenizer: &Tokenizer, folder: impl AsRef<Path>) -> Result<()> {
        let folder = folder.as_ref();
        regard_hub::save(&*self.model, &self.store, folder, &SaveOptions::default())?;
        Ok(tokenizer.save(folder.join("tokenizer.json"))?)
    }
}

/// What the study came to.
pub struct Study {
    /// The arms, in the order in which they ran.
    pub arms: Vec<ArmResult>,
    /// The most frequent answer, and the fraction of dev questions for which it is right.
    pub baseline: (String, f64),
    /// Whether it was stopped before all arms were done; those that were are here.
    pub interrupted: bool,
}

/// Who hears how the study goes. Every method does nothing unless it is written.
#[allow(unused_variables)]
pub trait StudyListener: Listener {
    /// A stage begins: `reading` or `learning to answer`.
    fn stage(&mut self, arm: Arm, stage: &str) {}
    /// An arm is done.
    fn done(&mut self, result: &ArmResult) {}
}

impl StudyListener for regard_train::Silent {}

/// Runs all arms, one after the other. `stop` ends it after the step at hand.
pub fn run(
    data: &StudyData,
    settings: &StudySettings,
    device: &impl AsDevice,
    listener: &mut dyn StudyListener,
    stop: Option<&AtomicBool>,
) -> Result<Study> {
    let device = &device.as_device();
    let (place, right) = data.most_frequent();
    let baseline = (place, right as f64 / data.dev.len() as f64);
    let mut arms = Vec::new();
    let ids = Ids::new(data, settings)?;
    for &arm in &settings.arms {
        match one(data, &ids, settings, arm, device, listener, stop)? {
            Some(result) => {
                listener.done(&result);
                arms.push(result);
            }
            None => return Ok(Study { arms, baseline, interrupted: true }),
        }
    }
    Ok(Study { arms, baseline, interrupted: false })
}

/// The data as numbers.
struct Ids {
    mark: u32,
    pad: u32,
    lines: Arc<Vec<Vec<u32>>>,
    train: Arc<Vec<Example>>,
    longest: usize,
}

impl Ids {
    fn new(data: &StudyData, settings: &StudySettings) -> Result<Ids> {
        let tokenizer = &data.tokenizer;
        let special = |special: Special| {
            tokenizer.special(special).ok_or_else(|| {
                Error::invalid("the vocabulary has no mark or no padding", "make it with `Reserved::study()`")
            })
        };
        let (mark, pad) = (special(Special::Mask)?, special(Special::Pad)?);
        // What does not fit is cut: the study cuts lines in any case.
        let most = settings.context.saturating_sub(2);
        let cut = |line: &String| -> Result<Vec<u32>> {
            let mut ids = tokenizer.encode_bare(line)?;
            ids.truncate(most);
            Ok(ids)
        };
        let lines = data.lines.iter().map(cut).collect::<Result<Vec<_>>>()?;
        let example = |question: &Question| -> Result<Example> {
            let (text, place) =
                (tokenizer.encode_bare(&question.text)?, tokenizer.encode_bare(&question.place)?);
            let example = answer(&text, &place, mark)?;
            if example.ids.len() > settings.context {
                return Err(Error::invalid(
                    format!("`{}` has {} tokens with its answer", question.text, example.ids.len()),
                    format!("the model has room for {}: give it a longer context", settings.context),
                ));
            }
            Ok(example)
        };
        let train = data.train.iter().map(example).collect::<Result<Vec<_>>>()?;
        let lengths = lines.iter().map(|line| line.len() + 2).chain(train.iter().map(|one| one.ids.len()));
        let longest = lengths.max().unwrap_or(1).min(settings.context);
        Ok(Ids { mark, pad, lines: Arc::new(lines), train: Arc::new(train), longest })
    }
}

fn model(settings: &StudySettings, arm: Arm, vocabulary: usize) -> Result<Arc<dyn Model>> {
    let StudySettings { layers, heads, width, context, latents, dropout, .. } = *settings;
    if arm == Arm::Perceiver {
        let masking = PerceiverMasking::Tapered;
        let mechanisms = Mechanisms::default();
        let config = PerceiverConfig {
            layers,
            heads,
            width,
            latents,
            context,
            vocabulary,
            masking,
            dropout,
            mechanisms,
        };
        return Ok(Arc::new(Perceiver::new(config)?));
    }
    let positions = match arm {
        Arm::Rotary => Positions::Rotary(RotarySpec::default()),
        _ => Positions::Learned,
    };
    let config =
        GptConfig { layers, heads, width, context, vocabulary, positions, dropout, ..GptConfig::SMALL };
    Ok(Arc::new(Gpt::new(config)?))
}

/// One arm; nothing if it was stopped.
fn one(
    data: &StudyData,
    ids: &Ids,
    settings: &StudySettings,
    arm: Arm,
    device: &Device,
    listener: &mut dyn StudyListener,
    stop: Option<&AtomicBool>,
) -> Result<Option<ArmResult>> {
    let began = Instant::now();
    let model = model(settings, arm, data.tokenizer.vocabulary())?;
    let parameters = model.parameters().count();
    let mut store = Store::new(settings.seed);
    let order = match settings.shuffle {
        true => Order::Shuffled { seed: settings.seed },
        false => Order::Sequential,
    };
    let padding = Padding::right(ids.pad);
    let mut train = |stage: Stage, source: Arc<dyn Source>, listener: &mut dyn StudyListener| {
        let bounds = Bounds { batch: stage.batch, length: ids.longest, source: 0 };
        let task = ModelTask::new(model.clone(), bounds, 0.0)?;
        let steps = trainer_settings(settings, stage, source.batches(0) as u64);
        let mut trainer = Trainer::new(&task, steps, &mut store, device)?;
        let run = Run { listener: Some(as_listener(listener)), stop, ..Run::new(source) };
        let outcome = trainer.run(&mut store, run)?;
        Ok::<History, Error>(outcome.history)
    };
    let stopped = || stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
    let mut reading = History::default();
    if arm != Arm::Alone {
        listener.stage(arm, "reading");
        let plan = Plan::fixed(ids.lines.len(), settings.pretrain.batch, order, false)?;
        let spans = Spans::new(settings.seed, ids.mark, settings.cut)?;
        let lines = ids.lines.clone();
        let make = move |epoch, line: usize| spans.example(epoch, line as u64, &lines[line]);
        reading = train(settings.pretrain, Arc::new(Sequences::new(plan, padding, make)), listener)?;
        if stopped() {
            return Ok(None);
        }
    }
    listener.stage(arm, "learning to answer");
    let stage = if arm == Arm::Alone { settings.alone } else { settings.after };
    let plan = Plan::fixed(ids.train.len(), stage.batch, order, false)?;
    let examples = ids.train.clone();
    let make = move |_, question: usize| Ok(examples[question].clone());
    let answering = train(stage, Arc::new(Sequences::new(plan, padding, make)), listener)?;
    if stopped() {
        return Ok(None);
    }

    let model = model.without_dropout()?;
    let mut answerer =
        Answerer::new(&*model, &data.tokenizer, ROWS, ANSWER, settings.precision, &mut store, device)?;
    let questions: Vec<&str> = data.dev.iter().map(|question| question.text.as_str()).collect();
    let answered = answerer.answer(&questions, &mut store, &mut unheard)?;
    let pairs = data.dev.iter().zip(answered);
    let dev = pairs
        .map(|(Question { text, place }, answered)| Answer {
            question: text.clone(),
            answered,
            place: place.clone(),
        })
        .collect();
    let test = answerer.answer(&data.test, &mut store, &mut unheard)?;
    let seconds = began.elapsed().as_secs_f64();
    Ok(Some(ArmResult { arm, parameters, seconds, reading, answering, dev, test, model, store }))
}

/// The mean loss over the last tenth of the steps.
fn last_loss(history: &History) -> Option<f64> {
    let steps = &history.steps[history.steps.len() - history.steps.len().div_ceil(10)..];
    let sum: f64 = steps.iter().map(|step| step.loss).sum();
    (!steps.is_empty()).then(|| sum / steps.len() as f64)
}

fn as_listener(listener: &mut dyn StudyListener) -> &mut dyn Listener {
    listener
}

fn trainer_settings(settings: &StudySettings, stage: Stage, batches: u64) -> regard_train::Settings {
    let end = (stage.decay_epochs * batches).max(settings.warm_up + 1);
    let shape = Shape::Cosine;
    regard_train::Settings {
        optimizer: Optimizer::AdamW(AdamW {
            beta1: 0.9,
            beta2: 0.95,
            weight_decay: settings.weight_decay,
            ..Default::default()
        }),
        decay: Decay::NotBiases,
        learning_rate: stage.lr,
        schedule: Schedule { shape, unit: Unit::Steps, warm_up: settings.warm_up, end, floor: 0.1 },
        precision: settings.precision,
        length: Length::Epochs(stage.epochs),
        seed: settings.seed,
        evaluate: Every::End,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests;
