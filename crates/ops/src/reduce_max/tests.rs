//! Maxima: values, ties, NaN, every reader.

use regard_engine::check::{Case, Exactness};
use regard_engine::{Cpu, Feed, Program, Store, reference};
use regard_graph::{Graph, shape};
use regard_ops::Array;
use regard_ops::prelude::*;

fn run(x: &[f64], dims: &[usize], axes: &[usize]) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let mut g = Graph::new();
    let v = g.input_with_gradient("x", dims).unwrap();
    let (y, index) = g.max_with_index(v, axes).unwrap();
    let loss = g.sum_all(y).unwrap();
    let dx = g.gradient(loss, &[v]).unwrap()[0];
    for (name, var) in [("y", y), ("index", index), ("dx", dx)] {
        g.output(name, var).unwrap();
    }
    let array = Array::new(dims, x.to_vec()).unwrap();
    let exact = reference::run(&g, &Feed::new().with("x", array.clone()), reference::Mode::Exact).unwrap();
    let want = [y, index, dx].map(|var| exact.value(var).data().to_vec());
    let (cpu, mut store) = (Cpu::new().unwrap(), Store::new(0));
    let mut program = Program::new(g, &[], &mut store, &cpu).unwrap();
    program.set_array("x", &array).unwrap();
    program.run(&mut store).unwrap();
    for (name, want) in ["y", "index", "dx"].into_iter().zip(&want) {
        let got = program.array(name).unwrap();
        let same = got.data().iter().zip(want).all(|(a, b)| a == b || (a.is_nan() && b.is_nan()));
        assert!(same, "{name}: {got:?} {want:?}");
    }
    let [y, index, dx] = want;
    (y, index, dx)
}

#[test]
fn values_and_ties() {
    let (y, index, dx) = run(&[1.0, 5.0, 5.0, -2.0, -3.0, -2.0], &[2, 3], &[1]);
    assert_eq!(y, [5.0, -2.0]);
    assert_eq!(index, [1.0, 0.0], "ties go to the lowest index");
    assert_eq!(dx, [0.0, 1.0, 0.0, 1.0, 0.0, 0.0]);
    let (y, index, dx) = run(&[1.0, 5.0, 4.0, 2.0], &[2, 2], &[0]);
    assert_eq!((y, index, dx), (vec![4.0, 5.0], vec![1.0, 0.0], vec![0.0, 1.0, 1.0, 0.0]));
}

#[test]
fn nan_infinities_and_nothing() {
    let (y, index, _) = run(&[1.0, f64::NAN, 7.0, f64::NAN], &[4], &[0]);
    assert!(y[0].is_nan() && index == [1.0]);
    assert_eq!(run(&[f64::NEG_INFINITY; 3], &[3], &[0]).1, [0.0]);
    assert_eq!(run(&[], &[2, 0], &[1]).0, [f64::NEG_INFINITY; 2]);
    assert_eq!(run(&[], &[0, 2], &[1]).0, [0.0; 0]);
}

#[test]
fn every_reader_agrees() {
    let cases: [(&'static [usize], &'static [usize]); 7] = [
        (&[7], &[0]),
        (&[3, 5], &[1]),
        (&[3, 5], &[0]),
        (&[2, 3, 5], &[0, 2]),
        (&[2, 3, 5], &[2, 1]),
        (&[2, 3, 5], &[1]),
        (&[1, 1], &[0]),
    ];
    for (dims, axes) in cases {
        let case = Case::new(move |g| {
            let x = g.input_with_gradient("x", dims)?;
            Ok(vec![g.max(x, axes)?, g.max_keep(x, axes)?])
        });
        // Enough draws to lift the smallest element over the largest.
        case.draws(200).all(1.2e-7).unwrap_or_else(|e| panic!("{dims:?} {axes:?}: {e}"));
    }
}

#[test]
fn long_rows_cross_chunks() {
    let case = Case::new(|g| {
        let x = g.input_with_gradient("x", [2, 1301])?;
        Ok(vec![g.max(x, &[1])?])
    });
    case.gradients().unwrap();
    case.cpu(0.0).unwrap();
    case.cost().unwrap();
    case.reach(Exactness::Safe).unwrap();
}

#[test]
fn open_letters_and_bf16() {
    let case = Case::new(|g| {
        let t = g.open('T', 16)?;
        let x = g.input_with_gradient("x", shape![2, t, 3])?;
        let (max, index) = g.max_with_index(x, &[1])?;
        Ok(vec![max, index, g.argmax(x, 1)?])
    });
    case.size('T', 5).draws(200).all(0.0).unwrap();
    let case = Case::new(|g| {
        let x = g.input_with_gradient("x", [4, 31])?;
        let x = g.cast(x, DType::BF16)?;
        Ok(vec![g.max(x, &[1])?])
    });
    case.cpu(0.008).unwrap();
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 3]).unwrap();
    let i = g.input("i", DType::I32, [2, 3]).unwrap();
    let text = |result: regard_graph::Result<Var>| result.unwrap_err().to_string();
    for axes in [&[][..], &[2], &[1, 1]] {
        assert_eq!(
            text(g.max(x, axes)),
            format!(
                "max: {axes:?} are not axes of x, which is [2 3]; name at least one axis, each once, \
                 counted from 0"
            )
        );
    }
    assert_eq!(text(g.argmax(i, 0)), "max: x is i32, expected f32 or bf16; cast it to f32 first");
}
