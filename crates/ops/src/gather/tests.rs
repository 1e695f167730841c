//! gather and scatter_add: values by hand, every reader, both forms, indices outside.

use regard_engine::check::Case;
use regard_engine::{Cpu, Feed, Program, Store, reference};
use regard_graph::{Graph, shape};
use regard_ops::Array;
use regard_ops::prelude::*;

#[test]
fn values_by_hand() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 3]).unwrap();
    let three = g.input("three", DType::I32, [3]).unwrap();
    let pairs = g.input("pairs", DType::I32, [2, 2]).unwrap();
    let columns = g.gather(x, three, 1).unwrap();
    let sums = g.scatter_add(x, three, 1, 4).unwrap();
    let own = g.gather_rows(x, pairs).unwrap();
    let own_sums = g.scatter_add_rows(own, pairs, 3).unwrap();
    let feed = Feed::new()
        .with("x", Array::new(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap())
        .with("three", Array::new(&[3], vec![2.0, 0.0, 2.0]).unwrap())
        .with("pairs", Array::new(&[2, 2], vec![1.0, 1.0, 2.0, 0.0]).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    assert_eq!(run.value(columns).data(), [3.0, 1.0, 3.0, 6.0, 4.0, 6.0]);
    assert_eq!(run.value(sums).data(), [2.0, 0.0, 4.0, 0.0, 5.0, 0.0, 10.0, 0.0]);
    assert_eq!(run.value(own).data(), [2.0, 2.0, 6.0, 4.0]);
    assert_eq!(run.value(own_sums).data(), [0.0, 4.0, 0.0, 4.0, 0.0, 6.0]);
}

#[test]
fn every_reader_agrees_along_any_axis() {
    let indices = [2.0, 0.0, 2.0, 1.0, 2.0];
    for (dims, axis) in [(&[3][..], 0), (&[3, 7], 0), (&[2, 3], 1), (&[2, 3, 5], 1), (&[2, 1, 2, 3], 3)] {
        let gather = Case::new(move |g| {
            let x = g.input_with_gradient("x", dims)?;
            let indices = g.input("indices", DType::I32, [5])?;
            Ok(vec![g.gather(x, indices, axis)?])
        });
        gather.given("indices", &[5], &indices).all(5e-7).unwrap();
        let scatter = Case::new(move |g| {
            let mut wide = dims.to_vec();
            wide[axis] = 5;
            let x = g.input_with_gradient("x", wide.as_slice())?;
            let indices = g.input("indices", DType::I32, [5])?;
            Ok(vec![g.scatter_add(x, indices, axis, 4)?])
        });
        scatter.given("indices", &[5], &indices).all(5e-7).unwrap();
    }
}

#[test]
fn every_reader_agrees_with_indices_of_one_s_own() {
    let indices = [4.0, 4.0, 0.0, 1.0, 3.0, 1.0];
    for dims in [&[2, 5][..], &[2, 5, 3], &[2, 5, 2, 601]] {
        let gather = Case::new(move |g| {
            let x = g.input_with_gradient("x", dims)?;
            let indices = g.input("indices", DType::I32, [2, 3])?;
            Ok(vec![g.gather_rows(x, indices)?])
        });
        gather.given("indices", &[2, 3], &indices).all(5e-7).unwrap();
        let scatter = Case::new(move |g| {
            let mut short = dims.to_vec();
            short[1] = 3;
            let x = g.input_with_gradient("x", short.as_slice())?;
            let indices = g.input("indices", DType::I32, [2, 3])?;
            Ok(vec![g.scatter_add_rows(x, indices, 5)?])
        });
        scatter.given("indices", &[2, 3], &indices).all(5e-7).unwrap();
    }
}

#[test]
fn open_letters_and_nothing_at_all() {
    for (t, m) in [(4, 3), (4, 0), (7, 7)] {
        let indices: Vec<f64> = (0..2 * m).map(|i| (i % t) as f64).collect();
        let case = Case::new(|g| {
            let (t, m) = (g.open('T', 8)?, g.open('M', 8)?);
            let x = g.input_with_gradient("x", shape![2, t, 3])?;
            let indices = g.input("indices", DType::I32, shape![2, m])?;
            let rows = g.gather_rows(x, indices)?;
            Ok(vec![g.scatter_add_rows(rows, indices, t)?])
        });
        case.size('T', t).size('M', m).given("indices", &[2, m], &indices).all(5e-7).unwrap();
    }
}

#[test]
fn integers_and_bf16_move_too() {
    let case = Case::new(|g| {
        let ids = g.input("ids", DType::I32, [2, 3])?;
        let flags = g.input("flags", DType::Bool, [3])?;
        let indices = g.input("indices", DType::I32, [4])?;
        let half = g.input("half", DType::BF16, [3, 9])?;
        let rows = g.gather(half, indices, 0)?;
        Ok(vec![
            g.gather(ids, indices, 1)?,
            g.gather(flags, indices, 0)?,
            rows,
            g.scatter_add(rows, indices, 0, 3)?,
        ])
    });
    let case = case
        .given("ids", &[2, 3], &[1.0, -2.0, 3.0, 4.0, 5.0, 2_000_000_011.0])
        .given("flags", &[3], &[1.0, 0.0, 1.0])
        .given("indices", &[4], &[2.0, 1.0, 2.0, 0.0]);
    case.cpu(0.0).unwrap();
    case.cost().unwrap();
}

#[test]
fn indices_outside_are_named() {
    let fed = Array::new(&[2], vec![0.0, 3.0]).unwrap();
    for scatter in [false, true] {
        let mut g = Graph::new();
        let x = g.parameter("x", if scatter { [2, 1] } else { [3, 1] }, Init::Ones).unwrap();
        let indices = g.input("indices", DType::I32, [2]).unwrap();
        let out = if scatter { g.scatter_add(x, indices, 0, 3) } else { g.gather(x, indices, 0) };
        let name = if scatter { "scatter_add" } else { "gather" };
        let expected = format!("{name}: {name}: indices[1] is 3, outside of N=3; feed indices from 0 to N−1");
        g.output("out", out.unwrap()).unwrap();
        let feed = Feed::new().with("indices", fed.clone());
        let fault = reference::run(&g, &feed, reference::Mode::Exact).err().unwrap();
        assert_eq!(fault.to_string(), expected);
        let mut store = Store::new(0);
        let mut program = Program::new(g, &[], &mut store, &Cpu::new().unwrap()).unwrap();
        program.set_array("indices", &fed).unwrap();
        assert_eq!(program.run(&mut store).unwrap_err().to_string(), expected);
    }
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 3]).unwrap();
    let ids = g.input("ids", DType::I32, [4]).unwrap();
    let own = g.input("own", DType::I32, [5, 4]).unwrap();
    let text = |result: regard_graph::Result<Var>| result.unwrap_err().to_string();
    assert_eq!(
        text(g.gather(x, ids, 2)),
        "gather: axis 2 of x, which is [2 3]; axes are counted from 0; name one that exists"
    );
    assert_eq!(text(g.gather(x, own, 0)), "gather: indices is [5 4], expected [M]");
    assert_eq!(text(g.gather_rows(x, own)), "gather: indices is [5 4], expected [B=2 M]; B comes from x");
    assert_eq!(
        text(g.gather(x, x, 0)),
        "gather: indices is f32, expected i32; ids, positions and lengths are i32"
    );
    assert_eq!(
        text(g.scatter_add(x, ids, 1, 9)),
        "scatter_add: x is [2 3], expected M=4 along axis 1; M comes from indices"
    );
    assert_eq!(
        text(g.scatter_add(ids, ids, 0, 9)),
        "scatter_add: x is i32, expected f32 or bf16; cast it to f32 first"
    );
    assert_eq!(
        text(g.scatter_add_rows(x, own, 3)),
        "scatter_add: indices is [5 4], expected [B=2 M]; B comes from x"
    );
}
