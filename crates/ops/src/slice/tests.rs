//! Slices: values, every reader, open axes, stretches that do not fit.

use regard_engine::check::Case;
use regard_engine::{Cpu, Feed, Program, Store, reference};
use regard_graph::{Dim, Graph, shape};
use regard_ops::Array;
use regard_ops::prelude::*;

#[test]
fn values() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 3]).unwrap();
    let middle = g.slice(x, 1, 1, 1).unwrap();
    let last = g.slice_last(x, 1, 2).unwrap();
    let row = g.slice(x, 0, 1, 1).unwrap();
    let feed = Feed::new().with("x", Array::new(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    assert_eq!(run.value(middle).data(), [2.0, 5.0]);
    assert_eq!(run.value(last).data(), [2.0, 3.0, 5.0, 6.0]);
    assert_eq!(run.value(row).data(), [4.0, 5.0, 6.0]);
}

#[test]
fn every_reader_agrees() {
    for axis in 0..3 {
        for (start, length) in [(0, 5), (0, 1), (2, 2), (4, 1), (5, 0)] {
            let case = Case::new(move |g| {
                let x = g.input_with_gradient("x", [5, 5, 5])?;
                Ok(vec![g.slice(x, axis, start, length)?])
            });
            case.all(0.0).unwrap_or_else(|e| panic!("{axis} {start} {length}: {e}"));
        }
    }
}

#[test]
fn open_axes() {
    for size in [1, 4, 8] {
        let case = Case::new(|g| {
            let t = g.open('T', 8)?;
            let x = g.input_with_gradient("x", shape![2, t, 3])?;
            let first = g.slice(x, 1, 0, 1)?;
            let last = g.slice_last(x, 1, 1)?;
            let class = g.input_with_gradient("class", [2, 1, 3])?;
            let all = g.concat(&[class, x], 1)?;
            let rest = g.slice(all, 1, 1, Dim::from(t))?;
            let front = g.slice(all, 1, 0, Dim::from(t))?;
            Ok(vec![first, last, rest, front])
        });
        case.size('T', size).all(1.2e-7).unwrap();
    }
}

#[test]
fn every_dtype() {
    let case = Case::new(|g| {
        let x = g.input("x", DType::BF16, [2, 3])?;
        let i = g.input("i", DType::I32, [3])?;
        let b = g.input("b", DType::Bool, [3])?;
        Ok(vec![g.slice(x, 1, 1, 2)?, g.slice(i, 0, 2, 1)?, g.slice(b, 0, 1, 2)?])
    });
    case.given("i", &[3], &[1.0, 2.0, 3.0]).given("b", &[3], &[1.0, 0.0, 1.0]).cpu(0.0).unwrap();
    let case = Case::new(|g| {
        let x = g.input_with_gradient("x", [3, 9])?;
        let x = g.cast(x, DType::BF16)?;
        Ok(vec![g.slice(x, 1, 3, 5)?])
    });
    case.cpu(0.008).unwrap();
}

#[test]
fn a_run_that_is_too_short_is_a_fault() {
    let mut g = Graph::inference();
    let t = g.open('T', 8).unwrap();
    let x = g.input("x", DType::F32, shape![t]).unwrap();
    let y = g.slice(x, 0, 2, 3).unwrap();
    g.output("y", y).unwrap();
    let feed = Feed::new().with("x", Array::new(&[4], vec![0.0; 4]).unwrap());
    let text = "slice: 3 elements after the first 2 do not lie in an axis that has 4 in this run; \
                feed a longer input";
    let error = reference::run(&g, &feed, reference::Mode::Exact).err().unwrap();
    assert!(error.to_string().contains(text), "{error}");
    let (cpu, mut store) = (Cpu::new().unwrap(), Store::new(0));
    let mut program = Program::new(g, &[], &mut store, &cpu).unwrap();
    program.set_f32("x", &[4], &[0.0; 4]).unwrap();
    let error = program.run(&mut store).unwrap_err();
    assert!(error.to_string().contains(text), "{error}");
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 3]).unwrap();
    let text = |result: regard_graph::Result<Var>| result.unwrap_err().to_string();
    assert_eq!(
        text(g.slice(x, 2, 0, 1)),
        "slice: there is no axis 2 in x, which is [2 3]; count axes from 0"
    );
    assert_eq!(
        text(g.slice(x, 1, 2, 2)),
        "slice: 2 elements after the first 2 do not lie in axis 1 of [2 3]; choose a stretch inside of the axis"
    );
    assert_eq!(
        text(g.slice_last(x, 1, 4)),
        "slice: 4 elements before the last 0 do not lie in axis 1 of [2 3]; choose a stretch inside of the axis"
    );
}
