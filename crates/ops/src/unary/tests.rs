//! Functions of one number: values, slopes, every reader, the edges of their domains.

use regard_engine::check::Case;
use regard_engine::{Cpu, Feed, Program, Store, reference};
use regard_graph::{Graph, shape};
use regard_ops::prelude::*;
use regard_ops::{Array, Function};

fn case(function: Function, dims: &'static [usize]) -> Case<'static> {
    let case = Case::new(move |g| {
        let x = g.input_with_gradient("x", dims)?;
        Ok(vec![g.unary(function, x)?])
    });
    let count: usize = dims.iter().product();
    match function {
        // Inside the domain, and away from 0, where slopes grow beyond bounds or jump.
        Function::Log | Function::Sqrt => {
            let numbers: Vec<f64> = (0..count).map(|i| 0.5 + (i * 7 % 23) as f64 / 8.0).collect();
            case.given("x", dims, &numbers)
        }
        Function::Recip | Function::Relu | Function::Abs => {
            let size = |i: usize| 0.25 + (i * 5 % 19) as f64 / 16.0;
            let numbers: Vec<f64> = (0..count).map(|i| if i % 3 == 0 { -size(i) } else { size(i) }).collect();
            case.given("x", dims, &numbers).draws(60) // enough to cross the kink
        }
        _ => case,
    }
}

/// About twice PyTorch's own errors (the larger of forward and gradient) for these functions.
fn bound(function: Function) -> f64 {
    match function {
        Function::Relu | Function::Abs => 0.0,
        Function::Gelu => 5.3e-7,
        Function::GeluTanh => 2.3e-7,
        Function::Silu => 2.6e-7,
        Function::Tanh => 1.7e-7,
        Function::Sigmoid => 3.4e-7,
        Function::Exp => 1.4e-7,
        Function::Log => 1.2e-7,
        Function::Sqrt | Function::Square | Function::Recip => 2.1e-7,
    }
}

#[test]
fn values() {
    // x, then f(x); by hand, or from tables (Φ(1) = 0.8413447460685429).
    let known = [
        (Function::Relu, -2.0, 0.0),
        (Function::Relu, 3.0, 3.0),
        (Function::Gelu, 1.0, 0.841_344_746_068_542_9),
        (Function::Gelu, -1.0, -0.158_655_253_931_457_1),
        (Function::GeluTanh, 1.0, 0.841_191_990_608_276_8),
        (Function::Silu, 1.0, 0.731_058_578_630_004_9),
        (Function::Tanh, 0.5, 0.462_117_157_260_009_8),
        (Function::Sigmoid, -1.0, 0.268_941_421_369_995_1),
        (Function::Exp, 1.0, std::f64::consts::E),
        (Function::Log, 2.0, std::f64::consts::LN_2),
        (Function::Sqrt, 2.0, std::f64::consts::SQRT_2),
        (Function::Square, -3.0, 9.0),
        (Function::Abs, -3.5, 3.5),
        (Function::Recip, -4.0, -0.25),
    ];
    for (function, x, y) in known {
        assert!((function.value(x) - y).abs() < 1e-14, "{function:?}({x}) = {}", function.value(x));
    }
}

#[test]
fn every_reader_agrees() {
    for function in Function::ALL {
        for dims in [&[1][..], &[], &[7, 13], &[2, 3, 5], &[3, 0], &[1201]] {
            let case = case(function, dims);
            case.all(bound(function)).unwrap_or_else(|e| panic!("{function:?} {dims:?}: {e}"));
        }
    }
}

#[test]
fn open_letters() {
    let case = Case::new(|g| {
        let t = g.open('T', 16)?;
        let x = g.input_with_gradient("x", shape![2, t])?;
        Ok(vec![g.gelu(x)?])
    });
    case.size('T', 5).all(5.3e-7).unwrap();
}

#[test]
fn bf16() {
    for function in Function::ALL {
        let case = Case::new(move |g| {
            let x = g.input_with_gradient("x", [3, 17])?;
            let positive = g.square(x)?;
            let positive = g.shift(positive, 0.25)?;
            let x = g.cast(positive, DType::BF16)?;
            let y = g.unary(function, x)?;
            Ok(vec![y])
        });
        case.cpu(0.008).unwrap_or_else(|e| panic!("{function:?}: {e}"));
        case.cost().unwrap();
        let recorded = case.forward().unwrap();
        assert_eq!(recorded.graph.dtype(recorded.outputs[0]), DType::BF16);
    }
}

#[test]
fn the_edges_are_those_of_ieee() {
    let mut g = Graph::inference();
    let x = g.input("x", DType::F32, [4]).unwrap();
    for function in [Function::Log, Function::Sqrt, Function::Recip, Function::Relu] {
        let y = g.unary(function, x).unwrap();
        g.output(function.name(), y).unwrap();
    }
    let (cpu, mut store) = (Cpu::new().unwrap(), Store::new(0));
    let mut program = Program::new(g, &[], &mut store, &cpu).unwrap();
    program.set_f32("x", &[4], &[-1.0, 0.0, f32::INFINITY, f32::NAN]).unwrap();
    program.run(&mut store).unwrap();
    let got = |name: &str| program.array(name).unwrap().data().to_vec();
    let [log, sqrt, recip, relu] = ["log", "sqrt", "recip", "relu"].map(got);
    assert!(log[0].is_nan() && log[1..3] == [f64::NEG_INFINITY, f64::INFINITY] && log[3].is_nan());
    assert!(sqrt[0].is_nan() && sqrt[1..3] == [0.0, f64::INFINITY] && sqrt[3].is_nan());
    assert!(recip[..3] == [-1.0, f64::INFINITY, 0.0] && recip[3].is_nan());
    assert!(relu[..3] == [0.0, 0.0, f64::INFINITY] && relu[3].is_nan());
}

#[test]
fn kinks_have_slope_zero() {
    let mut g = Graph::new();
    let x = g.input_with_gradient("x", [1]).unwrap();
    let (a, b) = (g.relu(x).unwrap(), g.abs(x).unwrap());
    let sum = g.add(a, b).unwrap();
    let grads = g.gradient(sum, &[x]).unwrap();
    let feed = Feed::new().with("x", Array::new(&[1], vec![0.0]).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    assert_eq!(run.value(grads[0]).data(), [0.0]);
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let i = g.input("i", DType::I32, [3]).unwrap();
    assert_eq!(
        g.gelu(i).unwrap_err().to_string(),
        "gelu: x is i32, expected f32 or bf16; cast it to f32 first"
    );
}
