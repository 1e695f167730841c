//! Training: one loop that knows no model by name. What is trained records its loss ([`Task`]); what it is
//! trained on gives batches ([`regard_data::Source`]).
//!
//! A [`Trainer`] is made from a task, [`Settings`] and a store, and does a [`Run`]: with a [`RunFolder`],
//! which keeps checkpoints, metrics and a report, or without one, in memory. A run that was killed resumes
//! from its folder and ends with the same bits as one that was not.
//!
//! ```
//! use regard_data::{Batch, Field, Source};
//! use regard_engine::{Cpu, Store};
//! use regard_graph::{DType, Graph, Init, Var};
//! use regard_ops::prelude::*;
//! use regard_train::{Length, Mode, Run, Settings, Task, Trainer};
//! use std::sync::Arc;
//!
//! /// (w − x)², so that w learns x.
//! struct Learn;
//!
//! impl Task for Learn {
//!     fn record(&self, g: &mut Graph, scale: Var, _mode: Mode) -> regard_graph::Result<Var> {
//!         let x = g.input("x", DType::F32, [1])?;
//!         let w = g.parameter("w", [1], Init::Zeros)?;
//!         let apart = g.sub(w, x)?;
//!         let square = g.mul(apart, apart)?;
//!         let scaled = g.mul(square, scale)?;
//!         g.sum_all(scaled)
//!     }
//! }
//!
//! struct Always;
//!
//! impl Source for Always {
//!     fn batches(&self, _epoch: u64) -> usize {
//!         1
//!     }
//!     fn batch(&self, _epoch: u64, _index: usize) -> regard_data::Result<Batch> {
//!         let fields = vec![Field::f32("x", &[1], vec![0.5])];
//!         Ok(Batch { fields, targets: 1, tokens: 1, examples: 1 })
//!     }
//! }
//!
//! let (cpu, mut store) = (Cpu::new()?, Store::new(0));
//! let settings = Settings { learning_rate: 0.02, length: Length::Steps(200), ..Settings::default() };
//! let mut trainer = Trainer::new(&Learn, settings, &mut store, &cpu)?;
//! let outcome = trainer.run(&mut store, Run::new(Arc::new(Always)))?;
//! assert_eq!(outcome.sentence(None), "complete after step 200");
//! assert!((store.f32("w")?[0] - 0.5).abs() < 0.01);
//! # Ok::<(), regard_train::Error>(())
//! ```

#![forbid(unsafe_code)]

mod batches;
mod checkpoint;
mod diagnose;
mod error;
mod evaluate;
mod feed;
mod folder;
mod listener;
mod metrics;
mod pattern;
mod predict;
pub mod report;
mod schedule;
mod settings;
mod state;
mod step;
mod task;
mod trainer;

pub use batches::loader_threads;
pub use checkpoint::Snapshot;
pub use diagnose::{Finding, first_not_finite};
pub use error::{Error, Result};
pub use evaluate::{Evaluator, Examiner};
pub use feed::feed;
pub use folder::{RunFolder, RunPaths};
pub use listener::{EvaluationRecord, Listener, Silent, StepRecord};
pub use metrics::History;
pub use pattern::matches;
pub use predict::Prediction;
pub use regard_ops::{AdamW, Optimizer, Sgd};
pub use regard_picture::Section;
pub use schedule::{Schedule, Shape, Unit};
pub use settings::{Decay, Divergence, Every, Goal, Group, Length, Settings};
pub use state::State;
pub use task::{Mode, Task};
pub use trainer::{End, Outcome, Run, Trainer};
