//! The folder of a run: where everything lies, and the lock that keeps a second process out. The lock is the
//! operating system's own on an open file, so it ends with the process that holds it, however that ends.

use crate::{Error, Result};
use regard_data::whole;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where the parts of a run lie. Says nothing about whether they are there, and locks nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPaths {
    folder: PathBuf,
}

/// The folder of a run, locked for as long as this lives.
#[derive(Debug)]
pub struct RunFolder {
    paths: RunPaths,
    recipe: String,
    /// The outermost folder that was made for it, if it was made just now.
    made: Option<PathBuf>,
    _lock: File,
}

const RECIPE: &str = "recipe.toml";
const LOCK: &str = "lock";

impl RunPaths {
    /// Those of the run in this folder.
    pub fn new(folder: impl Into<PathBuf>) -> RunPaths {
        RunPaths { folder: folder.into() }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What the run is.
    pub fn recipe(&self) -> PathBuf {
        self.folder.join(RECIPE)
    }

    /// Whether the folder is that of a run: it has a recipe.
    pub fn is_run(&self) -> bool {
        self.recipe().is_file()
    }

    /// One line of JSON for every step and every evaluation.
    pub fn metrics(&self) -> PathBuf {
        self.folder.join("metrics.jsonl")
    }

    /// The page that shows the run.
    pub fn report(&self) -> PathBuf {
        self.folder.join("report.html")
    }

    /// Whether a process holds the lock of the run.
    pub fn is_locked(&self) -> bool {
        let file = File::open(self.folder.join(LOCK));
        file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// The newest checkpoint.
    pub fn last(&self) -> PathBuf {
        self.folder.join("checkpoints").join("last.safetensors")
    }

    /// The checkpoint with the best metric.
    pub fn best(&self) -> PathBuf {
        self.folder.join("checkpoints").join("best.safetensors")
    }

    /// Where the trained model is exported to; what lies beside its weights is there from the first step on.
    pub fn model(&self) -> PathBuf {
        self.folder.join("model")
    }
}

impl RunFolder {
    /// A new run: makes the folder and writes the recipe. A folder that already has a run is refused.
    pub fn create(path: impl AsRef<Path>, recipe: &str) -> Result<RunFolder> {
        let path = path.as_ref();
        let missing = path.ancestors().take_while(|above| !above.as_os_str().is_empty() && !above.exists());
        let made = missing.last().map(Path::to_path_buf);
        fs::create_dir_all(path.join("checkpoints")).map_err(|e| Error::io("make", path, e))?;
        let lock = lock(path)?;
        if path.join(RECIPE).exists() {
            return Err(Error::folder(path, "it has a run already", "resume it, or name another folder"));
        }
        let folder = RunFolder { paths: RunPaths::new(path), recipe: recipe.into(), made, _lock: lock };
        whole::write(path.join(RECIPE), |file| file.write_all(recipe.as_bytes()))?;
        Ok(folder)
    }

    /// A run that is there: finished, interrupted or killed.
    pub fn resume(path: impl AsRef<Path>) -> Result<RunFolder> {
        let path = path.as_ref();
        if !path.exists() {
            let advice = "name the folder of a run: `regard runs` lists them";
            return Err(Error::folder(path, "there is no such folder", advice));
        }
        if !path.join(RECIPE).exists() {
            return Err(Error::folder(path, format!("it has no {RECIPE}"), "name the folder of a run"));
        }
        fs::create_dir_all(path.join("checkpoints")).map_err(|e| Error::io("make", path, e))?;
        let lock = lock(path)?;
        // Nobody else writes here while we hold the lock: what is half written was left by a killed run.
        sweep(path);
        sweep(&path.join("checkpoints"));
        let recipe =
            fs::read_to_string(path.join(RECIPE)).map_err(|e| Error::io("read", &path.join(RECIPE), e))?;
        Ok(RunFolder { paths: RunPaths::new(path), recipe, made: None, _lock: lock })
    }

    /// Lets go of the folder. One that [`RunFolder::create`] made, and in which no step was made, goes, and
    /// so do the folders around it that were made for it: a run that was refused leaves nothing behind.
    pub fn give_up(self) {
        let Some(made) = self.made.as_deref().filter(|_| !has_steps(self.path())) else { return };
        // What cannot be removed is in nobody's way.
        let _ = fs::remove_dir_all(self.path());
        let around = self.path().ancestors().skip(1).take_while(|above| above.starts_with(made));
        around.for_each(|above| drop(fs::remove_dir(above)));
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.paths.folder()
    }

    /// The recipe as it was run.
    pub fn recipe(&self) -> &str {
        &self.recipe
    }

    /// The newest checkpoint.
    pub fn last(&self) -> PathBuf {
        self.paths.last()
    }

    /// The checkpoint with the best metric.
    pub fn best(&self) -> PathBuf {
        self.paths.best()
    }

    /// One line of JSON for every step and every evaluation.
    pub fn metrics(&self) -> PathBuf {
        self.paths.metrics()
    }

    /// The page that shows the run.
    pub fn report(&self) -> PathBuf {
        self.paths.report()
    }

    /// Where the trained model is to be exported to.
    pub fn model(&self) -> PathBuf {
        self.paths.model()
    }
}

/// Whether a run, or a stage of it, made a step or kept anything.
fn has_steps(path: &Path) -> bool {
    let stages = fs::read_dir(path).into_iter().flatten().flatten().map(|item| item.path());
    std::iter::once(path.to_path_buf()).chain(stages).any(|folder| {
        let run = RunPaths::new(&folder);
        let written = fs::metadata(run.metrics()).is_ok_and(|file| file.len() > 0);
        written || run.last().exists() || run.best().exists()
    })
}

/// Takes the lock of a folder.
fn lock(path: &Path) -> Result<File> {
    let name = path.join(LOCK);
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&name);
    let file = file.map_err(|e| Error::io("write", &name, e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::folder(
            path,
            "another process is training in it",
            "wait until it ends, stop it, or name another folder",
        )),
        Err(TryLockError::Error(e)) => Err(Error::io("lock", &name, e)),
    }
}

/// Removes what writers that were killed left behind; failing to costs room only.
fn sweep(folder: &Path) {
    for item in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = item.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') && name.ends_with(".partial") {
            let _ = fs::remove_file(item.path());
        }
    }
}
