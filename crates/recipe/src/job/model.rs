//! From `[model]` to a model of its family. A key that the family does not have is refused rather than
//! forgotten, and so is a task that it cannot do.

use crate::language::{ModelRecipe, TrainRecipe};
use crate::{Error, Result};
use regard_models::{Dropout, Model, Needs, Registry};
use std::sync::Arc;

/// A model made anew, with the dropout of training.
pub(super) fn made(model: &ModelRecipe, needs: Needs, registry: &Registry) -> Result<Arc<dyn Model>> {
    let family = registry.family(&model.family)?;
    if !family.tasks().contains(&needs.task) {
        let able = registry.doing(needs.task).join("\" or \"");
        return Err(Error::invalid(
            format!("the task `{}` with a model of the family `{}`", needs.task, family.name()),
            format!("give model.family = \"{able}\""),
        ));
    }
    let keys = model.keys();
    registry.check_keys(Some(family), &keys).map_err(|fault| Error::invalid(fault.what, fault.advice))?;
    let vocabulary = match keys.size("vocabulary") {
        Some(given) if given < needs.vocabulary => {
            return Err(Error::invalid(
                format!("model.vocabulary is {given}, and the tokenizer has {} tokens", needs.vocabulary),
                "leave it out, or give as many at least",
            ));
        }
        given => given.unwrap_or(needs.vocabulary),
    };
    let made = family.make(&keys, &Needs { vocabulary, ..needs })?;
    // Said now, not when the trained model is to be written.
    made.config_to_json()?;
    Ok(made)
}

/// The dropout of training.
pub(super) fn dropout(train: &TrainRecipe) -> Dropout {
    Dropout { activations: train.dropout, attention: train.attention_dropout, hidden: train.hidden_dropout }
}

/// A choice as recipes write it.
pub(super) fn word<T: serde::Serialize>(choice: T) -> String {
    serde_json::to_value(choice).ok().and_then(|value| value.as_str().map(str::to_string)).unwrap_or_default()
}
