//! Plain-looking maths: record a small graph, run it, get the numbers, in one call.

use crate::Result;
use regard_engine::reference::{self, Mode};
use regard_engine::{Cpu, Error, Feed, Program, Store};
use regard_graph::{DType, Graph, Origin, Var};
use regard_ops::Array;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};

/// A graph together with the numbers it is about: what [`eval`] hands to its closure.
pub struct Sheet {
    graph: Graph,
    feed: Feed,
}

impl Sheet {
    fn new() -> Self {
        Sheet { graph: Graph::new(), feed: Feed::new() }
    }

    /// A float value with these numbers, with respect to which gradients may be asked for.
    pub fn given(&mut self, dims: &[usize], numbers: &[f64]) -> regard_graph::Result<Var> {
        let name = self.bring(dims, numbers)?;
        self.graph.input_with_gradient(&name, dims)
    }

    /// An integer value with these numbers.
    pub fn given_integers(&mut self, dims: &[usize], numbers: &[i32]) -> regard_graph::Result<Var> {
        let numbers: Vec<f64> = numbers.iter().map(|&x| x as f64).collect();
        let name = self.bring(dims, &numbers)?;
        self.graph.input(&name, DType::I32, dims)
    }

    /// A boolean value.
    pub fn given_truths(&mut self, dims: &[usize], truths: &[bool]) -> regard_graph::Result<Var> {
        let numbers: Vec<f64> = truths.iter().map(|&truth| f64::from(u8::from(truth))).collect();
        let name = self.bring(dims, &numbers)?;
        self.graph.input(&name, DType::Bool, dims)
    }

    fn bring(&mut self, dims: &[usize], numbers: &[f64]) -> regard_graph::Result<String> {
        let array = Array::new(dims, numbers.to_vec()).ok_or_else(|| {
            regard_graph::Error::invalid(
                "given",
                format!("{} numbers do not fill the shape {dims:?}", numbers.len()),
                "give as many numbers as the product of the sizes, and at most 6 axes",
            )
        })?;
        let name = format!("given.{}", self.feed.inputs.len());
        self.feed.inputs.insert(name.clone(), array);
        Ok(name)
    }
}

impl Deref for Sheet {
    type Target = Graph;
    fn deref(&self) -> &Graph {
        &self.graph
    }
}

impl DerefMut for Sheet {
    fn deref_mut(&mut self) -> &mut Graph {
        &mut self.graph
    }
}

/// Records a small graph and computes one value of it exactly, in f64, by the reference engine.
pub fn eval(record: impl FnOnce(&mut Sheet) -> regard_graph::Result<Var>) -> Result<Array> {
    let mut sheet = Sheet::new();
    let var = record(&mut sheet)?;
    sheet.graph.check_operands("eval", &[var])?;
    Ok(reference::run(&sheet.graph, &sheet.feed, Mode::Exact)?.value(var).clone())
}

/// Records a small graph and computes one value of it in f32 by the CPU engine. The planned program is kept:
/// the same recording with other numbers is only replayed.
pub fn eval_f32(record: impl FnOnce(&mut Sheet) -> regard_graph::Result<Var>) -> Result<Array> {
    let mut sheet = Sheet::new();
    let var = record(&mut sheet)?;
    let Sheet { mut graph, feed } = sheet;
    graph.check_operands("eval_f32", &[var])?;
    graph.output("result", var)?;
    let key = recording_of(&graph);
    // What is updated would be found as the last call left it; such a program is made anew.
    let replayed =
        graph.stored().iter().all(|stored| matches!(graph.value(stored.current).origin, Origin::Stored(_)));
    CACHE.with_borrow_mut(|cache| {
        if !replayed || !cache.programs.contains_key(&key) {
            if cache.programs.len() >= MOST_PROGRAMS {
                cache.programs.clear();
            }
            let cpu = match &cache.cpu {
                Some(cpu) => cpu.clone(),
                None => cache.cpu.insert(Cpu::new()?).clone(),
            };
            let mut store = Store::new(0);
            let program = Program::new(graph, &[], &mut store, &cpu)?;
            cache.programs.insert(key.clone(), (program, store));
        }
        let Some((program, store)) = cache.programs.get_mut(&key) else {
            return Err(Error::ForeignStore.into());
        };
        for (name, array) in &feed.inputs {
            program.set_array(name, array)?;
        }
        program.run(store)?;
        Ok(match program.graph().value(var).version_of {
            Some(stored) => store.array(&program.graph().stored()[stored].name)?,
            None => program.array("result")?,
        })
    })
}

/// How many planned programs are kept for each thread.
const MOST_PROGRAMS: usize = 64;

#[derive(Default)]
struct Cache {
    cpu: Option<Cpu>,
    programs: HashMap<String, (Program, Store)>,
}

thread_local! {
    static CACHE: RefCell<Cache> = RefCell::default();
}

/// All that makes two recordings the same program: letters, what is stored, values, ops with their settings,
/// wiring.
fn recording_of(graph: &Graph) -> String {
    let mut text = format!("{:?};", graph.letters());
    for stored in graph.stored() {
        text.push_str(&format!("{:?};", (&stored.name, &stored.init)));
    }
    for value in graph.values() {
        text.push_str(&format!("{:?};", (&value.fact, &value.origin)));
    }
    for node in graph.nodes() {
        let inputs: Vec<usize> = node.inputs.iter().map(|var| var.index()).collect();
        text.push_str(&format!("{:?}{inputs:?};", node.op));
    }
    for (name, var) in graph.outputs() {
        text.push_str(&format!("{name}={};", var.index()));
    }
    text
}
