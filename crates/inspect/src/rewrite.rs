//! A graph recorded once more with changes on the way: heads left out, values put in place of others. The names of nodes stay
//! as they are, so that what draws random numbers by its name draws the same.

use crate::look::{Attention, attentions};
use crate::{Error, Result};
use regard_graph::{DType, Graph, Var};
use regard_ops::prelude::*;

/// Records a forward pass again. `edit` is given each node with its new results, and returns those that others shall read.
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
