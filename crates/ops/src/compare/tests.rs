//! Comparisons: values, broadcasting, NaN, every dtype.

use regard_engine::check::Case;
use regard_engine::{Feed, reference};
use regard_graph::{Graph, shape};
use regard_ops::Array;
use regard_ops::prelude::*;

#[test]
fn values() {
    let mut g = Graph::new();
    let a = g.input("a", DType::I32, [2, 1]).unwrap();
    let b = g.input("b", DType::I32, [3]).unwrap();
    let all = [g.less(a, b).unwrap(), g.less_equal(a, b).unwrap(), g.equal(a, b).unwrap()];
    let feed = Feed::new()
        .with("a", Array::new(&[2, 1], vec![1.0, 2.0]).unwrap())
        .with("b", Array::new(&[3], vec![0.0, 1.0, 2.0]).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    assert_eq!(run.value(all[0]).data(), [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    assert_eq!(run.value(all[1]).data(), [0.0, 1.0, 1.0, 0.0, 0.0, 1.0]);
    assert_eq!(run.value(all[2]).data(), [0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
    assert_eq!(g.dtype(all[0]), DType::Bool);
}

fn every(g: &mut Graph, a: Var, b: Var) -> regard_graph::Result<Vec<Var>> {
    Ok(vec![g.less(a, b)?, g.less_equal(a, b)?, g.equal(a, b)?])
}

#[test]
fn both_engines_agree() {
    let shapes: [(&'static [usize], &'static [usize]); 5] =
        [(&[5, 1, 7], &[3, 1]), (&[], &[4]), (&[0, 3], &[3]), (&[2, 1201], &[1201]), (&[13], &[13])];
    for (a, b) in shapes {
        let numbers = |dims: &[usize], by: usize| -> Vec<f64> {
            (0..dims.iter().product()).map(|i| (i * by % 5) as f64).collect()
        };
        let case = Case::new(move |g| {
            let (a, b) = (g.input("a", DType::I32, a)?, g.input("b", DType::I32, b)?);
            every(g, a, b)
        });
        let case = case.given("a", a, &numbers(a, 7)).given("b", b, &numbers(b, 3));
        case.cpu(0.0).unwrap();
        case.cost().unwrap();
        for dtype in [DType::F32, DType::BF16] {
            let case = Case::new(move |g| {
                let (a, b) = (g.input("a", dtype, a)?, g.input("b", DType::F32, b)?);
                every(g, a, b)
            });
            let case = case.given("a", a, &numbers(a, 7)).given("b", b, &numbers(b, 3));
            case.cpu(0.0).unwrap();
        }
    }
}

#[test]
fn nothing_compares_with_nan() {
    let case = Case::new(|g| {
        let (a, b) = (g.input("a", DType::F32, [2])?, g.input("b", DType::F32, [2])?);
        every(g, a, b)
    });
    let case = case.given("a", &[2], &[f64::NAN, 1.0]).given("b", &[2], &[f64::NAN, f64::NAN]);
    case.cpu(0.0).unwrap();
    let recorded = case.forward().unwrap();
    let run = reference::run(&recorded.graph, &recorded.feed, reference::Mode::Exact).unwrap();
    assert!(recorded.outputs.iter().all(|&var| run.value(var).data() == [0.0, 0.0]));
}

#[test]
fn open_letters_and_no_gradient() {
    let case = Case::new(|g| {
        let t = g.open('T', 9)?;
        let x = g.input_with_gradient("x", shape![t])?;
        let y = g.input("y", DType::F32, shape![t, 1])?;
        let causal = g.less_equal(y, x)?;
        let causal = g.cast(causal, DType::F32)?;
        Ok(vec![g.mul(x, causal)?])
    });
    case.size('T', 4).all(3e-7).unwrap();
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2]).unwrap();
    let i = g.input("i", DType::I32, [3]).unwrap();
    let b = g.input("b", DType::Bool, [2]).unwrap();
    let text = |result: regard_graph::Result<Var>| result.unwrap_err().to_string();
    let advice = "integers compare with integers, floats with floats";
    assert_eq!(text(g.less(x, i)), format!("less: b is i32, expected f32 or bf16 as a; {advice}"));
    assert_eq!(text(g.equal(i, x)), format!("equal: b is f32, expected i32 as a; {advice}"));
    assert_eq!(text(g.equal(b, x)), format!("equal: a is bool, expected i32, f32 or bf16; {advice}"));
    assert_eq!(text(g.equal(x, b)), format!("equal: b is bool, expected i32, f32 or bf16; {advice}"));
    assert_eq!(
        text(g.less_equal(i, i).and_then(|_| {
            let j = g.input("j", DType::I32, [2])?;
            g.less_equal(i, j)
        })),
        "less_equal: b is [2], expected sizes equal to those of [3], or 1; a is [3], aligned at the last axis"
    );
}
