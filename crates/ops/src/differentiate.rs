//! `g.gradient(loss, &parameters)` and `g.pullback(y, dy, &parameters)`: the gradient reader of the graph
//! crate, with the sums and constants of this crate.

use crate::{BinaryOps, CastOps, FillOps};
use regard_graph::{Calculus, DType, Graph, Result, Var};

/// Records gradients.
pub trait Differentiate {
    /// The gradient of a single number with respect to each of the given values.
    fn gradient(&mut self, of: Var, wrt: &[Var]) -> Result<Vec<Var>>;

    /// What the gradient of a value, given as `cotangent` in its shape and dtype, becomes on its way back to
    /// each of the given values: the gradient of Σ cotangent · of.
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

    fn round(&self, g: &mut Graph, gradient: Var, to: DType) -> Result<Var> {
        g.cast(gradient, to)
    }
}
