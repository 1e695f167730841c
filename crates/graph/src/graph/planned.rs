//! What planning may change in a recorded graph: nodes that nobody needs go, a node computes the same in
//! another way, and a node takes up what its only reader does behind it. No number changes: whatever is still
//! made has the bits that it had.

use super::{Attachment, Flow, Graph, Node, Origin, Value, Var};
use crate::{Declared, Error, Fact, Op, Result, needed};
use std::sync::Arc;

impl Graph {
    /// The same recording once more, under the same handles: for those who want to know what planning makes
    /// of it, and keep what was recorded.
    pub fn duplicate(&self) -> Graph {
        let Graph {
            values, nodes, stored, stored_by_name, inputs, outputs, taps, letters, scope, names, ..
        } = self;
        let Graph { id, pass, region, regions, precision, trains, .. } = *self;
        Graph {
            id,
            values: values.clone(),
            nodes: nodes.clone(),
            stored: stored.clone(),
            stored_by_name: stored_by_name.clone(),
            inputs: inputs.clone(),
            outputs: outputs.clone(),
            taps: taps.clone(),
            letters: letters.clone(),
            scope: scope.clone(),
            names: names.clone(),
            pass,
            region,
            regions,
            precision,
            trains,
        }
    }

    /// Leaves out the nodes that neither `keep` nor an update of state needs. Their results stay as values
    /// that nobody makes ([`Origin::Gone`]), so that handles keep their meaning; so do taps of them, as names
    /// of nothing.
    pub fn prune(&mut self, keep: &[Var]) -> Result<()> {
        let needed = needed(self, keep)?;
        if needed.nodes.iter().all(|&needed| needed) {
            return Ok(());
        }
        let mut at = 0;
        self.nodes.retain(|_| {
            at += 1;
            needed.nodes[at - 1]
        });
        for value in self.values.iter_mut().filter(|value| matches!(value.origin, Origin::Node { .. })) {
            value.origin = Origin::Gone;
        }
        self.number_results(0);
        Ok(())
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
        let (Some(old), Some(after)) = (self.nodes.get(node), self.nodes.get(reader)) else {
            return Err(self.no_node("absorb", node.max(reader)));
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
        let others = self.nodes.iter().enumerate().filter(|(at, _)| *at != reader);
        if others
            .flat_map(|(_, other)| &other.inputs)
            .chain(self.outputs.iter().map(|(_, var)| var))
            .any(|&var| var == gone)
        {
            return Err(Error::invalid(
                "absorb",
                format!("{} has other readers than `{}`", self.title(gone), after.name),
                "leave them apart, or prune what nobody needs first",
            ));
        }
        let read: Vec<Var> = old.inputs.iter().chain(&after.inputs).copied().collect();
        let facts = self.results_replacing(&*op, &declared, inputs, &read)?;
        self.check_before("absorb", node, &*op, &declared, inputs)?;
        let mut outputs = old.outputs.clone();
        outputs[between] = made;
        if !facts.iter().eq(outputs.iter().map(|&output| self.fact(output))) {
            return Err(self.other_results("absorb", old, &outputs, &*op, &facts));
        }
        self.values[gone.index()].origin = Origin::Gone;
        let changed = &mut self.nodes[node];
        (changed.op, changed.declared, changed.attachment) = (op, declared, attachment);
        changed.inputs = inputs.to_vec();
        changed.outputs = outputs;
        self.nodes.remove(reader);
        self.number_results(node);
        Ok(())
    }

    /// Gives a node an op that computes the same in another way, perhaps from more operands and with more
    /// results. The results that it has stay as they are, whoever reads them: that the numbers are the same,
    /// too, is up to the caller. New ones come last, and no gradient flows through them. Operands must come
    /// from before the node. Returns all results.
    pub fn refine(
        &mut self,
        node: usize,
        op: Arc<dyn Op>,
        attachment: Attachment,
        inputs: &[Var],
    ) -> Result<Vec<Var>> {
        let Some(old) = self.nodes.get(node) else {
            return Err(self.no_node("refine", node));
        };
        let declared = Declared::by(&*op);
        check_no_updates("refine", old, &*op, &declared)?;
        let mut facts = self.results_replacing(&*op, &declared, inputs, &old.inputs)?;
        self.check_before("refine", node, &*op, &declared, inputs)?;
        let known = old.outputs.len();
        if !old.outputs.iter().map(|&output| Some(self.fact(output))).eq((0..known).map(|at| facts.get(at))) {
            return Err(self.other_results("refine", old, &old.outputs, &*op, &facts));
        }
        let mut outputs = old.outputs.clone();
        for (output, fact) in facts.drain(known..).enumerate() {
            let origin = Origin::Node { node, output: known + output };
            outputs.push(self.push(Value { fact, origin, flow: Flow::None, version_of: None }));
        }
        let node = &mut self.nodes[node];
        (node.op, node.declared, node.attachment, node.inputs) = (op, declared, attachment, inputs.to_vec());
        node.outputs.clone_from(&outputs);
        Ok(outputs)
    }

    /// Tells the results of all nodes from this one on where they come from.
    fn number_results(&mut self, from: usize) {
        for (node, recorded) in self.nodes.iter().enumerate().skip(from) {
            for (output, var) in recorded.outputs.iter().enumerate() {
                self.values[var.index()].origin = Origin::Node { node, output };
            }
        }
    }

    fn no_node(&self, doing: &str, node: usize) -> Error {
        Error::invalid(
            doing,
            format!("there is no node {node}"),
            format!("this graph has {}", self.nodes.len()),
        )
    }

    /// Refuses operands that are made by the node itself, later, or no more.
    fn check_before(
        &self,
        doing: &str,
        node: usize,
        op: &dyn Op,
        declared: &Declared,
        inputs: &[Var],
    ) -> Result<()> {
        let comes_late = |var: &Var| match self.value(*var).origin {
            Origin::Node { node: from, .. } => from >= node,
            Origin::Gone => true,
            _ => false,
        };
        let Some(late) = inputs.iter().position(comes_late) else { return Ok(()) };
        let (operand, title) = (declared.operands[late], self.title(inputs[late]));
        Err(Error::invalid(
            doing,
            format!("{operand} of {}, {title}, was recorded after `{}`", op.name(), self.nodes[node].name),
            "give operands that come before it",
        ))
    }

    fn other_results(&self, doing: &str, node: &Node, results: &[Var], op: &dyn Op, facts: &[Fact]) -> Error {
        let listed = |facts: &mut dyn Iterator<Item = String>| facts.collect::<Vec<_>>().join(", ");
        Error::invalid(
            doing,
            format!(
                "`{}` gives {}, as {} it would give {}",
                node.name,
                listed(&mut results.iter().map(|&output| self.fact(output).to_string())),
                op.name(),
                listed(&mut facts.iter().map(|fact| fact.to_string()))
            ),
            "keep shapes and dtypes",
        )
    }
}

/// Refuses nodes that replace state, before or after.
fn check_no_updates(doing: &str, node: &Node, op: &dyn Op, declared: &Declared) -> Result<()> {
    if !node.declared.updates() && !declared.updates() {
        return Ok(());
    }
    Err(Error::invalid(
        doing,
        format!("`{}` would replace state as {}", node.name, op.name()),
        "record the update as a node of its own",
    ))
}
