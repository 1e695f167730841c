//! The loop: batches in, better parameters out. It holds its place in a [`State`]; everything else that it
//! needs to go on is in the store, so that a checkpoint of the two is the run.

use crate::batches::{Batches, loader_threads};
use crate::checkpoint::{self, Snapshot};
use crate::evaluate::{Evaluator, Examiner};
use crate::listener::{EvaluationRecord, Listener, StepRecord};
use crate::metrics::{History, Metrics, in_order};
use crate::predict::{check_fits, new_states, reserved, taken, work_ratio};
use crate::step::{Draw, Recorded, Steps, feed, scale_of};
use crate::{
    Error, Every, Finding, Length, Prediction, Result, RunFolder, Settings, State, Task, first_not_finite,
    report,
};
use regard_data::loader::Place;
use regard_data::{Batch, Source};
use regard_device::machine;
use regard_engine::{AsDevice, Device, Program, Store};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// What a run is given besides the store.
pub struct Run<'a> {
    /// Where batches come from; each is a micro-batch.
    pub source: Arc<dyn Source>,
    /// What the evaluation loss is of: its first epoch.
    pub evaluation: Option<Arc<dyn Source>>,
    /// Metrics beyond the loss.
    pub examiner: Option<&'a mut dyn Examiner>,
    /// Where checkpoints, metrics and the report go; nowhere without it.
    pub folder: Option<&'a RunFolder>,
    /// Who hears how it goes.
    pub listener: Option<&'a mut dyn Listener>,
    /// Raised to end the run after the step at hand.
    pub stop: Option<&'a AtomicBool>,
    /// True if the caller writes the report of a run that came to its end, with what it finds out after the
    /// last step. The loop then writes only those on the way.
    pub reported_by_caller: bool,
}

impl<'a> Run<'a> {
    /// Training on a source, in memory, with nobody listening.
    pub fn new(source: Arc<dyn Source>) -> Run<'a> {
        Run {
            source,
            evaluation: None,
            examiner: None,
            folder: None,
            listener: None,
            stop: None,
            reported_by_caller: false,
        }
    }

    fn stops(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    fn notify(&mut self, what: impl FnOnce(&mut dyn Listener)) {
        if let Some(listener) = self.listener.as_deref_mut() {
            what(listener);
        }
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It is as long as it should be.
    Complete,
    /// The metric did not get better any more.
    EarlyStop,
    /// The flag was raised.
    Interrupted,
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Why it ended.
    pub end: End,
    /// Where it ended.
    pub state: State,
    /// Its steps and evaluations; with a folder, those before a resumption, too.
    pub history: History,
}

impl Outcome {
    /// How it ended, as a sentence.
    pub fn sentence(&self, folder: Option<&RunFolder>) -> String {
        let step = self.state.step;
        match (self.end.clone(), folder) {
            (End::Complete, _) => format!("complete after step {step}"),
            (End::EarlyStop, _) => {
                let State { waited, best_step, .. } = self.state;
                format!(
                    "stopped at step {step}: no better for {waited} evaluations, the best is that of step {best_step}"
                )
            }
            (End::Interrupted, Some(folder)) => {
                format!("interrupted at step {step}; resume with the folder {}", folder.path().display())
            }
            (End::Interrupted, None) => format!("interrupted at step {step}"),
        }
    }
}

/// A task, its programs and its place in a run.
pub struct Trainer<'t> {
    task: &'t dyn Task,
    settings: Settings,
    device: Device,
    steps: Steps,
    evaluator: Evaluator,
    lasting: Vec<String>,
    state: State,
    /// The window of the newest step, until it is known that all steps so far were finite.
    unread: Option<Vec<Batch>>,
    since: Since,
}

/// What was done since the last reading.
#[derive(Default)]
struct Since {
    seconds: f64,
    tokens: u64,
}

impl<'t> Trainer<'t> {
    /// Records and plans the programs of a step and of the evaluation. Parameters that the store has stay as
    /// they are, so a second stage goes on from the first; moments begin at zero.
    pub fn new(
        task: &'t dyn Task,
        settings: Settings,
        store: &mut Store,
        device: &impl AsDevice,
    ) -> Result<Trainer<'t>> {
        settings.check()?;
        let device = device.as_device();
        let recorded = Recorded::new(task, &settings)?;
        // Moments are made in host memory, whatever the device.
        check_fits(new_states(&recorded, store), machine::memory_available())?;
        let steps = Steps::new(recorded, store, &device)?;
        if device.takes_memory_late() {
            check_fits(reserved(&steps), device.memory_available())?;
        }
        steps.forget(store)?;
        let evaluator = Evaluator::new(task, settings.precision, store, &device)?;
        let mut lasting = steps.lasting();
        lasting.retain(|name| !settings.elsewhere.contains(name));
        let (state, unread, since) = (State::default(), None, Since::default());
        Ok(Trainer { task, settings, device, steps, evaluator, lasting, state, unread, since })
    }

    /// How it trains.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The program of a step, or of the forward and backward pass of a micro-batch.
    pub fn program(&self) -> &Program {
        &self.steps.first
    }

    /// Where it is.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Goes to where a checkpoint of the same settings was written.
    pub fn restore(&mut self, path: &Path, store: &mut Store) -> Result<()> {
        let opened = Snapshot::open(path)?;
        let changes = self.settings.changes(&opened.settings);
        if !changes.is_empty() {
            return Err(Error::Changed {
                path: path.display().to_string(),
                changes: changes.join(", "),
                advice: "put them back, or begin another run",
            });
        }
        opened.fill(path, &self.lasting, store)?;
        self.state = opened.state;
        (self.unread, self.since) = (None, Since::default());
        Ok(())
    }

    /// Writes a checkpoint, whole or not at all.
    pub fn save(&self, path: &Path, recipe: &str, store: &Store) -> Result<()> {
        checkpoint::save(path, &self.lasting, store, &self.state, &self.settings, recipe)
    }

    /// One step on a window of micro-batches, outside of any run. Returns the mean loss and the norm of the
    /// gradients.
    pub fn step(&mut self, window: &[Batch], store: &mut Store) -> Result<(f64, f64)> {
        let read = self.make_step(window, true, store)?;
        Ok(read.unwrap_or_else(|| unreachable!("it was asked to read")))
    }

    /// One step, of which loss and norm are read or not.
    fn make_step(&mut self, window: &[Batch], reads: bool, store: &mut Store) -> Result<Option<(f64, f64)>> {
        let step = self.state.step + 1;
        let tokens = self.state.tokens + window.iter().map(|batch| batch.tokens).sum::<u64>();
        let rate = self.rate(step, tokens);
        let draw = Draw { seed: self.settings.seed, step };
        let read = self.steps.run(window, rate, draw, reads, store)?;
        if let Some((loss, norm)) = read {
            self.check_finite(step, loss, norm, window, store)?;
        }
        (self.state.step, self.state.tokens) = (step, tokens);
        Ok(read)
    }

    /// Stops at numbers that are not finite, and finds out where they come from.
    fn check_finite(
        &self,
        step: u64,
        loss: f64,
        norm: f64,
        window: &[Batch],
        store: &mut Store,
    ) -> Result<()> {
        if let Some((what, number)) =
            [("loss", loss), ("gradient norm", norm)].into_iter().find(|(_, x)| !x.is_finite())
        {
            let finding = first_not_finite(self.task, &self.settings, window, step, store, &self.device);
            let finding = finding.unwrap_or_else(|e| Finding::Unknown { reason: e.to_string() });
            let advice = "lower the learning rate, warm up longer, clip, or mend that layer".into();
            return Err(Error::NotFinite { step, what, number, finding, advice });
        }
        Ok(())
    }

    /// Looks at steps of which nothing was read yet, before something is made of what they have learnt.
    fn look_at_unread(&mut self, store: &mut Store) -> Result<()> {
        let Some(window) = self.unread.take() else { return Ok(()) };
        let (sum, norm) = (Steps::loss_sum(store)?, self.steps.norm()?);
        self.check_finite(self.state.step, sum, norm, &window, store).map_err(|error| match error {
            Error::NotFinite { step, what, number, finding: Finding::Nothing, advice } => {
                let reason = "it was in a step before, of which nothing was read".into();
                Error::NotFinite { step, what, number, finding: Finding::Unknown { reason }, advice }
            }
            other => other,
        })
    }

    fn rate(&self, step: u64, tokens: u64) -> f64 {
        self.settings.learning_rate * self.settings.schedule.factor(step, tokens)
    }

    /// Trains to the end, from the folder's last checkpoint if it has one.
    pub fn run(&mut self, store: &mut Store, mut run: Run<'_>) -> Result<Outcome> {
        if run.source.batches(self.state.epoch) == 0 {
            return Err(Error::invalid("the source has no batches", "give it data, or a smaller batch"));
        }
        let mut metrics = match run.folder {
            None => None,
            Some(folder) => {
                self.resume(folder, store)?;
                Some(Metrics::open(&folder.metrics(), &self.state)?)
            }
        };
        let mut history = History::default();
        let prediction = self.predict(run.source.as_ref(), store)?;
        if self.device.takes_memory_late() {
            let more = prediction.memory().saturating_sub(machine::resident().unwrap_or(0));
            check_fits(more, prediction.available)?;
        }
        run.notify(|listener| listener.began(self.state.step, &prediction));

        let mut saved = run.folder.filter(|folder| folder.last().exists()).map(|_| self.state.step);
        let mut batches = None;
        let end = loop {
            if run.stops() && !self.is_over() {
                break End::Interrupted;
            }
            let step = self.state.step;
            let over = self.is_over();
            let mut better = None;
            let examines = run.evaluation.is_some() || run.examiner.is_some();
            let examines =
                examines && step > self.state.evaluated && (over || self.is_due(self.settings.evaluate));
            // A run that was interrupted before an evaluation was saved without it, and is saved again with
            // it.
            let saves = step > 0 && saved != Some(step) && (over || self.is_due(self.settings.save));
            if examines || saves {
                self.look_at_unread(store).map_err(|error| with_checkpoint(error, run.folder, saved))?;
            }
            if examines {
                let Some(record) = self.evaluate(&mut run, store)? else { break End::Interrupted };
                better = Some(record.best);
                run.notify(|listener| listener.evaluated(&record));
                match &mut metrics {
                    Some(metrics) => metrics.evaluation(record)?,
                    None => history.evaluations.push(record),
                }
            }
            let patience = self.settings.goal.patience;
            let stops = patience.is_some_and(|patience| self.state.waited >= patience);
            if saves || better.is_some() {
                self.keep(&mut run, metrics.as_mut(), better == Some(true), saved, store)?;
                saved = Some(step);
                if !(run.reported_by_caller && (over || stops)) {
                    self.report(&run, metrics.as_ref())?;
                }
            }
            if stops {
                break End::EarlyStop;
            }
            if over {
                break End::Complete;
            }
            let batches = match &mut batches {
                Some(batches) => batches,
                none => {
                    let threads = loader_threads(&self.device);
                    none.insert(Batches::new(&run.source, &self.state, self.settings.length, threads)?)
                }
            };
            let record = match self.advance(batches, store) {
                Ok(record) => record,
                Err(error) => return Err(with_checkpoint(error, run.folder, saved)),
            };
            if let Some(record) = record {
                run.notify(|listener| listener.stepped(&record));
                match &mut metrics {
                    Some(metrics) => metrics.step(record)?,
                    None => history.steps.push(record),
                }
            }
        };
        self.look_at_unread(store).map_err(|error| with_checkpoint(error, run.folder, saved))?;
        if saved != Some(self.state.step) && self.state.step > 0 {
            self.keep(&mut run, metrics.as_mut(), false, saved, store)?;
            self.report(&run, metrics.as_ref())?;
        }
        let history = metrics.map_or(history, |metrics| metrics.history);
        Ok(Outcome { end, state: self.state.clone(), history })
    }

    /// Goes to the last checkpoint of a folder, if it has one.
    fn resume(&mut self, folder: &RunFolder, store: &mut Store) -> Result<()> {
        let last = folder.last();
        if !last.exists() {
            return Ok(());
        }
        self.restore(&last, store).map_err(|error| match error {
            Error::Data(_) | Error::Folder { .. } if folder.best().exists() => Error::folder(
                &last,
                format!("it cannot be resumed from: {error}"),
                format!(
                    "{} is of the best step: copy it over this one to go on from there",
                    folder.best().display()
                ),
            ),
            other => other,
        })
    }

    /// True when as many steps or epochs were made as asked for.
    fn is_over(&self) -> bool {
        match self.settings.length {
            Length::Steps(steps) => self.state.step >= steps,
            Length::Epochs(epochs) => self.state.epoch >= epochs,
        }
    }

    /// True if something that is done so often is due now.
    fn is_due(&self, every: Every) -> bool {
        let State { step, epoch, batch, .. } = self.state;
        match every {
            Every::End => false,
            Every::Steps(n) => step > 0 && step % n == 0,
            Every::Epochs(n) => step > 0 && batch == 0 && epoch % n == 0,
        }
    }

    /// One step of the run, on the next window of its batches; with what there is to say of it if a line is
    /// due.
    fn advance(&mut self, batches: &mut Batches, store: &mut Store) -> Result<Option<StepRecord>> {
        let (began, before) = (Instant::now(), self.state.tokens);
        let Settings { read_every, log_every, .. } = self.settings;
        let reads = (self.state.step + 1).is_multiple_of(read_every);
        let place = Place { epoch: self.state.epoch, index: self.state.batch };
        let (window, next) = batches.window(place, self.settings.micro_batches)?;
        let read = self.make_step(&window, reads, store)?;
        self.since.seconds += began.elapsed().as_secs_f64();
        self.since.tokens += self.state.tokens - before;
        (self.state.epoch, self.state.batch) = (next.epoch, next.index);
        self.unread = (read_every > 1).then_some(window);
        let Some((loss, gradient_norm)) = read else { return Ok(None) };
        self.look_at_unread(store)?;
        let since = std::mem::take(&mut self.since);
        self.watch(loss)?;
        let step = self.state.step;
        if !step.is_multiple_of(log_every) {
            return Ok(None);
        }
        let mean_loss = if read_every > 1 { Some(self.mean_loss(store)?) } else { None };
        Ok(Some(StepRecord {
            step,
            epoch: place.epoch,
            loss,
            mean_loss,
            rate: self.rate(step, self.state.tokens),
            gradient_norm,
            tokens: self.state.tokens,
            tokens_per_second: since.tokens as f64 / since.seconds.max(1e-9),
            memory: machine::resident(),
        }))
    }

    /// The mean loss of the steps since the line before; the next line begins anew.
    fn mean_loss(&mut self, store: &mut Store) -> Result<f64> {
        let steps = self.state.step - std::mem::replace(&mut self.state.line, self.state.step);
        let mean = Steps::loss_sum(store)? / steps.max(1) as f64;
        Steps::begin_loss_sum(store)?;
        Ok(mean)
    }

    /// Counts losses that are far above the lowest. One that is read stands for all steps since the reading
    /// before.
    fn watch(&mut self, loss: f64) -> Result<()> {
        let best = self.state.lowest.map_or(loss, |lowest| lowest.min(loss));
        self.state.lowest = Some(best);
        let Some(divergence) = self.settings.divergence else { return Ok(()) };
        self.state.lost =
            if loss > divergence.factor * best { self.state.lost + self.settings.read_every } else { 0 };
        if self.state.lost < divergence.steps {
            return Ok(());
        }
        Err(Error::Diverged {
            step: self.state.step,
            loss,
            best,
            factor: divergence.factor,
            steps: divergence.steps,
            advice: "lower the learning rate or warm up longer".into(),
        })
    }

    /// Evaluates and compares; nothing if the run is to stop meanwhile.
    fn evaluate(&mut self, run: &mut Run<'_>, store: &mut Store) -> Result<Option<EvaluationRecord>> {
        let mut metrics = Vec::new();
        if let Some(source) = &run.evaluation {
            match self.evaluator.loss(source, store, run.stop)? {
                None => return Ok(None),
                Some((loss, _)) => metrics.push(("loss".to_string(), loss)),
            }
        }
        let State { step, epoch, .. } = self.state;
        if let Some(examiner) = run.examiner.as_deref_mut() {
            metrics.extend(examiner.examine(step, store).map_err(|source| Error::Examiner { step, source })?);
        }
        let metrics = in_order(metrics);
        let goal = &self.settings.goal;
        let Some(&(_, value)) = metrics.iter().find(|(name, _)| *name == goal.metric) else {
            let names: Vec<&str> = metrics.iter().map(|(name, _)| name.as_str()).collect();
            return Err(Error::invalid(
                format!("no metric is called `{}`, by which the best is chosen", goal.metric),
                format!("the evaluation gives {}", names.join(", ")),
            ));
        };
        let best = value.is_finite()
            && self.state.best.is_none_or(|best| if goal.higher { value > best } else { value < best });
        if best {
            (self.state.best, self.state.best_step, self.state.waited) = (Some(value), step, 0);
        } else {
            self.state.waited += 1;
        }
        self.state.evaluated = step;
        Ok(Some(EvaluationRecord { step, epoch, metrics, best }))
    }

    /// Writes what a folder keeps. The best goes first: a kill between the two then only means that the
    /// evaluation is made, and the best written, once more.
    fn keep(
        &self,
        run: &mut Run<'_>,
        metrics: Option<&mut Metrics>,
        better: bool,
        before: Option<u64>,
        store: &Store,
    ) -> Result<()> {
        let (Some(folder), Some(metrics)) = (run.folder, metrics) else { return Ok(()) };
        let step = self.state.step;
        let paths = [better.then(|| folder.best()), Some(folder.last())];
        let written = metrics.settle().and_then(|()| {
            paths.iter().flatten().try_for_each(|path| {
                self.save(path, folder.recipe(), store)?;
                run.notify(|listener| listener.saved(path, step));
                Ok(())
            })
        });
        written.map_err(|source| Error::NotSaved {
            step,
            kept: before.map_or("there is none yet".into(), |step| format!("of step {step}")),
            source: Box::new(source),
            advice: "make room or mend the folder, then resume",
        })
    }

    /// Writes the report, if there is a folder for it.
    fn report(&self, run: &Run<'_>, metrics: Option<&Metrics>) -> Result<()> {
        let (Some(folder), Some(metrics)) = (run.folder, metrics) else { return Ok(()) };
        let sections = run.examiner.as_deref().map(Examiner::sections).unwrap_or_default();
        report::write(folder, &self.settings, &self.state, &metrics.history, &sections)
    }

    /// What the run will take. The time is that of a forward pass on the first batch, times how much more
    /// work a step is; where the pass fails, nothing is said about time, and the first step will say why.
    fn predict(&mut self, source: &dyn Source, store: &mut Store) -> Result<Prediction> {
        let mut prediction = taken(&self.steps, &[&self.evaluator.program], store, &self.device);
        prediction.available = self.device.memory_available();
        prediction.steps = match self.settings.length {
            Length::Steps(steps) => steps,
            Length::Epochs(epochs) => (0..epochs)
                .map(|epoch| source.batches(epoch).div_ceil(self.settings.micro_batches) as u64)
                .sum(),
        };
        prediction.step_seconds = self.time_forward(source, store).ok();
        Ok(prediction)
    }

    fn time_forward(&mut self, source: &dyn Source, store: &mut Store) -> Result<f64> {
        let batch = source.batch(self.state.epoch, self.state.batch)?;
        let scale = scale_of(std::slice::from_ref(&batch), self.state.step + 1)?;
        let program = &mut self.evaluator.program;
        feed(program, &batch, scale, Draw { seed: 0, step: 0 }, 0)?;
        // Once to pack weights and touch memory, once to measure.
        program.run(store)?;
        program.wait()?;
        let began = Instant::now();
        program.run(store)?;
        program.wait()?;
        let forward = began.elapsed().as_secs_f64();
        let ratio = work_ratio(self.steps.first.graph(), self.evaluator.program.graph(), &self.device)?;
        Ok(forward * ratio * self.settings.micro_batches as f64)
    }
}

/// Adds what is left to go back to.
fn with_checkpoint(error: Error, folder: Option<&RunFolder>, saved: Option<u64>) -> Error {
    let (Some(folder), Some(saved)) = (folder, saved) else { return error };
    let kept = format!("; the checkpoint of step {saved} is kept in {}", folder.path().display());
    match error {
        Error::NotFinite { step, what, number, finding, advice } => {
            Error::NotFinite { step, what, number, finding, advice: advice + &kept }
        }
        Error::Diverged { step, loss, best, factor, steps, advice } => {
            Error::Diverged { step, loss, best, factor, steps, advice: advice + &kept }
        }
        other => other,
    }
}
