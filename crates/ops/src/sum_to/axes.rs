//! Sums and means over axes, as people ask for them. They are f32, also of bf16 values: a sum of many terms
//! needs the room.

use super::SumTo;
use crate::{Record, ReshapeOps, UnaryOps};
use regard_graph::*;

/// Records reductions over axes.
pub trait ReduceOps {
    /// The sum over some axes, which disappear from the shape.
    fn sum(&mut self, x: Var, axes: &[usize]) -> Result<Var>;
    /// The sum over some axes, which stay with size 1.
    fn sum_keep(&mut self, x: Var, axes: &[usize]) -> Result<Var>;
    /// The mean over some axes, which disappear from the shape.
    fn mean(&mut self, x: Var, axes: &[usize]) -> Result<Var>;
    /// The mean over some axes, which stay with size 1.
    fn mean_keep(&mut self, x: Var, axes: &[usize]) -> Result<Var>;
    /// The mean of all elements.
    fn mean_all(&mut self, x: Var) -> Result<Var>;
    /// The sum of squares over some axes, which disappear from the shape.
    fn sum_squares(&mut self, x: Var, axes: &[usize]) -> Result<Var>;
}

impl ReduceOps for Graph {
    fn sum(&mut self, x: Var, axes: &[usize]) -> Result<Var> {
        let kept = self.sum_keep(x, axes)?;
        drop_axes(self, kept, axes)
    }

    fn sum_keep(&mut self, x: Var, axes: &[usize]) -> Result<Var> {
        reduce(self, "sum", x, axes, false)
    }

    fn mean(&mut self, x: Var, axes: &[usize]) -> Result<Var> {
        let kept = self.mean_keep(x, axes)?;
        drop_axes(self, kept, axes)
    }

    fn mean_keep(&mut self, x: Var, axes: &[usize]) -> Result<Var> {
        reduce(self, "mean", x, axes, true)
    }

    fn mean_all(&mut self, x: Var) -> Result<Var> {
        self.apply_one(SumTo { fact: Fact::f32(Shape::scalar()), mean: true }, &[x])
    }

    fn sum_squares(&mut self, x: Var, axes: &[usize]) -> Result<Var> {
        self.check_operands("sum_squares", &[x])?;
        check_axes("sum_squares", self.shape(x), axes)?;
        let squares = self.square(x)?;
        self.sum(squares, axes)
    }
}

fn reduce(g: &mut Graph, op: &str, x: Var, axes: &[usize], mean: bool) -> Result<Var> {
    g.check_operands(op, &[x])?;
    let shape = reduced_shape(op, g.shape(x), axes)?;
    let fact = Fact::f32(shape);
    // Over axes of size 1 alone a sum is its only term.
    if *g.fact(x) == fact { Ok(x) } else { g.apply_one(SumTo { fact, mean }, &[x]) }
}

/// The shape with some axes reduced to size 1.
pub(crate) fn reduced_shape(op: &str, shape: &Shape, axes: &[usize]) -> Result<Shape> {
    check_axes(op, shape, axes)?;
    let mut dims = shape.to_vec();
    for &axis in axes {
        dims[axis] = Dim::from(1);
    }
    Ok(Shape::new(dims))
}

/// A value without some axes, which have size 1.
pub(crate) fn drop_axes(g: &mut Graph, x: Var, axes: &[usize]) -> Result<Var> {
    let left = g.shape(x).iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
    let dims = left.map(|(_, dim)| dim.clone()).collect();
    g.reshape(x, Shape::new(dims))
}

fn check_axes(op: &str, shape: &Shape, axes: &[usize]) -> Result<()> {
    let twice = |i: usize| axes[..i].contains(&axes[i]);
    if axes.is_empty() || (0..axes.len()).any(|i| axes[i] >= shape.len() || twice(i)) {
        return Err(Error::invalid(
            op,
            format!("{axes:?} are not axes of x, which is {shape}"),
            "name at least one axis, each once, counted from 0",
        ));
    }
    Ok(())
}
