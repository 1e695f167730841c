//! From `[adapt]` to a model with adapters: which of its weights, what learns besides, and what becomes of
//! them at the end. Adapters alone are kept and exported; where a part of the model is new, such as the head
//! of a classifier, the whole is, with the adapters merged.

use crate::job::start::Start;
use crate::language::{AdaptRecipe, Recipe};
use crate::{Error, Result};
use regard_engine::Store;
use regard_layers::is_adapter;
use regard_models::{Adaptation, Adapted, Dropout, Model};
use regard_train::{Group, Settings};
use std::path::Path;
use std::sync::Arc;

/// A model that is adapted.
#[derive(Clone, Debug)]
pub(super) struct Adapting {
    /// The model that it was.
    base: String,
    /// Parameters that learn besides the adapters.
    fresh: Vec<String>,
}

/// The model with the adapters that a recipe asks for, if it does.
pub(super) fn adapted(
    recipe: &Recipe,
    start: Option<&Start>,
    model: Arc<dyn Model>,
    dropout: Dropout,
) -> Result<(Arc<dyn Model>, Option<Adapting>)> {
    let AdaptRecipe { rank, alpha, by_root, dropout: own, target } = &recipe.adapt;
    if recipe.adapt.is_none() {
        return Ok((model, None));
    }
    let wrong = |what: String, advice: &str| Err(Error::invalid(what, advice));
    let Some(start) = start else {
        return wrong("[adapt] is given, and no model that could be adapted".into(), "name one: from.model");
    };
    if *rank == 0 {
        return wrong("adapt.rank is 0".into(), "give adapters a rank of at least 1, such as 8");
    }
    if !alpha.is_finite() || !(0.0..1.0).contains(own) {
        let what = format!("adapt.alpha is {alpha} and adapt.dropout {own}");
        return wrong(what, "give a finite number, and a dropout from 0 up to, not including, 1");
    }
    let weights = match target.is_empty() {
        true => Adaptation::usual(model.parameters())?,
        false => Adaptation::weights_of(model.parameters(), target)?,
    };
    let adaptation = Adaptation { rank: *rank, alpha: *alpha, by_root: *by_root, dropout: *own, weights };
    let fresh = start.fresh(&*model);
    let model: Arc<dyn Model> = Arc::new(Adapted::new(&*model, dropout, adaptation)?);
    Ok((model, Some(Adapting { base: start.name(recipe), fresh })))
}

impl Adapting {
    /// Only adapters and what is new learn; only they are in checkpoints, unless a part is new.
    pub fn settle(&self, model: &dyn Model, settings: &mut Settings) {
        settings.groups.push(Group::of("*.adapter.*"));
        settings.groups.extend(self.fresh.iter().map(Group::of));
        settings.groups.push(Group::frozen("*"));
        if self.fresh.is_empty() {
            let own = model.parameters().all().filter(|own| !is_adapter(&own.name));
            settings.elsewhere = own.map(|own| own.name.clone()).collect();
        }
        if let Some(adaptation) = model.adaptation() {
            settings.about.push(("adapt".into(), format!("{adaptation:?}")));
        }
    }

    /// Writes how the adapters are made, so that checkpoints can be opened.
    pub fn announce(&self, model: &dyn Model, folder: &Path) -> Result<()> {
        Ok(regard_hub::save_adapters(model, None, &self.base, folder)?)
    }

    /// Writes the adapters, and says whether that was all. Where a part of the model is new they are merged
    /// into the store instead, for the whole to be written.
    pub fn export(&self, model: &dyn Model, store: &mut Store, folder: &Path) -> Result<bool> {
        if self.fresh.is_empty() {
            regard_hub::save_adapters(model, Some(store), &self.base, folder)?;
            return Ok(true);
        }
        regard_hub::merge_adapters(model, store)?;
        let config = folder.join(regard_hub::ADAPTER_CONFIG);
        if config.is_file() {
            std::fs::remove_file(&config)
                .map_err(|error| regard_data::Error::io("remove", &config, error))?;
        }
        Ok(false)
    }
}
