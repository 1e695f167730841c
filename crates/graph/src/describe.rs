//! The describe reader: shows a graph as text, as JSON for the page, and as a picture for Graphviz.

use crate::dotted::{is_under, prefixes};
use crate::{Error, Fact, Graph, Pass, Result, Role, Var};
use std::collections::BTreeMap;

mod dot;
mod json;
mod outline;
mod text;

pub use dot::dot;
pub use json::json;
pub use outline::outline;
pub use text::text;

/// How many numbers the parameters under a dotted prefix have; the empty prefix is all of them.
pub fn parameter_count(g: &Graph, prefix: &str) -> Result<usize> {
    let mut found = parameters(g).filter(|(name, _)| is_under(name, prefix)).peekable();
    if found.peek().is_none() && !prefix.is_empty() {
        let mut known: Vec<&str> = parameters(g).flat_map(|(name, _)| prefixes(name)).collect();
        known.sort();
        known.dedup();
        return Err(Error::unknown("parameter or part", prefix, known));
    }
    Ok(found.fold(0, |sum, (_, count)| sum.saturating_add(count)))
}

/// How many numbers the parameters have, by the first components of their names, as many as `depth`.
pub fn parameters_by_prefix(g: &Graph, depth: usize) -> BTreeMap<String, usize> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (name, count) in parameters(g) {
        let prefix = match depth.checked_sub(1) {
            None => "",
            Some(at) => prefixes(name).nth(at).unwrap_or(name),
        };
        let sum = counts.entry(prefix.into()).or_default();
        *sum = sum.saturating_add(count);
    }
    counts
}

fn parameters(g: &Graph) -> impl Iterator<Item = (&str, usize)> {
    let trained = g.stored().iter().filter(|stored| stored.role == Role::Parameter);
    trained.map(|stored| (stored.name.as_str(), elements(&stored.fact)))
}

fn elements(fact: &Fact) -> usize {
    fact.shape.bound().count()
}

fn pass_name(pass: Pass) -> &'static str {
    match pass {
        Pass::Forward => "forward",
        Pass::Recompute => "recompute",
        Pass::Backward => "backward",
    }
}

/// Indices of nodes in a tree of scopes, children in the order of their first appearance.
#[derive(Default)]
struct Scope {
    name: String,
    nodes: Vec<usize>,
    children: Vec<Scope>,
}

impl Scope {
    /// The nodes of one pass, by the dotted scope of their names.
    fn of_pass(g: &Graph, pass: Pass) -> Scope {
        let mut root = Scope::default();
        for (index, node) in g.nodes().iter().enumerate().filter(|(_, node)| node.pass == pass) {
            let (scope, _) = crate::dotted::split(&node.name);
            let mut at = &mut root;
            for component in scope.split('.').filter(|component| !component.is_empty()) {
                let known = at.children.iter().position(|child| child.name == component);
                let child = known.unwrap_or_else(|| {
                    at.children.push(Scope { name: component.into(), ..Scope::default() });
                    at.children.len() - 1
                });
                at = &mut at.children[child];
            }
            at.nodes.push(index);
        }
        root
    }

    fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.children.is_empty()
    }
}

/// The names of parameters and states that a value is a version of, of inputs, or of the node behind it.
fn short(g: &Graph, var: Var) -> String {
    match (&g.value(var).origin, g.value(var).version_of) {
        (_, Some(stored)) => g.stored()[stored].name.clone(),
        (crate::Origin::Input(name), _) => name.clone(),
        (crate::Origin::Node { node, output }, _) => {
            let node = &g.nodes()[*node];
            if node.outputs.len() == 1 { node.name.clone() } else { format!("{}:{output}", node.name) }
        }
        (crate::Origin::Gone, _) => "nothing".into(),
        _ => "constant".into(),
    }
}

#[cfg(test)]
mod tests;
