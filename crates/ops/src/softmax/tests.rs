//! Softmax and its logarithm: values, large numbers, empty distributions, every reader.

use regard_engine::check::{Case, Exactness};
use regard_engine::{Cpu, Feed, Program, Store, reference};
use regard_graph::{Graph, shape};
use regard_ops::Array;
use regard_ops::prelude::*;

const NEVER: f64 = f64::NEG_INFINITY;

fn case(log: bool, beta: f32, dims: &'static [usize]) -> Case<'static> {
    Case::new(move |g| {
        let x = g.input_with_gradient("x", dims)?;
        Ok(vec![if log { g.log_softmax_scaled(x, beta)? } else { g.softmax_scaled(x, beta)? }])
    })
}

#[test]
fn values() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 2]).unwrap();
    let y = g.softmax(x).unwrap();
    let sharp = g.softmax_scaled(x, 2.0).unwrap();
    let log = g.log_softmax(x).unwrap();
    let feed = Feed::new().with("x", Array::new(&[2, 2], vec![0.0, 3f64.ln(), 1.0, 1.0]).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    let close = |got: &[f64], want: [f64; 4]| {
        assert!(got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-15), "{got:?} {want:?}");
    };
    close(run.value(y).data(), [0.25, 0.75, 0.5, 0.5]);
    close(run.value(sharp).data(), [0.1, 0.9, 0.5, 0.5]);
    close(run.value(log).data(), [0.25f64.ln(), 0.75f64.ln(), 0.5f64.ln(), 0.5f64.ln()]);
}

#[test]
fn every_reader_agrees() {
    for dims in [&[1][..], &[3], &[2, 17], &[3, 1, 5], &[2, 0], &[0, 3], &[2, 513]] {
        // A sharp row of few elements has almost no gradient, and then its relative error says nothing.
        let sharp = if dims.iter().any(|&size| size > 16) { 2.5 } else { 1.5 };
        for beta in [1.0, 0.3, sharp] {
            // About twice PyTorch's own errors.
            for (log, bound) in [(false, 2.7e-7), (true, 3.5e-7)] {
                let case = case(log, beta, dims);
                case.gradients().unwrap_or_else(|e| panic!("{log} {dims:?} {beta}: {e}"));
                case.cpu(bound).unwrap_or_else(|e| panic!("{log} {dims:?} {beta}: {e}"));
                case.cost().unwrap_or_else(|e| panic!("{log} {dims:?} {beta}: {e}"));
                // A row of one element is a constant, unless that is −∞ or NaN.
                let one = dims.last() == Some(&1);
                let exactness = if one { Exactness::Safe } else { Exactness::Equal };
                case.reach(exactness).unwrap_or_else(|e| panic!("{log} {dims:?} {beta}: {e}"));
            }
        }
    }
}

#[test]
fn open_letters_and_bf16() {
    for log in [false, true] {
        let case = Case::new(move |g| {
            let (b, v) = (g.open('B', 4)?, g.open('V', 40)?);
            let x = g.input_with_gradient("x", shape![b, v])?;
            Ok(vec![if log { g.log_softmax(x)? } else { g.softmax(x)? }])
        });
        case.size('B', 3).size('V', 19).all(3.5e-7).unwrap();
        let case = Case::new(move |g| {
            let x = g.input_with_gradient("x", [3, 31])?;
            let x = g.cast(x, DType::BF16)?;
            Ok(vec![if log { g.log_softmax(x)? } else { g.softmax(x)? }])
        });
        case.cpu(0.013).unwrap();
    }
}

#[test]
fn huge_numbers_are_safe() {
    let numbers = [1e4, -1e4, 9.999e3, 0.0, -1e4, -1e4, -1e4, -1e4, 1e4, 1e4, 1e4, 1e4];
    for log in [false, true] {
        case(log, 1.0, &[3, 4]).given("x", &[3, 4], &numbers).cpu(3.5e-7).unwrap();
    }
}

/// Runs softmax or its logarithm and the gradient of Σ k·y_k on both engines; they must agree.
fn row(log: bool, x: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let n = x.len();
    let mut g = Graph::new();
    let v = g.input_with_gradient("x", [n]).unwrap();
    let y = if log { g.log_softmax(v) } else { g.softmax(v) }.unwrap();
    // A weight of 0 where y is −∞ keeps the loss itself a number; the gradient of y is then 0 there.
    let weights: Vec<f64> = (0..n).map(|k| if x[k] == NEVER { 0.0 } else { k as f64 }).collect();
    let w = g.constant(DType::F32, [n], &weights).unwrap();
    let product = g.mul(y, w).unwrap();
    let loss = g.sum_all(product).unwrap();
    let dx = g.gradient(loss, &[v]).unwrap()[0];
    g.output("y", y).unwrap();
    g.output("dx", dx).unwrap();
    let feed = Feed::new().with("x", Array::new(&[n], x.to_vec()).unwrap());
    let exact = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    let (want_y, want_dx) = (exact.value(y).data().to_vec(), exact.value(dx).data().to_vec());
    let (cpu, mut store) = (Cpu::new().unwrap(), Store::new(0));
    let mut program = Program::new(g, &[], &mut store, &cpu).unwrap();
    program.set_array("x", &Array::new(&[n], x.to_vec()).unwrap()).unwrap();
    program.run(&mut store).unwrap();
    for (name, want) in [("y", &want_y), ("dx", &want_dx)] {
        let got = program.array(name).unwrap();
        for (a, b) in got.data().iter().zip(want) {
            assert!(a == b || (a - b).abs() < 1e-6 || (a.is_nan() && b.is_nan()), "{name} {got:?} {want:?}");
        }
    }
    (want_y, want_dx)
}

#[test]
fn a_row_without_anything_has_zeros() {
    assert_eq!(row(false, &[NEVER; 3]), (vec![0.0; 3], vec![0.0; 3]));
    assert_eq!(row(true, &[NEVER; 3]), (vec![NEVER; 3], vec![0.0; 3]));
    let (y, dx) = row(false, &[NEVER, 0.0, 0.0]);
    assert_eq!(y, [0.0, 0.5, 0.5]);
    assert_eq!(dx, [0.0, -0.25, 0.25]);
    let (y, _) = row(true, &[NEVER, 0.0, 0.0]);
    assert_eq!(y[0], NEVER);
    assert!(row(false, &[f64::NAN; 2]).0.iter().all(|y| y.is_nan()), "NaN is not silenced");
}

#[test]
fn what_follows_at_minus_infinity_changes_no_bit() {
    let short: Vec<f32> = (0..37).map(|k| ((k * 29 % 41) as f32 - 20.0) / 3.0).collect();
    let mut long = short.clone();
    long.resize(64, f32::NEG_INFINITY);
    let run = |x: &[f32], log: bool| {
        let mut g = Graph::inference();
        let v = g.input("x", DType::F32, [x.len()]).unwrap();
        let y = if log { g.log_softmax(v) } else { g.softmax(v) }.unwrap();
        g.output("y", y).unwrap();
        let (cpu, mut store) = (Cpu::new().unwrap(), Store::new(0));
        let mut program = Program::new(g, &[], &mut store, &cpu).unwrap();
        program.set_f32("x", &[x.len()], x).unwrap();
        program.run(&mut store).unwrap();
        program.array("y").unwrap().data()[..37].to_vec()
    };
    for log in [false, true] {
        assert_eq!(run(&short, log), run(&long, log));
    }
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [3]).unwrap();
    let one = g.input("one", DType::F32, []).unwrap();
    let i = g.input("i", DType::I32, [3]).unwrap();
    let text = |result: regard_graph::Result<Var>| result.unwrap_err().to_string();
    assert_eq!(text(g.softmax(one)), "softmax: x is [], expected [... V]");
    assert_eq!(text(g.log_softmax(i)), "log_softmax: x is i32, expected f32 or bf16; cast it to f32 first");
    for beta in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        assert_eq!(
            text(g.softmax_scaled(x, beta)),
            format!("softmax: beta is {beta}; an inverse temperature is a finite number above 0")
        );
    }
}
