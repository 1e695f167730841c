//! Nodes that take up what their only reader does behind them, many at a time: nodes keep their numbers until
//! all is done, and who reads what is counted once, so that the work grows as the graph does.

use super::planned::check_no_updates;
use super::{Attachment, Graph, Origin, Var};
use crate::{Declared, Error, Op, Result, effort};
use std::sync::Arc;

/// A graph while its nodes are joined; see [`Graph::joining`].
pub struct Joins<'g> {
    g: &'g mut Graph,
    /// How often each value is read: by nodes, and as an output of the program.
    reads: Vec<usize>,
    /// Which nodes were taken up by others.
    gone: Vec<bool>,
}

impl Graph {
    /// Joins nodes. Until `join` returns, all nodes keep their numbers, also those that were taken up; then
    /// these go, and the others move up.
    pub fn joining<R>(&mut self, join: impl FnOnce(&mut Joins<'_>) -> R) -> R {
        effort::add(self.nodes.len());
        let mut reads = vec![0; self.values.len()];
        let read =
            self.nodes.iter().flat_map(|node| &node.inputs).chain(self.outputs.iter().map(|(_, var)| var));
        read.for_each(|var| reads[var.index()] += 1);
        let gone = vec![false; self.nodes.len()];
        let mut joins = Joins { g: self, reads, gone };
        let result = join(&mut joins);
        joins.finish();
        result
    }
}

impl Joins<'_> {
    /// The graph as it is so far.
    pub fn graph(&self) -> &Graph {
        self.g
    }

    /// Has a node do what another does behind it: `op` gives what the node gave, but in the place of the one
    /// result that `reader` reads, what `reader` made of it. The reader goes, and what lay between the two is
    /// made no more, so nobody else may read it; that the numbers are those of both nodes, one after the
    /// other, is up to the caller. Operands must come from before the node.
    pub fn absorb(
        &mut self,
        node: usize,
        reader: usize,
        op: Arc<dyn Op>,
        attachment: Attachment,
        inputs: &[Var],
    ) -> Result<()> {
        let known = |at: usize| self.g.nodes.get(at).filter(|_| !self.gone[at]);
        let (Some(old), Some(after)) = (known(node), known(reader)) else {
            return Err(self.g.no_node("absorb", if known(node).is_none() { node } else { reader }));
        };
        let declared = Declared::by(&*op);
        check_no_updates("absorb", old, &*op, &declared)?;
        check_no_updates("absorb", after, &*op, &declared)?;
        let read: Vec<usize> =
            (0..old.outputs.len()).filter(|&at| after.inputs.contains(&old.outputs[at])).collect();
        let (&[between], &[made]) = (&read[..], &after.outputs[..]) else {
            return Err(Error::invalid(
                "absorb",
                format!("`{}` does not make one value of one result of `{}`", after.name, old.name),
                "join a node with one that reads one of its results and makes one value of it",
            ));
        };
        let gone = old.outputs[between];
        let by_reader = after.inputs.iter().filter(|&&var| var == gone).count();
        if self.reads[gone.index()] > by_reader {
            return Err(Error::invalid(
                "absorb",
                format!("{} has other readers than `{}`", self.g.title(gone), after.name),
                "leave them apart, or prune what nobody needs first",
            ));
        }
        let read: Vec<Var> = old.inputs.iter().chain(&after.inputs).copied().collect();
        let facts = self.g.results_replacing(&*op, &declared, inputs, &read)?;
        self.g.check_before("absorb", node, &*op, &declared, inputs)?;
        let mut outputs = old.outputs.clone();
        outputs[between] = made;
        if !facts.iter().eq(outputs.iter().map(|&output| self.g.fact(output))) {
            return Err(self.g.other_results("absorb", old, &outputs, &*op, &facts));
        }
        effort::add(read.len() + inputs.len() + outputs.len());
        read.iter().for_each(|var| self.reads[var.index()] -= 1);
        inputs.iter().for_each(|var| self.reads[var.index()] += 1);
        self.g.values[gone.index()].origin = Origin::Gone;
        self.g.values[made.index()].origin = Origin::Node { node, output: between };
        let changed = &mut self.g.nodes[node];
        (changed.op, changed.declared, changed.attachment) = (op, declared, attachment);
        changed.inputs = inputs.to_vec();
        changed.outputs = outputs;
        self.gone[reader] = true;
        Ok(())
    }

    /// Lets go of the nodes that were taken up.
    fn finish(self) {
        if !self.gone.contains(&true) {
            return;
        }
        let mut gone = self.gone.iter();
        self.g.nodes.retain(|_| gone.next() != Some(&true));
        self.g.number_results();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mock::{map, one, text};
    use crate::{DType, shape};

    /// A chain of pairs of nodes, each pair joined; and the steps that joining took.
    fn joined(pairs: usize) -> (Graph, usize) {
        let mut g = Graph::new();
        let mut x = g.input("x", DType::F32, shape![2]).unwrap();
        for _ in 0..2 * pairs {
            x = one(&mut g, map(1), &[x]);
        }
        g.output("y", x).unwrap();
        let (_, steps) = effort::of(|| {
            g.joining(|joins| {
                for at in (0..2 * pairs).step_by(2) {
                    let inputs = joins.graph().nodes()[at].inputs.clone();
                    joins.absorb(at, at + 1, Arc::new(map(1)), Arc::new(()), &inputs).unwrap();
                }
            });
        });
        (g, steps)
    }

    #[test]
    fn joining_grows_as_the_graph_does() {
        let (g, steps) = joined(200);
        assert_eq!(g.nodes().len(), 200);
        for (at, node) in g.nodes().iter().enumerate() {
            assert!(
                matches!(g.value(node.outputs[0]).origin, Origin::Node { node, output: 0 } if node == at)
            );
        }
        assert_eq!(joined(400).1, 2 * steps, "twice the nodes, twice the steps");
    }

    #[test]
    fn a_node_that_was_taken_up_is_no_more() {
        let (mut g, _) = joined(2);
        let inputs = g.nodes()[0].inputs.clone();
        let again = g.joining(|joins| {
            joins.absorb(0, 1, Arc::new(map(1)), Arc::new(()), &inputs).unwrap();
            joins.absorb(0, 1, Arc::new(map(1)), Arc::new(()), &inputs)
        });
        assert_eq!(text(again), "absorb: there is no node 1; this graph has 2");
        assert_eq!(g.nodes().len(), 1, "what was joined before stays so");
    }
}
