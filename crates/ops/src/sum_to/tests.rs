//! Sums and means: values, every walk, open letters, long sums, errors.

use regard_engine::check::Case;
use regard_engine::{Feed, reference};
use regard_graph::{Graph, shape};
use regard_ops::prelude::*;
use regard_ops::{Array, SumTo};

fn case(mean: bool, from: &'static [usize], to: &'static [usize]) -> Case<'static> {
    Case::new(move |g| {
        let x = g.input_with_gradient("x", from)?;
        Ok(vec![g.apply_one(SumTo { fact: Fact::f32(to), mean }, &[x])?])
    })
}

#[test]
fn values() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 3]).unwrap();
    let sums = [g.sum(x, &[0]).unwrap(), g.sum(x, &[1]).unwrap(), g.sum(x, &[0, 1]).unwrap()];
    let means = [g.mean(x, &[0]).unwrap(), g.mean_keep(x, &[1]).unwrap(), g.mean_all(x).unwrap()];
    let squares = g.sum_squares(x, &[1]).unwrap();
    let feed = Feed::new().with("x", Array::new(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    assert_eq!(run.value(sums[0]).data(), [5.0, 7.0, 9.0]);
    assert_eq!(run.value(sums[1]).data(), [6.0, 15.0]);
    assert_eq!(run.value(sums[2]).data(), [21.0]);
    assert_eq!(run.value(means[0]).data(), [2.5, 3.5, 4.5]);
    assert_eq!(run.value(means[1]).data(), [2.0, 5.0]);
    assert_eq!(run.value(means[2]).data(), [3.5]);
    assert_eq!(run.value(squares).data(), [14.0, 77.0]);
    let shapes = [sums[1], means[1], means[2]].map(|var| g.shape(var).to_string());
    assert_eq!(shapes, ["[2]", "[2 1]", "[]"]);
}

#[test]
fn every_reader_agrees() {
    let shapes: [(&'static [usize], &'static [usize]); 9] = [
        (&[2, 3, 5], &[5]),
        (&[2, 3, 5], &[2, 1, 1]),
        (&[2, 3, 5], &[2, 1, 5]),
        (&[2, 3, 5], &[1, 3, 1]),
        (&[7, 1, 4], &[1, 1]),
        (&[3, 4, 0], &[4, 1]),
        (&[0, 3], &[3]),
        (&[13], &[]),
        (&[3, 2, 3, 2], &[2, 1, 2]),
    ];
    for (from, to) in shapes {
        // About twice PyTorch's errors.
        case(false, from, to).all(1.2e-6).unwrap_or_else(|e| panic!("{from:?} {to:?}: {e}"));
        if from.iter().all(|&size| size > 0) {
            case(true, from, to).all(3.5e-7).unwrap_or_else(|e| panic!("mean {from:?} {to:?}: {e}"));
        }
    }
}

#[test]
fn long_sums() {
    for (from, to) in
        [(&[5003][..], &[][..]), (&[1301, 3], &[3]), (&[3, 1301], &[3, 1]), (&[5, 701, 3], &[701, 1])]
    {
        case(false, from, to).cpu(1.2e-6).unwrap();
        case(true, from, to).cpu(1.2e-6).unwrap();
    }
}

#[test]
fn a_mean_counts_what_the_run_has() {
    let record = |g: &mut Graph| {
        let t = g.open('T', 16)?;
        let x = g.input_with_gradient("x", shape![2, t, 3])?;
        Ok(vec![g.mean(x, &[1])?, g.mean_all(x)?, g.sum(x, &[0, 1])?])
    };
    for size in [1, 5, 16] {
        Case::new(record).size('T', size).all(5e-7).unwrap();
    }
}

#[test]
fn bf16_sums_are_f32() {
    let case = Case::new(|g| {
        let x = g.input_with_gradient("x", [7, 33])?;
        let x = g.cast(x, DType::BF16)?;
        let (sum, mean) = (g.sum(x, &[1])?, g.mean(x, &[0])?);
        assert_eq!(g.dtype(sum), DType::F32);
        // A sum over nothing but an axis of size 1 is f32, too.
        let one = g.reshape(x, [7, 33, 1])?;
        let one = g.sum(one, &[2])?;
        assert_eq!(g.dtype(one), DType::F32);
        Ok(vec![sum, mean, one])
    });
    case.cpu(0.0085).unwrap();
}

#[test]
fn the_mean_of_nothing_is_not_a_number() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 0]).unwrap();
    let y = g.mean(x, &[1]).unwrap();
    let feed = Feed::new().with("x", Array::new(&[2, 0], vec![]).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    assert!(run.value(y).data().iter().all(|y| y.is_nan()));
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 3]).unwrap();
    let y = g.input("y", DType::F32, [3, 2]).unwrap();
    let wide = g.input("wide", DType::F32, [4, 2, 3]).unwrap();
    let i = g.input("i", DType::I32, [2, 3]).unwrap();
    let text = |result: regard_graph::Result<Var>| result.unwrap_err().to_string();
    for axes in [&[][..], &[2], &[0, 0]] {
        let what = format!(
            "{axes:?} are not axes of x, which is [2 3]; name at least one axis, each once, counted from 0"
        );
        assert_eq!(text(g.sum(x, axes)), format!("sum: {what}"));
        assert_eq!(text(g.mean(x, axes)), format!("mean: {what}"));
        assert_eq!(text(g.sum_squares(x, axes)), format!("sum_squares: {what}"));
    }
    assert_eq!(text(g.sum(i, &[0])), "sum_to: x is i32, expected f32 or bf16; cast it to f32 first");
    assert_eq!(text(g.mean_all(i)), "mean_to: x is i32, expected f32 or bf16; cast it to f32 first");
    assert_eq!(
        text(g.sum_to(x, y)),
        "sum_to: like is [3 2], expected sizes equal to those of [2 3], or 1; x is [2 3], aligned at the last axis"
    );
    assert_eq!(
        text(g.sum_to(x, wide)),
        "sum_to: like is [4 2 3], expected a shape that broadcasts to [2 3]; it comes from x"
    );
}
