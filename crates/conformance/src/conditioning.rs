//! How well operands determine a result, from the f64 specification alone: how far it moves when they are
//! rounded, and which choices rounding cannot turn.
//!
//! The first-order bound u·Σ|∂y/∂x||x| on what rounding the operands does is estimated by doing it: each
//! number of the operands moves by a unit roundoff, up or down as drawn, and the furthest move of the exact
//! result over some draws is kept. Signs that all conspire would move it further, by up to the root of the
//! number of terms, but neither do an engine's roundings conspire.

use regard::check::{error_of_scale, largest};
use regard::device::Stream;
use regard::graph::{Node, Origin};
use regard::ops::{AttentionBackward, ReferenceCall, kernels_of};
use regard::prelude::*;

/// How well operands determine one result.
pub struct Conditioning {
    /// How far the result moves when its operands are rounded to f32, in its own units.
    pub moved: f64,
    /// How far it moves when what meets in products of bf16 is rounded to that; 0 in f32.
    pub moved_bf16: f64,
    /// Which numbers are determined at all: a key that is chosen by less than rounding is not. `None`: all.
    pub decided: Option<Vec<bool>>,
}

/// Half an ulp of f32.
pub const ROUNDOFF_F32: f64 = 1.0 / (1u64 << 24) as f64;

/// Half an ulp of bf16.
pub const ROUNDOFF_BF16: f64 = 1.0 / (1u64 << 9) as f64;

/// How many moves are drawn: a single number can stay where it is by luck.
const MOVES: u64 = 8;

/// Moves that show whether a choice is one: eight times the rounding of f32, and more of them, so that a
/// choice that an engine's rounding could turn is turned here.
const CHOICE_STEP: f64 = 8.0 * ROUNDOFF_F32;
const CHOICE_MOVES: u64 = 16;

/// Where the backward of attention has what the forward kept.
const LSE: usize = 3;
const SAVED: usize = 5;

/// Where attention has, among its results, the log-sum-exp, which hangs on no choice, and the choices.
const LSE_RESULT: usize = 1;
const CHOICE: usize = 2;

impl Conditioning {
    /// Of each result of a node.
    pub fn of(graph: &Graph, node: &Node, inputs: &[Array], precision: Precision) -> Vec<Conditioning> {
        let every = |operand: &str| operand != "random"; // bits, not measurements
        let decided = decided(graph, node, inputs, precision);
        let mut f32 = movements(graph, node, inputs, ROUNDOFF_F32, &every, &decided);
        for (moved, terms) in f32.iter_mut().zip(terms(graph, node, inputs)) {
            *moved += ROUNDOFF_F32 * terms;
        }
        let bf16 = match precision {
            Precision::F32 => vec![0.0; node.outputs.len()],
            Precision::Bf16 => {
                let rounded = |operand: &str| rounded_inside(node.op.name(), operand);
                movements(graph, node, inputs, ROUNDOFF_BF16, &rounded, &decided)
            }
        };
        let of = |(moved, moved_bf16), decided| Conditioning { moved, moved_bf16, decided };
        f32.into_iter().zip(bf16).zip(decided).map(|(moved, decided)| of(moved, decided)).collect()
    }
}

/// Weights meet the values, and score gradients the queries and keys, rounded to bf16. What that does is what
/// rounding the values and dy does, which do not change the weights themselves. Likewise the gradients of
/// logits and what they meet.
fn rounded_inside(op: &str, operand: &str) -> bool {
    match op {
        "attention" | "attention_backward" => matches!(operand, "value" | "dy"),
        "linear_cross_entropy" => operand == "x",
        _ => false,
    }
}

/// How far each exact result moves when each number of some float operands moves by ±`step` of itself, the
/// furthest of some drawn moves, over what is decided.
fn movements(
    graph: &Graph,
    node: &Node,
    inputs: &[Array],
    step: f64,
    moves: &dyn Fn(&str) -> bool,
    decided: &[Option<Vec<bool>>],
) -> Vec<f64> {
    // What a forward kept is an operand as any other, which an engine has rounded: it moves by itself.
    let inputs = exactly_kept(graph, node, inputs, false);
    let exact = reference(graph, node, &inputs, false);
    let mut movements: Vec<f64> = vec![0.0; exact.len()];
    for draw in 0..MOVES {
        let moved = reference(graph, node, &moved(graph, node, &inputs, step, draw, moves), false);
        for (at, (moved, exact)) in moved.iter().zip(&exact).enumerate() {
            if !graph.dtype(node.outputs[at]).is_float() {
                continue;
            }
            let error = match &decided[at] {
                None => error_of_scale(moved.data(), exact.data(), 1.0),
                Some(decided) => {
                    let kept = |array: &Array| -> Vec<f64> {
                        array.data().iter().zip(decided).filter(|(_, keep)| **keep).map(|(x, _)| *x).collect()
                    };
                    error_of_scale(&kept(moved), &kept(exact), 1.0)
                }
            };
            movements[at] = movements[at].max(error);
        }
    }
    movements
}

/// How large the terms are whose difference a loss or its gradient is, each of which is rounded: a
/// log-sum-exp and a logit, a probability and one. They show where the target is another. 0 for other ops.
fn terms(graph: &Graph, node: &Node, inputs: &[Array]) -> Vec<f64> {
    let operands = &node.declared.operands;
    let Some(targets) = operands.iter().position(|operand| *operand == "targets") else {
        return vec![0.0; node.outputs.len()];
    };
    let classes = match operands.iter().position(|operand| *operand == "weight") {
        Some(weight) => inputs[weight].dims()[0],
        None => inputs[0].dims().last_size(),
    };
    let mut other = inputs.to_vec();
    for target in other[targets].data_mut().iter_mut().filter(|target| **target >= 0.0) {
        *target = (*target + 1.0) % classes as f64;
    }
    reference(graph, node, &other, false).iter().map(|result| largest(result.data())).collect()
}

/// The operands, some of them moved.
fn moved(
    graph: &Graph,
    node: &Node,
    inputs: &[Array],
    step: f64,
    draw: u64,
    moves: &dyn Fn(&str) -> bool,
) -> Vec<Array> {
    let mut moved = inputs.to_vec();
    for (operand, (array, var)) in moved.iter_mut().zip(&node.inputs).enumerate() {
        if graph.dtype(*var).is_float() && moves(node.declared.operands[operand]) {
            let signs = Stream::new(draw, operand as u64, &node.name);
            for (i, x) in array.data_mut().iter_mut().enumerate() {
                *x *= if signs.bits(0, 0, i as u32).is_multiple_of(2) { 1.0 + step } else { 1.0 - step };
            }
        }
    }
    moved
}

/// Which numbers of each result hang on no choice between keys whose scores are the same but for rounding:
/// all, but for the hard kinds of attention. Their backward is given the choices of the forward.
fn decided(graph: &Graph, node: &Node, inputs: &[Array], precision: Precision) -> Vec<Option<Vec<bool>>> {
    let mut decided = vec![None; node.outputs.len()];
    let chosen = |kind: &str| kind.ends_with("hard") || kind == "straight-through";
    let hard = node.op.attributes().iter().any(|(name, kind)| *name == "kind" && chosen(kind));
    if node.op.name() != "attention" || !hard {
        return decided;
    }
    // In bf16 scores are made of rounded queries and keys: those are what is moved.
    let mut inputs = inputs.to_vec();
    if precision == Precision::Bf16 {
        inputs[..3].iter_mut().for_each(|array| *array = array.rounded());
    }
    let chosen = computed(graph, node, &inputs, false).swap_remove(CHOICE);
    let mut rows = vec![true; chosen.data().len()];
    for draw in 0..CHOICE_MOVES {
        let moved = moved(graph, node, &inputs, CHOICE_STEP, draw, &|operand| operand != "random");
        let other = computed(graph, node, &moved, false).swap_remove(CHOICE);
        for (row, (x, y)) in rows.iter_mut().zip(chosen.data().iter().zip(other.data())) {
            *row &= x == y;
        }
    }
    for (result, &var) in node.outputs.iter().enumerate().filter(|(result, _)| *result != LSE_RESULT) {
        let width = graph.shape(var).bound().count() / rows.len().max(1);
        decided[result] = Some(rows.iter().flat_map(|&row| std::iter::repeat_n(row, width)).collect());
    }
    decided
}

/// What the specification of a node gives for some operands, with products rounded as the precision says or
/// not.
///
/// The backward of attention makes the weights again from what the forward kept. It is held to the gradient
/// at exact weights, as PyTorch is, whatever the rounding of what was kept; of a y in bf16, that rounding is
/// part of the rounded specification.
pub fn computed(graph: &Graph, node: &Node, inputs: &[Array], rounded: bool) -> Vec<Array> {
    reference(graph, node, &exactly_kept(graph, node, inputs, rounded), rounded)
}

/// The operands, with what the forward kept as it should be.
fn exactly_kept(graph: &Graph, node: &Node, inputs: &[Array], rounded: bool) -> Vec<Array> {
    let mut inputs = inputs.to_vec();
    if !node.is::<AttentionBackward>() {
        return inputs;
    }
    let Origin::Node { node: forward, .. } = graph.value(node.inputs[LSE]).origin else {
        unreachable!("the log-sum-exp comes from the forward")
    };
    let operands = &node.declared.operands;
    let extras = SAVED + 1 + usize::from(operands.contains(&"dlse"));
    let forward_inputs = [&inputs[..LSE], &inputs[extras..]].concat();
    let kept = reference(graph, &graph.nodes()[forward], &forward_inputs, rounded);
    inputs[LSE] = kept[1].clone();
    if operands[SAVED] == "y" && (!rounded || graph.dtype(node.inputs[SAVED]) == DType::F32) {
        inputs[SAVED] = kept[0].clone();
    }
    inputs
}

fn reference(graph: &Graph, node: &Node, inputs: &[Array], rounded: bool) -> Vec<Array> {
    let inputs: Vec<&Array> = inputs.iter().collect();
    let mut outputs: Vec<Array> =
        node.outputs.iter().map(|&var| Array::zeros(graph.shape(var).bound())).collect();
    let used = vec![true; node.outputs.len()];
    let mut call =
        ReferenceCall { inputs: &inputs, outputs: &mut outputs, used: &used, rounded, macs: 0, flops: 0 };
    kernels_of(node).unwrap().reference(&mut call).unwrap();
    outputs
}
