//! The work that the CPU executes for a graph, node by node, beside the mathematical count of
//! [`regard_graph::cost()`]: whole tiles, what is computed again, statistics gathered on the way. Rooflines
//! and predictions of time are about this one.

use crate::{Cpu, Error, Result};
use regard_graph::{Concrete, Costs, Graph, Integers, Node, Sizes, Var, cost};
use regard_ops::kernels_of;

impl Cpu {
    /// Counts the work that CPUs execute at actual sizes, whatever their threads and SIMD level. With `keep`
    /// only what has to run counts, as for [`regard_graph::cost()`].
    pub fn executed(g: &Graph, sizes: &Sizes, integers: &Integers, keep: Option<&[Var]>) -> Result<Costs> {
        if let Some(node) = g.nodes().iter().find(|node| kernels_of(node).is_none()) {
            return Err(Error::NoKernels { node: node.name.clone() });
        }
        let work = |node: &Node, call: &Concrete<'_>| {
            kernels_of(node).unwrap_or_else(|| unreachable!("looked for above")).cpu_work(call)
        };
        Ok(cost::count(g, sizes, integers, keep, &work)?)
    }
}
