//! A graph recorded once more with changes on the way: heads left out, values put in place of others. The
//! names of nodes stay as they are, so that what draws random numbers by its name draws the same.

use crate::look::{Attention, attentions};
use crate::{Error, Result};
use regard_engine::Program;
use regard_graph::{DType, Graph, Var};
use regard_ops::prelude::*;
use std::collections::BTreeSet;

/// Records a forward pass again. `edit` is given each node with its new results, and returns those that
/// others shall read.
pub fn rewrite(
    g: &Graph,
    mut edit: impl FnMut(&mut Graph, usize, &[Var]) -> Result<Vec<Var>>,
) -> Result<Graph> {
    regard_graph::rewrite(g, |new, node, operands| {
        let results = g.nodes()[node].record_again(new, operands)?;
        edit(new, node, &results)
    })
}

/// The same graph with some heads left out: what they would have added is 0. Heads are (attention, head).
pub fn without_heads(g: &Graph, heads: &[(Attention, usize)]) -> Result<Graph> {
    instead(g, heads, "without", |new, _, attended| {
        // Chosen, not multiplied: what is left out may be anything, even no number.
        Ok(new.fill(new.dtype(attended), [1], 0.0)?)
    })
}

/// The same graph in which some heads say what they are told: what each attention says in their place, [B T H
/// E], is one more input. [`keep_heads`] asks another run for it, [`patched`] hands it over.
pub fn patch_heads(g: &Graph, heads: &[(Attention, usize)]) -> Result<Graph> {
    instead(g, heads, "patch", |new, attention, attended| {
        let (dtype, shape) = (new.dtype(attended), new.shape(attended).clone());
        Ok(new.input(&patch_of(attention), dtype, shape)?)
    })
}

/// Asks a graph for what some heads say: one more output for each attention.
pub fn keep_heads(g: &mut Graph, heads: &[(Attention, usize)]) -> Result<()> {
    known(g, heads)?;
    let mut names = BTreeSet::new();
    for (attention, _) in heads {
        if names.insert(patch_of(attention)) {
            let attended = g.nodes()[attention.node].outputs[0];
            g.output(&patch_of(attention), attended)?;
        }
    }
    Ok(())
}

/// Gives a program of [`patch_heads`] what the same heads said in a run of [`keep_heads`].
pub fn patched(program: &mut Program, source: &Program, heads: &[(Attention, usize)]) -> Result<()> {
    for (attention, _) in heads {
        let name = patch_of(attention);
        let attended = source.array(&name)?;
        let inputs = || program.graph().inputs();
        let input = inputs().find(|(known, _)| *known == name);
        let unknown = || regard_graph::Error::unknown("input", &name, inputs().map(|(known, _)| known));
        let wanted = program.graph().shape(input.ok_or_else(unknown)?.1).bound();
        if attended.dims() != wanted {
            return Err(Error::invalid(
                format!(
                    "`{}` says {} in the other run and {wanted} in this one",
                    attention.name,
                    attended.dims()
                ),
                "heads are taken position by position: run both on as many texts of as many tokens",
            ));
        }
        program.set_array(&name, &attended)?;
    }
    Ok(())
}

/// What an attention says in another run is called so.
fn patch_of(attention: &Attention) -> String {
    format!("patch.{}", attention.name)
}

/// Refuses heads that a graph does not have.
fn known(g: &Graph, heads: &[(Attention, usize)]) -> Result<Vec<Attention>> {
    let known = attentions(g);
    for (attention, head) in heads {
        if !known.contains(attention) || *head >= attention.heads {
            return Err(Error::invalid(
                format!("`{}` has no head {head}", attention.name),
                format!("its heads are 0 to {}", attention.heads.saturating_sub(1)),
            ));
        }
    }
    Ok(known)
}

/// The same graph in which something else stands in the place of some heads.
fn instead(
    g: &Graph,
    heads: &[(Attention, usize)],
    scope: &str,
    other: impl Fn(&mut Graph, &Attention, Var) -> Result<Var>,
) -> Result<Graph> {
    let known = known(g, heads)?;
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
        results[0] = new.scope(scope, |g| -> Result<Var> {
            let kept = g.constant(DType::Bool, [attention.heads, 1], &kept)?;
            let other = other(g, attention, results[0])?;
            Ok(g.select(kept, results[0], other)?)
        })?;
        Ok(results)
    })
}
