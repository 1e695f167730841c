//! Learned positions: values by hand, every reader, given and implied positions, positions outside.

use regard_engine::check::{Case, Exactness};
use regard_engine::{Cpu, Feed, Program, Store, reference};
use regard_graph::{Dim, Graph, shape};
use regard_ops::prelude::*;
use regard_ops::{AddPositionBackward, Array};

fn case(b: usize, t: usize, c: usize, p: usize, given: bool) -> Case<'static> {
    Case::new(move |g| {
        let x = g.input_with_gradient("x", [b, t, c])?;
        let table = g.parameter("table", [p, c], Init::Normal(1.0))?;
        let position = given.then(|| g.input("position", DType::I32, [b, t])).transpose()?;
        Ok(vec![g.add_position(x, table, position)?])
    })
}

#[test]
fn values_by_hand() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 2, 1]).unwrap();
    let table = g.parameter("table", [3, 1], Init::Zeros).unwrap();
    let position = g.input("position", DType::I32, [2, 2]).unwrap();
    let implied = g.add_position(x, table, None).unwrap();
    let given = g.add_position(x, table, Some(position)).unwrap();
    let feed = Feed::new()
        .with("x", Array::new(&[2, 2, 1], vec![1.0, 2.0, 3.0, 4.0]).unwrap())
        .with("position", Array::new(&[2, 2], vec![2.0, 0.0, 1.0, 2.0]).unwrap())
        .with_stored("table", Array::new(&[3, 1], vec![10.0, 20.0, 30.0]).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    assert_eq!(run.value(implied).data(), [11.0, 22.0, 13.0, 24.0]);
    assert_eq!(run.value(given).data(), [31.0, 12.0, 23.0, 34.0]);
}

#[test]
fn every_reader_agrees() {
    case(2, 3, 5, 3, false).all(5e-7).unwrap();
    case(3, 2, 1, 7, false).all(5e-7).unwrap();
    case(70, 1, 521, 2, false).all(5e-7).unwrap();
    case(2, 3, 5, 4, true).given("position", &[2, 3], &[3.0, 0.0, 3.0, 1.0, 1.0, 0.0]).all(5e-7).unwrap();
    case(1, 1, 1, 1, true).given("position", &[1, 1], &[0.0]).all(5e-7).unwrap();
}

#[test]
fn open_letters_and_empty_batches() {
    for size in [4, 1, 0] {
        let case = Case::new(|g| {
            let t = g.open('T', 6)?;
            let x = g.input_with_gradient("x", shape![2, t, 3])?;
            let table = g.parameter("table", [6, 3], Init::Normal(1.0))?;
            Ok(vec![g.add_position(x, table, None)?])
        });
        case.size('T', size).all(5e-7).unwrap();
    }
}

#[test]
fn bf16_streams() {
    let case = Case::new(|g| {
        let x = g.input("x", DType::BF16, [3, 4, 9])?;
        let table = g.parameter("table", [4, 9], Init::Normal(1.0))?;
        let y = g.add_position(x, table, None)?;
        assert_eq!(g.dtype(y), DType::BF16);
        Ok(vec![y])
    });
    // One sum, rounded once: 2⁻⁹, and the reference rounds the same exact sum.
    case.cpu(4e-3).unwrap();
}

#[test]
fn positions_outside_are_named() {
    let expected =
        "add_position: add_position: position[0 1] is 4, outside of P=4; feed positions from 0 to P−1";
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [1, 2, 1]).unwrap();
    let table = g.parameter("table", [4, 1], Init::Zeros).unwrap();
    let position = g.input("position", DType::I32, [1, 2]).unwrap();
    let out = g.add_position(x, table, Some(position)).unwrap();
    g.output("out", out).unwrap();
    let feed = Feed::new()
        .with("x", Array::new(&[1, 2, 1], vec![1.0, 2.0]).unwrap())
        .with("position", Array::new(&[1, 2], vec![3.0, 4.0]).unwrap());
    let fault = reference::run(&g, &feed, reference::Mode::Exact).err().unwrap();
    assert_eq!(fault.to_string(), expected);
    let mut store = Store::new(0);
    let mut program = Program::new(g, &[], &mut store, &Cpu::new().unwrap()).unwrap();
    for (name, array) in &feed.inputs {
        program.set_array(name, array).unwrap();
    }
    assert_eq!(program.run(&mut store).unwrap_err().to_string(), expected);
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let t = g.open('T', 9).unwrap();
    let x = g.input("x", DType::F32, [2, 3, 4]).unwrap();
    let open = g.input("open", DType::F32, shape![2, t, 4]).unwrap();
    let table = g.parameter("table", [8, 4], Init::Zeros).unwrap();
    let narrow = g.parameter("narrow", [8, 3], Init::Zeros).unwrap();
    let position = g.input("position", DType::I32, [2, 4]).unwrap();
    let text = |result: regard_graph::Result<Var>| result.unwrap_err().to_string();
    assert_eq!(
        text(g.add_position(x, narrow, None)),
        "add_position: table is [8 3], expected [P C=4]; C comes from x"
    );
    assert_eq!(
        text(g.add_position(x, table, Some(position))),
        "add_position: position is [2 4], expected [B=2 T=3]; B, T come from x"
    );
    assert_eq!(
        text(g.add_position(open, table, None)),
        "add_position: the table has P=8 rows, x may have T=9 positions; use a longer table, or give the positions"
    );
    assert_eq!(
        text(g.add_position(x, table, Some(table))),
        "add_position: position is f32, expected i32; ids, positions and lengths are i32"
    );
    assert_eq!(text(g.add_position(table, table, None)), "add_position: x is [8 4], expected [B T C]");
}

#[test]
fn the_backward_pass_by_every_reader() {
    for positions in [false, true] {
        let case = Case::new(move |g| {
            let mut inputs = vec![g.input("dy", DType::F32, [1, 3, 4])?];
            if positions {
                inputs.push(g.input("position", DType::I32, [1, 3])?);
            }
            g.apply(AddPositionBackward { positions, rows: Dim::from(5) }, &inputs)
        });
        let case = case.given("position", &[1, 3], &[4.0, 1.0, 4.0]);
        case.cpu(5e-7).unwrap();
        case.cost().unwrap();
        case.reach(Exactness::Equal).unwrap();
    }
}
