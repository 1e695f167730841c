//! A whole recipe in a folder: its stages one after the other, then the examination, then the exported model.
//!
//! A recipe of one stage has its run in the folder itself. One of several has `recipe.toml` and `model/` there, and each
//! stage's run in a folder of its own, `1-pretrain`, `2-finetune`.

use crate::build::{Baseline, Job};
use crate::language::Recipe;
use crate::{Error, Result};
use regard_engine::Cpu;
use regard_train::{End, Listener, Outcome, RunFolder};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Who hears how a recipe goes.
#[allow(unused_variables)]
pub trait StageListener: Listener {
    /// A stage is ready to run: what was loaded, how large it is.
    fn ready(&mut self, stage: &str, job: &Job) {}
}

impl StageListener for regard_train::Silent {}

/// What a recipe came to.
#[derive(Clone, Debug)]
pub struct Trained {
    /// The name and the outcome of each stage.
    pub stages: Vec<(String, Outcome)>,
    /// The metrics at the end; none if it was interrupted.
    pub metrics: Vec<(String, f64)>,
    /// What simple methods make of the same data.
    pub baselines: Vec<Baseline>,
    /// The exported model; none if it was interrupted.
    pub model: Option<PathBuf>,
}

/// Trains a recipe in a new folder.
pub fn train(
    recipe: &Recipe,
    folder: impl AsRef<Path>,
    cpu: &Cpu,
    listener: &mut dyn StageListener,
    stop: Option<&AtomicBool>,
) -> Result<Trained> {
    let folder = folder.as_ref();
    if folder.join("recipe.toml").exists() {
        return Err(Error::invalid(
            format!("{} has a run already", folder.display()),
            "resume it, or name another folder",
        ));
    }
    go(recipe, folder, cpu, listener, stop)
}

/// Goes on with a folder whose run was interrupted or killed, with the recipe that lies in it.
pub fn resume(
    folder: impl AsRef<Path>,
    cpu: &Cpu,
    listener: &mut dyn StageListener,
    stop: Option<&AtomicBool>,
) -> Result<Trained> {
    let folder = folder.as_ref();
    let recipe = Recipe::open(folder.join("recipe.toml"), &[])?;
    go(&recipe, folder, cpu, listener, stop)
}

fn go(
    recipe: &Recipe,
    folder: &Path,
    cpu: &Cpu,
    listener: &mut dyn StageListener,
    stop: Option<&AtomicBool>,
) -> Result<Trained> {
    let stages = recipe.stages();
    // The data and the model of the first stage come before the folder: a recipe that cannot run leaves nothing behind.
    let mut job = stages[0].build(cpu)?;
    let several = !recipe.stage.is_empty();
    if several && !folder.join("recipe.toml").exists() {
        std::fs::create_dir_all(folder).map_err(|error| regard_data::Error::io("make", folder, error))?;
        recipe.save(folder.join("recipe.toml"))?;
    }
    let mut done = Vec::new();
    for (index, stage) in stages.iter().enumerate() {
        if index > 0 {
            job = stage.build_after(job)?;
        }
        let path = match several {
            true => folder.join(format!("{}-{}", index + 1, stage.name)),
            false => folder.to_path_buf(),
        };
        let run = match path.join("recipe.toml").exists() {
            true => RunFolder::resume(&path)?,
            false => RunFolder::create(&path, &stage.to_toml()?)?,
        };
        listener.ready(&stage.name, &job);
        let outcome = job.run(Some(&run), as_listener(listener), stop)?;
        let interrupted = outcome.end == End::Interrupted;
        done.push((stage.name.clone(), outcome));
        if interrupted {
            return Ok(Trained { stages: done, metrics: Vec::new(), baselines: job.baselines, model: None });
        }
    }
    let metrics = job.examine()?;
    let model = folder.join("model");
    job.export(&model)?;
    Ok(Trained { stages: done, metrics, baselines: job.baselines, model: Some(model) })
}

fn as_listener(listener: &mut dyn StageListener) -> &mut dyn Listener {
    listener
}
