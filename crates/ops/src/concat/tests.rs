//! Joining along an axis: values, every reader, open letters that add up.

use regard_engine::check::Case;
use regard_engine::{Feed, reference};
use regard_graph::{Graph, shape};
use regard_ops::Array;
use regard_ops::prelude::*;

#[test]
fn values() {
    let mut g = Graph::new();
    let a = g.input("a", DType::F32, [2, 1]).unwrap();
    let b = g.input("b", DType::F32, [2, 2]).unwrap();
    let wide = g.concat(&[a, b], 1).unwrap();
    let tall = g.concat(&[b, b], 0).unwrap();
    let feed = Feed::new()
        .with("a", Array::new(&[2, 1], vec![1.0, 2.0]).unwrap())
        .with("b", Array::new(&[2, 2], vec![3.0, 4.0, 5.0, 6.0]).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    assert_eq!(run.value(wide).data(), [1.0, 3.0, 4.0, 2.0, 5.0, 6.0]);
    assert_eq!(run.value(tall).data(), [3.0, 4.0, 5.0, 6.0, 3.0, 4.0, 5.0, 6.0]);
}

#[test]
fn every_reader_agrees() {
    for (sizes, axis) in [([1, 2, 3], 0), ([4, 1, 7], 1), ([5, 0, 2], 2), ([3, 3, 3], 3)] {
        let case = Case::new(move |g| {
            let mut parts = Vec::new();
            for (index, size) in sizes.into_iter().enumerate() {
                let mut dims = [2, 3, 1, 5];
                dims[axis] = size;
                parts.push(g.input_with_gradient(&format!("part.{index}"), dims)?);
            }
            Ok(vec![g.concat(&parts, axis)?])
        });
        case.all(0.0).unwrap_or_else(|e| panic!("{sizes:?} {axis}: {e}"));
    }
}

#[test]
fn long_and_many_runs_are_split_over_threads() {
    for (dims, axis) in [([3, 20_011], 1), ([3001, 7], 1), ([3001, 7], 0)] {
        let case = Case::new(move |g| {
            let a = g.input("a", DType::F32, dims)?;
            let b = g.input("b", DType::F32, dims)?;
            Ok(vec![g.concat(&[a, b], axis)?])
        });
        case.cpu(0.0).unwrap();
    }
}

#[test]
fn open_letters_add_up() {
    let case = Case::new(|g| {
        let (p, t) = (g.open('P', 4)?, g.open('T', 8)?);
        let a = g.input_with_gradient("a", shape![2, p, 3])?;
        let b = g.input_with_gradient("b", shape![2, t, 3])?;
        let c = g.input_with_gradient("c", shape![2, 1, 3])?;
        let y = g.concat(&[a, c, b], 1)?;
        assert_eq!(g.shape(y).to_string(), "[2 P+T+1 3]");
        Ok(vec![y])
    });
    case.size('P', 2).size('T', 5).all(0.0).unwrap();
}

#[test]
fn every_dtype_and_one_part() {
    let case = Case::new(|g| {
        let x = g.input("x", DType::BF16, [2, 3])?;
        let i = g.input("i", DType::I32, [3])?;
        let b = g.input("b", DType::Bool, [3])?;
        Ok(vec![g.concat(&[x, x], 0)?, g.concat(&[i], 0)?, g.concat(&[b, b, b], 0)?])
    });
    case.given("i", &[3], &[1.0, 2.0, 3.0]).given("b", &[3], &[1.0, 0.0, 1.0]).cpu(0.0).unwrap();
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let a = g.input("a", DType::F32, [2, 3]).unwrap();
    let b = g.input("b", DType::F32, [3, 4]).unwrap();
    let i = g.input("i", DType::I32, [2, 3]).unwrap();
    let text = |result: regard_graph::Result<Var>| result.unwrap_err().to_string();
    assert_eq!(text(g.concat(&[], 0)), "concat: there are no parts; give at least one");
    assert_eq!(
        text(g.concat(&[a], 2)),
        "concat: there is no axis 2 in part 0, which is [2 3]; count axes from 0"
    );
    assert_eq!(
        text(g.concat(&[a, b], 0)),
        "concat: part 1 is [3 4], expected the shape of part 0, [2 3], but for axis 0"
    );
    assert_eq!(text(g.concat(&[a, i], 0)), "concat: part 1 is i32, expected f32 as part 0; cast one of them");
}
