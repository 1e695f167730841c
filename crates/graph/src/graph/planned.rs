//! What planning may change in a recorded graph: nodes that nobody needs go, and a node computes the same in
//! another way (that one takes up what its only reader does behind it is `joins`). No number changes:
//! whatever is still made has the bits that it had.

use super::{Attachment, Flow, Graph, Node, Origin, Value, Var};
use crate::{Declared, Error, Fact, Op, Result, effort, needed};
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
        self.number_results();
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

    /// Tells the results of all nodes where they come from.
    pub(super) fn number_results(&mut self) {
        effort::add(self.nodes.len());
        for (node, recorded) in self.nodes.iter().enumerate() {
            for (output, var) in recorded.outputs.iter().enumerate() {
                self.values[var.index()].origin = Origin::Node { node, output };
            }
        }
    }

    pub(super) fn no_node(&self, doing: &str, node: usize) -> Error {
        Error::invalid(
            doing,
            format!("there is no node {node}"),
            format!("this graph has {}", self.nodes.len()),
        )
    }

    /// Refuses operands that are made by the node itself, later, or no more.
    pub(super) fn check_before(
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

    pub(super) fn other_results(
        &self,
        doing: &str,
        node: &Node,
        results: &[Var],
        op: &dyn Op,
        facts: &[Fact],
    ) -> Error {
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
pub(super) fn check_no_updates(doing: &str, node: &Node, op: &dyn Op, declared: &Declared) -> Result<()> {
    if !node.declared.updates() && !declared.updates() {
        return Ok(());
    }
    Err(Error::invalid(
        doing,
        format!("`{}` would replace state as {}", node.name, op.name()),
        "record the update as a node of its own",
    ))
}
