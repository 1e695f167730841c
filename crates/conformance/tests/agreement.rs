//! Random programs on the CPU engine against the reference, node by node, values and gradients, f32 and bf16, at
//! every SIMD level.

use regard::check::{Case, Recorded, error_of_scale, fill_store, largest};
use regard::device::Level;
use regard::graph::{Node, Pass};
use regard::ops::{ReferenceCall, kernels_of, random_numbers};
use regard::prelude::*;
use regard_conformance::bounds::Bounds;
use regard_conformance::programs::Recipe;
use std::collections::HashMap;

/// How many programs of each precision.
const PROGRAMS: u64 = 600;

fn case(recipe: Recipe) -> Case<'static> {
    let random: Vec<f64> = random_numbers(recipe.seed, 3, 0).iter().map(|&x| x as f64).collect();
    Case::new(move |g| recipe.record(g)).given("random", &[random.len()], &random).seed(recipe.seed)
}

/// Every value of a program as the CPU engine computes it.
fn all_values(case: &Case<'_>, cpu: &Cpu) -> (Graph, HashMap<usize, Array>) {
    let Recorded { mut graph, feed, .. } = case.backward().unwrap();
    let vars: Vec<Var> = graph.nodes().iter().flat_map(|node| node.outputs.clone()).collect();
    for var in &vars {
        graph.output(&format!("value.{}", var.index()), *var).unwrap();
    }
    let mut store = Store::new(0);
    let mut program = Program::new(graph, &[], &mut store, cpu).unwrap();
    fill_store(&mut store, &feed).unwrap();
    let mut values = HashMap::new();
    for (index, value) in program.graph().values().iter().enumerate() {
        if let regard::graph::Origin::Stored(stored) = value.origin {
            values.insert(index, store.array(&program.graph().stored()[stored].name).unwrap());
        }
        if let regard::graph::Origin::Constant(numbers) = &value.origin {
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
    let Recorded { graph, .. } = case.backward().unwrap();
    (graph, values)
}

/// Each node, given the very operands that the CPU engine gave it, against its specification.
fn check_nodes(recipe: Recipe, bounds: &Bounds, cpu: &Cpu) {
    let (graph, values) = all_values(&case(recipe), cpu);
    for node in graph.nodes() {
        let inputs: Vec<Array> = node.inputs.iter().map(|var| values[&var.index()].clone()).collect();
        let wanted = specified(&graph, node, &inputs);
        let whole = wanted.iter().map(|want| largest(want.data())).fold(0.0, f64::max);
        for (&var, want) in node.outputs.iter().zip(&wanted) {
            let own = if node.pass == Pass::Backward { whole } else { largest(want.data()) };
            let scale = own.max(CANCELLED * terms(&graph, node, &inputs));
            let error = error_of_scale(values[&var.index()].data(), want.data(), scale);
            let bound = bounds.of(node, recipe.precision);
            assert!(
                error <= bound,
                "seed {}: {} ({:?}) is off by {error:.2e}, bound {bound:.2e}, {}",
                recipe.seed,
                node.name,
                node.op,
                cpu.level()
            );
        }
    }
}

/// Results below this share of their terms are what is left of sums that cancel, and so is their error.
const CANCELLED: f64 = 0.1;

/// How much this allows: measured against the largest number of each result instead, 171 of 50,587 results in f32
/// (122 of them of `attention_backward`, 32 of `sum_to`) and 5 of 51,625 in bf16 would be over their bound. PyTorch's error
/// was not measured on such operands; its table leaves shapes that always cancel out.
///
/// The size of the terms that a node adds up. The results of a backward op are one gradient: where all weight is on
/// one key, say, what reaches the scores is nothing but cancelled terms of the size of the rest.
fn terms(graph: &Graph, node: &Node, inputs: &[Array]) -> f64 {
    match node.op.name() {
        "sum_to" | "matmul" | "linear" | "weight_gradient" => {
            let positive: Vec<Array> = inputs.iter().map(magnitudes).collect();
            specified(graph, node, &positive).iter().map(|want| largest(want.data())).fold(0.0, f64::max)
        }
        // Differences to a log-sum-exp, and to a weighted mean of the gradient.
        "log_softmax" | "cross_entropy" => largest(inputs[0].data()) / CANCELLED,
        "linear_cross_entropy" => {
            let logit =
                largest(inputs[0].data()) * largest(inputs[1].data()) * inputs[0].dims().last_size() as f64;
            logit / CANCELLED
        }
        "softmax_backward" | "log_softmax_backward" => {
            largest(inputs[0].data()) * largest(inputs[1].data()) / CANCELLED
        }
        // x · (1 + erf x): far below zero, what is left of the sum.
        "gelu" | "gelu_tanh" => largest(inputs[0].data()),
        "gated" | "gated_backward" | "linear_activation_backward" | "unary_backward" => {
            inputs.iter().map(|input| largest(input.data())).product()
        }
        // A mean taken off numbers that hardly differ from it.
        "layer_norm" | "layer_norm_backward" => {
            let x = &inputs[0];
            let flatness = |row: usize| largest(x.row(row)) / spread(x.row(row));
            let scale = inputs.get(1).map_or(1.0, |scale| largest(scale.data()));
            (0..x.dims().rows()).map(flatness).fold(0.0, f64::max) * scale / CANCELLED
        }
        _ => 0.0,
    }
}

/// The standard deviation.
fn spread(row: &[f64]) -> f64 {
    let mean = row.iter().sum::<f64>() / row.len() as f64;
    (row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / row.len() as f64 + 1e-5).sqrt()
}

/// What the specification of a node gives for some operands, rounded where the dtype rounds.
fn specified(graph: &Graph, node: &Node, inputs: &[Array]) -> Vec<Array> {
    let inputs: Vec<&Array> = inputs.iter().collect();
    let mut outputs: Vec<Array> =
        node.outputs.iter().map(|&var| Array::zeros(graph.shape(var).bound())).collect();
    let used = vec![true; node.outputs.len()];
    let mut call = ReferenceCall {
        inputs: &inputs,
        outputs: &mut outputs,
        used: &used,
        rounded: true,
        macs: 0,
        flops: 0,
    };
    kernels_of(node).unwrap().reference(&mut call).unwrap();
    let round =
        |(&var, want): (&Var, Array)| if graph.dtype(var) == DType::BF16 { want.rounded() } else { want };
    node.outputs.iter().zip(outputs).map(round).collect()
}

fn magnitudes(array: &Array) -> Array {
    let mut array = array.clone();
    array.data_mut().iter_mut().for_each(|x| *x = x.abs());
    array
}

fn check_programs(precision: Precision) {
    let bounds = Bounds::new();
    let engines: Vec<Cpu> = Level::available().iter().map(|&level| Cpu::with(2, level).unwrap()).collect();
    for seed in 0..PROGRAMS {
        // Each level in turn; that levels give the same bits is asserted below.
        let engine = &engines[seed as usize % engines.len()];
        check_nodes(Recipe::new(seed, precision), &bounds, engine);
    }
}

#[test]
fn f32_programs_agree_with_the_reference() {
    check_programs(Precision::F32);
}

#[test]
fn bf16_programs_agree_with_the_rounded_reference() {
    check_programs(Precision::Bf16);
}

#[test]
fn keeping_every_value_levels_and_threads_change_no_bit() {
    for precision in [Precision::F32, Precision::Bf16] {
        for seed in 0..40 {
            let case = case(Recipe::new(seed, precision));
            // Planned as usual: values share the arena and are written over one another.
            let usual = case.run_on(&Cpu::with(1, Level::best()).unwrap()).unwrap();
            for &level in Level::available() {
                // AMX sums products of bf16 in an order of its own.
                let known = if level.same_bits(Level::best(), precision == Precision::Bf16) {
                    usual.clone()
                } else {
                    case.run_on(&Cpu::with(1, Level::PORTABLE).unwrap()).unwrap()
                };
                for threads in [1, 2, 3, 4] {
                    let got = case.run_on(&Cpu::with(threads, level).unwrap()).unwrap();
                    assert_eq!(known.len(), got.len());
                    for (a, b) in known.iter().zip(&got) {
                        let same = a.data().iter().zip(b.data()).all(|(x, y)| x.to_bits() == y.to_bits());
                        assert!(same, "seed {seed}, {precision:?}, {level}, {threads} threads");
                    }
                }
            }
            let (graph, values) = all_values(&case, &Cpu::with(2, Level::best()).unwrap());
            let Recorded { outputs, .. } = case.backward().unwrap();
            for (output, usual) in outputs.iter().zip(&usual) {
                let kept = &values[&graph.var(output.index()).index()];
                let same = kept.data().iter().zip(usual.data()).all(|(x, y)| x.to_bits() == y.to_bits());
                assert!(same, "seed {seed}, {precision:?}: looking at everything changed a bit");
            }
        }
    }
}

#[test]
fn gradients_of_programs_agree_with_central_differences() {
    for seed in 1000..1030 {
        let case = case(Recipe { most: [2, 4, 8], ops: [5, 20], ..Recipe::new(seed, Precision::F32) });
        case.gradients().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

#[test]
fn the_cost_of_programs_is_what_the_reference_counts() {
    for seed in 2000..2060 {
        let case = case(Recipe::new(seed, Precision::F32));
        case.cost().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}
