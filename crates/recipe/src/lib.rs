//! From a recipe to a run. A recipe is a TOML file ([`Recipe`]): every key has a default or an error that
//! says what is missing, and a mistake has a line and a nearest name. The birth-place study is in [`study`].

#![forbid(unsafe_code)]

pub mod arms;
mod error;
pub mod job;
mod keys;
pub mod language;
pub mod study;
pub mod task;

pub use error::{Error, Result};
pub use job::Job;
pub use keys::{RecipeKey, recipe_keys};
pub use language::Recipe;
pub use task::{Bounds, ModelTask};
