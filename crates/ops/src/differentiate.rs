//! `g.gradient(loss, &parameters)` and `g.pullback(y, dy, &parameters)`: the gradient reader of the graph crate, with the
//! sums and constants of this crate. A gradient that comes out of a product or of a norm takes up the one that it meets on
//! its way to memory.

use crate::{BinaryOps, FillOps, Linear, NormBackward, Record};
use regard_graph::{Calculus, Graph, Origin, Result, Var};
use std::any::Any;

/// Records gradients.
pub trait Differentiate {
    /// The gradient of a single number with respect to each of the given values.
    fn gradient(&mut self, of: Var, wrt: &[Var]) -> Result<Vec<Var>>;

    /// What the gradient of a value, given as `cotangent` in its shape and dtype, becomes on its way back to each of the
    /// given values: the gradient of Σ cotangent · of.
    fn pullback(&mut self, of: Var, cotangent: Var, wrt: &[Var]) -> Result<Vec<Var>>;
}

impl Differentiate for Graph {
    fn gradient(&mut self, of: Var, wrt: &[Var]) -> Result<Vec<Var>> {
        regard_graph::gradient(self, of, wrt, &Sums)
    }

    fn pullback(&mut self, of: Var, cotangent: Var, wrt: &[Var]) -> Result<Vec<Var>> {
        regard_graph::pullback(self, of, cotangent, wrt, &Sums)
    }
}

struct Sums;

impl Calculus for Sums {
    fn ones_like(&self, g: &mut Graph, like: Var) -> Result<Var> {
        let fact = g.fact(like).clone();
        g.fill(fact.dtype, fact.shape, 1.0)
    }

    fn zeros_like(&self, g: &mut Graph, like: Var) -> Result<Var> {
        let fact = g.fact(like).clone();
        g.fill(fact.dtype, fact.shape, 0.0)
    }

    fn add(&self, g: &mut Graph, a: Var, b: Var) -> Result<Var> {
        g.add(a, b)
    }

    fn add_spare(&self, g: &mut Graph, before: Var, spare: Var) -> Result<Var> {
        let Origin::Node { node, .. } = g.value(spare).origin else { return g.add(before, spare) };
        let node = &g.nodes()[node];
        // A node reads what was recorded before it.
        let fits = node.outputs[0] == spare
            && before.index() < spare.index()
            && !node.outputs.iter().any(|&output| g.is_read(output));
        let op: &dyn Any = &*node.op;
        let inputs = [&node.inputs[..], &[before]].concat();
        if let Some(&product) = op.downcast_ref::<Linear>()
            && fits
            && product.ends_with_sum()
        {
            g.apply_instead(spare, Linear { residual: true, ..product }, &inputs)?;
            return Ok(spare);
        }
        if let Some(&norm) = op.downcast_ref::<NormBackward>()
            && fits
            && !norm.stream
            && norm.rounded.is_none()
        {
            g.apply_instead(spare, NormBackward { stream: true, ..norm }, &inputs)?;
            return Ok(spare);
        }
        g.add(before, spare)
    }
}
