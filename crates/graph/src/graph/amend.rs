//! A second thought about a node: what would be recorded behind it alone may join it, as long as nobody has read its
//! results. So a sum of gradients becomes the residual of the product that made one of them, and costs no pass of its own.

use super::{Attachment, Flow, Graph, Origin, Var};
use crate::{Alias, Error, Op, Result};
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
        let updates = |op: &dyn Op| op.aliases().iter().any(|alias| matches!(alias, Alias::Update { .. }));
        if updates(&*node.op) || updates(&*op) {
            return Err(Error::invalid(
                "amend",
                format!("`{}` would replace state as {}", node.name, op.name()),
                "record the update as a node of its own",
            ));
        }
        let facts = self.results_of(&*op, inputs)?;
        let operands = op.operands();
        if let Some(late) = inputs.iter().position(|var| var.index() >= node.outputs[0].index()) {
            return Err(Error::invalid(
                "amend",
                format!(
                    "{} of {}, {}, was recorded after `{}`",
                    operands[late],
                    op.name(),
                    self.title(inputs[late]),
                    node.name
                ),
                "give operands that come before it",
            ));
        }
        if !facts.iter().eq(node.outputs.iter().map(|&output| self.fact(output))) {
            let told = |facts: &mut dyn Iterator<Item = String>| facts.collect::<Vec<_>>().join(", ");
            return Err(Error::invalid(
                "amend",
                format!(
                    "`{}` gives {}, as {} it would give {}",
                    node.name,
                    told(&mut node.outputs.iter().map(|&output| self.fact(output).to_string())),
                    op.name(),
                    told(&mut facts.iter().map(|fact| fact.to_string()))
                ),
                "keep shapes and dtypes",
            ));
        }
        let flow = self.flow_through(node.pass, &*op, &operands, inputs)?;
        for output in node.outputs.clone() {
            let value = &mut self.values[output.index()];
            value.flow = if value.fact.dtype.is_float() { flow.clone() } else { Flow::None };
        }
        let node = &mut self.nodes[at];
        (node.op, node.attachment, node.inputs) = (op, attachment, inputs.to_vec());
        Ok(())
    }
}
