//! The one list of families. Opening a folder, making a model for a recipe and the command line are handed a
//! registry; `Registry::standard().with(mine)` is one with a family of one's own.

use crate::family::{Family, Weights};
use crate::keys::{Key, KeyFault, ModelKeys};
use crate::{Model, families};
use regard_graph::{Error, Result};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// Families by name.
#[derive(Clone)]
pub struct Registry {
    families: Vec<Arc<dyn Family>>,
}

impl Registry {
    /// No family.
    pub fn empty() -> Registry {
        Registry { families: Vec::new() }
    }

    /// The families of this library, one line each.
    pub fn standard() -> Registry {
        Registry::empty()
            .with(families::gpt::Gpts)
            .with(families::perceiver::Perceivers)
            .with(families::bert::Berts)
            .with(families::transformer::Transformers)
            .with(families::t5::T5s)
            .with(families::vit::Vits)
    }

    /// The same with one more. A later family goes before an earlier one of the same name or `model_type`.
    pub fn with(mut self, family: impl Family + 'static) -> Registry {
        self.families.insert(0, Arc::new(family));
        self
    }

    /// All families, in the order in which they were added.
    pub fn families(&self) -> impl Iterator<Item = &dyn Family> {
        self.families.iter().rev().map(|family| &**family)
    }

    /// The family that recipes call so.
    pub fn family(&self, name: &str) -> Result<&dyn Family> {
        let known = self.families.iter().find(|family| family.name() == name);
        known
            .map(|family| &**family)
            .ok_or_else(|| Error::unknown("family", name, self.families().map(|family| family.name())))
    }

    /// The families that do a task.
    pub fn doing(&self, task: &str) -> Vec<&str> {
        self.families().filter(|family| family.tasks().contains(&task)).map(|family| family.name()).collect()
    }

    /// Compares the keys of a recipe's `[model]` with those of a family; none means all families, for a model
    /// whose family its weights decide.
    pub fn check_keys(&self, family: Option<&dyn Family>, keys: &ModelKeys) -> Result<(), KeyFault> {
        let all: Vec<Key> = self.families().flat_map(|family| family.keys()).collect();
        let elsewhere = |name: &str| all.iter().any(|key| key.name == name);
        match family {
            Some(family) => keys.check(family.name(), &family.keys(), &elsewhere),
            None => keys.check("", &all, &|_| false),
        }
    }

    /// The model that a `config.json` speaks of, with the dropout that it was trained with.
    pub fn open(&self, config: &Value, weights: &dyn Weights) -> Result<Arc<dyn Model>> {
        let (family, model_type) = self.recognise(config)?;
        check_layers(config, weights)?;
        family.open(model_type, config, weights)
    }

    /// The family of a config and its `model_type`, which may be given by its architecture alone.
    pub fn recognise(&self, config: &Value) -> Result<(&dyn Family, &'static str)> {
        let forms = || {
            self.families
                .iter()
                .flat_map(|family| family.forms().into_iter().map(move |form| (&**family, form)))
        };
        let architecture = config["architectures"][0].as_str();
        let by_architecture =
            architecture.and_then(|name| forms().find(|(_, form)| form.architectures.contains(&name)));
        let Some(kind) = config["model_type"].as_str() else {
            return by_architecture.map(|(family, form)| (family, form.model_type)).ok_or_else(|| {
                let what = match architecture {
                    Some(name) => {
                        format!("config.json has no `model_type`, and its architecture is `{name}`")
                    }
                    None => "config.json names neither a `model_type` nor `architectures`".into(),
                };
                Error::invalid("hub", what, format!("known are {}", self.known()))
            });
        };
        let Some((family, form)) = forms().find(|(_, form)| form.model_type == kind) else {
            let what = format!("models of model_type `{kind}` are not known");
            return Err(Error::invalid("hub", what, format!("known are {}", self.known())));
        };
        match architecture {
            Some(name) if !form.architectures.contains(&name) => Err(Error::invalid(
                "hub",
                format!("config.json says model_type `{kind}`, but architecture `{name}`"),
                format!("one of this family is {}", form.architectures.join(", ")),
            )),
            _ => Ok((family, form.model_type)),
        }
    }

    /// Every `model_type` that can be opened, in order.
    pub fn model_types(&self) -> Vec<&'static str> {
        let mut known: Vec<&str> =
            self.families().flat_map(|family| family.forms()).map(|form| form.model_type).collect();
        known.sort_unstable();
        known.dedup();
        known
    }

    /// All of them, in a sentence.
    fn known(&self) -> String {
        self.model_types().join(", ")
    }
}

/// What configs call the number of blocks.
const LAYERS: [&str; 8] = [
    "num_hidden_layers",
    "n_layer",
    "num_layers",
    "num_decoder_layers",
    "num_encoder_layers",
    "layers",
    "encoder_layers",
    "decoder_layers",
];

/// Refuses a config that speaks of more blocks than its checkpoint has tensors, before a model is made of it:
/// each block has several of its own.
fn check_layers(config: &Value, weights: &dyn Weights) -> Result<()> {
    let Some(count) = weights.count() else { return Ok(()) };
    let more = |name: &&&str| config[**name].as_u64().is_some_and(|layers| layers > count as u64);
    match LAYERS.iter().find(more) {
        None => Ok(()),
        Some(name) => Err(Error::invalid(
            "hub",
            format!("`{name}` of config.json is {}, and the checkpoint has {count} tensors", config[*name]),
            "put the config.json of these weights there",
        )),
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.families().map(|family| family.name())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_family_is_found_by_either_name() {
        let registry = Registry::standard();
        let family = |config: Value| registry.recognise(&config).map(|(_, model_type)| model_type);
        assert_eq!(family(json!({"model_type": "t5"})).unwrap(), "t5");
        assert_eq!(family(json!({"architectures": ["ViTModel"]})).unwrap(), "vit");
        let text = |config: Value| family(config).unwrap_err().to_string();
        let known = format!("known are {}", registry.known());
        assert!(
            known.starts_with("known are bart, bert") && known.contains("regard-bert, regard-gpt"),
            "{known}"
        );
        assert_eq!(
            text(json!({"model_type": "mamba"})),
            format!("hub: models of model_type `mamba` are not known; {known}")
        );
        assert_eq!(
            text(json!({"hidden_size": 3})),
            format!("hub: config.json names neither a `model_type` nor `architectures`; {known}")
        );
        assert_eq!(
            text(json!({"architectures": ["MambaModel"]})),
            format!("hub: config.json has no `model_type`, and its architecture is `MambaModel`; {known}")
        );
        assert_eq!(
            text(json!({"model_type": "llama", "architectures": ["BertModel"]})),
            "hub: config.json says model_type `llama`, but architecture `BertModel`; one of this family is \
             LlamaForCausalLM"
        );
        struct Three;
        impl Weights for Three {
            fn has(&self, _: &str) -> bool {
                true
            }
            fn same(&self, _: &str, _: &str) -> Option<bool> {
                None
            }
            fn count(&self) -> Option<usize> {
                Some(3)
            }
        }
        let deep = json!({"model_type": "gpt2", "n_layer": 1_000_000_000u64});
        assert_eq!(
            registry.open(&deep, &Three).unwrap_err().to_string(),
            "hub: `n_layer` of config.json is 1000000000, and the checkpoint has 3 tensors; put the config.json of these \
             weights there"
        );
        assert_eq!(registry.doing("translate"), ["transformer", "t5"]);
        assert_eq!(
            registry.family("gtp").err().unwrap().to_string(),
            "no family is called `gtp`; did you mean `gpt`?"
        );
    }
}
