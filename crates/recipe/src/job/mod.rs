//! A recipe made ready: data, tokenizer, model, task, settings and examinations of every stage.
//! [`Job::train`] runs the stages one after the other in a run folder, examines the best weights at the end,
//! and exports them.
//!
//! A run of one stage lies in its folder itself. With several, each stage has a folder of its own in it,
//! named after the stage, and the exported model lies above them.

mod adapt;
mod baseline;
mod chats;
mod columns;
mod companions;
mod contrast;
mod exam;
mod examples;
mod model;
mod read;
mod result;
mod settings;
mod start;
mod tested;

pub use baseline::Baseline;
pub use exam::{Exam, Findings, Prediction};
pub use result::JobResult;
pub use start::Loaded;
pub use tested::{Asked, tested};

use crate::language::{DataKind, DataRecipe, FormRecipe, Kind, Recipe};
use crate::{Bounds, ModelTask, Result};
use adapt::Adapting;
use exam::Setting;
use examples::{Examples, How};
use read::{Material, Raw};
use regard_data::{Source, whole};
use regard_engine::{AsDevice, Device, Store};
use regard_graph::Init;
use regard_layers::is_adapter;
use regard_models::{Model, Needs, Registry};
use regard_runtime::Companions;
use regard_train::{
    End, History, Listener, Run, RunFolder, RunPaths, Section, Settings, State, Trainer, report,
};
use settings::Extent;
use start::Start;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The file with what a run came to.
pub const RESULT: &str = "result.json";

/// The file with answers to questions whose answers are kept by others: one on each line, as the course takes
/// them.
pub const PREDICTIONS: &str = "predictions.txt";

/// A recipe made ready.
pub struct Job {
    recipe: Recipe,
    companions: Companions,
    model: Arc<dyn Model>,
    start: Option<Start>,
    adapting: Option<Adapting>,
    stages: Vec<Stage>,
    notes: Vec<String>,
}

/// One stage of it.
struct Stage {
    recipe: Recipe,
    material: Material,
    train: Examples,
    source: Arc<dyn Source>,
    evaluation: Option<Arc<dyn Source>>,
    task: ModelTask,
    settings: Settings,
    how: How,
}

/// Who hears how a job goes. Every method does nothing unless it is written.
#[allow(unused_variables)]
pub trait JobListener: Listener {
    /// A stage begins; there may be one only.
    fn stage(&mut self, name: &str, number: usize, of: usize) {}
    /// Something that a person should know: what was loaded, what is being examined.
    fn note(&mut self, text: &str) {}
}

impl JobListener for regard_train::Silent {}

/// What a job came to.
#[derive(Clone, Debug)]
pub struct JobOutcome {
    /// Why it ended.
    pub end: End,
    /// Where the last stage that ran is.
    pub state: State,
    /// Its steps and evaluations.
    pub history: History,
    /// The examination of the best weights; nothing if the job was interrupted.
    pub result: Option<JobResult>,
}

impl Job {
    /// Reads the data, makes or opens tokenizer and model, and settles everything that can be wrong before a
    /// step is made. Nothing is written. The registry says which families there are.
    pub fn new(recipe: &Recipe, registry: &Registry) -> Result<Job> {
        let stages = recipe.stages();
        let start = Start::open(&stages[0], registry)?;
        let mut materials = Vec::with_capacity(stages.len());
        let from = start.as_ref().and_then(Start::folder);
        let is_chat = stages.iter().any(|stage| stage.data.kind == DataKind::Chats);
        let named = stages.iter().find_map(|stage| stage.data.template.as_deref());
        let template = is_chat.then(|| chats::template(named, from.as_deref())).transpose()?;
        for stage in &stages {
            materials.push(Material::read(stage, template.as_ref())?);
        }
        let first = &materials[0];
        let own = start.as_ref().map(Start::tokenizer).transpose()?.flatten();
        let companions = companions::make(recipe, first, own)?;
        let companions = match template {
            None => companions,
            Some(template) => companions::with_chat(companions, template, start.is_some())?,
        };
        let needs = Needs {
            task: recipe.task.name(),
            dropout: model::dropout(&stages[0].train),
            vocabulary: companions.tokenizer().map_or(0, |tokenizer| tokenizer.vocabulary()),
            classes: companions.classes.as_ref().map_or(0, |labels| labels.len()),
            image: match &first.train {
                Raw::Images(images, _) => [images.channels(), images.height(), images.width()],
                _ => [0; 3],
            },
            longest: LONGEST,
        };
        let model = match &start {
            None if recipe.task == Kind::Contrast => {
                return Err(crate::Error::invalid(
                    "vectors are learned by comparison from an encoder that there is",
                    "name one: from.model",
                ));
            }
            Some(start) if recipe.task == Kind::Contrast => {
                contrast::model(start.with_dropout(needs.dropout)?, recipe, from.as_deref())?
            }
            None => model::made(&recipe.model, needs, registry)?,
            Some(start) => start.model(&recipe.model, &needs)?,
        };
        let (model, adapting) = adapt::adapted(recipe, start.as_ref(), model, needs.dropout)?;
        if let Some(vocabulary) = model.vocabulary().filter(|&own| own < needs.vocabulary) {
            return Err(crate::Error::invalid(
                format!("the tokenizer has {} tokens, the model knows {vocabulary}", needs.vocabulary),
                "put the tokenizer that belongs to the model beside it",
            ));
        }
        let mut notes = Vec::new();
        let mut ready = Vec::with_capacity(stages.len());
        for (stage, material) in stages.into_iter().zip(materials) {
            let mut stage = Stage::new(stage, material, &companions, &model, &mut notes)?;
            if let Some(adapting) = &adapting {
                adapting.settle(&*model, &mut stage.settings);
            }
            ready.push(stage);
        }
        Ok(Job { recipe: recipe.clone(), companions, model, start, adapting, stages: ready, notes })
    }

    /// The recipe.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// The model, without the dropout of training.
    pub fn model(&self) -> &Arc<dyn Model> {
        self.stages[0].task.model()
    }

    /// What lies beside it.
    pub fn companions(&self) -> &Companions {
        &self.companions
    }

    /// The batches of a stage, by its name, as training sees them; of the first stage if none is named.
    pub fn batches(&self, stage: Option<&str>) -> Result<&Arc<dyn Source>> {
        let found = match stage {
            None => self.stages.first(),
            Some(name) => self.stages.iter().find(|stage| stage.recipe.name == name),
        };
        found.map(|stage| &stage.source).ok_or_else(|| {
            let known = self.stages.iter().map(|stage| stage.recipe.name.as_str());
            regard_graph::Error::unknown("stage", stage.unwrap_or_default(), known).into()
        })
    }

    /// What it is about, a line for each: data, tokenizer, model, and what should be known before it begins.
    pub fn summary(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for stage in &self.stages {
            let name = if self.stages.len() > 1 { format!("{}: ", stage.recipe.name) } else { String::new() };
            let mut line = format!("{name}{} to learn from", stage.material.train.summary());
            if let Some(choose) = &stage.material.choose {
                line += &format!(", {} to choose the best weights with", choose.summary());
            }
            if let Some(last) = &stage.material.last {
                line += &format!(", {} for the examination at the end", last.summary());
            }
            lines.push(line);
        }
        if let Ok(tokenizer) = self.companions.tokenizer() {
            lines.push(format!("{} tokens in the vocabulary", tokenizer.vocabulary()));
        }
        if let Some(labels) = &self.companions.classes {
            lines.push(format!("{} classes: {}", labels.len(), shortened(&labels.names().join(", "))));
        }
        let count = self.model.parameters().count();
        let mut line = format!("{}, {count} parameters", self.model.family());
        if let Some(adaptation) = self.model.adaptation() {
            let own = self.model.parameters().declared().filter(|own| is_adapter(&own.name));
            let own: usize = own.map(|own| own.shape.bound().count()).sum();
            let (rank, weights) = (adaptation.rank, adaptation.weights.len());
            line += &format!(", {own} of them in adapters of rank {rank} on {weights} weights");
        }
        lines.push(line);
        lines.extend(self.notes.iter().cloned());
        lines
    }

    /// Trains, from where the folder was left. Each stage begins with the best weights of the one before.
    /// `stop` ends it after the step at hand.
    pub fn train(
        &self,
        folder: &RunFolder,
        device: &impl AsDevice,
        listener: &mut dyn JobListener,
        stop: Option<&AtomicBool>,
    ) -> Result<JobOutcome> {
        let device = &device.as_device();
        let mut store = Store::new(self.recipe.seed);
        self.companions.save_for(&**self.model(), &folder.model())?;
        if let Some(adapting) = &self.adapting {
            adapting.announce(&**self.model(), &folder.model())?;
        }
        if let Some(start) = &self.start {
            let loaded = start.load(&*self.model, &mut store)?;
            listener.note(&loaded.summary());
        }
        let count = self.stages.len();
        let mut last = None;
        for (index, stage) in self.stages.iter().enumerate() {
            listener.stage(&stage.recipe.name, index + 1, count);
            let own = match count {
                1 => None,
                _ => Some(stage_folder(folder, &stage.recipe)?),
            };
            let own = Kept { folder: own.as_ref().unwrap_or(folder), last: index + 1 == count };
            let (outcome, settings) =
                stage.train(own, &self.companions, &mut store, device, listener, stop)?;
            let interrupted = outcome.end == End::Interrupted;
            let step = outcome.result_step;
            let (end, state, history) = (outcome.end, outcome.state, outcome.history);
            if interrupted {
                return Ok(JobOutcome { end, state, history, result: None });
            }
            last = Some((end, state, history, step, settings));
        }
        let Some((end, state, history, step, settings)) = last else {
            return Err(crate::Error::invalid("the recipe has no stage", "give it one, or none at all"));
        };
        let stage = &self.stages[count - 1];
        let model = folder.model();
        // The caches that an examination on the way left behind have other sizes than those of the last one.
        let mut store = parameters_of(&**stage.task.model(), &store)?;
        match &self.adapting {
            None if self.recipe.task == Kind::Contrast => {
                let like = self.start.as_ref().map(Start::opened);
                companions::export_like(&self.companions, &**stage.task.model(), &store, &model, like)?;
            }
            None => companions::export(&self.companions, &**stage.task.model(), &store, &model)?,
            Some(adapting) => {
                // Merging changes the weights; the examination is of those that learned.
                let mut own = parameters_of(&**stage.task.model(), &store)?;
                if !adapting.export(&**stage.task.model(), &mut own, &model)? {
                    companions::export(&self.companions, &**stage.task.model(), &own, &model)?;
                }
            }
        }
        if stage.material.choose.is_some() {
            listener.note("examining the best weights");
        }
        let own = match count {
            1 => None,
            // Let go of when the stage ended.
            _ => Some(RunFolder::resume(folder.path().join(&stage.recipe.name))?),
        };
        let report = |sections: &[Section]| {
            report::write(own.as_ref().unwrap_or(folder), &settings, &state, &history, sections)
        };
        // A run whose examination fails still has its curves.
        let exam = stage.last_exam(&self.companions, &mut store, device);
        let (result, sections) = exam.or_else(|error| report(&[]).map_err(Into::into).and(Err(error)))?;
        let result = JobResult { step, model, ..result };
        report(&std::iter::once(result.section()).chain(sections).collect::<Vec<_>>())?;
        let predictions =
            stage.answer_test(&self.companions, &mut store, device, &folder.path().join(PREDICTIONS))?;
        let result = JobResult { predictions, ..result };
        let text = format!("{:#}\n", result.json());
        whole::write(folder.path().join(RESULT), |file| file.write_all(text.as_bytes()))?;
        Ok(JobOutcome { end, state, history, result: Some(result) })
    }
}

/// The positions of an encoder-decoder whose recipe does not say: they are computed, not learned.
const LONGEST: usize = 256;

/// Refuses rows of a length that the model has no room for, or that the data does not know.
fn check_padding(data: &DataRecipe, room: Option<usize>) -> Result<()> {
    let Some(length) = data.pad_to else { return Ok(()) };
    if data.kind != DataKind::Biographies {
        let what = format!("data.pad_to is {length}, and the data are no biographies");
        return Err(crate::Error::invalid(what, "leave it out: rows are as long as their longest"));
    }
    if let Some(room) = room.filter(|room| length > *room) {
        let what = format!("data.pad_to is {length}, and the model has room for {room} tokens");
        return Err(crate::Error::invalid(what, "give it at most as many"));
    }
    Ok(())
}

/// A store with the parameters of a model alone.
fn parameters_of(model: &dyn Model, from: &Store) -> Result<Store> {
    let mut store = Store::new(0);
    for declared in model.parameters().all() {
        store.declare(&declared.name, &declared.shape, Init::Zeros)?;
        store.set_f32(&declared.name, &from.f32(&declared.name)?)?;
    }
    Ok(store)
}

/// The folder of one of several stages.
fn stage_folder(folder: &RunFolder, recipe: &Recipe) -> Result<RunFolder> {
    let path = folder.path().join(&recipe.name);
    if RunPaths::new(&path).is_run() {
        return Ok(RunFolder::resume(path)?);
    }
    Ok(RunFolder::create(path, &recipe.to_toml()?)?)
}

/// Where a stage is kept, and whether it is the last: its report waits for the examination.
struct Kept<'a> {
    folder: &'a RunFolder,
    last: bool,
}

/// How one stage ended.
struct Ended {
    end: End,
    state: State,
    history: History,
    /// The step whose weights are in the store now.
    result_step: u64,
}

impl Stage {
    fn new(
        recipe: Recipe,
        material: Material,
        companions: &Companions,
        model: &Arc<dyn Model>,
        notes: &mut Vec<String>,
    ) -> Result<Stage> {
        let (train, data) = (&recipe.train, &recipe.data);
        let room = match (recipe.model.context(), model.context()) {
            (Some(asked), Some(own)) => Some(asked.min(own)),
            (asked, own) => asked.or(own),
        };
        check_padding(data, room)?;
        let examples = Examples::new(&material.train, companions, room, true)?;
        let how = How {
            batch: train.micro_batch.unwrap_or(train.batch),
            tokens: train.batch_tokens,
            pad_to: data.pad_to,
            context: room.unwrap_or(LONGEST),
            seed: recipe.seed,
            shuffle: data.shuffle,
            augment: Some((data.shift, data.flip)),
            salient: data.salient,
            cut: data.cut,
            exchanged: match data.form {
                FormRecipe::Reading => data.exchange.unwrap_or(0.5),
                _ => 0.0,
            },
        };
        let source = examples.source(&how, companions)?;
        let mut bounds = examples.bounds(&how);
        if let Raw::Chats(_, marked) = &material.train {
            notes.push(format!("only replies are learned, {marked}"));
        }
        if examples.shortened > 0 {
            let what = match material.train {
                Raw::Pairs(_) => "pairs are longer than the model has room for, and are left out",
                _ => "texts are longer than the model has room for, and are cut",
            };
            notes.push(format!("{} {what}", examples.shortened));
        }
        let quiet = quiet(&how, &recipe);
        let evaluation = match &material.choose {
            None => None,
            Some(raw) => {
                let examples = Examples::new(raw, companions, room, false)?;
                bounds = larger(bounds, examples.bounds(&quiet));
                let seen = read::seen_before(&material.train, raw);
                if seen > 0 {
                    notes.push(format!(
                        "{seen} of the examples to choose with stand in the training data, too"
                    ));
                }
                Some(examples.source(&quiet, companions)?)
            }
        };
        let task = ModelTask::new(model.clone(), bounds, train.label_smoothing)?;
        let extent = Extent {
            batches: source.batches(0) as u64,
            tokens: source.batch(0, 0)?.tokens,
            examined: evaluation.is_some(),
        };
        let mut settings = settings::settings(&recipe, extent);
        if matches!(material.train, Raw::Questions(_)) {
            settings.goal.metric = "exact".into();
            settings.goal.higher = true;
        }
        let config = model.config_to_json()?;
        let tokenizer = companions.tokenizer().ok().map(|tokenizer| tokenizer.vocabulary().to_string());
        settings.about.extend([
            ("model".to_string(), config.to_string()),
            ("tokens".to_string(), tokenizer.unwrap_or_else(|| "none".into())),
            ("data".to_string(), examples.fact()),
            ("batches".to_string(), format!("{how:?}")),
            ("label_smoothing".to_string(), train.label_smoothing.to_string()),
            ("from".to_string(), recipe.from.model.clone().unwrap_or_else(|| "nothing".into())),
        ]);
        Ok(Stage { recipe, material, train: examples, source, evaluation, task, settings, how })
    }

    fn train(
        &self,
        Kept { folder, last }: Kept<'_>,
        companions: &Companions,
        store: &mut Store,
        device: &Device,
        listener: &mut dyn JobListener,
        stop: Option<&AtomicBool>,
    ) -> Result<(Ended, Settings)> {
        let mut trainer = Trainer::new(&self.task, self.settings.clone(), store, device)?;
        let mut exam = match &self.material.choose {
            // Running text is examined by its loss alone, which the loop measures.
            None | Some(Raw::Text(_) | Raw::Lines(_) | Raw::Chats(..)) => None,
            Some(raw) => Some(Exam::new(raw.clone(), self.setting(companions, device))?),
        };
        let run = Run {
            source: self.source.clone(),
            evaluation: self.evaluation.clone(),
            examiner: exam.as_mut().map(|exam| exam as &mut dyn regard_train::Examiner),
            folder: Some(folder),
            listener: Some(as_listener(listener)),
            stop,
            reported_by_caller: last,
        };
        let outcome = trainer.run(store, run)?;
        let mut result_step = outcome.state.step;
        if outcome.end != End::Interrupted && folder.best().is_file() {
            trainer.restore(&folder.best(), store)?;
            result_step = trainer.state().step;
        }
        let ended = Ended { end: outcome.end, state: outcome.state, history: outcome.history, result_step };
        Ok((ended, self.settings.clone()))
    }

    fn setting(&self, companions: &Companions, device: &Device) -> Setting {
        Setting {
            companions: companions.clone(),
            model: self.task.model().clone(),
            how: quiet(&self.how, &self.recipe),
            precision: settings::precision(&self.recipe),
            most: self.recipe.evaluate.most,
            device: device.clone(),
        }
    }

    /// Examines the weights in the store with what was kept for the end, or else with what the choice was
    /// made with.
    fn last_exam(
        &self,
        companions: &Companions,
        store: &mut Store,
        device: &Device,
    ) -> Result<(JobResult, Vec<Section>)> {
        let Some(raw) = self.material.last.as_ref().or(self.material.choose.as_ref()) else {
            return Ok(Default::default());
        };
        let mut exam = Exam::new(raw.clone(), self.setting(companions, device))?;
        let Findings { metrics, confusion, signature, .. } =
            exam.examine(self.recipe.evaluate.beams.max(1), store)?;
        let vocabulary = companions.tokenizer().map_or(0, |tokenizer| tokenizer.vocabulary());
        let baselines = match self.recipe.evaluate.baseline {
            false => Vec::new(),
            true => {
                let ids = (&self.train, exam.examples());
                baseline::baselines(&self.material.train, exam.raw(), ids, vocabulary)?
            }
        };
        let result = JobResult {
            examined: exam.summary(),
            metrics,
            baselines,
            confusion: confusion.map(|table| table.to_string()),
            signature,
            ..JobResult::default()
        };
        Ok((result, regard_train::Examiner::sections(&exam)))
    }
}

impl Stage {
    /// Answers the questions of a study whose answers are kept by others, and says where; nothing if there
    /// are none.
    fn answer_test(
        &self,
        companions: &Companions,
        store: &mut Store,
        device: &Device,
        path: &Path,
    ) -> Result<Option<PathBuf>> {
        let asked = self.material.study.iter().flat_map(|study| &study.test);
        let asked: Vec<(String, String)> =
            asked.map(|question| (self.asked(question), String::new())).collect();
        if asked.is_empty() || !matches!(self.material.train, Raw::Questions(_)) {
            return Ok(None);
        }
        let mut exam = Exam::new(Raw::Questions(asked), self.setting(companions, device))?;
        let findings = exam.examine(self.recipe.evaluate.beams.max(1), store)?;
        let predicted: Vec<&str> = findings.predictions.iter().map(|one| one.predicted.as_str()).collect();
        crate::study::write_predictions(&predicted, path)?;
        Ok(Some(path.to_path_buf()))
    }

    /// A question as this stage learned to be asked.
    fn asked(&self, question: &str) -> String {
        match (&self.material.study, self.recipe.data.form) {
            (Some(study), FormRecipe::Reading) => read::with_line(&self.recipe, study, question),
            _ => question.to_string(),
        }
    }
}

/// Batches for an examination: in order, and nothing moved.
fn quiet(how: &How, recipe: &Recipe) -> How {
    let batch = recipe.evaluate.batch.unwrap_or(how.batch).max(1);
    How { batch, tokens: None, pad_to: None, shuffle: false, augment: None, exchanged: 0.0, ..*how }
}

fn larger(a: Bounds, b: Bounds) -> Bounds {
    Bounds { batch: a.batch.max(b.batch), length: a.length.max(b.length), source: a.source.max(b.source) }
}

fn as_listener(listener: &mut dyn JobListener) -> &mut dyn Listener {
    listener
}

fn shortened(text: &str) -> String {
    const MOST: usize = 80;
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.into(),
    }
}
