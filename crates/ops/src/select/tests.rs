//! Choice by a mask: values, broadcasting, gradients, what is not chosen stays out.

use regard_engine::check::{Case, Exactness};
use regard_engine::{Feed, reference};
use regard_graph::{Graph, shape};
use regard_ops::Array;
use regard_ops::prelude::*;

fn mask_of(dims: &[usize]) -> Vec<f64> {
    (0..dims.iter().product()).map(|i: usize| f64::from(u8::from(i * 7 % 5 < 2))).collect()
}

#[test]
fn values() {
    let mut g = Graph::new();
    let mask = g.input("mask", DType::Bool, [2, 1]).unwrap();
    let a = g.input("a", DType::F32, [2]).unwrap();
    let b = g.input("b", DType::F32, []).unwrap();
    let y = g.select(mask, a, b).unwrap();
    let feed = Feed::new()
        .with("mask", Array::new(&[2, 1], vec![1.0, 0.0]).unwrap())
        .with("a", Array::new(&[2], vec![1.0, 2.0]).unwrap())
        .with("b", Array::scalar(-9.0));
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    assert_eq!(run.value(y).data(), [1.0, 2.0, -9.0, -9.0]);
}

#[test]
fn every_reader_agrees() {
    let shapes: [[&'static [usize]; 3]; 7] = [
        [&[3, 5], &[3, 5], &[3, 5]],
        [&[3, 1], &[5], &[3, 5]],
        [&[7], &[2, 1], &[]],
        [&[1], &[4], &[4]],
        [&[], &[2, 3], &[3]],
        [&[0, 3], &[3], &[1, 3]],
        [&[2, 601], &[2, 601], &[601]],
    ];
    for [mask, a, b] in shapes {
        let case = Case::new(move |g| {
            let m = g.input("mask", DType::Bool, mask)?;
            let (a, b) = (g.input_with_gradient("a", a)?, g.input_with_gradient("b", b)?);
            Ok(vec![g.select(m, a, b)?])
        });
        let case = case.given("mask", mask, &mask_of(mask));
        // The gradient of what was repeated is a sum.
        case.gradients().unwrap_or_else(|e| panic!("{mask:?} {a:?} {b:?}: {e}"));
        case.cpu(1.2e-6).unwrap_or_else(|e| panic!("{mask:?} {a:?} {b:?}: {e}"));
        case.cost().unwrap();
        // A single number has no axis along which its influence could be listed.
        let exactness = if b.is_empty() { Exactness::Safe } else { Exactness::Equal };
        case.reach(exactness).unwrap_or_else(|e| panic!("{mask:?} {a:?} {b:?}: {e}"));
    }
}

#[test]
fn integers_bf16_and_open_letters() {
    let case = Case::new(|g| {
        let t = g.open('T', 8)?;
        let mask = g.input("mask", DType::Bool, shape![2, t])?;
        let i = g.input("i", DType::I32, shape![t])?;
        let j = g.input("j", DType::I32, [2, 1])?;
        let x = g.input_with_gradient("x", shape![2, t])?;
        let x = g.cast(x, DType::BF16)?;
        let y = g.select(mask, x, x)?;
        assert_eq!(g.dtype(y), DType::BF16);
        Ok(vec![g.select(mask, i, j)?, y])
    });
    let case = case.size('T', 3).given("mask", &[2, 3], &mask_of(&[2, 3]));
    case.given("i", &[3], &[1.0, 2.0, 3.0]).given("j", &[2, 1], &[-1.0, -2.0]).cpu(0.008).unwrap();
}

#[test]
fn what_is_not_chosen_stays_out() {
    let mut g = Graph::new();
    let mask = g.input("mask", DType::Bool, [2]).unwrap();
    let x = g.input_with_gradient("x", [2]).unwrap();
    let log = g.log(x).unwrap();
    let y = g.select(mask, x, log).unwrap();
    let loss = g.sum_all(y).unwrap();
    let (dx, dlog) = (g.gradient(loss, &[x]).unwrap()[0], g.gradient(loss, &[log]).unwrap()[0]);
    let feed = Feed::new()
        .with("mask", Array::new(&[2], vec![1.0, 0.0]).unwrap())
        .with("x", Array::new(&[2], vec![-1.0, 2.0]).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    assert_eq!(run.value(y).data(), [-1.0, 2f64.ln()]);
    assert_eq!(run.value(dlog).data(), [0.0, 1.0]);
    assert_eq!(run.value(dx).data(), [1.0, 0.5]);
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let mask = g.input("mask", DType::Bool, [2]).unwrap();
    let wide = g.input("wide", DType::Bool, [3]).unwrap();
    let x = g.input("x", DType::F32, [2]).unwrap();
    let i = g.input("i", DType::I32, [2]).unwrap();
    let y = g.input("y", DType::F32, [3]).unwrap();
    let text = |result: regard_graph::Result<Var>| result.unwrap_err().to_string();
    assert_eq!(
        text(g.select(x, x, x)),
        "select: mask is f32, expected bool; make it with `less`, `less_equal` or `equal`"
    );
    assert_eq!(text(g.select(mask, x, i)), "select: b is i32, expected f32 or bf16 as a; cast one of them");
    assert_eq!(text(g.select(mask, i, x)), "select: b is f32, expected i32 as a; cast one of them");
    assert_eq!(
        text(g.select(mask, mask, mask)),
        "select: a is bool, expected i32, f32 or bf16; cast it to f32 first"
    );
    assert_eq!(
        text(g.select(mask, x, y)),
        "select: b is [3], expected sizes equal to those of [2], or 1; a is [2], aligned at the last axis"
    );
    assert_eq!(
        text(g.select(wide, x, x)),
        "select: mask is [3], expected sizes equal to those of [2], or 1; a with b is [2], aligned at the last axis"
    );
}
