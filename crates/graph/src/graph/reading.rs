//! Reading a graph: its values, nodes and names, and what is known of each.

use super::{Graph, Node, Origin, Role, Stored, Value, Var};
use crate::{Alias, DType, Dim, Error, Fact, Letter, Letters, Result, Shape};

impl Graph {
    /// The sizes of a value's axes, checked against a pattern: `let [b, t, c] = g.dims(x, "B T C")?`.
    pub fn dims<const N: usize>(&self, var: Var, pattern: &str) -> Result<[Dim; N]> {
        self.check_var("dims", 0, var)?;
        let shape = &self.fact(var).shape;
        let mut letters = Letters::new("dims");
        letters.bind("value", shape, pattern)?;
        <[Dim; N]>::try_from(shape.to_vec()).map_err(|_| {
            Error::invalid(
                "dims",
                format!("the pattern `{pattern}` has not {N} letters"),
                "name each axis once",
            )
        })
    }

    /// Checks that handles belong to this graph. Recording does so by itself; this is for methods that look
    /// at a value before they record: what [`Graph::fact`] says of another graph's handle means nothing.
    pub fn check_operands(&self, op: &str, operands: &[Var]) -> Result<()> {
        match operands.iter().position(|&var| !self.owns(var)) {
            Some(operand) => Err(Error::ForeignVar { op: op.into(), operand }),
            None => Ok(()),
        }
    }

    /// The value behind a handle.
    pub fn value(&self, var: Var) -> &Value {
        &self.values[var.index()]
    }

    /// What a value is to a reader: input `x`, parameter `w`, output 1 of `block.0.norm`.
    pub fn title(&self, var: Var) -> String {
        match &self.value(var).origin {
            Origin::Input(name) => format!("input `{name}`"),
            Origin::Stored(index) => {
                let stored = &self.stored[*index];
                format!("{} `{}`", stored.role.name(), stored.name)
            }
            Origin::Constant(_) => format!("constant {}", self.fact(var)),
            Origin::Node { node, output } => format!("output {output} of `{}`", self.nodes[*node].name),
            Origin::Gone => format!("a value {} that is made no more", self.fact(var)),
        }
    }

    /// The shape and dtype of a value.
    pub fn fact(&self, var: Var) -> &Fact {
        &self.value(var).fact
    }

    /// The shape of a value.
    pub fn shape(&self, var: Var) -> &Shape {
        &self.fact(var).shape
    }

    /// The dtype of a value.
    pub fn dtype(&self, var: Var) -> DType {
        self.fact(var).dtype
    }

    /// The handle of a value by its place in [`Graph::values`].
    pub fn var(&self, index: usize) -> Var {
        Var { graph: self.id, index: index as u32 }
    }

    /// Whether a kernel may find a result written over an operand of its node: where the op declared so and
    /// the result has as many elements of the same width. Equal bytes alone could be another layout, whose
    /// elements a kernel would write over others that it has yet to read.
    pub fn may_overwrite(&self, node: &Node, output: usize, input: usize) -> bool {
        let layout = |var: Var| (self.shape(var).count(), self.dtype(var).bytes());
        let declared = |alias: &Alias| {
            !matches!(alias, Alias::View { .. }) && alias.output_and_input() == (output, input)
        };
        node.declared.aliases.iter().any(declared)
            && layout(node.inputs[input]) == layout(node.outputs[output])
    }

    /// True if the handle belongs to this graph.
    pub fn owns(&self, var: Var) -> bool {
        var.graph == self.id
    }

    /// All values, in the order of recording.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// All nodes, in the order of recording, which is the order of running.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The parameters and states.
    pub fn stored(&self) -> &[Stored] {
        &self.stored
    }

    /// The inputs, by name.
    pub fn inputs(&self) -> impl Iterator<Item = (&str, Var)> {
        self.inputs.iter().map(|(name, &var)| (name.as_str(), var))
    }

    /// The named results, in the order of declaration.
    pub fn outputs(&self) -> impl Iterator<Item = (&str, Var)> {
        self.outputs.iter().map(|(name, var)| (name.as_str(), *var))
    }

    /// The taps, by dotted name.
    pub fn taps(&self) -> impl Iterator<Item = (&str, Var)> {
        self.taps.iter().map(|(name, &var)| (name.as_str(), var))
    }

    /// The open letters.
    pub fn letters(&self) -> &[Letter] {
        &self.letters
    }

    /// The newest versions of all parameters, in the order of declaration.
    pub fn parameters(&self) -> Vec<Var> {
        self.stored.iter().filter(|s| s.role == Role::Parameter).map(|s| s.current).collect()
    }

    /// An output or a tap by name; the error offers the nearest name.
    pub fn find(&self, name: &str) -> Result<Var> {
        let output = self.outputs().find(|(known, _)| *known == name).map(|(_, var)| var);
        if let Some(var) = output.or_else(|| self.taps.get(name).copied()) {
            return Ok(var);
        }
        Err(Error::unknown("output or tap", name, self.outputs().chain(self.taps()).map(|(known, _)| known)))
    }
}
