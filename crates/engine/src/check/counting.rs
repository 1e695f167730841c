//! The cost reader against what the reference counted while it ran.

use super::{Case, Recorded, fail};
use crate::Result;
use crate::reference::{Mode, run};
use regard_graph::{DType, Graph, Integers, Var};

impl Case<'_> {
    /// Compares the mathematical cost of every node, forward and backward, with the reference's own count.
    pub fn cost(&self) -> Result<()> {
        let Recorded { graph, feed, .. } = self.backward()?;
        let counted = run(&graph, &feed, Mode::Exact)?;
        let sizes = self.sizes(&graph)?;
        let mut integers = Integers::none();
        for (var, numbers) in known_integers(&graph, &|var| counted.value(var).data().to_vec()) {
            integers = integers.with(var, numbers);
        }
        let costs = regard_graph::cost::cost(&graph, &sizes, &integers, None)?;
        for row in &costs.rows {
            let (got, want) =
                ((row.cost.macs, row.cost.flops), (counted.macs[row.node], counted.flops[row.node]));
            if got != want {
                let what = format!(
                    "{} is said to take {} multiply-adds and {} other operations, the reference did {} and {}",
                    row.name, got.0, got.1, want.0, want.1
                );
                return Err(fail("cost", what));
            }
        }
        Ok(())
    }
}

/// The numbers of every integer and boolean leaf of the graph.
pub(super) fn known_integers(graph: &Graph, numbers: &dyn Fn(Var) -> Vec<f64>) -> Vec<(Var, Vec<i64>)> {
    let mut known = Vec::new();
    for (_, var) in graph.inputs() {
        if matches!(graph.dtype(var), DType::I32 | DType::Bool) {
            known.push((var, numbers(var).into_iter().map(|x| x as i64).collect()));
        }
    }
    known
}
