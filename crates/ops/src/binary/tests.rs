//! Elementwise arithmetic: values, broadcasting, every reader.

use regard_engine::check::Case;
use regard_engine::{Feed, reference};
use regard_graph::{Graph, Var, shape};
use regard_ops::prelude::*;
use regard_ops::{Arithmetic, Array, Binary};

fn case(kind: Arithmetic, a: &'static [usize], b: &'static [usize]) -> Case<'static> {
    Case::new(move |g| {
        let a = g.input_with_gradient("a", a)?;
        let b = g.input_with_gradient("b", b)?;
        Ok(vec![g.apply_one(Binary { kind }, &[a, b])?])
    })
}

#[test]
fn values() {
    let mut g = Graph::new();
    let a = g.input("a", DType::F32, [2, 3]).unwrap();
    let b = g.input("b", DType::F32, [3]).unwrap();
    let vars: Vec<Var> =
        vec![g.add(a, b).unwrap(), g.sub(a, b).unwrap(), g.mul(a, b).unwrap(), g.div(a, b).unwrap()];
    let feed = Feed::new()
        .with("a", Array::new(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap())
        .with("b", Array::new(&[3], vec![2.0, 4.0, -1.0]).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    assert_eq!(run.value(vars[0]).data(), [3.0, 6.0, 2.0, 6.0, 9.0, 5.0]);
    assert_eq!(run.value(vars[1]).data(), [-1.0, -2.0, 4.0, 2.0, 1.0, 7.0]);
    assert_eq!(run.value(vars[2]).data(), [2.0, 8.0, -3.0, 8.0, 20.0, -6.0]);
    assert_eq!(run.value(vars[3]).data(), [0.5, 0.5, -3.0, 2.0, 1.25, -6.0]);
}

#[test]
fn every_reader_agrees() {
    let shapes: [(&'static [usize], &'static [usize]); 7] = [
        (&[2, 3], &[2, 3]),
        (&[5, 1, 7], &[3, 1]),
        (&[1], &[13, 2]),
        (&[], &[4]),
        (&[2, 1, 3], &[1, 5, 1]),
        (&[1, 1], &[1]),
        (&[17, 31], &[31]),
    ];
    for (a, b) in shapes {
        for kind in [Arithmetic::Add, Arithmetic::Subtract, Arithmetic::Multiply] {
            case(kind, a, b).all(5e-7).unwrap();
        }
        // Away from a divisor near zero, where differences say nothing.
        let count: usize = b.iter().product();
        let divisor: Vec<f64> = (0..count).map(|i| if i % 2 == 0 { 1.5 } else { -2.25 }).collect();
        case(Arithmetic::Divide, a, b).given("b", b, &divisor).all(5e-7).unwrap();
    }
}

#[test]
fn long_rows_cross_chunks() {
    case(Arithmetic::Multiply, &[3, 1, 1201], &[2, 1201]).cpu(5e-7).unwrap();
    case(Arithmetic::Add, &[40_003], &[40_003]).cpu(5e-7).unwrap();
}

#[test]
fn nothing_to_add() {
    case(Arithmetic::Add, &[0, 3], &[3]).cpu(0.0).unwrap();
    case(Arithmetic::Multiply, &[2, 0], &[2, 1]).cpu(0.0).unwrap();
}

#[test]
fn bf16_meets_f32() {
    let case = Case::new(|g| {
        let a = g.input("a", DType::BF16, [4, 9])?;
        let b = g.input("b", DType::BF16, [9])?;
        let c = g.input("c", DType::F32, [4, 1])?;
        let sum = g.add(a, b)?;
        Ok(vec![sum, g.mul(sum, c)?])
    });
    case.cpu(4e-3).unwrap();
}

#[test]
fn open_letters_broadcast() {
    let case = Case::new(|g| {
        let t = g.open('T', 16)?;
        let a = g.input_with_gradient("a", shape![2, t, 3])?;
        let b = g.input_with_gradient("b", shape![t, 1])?;
        Ok(vec![g.mul(a, b)?])
    });
    case.size('T', 5).all(5e-7).unwrap();
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let a = g.input("a", DType::F32, [2, 3]).unwrap();
    let b = g.input("b", DType::F32, [2]).unwrap();
    let i = g.input("i", DType::I32, [3]).unwrap();
    assert_eq!(
        g.add(a, b).unwrap_err().to_string(),
        "add: b is [2], expected sizes equal to those of [2 3], or 1; a is [2 3], aligned at the last axis"
    );
    assert_eq!(
        g.mul(a, i).unwrap_err().to_string(),
        "mul: b is i32, expected f32 or bf16; cast it to f32 first"
    );
}
