//! Examining a model while it is trained: the loss over a source, and whatever else the caller can measure.

use crate::step::{Draw, LOSS, feed, record_loss};
use crate::{Error, Mode, Result, Task};
use regard_data::Source;
use regard_data::loader::{Loader, LoaderSettings};
use regard_engine::{AsDevice, Program, Store};
use regard_graph::Precision;
use regard_picture::Section;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Metrics beyond the loss: accuracy, exact match, BLEU.
pub trait Examiner {
    /// The metrics of the parameters in the store after a step, by name. The store is borrowed so that
    /// programs can run; nothing in it may change.
    fn examine(
        &mut self,
        step: u64,
        store: &mut Store,
    ) -> Result<Vec<(String, f64)>, Box<dyn std::error::Error + Send + Sync>>;

    /// More sections for the report, such as tables or wrong answers of the last examination.
    fn sections(&self) -> Vec<Section> {
        Vec::new()
    }
}

/// The mean loss of what a source asks for, of the parameters that are in the store when it is asked.
pub struct Evaluator {
    pub(crate) program: Program,
}

impl Evaluator {
    /// Plans the program.
    pub fn new(
        task: &dyn Task,
        precision: Precision,
        store: &mut Store,
        device: &impl AsDevice,
    ) -> Result<Evaluator> {
        let (graph, _) = record_loss(task, precision, Mode::Evaluate)?;
        Ok(Evaluator { program: Program::new(graph, &[], store, device)? })
    }

    /// The mean loss of all targets of a source's first epoch, and how many there are; nothing if the flag is
    /// raised meanwhile.
    pub fn loss(
        &mut self,
        source: &Arc<dyn Source>,
        store: &mut Store,
        stop: Option<&AtomicBool>,
    ) -> Result<Option<(f64, u64)>> {
        let (mut sum, mut targets) = (0.0, 0);
        let settings = LoaderSettings { epochs: Some(1), ..LoaderSettings::default() };
        for (_, batch) in Loader::new(Arc::clone(source), settings)? {
            if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return Ok(None);
            }
            let batch = batch?;
            if batch.targets == 0 {
                continue;
            }
            // The mean of a batch, not its sum: a single f32 holds it better.
            let scale = (1.0 / batch.targets as f64) as f32;
            feed(&mut self.program, &batch, scale, Draw { seed: 0, step: 0 }, 0)?;
            self.program.run(store)?;
            sum += f64::from(self.program.scalar(LOSS)?) * batch.targets as f64;
            targets += batch.targets;
        }
        match targets {
            0 => Err(Error::invalid(
                "the evaluation source has no targets",
                "give it data, or train without an evaluation",
            )),
            _ => Ok(Some((sum / targets as f64, targets))),
        }
    }
}
