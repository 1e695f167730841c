//! A graph as a picture: the language of Graphviz, one cluster for each scope.

use super::{Scope, pass_name, short};
use crate::{Graph, Origin, Pass};
use std::fmt::Write;

/// The whole graph for Graphviz: `dot -Tsvg`.
pub fn dot(g: &Graph) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_all(g, &mut out);
    out
}

fn write_all(g: &Graph, out: &mut String) -> std::fmt::Result {
    writeln!(out, "digraph program {{")?;
    writeln!(out, "  node [shape=box, fontname=\"sans-serif\"];")?;
    let mut read = vec![false; g.values().len()];
    g.nodes().iter().flat_map(|node| &node.inputs).for_each(|var| read[var.index()] = true);
    for (index, value) in g.values().iter().enumerate() {
        let var = g.var(index);
        let shape = match value.origin {
            Origin::Input(_) => "ellipse",
            Origin::Stored(_) => "cylinder",
            Origin::Constant(_) if read[index] => "plaintext",
            _ => continue,
        };
        let label = escaped(&format!("{}\n{}", short(g, var), value.fact));
        writeln!(out, "  v{index} [label=\"{label}\", shape={shape}];")?;
    }
    let mut clusters = 0;
    for pass in [Pass::Forward, Pass::Recompute, Pass::Backward] {
        let mut root = Scope::of_pass(g, pass);
        if root.is_empty() {
            continue;
        }
        if pass != Pass::Forward {
            let name = pass_name(pass).into();
            root = Scope { children: vec![Scope { name, ..root }], ..Scope::default() };
        }
        write_scope(g, &root, 1, &mut clusters, out)?;
    }
    for (index, node) in g.nodes().iter().enumerate() {
        for &input in &node.inputs {
            let from = match g.value(input).origin {
                Origin::Node { node, .. } => format!("n{node}"),
                _ => format!("v{}", input.index()),
            };
            writeln!(out, "  {from} -> n{index} [label=\"{}\"];", escaped(&g.shape(input).to_string()))?;
        }
    }
    for (index, (name, var)) in g.outputs().enumerate() {
        let from = match g.value(var).origin {
            Origin::Node { node, .. } => format!("n{node}"),
            _ => format!("v{}", var.index()),
        };
        writeln!(out, "  o{index} [label=\"{}\", shape=ellipse, style=bold];", escaped(name))?;
        writeln!(out, "  {from} -> o{index} [label=\"{}\"];", escaped(&g.shape(var).to_string()))?;
    }
    writeln!(out, "}}")
}

fn write_scope(
    g: &Graph,
    scope: &Scope,
    depth: usize,
    clusters: &mut usize,
    out: &mut String,
) -> std::fmt::Result {
    let indent = "  ".repeat(depth);
    for &index in &scope.nodes {
        let node = &g.nodes()[index];
        let settings: Vec<String> =
            node.op.attributes().into_iter().map(|(name, value)| format!("{name} {value}")).collect();
        let label = escaped(&[vec![node.op.name().to_string()], settings].concat().join("\n"));
        writeln!(out, "{indent}n{index} [label=\"{label}\"];")?;
    }
    for child in &scope.children {
        writeln!(out, "{indent}subgraph cluster_{clusters} {{")?;
        *clusters += 1;
        writeln!(out, "{indent}  label=\"{}\";", escaped(&child.name))?;
        write_scope(g, child, depth + 1, clusters, out)?;
        writeln!(out, "{indent}}}")?;
    }
    Ok(())
}

/// As the inside of a quoted string of Graphviz.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
