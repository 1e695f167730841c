//! Cutting along an axis: values, every reader, parts that nobody reads.

use regard_engine::check::Case;
use regard_engine::{Feed, reference};
use regard_graph::{Dim, Graph, shape};
use regard_ops::Array;
use regard_ops::prelude::*;

#[test]
fn values() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 3]).unwrap();
    let parts = g.split(x, 1, &[1.into(), 2.into()]).unwrap();
    let feed = Feed::new().with("x", Array::new(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    assert_eq!(run.value(parts[0]).data(), [1.0, 4.0]);
    assert_eq!(run.value(parts[1]).data(), [2.0, 3.0, 5.0, 6.0]);
}

#[test]
fn every_reader_agrees() {
    for axis in 0..3 {
        for used in [&[0, 1, 2][..], &[1], &[2, 0]] {
            let case = Case::new(move |g| {
                let x = g.input_with_gradient("x", [6, 6, 6])?;
                let parts = g.split(x, axis, &[2.into(), 1.into(), 3.into()])?;
                Ok(used.iter().map(|&part: &usize| parts[part]).collect())
            });
            case.all(0.0).unwrap_or_else(|e| panic!("{axis} {used:?}: {e}"));
        }
    }
}

#[test]
fn open_letters_and_empty_parts() {
    let case = Case::new(|g| {
        let (p, t) = (Dim::from(g.open('P', 4)?), Dim::from(g.open('T', 8)?));
        let a = g.input_with_gradient("a", shape![2, &p, 3])?;
        let b = g.input_with_gradient("b", shape![2, &t, 3])?;
        let joined = g.concat(&[a, b], 1)?;
        let both = g.split(joined, 1, &[p, 0.into(), t])?;
        Ok(vec![both[0], both[2]])
    });
    case.size('P', 0).size('T', 5).all(0.0).unwrap();
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let t = g.open('T', 8).unwrap();
    let x = g.input("x", DType::F32, shape![2, t]).unwrap();
    let text = |result: regard_graph::Result<Vec<Var>>| result.unwrap_err().to_string();
    assert_eq!(
        text(g.split(x, 2, &[1.into()])),
        "split: there is no axis 2 in x, which is [2 T]; count axes from 0"
    );
    assert_eq!(
        text(g.split(x, 0, &[1.into(), 2.into()])),
        "split: the lengths [1, 2] add up to 3, axis 0 of [2 T] has 2; cover the whole axis"
    );
    assert_eq!(
        text(g.split(x, 1, &[1.into(), 2.into()])),
        "split: the lengths [1, 2] add up to 3, axis 1 of [2 T] has T; cover the whole axis"
    );
    assert_eq!(
        text(g.split(x, 0, &[])),
        "split: the lengths [] add up to 0, axis 0 of [2 T] has 2; cover the whole axis"
    );
}
