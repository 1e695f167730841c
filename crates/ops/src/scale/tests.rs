//! Scaling and shifting by constants.

use regard_engine::check::Case;
use regard_engine::{Feed, reference};
use regard_graph::{Graph, shape};
use regard_ops::prelude::*;
use regard_ops::{Array, Scale};

#[test]
fn values() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2]).unwrap();
    let (scaled, shifted) = (g.scale(x, -2.0).unwrap(), g.shift(x, 0.5).unwrap());
    let feed = Feed::new().with("x", Array::new(&[2], vec![3.0, -1.5]).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    assert_eq!(run.value(scaled).data(), [-6.0, 3.0]);
    assert_eq!(run.value(shifted).data(), [3.5, -1.0]);
}

#[test]
fn every_reader_agrees() {
    for dims in [&[][..], &[1], &[3, 7], &[0], &[40_003]] {
        for (scale, shift) in [(1.7, 0.0), (1.0, -0.3), (0.0, 2.0), (-0.7, 1.1)] {
            let case = Case::new(move |g| {
                let x = g.input_with_gradient("x", dims)?;
                Ok(vec![g.apply_one(Scale { scale, shift }, &[x])?])
            });
            case.all(1.2e-7).unwrap_or_else(|e| panic!("{dims:?} {scale} {shift}: {e}"));
        }
    }
}

#[test]
fn open_letters_and_bf16() {
    let case = Case::new(|g| {
        let t = g.open('T', 16)?;
        let x = g.input_with_gradient("x", shape![t, 3])?;
        let x = g.cast(x, DType::BF16)?;
        Ok(vec![g.scale(x, 0.3)?])
    });
    case.size('T', 5).cpu(0.008).unwrap();
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let b = g.input("b", DType::Bool, [2]).unwrap();
    assert_eq!(
        g.scale(b, 1.0).unwrap_err().to_string(),
        "scale: x is bool, expected f32 or bf16; cast it to f32 first"
    );
}
