//! SGD against PyTorch's own steps, on both engines; errors.

use regard_engine::check::{Case, Exactness};
use regard_engine::{Cpu, Feed, Program, Store, reference};
use regard_graph::Graph;
use regard_ops::prelude::*;
use regard_ops::{Array, Sgd, SgdStep};

const START: [f64; 3] = [1.0, -2.0, 0.5];
const GRADIENTS: [[f64; 3]; 3] = [[0.1, -0.2, 0.3], [0.5, 0.0, -0.25], [-1.0, 0.75, 2.0]];

fn program(settings: Sgd, scaled: bool) -> Graph {
    let mut g = Graph::new();
    let p = g.parameter("w", [3], Init::Zeros).unwrap();
    let gradient = g.input("gradient", DType::F32, [3]).unwrap();
    let lr = g.input("lr", DType::F32, []).unwrap();
    let scale = scaled.then(|| g.input("scale", DType::F32, []).unwrap());
    let updated = g.sgd_step(&[(p, gradient)], &settings, lr, scale).unwrap();
    g.output("w", updated[0]).unwrap();
    g
}

#[test]
fn three_steps_are_those_of_pytorch() {
    // torch.optim.SGD in float64 from START with GRADIENTS, lr 0.1: plain; momentum 0.9 with weight decay
    // 0.05; Nesterov with momentum 0.9 and the gradients halved.
    let known = [
        (Sgd::default(), None, [1.04, -2.055, 0.295]),
        (
            Sgd { momentum: 0.9, nesterov: false, weight_decay: 0.05 },
            None,
            [0.950409625, -1.96531925, 0.2526791875],
        ),
        (Sgd { momentum: 0.9, nesterov: true, weight_decay: 0.0 }, Some(0.5), [1.010055, -2.03686, 0.29229]),
    ];
    for (settings, scale, want) in known {
        let g = program(settings, scale.is_some());
        let (cpu, mut store) = (Cpu::new().unwrap(), Store::new(0));
        let fast = program(settings, scale.is_some());
        let mut fast = Program::new(fast, &[], &mut store, &cpu).unwrap();
        store.set_f32("w", &START.map(|x| x as f32)).unwrap();
        fast.set_f32("lr", &[], &[0.1]).unwrap();
        let mut feed = Feed::new().with_stored("w", Array::new(&[3], START.to_vec()).unwrap());
        feed = feed.with("lr", Array::scalar(0.1));
        if let Some(scale) = scale {
            feed = feed.with("scale", Array::scalar(scale));
            fast.set_f32("scale", &[], &[scale as f32]).unwrap();
        }
        for gradient in GRADIENTS {
            feed = feed.with("gradient", Array::new(&[3], gradient.to_vec()).unwrap());
            let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
            for stored in g.stored() {
                feed = feed.with_stored(&stored.name, run.value(stored.current).clone());
            }
            fast.set_f32("gradient", &[3], &gradient.map(|x| x as f32)).unwrap();
            fast.run(&mut store).unwrap();
        }
        let got = store.f32("w").unwrap();
        for ((exact, got), want) in feed.stored["w"].data().iter().zip(&got).zip(want) {
            assert!((exact - want).abs() < 1e-14, "{settings:?}: {exact} {want}");
            assert!((f64::from(*got) - want).abs() < 3e-7, "{settings:?}: {got} {want}");
        }
    }
}

#[test]
fn both_engines_agree() {
    for dims in [&[][..], &[7, 13], &[0], &[1031]] {
        for (momentum, nesterov) in [(0.0, false), (0.9, false), (0.9, true)] {
            for scaled in [false, true] {
                let weight_decay = if scaled { 0.1 } else { 0.0 };
                let settings = Sgd { momentum, nesterov, weight_decay };
                let case = Case::new(move |g| {
                    let p = g.parameter("w", dims, Init::Normal(1.0))?;
                    let mut inputs = vec![p, g.input("gradient", DType::F32, dims)?];
                    if momentum != 0.0 {
                        inputs.push(g.state("kept", DType::F32, dims, Init::Constant(0.3))?);
                    }
                    inputs.push(g.input("lr", DType::F32, [])?);
                    if scaled {
                        inputs.push(g.input("scale", DType::F32, [])?);
                    }
                    g.apply(SgdStep { settings, scaled }, &inputs)
                });
                let case = case.given("lr", &[], &[0.05]).given("scale", &[], &[0.7]);
                // Twice PyTorch's error.
                case.cpu(1.2e-7).unwrap_or_else(|e| panic!("{dims:?} {settings:?}: {e}"));
                case.cost().unwrap();
                case.reach(Exactness::Equal).unwrap_or_else(|e| panic!("{dims:?} {settings:?}: {e}"));
            }
        }
    }
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let p = g.parameter("w", [3], Init::Zeros).unwrap();
    let x = g.input("x", DType::F32, [3]).unwrap();
    let half = g.input("half", DType::BF16, [3]).unwrap();
    let lr = g.input("lr", DType::F32, []).unwrap();
    let mut text = |pair, settings: Sgd| g.sgd_step(&[pair], &settings, lr, None).unwrap_err().to_string();
    let plain = Sgd::default();
    assert_eq!(
        text((x, x), plain),
        "sgd: param is neither a parameter nor a state; only what lives in the store can be updated"
    );
    assert_eq!(text((p, lr), plain), "sgd: gradient is [], expected [3]; ... comes from param");
    assert_eq!(
        text((p, half), plain),
        "sgd: gradient is bf16, expected f32; parameters and their statistics are f32"
    );
    assert_eq!(
        text((p, x), Sgd { momentum: -0.5, ..plain }),
        "sgd: momentum is -0.5; give a number not below 0"
    );
    assert_eq!(
        text((p, x), Sgd { weight_decay: f64::NAN, ..plain }),
        "sgd: weight_decay is NaN; give a number not below 0"
    );
    assert_eq!(
        text((p, x), Sgd { nesterov: true, ..plain }),
        "sgd: nesterov is on and momentum is 0; give it a momentum"
    );
}
