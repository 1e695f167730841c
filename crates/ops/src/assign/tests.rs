//! Assignment to state: copies, resets, every dtype; errors.

use regard_engine::check::{Case, Exactness};
use regard_engine::{Cpu, Program, Store};
use regard_graph::Graph;
use regard_ops::prelude::*;

#[test]
fn a_state_is_replaced() {
    let mut g = Graph::new();
    let state = g.state("state", DType::F32, [2, 2], Init::Ones).unwrap();
    let x = g.input("x", DType::F32, [2]).unwrap();
    let next = g.assign(state, x).unwrap();
    let before = g.state("gradient", DType::F32, [3], Init::Ones).unwrap();
    let zeros = g.assign_number(before, 0.0).unwrap();
    g.output("next", next).unwrap();
    g.output("zeros", zeros).unwrap();
    let (cpu, mut store) = (Cpu::new().unwrap(), Store::new(0));
    let mut program = Program::new(g, &[], &mut store, &cpu).unwrap();
    program.set_f32("x", &[2], &[3.0, 4.0]).unwrap();
    program.run(&mut store).unwrap();
    assert_eq!(store.f32("state").unwrap(), [3.0, 4.0, 3.0, 4.0]);
    assert_eq!(store.f32("gradient").unwrap(), [0.0; 3]);
}

#[test]
fn both_engines_agree() {
    let shapes: [(&'static [usize], &'static [usize]); 5] =
        [(&[3, 5], &[3, 5]), (&[3, 5], &[3, 1]), (&[2, 0], &[]), (&[], &[]), (&[2011], &[1])];
    for (dims, from) in shapes {
        for dtype in [DType::F32, DType::BF16, DType::I32, DType::Bool] {
            let case = Case::new(move |g| {
                let state = g.state("state", dtype, dims, Init::Zeros)?;
                let x = g.input("x", dtype, from)?;
                Ok(vec![g.assign(state, x)?])
            });
            let numbers: Vec<f64> = (0..from.iter().product()).map(|i: usize| (i % 2) as f64).collect();
            let case = case.given("x", from, &numbers);
            case.cpu(0.0).unwrap();
            case.cost().unwrap();
            case.reach(Exactness::Equal).unwrap();
        }
    }
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let state = g.state("state", DType::F32, [2], Init::Zeros).unwrap();
    let count = g.state("count", DType::I32, [2], Init::Zeros).unwrap();
    let x = g.input("x", DType::F32, [2]).unwrap();
    let three = g.input("three", DType::F32, [3]).unwrap();
    let wide = g.input("wide", DType::F32, [3, 2]).unwrap();
    let text = |result: regard_graph::Result<Var>| result.unwrap_err().to_string();
    assert_eq!(
        text(g.assign(x, x)),
        "assign: state is neither a parameter nor a state; only what lives in the store can be updated"
    );
    assert_eq!(text(g.assign(count, x)), "assign: x is f32, expected i32 as state; cast it first");
    assert_eq!(
        text(g.assign(state, three)),
        "assign: x is [3], expected sizes equal to those of [2], or 1; state is [2], aligned at the last axis"
    );
    assert_eq!(
        text(g.assign(state, wide)),
        "assign: x is [3 2], expected a shape that broadcasts to [2]; it comes from state"
    );
    assert_eq!(
        text(g.assign_number(count, 0.0)),
        "fill: result is i32, expected f32 or bf16; cast it to f32 first"
    );
}
