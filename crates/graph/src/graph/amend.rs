//! A second thought about a node: what would be recorded behind it alone may join it, as long as nobody has read its
//! results. So a sum of gradients becomes the residual of the product that made one of them, and costs no pass of its own.
//! And whatever is read already may be computed in another way, if it stays the same.

use super::{Attachment, Flow, Graph, Node, Origin, Value, Var};
use crate::{Declared, Error, Fact, Op, Result};
use std::sync::Arc;

impl Graph {
    /// Whether a node, an output or a tap of this graph reads a value.
    pub fn is_read(&self, var: Var) -> bool {
        if !self.owns(var) {
            return false;
        }
        let after = match self.value(var).origin {
            Origin::Node { node, .. } => node + 1,
            _ => 0,
        };
        self.nodes[after..].iter().any(|node| node.inputs.contains(&var))
            || self.outputs().chain(self.taps()).any(|(_, named)| named == var)
    }

    /// Gives the node that made `result` another op and other operands, in its place and under its name. Its results stay
    /// the same values with the same shapes and dtypes, but not the same numbers: so nobody may read them yet. Operands must
    /// have been recorded before the node, because nodes run in the order of recording.
    pub fn amend(
        &mut self,
        result: Var,
        op: Arc<dyn Op>,
        attachment: Attachment,
        inputs: &[Var],
    ) -> Result<()> {
        self.check_operands("amend", &[result])?;
        let Origin::Node { node: at, .. } = self.value(result).origin else {
            return Err(Error::invalid(
                "amend",
                format!("{} was not made by a node", self.title(result)),
                "amend what was computed",
            ));
        };
        let node = &self.nodes[at];
        if let Some(&read) = node.outputs.iter().find(|&&output| self.is_read(output)) {
            return Err(Error::invalid(
                "amend",
                format!("{} is read already", self.title(read)),
                "record what follows as a node of its own",
            ));
        }
        let declared = Declared::by(&*op);
        check_no_updates("amend", node, &*op, &declared)?;
        let facts = self.results_of(&*op, &declared, inputs)?;
        if let Some(late) = inputs.iter().position(|var| var.index() >= node.outputs[0].index()) {
            return Err(self.late("amend", node, &*op, &declared, inputs[late], late));
        }
        if !facts.iter().eq(node.outputs.iter().map(|&output| self.fact(output))) {
            return Err(self.other_results("amend", node, &*op, &facts));
        }
        let flow = self.flow_through(node.pass, &*op, &declared, inputs)?;
        for output in node.outputs.clone() {
            let value = &mut self.values[output.index()];
            value.flow = if value.fact.dtype.is_float() { flow.clone() } else { Flow::None };
        }
        let node = &mut self.nodes[at];
        (node.op, node.declared, node.attachment, node.inputs) = (op, declared, attachment, inputs.to_vec());
        Ok(())
    }

    /// Gives a node an op that computes the same in another way, perhaps from more operands and with more results. The
    /// results that it has stay as they are, whoever reads them: that the numbers are the same, too, is up to the caller. New
    /// ones come last, and no gradient flows through them. Operands must come from before the node. Returns all results.
    pub fn refine(
        &mut self,
        node: usize,
        op: Arc<dyn Op>,
        attachment: Attachment,
        inputs: &[Var],
    ) -> Result<Vec<Var>> {
        let Some(old) = self.nodes.get(node) else {
            return Err(Error::invalid(
                "refine",
                format!("there is no node {node}"),
                format!("this graph has {}", self.nodes.len()),
            ));
        };
        let declared = Declared::by(&*op);
        check_no_updates("refine", old, &*op, &declared)?;
        let mut facts = self.results_beside(&*op, &declared, inputs, &old.inputs)?;
        let comes_late =
            |var: &Var| matches!(self.value(*var).origin, Origin::Node { node: from, .. } if from >= node);
        if let Some(late) = inputs.iter().position(comes_late) {
            return Err(self.late("refine", old, &*op, &declared, inputs[late], late));
        }
        let known = old.outputs.len();
        if !old.outputs.iter().map(|&output| Some(self.fact(output))).eq((0..known).map(|at| facts.get(at))) {
            return Err(self.other_results("refine", old, &*op, &facts));
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

    fn late(
        &self,
        doing: &str,
        node: &Node,
        op: &dyn Op,
        declared: &Declared,
        var: Var,
        input: usize,
    ) -> Error {
        let (operand, title) = (declared.operands[input], self.title(var));
        Error::invalid(
            doing,
            format!("{operand} of {}, {title}, was recorded after `{}`", op.name(), node.name),
            "give operands that come before it",
        )
    }

    fn other_results(&self, doing: &str, node: &Node, op: &dyn Op, facts: &[Fact]) -> Error {
        let told = |facts: &mut dyn Iterator<Item = String>| facts.collect::<Vec<_>>().join(", ");
        Error::invalid(
            doing,
            format!(
                "`{}` gives {}, as {} it would give {}",
                node.name,
                told(&mut node.outputs.iter().map(|&output| self.fact(output).to_string())),
                op.name(),
                told(&mut facts.iter().map(|fact| fact.to_string()))
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
