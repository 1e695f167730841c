//! A graph at a glance: the ops of the forward pass by scope, with the shape that each makes. Blocks that
//! look alike are shown once.

use super::Scope;
use crate::{Alias, Graph, Node, Pass};

/// The forward pass, one short line for each op.
pub fn outline(g: &Graph) -> String {
    let mut lines = Vec::new();
    write(g, &Scope::of_pass(g, Pass::Forward), 0, &mut lines);
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn write(g: &Graph, scope: &Scope, depth: usize, lines: &mut Vec<String>) {
    let indent = "  ".repeat(depth);
    for &index in &scope.nodes {
        let node = &g.nodes()[index];
        if !only_views(node) {
            let made = node.outputs.first().map_or(String::new(), |&var| g.fact(var).to_string());
            lines.push(format!("{indent}{:<22} → {made}", node.op.name()));
        }
    }
    let mut before: Option<(Vec<String>, &str)> = None;
    let mut alike: Vec<&str> = Vec::new();
    for child in &scope.children {
        let mut own = Vec::new();
        write(g, child, depth + 1, &mut own);
        match &before {
            Some((shown, _)) if *shown == own => alike.push(&child.name),
            _ => {
                fold(&indent, &before, &mut alike, lines);
                lines.push(format!("{indent}{}", child.name));
                lines.extend(own.iter().cloned());
                before = Some((own, &child.name));
            }
        }
    }
    fold(&indent, &before, &mut alike, lines);
}

/// Names those that look like the one shown before them.
fn fold(indent: &str, before: &Option<(Vec<String>, &str)>, alike: &mut Vec<&str>, lines: &mut Vec<String>) {
    if let (Some((_, like)), Some(first), Some(last)) = (before, alike.first(), alike.last()) {
        let names = if first == last { first.to_string() } else { format!("{first} to {last}") };
        lines.push(format!("{indent}{names}: like {like}"));
    }
    alike.clear();
}

fn only_views(node: &Node) -> bool {
    let aliases = &node.declared.aliases;
    !aliases.is_empty() && aliases.iter().all(|alias| matches!(alias, Alias::View { .. }))
}
