//! Where gradients stop.

use regard_engine::check::Case;
use regard_graph::{Flow, Graph};
use regard_ops::prelude::*;

#[test]
fn the_value_passes_and_the_gradient_does_not() {
    // y = x · stop(x), so dy/dx is x and not 2x: with x stopped the other factor is data.
    let case = Case::new(|g| {
        let x = g.input_with_gradient("x", [3, 5])?;
        let data = g.input("data", DType::F32, [3, 5])?;
        let stopped = g.stop_gradient(data)?;
        Ok(vec![g.mul(x, stopped)?])
    });
    case.all(1.1e-7).unwrap();

    let mut g = Graph::new();
    let x = g.input_with_gradient("x", [2]).unwrap();
    let stopped = g.stop_gradient(x).unwrap();
    assert_eq!(g.value(stopped).flow, Flow::None);
    let product = g.mul(x, stopped).unwrap();
    let loss = g.sum_all(product).unwrap();
    let grad = g.gradient(loss, &[x]).unwrap()[0];
    let feed = regard_engine::Feed::new().with("x", regard_ops::Array::new(&[2], vec![3.0, -4.0]).unwrap());
    let run = regard_engine::reference::run(&g, &feed, regard_engine::reference::Mode::Exact).unwrap();
    assert_eq!(run.value(grad).data(), [3.0, -4.0]);
}

#[test]
fn a_loss_behind_it_is_an_error() {
    let mut g = Graph::new();
    let x = g.input_with_gradient("x", []).unwrap();
    let stopped = g.stop_gradient(x).unwrap();
    assert_eq!(
        g.gradient(stopped, &[x]).unwrap_err().to_string(),
        "gradient: the value does not depend on any of the variables given; check for a stop_gradient, \
         an integer op, or a graph recorded for inference in between"
    );
}

#[test]
fn integers_pass_too() {
    let case = Case::new(|g| {
        let i = g.input("i", DType::I32, [3])?;
        Ok(vec![g.stop_gradient(i)?])
    });
    case.given("i", &[3], &[1.0, -2.0, 3.0]).cpu(0.0).unwrap();
}
