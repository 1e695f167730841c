//! Every node of a program by itself: the operands that the engine gave it, what it computed, what its
//! specification gives for the same operands, and how well those operands determine that result at all.

use crate::conditioning::{Conditioning, computed};
use crate::programs::Recipe;
use regard::check::{Case, Limit, Recorded, fill_store};
use regard::device::Stream;
use regard::graph::{Node, Origin};
use regard::ops::random_numbers;
use regard::prelude::*;
use std::collections::HashMap;

/// One node with its operands.
pub struct NodeRun {
    /// Which op.
    pub op: String,
    /// What kind of it, where results of one op are made in several ways: of attention how weights are made,
    /// of a product its activation. Empty where there is one kind only.
    pub variant: String,
    /// Its settings, as descriptions show them.
    pub attributes: Vec<(&'static str, String)>,
    /// Its dotted name.
    pub name: String,
    /// bf16 if an operand or a result is, or if its products are.
    pub precision: Precision,
    /// Name and numbers of each operand.
    pub operands: Vec<(&'static str, Array)>,
    /// Each result.
    pub results: Vec<NodeResult>,
}

/// One result of a node.
pub struct NodeResult {
    /// What it is called: its place among the results of its op, or its role where that depends on settings.
    pub name: String,
    /// What the CPU engine computed.
    pub got: Array,
    /// What the specification gives, rounded where the dtype rounds.
    pub want: Array,
    /// Whether it is made of integers or truths, which are right or wrong.
    pub whole: bool,
    /// How well its operands determine it.
    pub conditioning: Conditioning,
}

impl NodeResult {
    /// What is wrong with a result in the place of the engine's.
    pub fn objection(&self, got: &Array, limit: &Limit) -> Option<String> {
        match &self.conditioning.decided {
            None => limit.objection(got, &self.want),
            Some(decided) => limit.objection(&only(got, decided), &only(&self.want, decided)),
        }
    }
}

/// The numbers of an array that are decided: whole rows of it, or single numbers.
fn only(array: &Array, decided: &[bool]) -> Array {
    let numbers = array.data().iter().zip(decided).filter(|(_, decided)| **decided).map(|(&x, _)| x);
    let (numbers, width) = (numbers.collect::<Vec<f64>>(), array.dims().last_size().max(1));
    let whole = decided.chunks(width).all(|row| row.iter().all(|&decided| decided == row[0]));
    let width = if whole { width } else { 1 };
    Array::new(&[numbers.len() / width, width], numbers).expect("as many numbers as rows and columns")
}

/// A random program with data.
pub fn case(recipe: Recipe) -> Case<'static> {
    let random: Vec<f64> = random_numbers(recipe.seed, 3, 0).iter().map(|&x| x as f64).collect();
    Case::new(move |g| recipe.record(g)).given("random", &[random.len()], &random).seed(recipe.seed)
}

/// A program with its gradients, and a step of an optimizer where the recipe is given for it.
fn recorded(case: &Case<'_>, trained: Option<Recipe>) -> Recorded {
    let mut recorded = case.backward().unwrap();
    let Some(recipe) = trained else { return recorded };
    let stored = |(_, var, gradient): &(String, Var, Var)| {
        recorded.graph.value(*var).version_of.map(|_| (*var, *gradient))
    };
    let parameters: Vec<(Var, Var)> = recorded.gradients.iter().filter_map(stored).collect();
    recipe.train(&mut recorded.graph, &parameters).unwrap();
    // Moments as if there had been steps before; those of squares are not negative.
    for state in recorded.graph.stored() {
        if state.name.starts_with("adamw.") || state.name.starts_with("sgd.") {
            let stream = Stream::new(recipe.seed, 0, &state.name);
            let mut array = Array::zeros(state.fact.shape.bound());
            for (i, x) in array.data_mut().iter_mut().enumerate() {
                let drawn = stream.normal(0, 0, i as u32);
                *x = (if state.name.starts_with("adamw.v.") { drawn * drawn } else { drawn }) as f32 as f64;
            }
            recorded.feed.stored.insert(state.name.clone(), array);
        }
    }
    recorded
}

/// Every value of a program as an engine computes it. It is recorded twice: the program that is run gives
/// all its values out.
pub fn all_values(record: &dyn Fn() -> Recorded, device: &impl AsDevice) -> (Graph, HashMap<usize, Array>) {
    let Recorded { mut graph, feed, .. } = record();
    let vars: Vec<Var> = graph.nodes().iter().flat_map(|node| node.outputs.clone()).collect();
    for var in &vars {
        graph.output(&format!("value.{}", var.index()), *var).unwrap();
    }
    let mut store = Store::new(0);
    let mut program = Program::new(graph, &[], &mut store, device).unwrap();
    fill_store(&mut store, &feed).unwrap();
    let mut values = HashMap::new();
    for (index, value) in program.graph().values().iter().enumerate() {
        if let Origin::Stored(stored) = value.origin {
            values.insert(index, store.array(&program.graph().stored()[stored].name).unwrap());
        }
        if let Origin::Constant(numbers) = &value.origin {
            let dims = value.fact.shape.bound();
            values.insert(index, Array::new(&dims, numbers.to_vec()).unwrap());
        }
    }
    for (name, array) in &feed.inputs {
        program.set_array(name, array).unwrap();
    }
    for (name, var) in program.graph().inputs() {
        values.insert(var.index(), feed.inputs[name].clone());
    }
    program.run(&mut store).unwrap();
    for var in &vars {
        let array = match program.graph().value(*var).version_of {
            Some(stored) => store.array(&program.graph().stored()[stored].name).unwrap(),
            None => program.array(&format!("value.{}", var.index())).unwrap(),
        };
        values.insert(var.index(), array);
    }
    (record().graph, values)
}

/// All nodes of a random program, each given the very operands that the engine gave it.
pub fn node_runs(recipe: Recipe, device: &impl AsDevice) -> Vec<NodeRun> {
    let case = case(recipe);
    runs_of(&|| recorded(&case, Some(recipe)), device)
}

/// The same for anything that is recorded.
pub fn runs_of(record: &dyn Fn() -> Recorded, device: &impl AsDevice) -> Vec<NodeRun> {
    let (graph, values) = all_values(record, device);
    graph.nodes().iter().map(|node| node_run(&graph, node, &values)).collect()
}

fn node_run(graph: &Graph, node: &Node, values: &HashMap<usize, Array>) -> NodeRun {
    let inputs: Vec<Array> = node.inputs.iter().map(|var| values[&var.index()].clone()).collect();
    let attributes = node.op.attributes();
    let bf16 = node.inputs.iter().chain(&node.outputs).any(|&var| graph.dtype(var) == DType::BF16)
        || attributes.iter().any(|(name, value)| *name == "precision" && value.eq_ignore_ascii_case("bf16"));
    let precision = if bf16 { Precision::Bf16 } else { Precision::F32 };
    let conditioned = Conditioning::of(graph, node, &inputs, precision);
    let wanted = computed(graph, node, &inputs, true);
    let results = node.outputs.iter().zip(wanted).zip(conditioned).enumerate();
    let results = results.map(|(index, ((var, want), conditioning))| NodeResult {
        name: result_name(node, index),
        got: values[&var.index()].clone(),
        whole: !graph.dtype(*var).is_float(),
        want: if graph.dtype(*var) == DType::BF16 { want.rounded() } else { want },
        conditioning,
    });
    NodeRun {
        op: node.op.name().into(),
        variant: variant(&attributes, &node.declared.operands),
        name: node.name.clone(),
        precision,
        results: results.collect(),
        operands: node.declared.operands.iter().copied().zip(inputs).collect(),
        attributes,
    }
}

/// What kind of an op it is: the setting that decides by which formula its results are made.
fn variant(attributes: &[(&'static str, String)], operands: &[&'static str]) -> String {
    let setting = |wanted: &str| attributes.iter().find(|(name, _)| *name == wanted);
    if operands.contains(&"query") {
        let kind = setting("kind").map_or("soft", |(_, kind)| kind.as_str());
        // At whatever temperature.
        let kind = if kind.starts_with("gumbel") {
            if kind.ends_with("hard") { "gumbel hard" } else { "gumbel" }
        } else {
            kind
        };
        return kind.into();
    }
    let names = ["derivative", "activation", "function", "gate"];
    names.into_iter().find_map(setting).map_or(String::new(), |(_, kind)| kind.to_lowercase())
}

/// Where settings decide which results there are, they go by their roles; else by number.
fn result_name(node: &Node, index: usize) -> String {
    let operands = &node.declared.operands;
    let has = |name: &str| operands.contains(&name);
    let roles: Vec<&str> = match node.op.name() {
        "attention" => vec!["y", "lse", "choice"],
        "attention_backward" => {
            let bias = operands.iter().find(|name| ["bias table", "slopes", "bias"].contains(*name));
            let scale = has("scale").then_some("scale");
            ["query", "key", "value"].into_iter().chain(scale).chain(bias.copied()).collect()
        }
        "layer_norm" if has("residual") => vec!["y", "h", "mean", "rstd"],
        "rms_norm" if has("residual") => vec!["y", "h", "rstd"],
        "layer_norm" => vec!["y", "mean", "rstd"],
        "rms_norm" => vec!["y", "rstd"],
        "linear_cross_entropy" => vec!["loss", "losses", "x", "weight", "bias"],
        _ => Vec::new(),
    };
    roles.get(index).map_or_else(|| index.to_string(), |role| role.to_string())
}
