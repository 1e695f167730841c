//! A forward pass recorded once more, node by node, with changes on the way: what stands for a node is
//! recorded by the caller. Inputs, parameters, states, constants, taps and outputs keep their names, and so
//! do nodes that stay as they are, so that what draws random numbers by its name draws the same.

use crate::{Attachment, Error, Graph, Node, Op, Origin, Pass, Result, Role, Var};
use std::sync::Arc;

/// Records a forward pass again. `record` is given the new graph, each node's place in the old one, and its
/// operands in the new one; it returns what others shall read as the node's results, of the same shapes and
/// dtypes. Results at the end may be left out where nobody reads them.
pub fn rewrite<E: From<Error>>(
    g: &Graph,
    mut record: impl FnMut(&mut Graph, usize, &[Var]) -> Result<Vec<Var>, E>,
) -> Result<Graph, E> {
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
            Origin::Gone => continue,
            Origin::Node { output, .. } if *output > 0 => continue,
            Origin::Node { node: at, .. } => {
                let node = &g.nodes()[*at];
                let operands = operands(node, &vars)?;
                let results = record(&mut new, *at, &operands)?;
                for (&old, &var) in node.outputs.iter().zip(&results) {
                    if new.fact(var) != g.fact(old) {
                        return Err(Error::invalid(
                            "rewrite",
                            format!("`{}` gives {}, its edit {}", node.name, g.fact(old), new.fact(var)),
                            "keep shape and dtype",
                        )
                        .into());
                    }
                    vars[old.index()] = Some(var);
                }
                continue;
            }
        });
    }
    for (name, var) in g.taps() {
        // Nobody has to keep a name for what is no more.
        if let Some(var) = vars[var.index()] {
            new.tap(name, var)?;
        }
    }
    for (name, var) in g.outputs() {
        let var = vars[var.index()].ok_or_else(|| gone(name))?;
        new.output(name, var)?;
    }
    Ok(new)
}

fn gone(name: &str) -> Error {
    Error::invalid("rewrite", format!("`{name}` reads a result that its edit left out"), "return it, too")
}

fn operands(node: &Node, vars: &[Option<Var>]) -> Result<Vec<Var>> {
    if node.pass != Pass::Forward {
        return Err(Error::invalid(
            "rewrite",
            format!("`{}` belongs to a backward pass", node.name),
            "rewrite the forward pass, then ask for gradients",
        ));
    }
    node.inputs.iter().map(|var| vars[var.index()].ok_or_else(|| gone(&node.name))).collect()
}

impl Node {
    /// Records this node as it is in another graph, under its own name.
    pub fn record_again(&self, new: &mut Graph, operands: &[Var]) -> Result<Vec<Var>> {
        self.record_as(new, self.op.clone(), self.attachment.clone(), operands)
    }

    /// Records another op in this node's place: in the same scope, under the name of its own kind.
    pub fn record_as(
        &self,
        new: &mut Graph,
        op: Arc<dyn Op>,
        attachment: Attachment,
        operands: &[Var],
    ) -> Result<Vec<Var>> {
        self.in_scope(new, |new| new.record(op, attachment, operands))
    }

    /// Records in the scope of this node.
    pub fn in_scope<R>(&self, new: &mut Graph, record: impl FnOnce(&mut Graph) -> R) -> R {
        let bare = self.name.split('#').next().unwrap_or(&self.name);
        let scope = bare.strip_suffix(self.op.name()).unwrap_or(bare).trim_end_matches('.');
        if scope.is_empty() { record(new) } else { new.scope(scope, record) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mock::{Mocks, map, mix, one, pair, record, sum, text, update};
    use crate::{DType, Init, gradient, shape};

    /// y = map(x, w), then a state takes it in, then a pair of which one result is read.
    fn recorded() -> Graph {
        let mut g = Graph::inference();
        let x = g.input("x", DType::F32, shape![2, 3]).unwrap();
        let w = g.parameter("w", shape![2, 3], Init::Ones).unwrap();
        let cache = g.state("cache", DType::F32, shape![2, 3], Init::Zeros).unwrap();
        let y = g.scope("block.0", |g| one(g, map(2), &[x, w]));
        g.tap("y", y).unwrap();
        let kept = one(&mut g, update(2), &[cache, y]);
        let both = record(&mut g, pair(), &[kept]).unwrap();
        g.output("out", both[0]).unwrap();
        g
    }

    #[test]
    fn what_is_recorded_again_is_the_same() {
        let g = recorded();
        let new = rewrite(&g, |new, at, operands| g.nodes()[at].record_again(new, operands)).unwrap();
        let shown = |g: &Graph| -> Vec<String> {
            g.nodes().iter().map(|node| format!("{} {:?}", node.name, node.inputs.len())).collect()
        };
        assert_eq!(shown(&g), shown(&new));
        assert_eq!(new.find("y").map(|var| new.fact(var).clone()).unwrap(), *g.fact(g.find("y").unwrap()));
        assert_eq!(new.stored().len(), 2);
        assert_eq!(new.outputs().count(), 1);
    }

    #[test]
    fn another_op_takes_the_place_and_the_scope_of_a_node() {
        let g = recorded();
        let new = rewrite(&g, |new, at, operands| {
            let node = &g.nodes()[at];
            match node.op.name() {
                "map" => node.record_as(new, Arc::new(mix(0)), Arc::new(()), &operands[..1]),
                "pair" => Ok(node.record_again(new, operands)?[..1].to_vec()),
                _ => node.record_again(new, operands),
            }
        });
        let names: Vec<String> = new.unwrap().nodes().iter().map(|node| node.name.clone()).collect();
        assert_eq!(names, ["block.0.mix", "update", "pair"]);
    }

    #[test]
    fn what_cannot_be_rewritten_is_said() {
        let g = recorded();
        let sums = rewrite(&g, |new, at, operands| match g.nodes()[at].op.name() {
            "map" => record(new, sum(), &operands[..1]),
            _ => g.nodes()[at].record_again(new, operands),
        });
        let message = text(sums.map(|_| ()));
        assert!(message.contains("`block.0.map` gives f32 [2 3], its edit f32 []"), "{message}");
        assert!(message.contains("keep shape and dtype"), "{message}");
        let nothing = rewrite(&g, |new, at, operands| match g.nodes()[at].op.name() {
            "map" => Ok(Vec::new()),
            _ => g.nodes()[at].record_again(new, operands),
        });
        let message = text(nothing.map(|_| ()));
        assert!(message.contains("`update` reads a result that its edit left out"), "{message}");

        let mut g = Graph::new();
        let w = g.parameter("w", shape![2, 3], Init::Ones).unwrap();
        let loss = one(&mut g, sum(), &[w]);
        gradient(&mut g, loss, &[w], &Mocks).unwrap();
        let message =
            text(rewrite(&g, |new, at, operands| g.nodes()[at].record_again(new, operands)).map(|_| ()));
        assert!(message.contains("belongs to a backward pass"), "{message}");
    }

    #[test]
    fn a_node_refuses_operands_that_do_not_fit() {
        let g = recorded();
        let node = &g.nodes()[0];
        let mut new = Graph::inference();
        let x = new.input("x", DType::F32, shape![2, 3]).unwrap();
        let message = text(node.record_again(&mut new, &[x]));
        assert_eq!(message, "map: 1 operands were given, it takes 2; give a, b");
        let message = text(node.record_as(&mut new, Arc::new(map(2)), Arc::new(()), &[x]));
        assert_eq!(message, "map: 1 operands were given, it takes 2; give a, b");
    }
}
