//! What recording refuses: operands of other graphs, stale state, missing derivatives, updates of what does
//! not live in the store.

use super::{Flow, Graph, Origin, Pass, Var};
use crate::{Alias, Derivative, Dim, Error, Fact, Op, Result};

impl Graph {
    pub(super) fn check_fact(&self, op: &str, name: &str, fact: &Fact) -> Result<()> {
        if name.is_empty() {
            return Err(Error::invalid(
                op,
                "the name is empty",
                "give it a dotted name such as `head.weight`",
            ));
        }
        if fact.shape.len() > crate::MAX_RANK {
            return Err(Error::invalid(
                op,
                format!("`{name}` has {} axes", fact.shape.len()),
                format!("at most {} are supported", crate::MAX_RANK),
            ));
        }
        for letter in fact.shape.iter().flat_map(Dim::letters) {
            if !self.letters.contains(&letter) {
                return Err(Error::invalid(
                    op,
                    format!("`{name}` uses the letter {} ≤ {}", letter.name(), letter.bound()),
                    "declare it on this graph with `open`",
                ));
            }
        }
        Ok(())
    }

    pub(super) fn flow_through(
        &self,
        op: &dyn Op,
        operands: &[&'static str],
        inputs: &[Var],
    ) -> Result<Flow> {
        let mut result = Flow::None;
        for (input, &var) in inputs.iter().enumerate() {
            let flow = &self.value(var).flow;
            match (flow, op.derivative(input)) {
                (Flow::None, _) | (_, Derivative::Zero) => {}
                (Flow::Blocked(by), _) => result = Flow::Blocked(by),
                (Flow::Open, Derivative::Exists) => {
                    if result == Flow::None {
                        result = Flow::Open;
                    }
                }
                // An update takes gradients as data: what it returns is state, through which none flows.
                (Flow::Open, Derivative::Missing(reason)) => {
                    let only_state = op.aliases().iter().any(|a| matches!(a, Alias::Update { .. }));
                    if self.pass == Pass::Forward && !only_state {
                        return Err(Error::NoGradient {
                            op: op.name().into(),
                            operand: operands[input].into(),
                            reason: reason.into(),
                        });
                    }
                    result = Flow::Blocked(op.name());
                }
            }
        }
        Ok(result)
    }

    pub(super) fn updates_of(
        &self,
        op: &dyn Op,
        inputs: &[Var],
        facts: &[Fact],
    ) -> Result<Vec<(usize, usize)>> {
        let mut updates = Vec::new();
        for alias in op.aliases() {
            let Alias::Update { output, input } = alias else { continue };
            let Some(stored) = self.value(inputs[input]).version_of else {
                return Err(Error::invalid(
                    op.name(),
                    format!("{} is neither a parameter nor a state", op.operands()[input]),
                    "only what lives in the store can be updated",
                ));
            };
            if self.region.is_some() {
                return Err(Error::invalid(
                    op.name(),
                    format!("updates `{}` inside a block marked recompute", self.stored[stored].name),
                    "a block that runs twice must not change state; move the update out of it",
                ));
            }
            if updates.iter().any(|(_, known)| *known == stored) {
                return Err(Error::invalid(
                    op.name(),
                    format!("updates `{}` twice", self.stored[stored].name),
                    "give each state once",
                ));
            }
            if facts[output] != self.stored[stored].fact {
                return Err(Error::Shape {
                    op: op.name().into(),
                    operand: op.operands()[input].into(),
                    got: facts[output].to_string(),
                    expected: self.stored[stored].fact.to_string(),
                    origin: format!("; an update keeps the shape of `{}`", self.stored[stored].name),
                });
            }
            updates.push((output, stored));
        }
        Ok(updates)
    }

    pub(super) fn check_var(&self, op: &str, operand: usize, var: Var) -> Result<()> {
        if var.graph != self.id {
            return Err(Error::ForeignVar { op: op.into(), operand });
        }
        if let Some(stored) = self.value(var).version_of {
            let stored = &self.stored[stored];
            if stored.current != var {
                let by = match self.value(stored.current).origin {
                    Origin::Node { node, .. } => self.nodes[node].name.clone(),
                    _ => "a later version".into(),
                };
                return Err(Error::StaleState { op: op.into(), name: stored.name.clone(), by });
            }
        }
        Ok(())
    }
}
