//! Examinations outside of a run: a model from a folder, with the data of its recipe or with other files.

use super::beside::Beside;
use super::exam::{Exam, Setting};
use super::examples::{How, text_ids};
use super::read::{Material, other};
use super::settings::precision;
use crate::language::{DataKind, Kind, Recipe};
use crate::{Error, Result};
use regard_data::{Batch, Field};
use regard_engine::Cpu;
use regard_hub::Opened;
use regard_models::Model;
use std::path::PathBuf;

/// What to examine with.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Files; those of the recipe if there are none.
    pub data: Vec<PathBuf>,
    /// The target side of pairs.
    pub target: Vec<PathBuf>,
    /// Examples at a time.
    pub batch: Option<usize>,
    /// The most tokens of a translation or an answer.
    pub most: Option<usize>,
}

/// The examination of a model that was opened, with the recipe of its run if it has one.
pub fn tested(opened: &Opened, recipe: Option<&Recipe>, asked: &Asked, cpu: &Cpu) -> Result<Exam> {
    let beside = Beside::open(opened)?;
    let recipe = match recipe {
        // The last stage is the one that the model comes from.
        Some(recipe) => recipe.stages().pop().unwrap_or_else(|| recipe.clone()),
        None => {
            let task = task_of(&*opened.model)?;
            let mut recipe = Recipe { task, ..Recipe::default() };
            recipe.data.kind = match task {
                Kind::Language | Kind::Masked => DataKind::Text,
                Kind::Classify => DataKind::Classes,
                Kind::Translate => DataKind::Pairs,
                Kind::Images if asked.data.first().is_some_and(|path| path.is_dir()) => DataKind::Mnist,
                Kind::Images => DataKind::Cifar,
            };
            recipe
        }
    };
    let raw = match asked.data.is_empty() {
        false => other(recipe.task, &recipe.data, &asked.data, &asked.target, beside.labels.as_ref())?,
        true => {
            if recipe.data.train.is_empty() && recipe.data.kind != DataKind::Biographies {
                return Err(Error::invalid(
                    "a model without a recipe, and no data to examine it with",
                    "give --data with files, or name the folder of a run",
                ));
            }
            let Material { choose, last, .. } = Material::read(&recipe)?;
            last.or(choose).ok_or_else(|| {
                Error::invalid("the recipe of this run has no data to examine with", "give --data with files")
            })?
        }
    };
    let most_context = opened.model.context().unwrap_or(super::LONGEST);
    let how = How {
        batch: asked.batch.or(recipe.evaluate.batch).unwrap_or(recipe.train.batch).max(1),
        tokens: None,
        pad_to: None,
        context: recipe.model.context().unwrap_or(most_context).min(most_context),
        seed: recipe.seed,
        shuffle: false,
        augment: None,
    };
    let setting = Setting {
        beside,
        model: opened.model.clone(),
        how,
        precision: precision(&recipe),
        most: asked.most.unwrap_or(recipe.evaluate.most),
        cpu: cpu.clone(),
    };
    Exam::new(raw, setting)
}

/// What a model without a recipe is examined in.
fn task_of(model: &dyn Model) -> Result<Kind> {
    model.task().and_then(|task| Kind::named(task.name)).ok_or_else(|| {
        Error::invalid(
            "an encoder without a head for classes or masked tokens has nothing to be examined in",
            "fine-tune it first: see recipes/sentiment_minilm.toml",
        )
    })
}

/// Texts as one batch for a [`Classifier`](super::Classifier). A text that the model has no room for is refused, unless
/// it may be cut.
pub fn text_batch(texts: &[String], beside: &Beside, room: usize, may_cut: bool) -> Result<Batch> {
    let tokenizer = beside.tokenizer()?;
    let mut rows = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        let (ids, was_cut) = text_ids(tokenizer, text, room)?;
        if was_cut && !may_cut {
            return Err(Error::invalid(
                format!("text {} has more tokens than the {room} of the model", index + 1),
                "shorten it, or say --cut",
            ));
        }
        if ids.is_empty() {
            return Err(Error::invalid(format!("text {} has no tokens", index + 1), "give it words"));
        }
        rows.push(ids);
    }
    let longest = rows.iter().map(Vec::len).max().unwrap_or(1);
    let (mut ids, mut mask) = (Vec::new(), Vec::new());
    for row in &rows {
        let padding = longest - row.len();
        ids.extend(row.iter().map(|&id| id as i32).chain(std::iter::repeat_n(beside.pad() as i32, padding)));
        mask.extend((0..longest).map(|at| at < row.len()));
    }
    let dims = [rows.len(), longest];
    let fields = vec![Field::i32("ids", &dims, ids), Field::bools("mask", &dims, mask)];
    let examples = rows.len() as u64;
    Ok(Batch { fields, targets: 0, tokens: (dims[0] * dims[1]) as u64, examples })
}
