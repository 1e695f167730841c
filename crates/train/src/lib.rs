//! Training: one loop that knows no model by name. What is trained records its loss ([`Task`]); what it is trained on
//! gives batches ([`regard_data::Source`]).
//!
//! A [`Trainer`] is made from a task, [`Settings`] and a store, and does a [`Run`]: with a [`RunFolder`], which keeps
//! checkpoints, metrics and a report, or without one, in memory. A run that was killed resumes from its folder and
//! ends with the same bits as one that was not.

#![forbid(unsafe_code)]

mod batches;
mod checkpoint;
mod diagnose;
mod error;
mod evaluate;
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

pub use diagnose::{Finding, first_not_finite};
pub use error::{Error, Result};
pub use evaluate::Examiner;
pub use folder::RunFolder;
pub use listener::{EvaluationRecord, Listener, Silent, StepRecord};
pub use metrics::History;
pub use pattern::matches;
pub use predict::{Prediction, available_memory};
pub use regard_ops::{AdamW, Optimizer, Sgd};
pub use report::Section;
pub use schedule::{Schedule, Shape, Unit};
pub use settings::{Decay, Divergence, Every, Goal, Group, Length, Settings};
pub use state::State;
pub use task::{Mode, Task};
pub use trainer::{End, Outcome, Run, Trainer};
