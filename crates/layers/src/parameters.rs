//! The one builder through which layers declare what they learn. A declaration is a dotted name, a shape and how it
//! begins; random numbers and loaded checkpoints take the same way into the store.

use regard_graph::{Error, Graph, Init, Result, Shape, Var};
use std::sync::Arc;

/// What was declared under a dotted name.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    /// The dotted name.
    pub name: String,
    /// The shape.
    pub shape: Shape,
    /// How it begins.
    pub init: Init,
}

/// A declared parameter: asks the graph for its newest version wherever it is used.
#[derive(Clone, Debug)]
pub struct Parameter {
    declared: Arc<Declared>,
}

impl Parameter {
    /// The parameter in a graph.
    pub fn var(&self, g: &mut Graph) -> Result<Var> {
        let Declared { name, shape, init } = &*self.declared;
        g.parameter(name, shape, init.clone())
    }

    /// Its dotted name.
    pub fn name(&self) -> &str {
        &self.declared.name
    }

    /// Its shape.
    pub fn shape(&self) -> &Shape {
        &self.declared.shape
    }
}

/// Collects the parameters of a model.
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    declared: Vec<Arc<Declared>>,
    prefix: Vec<String>,
}

impl Parameters {
    /// None yet.
    pub fn new() -> Self {
        Parameters::default()
    }

    /// Declares under a dotted prefix: `parameters.under("block.0", |p| …)`.
    pub fn under<R>(
        &mut self,
        prefix: impl std::fmt::Display,
        declare: impl FnOnce(&mut Parameters) -> R,
    ) -> R {
        self.prefix.push(prefix.to_string());
        let result = declare(self);
        self.prefix.pop();
        result
    }

    /// A name under the present prefix: how a layer learns what its states are called.
    pub fn dotted(&self, name: &str) -> String {
        self.prefix.iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join(".")
    }

    /// Declares one parameter under the present prefix; a name that is taken is an error.
    pub fn declare(&mut self, name: &str, shape: impl Into<Shape>, init: Init) -> Result<Parameter> {
        let declared = Declared { name: self.dotted(name), shape: shape.into(), init };
        if let Some(known) = self.declared.iter().find(|known| known.name == declared.name) {
            return Err(Error::Duplicate {
                kind: "parameter".into(),
                name: declared.name.clone(),
                first: known.shape.to_string(),
                second: declared.shape.to_string(),
            });
        }
        self.declared.push(Arc::new(declared));
        Ok(Parameter { declared: self.declared[self.declared.len() - 1].clone() })
    }

    /// Everything declared, in order.
    pub fn declared(&self) -> impl Iterator<Item = &Declared> {
        self.declared.iter().map(|declared| &**declared)
    }

    /// How many numbers there are.
    pub fn count(&self) -> usize {
        self.declared().map(|declared| declared.shape.bound().count()).sum()
    }
}
