//! From a recipe to a run. A recipe is a TOML file ([`Recipe`]): every key has a default or an error that says what is
//! missing, and a mistake has a line and a nearest name. [`Recipe::build`] makes of it a [`Job`], with model, data,
//! settings and examinations; [`train`] runs all of its stages in a folder and exports the model. The birth-place study
//! is in [`study`].
//!
//! ```no_run
//! use regard_engine::Cpu;
//! use regard_recipe::{Recipe, train};
//! use regard_train::Silent;
//!
//! let recipe = Recipe::open("recipes/shakespeare.toml", &["train.lr=1e-3".into()])?;
//! let trained = train(&recipe, "runs/shakespeare", &Cpu::new()?, &mut Silent, None)?;
//! println!("{:?} beside {:?}", trained.metrics, trained.baselines);
//! # Ok::<(), regard_recipe::Error>(())
//! ```

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
