//! The step of any model as one program: a recorded loss, its gradients clipped at a norm of 1, AdamW, the
//! schedule of [`train`](super::train).

use super::train::schedule;
use crate::Context;
use regard::Result;
use regard::ops::AdamW;
use regard::prelude::*;

/// A model in training. The caller sets the inputs of its recording, then steps.
pub struct Learner {
    /// The step.
    pub program: Program,
    /// What was learned.
    pub store: Store,
    at: usize,
    steps: usize,
    rate: f64,
}

impl Learner {
    /// A recording that ends in this loss, a single number; so many steps at this highest rate.
    pub fn new(
        context: &Context,
        mut g: Graph,
        loss: Var,
        seed: u64,
        steps: usize,
        rate: f64,
    ) -> Result<Learner> {
        g.output("loss", loss)?;
        let (lr, step) = (g.input("lr", DType::F32, shape![])?, g.input("step", DType::I32, shape![])?);
        let parameters = g.parameters();
        let gradients = g.gradient(loss, &parameters)?;
        let (_, factor) = g.clip_norm(&gradients, 1.0)?;
        let pairs: Vec<(Var, Var)> = parameters.into_iter().zip(gradients).collect();
        let settings = AdamW { beta2: 0.98, weight_decay: 0.0, ..Default::default() };
        g.adamw_step(&pairs, &settings, lr, step, Some(factor))?;
        let mut store = Store::new(seed);
        let program = Program::new(g, &[], &mut store, &context.engine()?)?;
        Ok(Learner { program, store, at: 0, steps, rate })
    }

    /// One step on what the inputs are set to; the loss before it.
    pub fn step(&mut self) -> Result<f64> {
        self.program.set_f32("lr", &[], &[(self.rate * schedule(self.at, self.steps)) as f32])?;
        self.program.set_i32("step", &[], &[self.at as i32 + 1])?;
        self.at += 1;
        self.program.run(&mut self.store)?;
        Ok(f64::from(self.program.scalar("loss")?))
    }
}
