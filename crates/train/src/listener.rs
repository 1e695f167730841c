//! Who hears how a run goes: a command that draws bars, a test that counts, or nobody.

use crate::Prediction;
use std::path::Path;

/// One step that was made.
#[derive(Clone, Debug, PartialEq)]
pub struct StepRecord {
    /// Its number, from 1.
    pub step: u64,
    /// The epoch to which its batch belongs, from 0.
    pub epoch: u64,
    /// The mean loss of its targets.
    pub loss: f64,
    /// The mean loss of all steps since the line before, where not every step is read.
    pub mean_loss: Option<f64>,
    /// The learning rate, before the factors of groups.
    pub rate: f64,
    /// The global norm of the gradients before clipping.
    pub gradient_norm: f64,
    /// Tokens seen since the run began, padding included.
    pub tokens: u64,
    /// Tokens of this step by its time; of all steps since the reading before, where not every step is read.
    pub tokens_per_second: f64,
    /// Bytes of memory that the process holds, where the system says.
    pub memory: Option<u64>,
}

/// One evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluationRecord {
    /// After which step.
    pub step: u64,
    /// How many epochs had begun.
    pub epoch: u64,
    /// The metrics by name; `loss` first, where there is an evaluation source, then in the order of names.
    pub metrics: Vec<(String, f64)>,
    /// Whether it is the best so far.
    pub best: bool,
}

/// Hears of a run. Every method does nothing unless it is written.
#[allow(unused_variables)]
pub trait Listener {
    /// Before the first step: where the run begins (0, or the step that it resumes after), how many steps
    /// there will be, what it will need.
    fn began(&mut self, step: u64, prediction: &Prediction) {}
    /// After each step of which a line is written.
    fn stepped(&mut self, record: &StepRecord) {}
    /// After an evaluation.
    fn evaluated(&mut self, record: &EvaluationRecord) {}
    /// After a checkpoint has its name.
    fn saved(&mut self, path: &Path, step: u64) {}
}

/// Nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Listener for Silent {}
