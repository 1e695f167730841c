//! The graph: a list of typed operations on symbolic values, in the order in which they were recorded,
//! which is also the order in which they run. Recording checks shapes, names, state versions and
//! derivatives; nothing here touches a number.

use crate::{DType, Declared, Error, Fact, Letter, Op, Precision, Result, Shape};
use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

mod checks;
mod joins;
mod planned;
mod reading;
use checks::{check_init, check_numbers};
pub use joins::Joins;
#[cfg(test)]
mod tests;

/// A handle to a value of one graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Var {
    graph: u32,
    index: u32,
}

impl Var {
    /// The value's place in [`Graph::values`].
    pub fn index(self) -> usize {
        self.index as usize
    }
}

/// How a parameter or a state begins. Random ones are drawn by name, so that the order of declaration and
/// the presence of other parameters change nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum Init {
    /// Every element 0.
    Zeros,
    /// Every element 1.
    Ones,
    /// Every element this number.
    Constant(f32),
    /// Normal with mean 0 and this standard deviation.
    Normal(f32),
    /// Uniform between minus and plus this number.
    Uniform(f32),
}

/// Whether a stored value is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Trained: gradients flow to it.
    Parameter,
    /// Kept from run to run without a gradient: moments, caches, running statistics.
    State,
}

impl Role {
    /// The word for it, as errors and descriptions show it.
    pub fn name(self) -> &'static str {
        match self {
            Role::Parameter => "parameter",
            Role::State => "state",
        }
    }
}

/// A value that outlives a run: a parameter or a state, found in the `Store` by its name.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Its dotted name.
    pub name: String,
    /// Whether it is trained.
    pub role: Role,
    /// Its shape and dtype.
    pub fact: Fact,
    /// How it begins.
    pub init: Init,
    /// The newest version in this graph.
    pub current: Var,
}

/// Where a value comes from.
#[derive(Clone, Debug)]
pub enum Origin {
    /// Fed at each run under this name.
    Input(String),
    /// Read from the store: an index into [`Graph::stored`].
    Stored(usize),
    /// Fixed numbers.
    Constant(Arc<[f64]>),
    /// Computed.
    Node {
        /// By which node.
        node: usize,
        /// As which of its outputs.
        output: usize,
    },
    /// Made no more: planning left out its node, or joined it with its reader ([`Graph::prune`],
    /// [`Joins::absorb`]).
    Gone,
}

/// Whether a gradient can pass through a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flow {
    /// None is wanted: data, integers, state.
    None,
    /// It depends on a parameter, and every op on the way has a derivative.
    Open,
    /// It depends on a parameter through this op of a backward pass, which has no derivative of its own.
    Blocked(&'static str),
}

/// One value of the graph.
#[derive(Clone, Debug)]
pub struct Value {
    /// Its shape and dtype.
    pub fact: Fact,
    /// Where it comes from.
    pub origin: Origin,
    /// Whether a gradient passes through it.
    pub flow: Flow,
    /// The stored value of which this is a version.
    pub version_of: Option<usize>,
}

/// Which part of a step a node belongs to; costs and pictures are grouped by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pass {
    /// Recorded by the model.
    #[default]
    Forward,
    /// Recorded again by the gradient reader instead of keeping intermediate values.
    Recompute,
    /// Recorded by the gradient reader.
    Backward,
}

/// What the crates above attach to a node: the ops crate puts the op's kernels here, so that this crate
/// needs to know nothing of how an op is computed.
pub type Attachment = Arc<dyn Any + Send + Sync>;

/// One recorded operation.
#[derive(Clone)]
pub struct Node {
    /// The operation and its settings.
    pub op: Arc<dyn Op>,
    /// What it said of itself when it was recorded.
    pub declared: Declared,
    /// Its kernels, opaque here.
    pub attachment: Attachment,
    /// The values it reads.
    pub inputs: Vec<Var>,
    /// The values it makes.
    pub outputs: Vec<Var>,
    /// Its dotted name, unique in its pass: `block.0.attention.linear`, `block.0.attention.linear#2`.
    pub name: String,
    /// Which part of the step it belongs to.
    pub pass: Pass,
    /// The block marked *recompute* to which it belongs.
    pub region: Option<usize>,
}

impl Node {
    /// The op with its settings, if it is of this kind. Kinds are told apart by their type, never by a name
    /// that another crate may use, too.
    pub fn op_as<T: Op>(&self) -> Option<&T> {
        (&*self.op as &dyn Any).downcast_ref()
    }

    /// Whether the op is of this kind.
    pub fn is<T: Op>(&self) -> bool {
        self.op_as::<T>().is_some()
    }
}

/// The recording of a program.
pub struct Graph {
    id: u32,
    values: Vec<Value>,
    nodes: Vec<Node>,
    stored: Vec<Stored>,
    stored_by_name: HashMap<String, usize>,
    inputs: BTreeMap<String, Var>,
    outputs: Vec<(String, Var)>,
    taps: BTreeMap<String, Var>,
    letters: Vec<Letter>,
    scope: Vec<String>,
    names: HashMap<String, usize>,
    pass: Pass,
    region: Option<usize>,
    regions: usize,
    precision: Precision,
    trains: bool,
}

impl Default for Graph {
    fn default() -> Self {
        Graph::new()
    }
}

impl Graph {
    /// An empty graph whose parameters want gradients.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Graph {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            values: Vec::new(),
            nodes: Vec::new(),
            stored: Vec::new(),
            stored_by_name: HashMap::new(),
            inputs: BTreeMap::new(),
            outputs: Vec::new(),
            taps: BTreeMap::new(),
            letters: Vec::new(),
            scope: Vec::new(),
            names: HashMap::new(),
            pass: Pass::Forward,
            region: None,
            regions: 0,
            precision: Precision::F32,
            trains: true,
        }
    }

    /// An empty graph that will not be differentiated: ops without a derivative are welcome.
    pub fn inference() -> Self {
        Graph { trains: false, ..Graph::new() }
    }

    /// Whether it will be differentiated: whether what is recorded is for training.
    pub fn trains(&self) -> bool {
        self.trains
    }

    /// Sets the precision of the products and attentions recorded from here on.
    pub fn set_precision(&mut self, precision: Precision) {
        self.precision = precision;
    }

    /// The precision of products and attentions.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    // ---- leaves -------------------------------------------------------------------------------------

    /// Declares an open letter; declaring it again with another bound is an error.
    pub fn open(&mut self, name: char, bound: usize) -> Result<Letter> {
        let letter = Letter::new(name, bound);
        match self.letters.iter().find(|known| known.name() == name) {
            Some(known) if *known != letter => Err(Error::Duplicate {
                kind: "letter".into(),
                name: name.to_string(),
                first: format!("at most {}", known.bound()),
                second: format!("at most {bound}"),
            }),
            Some(_) => Ok(letter),
            None if self.letters.len() == crate::MAX_LETTERS => {
                Err(Error::TooManyLetters { letter: name, most: crate::MAX_LETTERS })
            }
            None => {
                self.letters.push(letter);
                Ok(letter)
            }
        }
    }

    /// A value fed at each run: data, learning rate, step number, positions.
    pub fn input(&mut self, name: &str, dtype: DType, shape: impl Into<Shape>) -> Result<Var> {
        self.add_input(name, Fact::new(shape, dtype), Flow::None)
    }

    /// An f32 input with respect to which gradients may be asked for.
    pub fn input_with_gradient(&mut self, name: &str, shape: impl Into<Shape>) -> Result<Var> {
        self.add_input(name, Fact::f32(shape), Flow::Open)
    }

    /// A bf16 input with respect to which gradients may be asked for: they are rounded, too.
    pub fn bf16_input_with_gradient(&mut self, name: &str, shape: impl Into<Shape>) -> Result<Var> {
        self.add_input(name, Fact::new(shape, DType::BF16), Flow::Open)
    }

    fn add_input(&mut self, name: &str, fact: Fact, flow: Flow) -> Result<Var> {
        self.check_fact("input", name, &fact)?;
        if let Some(&known) = self.inputs.get(name) {
            return Err(duplicate("input", name, self.fact(known), &fact));
        }
        let var = self.push(Value { fact, origin: Origin::Input(name.into()), flow, version_of: None });
        self.inputs.insert(name.into(), var);
        Ok(var)
    }

    /// A trained f32 value that lives in the store. Asking again for the same name gives the newest version.
    pub fn parameter(&mut self, name: &str, shape: impl Into<Shape>, init: Init) -> Result<Var> {
        self.store(name, Role::Parameter, Fact::f32(shape), init)
    }

    /// A value that lives in the store without a gradient. Asking again gives the newest version.
    pub fn state(&mut self, name: &str, dtype: DType, shape: impl Into<Shape>, init: Init) -> Result<Var> {
        self.store(name, Role::State, Fact::new(shape, dtype), init)
    }

    fn store(&mut self, name: &str, role: Role, fact: Fact, init: Init) -> Result<Var> {
        let kind = role.name();
        self.check_fact(kind, name, &fact)?;
        if let Some(letter) = fact.shape.iter().flat_map(|dim| dim.letters()).next() {
            return Err(Error::invalid(
                kind,
                format!("`{name}` has the open letter {} in its shape {}", letter.name(), fact.shape),
                "what lives in the store has one size; use the bound",
            ));
        }
        check_init(kind, name, fact.dtype, &init)?;
        if let Some(&index) = self.stored_by_name.get(name) {
            let known = &self.stored[index];
            if known.fact != fact || known.role != role {
                return Err(Error::Duplicate {
                    kind: kind.into(),
                    name: name.into(),
                    first: format!("{} {}", known.role.name(), known.fact),
                    second: format!("{kind} {fact}"),
                });
            }
            return Ok(known.current);
        }
        let index = self.stored.len();
        let flow = if role == Role::Parameter && self.trains { Flow::Open } else { Flow::None };
        let origin = Origin::Stored(index);
        let current = self.push(Value { fact: fact.clone(), origin, flow, version_of: Some(index) });
        self.stored.push(Stored { name: name.into(), role, fact, init, current });
        self.stored_by_name.insert(name.into(), index);
        Ok(current)
    }

    /// Fixed numbers. What changes from run to run is an input, never a constant.
    pub fn constant(&mut self, dtype: DType, shape: impl Into<Shape>, numbers: &[f64]) -> Result<Var> {
        let fact = Fact::new(shape, dtype);
        self.check_fact("constant", "constant", &fact)?;
        if fact.shape.count().fixed() != Some(numbers.len()) {
            return Err(Error::Shape {
                op: "constant".into(),
                operand: "numbers".into(),
                got: format!("{} long", numbers.len()),
                expected: format!("{} for the shape {}", fact.shape.count(), fact.shape),
                origin: String::new(),
            });
        }
        check_numbers(dtype, numbers)?;
        let origin = Origin::Constant(numbers.into());
        Ok(self.push(Value { fact, origin, flow: Flow::None, version_of: None }))
    }

    // ---- names --------------------------------------------------------------------------------------

    /// Records under a dotted prefix: `g.scope("block.0", |g| …)`.
    pub fn scope<R>(&mut self, name: impl std::fmt::Display, record: impl FnOnce(&mut Graph) -> R) -> R {
        self.scope.push(name.to_string());
        let result = record(self);
        self.scope.pop();
        result
    }

    /// The dotted name that the next op of this kind gets here: what the random stream of an op is keyed by.
    pub fn next_name(&self, op: &str) -> String {
        let dotted = self.dotted(op);
        match self.names.get(&dotted) {
            None | Some(0) => dotted,
            Some(count) => format!("{dotted}#{}", count + 1),
        }
    }

    /// A unique dotted name in the present scope.
    fn fresh_name(&mut self, name: &str) -> String {
        let dotted = self.dotted(name);
        let count = self.names.entry(dotted.clone()).or_insert(0);
        *count += 1;
        if *count == 1 { dotted } else { format!("{dotted}#{count}") }
    }

    fn dotted(&self, name: &str) -> String {
        if self.scope.is_empty() { name.to_string() } else { format!("{}.{name}", self.scope.join(".")) }
    }

    /// Names a value where it arises, so that it can be looked at: looking is asking the engine to keep it.
    pub fn tap(&mut self, name: &str, var: Var) -> Result<Var> {
        let dotted = self.dotted(name);
        self.check_var("tap", 0, var)?;
        if let Some(&known) = self.taps.get(&dotted) {
            return Err(duplicate("tap", &dotted, self.fact(known), self.fact(var)));
        }
        self.taps.insert(dotted, var);
        Ok(var)
    }

    /// Names a result of the program.
    pub fn output(&mut self, name: &str, var: Var) -> Result<Var> {
        self.check_var("output", 0, var)?;
        if let Some((_, known)) = self.outputs.iter().find(|(known, _)| known == name) {
            return Err(duplicate("output", name, self.fact(*known), self.fact(var)));
        }
        self.outputs.push((name.into(), var));
        Ok(var)
    }

    // ---- recording ----------------------------------------------------------------------------------

    /// Records one operation. `attachment` is what the crates above need to compute it.
    pub fn record(&mut self, op: Arc<dyn Op>, attachment: Attachment, inputs: &[Var]) -> Result<Vec<Var>> {
        let dotted = self.dotted(op.name());
        let name = self.fresh_name(op.name());
        let recorded = self.record_named(op, attachment, inputs, name);
        if recorded.is_err() {
            // Random streams are keyed by name: an attempt that failed must not shift those that follow.
            self.names.entry(dotted).and_modify(|count| *count -= 1);
        }
        recorded
    }

    pub(crate) fn record_named(
        &mut self,
        op: Arc<dyn Op>,
        attachment: Attachment,
        inputs: &[Var],
        name: String,
    ) -> Result<Vec<Var>> {
        let declared = Declared::by(&*op);
        let facts = self.results_of(&*op, &declared, inputs)?;
        let flow = self.flow_through(self.pass, &*op, &declared, inputs)?;
        let updates = self.updates_of(&*op, &declared, inputs, &facts)?;

        let node = self.nodes.len();
        let mut outputs = Vec::new();
        for (output, fact) in facts.into_iter().enumerate() {
            let version_of = updates.iter().find(|(o, _)| *o == output).map(|(_, stored)| *stored);
            // No gradient flows through state, nor through integers.
            let flow = if version_of.is_some() || !fact.dtype.is_float() { Flow::None } else { flow.clone() };
            let var = self.push(Value { fact, origin: Origin::Node { node, output }, flow, version_of });
            if let Some(stored) = version_of {
                self.stored[stored].current = var;
            }
            outputs.push(var);
        }
        let (inputs, pass, region) = (inputs.to_vec(), self.pass, self.region);
        let made = outputs.clone();
        self.nodes.push(Node { op, declared, attachment, inputs, outputs: made, name, pass, region });
        Ok(outputs)
    }

    /// Marks what `record` records as *recompute*: the backward pass runs it again instead of keeping what
    /// it made. Costs one more forward of the block, saves its intermediate values.
    pub fn recompute<R>(&mut self, record: impl FnOnce(&mut Graph) -> R) -> R {
        let outer = self.region;
        // A block inside a block belongs to the outer one: it is replayed as a whole.
        if outer.is_none() {
            self.region = Some(self.regions);
            self.regions += 1;
        }
        let result = record(self);
        self.region = outer;
        result
    }

    /// Records in another pass and under another node's scope; for the gradient reader.
    pub(crate) fn in_pass<R>(&mut self, pass: Pass, scope: &str, record: impl FnOnce(&mut Graph) -> R) -> R {
        let scope = if scope.is_empty() { Vec::new() } else { vec![scope.to_string()] };
        let outer = (self.pass, std::mem::replace(&mut self.scope, scope), self.region.take());
        self.pass = pass;
        let result = record(self);
        (self.pass, self.scope, self.region) = outer;
        result
    }

    fn push(&mut self, value: Value) -> Var {
        let var = Var { graph: self.id, index: self.values.len() as u32 };
        self.values.push(value);
        var
    }
}

fn duplicate(kind: &str, name: &str, first: &Fact, second: &Fact) -> Error {
    let (first, second) = (first.to_string(), second.to_string());
    Error::Duplicate { kind: kind.into(), name: name.into(), first, second }
}
