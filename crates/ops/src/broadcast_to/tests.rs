//! Repeating along axes: values, every reader, the even spread that undoes a mean.

use regard_engine::check::Case;
use regard_engine::{Feed, reference};
use regard_graph::{Graph, shape};
use regard_ops::prelude::*;
use regard_ops::{Array, BroadcastTo};

#[test]
fn values() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 1]).unwrap();
    let like = g.input("like", DType::F32, [2, 2, 3]).unwrap();
    let y = g.broadcast_to(x, like).unwrap();
    let spread = BroadcastTo { fact: g.fact(like).clone(), mean: true };
    let spread = g.apply_one(spread, &[x]).unwrap();
    assert_eq!(g.broadcast_to(like, like).unwrap(), like);
    let feed = Feed::new()
        .with("x", Array::new(&[2, 1], vec![6.0, -3.0]).unwrap())
        .with("like", Array::new(&[2, 2, 3], vec![0.0; 12]).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    let half = [6.0, 6.0, 6.0, -3.0, -3.0, -3.0];
    assert_eq!(run.value(y).data(), [half, half].concat());
    assert_eq!(run.value(spread).data(), [half, half].concat().iter().map(|x| x / 6.0).collect::<Vec<_>>());
}

#[test]
fn every_reader_agrees() {
    let shapes: [(&'static [usize], &'static [usize]); 8] = [
        (&[3], &[2, 3]),
        (&[2, 1], &[4, 2, 5]),
        (&[], &[7]),
        (&[1], &[3, 5, 401]),
        (&[1, 5, 1], &[3, 5, 2]),
        (&[1], &[0]),
        (&[3, 0], &[2, 3, 0]),
        (&[1, 1201], &[2, 1201]),
    ];
    for (from, to) in shapes {
        for mean in [false, true] {
            let case = Case::new(move |g| {
                let x = g.input_with_gradient("x", from)?;
                Ok(vec![g.apply_one(BroadcastTo { fact: Fact::f32(to), mean }, &[x])?])
            });
            // Its gradient is a sum; the mean of nothing has none worth comparing.
            if !(mean && to.iter().product::<usize>() == 0) {
                case.all(1.2e-6).unwrap_or_else(|e| panic!("{from:?} {to:?} {mean}: {e}"));
            }
        }
    }
}

#[test]
fn open_letters_and_bf16() {
    let case = Case::new(|g| {
        let t = g.open('T', 16)?;
        let x = g.input_with_gradient("x", [3])?;
        let like = g.input("like", DType::BF16, shape![2, t, 3])?;
        Ok(vec![g.broadcast_to(x, like)?])
    });
    case.size('T', 5).cpu(0.008).unwrap();
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2]).unwrap();
    let wide = g.input("wide", DType::F32, [3, 3]).unwrap();
    let one = g.input("one", DType::F32, [1]).unwrap();
    let i = g.input("i", DType::I32, [2]).unwrap();
    let text = |result: regard_graph::Result<Var>| result.unwrap_err().to_string();
    assert_eq!(
        text(g.broadcast_to(x, wide)),
        "broadcast_to: x is [2], expected sizes equal to those of [3 3], or 1; like is [3 3], aligned at the last axis"
    );
    assert_eq!(
        text(g.broadcast_to(x, one)),
        "broadcast_to: x is [2], expected a shape that broadcasts to [1]; it comes from like"
    );
    assert_eq!(
        text(g.broadcast_to(x, i)),
        "broadcast_to: like is i32, expected f32 or bf16; cast it to f32 first"
    );
}
