//! Gated units: values, every reader, either gradient alone.

use regard_engine::check::Case;
use regard_engine::{Feed, reference};
use regard_graph::{Graph, shape};
use regard_ops::prelude::*;
use regard_ops::{Array, Gate};

fn case(gate: Gate, dims: &'static [usize]) -> Case<'static> {
    let case = Case::new(move |g| {
        let a = g.input_with_gradient("a", dims)?;
        let b = g.input_with_gradient("b", dims)?;
        Ok(vec![g.gated(gate, a, b)?])
    });
    let count: usize = dims.iter().product();
    // Away from the kink of relu.
    let numbers: Vec<f64> = (0..count).map(|i| (i * 5 % 17) as f64 / 8.0 - 1.0625).collect();
    case.given("a", dims, &numbers).draws(60) // enough to cross the kink
}

#[test]
fn values() {
    let mut g = Graph::new();
    let a = g.input("a", DType::F32, [2]).unwrap();
    let b = g.input("b", DType::F32, [2]).unwrap();
    let vars = Gate::ALL.map(|gate| g.gated(gate, a, b).unwrap());
    let feed = Feed::new()
        .with("a", Array::new(&[2], vec![1.0, -1.0]).unwrap())
        .with("b", Array::new(&[2], vec![3.0, 2.0]).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    let known = [
        [3.0, 0.0],
        [3.0 * 0.841_344_746_068_542_9, -2.0 * 0.158_655_253_931_457_1],
        [3.0 * 0.841_191_990_608_276_8, -2.0 * 0.158_808_009_391_723_2],
        [3.0 * 0.731_058_578_630_004_9, -2.0 * 0.268_941_421_369_995_1],
        [3.0 * 0.731_058_578_630_004_9, 2.0 * 0.268_941_421_369_995_1],
    ];
    for (var, known) in vars.into_iter().zip(known) {
        for (got, want) in run.value(var).data().iter().zip(known) {
            assert!((got - want).abs() < 1e-14, "{got} {want}");
        }
    }
}

#[test]
fn every_reader_agrees() {
    for gate in Gate::ALL {
        for dims in [&[1][..], &[5, 7], &[2, 3, 11], &[0, 4], &[2, 601]] {
            // Twice PyTorch's error of GELU, the largest among the gates.
            case(gate, dims).all(5.3e-7).unwrap_or_else(|e| panic!("{gate:?} {dims:?}: {e}"));
        }
    }
}

#[test]
fn one_gradient_alone() {
    for wanted in ["a", "b"] {
        let case = Case::new(move |g| {
            let side = |name: &str, g: &mut Graph| match name == wanted {
                true => g.input_with_gradient(name, [3, 5]),
                false => g.input(name, DType::F32, [3, 5]),
            };
            let (a, b) = (side("a", g)?, side("b", g)?);
            Ok(vec![g.gated(Gate::Silu, a, b)?])
        });
        case.all(5e-7).unwrap();
    }
}

#[test]
fn open_letters() {
    let case = Case::new(|g| {
        let t = g.open('T', 9)?;
        let a = g.input_with_gradient("a", shape![t, 3])?;
        let b = g.input_with_gradient("b", shape![t, 3])?;
        Ok(vec![g.gated(Gate::Gelu, a, b)?])
    });
    case.size('T', 4).all(5.3e-7).unwrap();
}

#[test]
fn bf16() {
    for (first, second) in [(DType::BF16, DType::BF16), (DType::F32, DType::BF16)] {
        let case = Case::new(move |g| {
            let a = g.input_with_gradient("a", [3, 17])?;
            let b = g.input_with_gradient("b", [3, 17])?;
            let (a, b) = (g.cast(a, first)?, g.cast(b, second)?);
            Ok(vec![g.gated(Gate::Silu, a, b)?])
        });
        case.cpu(0.0087).unwrap();
        let recorded = case.forward().unwrap();
        assert_eq!(recorded.graph.dtype(recorded.outputs[0]), first);
    }
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let a = g.input("a", DType::F32, [2, 3]).unwrap();
    let b = g.input("b", DType::F32, [3]).unwrap();
    let i = g.input("i", DType::I32, [2, 3]).unwrap();
    assert_eq!(
        g.gated(Gate::Silu, a, b).unwrap_err().to_string(),
        "gated: b is [3], expected [2 3]; ... comes from a"
    );
    assert_eq!(
        g.gated(Gate::Silu, i, a).unwrap_err().to_string(),
        "gated: a is i32, expected f32 or bf16; cast it to f32 first"
    );
}
