//! From a recipe to a job: model, task, sources, settings and examinations, ready for the loop.

mod baseline;
mod data;
mod examine;
mod model;
mod settings;
mod start;

pub use baseline::Baseline;
pub use start::Loaded;

use crate::language::{Family, Recipe};
use crate::{ModelTask, Result};
use data::Frame;
use examine::{Examination, Sizes};
use regard_data::dataset::Labels;
use regard_data::{Checkpoint, Source, Tokenizer};
use regard_engine::{Cpu, Store};
use regard_hub::{AnyModel, SaveOptions};
use regard_models::{BertConfig, GptConfig};
use regard_train::{Examiner, Listener, Outcome, Run, RunFolder, Settings, Trainer};
use start::Start;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// One stage of a recipe, ready to be run.
pub struct Job {
    /// The recipe of this stage.
    pub recipe: Recipe,
    /// The model and its loss.
    pub task: ModelTask,
    /// How it is trained.
    pub settings: Settings,
    /// What it is trained on.
    pub train: Arc<dyn Source>,
    /// What the evaluation loss is of.
    pub evaluation: Option<Arc<dyn Source>>,
    /// How text becomes numbers; none for images.
    pub tokenizer: Option<Tokenizer>,
    /// The names of the classes.
    pub labels: Option<Labels>,
    /// What simple methods make of the same data.
    pub baselines: Vec<Baseline>,
    /// What became of the parameters, where the recipe starts from another model.
    pub loaded: Option<Loaded>,
    /// The parameters.
    pub store: Store,
    examination: Examination,
    regular: bool,
    cpu: Cpu,
}

impl Recipe {
    /// Makes the job of a recipe of one stage: reads the data, makes the tokenizer, makes or loads the model. Several stages
    /// are [`Recipe::stages`]; each goes on with the store and the tokenizer of the one before ([`Recipe::build_after`]).
    pub fn build(&self, cpu: &Cpu) -> Result<Job> {
        self.built(cpu, None)
    }

    /// The same for a stage that follows another one: its parameters and its tokenizer are taken over.
    pub fn build_after(&self, before: Job) -> Result<Job> {
        let cpu = before.cpu.clone();
        self.built(&cpu, Some(before))
    }

    fn built(&self, cpu: &Cpu, before: Option<Job>) -> Result<Job> {
        model::check(self)?;
        let start = match (&self.from.model, &before) {
            (Some(name), None) => Some(Start::open(name)?),
            _ => None,
        };
        let known = before.as_ref().and_then(|job| job.tokenizer.clone());
        let known = known.or_else(|| start.as_ref().and_then(|start| start.tokenizer.clone()));
        let context = match (&before, &start) {
            (Some(job), _) => job.task.model().context(),
            (None, Some(start)) => start.context(),
            (None, None) => None,
        };
        // Positions that the task does not need cost nothing but memory; texts are cut to what the recipe asks for.
        let context = match (context, self.model.context) {
            (Some(most), Some(wanted)) => most.min(wanted),
            (Some(most), None) => most,
            (None, Some(wanted)) => wanted,
            (None, None) => default_context(self)?,
        };
        let prepared = data::prepare(&Frame { recipe: self, context, tokenizer: known.as_ref() })?;
        let (mut store, mut loaded) = (Store::new(self.seed), None);
        let made = match (before, start) {
            (Some(job), _) => {
                let model = with_dropout(job.task.for_training(), self)?;
                store = job.store;
                model
            }
            (None, Some(start)) => {
                let model = start.model(self, prepared.facts.classes)?;
                loaded = Some(start.load(&model, &mut store)?);
                model
            }
            (None, None) => model::fresh(self, prepared.facts)?,
        };
        let task = ModelTask::new(made, prepared.bounds, self.train.label_smoothing)?;
        let windows = self.train.micro_batch.map_or(1, |micro| self.train.batch / micro);
        let steps = prepared.train.batches(0).div_ceil(windows) as u64;
        let settings = settings::settings(self, steps, Examination::goal(&prepared.exam));
        let sizes = Sizes {
            bounds: prepared.bounds,
            precision: settings.precision,
            most: self.evaluate.most,
            beams: self.evaluate.beams,
        };
        let regular = Examination::is_regular(&prepared.exam);
        let examination = Examination::new(
            Arc::new(prepared.exam),
            task.model().clone(),
            prepared.tokenizer.clone(),
            cpu.clone(),
            sizes,
        );
        Ok(Job {
            recipe: self.clone(),
            task,
            settings,
            train: prepared.train,
            evaluation: prepared.evaluation,
            tokenizer: prepared.tokenizer,
            labels: prepared.labels,
            baselines: prepared.baselines,
            loaded,
            store,
            examination,
            regular,
            cpu: cpu.clone(),
        })
    }
}

impl Job {
    /// How many numbers the model learns.
    pub fn parameters(&self) -> usize {
        self.task.model().parameters().count()
    }

    /// Trains, from the folder's last checkpoint if it has one. With a folder, the store holds the best parameters in the
    /// end, by the metric that the settings name; without one, the last.
    pub fn run(
        &mut self,
        folder: Option<&RunFolder>,
        listener: &mut dyn Listener,
        stop: Option<&AtomicBool>,
    ) -> Result<Outcome> {
        let mut trainer = Trainer::new(&self.task, self.settings.clone(), &mut self.store, &self.cpu)?;
        let run = Run {
            source: self.train.clone(),
            evaluation: self.evaluation.clone(),
            examiner: self.regular.then_some(&mut self.examination as &mut dyn Examiner),
            folder,
            listener: Some(listener),
            stop,
        };
        let outcome = trainer.run(&mut self.store, run)?;
        if let Some(best) = folder.map(RunFolder::best).filter(|best| best.is_file()) {
            self.take(&best)?;
        }
        Ok(outcome)
    }

    /// Takes the parameters of a checkpoint of this model.
    pub fn take(&mut self, checkpoint: &Path) -> Result<()> {
        let checkpoint = Checkpoint::open(checkpoint)?;
        for declared in self.task.model().parameters().declared() {
            self.store.declare(&declared.name, &declared.shape, declared.init.clone())?;
            self.store.set_f32(&declared.name, &checkpoint.get(&declared.name)?.f32s())?;
        }
        Ok(())
    }

    /// The metrics at the end, by name: `accuracy`, `exact`, `bleu`; on data that no choice was made on, where there is such.
    pub fn examine(&mut self) -> Result<Vec<(String, f64)>> {
        self.examination.last(&mut self.store)
    }

    /// Writes the model as a folder that the other commands open: `config.json` with the names of the classes,
    /// `model.safetensors`, `tokenizer.json`.
    pub fn export(&self, folder: impl AsRef<Path>) -> Result<()> {
        let folder = folder.as_ref();
        let mut more = Vec::new();
        if let Some(labels) = &self.labels {
            let names = labels.names().iter().enumerate();
            let by_id = names.clone().map(|(id, name)| (id.to_string(), name.as_str().into()));
            let by_name = names.map(|(id, name)| (name.clone(), id.into()));
            more.push(("id2label", serde_json::Value::Object(by_id.collect())));
            more.push(("label2id", serde_json::Value::Object(by_name.collect())));
        }
        let options = SaveOptions { settings: &more, ..Default::default() };
        regard_hub::save(self.task.for_training(), &self.store, folder, &options)?;
        if let Some(tokenizer) = &self.tokenizer {
            tokenizer.save(folder.join("tokenizer.json"))?;
        }
        Ok(())
    }
}

/// The most tokens of a text where nobody says.
fn default_context(recipe: &Recipe) -> Result<usize> {
    Ok(match (recipe.model.family, &recipe.model.preset) {
        (Family::Gpt, Some(preset)) => GptConfig::preset(preset)?.context,
        (Family::Bert, preset) => BertConfig::preset(preset.as_deref().unwrap_or("bert-tiny"))?.context,
        _ => GptConfig::SMALL.context,
    })
}

/// The same model with the dropout of another stage.
fn with_dropout(model: &AnyModel, recipe: &Recipe) -> Result<AnyModel> {
    let dropout = recipe.train.dropout;
    Ok(match model {
        AnyModel::Gpt(gpt, form) => {
            let attention_dropout = Some(recipe.train.attention_dropout.unwrap_or(dropout));
            let config = GptConfig { dropout, attention_dropout, ..*gpt.config() };
            AnyModel::Gpt(regard_models::Gpt::new(config)?, *form)
        }
        AnyModel::Perceiver(model) => {
            let config = regard_models::PerceiverConfig { dropout, ..*model.config() };
            AnyModel::Perceiver(Box::new(regard_models::Perceiver::new(config)?))
        }
        other => other.clone(),
    })
}
