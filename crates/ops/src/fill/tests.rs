//! Constant values of open shapes.

use regard_engine::check::Case;
use regard_graph::{Graph, shape};
use regard_ops::prelude::*;

#[test]
fn every_reader_agrees() {
    for dtype in [DType::F32, DType::BF16] {
        let case = Case::new(move |g| {
            let t = g.open('T', 16)?;
            let x = g.input_with_gradient("x", shape![t, 3])?;
            let ones = g.fill(dtype, shape![t, 3], 1.5)?;
            let empty = g.fill(dtype, [2, 0], 1.0)?;
            Ok(vec![ones, g.mul(x, ones)?, empty])
        });
        case.size('T', 7).all(1e-7).unwrap();
    }
    let case = Case::new(|g| Ok(vec![g.fill(DType::F32, [40_001], -2.0)?]));
    case.cpu(0.0).unwrap();
    let recorded = case.forward().unwrap();
    let mode = regard_engine::reference::Mode::Exact;
    let run = regard_engine::reference::run(&recorded.graph, &recorded.feed, mode).unwrap();
    assert_eq!(run.value(recorded.outputs[0]).data(), vec![-2.0; 40_001]);
}

#[test]
fn errors() {
    let mut g = Graph::new();
    assert_eq!(
        g.fill(DType::I32, [2], 1.0).unwrap_err().to_string(),
        "fill: result is i32, expected f32 or bf16; cast it to f32 first"
    );
}
