//! Sums of integers: broadcasting, open letters, overflow.

use regard_engine::check::Case;
use regard_engine::{Cpu, Feed, Program, Store, reference};
use regard_graph::{Graph, shape};
use regard_ops::Array;
use regard_ops::prelude::*;

#[test]
fn values_and_open_letters() {
    let case = Case::new(|g| {
        let (b, t) = (g.open('B', 3)?, g.open('T', 8)?);
        let offset = g.input("offset", DType::I32, shape![b, 1])?;
        let count = g.input("count", DType::I32, shape![t])?;
        Ok(vec![g.add_integers(offset, count)?])
    });
    let case = case.size('B', 2).size('T', 3);
    let case = case.given("offset", &[2, 1], &[10.0, -1.0]).given("count", &[3], &[0.0, 1.0, 2.0]);
    case.cpu(0.0).unwrap();
    case.cost().unwrap();
    let recorded = case.forward().unwrap();
    let run = reference::run(&recorded.graph, &recorded.feed, reference::Mode::Exact).unwrap();
    assert_eq!(run.value(recorded.outputs[0]).data(), [10.0, 11.0, 12.0, -1.0, 0.0, 1.0]);
}

#[test]
fn nothing_to_add() {
    let case = Case::new(|g| {
        let (a, b) = (g.input("a", DType::I32, [2, 0])?, g.input("b", DType::I32, [2, 1])?);
        Ok(vec![g.add_integers(a, b)?])
    });
    case.given("a", &[2, 0], &[]).given("b", &[2, 1], &[1.0, 2.0]).cpu(0.0).unwrap();
}

#[test]
fn overflow_is_a_fault() {
    let mut g = Graph::inference();
    let a = g.input("a", DType::I32, [2]).unwrap();
    let b = g.input("b", DType::I32, []).unwrap();
    let sum = g.add_integers(a, b).unwrap();
    g.output("sum", sum).unwrap();
    let feed = Feed::new()
        .with("a", Array::new(&[2], vec![1.0, 2147483647.0]).unwrap())
        .with("b", Array::scalar(1.0));
    let text = "add_integers: 2147483647 + 1 does not fit into i32; use smaller numbers";
    let error = reference::run(&g, &feed, reference::Mode::Exact).err().unwrap();
    assert!(error.to_string().contains(text), "{error}");
    let (cpu, mut store) = (Cpu::new().unwrap(), Store::new(0));
    let mut program = Program::new(g, &[], &mut store, &cpu).unwrap();
    program.set_i32("a", &[2], &[1, i32::MAX]).unwrap();
    program.set_i32("b", &[], &[1]).unwrap();
    let error = program.run(&mut store).unwrap_err();
    assert!(error.to_string().contains(text), "{error}");
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let i = g.input("i", DType::I32, [3]).unwrap();
    let j = g.input("j", DType::I32, [2]).unwrap();
    let x = g.input("x", DType::F32, [3]).unwrap();
    let text = |result: regard_graph::Result<Var>| result.unwrap_err().to_string();
    assert_eq!(text(g.add_integers(i, x)), "add_integers: b is f32, expected i32; use `add` for floats");
    assert_eq!(
        text(g.add_integers(i, j)),
        "add_integers: b is [2], expected sizes equal to those of [3], or 1; a is [3], aligned at the last axis"
    );
}
