//! Training and evaluation of a tiny model: one program for the step, replayed; AdamW with a warm-up and a
//! cosine.

use super::{Batch, Model, Task};
use crate::Context;
use regard::Result;
use regard::device::Level;
use regard::ops::{AdamW, CrossEntropyOptions, IGNORE_INDEX};
use regard::prelude::*;

/// How a model is trained.
#[derive(Clone, Copy, Debug)]
pub struct Training<'a> {
    /// Of what it begins with and what it is shown.
    pub seed: u64,
    /// Steps.
    pub steps: usize,
    /// Examples of a step.
    pub batch: usize,
    /// The length of each.
    pub length: usize,
    /// The highest learning rate.
    pub rate: f64,
    /// Parameters, by the end of their names, whose gradients are measured together.
    pub watch: &'a [&'a str],
}

/// What became of it.
pub struct Trained {
    /// Its parameters.
    pub store: Store,
    /// The loss of every step.
    pub losses: Vec<f64>,
    /// The norms of the watched gradients at every step.
    pub watched: Vec<Vec<f64>>,
}

impl Trained {
    /// The mean loss of the last tenth.
    pub fn last_loss(&self) -> f64 {
        let last = &self.losses[self.losses.len() - self.losses.len().div_ceil(10)..];
        last.iter().sum::<f64>() / last.len() as f64
    }

    /// Losses in so many even groups, at the middle step of each: what a chart shows.
    pub fn curve(numbers: &[f64], points: usize) -> Vec<(f64, f64)> {
        let size = numbers.len().div_ceil(points.max(1)).max(1);
        let group = |(at, group): (usize, &[f64])| {
            (at as f64 * size as f64 + size as f64 / 2.0, group.iter().sum::<f64>() / group.len() as f64)
        };
        numbers.chunks(size).enumerate().map(group).collect()
    }
}

/// One thread at the widest level: experiments run beside each other, and threads change no bit.
pub fn one_cpu() -> Result<Cpu> {
    Ok(Cpu::with(1, Level::best())?)
}

/// Trains a model on a task. Clipping at a norm of 1.
pub fn train(context: &Context, model: &Model, task: Task, training: &Training) -> Result<Trained> {
    train_on(model, task, training, &context.engine()?)
}

/// The same on an engine of one's own.
pub fn train_on(model: &Model, task: Task, training: &Training, device: &impl AsDevice) -> Result<Trained> {
    let &Training { seed, steps, batch, rate, watch, .. } = training;
    let length = task.own_length().unwrap_or(training.length);
    let mut g = Graph::new();
    let ids = g.input("ids", DType::I32, [batch, length])?;
    let targets = g.input("targets", DType::I32, [batch, length])?;
    let scale = g.input("scale", DType::F32, shape![])?;
    let (lr, step) = (g.input("lr", DType::F32, shape![])?, g.input("step", DType::I32, shape![])?);
    let logits = model.logits(&mut g, ids)?;
    let losses = g.cross_entropy(logits, targets, CrossEntropyOptions::default())?;
    let sum = g.sum_all(losses)?;
    let loss = g.mul(sum, scale)?;
    g.output("loss", loss)?;
    let parameters = g.parameters();
    let gradients = g.gradient(loss, &parameters)?;
    let names: Vec<String> = g
        .stored()
        .iter()
        .filter(|stored| parameters.contains(&stored.current))
        .map(|stored| stored.name.clone())
        .collect();
    for (at, end) in watch.iter().enumerate() {
        let mine: Vec<Var> =
            names.iter().zip(&gradients).filter(|(name, _)| name.ends_with(end)).map(|(_, &g)| g).collect();
        let (norm, _) = g.clip_norm(&mine, f64::INFINITY)?;
        g.output(&format!("watched.{at}"), norm)?;
    }
    let (_, factor) = g.clip_norm(&gradients, 1.0)?;
    let pairs: Vec<(Var, Var)> = parameters.into_iter().zip(gradients).collect();
    let settings = AdamW { beta2: 0.98, weight_decay: 0.0, ..Default::default() };
    g.adamw_step(&pairs, &settings, lr, step, Some(factor))?;

    let mut store = Store::new(seed);
    let mut program = Program::new(g, &[], &mut store, device)?;
    let mut draws = Context { seed, ..Default::default() }.draws("experiment.batches");
    let (mut losses, mut watched) = (vec![], vec![vec![]; watch.len()]);
    for at in 0..steps {
        let Batch { ids, targets, .. } = task.batch(&mut draws, batch, length);
        let asked = targets.iter().filter(|&&target| target != IGNORE_INDEX).count();
        program.set_i32("ids", &[batch, length], &ids)?;
        program.set_i32("targets", &[batch, length], &targets)?;
        program.set_f32("scale", &[], &[1.0 / asked.max(1) as f32])?;
        program.set_f32("lr", &[], &[(rate * schedule(at, steps)) as f32])?;
        program.set_i32("step", &[], &[at as i32 + 1])?;
        program.run(&mut store)?;
        losses.push(program.scalar("loss")? as f64);
        for (at, watched) in watched.iter_mut().enumerate() {
            watched.push(program.scalar(&format!("watched.{at}"))? as f64);
        }
    }
    Ok(Trained { store, losses, watched })
}

/// A warm-up over a twentieth, then a cosine to a tenth.
pub(super) fn schedule(at: usize, steps: usize) -> f64 {
    let warm = (steps / 20).max(1);
    if at < warm {
        return (at + 1) as f64 / warm as f64;
    }
    let through = (at - warm) as f64 / (steps - warm).max(1) as f64;
    0.1 + 0.9 * 0.5 * (1.0 + (std::f64::consts::PI * through).cos())
}

/// How good a model is.
#[derive(Clone, Copy, Debug)]
pub struct Score {
    /// The fraction of answers that are right.
    pub accuracy: f64,
    /// The mean loss.
    pub loss: f64,
}

/// Asks a model with these parameters for examples that it has not seen: so many, of this length.
pub fn evaluate(
    context: &Context,
    model: &Model,
    store: &mut Store,
    task: Task,
    rows: usize,
    length: usize,
) -> Result<Score> {
    let length = task.own_length().unwrap_or(length);
    let mut g = Graph::inference();
    let ids = g.input("ids", DType::I32, [rows, length])?;
    let targets = g.input("targets", DType::I32, [rows, length])?;
    let logits = model.logits(&mut g, ids)?;
    let losses = g.cross_entropy(logits, targets, CrossEntropyOptions::default())?;
    g.output("losses", losses)?;
    let chosen = g.argmax(logits, 2)?;
    g.output("chosen", chosen)?;
    let mut program = Program::new(g, &[], store, &context.engine()?)?;
    let mut draws = Context { seed: 77, ..Default::default() }.draws("experiment.held out");
    let batch = task.batch(&mut draws, rows, length);
    program.set_i32("ids", &[rows, length], &batch.ids)?;
    program.set_i32("targets", &[rows, length], &batch.targets)?;
    program.run(store)?;
    let asked: Vec<usize> =
        (0..batch.targets.len()).filter(|&at| batch.targets[at] != IGNORE_INDEX).collect();
    let (losses, chosen) = (program.f32("losses")?, program.i32("chosen")?);
    let right = asked.iter().filter(|&&at| chosen[at] == batch.targets[at]).count();
    let loss = asked.iter().map(|&at| losses[at] as f64).sum::<f64>() / asked.len().max(1) as f64;
    Ok(Score { accuracy: right as f64 / asked.len().max(1) as f64, loss })
}

#[cfg(test)]
mod tests {
    use super::super::Tiny;
    use super::*;

    #[test]
    fn a_tiny_model_learns_to_reverse() {
        let task = Task::Reverse { symbols: 5 };
        let model = Model::new(Tiny::new(5, 16)).unwrap();
        let training =
            Training { seed: 1, steps: 150, batch: 16, length: 5, rate: 1e-2, watch: &["query.weight"] };
        let context = Context::default();
        let mut trained = train(&context, &model, task, &training).unwrap();
        assert!(trained.losses[0] > 1.2 && trained.last_loss() < 0.3, "{}", trained.last_loss());
        assert_eq!(trained.watched[0].len(), 150);
        assert!(trained.watched[0].iter().all(|norm| norm.is_finite() && *norm > 0.0));
        let score = evaluate(&context, &model, &mut trained.store, task, 64, 5).unwrap();
        assert!(score.accuracy > 0.9, "{}", score.accuracy);
        let again = train(&context, &model, task, &training).unwrap();
        assert_eq!(again.losses, trained.losses);
    }
}
