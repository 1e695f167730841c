//! The gradient reader: reverse mode, recorded into the same graph. It asks each op for its own rule and
//! adds up what meets; the sums and constants that it needs come from the ops crate as a [`Calculus`].

use crate::{DType, Derivative, Error, Flow, Graph, Node, Origin, Pass, Result, Tape, Var, dotted};
use std::collections::HashMap;

#[cfg(test)]
mod tests;

/// The few ops that differentiation itself records.
pub trait Calculus {
    /// Ones in the shape and dtype of a value: where differentiation begins.
    fn ones_like(&self, g: &mut Graph, like: Var) -> Result<Var>;
    /// Zeros in the shape and dtype of a value: the gradient of what has no influence.
    fn zeros_like(&self, g: &mut Graph, like: Var) -> Result<Var>;
    /// The sum of two gradients; f32 as soon as one of them is.
    fn add(&self, g: &mut Graph, a: Var, b: Var) -> Result<Var>;
    /// An f32 gradient rounded to the dtype of its value.
    fn round(&self, g: &mut Graph, gradient: Var, to: DType) -> Result<Var>;
}

/// Records the gradient of the single number `of` with respect to each of `wrt`.
pub fn gradient(g: &mut Graph, of: Var, wrt: &[Var], calculus: &dyn Calculus) -> Result<Vec<Var>> {
    check_owned(g, "gradient", &[of], wrt)?;
    if g.shape(of).count().fixed() != Some(1) {
        return Err(Error::Shape {
            op: "gradient".into(),
            operand: "the value to differentiate".into(),
            got: g.shape(of).to_string(),
            expected: "a single number".into(),
            origin: "; reduce it with `sum` or `mean` first".into(),
        });
    }
    back(g, "gradient", of, None, wrt, calculus)
}

/// Records what the gradient of a value, given as `cotangent`, becomes on its way back to each of `wrt`: the
/// gradient of Σ cotangent · of.
pub fn pullback(
    g: &mut Graph,
    of: Var,
    cotangent: Var,
    wrt: &[Var],
    calculus: &dyn Calculus,
) -> Result<Vec<Var>> {
    check_owned(g, "pullback", &[of, cotangent], wrt)?;
    if g.fact(cotangent) != g.fact(of) {
        return Err(Error::Shape {
            op: "pullback".into(),
            operand: "the cotangent".into(),
            got: g.fact(cotangent).to_string(),
            expected: g.fact(of).to_string(),
            origin: ", as the value to differentiate".into(),
        });
    }
    back(g, "pullback", of, Some(cotangent), wrt, calculus)
}

fn check_owned(g: &Graph, op: &str, first: &[Var], wrt: &[Var]) -> Result<()> {
    match first.iter().chain(wrt).position(|&var| !g.owns(var)) {
        Some(operand) => Err(Error::ForeignVar { op: op.into(), operand }),
        None => Ok(()),
    }
}

/// The way back, from a given gradient of `of` or from ones.
fn back(
    g: &mut Graph,
    op: &str,
    of: Var,
    cotangent: Option<Var>,
    wrt: &[Var],
    calculus: &dyn Calculus,
) -> Result<Vec<Var>> {
    let begin = |g: &mut Graph| cotangent.map_or_else(|| calculus.ones_like(g, of), Ok);
    check_tracked(g, op, wrt)?;
    let leads = dependents(g, wrt);
    if !leads[of.index()] || g.value(of).flow == Flow::None {
        return Err(Error::invalid(
            op,
            "the value does not depend on any of the variables given",
            "check for a stop_gradient, an integer op, or a graph recorded for inference in between",
        ));
    }
    let Origin::Node { node: last, .. } = g.value(of).origin else {
        return g.in_pass(Pass::Backward, "", |g| {
            let each = wrt.iter().map(|&var| match var == of {
                true => begin(g),
                false => calculus.zeros_like(g, var),
            });
            each.collect()
        });
    };
    let first = g.in_pass(Pass::Backward, "", begin)?;
    let again = Replay::of(&g.nodes()[..=last]);
    let mut walk = Walk { calculus, leads, sums: HashMap::from([(of, first)]), again };
    for index in (0..=last).rev() {
        let node = g.nodes()[index].clone();
        walk.node(g, &node)?;
    }
    g.in_pass(Pass::Backward, "", |g| {
        wrt.iter()
            .map(|&var| walk.sums.get(&var).map_or_else(|| calculus.zeros_like(g, var), |&sum| Ok(sum)))
            .collect()
    })
}

/// Zeros for what is merely not tracked would be silence about a gradient that exists.
fn check_tracked(g: &Graph, op: &str, wrt: &[Var]) -> Result<()> {
    let Some(index) = wrt.iter().position(|&var| g.value(var).flow == Flow::None) else { return Ok(()) };
    Err(Error::invalid(
        op,
        format!("variable {index}, {}, carries no gradient", g.title(wrt[index])),
        match g.value(wrt[index]).origin {
            Origin::Input(_) if g.dtype(wrt[index]) == DType::BF16 => {
                "declare it with `bf16_input_with_gradient`, or leave it out"
            }
            Origin::Input(_) => "declare it with `input_with_gradient`, or leave it out",
            _ => "check for a stop_gradient, an integer op, an update or a graph recorded for inference",
        },
    ))
}

/// Nodes, walked from the last to the first.
struct Walk<'a> {
    calculus: &'a dyn Calculus,
    /// Which values lead to one that is asked for.
    leads: Vec<bool>,
    /// The gradients so far.
    sums: HashMap<Var, Var>,
    again: Replay,
}

impl Walk<'_> {
    /// Asks a node's rule, if any of its results has a gradient that an operand wants.
    fn node(&mut self, g: &mut Graph, node: &Node) -> Result<()> {
        let grads: Vec<Option<Var>> = node.outputs.iter().map(|out| self.sums.get(out).copied()).collect();
        if grads.iter().all(Option::is_none) {
            return Ok(());
        }
        let wanted = self.wanted(g, node)?;
        if !wanted.contains(&true) {
            return Ok(());
        }
        if let Some(region) = node.region {
            self.again.run(g, region)?;
        }
        let inputs = self.again.now(&node.inputs);
        let outputs = self.again.now(&node.outputs);
        let (scope, _) = dotted::split(&node.name);
        g.in_pass(Pass::Backward, scope, |g| -> Result<_> {
            let tape = Tape { inputs: &inputs, outputs: &outputs, grads: &grads, wanted: &wanted };
            let found = node.op.gradient(g, &tape)?;
            if found.len() != inputs.len() {
                return Err(Error::invalid(
                    &node.name,
                    format!("its rule gave {} gradients, it has {} inputs", found.len(), inputs.len()),
                    format!("mend the rule of {}", node.op.name()),
                ));
            }
            for (input, &grad) in found.iter().enumerate() {
                let (Some(grad), true) = (grad, wanted[input]) else { continue };
                self.add(g, node, input, grad)?;
            }
            Ok(())
        })
    }

    /// The operands of a node whose gradients are wanted; an error where its op has none.
    fn wanted(&self, g: &Graph, node: &Node) -> Result<Vec<bool>> {
        let wants = |(input, &var): (usize, &Var)| {
            self.leads[var.index()]
                && g.value(var).flow != Flow::None
                && node.declared.derivatives[input] != Derivative::Zero
        };
        let wanted: Vec<bool> = node.inputs.iter().enumerate().map(wants).collect();
        for (input, _) in wanted.iter().enumerate().filter(|(_, wanted)| **wanted) {
            if let Derivative::Missing(reason) = node.declared.derivatives[input] {
                return Err(Error::NoGradient {
                    op: node.name.clone(),
                    operand: node.declared.operands[input].into(),
                    reason: reason.into(),
                });
            }
        }
        Ok(wanted)
    }

    /// Adds what a rule found for an operand to what was found before.
    fn add(&mut self, g: &mut Graph, node: &Node, input: usize, grad: Var) -> Result<()> {
        let var = node.inputs[input];
        let (got, own) = (g.fact(grad), g.fact(var).clone());
        let fits = got.dtype == own.dtype || (got.dtype, own.dtype) == (DType::F32, DType::BF16);
        if got.shape != own.shape || !fits {
            return Err(Error::Shape {
                op: node.name.clone(),
                operand: format!("the gradient of {}", node.declared.operands[input]),
                got: got.to_string(),
                expected: own.to_string(),
                origin: format!("; mend the rule of {}", node.op.name()),
            });
        }
        // What meets is added before it is rounded.
        let mut sum = match self.sums.get(&var) {
            Some(&before) => self.calculus.add(g, before, grad)?,
            None => grad,
        };
        if g.dtype(sum) != own.dtype {
            sum = self.calculus.round(g, sum, own.dtype)?;
        }
        self.sums.insert(var, sum);
        Ok(())
    }
}

/// Which values depend on any of the given ones.
fn dependents(g: &Graph, wrt: &[Var]) -> Vec<bool> {
    let mut depends = vec![false; g.values().len()];
    for var in wrt {
        depends[var.index()] = true;
    }
    for node in g.nodes() {
        if node.inputs.iter().any(|input| depends[input.index()]) {
            for output in &node.outputs {
                depends[output.index()] = true;
            }
        }
    }
    depends
}

/// Blocks marked recompute: which values of the forward pass have a second life in the backward pass.
struct Replay {
    /// The nodes of each region that was not recorded once more yet.
    left: HashMap<usize, Vec<usize>>,
    now: HashMap<Var, Var>,
}

impl Replay {
    fn of(nodes: &[Node]) -> Replay {
        let mut left: HashMap<usize, Vec<usize>> = HashMap::new();
        for (index, node) in nodes.iter().enumerate() {
            if let Some(region) = node.region {
                left.entry(region).or_default().push(index);
            }
        }
        Replay { left, now: HashMap::new() }
    }

    /// Records the nodes of a region once more, the first time that the backward pass needs any of them.
    /// The ops are the same objects, so their random streams are the same, too.
    fn run(&mut self, g: &mut Graph, region: usize) -> Result<()> {
        for index in self.left.remove(&region).unwrap_or_default() {
            let node = g.nodes()[index].clone();
            let inputs = self.now(&node.inputs);
            let outputs = g.in_pass(Pass::Recompute, "", |g| {
                g.record_named(node.op.clone(), node.attachment.clone(), &inputs, node.name.clone())
            })?;
            self.now.extend(node.outputs.iter().copied().zip(outputs));
        }
        Ok(())
    }

    fn now(&self, vars: &[Var]) -> Vec<Var> {
        vars.iter().map(|var| *self.now.get(var).unwrap_or(var)).collect()
    }
}
