//! Casts: rounding, integers, gradients, errors.

use regard_engine::check::Case;
use regard_engine::{Feed, reference};
use regard_graph::Graph;
use regard_ops::Array;
use regard_ops::prelude::*;

#[test]
fn bf16_rounds_to_even() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [4]).unwrap();
    let y = g.cast(x, DType::BF16).unwrap();
    // bf16 has 8 significant bits: 1 + 2⁻⁸ is a tie and goes to 1, 1 + 3·2⁻⁸ to 1 + 2⁻⁶.
    let ulp = 1.0 / 128.0;
    let numbers = vec![1.0, 1.0 + ulp / 2.0, 1.0 + 1.5 * ulp, -3.0];
    let feed = Feed::new().with("x", Array::new(&[4], numbers.clone()).unwrap());
    let rounded = reference::run(&g, &feed, reference::Mode::Rounded).unwrap();
    assert_eq!(rounded.value(y).data(), [1.0, 1.0, 1.0 + 2.0 * ulp, -3.0]);
    let exact = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    assert_eq!(exact.value(y).data(), numbers);
}

#[test]
fn every_reader_agrees() {
    for dims in [&[][..], &[1], &[3, 7], &[0, 2], &[1301]] {
        let case = Case::new(move |g| {
            let x = g.input_with_gradient("x", dims)?;
            let rounded = g.cast(x, DType::BF16)?;
            Ok(vec![g.cast(rounded, DType::F32)?])
        });
        case.all(0.0).unwrap();
    }
}

#[test]
fn integers_and_booleans() {
    for to in [DType::F32, DType::BF16] {
        let case = Case::new(move |g| {
            let i = g.input("i", DType::I32, [5])?;
            let b = g.input("b", DType::Bool, [3])?;
            Ok(vec![g.cast(i, to)?, g.cast(b, to)?])
        });
        let case = case.given("i", &[5], &[-7.0, 0.0, 3.0, 100.0, 1000.0]).given("b", &[3], &[1.0, 0.0, 1.0]);
        case.cpu(0.0).unwrap();
        case.cost().unwrap();
    }
}

#[test]
fn the_same_dtype_is_the_value_itself() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2]).unwrap();
    assert_eq!(g.cast(x, DType::F32).unwrap(), x);
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2]).unwrap();
    assert_eq!(
        g.cast(x, DType::I32).unwrap_err().to_string(),
        "cast: f32 to i32 is not a cast; cast to f32 or bf16; use `less`, `equal` for booleans and \
         `add_integers` for positions"
    );
}
