//! Examinations outside of a run: a model from a folder, with the data of its recipe or with other files.

use super::contrast;
use super::exam::{Exam, Setting};
use super::examples::How;
use super::read::{Material, other};
use super::settings::precision;
use crate::language::{DataKind, Kind, Recipe};
use crate::{Error, Result};
use regard_engine::AsDevice;
use regard_hub::Opened;
use regard_models::Model;
use regard_runtime::{Companions, Problem};
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
pub fn tested(
    opened: &Opened,
    recipe: Option<&Recipe>,
    asked: &Asked,
    device: &impl AsDevice,
) -> Result<Exam> {
    let device = &device.as_device();
    let companions = Companions::open(&*opened.model, &opened.config, &opened.path)?;
    if companions.problem != Problem::OneOf {
        let kind = &opened.config["problem_type"];
        return Err(Error::invalid(
            format!(
                "`problem_type` of the model is {kind}, and examples are examined for the one right class"
            ),
            "classify them instead, and judge the probabilities: regard classify",
        ));
    }
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
                Kind::Contrast => DataKind::Couples,
                Kind::Images if asked.data.first().is_some_and(|path| path.is_dir()) => DataKind::Mnist,
                Kind::Images => DataKind::Cifar,
            };
            recipe
        }
    };
    let raw = match asked.data.is_empty() {
        false => {
            let (data, template) = (&recipe.data, companions.chat_template().ok());
            other(recipe.task, data, &asked.data, &asked.target, companions.classes.as_ref(), template)?
        }
        true => {
            let invents = matches!(recipe.data.kind, DataKind::Biographies | DataKind::Chats);
            if recipe.data.train.is_empty() && !invents {
                return Err(Error::invalid(
                    "a model without a recipe, and no data to examine it with",
                    "give --data with files, or name the folder of a run",
                ));
            }
            let Material { choose, last, .. } = Material::read(&recipe, companions.chat_template().ok())?;
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
        salient: 0.0,
        cut: true,
        exchanged: 0.0,
    };
    let setting = Setting {
        companions,
        model: match recipe.task {
            Kind::Contrast => contrast::model(opened.model.clone(), &recipe, Some(&opened.path))?,
            _ => opened.model.clone(),
        },
        how,
        precision: precision(&recipe),
        most: asked.most.unwrap_or(recipe.evaluate.most),
        device: device.clone(),
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
