//! A training step as two programs that share a store: *accumulate* (forward, backward, add to the gradients),
//! run once for each micro-batch, and *apply* (clip, update, reset), run once for each step. Gradients live in
//! the store as `gradient.<name>`. What normalises the loss is an input of the first program, because only the
//! caller knows how many targets the whole step has.

use crate::{AccumulateOps, AdamW, AdamWOps, AssignOps, ClipNormOps, Differentiate};
use regard_graph::*;

/// Records the two programs of a training step.
pub trait StepOps {
    /// Adds the gradients of a single number to the gradient of every parameter of this graph. Returns the new
    /// versions of the gradients, in the order of [`Graph::parameters`].
    fn accumulate_step(&mut self, loss: Var) -> Result<Vec<Var>>;

    /// Declares the parameters of another graph in this one.
    fn parameters_of(&mut self, other: &Graph) -> Result<Vec<Var>>;

    /// One step of AdamW for every parameter of this graph with the gradients that were added up, which are
    /// clipped to a global norm of `most` (infinity only measures) and set to zero afterwards. Returns the norm
    /// before clipping. `lr` (f32) and `step` (i32, from 1) are single numbers.
    fn apply_step(&mut self, settings: &AdamW, most: f64, lr: Var, step: Var) -> Result<Var>;
}

impl StepOps for Graph {
    fn accumulate_step(&mut self, loss: Var) -> Result<Vec<Var>> {
        let parameters = parameters_in(self, "accumulate_step", "record the model first")?;
        let gradients = self.gradient(loss, &parameters)?;
        let sums = sums_of(self)?;
        sums.into_iter().zip(gradients).map(|(sum, gradient)| self.accumulate(sum, gradient)).collect()
    }

    fn parameters_of(&mut self, other: &Graph) -> Result<Vec<Var>> {
        let parameters = other.stored().iter().filter(|stored| stored.role == Role::Parameter);
        parameters
            .map(|stored| self.parameter(&stored.name, &stored.fact.shape, stored.init.clone()))
            .collect()
    }

    fn apply_step(&mut self, settings: &AdamW, most: f64, lr: Var, step: Var) -> Result<Var> {
        let parameters = parameters_in(self, "apply_step", "declare them first, see `parameters_of`")?;
        let sums = sums_of(self)?;
        let (norm, factor) = self.clip_norm(&sums, most)?;
        let pairs: Vec<(Var, Var)> = parameters.into_iter().zip(sums.iter().copied()).collect();
        self.adamw_step(&pairs, settings, lr, step, Some(factor))?;
        for sum in sums {
            self.assign_number(sum, 0.0)?;
        }
        Ok(norm)
    }
}

/// The parameters of a graph, of which there must be some: a step of none would silently do nothing.
fn parameters_in(g: &Graph, step: &str, advice: &str) -> Result<Vec<Var>> {
    match g.parameters() {
        none if none.is_empty() => Err(Error::invalid(step, "the graph has no parameters", advice)),
        parameters => Ok(parameters),
    }
}

/// The states in which gradients add up, one for each parameter.
fn sums_of(g: &mut Graph) -> Result<Vec<Var>> {
    let parameters = g.stored().iter().filter(|stored| stored.role == Role::Parameter);
    let declared: Vec<(String, Shape)> =
        parameters.map(|stored| (format!("gradient.{}", stored.name), stored.fact.shape.clone())).collect();
    declared.into_iter().map(|(name, shape)| g.state(&name, DType::F32, shape, Init::Zeros)).collect()
}
