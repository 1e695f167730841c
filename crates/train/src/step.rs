//! The programs of a step. One micro-batch: a single program. Several: one that adds up gradients, run for
//! each, and one that applies them. Both divide the loss by the targets of the whole window and number its
//! examples through, so that dropout draws the same masks however a window is divided.

use crate::{Error, Mode, Result, Settings, Task};
use regard_data::Batch;
use regard_engine::{Device, Program, Store};
use regard_graph::{DType, Graph, Init, Precision, Role, Shape, Var};
use regard_ops::prelude::*;
use regard_ops::{RANDOM_INPUT, RANDOM_LENGTH, random_numbers};

/// The inputs that the loop feeds itself.
pub(crate) const SCALE: &str = "scale";
const RATE: &str = "trainer.rate";
const STEP: &str = "trainer.step";
/// The results that it reads.
pub(crate) const LOSS: &str = "trainer.loss";
const NORM: &str = "trainer.gradient_norm";
/// The state in which losses are summed up, where not every step is read.
const LOSS_SUM: &str = "trainer.loss_sum";

/// The programs of a step.
pub(crate) struct Steps {
    /// The whole step, or forward and backward of a micro-batch.
    pub first: Program,
    /// The update, where it is a program of its own.
    pub apply: Option<Program>,
}

/// The random numbers of a step.
#[derive(Clone, Copy)]
pub(crate) struct Draw {
    pub seed: u64,
    pub step: u64,
}

/// A step as it is recorded, before memory is taken for it.
pub(crate) struct Recorded {
    pub first: Graph,
    pub apply: Option<Graph>,
}

impl Recorded {
    pub fn new(task: &dyn Task, settings: &Settings) -> Result<Recorded> {
        let most = settings.clip.unwrap_or(f64::INFINITY);
        let (mut g, loss) = record_loss(task, settings.precision, Mode::Train)?;
        if settings.read_every > 1 {
            let sum = g.state(LOSS_SUM, DType::F32, Shape::scalar(), Init::Zeros)?;
            let loss = g.stop_gradient(loss)?;
            g.accumulate(sum, loss)?;
        }
        let groups = settings.step_groups(&g)?;
        if settings.micro_batches == 1 {
            let (rate, step) = rate_and_step(&mut g)?;
            let norm = g.step_groups(loss, &groups, most, rate, step)?;
            g.output(NORM, norm)?;
            return Ok(Recorded { first: g, apply: None });
        }
        let trained: Vec<Var> = groups.into_iter().flat_map(|group| group.parameters).collect();
        g.accumulate_some(loss, &trained)?;
        let mut h = Graph::new();
        h.parameters_of(&g)?;
        let (rate, step) = rate_and_step(&mut h)?;
        let groups = settings.step_groups(&h)?;
        let norm = h.apply_groups(&groups, most, rate, step)?;
        h.output(NORM, norm)?;
        Ok(Recorded { first: g, apply: Some(h) })
    }

    pub fn graphs(&self) -> impl Iterator<Item = &Graph> {
        std::iter::once(&self.first).chain(&self.apply)
    }
}

/// The loss of a task, with its normaliser.
pub(crate) fn record_loss(task: &dyn Task, precision: Precision, mode: Mode) -> Result<(Graph, Var)> {
    let mut g = if mode == Mode::Train { Graph::new() } else { Graph::inference() };
    g.set_precision(precision);
    let scale = g.input(SCALE, DType::F32, Shape::scalar())?;
    let loss = task.record(&mut g, scale, mode)?;
    g.output(LOSS, loss)?;
    Ok((g, loss))
}

fn rate_and_step(g: &mut Graph) -> Result<(Var, Var)> {
    let rate = g.input(RATE, DType::F32, Shape::scalar())?;
    Ok((rate, g.input(STEP, DType::I32, Shape::scalar())?))
}

impl Steps {
    pub fn new(recorded: Recorded, store: &mut Store, device: &Device) -> Result<Steps> {
        let first = Program::new(recorded.first, &[], store, device)?;
        let apply = recorded.apply.map(|graph| Program::new(graph, &[], store, device)).transpose()?;
        Ok(Steps { first, apply })
    }

    pub fn programs(&self) -> impl Iterator<Item = &Program> {
        std::iter::once(&self.first).chain(&self.apply)
    }

    /// Sets what a killed or another run left in the store back to nothing: moments, sums of gradients and of
    /// losses.
    pub fn forget(&self, store: &mut Store) -> Result<()> {
        let optimizer =
            |name: &str| ["adamw.", "sgd.", "gradient.", LOSS_SUM].iter().any(|part| name.starts_with(part));
        let graphs = self.programs().map(Program::graph);
        let stored = graphs.flat_map(|graph| graph.stored()).filter(|stored| stored.role == Role::State);
        for stored in stored.filter(|stored| optimizer(&stored.name)) {
            store.set_f32(&stored.name, &vec![0.0; stored.fact.shape.bound().count()])?;
        }
        Ok(())
    }

    /// What a checkpoint has to hold: parameters, moments and the model's own states, but no sums of
    /// gradients, which are zero between steps.
    pub fn lasting(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .programs()
            .flat_map(|program| program.graph().stored())
            .filter(|stored| !(stored.role == Role::State && stored.name.starts_with("gradient.")))
            .map(|stored| stored.name.clone())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// One step on a window of micro-batches. If `reads`, gives the mean loss of its targets and the norm of
    /// the gradients; otherwise nothing is read, and nobody waits.
    pub fn run(
        &mut self,
        window: &[Batch],
        rate: f64,
        draw: Draw,
        reads: bool,
        store: &mut Store,
    ) -> Result<Option<(f64, f64)>> {
        let scale = scale_of(window, draw.step)?;
        let count = i32::try_from(draw.step)
            .map_err(|_| Error::invalid(format!("step {} is too many", draw.step), "begin another run"))?;
        if self.apply.is_none() {
            self.first.set_f32(RATE, &[], &[rate as f32])?;
            self.first.set_i32(STEP, &[], &[count])?;
        }
        let (mut loss, mut example) = (0.0, 0);
        for batch in window {
            feed(&mut self.first, batch, scale, draw, example)?;
            self.first.run(store)?;
            if reads {
                loss += f64::from(self.first.scalar(LOSS)?);
            }
            example += batch.examples as u32;
        }
        if let Some(apply) = &mut self.apply {
            apply.set_f32(RATE, &[], &[rate as f32])?;
            apply.set_i32(STEP, &[], &[count])?;
            apply.run(store)?;
        }
        if reads { Ok(Some((loss, self.norm()?))) } else { Ok(None) }
    }

    /// The norm of the gradients of the newest step.
    pub fn norm(&self) -> Result<f64> {
        Ok(f64::from(self.apply.as_ref().unwrap_or(&self.first).scalar(NORM)?))
    }

    /// The sum of the losses of all steps since it was last begun anew.
    pub fn loss_sum(store: &Store) -> Result<f64> {
        Ok(store.f32(LOSS_SUM)?.iter().map(|&sum| f64::from(sum)).sum())
    }

    /// Begins the sum of the losses anew.
    pub fn begin_loss_sum(store: &mut Store) -> Result<()> {
        Ok(store.set_f32(LOSS_SUM, &[0.0])?)
    }
}

/// One over the targets of a window.
pub(crate) fn scale_of(window: &[Batch], step: u64) -> Result<f32> {
    match window.iter().map(|batch| batch.targets).sum::<u64>() {
        0 => Err(Error::invalid(
            format!("no target counts in the batch of step {step}"),
            "check what the source masks: a batch without targets teaches nothing",
        )),
        targets => Ok((1.0 / targets as f64) as f32),
    }
}

/// Feeds a program with a batch, and with what the loop adds to it.
pub(crate) fn feed(program: &mut Program, batch: &Batch, scale: f32, draw: Draw, example: u32) -> Result<()> {
    crate::feed::feed(program, batch, &[SCALE, RATE, STEP, RANDOM_INPUT])?;
    program.set_f32(SCALE, &[], &[scale])?;
    if program.graph().inputs().any(|(name, _)| name == RANDOM_INPUT) {
        program.set_i32(RANDOM_INPUT, &[RANDOM_LENGTH], &random_numbers(draw.seed, draw.step, example))?;
    }
    Ok(())
}
