//! Permutations of axes: values, all orders, tiles with ragged edges, every dtype.

use regard_engine::check::Case;
use regard_engine::{Feed, reference};
use regard_graph::{Graph, shape};
use regard_ops::Array;
use regard_ops::prelude::*;

fn case(dims: &'static [usize], order: &'static [usize]) -> Case<'static> {
    Case::new(move |g| {
        let x = g.input_with_gradient("x", dims)?;
        Ok(vec![g.transpose(x, order)?])
    })
}

#[test]
fn values() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 3]).unwrap();
    let y = g.transpose(x, &[1, 0]).unwrap();
    let feed = Feed::new().with("x", Array::new(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    assert_eq!(run.value(y).data(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    assert_eq!(g.shape(y).to_string(), "[3 2]");
}

#[test]
fn every_order_of_three_axes() {
    for order in [&[0, 1, 2][..], &[0, 2, 1], &[1, 0, 2], &[1, 2, 0], &[2, 0, 1], &[2, 1, 0]] {
        for dims in [&[2, 3, 5][..], &[1, 7, 2], &[3, 1, 1], &[2, 0, 3]] {
            case(dims, order).all(0.0).unwrap_or_else(|e| panic!("{dims:?} {order:?}: {e}"));
        }
    }
}

#[test]
fn edges_of_tiles() {
    let cases: [(&'static [usize], &'static [usize]); 6] = [
        (&[65, 130], &[1, 0]),
        (&[2, 67, 3, 70], &[0, 2, 1, 3]),
        (&[2, 67, 3, 70], &[3, 0, 2, 1]),
        (&[2, 3, 5, 2, 3, 4], &[5, 3, 1, 0, 2, 4]),
        (&[64, 64], &[1, 0]),
        (&[], &[]),
    ];
    for (dims, order) in cases {
        case(dims, order).cpu(0.0).unwrap_or_else(|e| panic!("{dims:?} {order:?}: {e}"));
        case(dims, order).cost().unwrap();
    }
}

#[test]
fn every_dtype_and_open_letters() {
    let numbers: Vec<f64> = (0..30).map(f64::from).collect();
    let truths: Vec<f64> = (0..30).map(|i| f64::from(i % 3 == 0)).collect();
    let case = Case::new(|g| {
        let t = g.open('T', 9)?;
        let x = g.input("x", DType::BF16, shape![2, t, 3])?;
        let i = g.input("i", DType::I32, shape![2, t, 3])?;
        let b = g.input("b", DType::Bool, shape![2, t, 3])?;
        let order = [1, 2, 0];
        Ok(vec![g.transpose(x, &order)?, g.transpose(i, &order)?, g.transpose(b, &order)?])
    });
    case.size('T', 5).given("i", &[2, 5, 3], &numbers).given("b", &[2, 5, 3], &truths).cpu(0.0).unwrap();
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 3]).unwrap();
    for order in [&[0][..], &[0, 0], &[0, 2], &[0, 1, 2]] {
        assert_eq!(
            g.transpose(x, order).unwrap_err().to_string(),
            format!(
                "transpose: {order:?} is not an order of the 2 axes of x, which is [2 3]; name each axis \
                 once, beginning at 0"
            )
        );
    }
}
