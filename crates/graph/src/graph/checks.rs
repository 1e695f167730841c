//! What recording refuses: operands of other graphs, stale state, missing derivatives, updates of what does
//! not live in the store.

use super::{Flow, Graph, Origin, Pass, Var};
use crate::{Alias, DType, Declared, Derivative, Dim, Error, Fact, Init, Op, Result};

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

    /// The results of an op on these operands, if it can be recorded on them.
    pub(super) fn results_of(&self, op: &dyn Op, declared: &Declared, inputs: &[Var]) -> Result<Vec<Fact>> {
        self.results_replacing(op, declared, inputs, &[])
    }

    /// The same in the place of a node that reads some of them already: state that was replaced since is not
    /// stale to it.
    pub(super) fn results_replacing(
        &self,
        op: &dyn Op,
        declared: &Declared,
        inputs: &[Var],
        read: &[Var],
    ) -> Result<Vec<Fact>> {
        let operands = &declared.operands;
        if operands.len() != inputs.len() {
            return Err(Error::invalid(
                op.name(),
                format!("{} operands were given, it takes {}", inputs.len(), operands.len()),
                format!("give {}", operands.join(", ")),
            ));
        }
        for (operand, &var) in inputs.iter().enumerate().filter(|(_, var)| !read.contains(var)) {
            self.check_var(op.name(), operand, var)?;
        }
        let input_facts: Vec<Fact> = inputs.iter().map(|&var| self.fact(var).clone()).collect();
        let facts = op.infer(&input_facts)?;
        self.check_outputs(op, &facts)?;
        check_aliases(op, declared, &input_facts, &facts)?;
        Ok(facts)
    }

    /// Whether a gradient passes through an op in this pass.
    pub(super) fn flow_through(
        &self,
        pass: Pass,
        op: &dyn Op,
        declared: &Declared,
        inputs: &[Var],
    ) -> Result<Flow> {
        let mut result = Flow::None;
        for (input, &var) in inputs.iter().enumerate() {
            let flow = &self.value(var).flow;
            match (flow, declared.derivatives[input]) {
                (Flow::None, _) | (_, Derivative::Zero) => {}
                (Flow::Blocked(by), _) => result = Flow::Blocked(by),
                (Flow::Open, Derivative::Exists) => {
                    if result == Flow::None {
                        result = Flow::Open;
                    }
                }
                // An update takes gradients as data: what it returns is state, through which none flows.
                (Flow::Open, Derivative::Missing(reason)) => {
                    if pass == Pass::Forward && !declared.updates() {
                        return Err(Error::NoGradient {
                            op: op.name().into(),
                            operand: declared.operands[input].into(),
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
        declared: &Declared,
        inputs: &[Var],
        facts: &[Fact],
    ) -> Result<Vec<(usize, usize)>> {
        let mut updates = Vec::new();
        for &alias in &declared.aliases {
            let Alias::Update { output, input } = alias else { continue };
            let Some(stored) = self.value(inputs[input]).version_of else {
                return Err(Error::invalid(
                    op.name(),
                    format!("{} is neither a parameter nor a state", declared.operands[input]),
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
                    operand: declared.operands[input].into(),
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

    /// What an op says of its outputs must hold together: the plan relies on it.
    fn check_outputs(&self, op: &dyn Op, outputs: &[Fact]) -> Result<()> {
        for (output, fact) in outputs.iter().enumerate() {
            if fact.shape.len() > crate::MAX_RANK {
                return Err(Error::invalid(
                    op.name(),
                    format!("output {output} has {} axes", fact.shape.len()),
                    format!("at most {} are supported", crate::MAX_RANK),
                ));
            }
            // Sizes come by the letter's name, room by its bound: another bound would write past the end.
            if let Some(letter) =
                fact.shape.iter().flat_map(Dim::letters).find(|letter| !self.letters.contains(letter))
            {
                return Err(Error::invalid(
                    op.name(),
                    format!("output {output} uses the letter {} ≤ {}", letter.name(), letter.bound()),
                    "declare it on this graph with `open`",
                ));
            }
        }
        Ok(())
    }
}

/// What an op says of shared memory must hold together: an output has the bytes of one input, and no two
/// outputs those of the same one. How many elements a `Reuse` needs is for the plan: it is a leave, not a
/// demand.
fn check_aliases(op: &dyn Op, declared: &Declared, inputs: &[Fact], outputs: &[Fact]) -> Result<()> {
    let wrong = |what: String| Err(Error::invalid(op.name(), what, "mend `aliases` of the op"));
    for (index, alias) in declared.aliases.iter().enumerate() {
        let (output, input) = alias.output_and_input();
        let (Some(from), Some(to)) = (inputs.get(input), outputs.get(output)) else {
            let (ins, outs) = (inputs.len(), outputs.len());
            return wrong(format!(
                "it shares output {output} with input {input}, but has {outs} outputs and {ins} inputs"
            ));
        };
        if matches!(alias, Alias::View { .. })
            && (from.shape.count(), from.dtype) != (to.shape.count(), to.dtype)
        {
            return Err(Error::Shape {
                op: op.name().into(),
                operand: format!("output {output}"),
                got: to.to_string(),
                expected: format!("{} elements of {}", from.shape.count(), from.dtype),
                origin: format!("; a view has the bytes of {}, which is {from}", declared.operands[input]),
            });
        }
        for other in &declared.aliases[..index] {
            let both_reuse = matches!((alias, other), (Alias::Reuse { .. }, Alias::Reuse { .. }));
            let (other_output, other_input) = other.output_and_input();
            if alias == other || (!both_reuse && output == other_output) {
                return wrong(format!("it shares output {output} twice, as {other:?} and as {alias:?}"));
            }
            if !both_reuse && input == other_input {
                let operand = declared.operands[input];
                return wrong(format!("it shares {operand} with outputs {other_output} and {output}"));
            }
        }
    }
    Ok(())
}

/// Integers and booleans hold what they can: the readers and every engine take constants by their value.
pub(super) fn check_numbers(dtype: DType, numbers: &[f64]) -> Result<()> {
    let (fits, advice): (fn(f64) -> bool, _) = match dtype {
        DType::F32 | DType::BF16 => return Ok(()),
        DType::I32 => (|x| f64::from(x as i32) == x, "use f32, or round it first"),
        DType::Bool => (|x| x == 0.0 || x == 1.0, "use 0 or 1"),
    };
    match numbers.iter().position(|&x| !fits(x)) {
        None => Ok(()),
        Some(at) => {
            let what = format!("number {at} is {}, which {dtype} cannot hold", numbers[at]);
            Err(Error::invalid("constant", what, advice))
        }
    }
}

/// Integers and booleans begin with what they can hold: each engine would round anything else in its own way.
pub(super) fn check_init(kind: &str, name: &str, dtype: DType, init: &Init) -> Result<()> {
    let fits = match *init {
        _ if dtype.is_float() => true,
        Init::Zeros | Init::Ones => true,
        Init::Constant(number) => check_numbers(dtype, &[f64::from(number)]).is_ok(),
        Init::Normal(_) | Init::Uniform(_) => false,
    };
    if fits {
        return Ok(());
    }
    let advice = if dtype == DType::Bool { "begin with Zeros or Ones" } else { "begin with a whole number" };
    Err(Error::invalid(kind, format!("`{name}` is {dtype}, which cannot begin as {init:?}"), advice))
}
