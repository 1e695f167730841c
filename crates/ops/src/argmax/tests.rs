//! argmax: values by hand, ties, NaN and infinities, both engines.

use regard_engine::check::{Case, Exactness};
use regard_engine::{Cpu, Program, Store};
use regard_graph::{Graph, shape};
use regard_ops::Array;
use regard_ops::prelude::*;

fn argmax(dims: &[usize], numbers: &[f64]) -> Vec<f64> {
    let case = Case::new(|g| {
        let x = g.input("x", DType::F32, dims)?;
        Ok(vec![g.argmax(x)?])
    });
    let case = case.given("x", dims, numbers);
    case.cpu(0.0).unwrap();
    case.cost().unwrap();
    case.run_on(&Cpu::new().unwrap()).unwrap()[0].data().to_vec()
}

#[test]
fn values_by_hand() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    assert_eq!(argmax(&[2, 3], &[1.0, 3.0, 2.0, -1.0, -3.0, -2.0]), [1.0, 0.0]);
    assert_eq!(argmax(&[4], &[2.0, 5.0, 5.0, 1.0]), [1.0], "ties go to the first");
    assert_eq!(argmax(&[3], &[-0.0, 0.0, -0.0]), [0.0], "zeros of either sign are equal");
    assert_eq!(argmax(&[4], &[nan, -4.0, nan, -3.0]), [3.0], "NaN is the smallest");
    assert_eq!(argmax(&[3], &[nan, -inf, nan]), [1.0], "smaller than minus infinity");
    assert_eq!(argmax(&[2, 2], &[nan, nan, inf, inf]), [0.0, 0.0]);
    assert_eq!(argmax(&[3, 1], &[7.0, nan, -inf]), [0.0, 0.0, 0.0]);
}

#[test]
fn long_rows_and_their_seams() {
    for at in [0, 511, 512, 513, 1023, 1024, 1300] {
        let mut row = vec![0.5; 1301];
        row[at] = 1.0;
        assert_eq!(argmax(&[1301], &row), [at as f64]);
    }
    let mut row = vec![f64::NAN; 1301];
    assert_eq!(argmax(&[1301], &row), [0.0]);
    row[700] = f64::NEG_INFINITY;
    assert_eq!(argmax(&[1301], &row), [700.0]);
    let mut row = vec![0.5; 1301];
    (row[600], row[1200]) = (2.0, 2.0);
    assert_eq!(argmax(&[1301], &row), [600.0]);
}

#[test]
fn bf16_open_and_empty() {
    for (t, c) in [(3, 7), (1, 1), (0, 5)] {
        let case = Case::new(|g| {
            let (t, c) = (g.open('T', 4)?, g.open('C', 9)?);
            let x = g.input("x", DType::BF16, shape![2, t, c])?;
            Ok(vec![g.argmax(x)?])
        });
        let case = case.size('T', t).size('C', c);
        case.cpu(0.0).unwrap();
        case.cost().unwrap();
    }
}

#[test]
fn every_element_of_a_row_can_matter() {
    for dims in [&[3, 4][..], &[2, 2, 3], &[4, 1], &[5]] {
        let case = Case::new(|g| {
            let x = g.input("x", DType::F32, dims)?;
            Ok(vec![g.argmax(x)?])
        });
        // Enough large moves for the smallest element to become the largest.
        case.draws(300).reach(Exactness::Equal).unwrap();
    }
}

#[test]
fn no_gradient_passes() {
    let mut g = Graph::new();
    let x = g.parameter("x", [2, 3], Init::Ones).unwrap();
    let out = g.argmax(x).unwrap();
    assert_eq!(g.dtype(out), DType::I32);
    assert_eq!(g.value(out).flow, regard_graph::Flow::None);
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let ids = g.input("ids", DType::I32, [3]).unwrap();
    let empty = g.input("empty", DType::F32, [3, 0]).unwrap();
    let single = g.input("single", DType::F32, []).unwrap();
    let text = |result: regard_graph::Result<Var>| result.unwrap_err().to_string();
    assert_eq!(text(g.argmax(ids)), "argmax: x is i32, expected f32 or bf16; cast it to f32 first");
    assert_eq!(text(g.argmax(empty)), "argmax: C is 0; a row needs at least one element");
    assert_eq!(text(g.argmax(single)), "argmax: x is [], expected [... C]");
}

#[test]
fn an_open_row_may_turn_out_empty() {
    let mut g = Graph::new();
    let c = g.open('C', 4).unwrap();
    let x = g.input("x", DType::F32, shape![2, c]).unwrap();
    let out = g.argmax(x).unwrap();
    g.output("out", out).unwrap();
    let mut store = Store::new(0);
    let mut program = Program::new(g, &[], &mut store, &Cpu::new().unwrap()).unwrap();
    program.set_array("x", &Array::new(&[2, 0], vec![]).unwrap()).unwrap();
    assert_eq!(
        program.run(&mut store).unwrap_err().to_string(),
        "argmax: argmax: C is 0; a row needs at least one element"
    );
}
