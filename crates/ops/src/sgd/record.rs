//! Recording SGD for many parameters: the momenta are states named after their parameter.

use super::{Sgd, SgdStep};
use crate::Record;
use crate::adamw::moments;
use regard_graph::*;

/// Records SGD.
pub trait SgdOps {
    /// One step of every (parameter, gradient). Momenta live in the store as `sgd.momentum.<name>`. `lr`
    /// (f32) is a single number, and so is `scale` (f32), by which gradients are multiplied first, see
    /// `clip_norm`. Returns the new versions of the parameters.
    fn sgd_step(
        &mut self,
        parameters: &[(Var, Var)],
        settings: &Sgd,
        lr: Var,
        scale: Option<Var>,
    ) -> Result<Vec<Var>>;
}

impl SgdOps for Graph {
    fn sgd_step(
        &mut self,
        parameters: &[(Var, Var)],
        settings: &Sgd,
        lr: Var,
        scale: Option<Var>,
    ) -> Result<Vec<Var>> {
        let mut updated = Vec::new();
        for &(param, gradient) in parameters {
            let mut inputs = vec![param, gradient];
            if settings.has_momentum() {
                inputs.extend(moments(self, "sgd", ["momentum"], param)?);
            }
            inputs.push(lr);
            inputs.extend(scale);
            let op = SgdStep { settings: *settings, scaled: scale.is_some() };
            updated.push(self.apply_one(op, &inputs)?);
        }
        Ok(updated)
    }
}
