//! From a name to a model whose weights were found: the files of a model, or a checkpoint of a run.

use crate::place::{Place, Which};
use crate::{Error, Result};
use regard_data::folder::read_json;
use regard_hub::Opened;
use regard_models::Registry;
use regard_ops::Weights;
use regard_train::Snapshot;
use serde_json::Value;
use std::path::Path;

/// How a model is opened.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions<'a> {
    /// Which families can be opened.
    pub registry: &'a Registry,
    /// Which weights of a run.
    pub which: Which,
    /// How weights are held while the model runs.
    pub weights: Weights,
    /// Tensors to be passed over though the model does not have them, as [`regard_hub::open_ignoring`] takes
    /// them.
    pub ignored: &'a [String],
    /// A file that says what the tensors are called, for a model that no family knows by name.
    pub names: Option<&'a Path>,
}

impl<'a> OpenOptions<'a> {
    /// The weights that a run exported, held as they are.
    pub fn new(registry: &'a Registry) -> OpenOptions<'a> {
        OpenOptions { registry, which: Which::Exported, weights: Weights::Full, ignored: &[], names: None }
    }
}

/// Opens a model: a folder, a run, a name in a local Hugging Face cache, or a file of llama2.c. Costs the
/// headers of the files, and for a checkpoint of a run its checksum.
pub fn open(name: &str, options: &OpenOptions<'_>) -> Result<Opened> {
    match Place::find(name, options.which)? {
        Place::Model(model) => Ok(match options.names {
            Some(names) => regard_hub::open_named(model, names, options.registry)?,
            None => regard_hub::open_ignoring(model, options.registry, options.ignored)?,
        }),
        Place::Checkpoint { weights, folder } => open_checkpoint(&weights, &folder, options.registry),
    }
}

/// Opens a checkpoint of a run. What lies beside it was written when the run began.
fn open_checkpoint(weights: &Path, folder: &Path, registry: &Registry) -> Result<Opened> {
    let snapshot = Snapshot::open(weights)?;
    let config = folder.join("config.json");
    let config: Value = match config.is_file() {
        true => read_json(&config)?,
        // A run of before configs were written at its beginning.
        false => {
            let own = snapshot.settings.get("model").and_then(Value::as_str);
            own.and_then(|text| serde_json::from_str(text).ok()).ok_or_else(|| Error::File {
                path: weights.display().to_string(),
                what: "neither it nor the run's model folder says what the model is".into(),
                advice: "go on with the run, which writes it: regard train --resume".into(),
            })?
        }
    };
    let checkpoint = snapshot.into_checkpoint();
    if folder.join(regard_hub::ADAPTER_CONFIG).is_file() {
        return Ok(Opened::of_adapter_checkpoint(folder, config, checkpoint, registry)?);
    }
    Ok(Opened::of_checkpoint(folder.into(), config, checkpoint, registry)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_refused() {
        let registry = Registry::standard();
        let options = OpenOptions::new(&registry);
        let message = open("no/such/folder", &options).err().unwrap().to_string();
        assert!(message.contains("no folder is called `no/such/folder`"), "{message}");
        let last = OpenOptions { which: Which::Last, ..options };
        let message = open("no/such/folder", &last).err().unwrap().to_string();
        assert!(
            message.starts_with("no/such/folder is no run, and its last checkpoint was asked for"),
            "{message}"
        );
    }
}
