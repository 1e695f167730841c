//! Every node of a random program by itself: the operands that the engine gave it, what it computed, what its
//! specification gives for the same operands, and how well those operands determine that result at all.

use crate::programs::Recipe;
use regard::check::{Case, Recorded, error_of_scale, fill_store, largest};
use regard::device::Stream;
use regard::graph::{Node, Origin, Pass};
use regard::ops::{AttentionBackward, Linear, ReferenceCall, kernels_of, random_numbers};
use regard::prelude::*;
use std::collections::HashMap;

/// One node with its operands.
pub struct NodeRun {
    /// Which op.
    pub op: String,
    /// Its settings, as descriptions show them.
    pub attributes: Vec<(&'static str, String)>,
    /// Its dotted name.
    pub name: String,
    /// Whether the backward pass recorded it.
    pub backward: bool,
    /// bf16 if an operand or a result is, or if its products are.
    pub precision: Precision,
    /// Name and numbers of each operand.
    pub operands: Vec<(&'static str, Array)>,
    /// Each result.
    pub results: Vec<NodeResult>,
}

/// One result of a node.
pub struct NodeResult {
    /// What the CPU engine computed.
    pub got: Array,
    /// What the specification gives, rounded where the dtype rounds.
    pub want: Array,
    /// How hard its operands are, see `condition` below.
    pub condition: f64,
    /// What errors are measured against, see `scale` below; PyTorch's on the same operands too.
    pub scale: f64,
}

impl NodeResult {
    /// The largest difference, relative to the scale.
    pub fn error(&self) -> f64 {
        error_of_scale(self.got.data(), self.want.data(), self.scale)
    }
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

/// Every value of a program as an engine computes it; with a recipe, after a step of an optimizer.
pub fn all_values(
    case: &Case<'_>,
    trained: Option<Recipe>,
    device: &impl AsDevice,
) -> (Graph, HashMap<usize, Array>) {
    let Recorded { mut graph, feed, .. } = recorded(case, trained);
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
    (recorded(case, trained).graph, values)
}

/// All nodes of a program, each given the very operands that the engine gave it.
pub fn node_runs(recipe: Recipe, device: &impl AsDevice) -> Vec<NodeRun> {
    let (graph, values) = all_values(&case(recipe), Some(recipe), device);
    graph.nodes().iter().map(|node| node_run(&graph, node, &values)).collect()
}

fn node_run(graph: &Graph, node: &Node, values: &HashMap<usize, Array>) -> NodeRun {
    let inputs: Vec<Array> = node.inputs.iter().map(|var| values[&var.index()].clone()).collect();
    let moved = movements(graph, node, &inputs);
    let wanted = specified(graph, node, &inputs, true);
    // Weights are exponentials of differences of scores: how large those are is part of how hard they are.
    let steep = match node.op.name() {
        "attention" => largest(wanted[1].data()),
        "attention_backward" => largest(inputs[LSE].data()),
        _ => 0.0,
    };
    let results = node.outputs.iter().zip(wanted).zip(moved);
    let results = results.map(|((var, want), moved)| {
        let dtype = graph.dtype(*var);
        let want = if dtype == DType::BF16 { want.rounded() } else { want };
        let scale = scale(&want, moved);
        let condition = condition(graph, node, &inputs, scale, moved).max(steep);
        let condition = if dtype.is_float() { condition } else { 0.0 };
        NodeResult { got: values[&var.index()].clone(), want, condition, scale }
    });
    let attributes = node.op.attributes();
    let bf16 = node.inputs.iter().chain(&node.outputs).any(|&var| graph.dtype(var) == DType::BF16)
        || attributes.contains(&("precision", "Bf16".into()));
    NodeRun {
        op: node.op.name().into(),
        name: node.name.clone(),
        backward: node.pass == Pass::Backward || node.op.name().ends_with("_backward"),
        precision: if bf16 { Precision::Bf16 } else { Precision::F32 },
        operands: node.declared.operands.iter().copied().zip(inputs.iter().cloned()).collect(),
        results: results.collect(),
        attributes,
    }
}

/// The largest number wanted. A result of which half an ulp of the operands moves all digits is measured
/// against that movement instead: it may well be zero, up to the rounding of f64.
fn scale(want: &Array, moved: f64) -> f64 {
    largest(want.data()).max(moved)
}

/// How hard operands are: how many times further than they a result moves. Functions that vanish far out are
/// also hard where the result is small beside the operands, since they may be made of terms that are not: 1 +
/// erf x, the difference of a log-sum-exp and a logit, a probability less one.
fn condition(graph: &Graph, node: &Node, inputs: &[Array], scale: f64, moved: f64) -> f64 {
    let vanishes = matches!(
        node.op.name(),
        "gelu"
            | "gelu_tanh"
            | "silu"
            | "gated"
            | "gated_backward"
            | "unary_backward"
            | "linear_activation_backward"
            | "cross_entropy"
            | "linear_cross_entropy"
    ) || (node.is::<Linear>()
        && (node.outputs.len() == 2 || node.declared.operands.contains(&"z")));
    let floats = node.inputs.iter().zip(inputs).filter(|(var, _)| graph.dtype(**var).is_float());
    let product: f64 = floats.map(|(_, array)| largest(array.data())).product();
    let small = if vanishes { product / scale.max(1e-30) } else { 0.0 };
    (moved / STEP / scale.max(1e-30)).max(small).min(1e30)
}

/// By how little operands are moved to see how far results move: half an ulp of f32.
const STEP: f64 = 1.0 / (1u64 << 24) as f64;

/// How many moves are drawn: a single number can stay where it is by luck.
const MOVES: u64 = 8;

/// How far each exact result moves when each number of the float operands moves by ±[`STEP`] of itself, the
/// furthest of some drawn moves.
fn movements(graph: &Graph, node: &Node, inputs: &[Array]) -> Vec<f64> {
    let exact = specified(graph, node, inputs, false);
    let mut movements: Vec<f64> = vec![0.0; exact.len()];
    for draw in 0..MOVES {
        let mut moved = inputs.to_vec();
        for (operand, (array, var)) in moved.iter_mut().zip(&node.inputs).enumerate() {
            let signs = Stream::new(draw, operand as u64, &node.name);
            // Random numbers are bits, not measurements.
            if graph.dtype(*var).is_float() && node.declared.operands[operand] != "random" {
                for (i, x) in array.data_mut().iter_mut().enumerate() {
                    *x *= if signs.bits(0, 0, i as u32).is_multiple_of(2) { 1.0 + STEP } else { 1.0 - STEP };
                }
            }
        }
        let moved = specified(graph, node, &moved, false);
        for (movement, (moved, exact)) in movements.iter_mut().zip(moved.iter().zip(&exact)) {
            *movement = movement.max(error_of_scale(moved.data(), exact.data(), 1.0));
        }
    }
    movements
}

/// What the specification of a node gives for some operands, with products rounded as the precision says or
/// not.
///
/// The backward of attention makes the weights again from what the forward kept. It is held to the gradient
/// at exact weights, as PyTorch is, whatever the rounding of what was kept; of a y in bf16, that rounding is
/// part of the rounded specification.
fn specified(graph: &Graph, node: &Node, inputs: &[Array], rounded: bool) -> Vec<Array> {
    if !node.is::<AttentionBackward>() {
        return computed(graph, node, inputs, rounded);
    }
    let Origin::Node { node: forward, .. } = graph.value(node.inputs[LSE]).origin else {
        unreachable!("the log-sum-exp comes from the forward")
    };
    let operands = &node.declared.operands;
    let extras = SAVED + 1 + usize::from(operands.contains(&"dlse"));
    let kept = computed(graph, &graph.nodes()[forward], &[&inputs[..3], &inputs[extras..]].concat(), rounded);
    let mut inputs = inputs.to_vec();
    inputs[LSE] = kept[1].clone();
    if operands[SAVED] == "y" && (!rounded || graph.dtype(node.inputs[SAVED]) == DType::F32) {
        inputs[SAVED] = kept[0].clone();
    }
    computed(graph, node, &inputs, rounded)
}

/// Where the backward of attention has what the forward kept.
const LSE: usize = 3;
const SAVED: usize = 5;

fn computed(graph: &Graph, node: &Node, inputs: &[Array], rounded: bool) -> Vec<Array> {
    let inputs: Vec<&Array> = inputs.iter().collect();
    let mut outputs: Vec<Array> =
        node.outputs.iter().map(|&var| Array::zeros(graph.shape(var).bound())).collect();
    let used = vec![true; node.outputs.len()];
    let mut call =
        ReferenceCall { inputs: &inputs, outputs: &mut outputs, used: &used, rounded, macs: 0, flops: 0 };
    kernels_of(node).unwrap().reference(&mut call).unwrap();
    outputs
}
