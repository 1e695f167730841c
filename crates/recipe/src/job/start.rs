//! What a model starts from: a folder, a name in a local cache, or a run. Its settings and its tokenizer come
//! along; the head is replaced where the task or the classes are others; what was loaded, left out and made
//! anew is said.

use crate::language::{ModelRecipe, Recipe};
use crate::{Error, Result};
use regard_data::Tokenizer;
use regard_engine::Store;
use regard_graph::{Init, Shape};
use regard_hub::Opened;
use regard_layers::is_adapter;
use regard_models::{Dropout, Model, Needs, Registry};
use regard_runtime::OpenOptions;
use std::sync::Arc;

/// A model that was opened to start from.
#[derive(Debug)]
pub(super) struct Start {
    opened: Opened,
}

/// What became of the tensors of a model that was started from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Where it was found.
    pub from: String,
    /// How many tensors were loaded.
    pub tensors: usize,
    /// Which the files have and the new model has not.
    pub left_out: Vec<String>,
    /// Which begin anew.
    pub made: Vec<String>,
    /// How many weights have adapters.
    pub adapted: usize,
}

impl Start {
    /// Opens what `[from]` names, if it names anything. A run is entered by its exported model.
    pub fn open(recipe: &Recipe, registry: &Registry) -> Result<Option<Start>> {
        let Some(name) = &recipe.from.model else { return Ok(None) };
        Ok(Some(Start { opened: regard_runtime::open(name, &OpenOptions::new(registry))? }))
    }

    /// Its tokenizer, which its embedding was learned with.
    pub fn tokenizer(&self) -> Result<Option<Tokenizer>> {
        match self.opened.model.vocabulary() {
            None => Ok(None),
            Some(vocabulary) => Ok(Some(Tokenizer::of_model(&self.opened.path, vocabulary)?)),
        }
    }

    /// As it was opened.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// The same model with the dropout of training.
    pub fn with_dropout(&self, dropout: Dropout) -> Result<Arc<dyn Model>> {
        Ok(self.opened.model.with_dropout(dropout)?)
    }

    /// Where it lies, if that is a folder.
    pub fn folder(&self) -> Option<std::path::PathBuf> {
        Some(self.opened.path.clone()).filter(|path| path.is_dir())
    }

    /// Where it was found, as its name was given or in full.
    pub fn name(&self, recipe: &Recipe) -> String {
        let given = recipe.from.model.clone().unwrap_or_default();
        match std::fs::canonicalize(&given) {
            Ok(path) if self.opened.folder().is_some() => path.display().to_string(),
            _ => given,
        }
    }

    /// The parameters of a model that begin anew: those that this one does not have in the same shape.
    pub fn fresh(&self, model: &dyn Model) -> Vec<String> {
        let known = |name: &str, shape: &Shape| {
            self.opened.model.parameters().all().any(|own| own.name == name && own.shape == *shape)
        };
        let all = model.parameters().all().filter(|own| !is_adapter(&own.name));
        all.filter(|own| !known(&own.name, &own.shape)).map(|own| own.name.clone()).collect()
    }

    /// The model with the dropout of training, and with another head where the task needs one.
    pub fn model(&self, asked: &ModelRecipe, needs: &Needs) -> Result<Arc<dyn Model>> {
        Ok(self.opened.model.for_task(&asked.keys(), needs)?)
    }

    /// Puts its parameters into a store, as far as the new model has them in the same shape. The others begin
    /// as the new model says, drawn from the store's seed.
    pub fn load(&self, model: &dyn Model, store: &mut Store) -> Result<Loaded> {
        let mut own = Store::new(0);
        self.opened.load_into(&mut own)?;
        let mut loaded = Loaded { from: self.opened.path.display().to_string(), ..Loaded::default() };
        for declared in model.parameters().all() {
            match own.fact(&declared.name) {
                Ok(fact) if fact.shape == declared.shape => {
                    store.declare(&declared.name, &declared.shape, Init::Zeros)?;
                    store.set_f32(&declared.name, &own.f32(&declared.name)?)?;
                    loaded.tensors += 1;
                }
                _ if is_adapter(&declared.name) => {}
                _ => loaded.made.push(declared.name.clone()),
            }
        }
        let wanted = |name: &str| {
            model.parameters().all().any(|one| one.name == name)
                && !loaded.made.iter().any(|made| made == name)
        };
        loaded.left_out = own.names().filter(|name| !wanted(name)).map(str::to_string).collect();
        loaded.adapted = model.adaptation().map_or(0, |adaptation| adaptation.weights.len());
        if loaded.tensors == 0 {
            return Err(Error::invalid(
                format!("nothing of {} fits the new model", loaded.from),
                "start from a model of the same sizes",
            ));
        }
        Ok(loaded)
    }
}

impl Loaded {
    /// In words, for a line of its own.
    pub fn summary(&self) -> String {
        let mut summary = format!("{} tensors loaded from {}", self.tensors, self.from);
        if !self.left_out.is_empty() {
            summary += &format!("; left out: {}", self.left_out.join(", "));
        }
        if !self.made.is_empty() {
            summary += &format!("; new: {}", self.made.join(", "));
        }
        if self.adapted > 0 {
            summary += &format!("; adapters on {} weights", self.adapted);
        }
        summary
    }
}
