//! Chance in a graph: an answer has no random op in it. One that was left in is named.

use regard_graph::Graph;

/// A node that draws random numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chance {
    /// Its dotted name.
    pub node: String,
    /// What it does with them.
    pub what: String,
}

/// All nodes that draw random numbers, in the order of running.
pub fn chances(g: &Graph) -> Vec<Chance> {
    let drawn = |node: &regard_graph::Node| -> Option<String> {
        let shown = node.op.attributes();
        let setting =
            |name: &str| shown.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
        match node.op.name() {
            "dropout" => {
                Some(format!("drops with probability {}", setting("probability").unwrap_or_default()))
            }
            _ => match (setting("dropout"), setting("noise")) {
                (Some(p), _) => Some(format!("drops weights with probability {p}")),
                (None, Some(_)) => Some("adds noise to its scores".into()),
                _ => None,
            },
        }
    };
    g.nodes()
        .iter()
        .filter_map(|node| drawn(node).map(|what| Chance { node: node.name.clone(), what }))
        .collect()
}
