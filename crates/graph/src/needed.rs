//! Which nodes have to run: the ancestors of what is kept, and every update of state.

use crate::{Alias, Error, Graph, Result, Var};

/// Which nodes have to run and which values anybody reads.
#[derive(Clone, Debug)]
pub struct Needed {
    /// For each node, whether it has to run.
    pub nodes: Vec<bool>,
    /// For each value, whether a node that runs, the caller or the store reads it.
    pub values: Vec<bool>,
}

impl Needed {
    /// Which outputs of a node anybody reads.
    pub fn used(&self, g: &Graph, node: usize) -> Vec<bool> {
        g.nodes()[node].outputs.iter().map(|var| self.values[var.index()]).collect()
    }
}

/// Which nodes have to run so that `keep` can be read afterwards and all state is up to date.
pub fn needed(g: &Graph, keep: &[Var]) -> Result<Needed> {
    walk(g, "needed", keep, true)
}

/// As [`needed`], for a reader of this name; without the updates, only the ancestors of `keep`.
pub(crate) fn walk(g: &Graph, reader: &str, keep: &[Var], updates: bool) -> Result<Needed> {
    let mut found = Needed { nodes: vec![false; g.nodes().len()], values: vec![false; g.values().len()] };
    for (operand, &var) in keep.iter().enumerate() {
        if !g.owns(var) {
            return Err(Error::ForeignVar { op: reader.into(), operand });
        }
        found.values[var.index()] = true;
    }
    for (index, node) in g.nodes().iter().enumerate().rev() {
        if updates {
            for alias in &node.declared.aliases {
                if let Alias::Update { output, .. } = *alias {
                    found.values[node.outputs[output].index()] = true;
                }
            }
        }
        if node.outputs.iter().any(|var| found.values[var.index()]) {
            found.nodes[index] = true;
            for input in &node.inputs {
                found.values[input.index()] = true;
            }
        }
    }
    Ok(found)
}

/// Everything that was recorded: a node of whose outputs none is read counts as if all were.
pub fn everything(g: &Graph) -> Needed {
    let named = g.outputs().chain(g.taps()).map(|(_, var)| var).collect::<Vec<_>>();
    let read = g.nodes().iter().flat_map(|node| node.inputs.iter().copied());
    let mut values = vec![false; g.values().len()];
    for var in named.into_iter().chain(read) {
        values[var.index()] = true;
    }
    for node in g.nodes() {
        for alias in &node.declared.aliases {
            if let Alias::Update { output, .. } = *alias {
                values[node.outputs[output].index()] = true;
            }
        }
        if !node.outputs.iter().any(|var| values[var.index()]) {
            node.outputs.iter().for_each(|var| values[var.index()] = true);
        }
    }
    Needed { nodes: vec![true; g.nodes().len()], values }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mock::{map, one, pair, record, text, update};
    use crate::{DType, Init, shape};

    #[test]
    fn dead_nodes_are_dropped_and_updates_are_not() {
        let mut g = Graph::new();
        let x = g.input("x", DType::F32, shape![2]).unwrap();
        let w = g.parameter("w", shape![2], Init::Zeros).unwrap();
        let made = record(&mut g, pair(), &[x]).unwrap();
        let dead = one(&mut g, map(1), &[x]);
        one(&mut g, map(1), &[dead]);
        let toward = one(&mut g, map(1), &[x]);
        one(&mut g, update(2), &[w, toward]);
        let found = needed(&g, &[made[0]]).unwrap();
        assert_eq!(found.nodes, [true, false, false, true, true]);
        assert_eq!(found.used(&g, 0), [true, false]);
        assert_eq!(found.used(&g, 4), [true]);
        assert_eq!(walk(&g, "reach", &[made[0]], false).unwrap().nodes, [true, false, false, false, false]);
        assert_eq!(everything(&g).used(&g, 0), [true, true]);
        assert_eq!(
            text(needed(&Graph::new(), &[x])),
            "needed: operand 0 belongs to another graph; record it in this one"
        );
    }
}
