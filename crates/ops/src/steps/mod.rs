//! A training step, in one program or in two. In one ([`StepOps::step_groups`]): forward, backward, clip,
//! update. In two that share a store: *accumulate* (forward, backward, add to the gradients), run once for
//! each micro-batch, and *apply* (clip, update, reset), run once for each step. Gradients live in the store
//! as `gradient.<name>`. What normalises the loss is an input, because only the caller knows how many targets
//! the whole step has.

use crate::{AccumulateOps, AdamW, AdamWOps, AssignOps, ClipNormOps, Differentiate, ScaleOps, Sgd, SgdOps};
use regard_graph::*;

/// How parameters are updated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Optimizer {
    /// Adam with decoupled weight decay.
    AdamW(AdamW),
    /// Stochastic gradient descent, with or without momentum.
    Sgd(Sgd),
}

/// Parameters that are updated alike. Those in no group are frozen: nothing is computed for them.
#[derive(Clone, Debug)]
pub struct StepGroup {
    /// The parameters, each in one group only.
    pub parameters: Vec<Var>,
    /// How they are updated.
    pub optimizer: Optimizer,
    /// What the learning rate is multiplied by.
    pub rate: f64,
}

/// Records the programs of a training step.
pub trait StepOps {
    /// Adds the gradients of a single number to the gradient of every parameter of this graph. Returns the
    /// new versions of the gradients, in the order of [`Graph::parameters`].
    fn accumulate_step(&mut self, loss: Var) -> Result<Vec<Var>>;

    /// As [`StepOps::accumulate_step`], for these parameters only. Nothing is recorded for the others.
    fn accumulate_some(&mut self, loss: Var, parameters: &[Var]) -> Result<Vec<Var>>;

    /// Declares the parameters of another graph in this one.
    fn parameters_of(&mut self, other: &Graph) -> Result<Vec<Var>>;

    /// One step of AdamW for every parameter of this graph with the gradients that were added up, which are
    /// clipped to a global norm of `most` (infinity only measures) and set to zero afterwards. Returns the
    /// norm before clipping. `lr` (f32) and `step` (i32, from 1) are single numbers.
    fn apply_step(&mut self, settings: &AdamW, most: f64, lr: Var, step: Var) -> Result<Var>;

    /// As [`StepOps::apply_step`], for groups. The norm is that of all groups together. Where it is not
    /// finite, no parameter and no moment changes.
    fn apply_groups(&mut self, groups: &[StepGroup], most: f64, lr: Var, step: Var) -> Result<Var>;

    /// A whole step in this one program: the gradients of `loss`, clipped, and the update of every group.
    /// Returns the norm as [`StepOps::apply_groups`] does.
    fn step_groups(&mut self, loss: Var, groups: &[StepGroup], most: f64, lr: Var, step: Var) -> Result<Var>;
}

impl StepOps for Graph {
    fn accumulate_step(&mut self, loss: Var) -> Result<Vec<Var>> {
        let parameters = parameters_in(self, "accumulate_step", "record the model first")?;
        self.accumulate_some(loss, &parameters)
    }

    fn accumulate_some(&mut self, loss: Var, parameters: &[Var]) -> Result<Vec<Var>> {
        let gradients = self.gradient(loss, parameters)?;
        let sums = sums_of(self, "accumulate_step", parameters)?;
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
        let group = StepGroup { parameters, optimizer: Optimizer::AdamW(*settings), rate: 1.0 };
        self.apply_groups(&[group], most, lr, step)
    }

    fn apply_groups(&mut self, groups: &[StepGroup], most: f64, lr: Var, step: Var) -> Result<Var> {
        let parameters = all_of(groups, "apply_groups")?;
        let sums = sums_of(self, "apply_groups", &parameters)?;
        let norm = update(self, groups, &sums, most, lr, step)?;
        for sum in sums {
            self.assign_number(sum, 0.0)?;
        }
        Ok(norm)
    }

    fn step_groups(&mut self, loss: Var, groups: &[StepGroup], most: f64, lr: Var, step: Var) -> Result<Var> {
        let gradients = self.gradient(loss, &all_of(groups, "step_groups")?)?;
        update(self, groups, &gradients, most, lr, step)
    }
}

/// Clips the gradients, which are in the order of the groups, and updates.
fn update(
    g: &mut Graph,
    groups: &[StepGroup],
    gradients: &[Var],
    most: f64,
    lr: Var,
    step: Var,
) -> Result<Var> {
    let (norm, factor) = g.clip_norm(gradients, most)?;
    let mut gradients = gradients.iter().copied();
    for group in groups {
        if !(group.rate > 0.0 && group.rate.is_finite()) {
            return Err(Error::invalid(
                "step",
                format!("a group's learning rate is multiplied by {}", group.rate),
                "give a number above 0; leave parameters that are to stay out of all groups",
            ));
        }
        let lr = if group.rate == 1.0 { lr } else { g.scale(lr, group.rate as f32)? };
        let pairs: Vec<(Var, Var)> = group.parameters.iter().copied().zip(gradients.by_ref()).collect();
        match &group.optimizer {
            Optimizer::AdamW(settings) => g.adamw_step(&pairs, settings, lr, step, Some(factor))?,
            Optimizer::Sgd(settings) => g.sgd_step(&pairs, settings, lr, Some(factor))?,
        };
    }
    Ok(norm)
}

/// The parameters of a graph, of which there must be some: a step of none would silently do nothing.
fn parameters_in(g: &Graph, step: &str, advice: &str) -> Result<Vec<Var>> {
    match g.parameters() {
        none if none.is_empty() => Err(Error::invalid(step, "the graph has no parameters", advice)),
        parameters => Ok(parameters),
    }
}

/// The parameters of all groups, in their order.
fn all_of(groups: &[StepGroup], step: &str) -> Result<Vec<Var>> {
    let all: Vec<Var> = groups.iter().flat_map(|group| group.parameters.iter().copied()).collect();
    if all.is_empty() {
        return Err(Error::invalid(step, "no group has a parameter", "leave one that is not frozen"));
    }
    Ok(all)
}

/// The states in which the gradients of these parameters add up.
fn sums_of(g: &mut Graph, step: &str, parameters: &[Var]) -> Result<Vec<Var>> {
    let mut sums = Vec::with_capacity(parameters.len());
    for &var in parameters {
        let Some(stored) = g.owns(var).then(|| g.value(var).version_of).flatten() else {
            return Err(Error::invalid(step, "it was given a value that is no parameter", "give parameters"));
        };
        let stored = &g.stored()[stored];
        let (name, shape) = (format!("gradient.{}", stored.name), stored.fact.shape.clone());
        sums.push(g.state(&name, DType::F32, shape, Init::Zeros)?);
    }
    Ok(sums)
}
