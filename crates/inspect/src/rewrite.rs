//! A graph recorded once more with changes on the way: heads left out, values put in place of others. The names of nodes stay
//! as they are, so that what draws random numbers by its name draws the same.

use crate::look::{Attention, attentions};
use crate::{Error, Result};
use regard_graph::{DType, Graph, Node, Origin, Pass, Role, Var};
use regard_ops::prelude::*;

/// Records a forward pass again. `edit` is given each node with its new results, and returns those that others shall read.
pub fn rewrite(
    g: &Graph,
    mut edit: impl FnMut(&mut Graph, usize, &[Var]) -> Result<Vec<Var>>,
) -> Result<Graph> {
    let mut new = Graph::inference();
    new.set_precision(g.precision());
    for letter in g.letters() {
        new.open(letter.name(), letter.bound())?;
    }
    let mut vars: Vec<Option<Var>> = vec![None; g.values().len()];
    for (index, value) in g.values().iter().enumerate() {
        let (shape, dtype) = (value.fact.shape.clone(), value.fact.dtype);
        vars[index] = Some(match &value.origin {
            Origin::Input(name) => new.input(name, dtype, shape)?,
            Origin::Stored(at) => {
                let stored = &g.stored()[*at];
                match stored.role {
                    Role::Parameter => new.parameter(&stored.name, shape, stored.init.clone())?,
                    Role::State => new.state(&stored.name, dtype, shape, stored.init.clone())?,
                }
            }
            Origin::Constant(numbers) => new.constant(dtype, shape, numbers)?,
            Origin::Node { output, .. } if *output > 0 => continue,
            Origin::Node { node: at, .. } => {
                let node = &g.nodes()[*at];
                let results = again(&mut new, node, &vars)?;
                let read = edit(&mut new, *at, &results)?;
                for (&old, &var) in node.outputs.iter().zip(&read) {
                    if new.fact(var) != g.fact(old) {
                        return Err(Error::invalid(
                            format!("`{}` gives {}, its edit {}", node.name, g.fact(old), new.fact(var)),
                            "keep shape and dtype",
                        ));
                    }
                    vars[old.index()] = Some(var);
                }
                continue;
            }
        });
    }
    let of = |var: Var| vars[var.index()].unwrap_or_else(|| unreachable!("every value was recorded again"));
    for (name, var) in g.taps() {
        new.tap(name, of(var))?;
    }
    for (name, var) in g.outputs() {
        new.output(name, of(var))?;
    }
    Ok(new)
}

fn again(new: &mut Graph, node: &Node, vars: &[Option<Var>]) -> Result<Vec<Var>> {
    if node.pass != Pass::Forward {
        return Err(Error::invalid(
            format!("`{}` belongs to a backward pass", node.name),
            "rewrite the forward pass, then ask for gradients",
        ));
    }
    let inputs: Vec<Var> = node
        .inputs
        .iter()
        .map(|var| vars[var.index()].unwrap_or_else(|| unreachable!("recording order is running order")))
        .collect();
    let bare = node.name.split('#').next().unwrap_or(&node.name);
    let scope = bare.strip_suffix(node.op.name()).unwrap_or(bare).trim_end_matches('.');
    let record = |new: &mut Graph| new.record(node.op.clone(), node.attachment.clone(), &inputs);
    Ok(if scope.is_empty() { record(new)? } else { new.scope(scope, record)? })
}

/// The same graph with some heads left out: what they would have added is 0. Heads are (attention, head).
pub fn without_heads(g: &Graph, heads: &[(Attention, usize)]) -> Result<Graph> {
    let known = attentions(g);
    for (attention, head) in heads {
        if !known.contains(attention) || *head >= attention.heads {
            return Err(Error::invalid(
                format!("`{}` has no head {head}", attention.name),
                format!("its heads are 0 to {}", attention.heads.saturating_sub(1)),
            ));
        }
    }
    rewrite(g, |new, node, results| {
        let out: Vec<usize> =
            heads.iter().filter(|(attention, _)| attention.node == node).map(|(_, head)| *head).collect();
        let mut results = results.to_vec();
        let Some(attention) =
            known.iter().find(|attention| attention.node == node).filter(|_| !out.is_empty())
        else {
            return Ok(results);
        };
        let kept: Vec<f64> =
            (0..attention.heads).map(|head| f64::from(u8::from(!out.contains(&head)))).collect();
        results[0] = new.scope("without", |g| -> regard_graph::Result<Var> {
            let kept = g.constant(DType::Bool, [attention.heads, 1], &kept)?;
            // Chosen, not multiplied: what is left out may be anything, even no number.
            let nothing = g.fill(g.dtype(results[0]), [1], 0.0)?;
            g.select(kept, results[0], nothing)
        })?;
        Ok(results)
    })
}
