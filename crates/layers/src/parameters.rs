//! The one builder through which layers declare what they learn. A declaration is a dotted name, a shape and
//! how it begins; random numbers and loaded checkpoints take the same way into the store.

use crate::adapter::Adapter;
use regard_graph::{DType, Error, Graph, Init, Result, Shape, Var};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// What was declared under a dotted name.
#[derive(Clone, Debug)]
pub struct Declared {
    /// The dotted name.
    pub name: String,
    /// The shape.
    pub shape: Shape,
    /// How it begins.
    pub init: Init,
    /// What is added to it, where it is the weight of a layer that was adapted.
    pub(crate) adapter: OnceLock<Adapter>,
    /// Whether it is the weight of a linear layer, which can be adapted.
    pub(crate) linear: bool,
}

/// A declared parameter: asks the graph for its newest version wherever it is used.
#[derive(Clone, Debug)]
pub struct Parameter {
    declared: Arc<Declared>,
}

impl Parameter {
    /// The parameter in a graph.
    pub fn var(&self, g: &mut Graph) -> Result<Var> {
        let Declared { name, shape, init, .. } = &*self.declared;
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

    /// What is added to it, if anything.
    pub(crate) fn adapter(&self) -> Option<&Adapter> {
        self.declared.adapter.get()
    }
}

/// A declared state: numbers of the model that no gradient changes, such as running statistics.
#[derive(Clone, Debug)]
pub struct State {
    declared: Arc<Declared>,
}

impl State {
    /// Its newest version in a graph.
    pub fn var(&self, g: &mut Graph) -> Result<Var> {
        let Declared { name, shape, init, .. } = &*self.declared;
        g.state(name, DType::F32, shape, init.clone())
    }
}

/// Collects the parameters of a model.
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    declared: Vec<Arc<Declared>>,
    kept: Vec<Arc<Declared>>,
    names: BTreeSet<String>,
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

    /// A name under the present prefix: how a layer learns what its caches are called.
    pub fn dotted(&self, name: &str) -> String {
        self.prefix.iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join(".")
    }

    /// Declares one parameter under the present prefix; a name that is taken is an error.
    pub fn declare(&mut self, name: &str, shape: impl Into<Shape>, init: Init) -> Result<Parameter> {
        let declared = self.named(name, shape.into(), init)?;
        self.names.insert(declared.name.clone());
        self.declared.push(declared.clone());
        Ok(Parameter { declared })
    }

    /// Declares a state that no gradient changes but that belongs to the model, such as running statistics.
    pub fn keep(&mut self, name: &str, shape: impl Into<Shape>, init: Init) -> Result<State> {
        let kept = self.named(name, shape.into(), init)?;
        self.names.insert(kept.name.clone());
        self.kept.push(kept.clone());
        Ok(State { declared: kept })
    }

    fn named(&self, name: &str, shape: Shape, init: Init) -> Result<Arc<Declared>> {
        let declared =
            Declared { name: self.dotted(name), shape, init, adapter: OnceLock::new(), linear: false };
        // The set answers for every name that is new: models have many.
        let known = match self.names.contains(&declared.name) {
            true => self.all().find(|known| known.name == declared.name),
            false => None,
        };
        if let Some(known) = known {
            return Err(Error::Duplicate {
                kind: "parameter".into(),
                name: declared.name.clone(),
                first: known.shape.to_string(),
                second: declared.shape.to_string(),
            });
        }
        Ok(Arc::new(declared))
    }

    /// Declares the weight of a linear layer, `[N K]`.
    pub(crate) fn declare_linear(&mut self, shape: [usize; 2], init: Init) -> Result<Parameter> {
        let Parameter { declared } = self.declare("weight", shape, init)?;
        let declared = Arc::new(Declared { linear: true, ..(*declared).clone() });
        if let Some(last) = self.declared.last_mut() {
            *last = declared.clone();
        }
        Ok(Parameter { declared })
    }

    /// The weights of linear layers, which can be adapted.
    pub fn linear_weights(&self) -> impl Iterator<Item = &str> {
        self.declared.iter().filter(|declared| declared.linear).map(|declared| declared.name.as_str())
    }

    /// Declares one by its whole name, after all others.
    pub(crate) fn declare_whole(
        &mut self,
        name: &str,
        shape: impl Into<Shape>,
        init: Init,
    ) -> Result<Parameter> {
        let prefix = std::mem::take(&mut self.prefix);
        let declared = self.declare(name, shape, init);
        self.prefix = prefix;
        declared
    }

    /// What was declared under a name, as its layer has it.
    pub(crate) fn shared(&self, name: &str) -> Option<&Arc<Declared>> {
        self.declared.iter().find(|declared| declared.name == name)
    }

    /// Everything declared, in order.
    pub fn declared(&self) -> impl Iterator<Item = &Declared> {
        self.declared.iter().map(|declared| &**declared)
    }

    /// The same, and the states that belong to the model: all that its files hold.
    pub fn all(&self) -> impl Iterator<Item = &Declared> {
        self.declared().chain(self.kept.iter().map(|kept| &**kept))
    }

    /// How many numbers there are to learn.
    pub fn count(&self) -> usize {
        let counts = self.declared().map(|declared| declared.shape.bound().count());
        counts.fold(0, usize::saturating_add)
    }
}
