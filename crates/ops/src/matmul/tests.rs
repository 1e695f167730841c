//! Products of two values: values, every reader, many small and few large ones, error texts.

use regard_engine::check::Case;
use regard_engine::{Feed, reference};
use regard_graph::{Graph, shape};
use regard_ops::prelude::*;
use regard_ops::{Array, MatmulOptions};

fn case(
    leading: &'static [usize],
    [m, k, n]: [usize; 3],
    options: MatmulOptions,
    (one_a, one_b): (bool, bool),
) -> Case<'static> {
    Case::new(move |g| {
        let lead = |single: bool| if single { &[][..] } else { leading };
        let a = if options.transpose_a { [k, m] } else { [m, k] };
        let b = if options.transpose_b { [n, k] } else { [k, n] };
        let a = g.input_with_gradient("a", &[lead(one_a), &a].concat()[..])?;
        let b = g.input_with_gradient("b", &[lead(one_b), &b].concat()[..])?;
        Ok(vec![g.matmul(a, b, options)?])
    })
}

fn flags() -> impl Iterator<Item = MatmulOptions> {
    (0..4).map(|bits| MatmulOptions {
        transpose_a: bits & 1 == 1,
        transpose_b: bits & 2 == 2,
        ..Default::default()
    })
}

#[test]
fn values() {
    let mut g = Graph::new();
    let a = g.input("a", DType::F32, [2, 1, 2]).unwrap();
    let b = g.input("b", DType::F32, [2, 2, 2]).unwrap();
    let y = g.matmul(a, b, MatmulOptions { scale: 0.5, ..Default::default() }).unwrap();
    let turned = g.matmul(a, b, MatmulOptions { transpose_b: true, ..Default::default() }).unwrap();
    let outer = g.matmul(a, a, MatmulOptions { transpose_a: true, ..Default::default() }).unwrap();
    let feed = Feed::new()
        .with("a", Array::new(&[2, 1, 2], vec![1.0, 2.0, -1.0, 3.0]).unwrap())
        .with("b", Array::new(&[2, 2, 2], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    assert_eq!(run.value(y).data(), [3.5, 5.0, 8.0, 9.0]);
    assert_eq!(run.value(turned).data(), [5.0, 11.0, 13.0, 17.0]);
    assert_eq!(run.value(outer).data(), [1.0, 2.0, 2.0, 4.0, 1.0, -3.0, -3.0, 9.0]);
}

#[test]
fn every_reader_agrees() {
    for options in flags() {
        for sizes in [[1, 1, 1], [3, 5, 2], [7, 13, 33]] {
            for leading in [&[][..], &[2], &[2, 3], &[5, 1]] {
                case(leading, sizes, options, (false, false)).all(1e-6).unwrap();
            }
            case(&[3], sizes, options, (false, true)).all(1e-6).unwrap();
            case(&[2, 2], sizes, options, (true, false)).all(1e-6).unwrap();
        }
        let scaled = MatmulOptions { scale: -0.37, ..options };
        case(&[4], [3, 8, 5], scaled, (false, true)).all(1e-6).unwrap();
        case(&[4], [3, 8, 5], scaled, (false, false)).all(1e-6).unwrap();
    }
}

#[test]
fn few_large_and_many_small() {
    let none = MatmulOptions::default();
    // Sums of a thousand.
    case(&[2], [40, 300, 1000], none, (false, false)).card_bound(3e-6).cpu(1e-6).unwrap();
    case(&[67], [5, 16, 40], none, (false, false)).cpu(1e-6).unwrap();
    let turned = MatmulOptions { transpose_a: true, ..none };
    case(&[9], [30, 17, 70], turned, (false, true)).cpu(1e-6).unwrap();
}

#[test]
fn nothing_to_multiply() {
    for options in flags() {
        case(&[0], [3, 4, 5], options, (false, false)).cpu(0.0).unwrap();
        case(&[2], [0, 4, 5], options, (false, true)).cpu(0.0).unwrap();
        case(&[2], [3, 0, 5], options, (false, false)).cpu(0.0).unwrap();
        case(&[2], [3, 4, 0], options, (false, false)).cpu(0.0).unwrap();
    }
}

#[test]
fn open_letters() {
    let case = Case::new(|g| {
        let (b, t) = (g.open('B', 4)?, g.open('T', 16)?);
        let q = g.input_with_gradient("q", shape![b, t, 6])?;
        let k = g.input_with_gradient("k", shape![b, t, 6])?;
        Ok(vec![g.matmul(q, k, MatmulOptions { transpose_b: true, scale: 0.4, ..Default::default() })?])
    });
    case.size('B', 3).size('T', 5).all(1e-6).unwrap();
}

#[test]
fn bf16_agrees() {
    for options in flags() {
        for (one_a, one_b) in [(false, false), (false, true), (true, false)] {
            let case = Case::new(move |g| {
                g.set_precision(Precision::Bf16);
                let (m, k, n) = (5, 64, 17);
                let a = if options.transpose_a { [k, m] } else { [m, k] };
                let b = if options.transpose_b { [n, k] } else { [k, n] };
                let lead = |single: bool| if single { &[][..] } else { &[3][..] };
                let a = g.input_with_gradient("a", &[lead(one_a), &a].concat()[..])?;
                let b = g.input_with_gradient("b", &[lead(one_b), &b].concat()[..])?;
                let half = Fact::new(g.shape(b), DType::BF16);
                let b = g.sum_to_fact(b, half)?;
                let y = g.matmul(a, b, options)?;
                assert_eq!(g.dtype(y), DType::BF16);
                Ok(vec![y])
            });
            case.cpu(7e-3).unwrap();
            case.cost().unwrap();
        }
    }
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let a = g.input("a", DType::F32, [2, 3, 4]).unwrap();
    let b = g.input("b", DType::F32, [2, 5, 6]).unwrap();
    let c = g.input("c", DType::F32, [3, 4, 6]).unwrap();
    let row = g.input("row", DType::F32, [4]).unwrap();
    let i = g.input("i", DType::I32, [4, 6]).unwrap();
    let none = MatmulOptions::default();
    let mut text = |a: Var, b: Var, options: MatmulOptions| g.matmul(a, b, options).unwrap_err().to_string();
    assert_eq!(text(a, b, none), "matmul: b is [2 5 6], expected [2 K=4 N]; ..., K come from a");
    assert_eq!(
        text(a, b, MatmulOptions { transpose_b: true, ..none }),
        "matmul: b is [2 5 6], expected [2 N K=4]; ..., K come from a"
    );
    assert_eq!(text(a, c, none), "matmul: b is [3 4 6], expected [2 K=4 N]; ..., K come from a");
    assert_eq!(text(row, c, none), "matmul: a is [4], expected [... M K]");
    assert_eq!(text(a, i, none), "matmul: b is i32, expected f32 or bf16; cast it to f32 first");
    assert_eq!(
        text(a, c, MatmulOptions { scale: f32::NAN, ..none }),
        "matmul: the scale is NaN; give a finite number, such as 1"
    );
}
