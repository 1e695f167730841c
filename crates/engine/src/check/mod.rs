//! One recording, many readers: checks that the readers of a graph agree with each other and with numbers.
//!
//! A [`Case`] is a small recording with its data. [`Case::gradients`] compares the gradient reader with
//! central differences, [`Case::cpu`] the CPU engine with the reference (and its bits over SIMD levels and
//! threads), [`Case::cost`] the cost reader with what the reference counted, [`Case::reach`] the reach reader
//! with what changes when an input is changed. An op of one's own is tested by the same four calls. All of
//! them, and the random programs of `regard-conformance`, compare numbers by one judge, [`Limit`].

mod agreement;
mod cards;
mod counting;
mod differences;
mod judge;
mod mutants;
mod perturbation;

pub use cards::card;
pub use judge::{Limit, error_of_scale};
pub use mutants::Mutant;

use crate::{Error, Feed, Result, Store};
use regard_device::Stream;
use regard_graph::{DType, Flow, Graph, Letter, Role, Sizes, Var};
use regard_ops::prelude::*;
use regard_ops::{Array, round_bf16};
use std::collections::BTreeMap;

type Recording<'a> = dyn Fn(&mut Graph) -> regard_graph::Result<Vec<Var>> + 'a;

/// A recording with its data. Float inputs that are not given are drawn from the normal distribution.
pub struct Case<'a> {
    record: Box<Recording<'a>>,
    given: BTreeMap<String, Array>,
    sizes: BTreeMap<char, usize>,
    seed: u64,
    draws: usize,
    card_bound: Option<f64>,
}

/// A recorded case: the forward graph, or the forward and backward one.
pub struct Recorded {
    /// The graph.
    pub graph: Graph,
    /// The results of the recording.
    pub outputs: Vec<Var>,
    /// What gradients were asked for, and the gradients; empty in a forward graph.
    pub gradients: Vec<(String, Var, Var)>,
    /// The data.
    pub feed: Feed,
}

impl<'a> Case<'a> {
    /// A case from what it records; the recording returns the values to be checked.
    pub fn new(record: impl Fn(&mut Graph) -> regard_graph::Result<Vec<Var>> + 'a) -> Self {
        let (given, sizes) = (BTreeMap::new(), BTreeMap::new());
        Case { record: Box::new(record), given, sizes, seed: 1, draws: 20, card_bound: None }
    }

    /// With an input, parameter or state of one's own (integers must be given).
    pub fn given(mut self, name: &str, dims: &[usize], numbers: &[f64]) -> Self {
        let array = Array::new(dims, numbers.to_vec());
        let array = array.unwrap_or_else(|| panic!("`{name}`: {} numbers for {dims:?}", numbers.len()));
        self.given.insert(name.into(), array);
        self
    }

    /// With a size for an open letter; without one, a letter takes its bound.
    pub fn size(mut self, letter: char, size: usize) -> Self {
        self.sizes.insert(letter, size);
        self
    }

    /// With another seed for what is drawn.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// With another bound for cards: their products sum in the library's order, one long chain for each
    /// element.
    pub fn card_bound(mut self, bound: f64) -> Self {
        self.card_bound = Some(bound);
        self
    }

    /// With another number of perturbations for each input element in [`Case::reach`].
    pub fn draws(mut self, draws: usize) -> Self {
        self.draws = draws;
        self
    }

    /// All four checks; `bound` is the largest relative error of the CPU engine (in the maximum norm).
    pub fn all(&self, bound: f64) -> Result<()> {
        self.gradients()?;
        self.cpu(bound)?;
        self.cost()?;
        self.reach(Exactness::Equal)
    }

    /// Records the forward graph.
    pub fn forward(&self) -> Result<Recorded> {
        let mut graph = Graph::new();
        let outputs = (self.record)(&mut graph)?;
        let feed = self.draw(&graph)?;
        Ok(Recorded { graph, outputs, gradients: Vec::new(), feed })
    }

    /// Records the forward graph and the gradients of Σ cotangent · output for drawn cotangents. Without
    /// anything to differentiate, it is the forward graph.
    pub fn backward(&self) -> Result<Recorded> {
        let Recorded { mut graph, outputs, .. } = self.forward()?;
        let mut loss: Option<Var> = None;
        for (index, &output) in outputs.iter().enumerate() {
            if graph.value(output).flow != Flow::Open {
                continue;
            }
            let shape = graph.shape(output).clone();
            let cotangent = graph.input(&cotangent_name(index), DType::F32, shape)?;
            let product = graph.mul(output, cotangent)?;
            let term = graph.sum_all(product)?;
            loss = Some(loss.map_or(Ok(term), |sum| graph.add(sum, term))?);
        }
        let mut gradients = Vec::new();
        if let Some(loss) = loss {
            let mut wrt: Vec<(String, Var)> = Vec::new();
            for (name, var) in graph.inputs() {
                if graph.value(var).flow == Flow::Open {
                    wrt.push((name.to_string(), var));
                }
            }
            for stored in graph.stored().iter().filter(|stored| stored.role == Role::Parameter) {
                wrt.push((stored.name.clone(), stored.current));
            }
            let vars: Vec<Var> = wrt.iter().map(|(_, var)| *var).collect();
            let grads = graph.gradient(loss, &vars)?;
            gradients = wrt.into_iter().zip(grads).map(|((name, var), grad)| (name, var, grad)).collect();
        }
        let feed = self.draw(&graph)?;
        Ok(Recorded { graph, outputs, gradients, feed })
    }

    /// The sizes of the open letters.
    pub fn sizes(&self, graph: &Graph) -> Result<Sizes> {
        let mut sizes = Sizes::none();
        for &letter in graph.letters() {
            let letter: Letter = letter;
            sizes.set(letter, self.sizes.get(&letter.name()).copied().unwrap_or(letter.bound()))?;
        }
        Ok(sizes)
    }

    /// Draws what is not given, as numbers that f32 (or bf16) holds exactly, so that all engines see the
    /// same.
    fn draw(&self, graph: &Graph) -> Result<Feed> {
        let sizes = self.sizes(graph)?;
        let mut feed = Feed::new();
        for (name, var) in graph.inputs() {
            let fact = graph.fact(var);
            let array = match self.given.get(name) {
                Some(array) => hold(array.clone(), fact.dtype),
                None if fact.dtype.is_float() => self.normal(name, fact.shape.at(&sizes)?, fact.dtype),
                None => return Err(fail("case", format!("the {} input `{name}` must be given", fact.dtype))),
            };
            feed.inputs.insert(name.into(), array);
        }
        for stored in graph.stored() {
            let dims = stored.fact.shape.bound();
            let array = match self.given.get(&stored.name) {
                Some(array) => hold(array.clone(), stored.fact.dtype),
                None if stored.role == Role::Parameter => self.normal(&stored.name, dims, stored.fact.dtype),
                None => continue,
            };
            feed.stored.insert(stored.name.clone(), array);
        }
        Ok(feed)
    }

    fn normal(&self, name: &str, dims: regard_graph::Dims, dtype: DType) -> Array {
        let stream = Stream::new(self.seed, 0, name);
        let mut array = Array::zeros(dims);
        for (i, x) in array.data_mut().iter_mut().enumerate() {
            *x = stream.normal(0, 0, i as u32);
        }
        hold(array, dtype)
    }
}

/// How exactly the reach reader must match what really changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exactness {
    /// Nothing may change that it says cannot; it may say *can* where nothing happened to change.
    Safe,
    /// What can change and what did change are the same.
    Equal,
}

fn cotangent_name(index: usize) -> String {
    format!("cotangent.{index}")
}

/// The numbers as the dtype holds them.
fn hold(mut array: Array, dtype: DType) -> Array {
    for x in array.data_mut() {
        *x = match dtype {
            DType::F32 => *x as f32 as f64,
            DType::BF16 => round_bf16(*x),
            DType::I32 | DType::Bool => *x,
        };
    }
    array
}

/// The largest difference relative to the largest finite number wanted.
pub fn relative_error(got: &[f64], want: &[f64]) -> f64 {
    error_of_scale(got, want, largest(want))
}

/// The largest finite magnitude.
pub fn largest(numbers: &[f64]) -> f64 {
    numbers.iter().filter(|x| x.is_finite()).fold(0.0, |most: f64, x| most.max(x.abs()))
}

fn fail(check: &str, what: String) -> Error {
    Error::Check { check: check.into(), what }
}

/// Puts fed parameters and states into a store that a program was made with.
pub fn fill_store(store: &mut Store, feed: &Feed) -> Result<()> {
    for (name, array) in &feed.stored {
        store.set_array(name, array)?;
    }
    Ok(())
}
