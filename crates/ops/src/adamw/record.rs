//! Recording AdamW for many parameters: the moments are states named after their parameter.

use super::{AdamW, AdamWStep};
use crate::Record;
use regard_graph::*;

/// Records AdamW.
pub trait AdamWOps {
    /// One step of every (parameter, gradient). The moments live in the store as `adamw.m.<name>` and
    /// `adamw.v.<name>`. `lr` (f32) and `step` (i32, from 1) are single numbers, and so is `scale` (f32), by
    /// which gradients are multiplied first, see `clip_norm`. Groups with other settings are further calls.
    /// Returns the new versions of the parameters.
    fn adamw_step(
        &mut self,
        parameters: &[(Var, Var)],
        settings: &AdamW,
        lr: Var,
        step: Var,
        scale: Option<Var>,
    ) -> Result<Vec<Var>>;
}

impl AdamWOps for Graph {
    fn adamw_step(
        &mut self,
        parameters: &[(Var, Var)],
        settings: &AdamW,
        lr: Var,
        step: Var,
        scale: Option<Var>,
    ) -> Result<Vec<Var>> {
        let mut updated = Vec::new();
        for &(param, gradient) in parameters {
            let [m, v] = moments(self, "adamw", ["m", "v"], param)?;
            let inputs: Vec<Var> = [param, gradient, m, v, lr, step].into_iter().chain(scale).collect();
            let op = AdamWStep { settings: *settings, scaled: scale.is_some() };
            updated.push(self.apply_one(op, &inputs)?);
        }
        Ok(updated)
    }
}

/// The states of an optimizer for one parameter, zeros at first.
pub(crate) fn moments<const N: usize>(
    g: &mut Graph,
    optimizer: &str,
    names: [&str; N],
    param: Var,
) -> Result<[Var; N]> {
    if !g.owns(param) {
        return Err(Error::ForeignVar { op: optimizer.into(), operand: 0 });
    }
    let Some(stored) = g.value(param).version_of else {
        return Err(Error::invalid(
            optimizer,
            "param is neither a parameter nor a state",
            "only what lives in the store can be updated",
        ));
    };
    let (name, shape) = (g.stored()[stored].name.clone(), g.shape(param).clone());
    let mut states = [param; N];
    for (state, kind) in states.iter_mut().zip(names) {
        *state = g.state(&format!("{optimizer}.{kind}.{name}"), DType::F32, &shape, Init::Zeros)?;
    }
    Ok(states)
}
