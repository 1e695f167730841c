//! Joins: which happen, which must not, that they change no bit, and that what they make agrees with every
//! reader.

use regard_engine::check::{Case, Exactness, Recorded};
use regard_engine::{Cpu, Program, Store};
use regard_graph::{Graph, Node, Result};
use regard_ops::prelude::*;
use regard_ops::{
    Activation, Array, LinearActivationBackward, LinearOptions, NormSpec, Record, Rounding, join, joined,
};

/// Op and operands of every node of a graph in which this is kept.
fn nodes(mut g: Graph, keep: &[Var]) -> Vec<String> {
    join(&mut g, keep).unwrap();
    let text = |node: &Node| format!("{}({})", node.op.name(), node.op.operands().join(" "));
    g.nodes().iter().map(text).collect()
}

/// x · Wᵀ of four rows, in f32, with weights of its own.
fn product(g: &mut Graph, x: Var, index: usize) -> Var {
    let weight = g.parameter(&format!("weight.{index}"), [6, 6], Init::Normal(1.0)).unwrap();
    let output = Some(DType::F32);
    g.linear(x, weight, LinearOptions { output, ..LinearOptions::default() }).unwrap()
}

fn begin(precision: Precision) -> (Graph, Var) {
    let mut g = Graph::inference();
    g.set_precision(precision);
    let x = g.input("x", DType::F32, [4, 6]).unwrap();
    (g, x)
}

#[test]
fn a_sum_is_taken_up_by_the_product_that_makes_its_second_term() {
    for turned in [false, true] {
        let (mut g, x) = begin(Precision::F32);
        let y = product(&mut g, x, 0);
        let sum = if turned { g.add(y, x) } else { g.add(x, y) }.unwrap();
        assert_eq!(nodes(g, &[sum]), ["linear(x weight residual)"]);
        // Of two products the later one; the sum of three needs both of its two adds.
        let (mut g, x) = begin(Precision::F32);
        let products = [0, 1, 2].map(|index| product(&mut g, x, index));
        let [a, b, c] = products;
        let sum = if turned { g.add(b, a) } else { g.add(a, b) }.unwrap();
        let sum = g.add(c, sum).unwrap();
        assert_eq!(
            nodes(g, &[sum]),
            ["linear(x weight)", "linear(x weight residual)", "linear(x weight residual)"]
        );
    }
}

#[test]
fn what_somebody_looks_at_stays() {
    let record = || {
        let (mut g, x) = begin(Precision::F32);
        let y = product(&mut g, x, 0);
        g.tap("y", y).unwrap();
        let sum = g.add(x, y).unwrap();
        (g, y, sum)
    };
    let (g, _, sum) = record();
    assert_eq!(nodes(g, &[sum]), ["linear(x weight residual)"], "a tap alone is no reader");
    let (g, y, sum) = record();
    assert_eq!(nodes(g, &[sum, y]), ["linear(x weight)", "add(a b)"], "kept");
    let (mut g, y, sum) = record();
    let other = g.scale(y, 2.0).unwrap();
    assert_eq!(nodes(g, &[sum, other]), ["linear(x weight)", "add(a b)", "scale(x)"], "read");
    let (mut g, y, sum) = record();
    g.scale(y, 2.0).unwrap();
    assert_eq!(nodes(g, &[sum]), ["linear(x weight residual)"], "its other reader is not needed");
    let (mut g, y, _) = record();
    let twice = g.add(y, y).unwrap();
    assert_eq!(nodes(g, &[twice]), ["linear(x weight)", "add(a b)"], "read twice by one");
}

#[test]
fn what_would_have_other_bits_or_shapes_stays() {
    let (mut g, x) = begin(Precision::Bf16);
    let weight = g.parameter("weight", [6, 6], Init::Normal(1.0)).unwrap();
    let rounded = g.linear(x, weight, LinearOptions::default()).unwrap();
    let sum = g.add(x, rounded).unwrap();
    assert_eq!(nodes(g, &[sum]), ["linear(x weight)", "add(a b)"], "rounded before the sum");
    let (mut g, x) = begin(Precision::F32);
    let row = g.parameter("row", [6], Init::Normal(1.0)).unwrap();
    let y = product(&mut g, x, 0);
    let sum = g.add(y, row).unwrap();
    assert_eq!(nodes(g, &[sum]), ["linear(x weight)", "add(a b)"], "repeated along the rows");
    let (mut g, x) = begin(Precision::F32);
    let y = product(&mut g, x, 0);
    let late = g.scale(x, 2.0).unwrap();
    let sum = g.add(y, late).unwrap();
    assert_eq!(nodes(g, &[sum]), ["linear(x weight)", "scale(x)", "add(a b)"], "not there yet");
    let (mut g, x) = begin(Precision::F32);
    let y = product(&mut g, x, 0);
    let sum = g.add(y, x).unwrap();
    let dz = g.apply_one(LinearActivationBackward { activation: Activation::Silu }, &[x, sum]).unwrap();
    assert_eq!(
        nodes(g, &[dz]),
        ["linear(x weight residual)", "linear_activation_backward(z dy)"],
        "a residual comes last"
    );
}

#[test]
fn rounding_and_derivatives_are_joined_with_products() {
    let (mut g, x) = begin(Precision::Bf16);
    let y = product(&mut g, x, 0);
    let before = g.cast(x, DType::BF16).unwrap();
    // A product that runs after what it meets.
    let late = product(&mut g, y, 1);
    let sum = g.add(before, late).unwrap();
    let rounded = g.cast(sum, DType::BF16).unwrap();
    assert_eq!(nodes(g, &[rounded]), ["linear(x weight)", "cast(x)", "linear(x weight residual)"]);
    let (mut g, x) = begin(Precision::Bf16);
    let z = g.cast(x, DType::BF16).unwrap();
    let dy = product(&mut g, x, 0);
    let dz = g.apply_one(LinearActivationBackward { activation: Activation::Gelu }, &[z, dy]).unwrap();
    let sum = g.scale(dz, 2.0).unwrap();
    assert_eq!(nodes(g, &[sum]), ["cast(x)", "linear(x weight z)", "scale(x)"]);
}

#[test]
fn products_with_integers_are_joined_too() {
    let (mut g, x) = begin(Precision::F32);
    let weight = g.parameter("weight", [6, 6], Init::Normal(1.0)).unwrap();
    let y = g.quantised_linear(x, weight, Rounding::Outputs, LinearOptions::default()).unwrap();
    let sum = g.add(y, x).unwrap();
    let normed = g.rms_norm(sum, None, NormSpec::default()).unwrap();
    assert_eq!(nodes(g, &[normed]), ["quantised_linear(x weight residual)", "rms_norm(x statistics)"]);
}

/// Everything that can be joined with one product, as it is planned: a derivative, a sum, and the norm that
/// reads it.
fn everything(g: &mut Graph, integers: bool, [rows, k, n]: [usize; 3]) -> Result<Vec<Var>> {
    let mut input = |name: &str, shape: &[usize]| g.input(name, DType::F32, shape);
    let (x, weight, bias) = (input("x", &[rows, k])?, input("weight", &[n, k])?, input("bias", &[n])?);
    let (z, other) = (input("z", &[rows, n])?, input("other", &[rows, n])?);
    let options =
        LinearOptions { bias: Some(bias), activation: Activation::Relu, ..LinearOptions::default() };
    let y = if integers {
        g.quantised_linear(x, weight, Rounding::Outputs, options)?
    } else {
        g.linear(x, weight, options)?
    };
    let dz = g.apply_one(LinearActivationBackward { activation: Activation::Silu }, &[z, y])?;
    let sum = g.add(dz, other)?;
    let normed = g.layer_norm(sum, None, None, NormSpec::default())?;
    Ok(vec![sum, normed])
}

#[test]
fn what_was_joined_agrees_with_its_specification_its_cost_and_its_reach() {
    for integers in [false, true] {
        for sizes in [[1, 3, 5], [3, 4, 40], [29, 3, 33], [14, 2, 600]] {
            let case = Case::new(move |g| {
                let results = everything(g, integers, sizes)?;
                join(g, &results)?;
                let operands: Vec<Vec<&str>> = g.nodes().iter().map(|node| node.op.operands()).collect();
                assert_eq!(operands, [vec!["x", "weight", "bias", "residual", "z"], vec!["x", "statistics"]]);
                Ok(results)
            });
            case.cpu(4e-6).unwrap();
            case.cost().unwrap();
            if sizes[0] * sizes[2] < 200 {
                case.reach(Exactness::Safe).unwrap();
            }
        }
    }
}

#[test]
fn a_plan_that_is_joined_again_stays_right() {
    let (mut g, x) = begin(Precision::F32);
    let y = product(&mut g, x, 0);
    let normed = g.rms_norm(y, None, NormSpec::default()).unwrap();
    let sum = g.add(y, x).unwrap();
    join(&mut g, &[normed, sum]).unwrap();
    let statistics = g.nodes()[0].outputs[1];
    // Without the norm, y is read once; what was noted of its rows is not that of the sum.
    assert_eq!(nodes(g, &[statistics, sum]), ["linear(x weight)", "add(a b)"]);
}

#[test]
fn what_belongs_to_another_graph_is_not_kept() {
    let ((mut g, x), (_, foreign)) = (begin(Precision::F32), begin(Precision::F32));
    let y = product(&mut g, x, 0);
    let sum = g.add(x, y).unwrap();
    let message = "needed: operand 1 belongs to another graph; record it in this one";
    assert_eq!(joined(&g, &[sum, foreign]).map(|_| ()).unwrap_err().to_string(), message);
    assert_eq!(join(&mut g, &[sum, foreign]).unwrap_err().to_string(), message);
    assert_eq!(joined(&g, &[sum]).unwrap().nodes().len(), 1);
    assert_eq!(g.nodes().len(), 2, "what was recorded stays as it is");
}

#[test]
fn a_plan_is_not_differentiated() {
    let mut g = Graph::new();
    let x = g.input_with_gradient("x", [4, 6]).unwrap();
    let y = product(&mut g, x, 0);
    let sum = g.add(y, x).unwrap();
    let normed = g.rms_norm(sum, None, NormSpec::default()).unwrap();
    join(&mut g, &[normed]).unwrap();
    let loss = g.sum_all(normed).unwrap();
    assert_eq!(
        g.gradient(loss, &[x]).unwrap_err().to_string(),
        "linear: no derivative exists with respect to x: it was joined for a plan; differentiate the graph that was \
         recorded; use stop_gradient if none is wanted"
    );
}

/// A small network with every kind of join, forward and backward.
fn network(g: &mut Graph, precision: Precision, [rows, width]: [usize; 2]) -> Result<Vec<Var>> {
    g.set_precision(precision);
    let mut x = g.input_with_gradient("x", [rows, width])?;
    for block in 0..2 {
        let weight = |g: &mut Graph, name: &str, [n, k]: [usize; 2]| {
            g.parameter(&format!("{block}.{name}"), [n, k], Init::Normal(0.2))
        };
        let narrow = NormSpec { output: Some(precision.activation()), ..NormSpec::default() };
        let wide = LinearOptions { output: Some(DType::F32), ..LinearOptions::default() };
        let normed = g.layer_norm(x, None, None, narrow)?;
        let mut mixed = None;
        for name in ["query", "key", "value"] {
            let weight = weight(g, name, [width, width])?;
            let y = g.linear(normed, weight, LinearOptions::default())?;
            mixed = Some(mixed.map_or(Ok(y), |mixed| g.mul(mixed, y))?);
        }
        let output = weight(g, "output", [width, width])?;
        let added = g.linear(mixed.unwrap_or(normed), output, wide)?;
        x = g.add(x, added)?;
        let normed = g.rms_norm(x, None, narrow)?;
        let (up, down) = (weight(g, "up", [3 * width, width])?, weight(g, "down", [width, 3 * width])?);
        let activation = [Activation::Gelu, Activation::Silu][block];
        let hidden = g.linear(normed, up, LinearOptions { activation, ..LinearOptions::default() })?;
        let added = g.linear(hidden, down, wide)?;
        x = g.add(x, added)?;
    }
    Ok(vec![x])
}

#[test]
fn joined_or_not_every_value_has_the_same_bits() {
    for precision in [Precision::F32, Precision::Bf16] {
        for sizes in [[1, 5], [7, 33], [150, 64]] {
            let case = Case::new(move |g| network(g, precision, sizes));
            let run = |threads: usize, all: bool| -> (usize, Vec<Array>) {
                let Recorded { mut graph, outputs, gradients, feed } = case.backward().unwrap();
                let named: Vec<Var> =
                    outputs.into_iter().chain(gradients.into_iter().map(|(_, _, grad)| grad)).collect();
                for (index, var) in named.iter().enumerate() {
                    graph.output(&format!("named.{index}"), *var).unwrap();
                }
                if all {
                    let made: Vec<Var> = graph.nodes().iter().flat_map(|node| node.outputs.clone()).collect();
                    for (index, var) in made.iter().enumerate() {
                        graph.output(&format!("made.{index}"), *var).unwrap();
                    }
                }
                let mut store = Store::new(0);
                let cpu = Cpu::with(threads, regard_device::Level::best()).unwrap();
                let mut program = Program::new(graph, &[], &mut store, &cpu).unwrap();
                regard_engine::check::fill_store(&mut store, &feed).unwrap();
                for (name, array) in &feed.inputs {
                    program.set_array(name, array).unwrap();
                }
                program.run(&mut store).unwrap();
                let found = (0..named.len()).map(|index| program.array(&format!("named.{index}")).unwrap());
                (program.graph().nodes().len(), found.collect())
            };
            let (few, first) = run(1, false);
            for (threads, all) in [(1, true), (2, false), (2, true)] {
                let (nodes, found) = run(threads, all);
                assert!(!all || nodes > few + 15, "{nodes} nodes apart, {few} joined");
                for (a, b) in first.iter().zip(&found) {
                    let same = a.data().iter().zip(b.data()).all(|(x, y)| x.to_bits() == y.to_bits());
                    assert!(same, "{precision:?} {sizes:?}, {threads} threads, every value kept: {all}");
                }
            }
        }
    }
}
