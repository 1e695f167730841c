//! Reshaping: order of elements, heads, open letters, errors.

use regard_engine::check::Case;
use regard_engine::{Feed, reference};
use regard_graph::{Graph, shape};
use regard_ops::Array;
use regard_ops::prelude::*;

#[test]
fn elements_keep_their_order() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 6]).unwrap();
    let heads = g.split_heads(x, 3).unwrap();
    assert_eq!(g.shape(heads).to_string(), "[2 3 2]");
    let merged = g.merge_heads(heads).unwrap();
    assert_eq!(g.shape(merged).to_string(), "[2 6]");
    let numbers: Vec<f64> = (0..12).map(f64::from).collect();
    let feed = Feed::new().with("x", Array::new(&[2, 6], numbers.clone()).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    assert_eq!(run.value(heads)[[1, 2, 0]], 10.0);
    assert_eq!(run.value(merged).data(), numbers);
    assert_eq!(g.reshape(x, [2, 6]).unwrap(), x);
}

#[test]
fn every_reader_agrees() {
    let shapes: [(&'static [usize], &'static [usize]); 5] =
        [(&[6], &[2, 3]), (&[], &[1, 1]), (&[4, 0], &[0]), (&[3, 5, 2], &[30]), (&[1], &[])];
    for (from, to) in shapes {
        let case = Case::new(move |g| {
            let x = g.input_with_gradient("x", from)?;
            let x = g.scale(x, 2.0)?;
            Ok(vec![g.reshape(x, to)?])
        });
        case.all(0.0).unwrap();
    }
}

#[test]
fn open_letters_multiply() {
    let case = Case::new(|g| {
        let (b, t) = (g.open('B', 3)?, g.open('T', 8)?);
        let x = g.input_with_gradient("x", shape![b, t, 6])?;
        let [b, t, _] = g.dims(x, "B T C")?;
        let flat = g.reshape(x, shape![b.times(&t), 6])?;
        let heads = g.split_heads(x, 2)?;
        Ok(vec![flat, heads])
    });
    case.size('B', 2).size('T', 5).all(1.2e-7).unwrap();
}

#[test]
fn other_dtypes() {
    let case = Case::new(|g| {
        let x = g.input("x", DType::BF16, [4, 3])?;
        let i = g.input("i", DType::I32, [4])?;
        let b = g.input("b", DType::Bool, [2])?;
        Ok(vec![g.reshape(x, [12])?, g.reshape(i, [2, 2])?, g.reshape(b, [2, 1])?])
    });
    case.given("i", &[4], &[1.0, 2.0, 3.0, 4.0]).given("b", &[2], &[1.0, 0.0]).cpu(0.0).unwrap();
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let t = g.open('T', 8).unwrap();
    let x = g.input("x", DType::F32, shape![2, t, 6]).unwrap();
    let one = g.input("one", DType::F32, [4]).unwrap();
    let none = g.input("none", DType::F32, []).unwrap();
    let text = |result: regard_graph::Result<Var>| result.unwrap_err().to_string();
    assert_eq!(
        text(g.reshape(x, [2, 6])),
        "reshape: x is [2 T 6] with 12·T elements, expected 12 elements for [2 6]"
    );
    assert_eq!(
        text(g.split_heads(x, 4)),
        "split_heads: the last axis of [2 T 6] does not split into 4 heads; choose a width that is a \
         multiple of the number of heads"
    );
    assert_eq!(
        text(g.split_heads(x, 0)),
        "split_heads: the last axis of [2 T 6] does not split into 0 heads; choose a width that is a \
         multiple of the number of heads"
    );
    assert_eq!(
        text(g.split_heads(none, 2)),
        "split_heads: the last axis of [] does not split into 2 heads; choose a width that is a multiple of \
         the number of heads"
    );
    assert_eq!(text(g.merge_heads(one)), "merge_heads: x is [4], expected [... H D]");
    assert_eq!(
        text(g.reshape(one, [1, 1, 1, 1, 1, 1, 4])),
        "reshape: output 0 has 7 axes; at most 6 are supported"
    );
}
