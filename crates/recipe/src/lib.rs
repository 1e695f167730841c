//! From a recipe to a run. A recipe is a TOML file; every key has a default or an error that says what is missing.
#![forbid(unsafe_code)]

pub mod ask;
mod error;
pub mod language;
pub mod study;
pub mod task;

pub use error::{Error, Result};
pub use language::Recipe;
pub use task::{Bounds, ModelTask};
