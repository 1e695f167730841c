//! The demo's training: one program for a step, one for the held-out loss, one to write; all three share the
//! parameters in one store and one arena.

use anyhow::Result;
use regard::graph::Sizes;
use regard::ops::{AdamW, RANDOM_LENGTH, random_numbers};
use regard::prelude::*;
use regard_models::Gpt;

/// Trains, evaluates and writes.
pub struct Trainer {
    gpt: Gpt,
    batch: usize,
    seed: u64,
    step: Program,
    evaluate: Program,
    write: Program,
}

const RATE: f32 = 3e-3;
const WARM_UP: usize = 20;

impl Trainer {
    /// Plans the three programs.
    pub fn new(gpt: Gpt, batch: usize, seed: u64, store: &mut Store, cpu: &Cpu) -> Result<Self> {
        let context = gpt.config().context;
        let mut g = Graph::new();
        let loss = record_loss(&mut g, &gpt, batch)?;
        let rate = g.input("rate", DType::F32, shape![])?;
        let step = g.input("step", DType::I32, shape![])?;
        let parameters = g.parameters();
        let gradients = g.gradient(loss, &parameters)?;
        let (_, clip) = g.clip_norm(&gradients, 1.0)?;
        let pairs: Vec<(Var, Var)> = parameters.into_iter().zip(gradients).collect();
        g.adamw_step(&pairs, &AdamW::default(), rate, step, Some(clip))?;
        let step = Program::new(g, &[], store, cpu)?;

        let mut g = Graph::inference();
        record_loss(&mut g, &gpt, batch)?;
        let evaluate = Program::new(g, &[], store, cpu)?;

        let mut g = Graph::inference();
        let t = g.open('T', context)?;
        let ids = g.input("ids", DType::I32, shape![1, t])?;
        let logits = gpt.logits(&mut g, ids)?;
        let next = g.argmax(logits, 2)?;
        g.output("next", next)?;
        let write = Program::new(g, &[], store, cpu)?;
        Ok(Trainer { gpt, batch, seed, step, evaluate, write })
    }

    /// The program of one training step.
    pub fn program(&self) -> &Program {
        &self.step
    }

    /// The sizes of a full batch.
    pub fn sizes(&self) -> Result<Sizes> {
        let mut sizes = Sizes::none();
        for letter in self.step.graph().letters() {
            sizes.set(*letter, letter.bound())?;
        }
        Ok(sizes)
    }

    /// One step on windows of the text, drawn by step and example; returns the loss.
    pub fn step(&mut self, text: &[i32], step: usize, steps: usize, store: &mut Store) -> Result<f32> {
        let context = self.gpt.config().context;
        let stream = regard::device::Stream::new(self.seed, step as u64, "demo.batch");
        let starts: Vec<usize> = (0..self.batch as u32)
            .map(|example| stream.bits(example, 0, 0) as usize % (text.len() - context - 1))
            .collect();
        feed(&mut self.step, text, &starts, context)?;
        let warm = (step as f32 / WARM_UP as f32).min(1.0);
        let cool = 0.5 * (1.0 + (std::f32::consts::PI * step as f32 / steps as f32).cos());
        self.step.set_f32("rate", &[], &[RATE * warm * (0.1 + 0.9 * cool)])?;
        self.step.set_i32("step", &[], &[step as i32])?;
        if self.gpt.config().dropout > 0.0 {
            let numbers = random_numbers(self.seed, step as u64, 0);
            self.step.set_i32("random", &[RANDOM_LENGTH], &numbers)?;
        }
        self.step.run(store)?;
        Ok(self.step.scalar("loss")?)
    }

    /// The mean loss over as many whole windows as the text has, up to 16 batches.
    pub fn evaluate(&mut self, text: &[i32], store: &mut Store) -> Result<f64> {
        let context = self.gpt.config().context;
        let starts: Vec<usize> = (0..(text.len() - 1) / context).map(|window| window * context).collect();
        let (mut sum, mut count) = (0.0, 0);
        for starts in starts.chunks(self.batch).take(16) {
            feed(&mut self.evaluate, text, starts, context)?;
            self.evaluate.run(store)?;
            sum += self.evaluate.scalar("loss")? as f64 * starts.len() as f64;
            count += starts.len();
        }
        Ok(sum / count as f64)
    }

    /// Goes on from a beginning, one character at a time, always with the likeliest.
    pub fn write(&mut self, beginning: &[i32], length: usize, store: &mut Store) -> Result<Vec<i32>> {
        let mut ids = beginning.to_vec();
        for _ in 0..length {
            let window = &ids[ids.len().saturating_sub(self.gpt.config().context)..];
            self.write.set_i32("ids", &[1, window.len()], window)?;
            self.write.run(store)?;
            let next = self.write.i32("next")?;
            ids.extend(next.last());
        }
        Ok(ids)
    }
}

fn record_loss(g: &mut Graph, gpt: &Gpt, batch: usize) -> regard::graph::Result<Var> {
    let (b, t) = (g.open('B', batch)?, g.open('T', gpt.config().context)?);
    let ids = g.input("ids", DType::I32, shape![b, t])?;
    let targets = g.input("targets", DType::I32, shape![b, t])?;
    let scale = g.input("scale", DType::F32, shape![])?;
    let loss = gpt.loss(g, ids, targets, scale)?;
    g.output("loss", loss)
}

/// Windows of the text as ids, and the same one later as targets.
fn feed(program: &mut Program, text: &[i32], starts: &[usize], context: usize) -> Result<()> {
    let windows = |shift: usize| -> Vec<i32> {
        starts.iter().flat_map(|start| text[start + shift..start + shift + context].iter().copied()).collect()
    };
    let dims = [starts.len(), context];
    program.set_i32("ids", &dims, &windows(0))?;
    program.set_i32("targets", &dims, &windows(1))?;
    program.set_f32("scale", &[], &[1.0 / (starts.len() * context) as f32])?;
    Ok(())
}
