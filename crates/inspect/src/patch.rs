//! Values of a run put in the place of others, by the names of their taps: zeros, or what another run had
//! there. Everything behind is computed anew, nothing before it changes. A pattern of attention is no value
//! that the attention reads; where one is given, its heads mix the values as it says.

use crate::{Error, Result};
use regard_engine::Program;
use regard_graph::{DType, Graph, Origin, Shape, Var};
use regard_layers::taps;
use regard_ops::prelude::*;
use regard_ops::{FillOps, MatmulOptions};

/// The same graph in which some taps are 0.
pub fn without_taps(g: &Graph, names: &[&str]) -> Result<Graph> {
    instead(g, names, |new, _, dtype, shape| Ok(new.fill(dtype, shape, 0.0)?))
}

/// The same graph in which some taps are given: each is one more input, `patch.<tap>`. [`keep_taps`] asks
/// another run for it, [`patched_taps`] hands it over.
pub fn patch_taps(g: &Graph, names: &[&str]) -> Result<Graph> {
    instead(g, names, |new, name, dtype, shape| Ok(new.input(&patch_of(name), dtype, shape)?))
}

/// Asks a graph for some taps: one more output for each.
pub fn keep_taps(g: &mut Graph, names: &[&str]) -> Result<()> {
    for name in names {
        let var = taps::ask(g, name)?;
        g.output(&patch_of(name), var)?;
    }
    Ok(())
}

/// Gives a program of [`patch_taps`] what a run of [`keep_taps`] had there.
pub fn patched_taps(program: &mut Program, source: &Program, names: &[&str]) -> Result<()> {
    for name in names {
        let given = source.array(&patch_of(name))?;
        let inputs = || program.graph().inputs();
        let input = inputs().find(|(known, _)| *known == patch_of(name));
        let unknown =
            || regard_graph::Error::unknown("input", &patch_of(name), inputs().map(|(known, _)| known));
        let wanted = program.graph().shape(input.ok_or_else(unknown)?.1).bound();
        if given.dims() != wanted {
            return Err(Error::invalid(
                format!("`{name}` is {} in the other run and {wanted} in this one", given.dims()),
                "values are taken place by place: run both on as many texts of as many tokens",
            ));
        }
        program.set_array(&patch_of(name), &given)?;
    }
    Ok(())
}

fn patch_of(name: &str) -> String {
    format!("patch.{name}")
}

/// What a tap names.
enum Place {
    /// A result of a node.
    Result { node: usize, output: usize },
    /// The weights of an attention.
    Pattern { node: usize },
}

fn place(g: &Graph, name: &str) -> Result<Place> {
    if let Some((_, node)) = taps::patterns(g).find(|(known, _)| known == name) {
        return Ok(Place::Pattern { node });
    }
    let Some((_, var)) = g.taps().find(|(known, _)| *known == name) else {
        let all: Vec<String> = taps::taps(g).into_iter().map(|tap| tap.name).collect();
        return Err(regard_graph::Error::unknown("tap", name, all.iter().map(String::as_str)).into());
    };
    match g.value(var).origin {
        Origin::Node { node, output } => Ok(Place::Result { node, output }),
        _ => Err(Error::invalid(
            format!("`{name}` is {}, which nothing computes", g.title(var)),
            "give the program another one instead",
        )),
    }
}

/// The same graph with something else in the place of some taps, of their dtype and shape.
fn instead(
    g: &Graph,
    names: &[&str],
    other: impl Fn(&mut Graph, &str, DType, Shape) -> Result<Var>,
) -> Result<Graph> {
    let places = names.iter().map(|name| Ok((*name, place(g, name)?))).collect::<Result<Vec<_>>>()?;
    regard_graph::rewrite(g, |new, at, operands| {
        let mut results = g.nodes()[at].record_again(new, operands)?;
        for (name, place) in &places {
            match *place {
                Place::Result { node, output } if node == at => {
                    let (dtype, shape) = (new.dtype(results[output]), new.shape(results[output]).clone());
                    results[output] = new.scope("patch", |new| other(new, name, dtype, shape))?;
                }
                Place::Pattern { node } if node == at => {
                    results[0] = new.scope("patch", |new| {
                        let shape = pattern_shape(new, operands);
                        let pattern = other(new, name, DType::F32, shape)?;
                        mixed(new, pattern, operands[2], results[0])
                    })?;
                }
                _ => {}
            }
        }
        Ok(results)
    })
}

/// B H T S of an attention with these operands.
fn pattern_shape(g: &Graph, operands: &[Var]) -> Shape {
    let (query, key) = (g.shape(operands[0]), g.shape(operands[1]));
    Shape::new(vec![query[0].clone(), query[2].clone(), query[1].clone(), key[1].clone()])
}

/// The values of each head mixed by a pattern, in the dtype of what the attention gave: B H T S, B S G E -> B
/// T H E
fn mixed(g: &mut Graph, pattern: Var, value: Var, like: Var) -> Result<Var> {
    let [batch, heads, queries, keys] = g.dims(pattern, "B H T S")?;
    let [_, _, groups, width] = g.dims(value, "B S G E")?;
    // Heads that share values stand side by side.
    let Some(each) = heads.divided_by(&groups) else {
        return Err(Error::invalid(
            format!("{heads} heads share {groups} value heads"),
            "give heads that are a multiple of the value heads",
        ));
    };
    let rows = each.times(&queries);
    let pattern = g.reshape(pattern, Shape::new(vec![batch.clone(), groups, rows, keys]))?;
    let value = g.transpose(value, &[0, 2, 1, 3])?; // B S G E -> B G S E
    let output = Some(g.dtype(like));
    let mixed = g.matmul(pattern, value, MatmulOptions { output, ..MatmulOptions::default() })?;
    let mixed = g.reshape(mixed, Shape::new(vec![batch, heads, queries, width]))?;
    Ok(g.transpose(mixed, &[0, 2, 1, 3])?)
}
