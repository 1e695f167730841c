//! A graph as an indented tree: one line for each node, grouped by scope.

use super::{Scope, elements, pass_name, short};
use crate::{Graph, Pass, Role, Var, human};
use std::fmt::Write;

/// The whole graph as text: letters, inputs, parameters, states, the nodes by scope, taps and outputs.
pub fn text(g: &Graph) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_all(g, &mut out);
    out
}

fn write_all(g: &Graph, out: &mut String) -> std::fmt::Result {
    for letter in g.letters() {
        writeln!(out, "letter {} ≤ {}", letter.name(), letter.bound())?;
    }
    for (name, var) in g.inputs() {
        writeln!(out, "input {name}: {}", g.fact(var))?;
    }
    for stored in g.stored() {
        writeln!(out, "{} {}: {}", stored.role.name(), stored.name, stored.fact)?;
    }
    let trained = g.stored().iter().filter(|stored| stored.role == Role::Parameter);
    let count: u64 = trained.map(|stored| elements(&stored.fact) as u64).fold(0, u64::saturating_add);
    writeln!(out, "{} parameters in all", human::count(count))?;
    for pass in [Pass::Forward, Pass::Recompute, Pass::Backward] {
        let root = Scope::of_pass(g, pass);
        if !root.is_empty() {
            writeln!(out, "{}", pass_name(pass))?;
            write_scope(g, &root, 1, out)?;
        }
    }
    for (name, var) in g.taps() {
        writeln!(out, "tap {name} = {}", short(g, var))?;
    }
    for (name, var) in g.outputs() {
        writeln!(out, "output {name} = {}: {}", short(g, var), g.fact(var))?;
    }
    Ok(())
}

fn write_scope(g: &Graph, scope: &Scope, depth: usize, out: &mut String) -> std::fmt::Result {
    // Nodes and inner scopes in the order in which they were first recorded.
    let mut parts: Vec<(usize, Option<&Scope>)> = scope.nodes.iter().map(|&node| (node, None)).collect();
    parts.extend(scope.children.iter().map(|child| (first(child), Some(child))));
    parts.sort_by_key(|(node, _)| *node);
    let indent = "  ".repeat(depth);
    for (node, child) in parts {
        match child {
            Some(child) => {
                writeln!(out, "{indent}{}", child.name)?;
                write_scope(g, child, depth + 1, out)?;
            }
            None => writeln!(out, "{indent}{}", line(g, node))?,
        }
    }
    Ok(())
}

fn first(scope: &Scope) -> usize {
    let inner = scope.children.iter().map(first);
    scope.nodes.iter().copied().chain(inner).min().unwrap_or(usize::MAX)
}

fn line(g: &Graph, index: usize) -> String {
    let node = &g.nodes()[index];
    let (_, name) = crate::dotted::split(&node.name);
    let operands = &node.declared.operands;
    let inputs: Vec<String> = node
        .inputs
        .iter()
        .zip(operands)
        .map(|(&var, operand)| format!("{operand} = {} {}", short(g, var), g.fact(var)))
        .collect();
    let facts = |vars: &[Var]| vars.iter().map(|&var| g.fact(var).to_string()).collect::<Vec<_>>().join(", ");
    let mut text = format!("{name}({}) → {}", inputs.join(", "), facts(&node.outputs));
    let settings: Vec<String> =
        node.op.attributes().into_iter().map(|(name, value)| format!("{name} {value}")).collect();
    if !settings.is_empty() {
        text.push_str(&format!("  {{{}}}", settings.join(", ")));
    }
    text
}
