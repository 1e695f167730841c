//! From a recipe to a run. A recipe is a TOML file; every key has a default or an error that says what is missing.
#![forbid(unsafe_code)]

pub mod ask;
pub mod build;
mod error;
pub mod language;
pub mod run;
pub mod study;
pub mod task;

pub use build::{Baseline, Job, Loaded};
pub use error::{Error, Result};
pub use language::Recipe;
pub use run::{StageListener, Trained, resume, train};
pub use task::{Bounds, ModelTask};
