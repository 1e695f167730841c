//! Which weights a name leads to. A folder with a `recipe.toml` is a run, and its model is the one that it
//! exported, or one of its checkpoints; of a run in stages, those of the newest stage that has any.
//! Everything else is a model itself: a folder, a name in a local cache, a file of llama2.c.

use crate::{Error, Result};
use regard_train::RunPaths;
use std::fmt;
use std::path::{Path, PathBuf};

/// Which weights of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Which {
    /// Those that it exported when it came to its end.
    #[default]
    Exported,
    /// Those that were best so far.
    Best,
    /// The newest.
    Last,
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Which::Exported => "exported",
            Which::Best => "best",
            Which::Last => "last",
        })
    }
}

/// Where a model's weights are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A folder, a file of llama2.c, or a name in a local cache.
    Model(String),
    /// A checkpoint of a run.
    Checkpoint {
        /// The file with the weights.
        weights: PathBuf,
        /// The folder with what lies beside them.
        folder: PathBuf,
    },
}

/// Whether a folder is that of a run.
pub fn is_run(path: &Path) -> bool {
    RunPaths::new(path).is_run()
}

impl Place {
    /// Where a name leads.
    pub fn find(name: &str, which: Which) -> Result<Place> {
        let path = Path::new(name);
        if !is_run(path) {
            return match which {
                Which::Exported => Ok(Place::Model(name.into())),
                _ => Err(Error::invalid(
                    format!("{name} is no run, and its {which} checkpoint was asked for"),
                    "leave the checkpoint out, or name the folder of a run",
                )),
            };
        }
        let run = RunPaths::new(path);
        if which == Which::Exported {
            if has_weights(&run.model()) {
                return Ok(Place::Model(run.model().display().to_string()));
            }
            let newest = newest_stage(&run)?;
            let advice = match newest.last().is_file() {
                true => format!(
                    "let it come to its end: regard train --resume {name}; or take the weights that it has: \
                     --checkpoint last"
                ),
                false => format!("let it come to its end: regard train --resume {name}"),
            };
            return Err(Error::NotYet { run: name.into(), what: "a trained model yet", advice });
        }
        let stage = newest_stage(&run)?;
        let (weights, what) = match which {
            Which::Best => (stage.best(), "a best checkpoint yet"),
            _ => (stage.last(), "a checkpoint yet"),
        };
        if !weights.is_file() {
            let advice = match which == Which::Best && stage.last().is_file() {
                true => {
                    "it has not been examined, or has nothing to be examined with: take --checkpoint last"
                        .into()
                }
                false => format!("let it go on: regard train --resume {name}"),
            };
            return Err(Error::NotYet { run: name.into(), what, advice });
        }
        Ok(Place::Checkpoint { weights, folder: companion_folder(&run) })
    }
}

/// The folder with tokenizer and config: a run's own, or, for a stage of a run, that of the run.
fn companion_folder(run: &RunPaths) -> PathBuf {
    let above = run.folder().parent().map(RunPaths::new).filter(RunPaths::is_run);
    match above {
        Some(above) if !run.model().is_dir() => above.model(),
        _ => run.model(),
    }
}

/// Whether a model was exported to a folder.
fn has_weights(model: &Path) -> bool {
    ["model.safetensors", "model.safetensors.index.json", regard_hub::ADAPTER_WEIGHTS]
        .iter()
        .any(|name| model.join(name).is_file())
}

/// The newest stage of a run that has a checkpoint; the run itself, if it has no stages.
fn newest_stage(run: &RunPaths) -> Result<RunPaths> {
    let path = run.recipe();
    let text =
        std::fs::read_to_string(&path).map_err(|error| regard_data::Error::io("read", &path, error))?;
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| Error::File {
        path: path.display().to_string(),
        what: format!("is no TOML: {}", error.message()),
        advice: "put the recipe of the run back".into(),
    })?;
    let stages = table.get("stage").and_then(toml::Value::as_array);
    let names = stages.into_iter().flatten().filter_map(|stage| stage.get("name")?.as_str());
    let stages = names.map(|name| RunPaths::new(run.folder().join(name)));
    Ok(stages.rev().find(|stage| stage.last().is_file()).unwrap_or_else(|| run.clone()))
}
