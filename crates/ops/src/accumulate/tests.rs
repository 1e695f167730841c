//! Accumulation into state, run after run; errors.

use regard_engine::check::{Case, Exactness};
use regard_engine::{Cpu, Program, Store};
use regard_graph::{Graph, shape};
use regard_ops::prelude::*;

#[test]
fn micro_batches_add_up() {
    let mut g = Graph::new();
    let state = g.state("gradient.w", DType::F32, [2], Init::Zeros).unwrap();
    let x = g.input("x", DType::F32, [2]).unwrap();
    let sum = g.accumulate(state, x).unwrap();
    g.output("sum", sum).unwrap();
    let (cpu, mut store) = (Cpu::new().unwrap(), Store::new(0));
    let mut program = Program::new(g, &[], &mut store, &cpu).unwrap();
    for (x, want) in [([1.0, 2.0], [1.0, 2.0]), ([0.5, -3.0], [1.5, -1.0])] {
        program.set_f32("x", &[2], &x).unwrap();
        program.run(&mut store).unwrap();
        assert_eq!(store.f32("gradient.w").unwrap(), want);
    }
}

#[test]
fn both_engines_agree() {
    for dims in [&[][..], &[3, 7], &[0, 2], &[2003]] {
        for (dtype, bound) in [(DType::F32, 1.2e-7), (DType::BF16, 0.008)] {
            let case = Case::new(move |g| {
                let state = g.state("state", dtype, dims, Init::Constant(0.5))?;
                let x = g.input("x", dtype, dims)?;
                let sum = g.accumulate(state, x)?;
                Ok(vec![g.accumulate(sum, x)?])
            });
            case.cpu(bound).unwrap();
            case.cost().unwrap();
            case.reach(Exactness::Equal).unwrap();
        }
    }
}

#[test]
fn gradients_of_a_training_graph_are_data() {
    let mut g = Graph::new();
    let p = g.parameter("w", [2], Init::Ones).unwrap();
    let square = g.square(p).unwrap();
    let loss = g.sum_all(square).unwrap();
    let gradient = g.gradient(loss, &[p]).unwrap()[0];
    let state = g.state("gradient.w", DType::F32, [2], Init::Zeros).unwrap();
    g.accumulate(state, gradient).unwrap();
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let t = g.open('T', 4).unwrap();
    let state = g.state("state", DType::F32, [2], Init::Zeros).unwrap();
    let x = g.input("x", DType::F32, [3]).unwrap();
    let open = g.input("open", DType::F32, shape![t]).unwrap();
    let i = g.input("i", DType::I32, [2]).unwrap();
    let same = g.input("same", DType::F32, [2]).unwrap();
    let text = |result: regard_graph::Result<Var>| result.unwrap_err().to_string();
    assert_eq!(text(g.accumulate(state, x)), "accumulate: x is [3], expected [2]; ... comes from state");
    assert_eq!(text(g.accumulate(state, open)), "accumulate: x is [T], expected [2]; ... comes from state");
    assert_eq!(
        text(g.accumulate(state, i)),
        "accumulate: x is i32, expected f32 or bf16; cast it to f32 first"
    );
    assert_eq!(
        text(g.accumulate(same, same)),
        "accumulate: state is neither a parameter nor a state; only what lives in the store can be updated"
    );
    let next = g.accumulate(state, same).unwrap();
    assert_eq!(
        text(g.accumulate(state, same)),
        "accumulate: reads `state` as it was before accumulate replaced it; use the value that accumulate \
         returned"
    );
    g.accumulate(next, same).unwrap();
}
