//! AdamW against PyTorch's own steps, on both engines; moments by name; errors.

use regard_engine::check::{Case, Exactness};
use regard_engine::{Cpu, Feed, Program, Store, reference};
use regard_graph::Graph;
use regard_ops::prelude::*;
use regard_ops::{AdamW, AdamWStep, Array};

const START: [f64; 3] = [1.0, -2.0, 0.5];
const GRADIENTS: [[f64; 3]; 3] = [[0.1, -0.2, 0.3], [0.5, 0.0, -0.25], [-1.0, 0.75, 2.0]];

fn program(settings: AdamW, scaled: bool) -> Graph {
    let mut g = Graph::new();
    let p = g.parameter("w", [3], Init::Zeros).unwrap();
    let gradient = g.input("gradient", DType::F32, [3]).unwrap();
    let lr = g.input("lr", DType::F32, []).unwrap();
    let step = g.input("step", DType::I32, []).unwrap();
    let scale = scaled.then(|| g.input("scale", DType::F32, []).unwrap());
    let updated = g.adamw_step(&[(p, gradient)], &settings, lr, step, scale).unwrap();
    g.output("w", updated[0]).unwrap();
    g
}

/// Three steps at lr 0.1 in the reference, the states carried over by name.
fn reference_steps(settings: AdamW, scale: Option<f64>) -> Vec<f64> {
    let g = program(settings, scale.is_some());
    let mut feed = Feed::new().with_stored("w", Array::new(&[3], START.to_vec()).unwrap());
    for (step, gradient) in GRADIENTS.into_iter().enumerate() {
        feed = feed
            .with("gradient", Array::new(&[3], gradient.to_vec()).unwrap())
            .with("lr", Array::scalar(0.1))
            .with("step", Array::scalar(step as f64 + 1.0));
        if let Some(scale) = scale {
            feed = feed.with("scale", Array::scalar(scale));
        }
        let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
        for stored in g.stored() {
            feed = feed.with_stored(&stored.name, run.value(stored.current).clone());
        }
    }
    feed.stored["w"].data().to_vec()
}

fn cpu_steps(settings: AdamW, scale: Option<f64>) -> Vec<f64> {
    let (cpu, mut store) = (Cpu::new().unwrap(), Store::new(0));
    let mut program = Program::new(program(settings, scale.is_some()), &[], &mut store, &cpu).unwrap();
    store.set_f32("w", &START.map(|x| x as f32)).unwrap();
    program.set_f32("lr", &[], &[0.1]).unwrap();
    if let Some(scale) = scale {
        program.set_f32("scale", &[], &[scale as f32]).unwrap();
    }
    for (step, gradient) in GRADIENTS.into_iter().enumerate() {
        program.set_f32("gradient", &[3], &gradient.map(|x| x as f32)).unwrap();
        program.set_i32("step", &[], &[step as i32 + 1]).unwrap();
        program.run(&mut store).unwrap();
    }
    assert_eq!(store.names().collect::<Vec<_>>(), ["w", "adamw.m.w", "adamw.v.w"]);
    assert_eq!(store.version("w").unwrap(), 4);
    store.array("w").unwrap().data().to_vec()
}

#[test]
fn three_steps_are_those_of_pytorch() {
    // torch.optim.AdamW in float64 from START with GRADIENTS, lr 0.1, betas (0.9, 0.99): eps 1e-8 and weight
    // decay 0.05; then eps 1e-3, no decay, and the gradients halved.
    let known = [
        (1e-8, 0.05, None, [0.8271758193489831, -1.8525311477747917, 0.3267448323136123]),
        (1e-3, 0.0, Some(0.5), [0.8430259853788831, -1.8827637847588292, 0.3339869149025969]),
    ];
    for (epsilon, weight_decay, scale, want) in known {
        let settings = AdamW { beta1: 0.9, beta2: 0.99, epsilon, weight_decay };
        for (got, want) in reference_steps(settings, scale).into_iter().zip(want) {
            assert!((got - want).abs() < 1e-14, "{got} {want}");
        }
        for (got, want) in cpu_steps(settings, scale).into_iter().zip(want) {
            assert!((got - want).abs() < 3e-7, "{got} {want}");
        }
    }
}

fn case(dims: &'static [usize], scaled: bool) -> Case<'static> {
    let case = Case::new(move |g| {
        let p = g.parameter("w", dims, Init::Normal(1.0))?;
        let gradient = g.input("gradient", DType::F32, dims)?;
        let m = g.state("m", DType::F32, dims, Init::Constant(0.1))?;
        let v = g.state("v", DType::F32, dims, Init::Constant(0.2))?;
        let lr = g.input("lr", DType::F32, [])?;
        let step = g.input("step", DType::I32, [])?;
        let mut inputs = vec![p, gradient, m, v, lr, step];
        if scaled {
            inputs.push(g.input("scale", DType::F32, [])?);
        }
        g.apply(AdamWStep { settings: AdamW::default(), scaled }, &inputs)
    });
    case.given("lr", &[], &[1e-3]).given("step", &[], &[1000.0]).given("scale", &[], &[0.7])
}

#[test]
fn both_engines_agree() {
    for dims in [&[][..], &[1], &[7, 13], &[0, 3], &[1031]] {
        for scaled in [false, true] {
            // Twice PyTorch's error.
            case(dims, scaled).cpu(1.8e-7).unwrap_or_else(|e| panic!("{dims:?} {scaled}: {e}"));
            case(dims, scaled).cost().unwrap();
            case(dims, scaled).reach(Exactness::Equal).unwrap_or_else(|e| panic!("{dims:?} {scaled}: {e}"));
        }
    }
}

#[test]
fn steps_count_from_one() {
    let text = "adamw: step is 0; count steps from 1";
    let error = case(&[2], false).given("step", &[], &[0.0]).cpu(1.0).unwrap_err();
    assert!(error.to_string().contains(text), "{error}");
    let (cpu, mut store) = (Cpu::new().unwrap(), Store::new(0));
    let mut program = Program::new(program(AdamW::default(), false), &[], &mut store, &cpu).unwrap();
    store.set_f32("w", &[1.0, 2.0, 3.0]).unwrap();
    program.set_f32("gradient", &[3], &[1.0; 3]).unwrap();
    program.set_f32("lr", &[], &[0.1]).unwrap();
    program.set_i32("step", &[], &[-3]).unwrap();
    let error = program.run(&mut store).unwrap_err();
    assert!(error.to_string().contains("adamw: step is -3; count steps from 1"), "{error}");
    assert_eq!(store.f32("w").unwrap(), [1.0, 2.0, 3.0], "nothing was written");
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let p = g.parameter("w", [3], Init::Zeros).unwrap();
    let x = g.input("x", DType::F32, [3]).unwrap();
    let short = g.input("short", DType::F32, [2]).unwrap();
    let half = g.input("half", DType::BF16, [3]).unwrap();
    let lr = g.input("lr", DType::F32, []).unwrap();
    let step = g.input("step", DType::I32, []).unwrap();
    let usual = AdamW::default();
    let mut text = |pair, settings: AdamW, lr, step| {
        g.adamw_step(&[pair], &settings, lr, step, None).unwrap_err().to_string()
    };
    assert_eq!(
        text((x, x), usual, lr, step),
        "adamw: param is neither a parameter nor a state; only what lives in the store can be updated"
    );
    assert_eq!(
        text((p, short), usual, lr, step),
        "adamw: gradient is [2], expected [3]; ... comes from param"
    );
    assert_eq!(
        text((p, half), usual, lr, step),
        "adamw: gradient is bf16, expected f32; parameters and their statistics are f32, the step number is i32"
    );
    assert_eq!(
        text((p, x), usual, lr, lr),
        "adamw: step is f32, expected i32; parameters and their statistics are f32, the step number is i32"
    );
    assert_eq!(text((p, x), usual, x, step), "adamw: lr is [3], expected []");
    assert_eq!(
        text((p, x), AdamW { beta1: 1.0, ..usual }, lr, step),
        "adamw: beta1 is 1; give a number from 0 to below 1"
    );
    assert_eq!(
        text((p, x), AdamW { beta2: f64::NAN, ..usual }, lr, step),
        "adamw: beta2 is NaN; give a number from 0 to below 1"
    );
    assert_eq!(
        text((p, x), AdamW { epsilon: -1.0, ..usual }, lr, step),
        "adamw: epsilon is -1; give a number not below 0"
    );
    assert_eq!(
        text((p, x), AdamW { weight_decay: -0.1, ..usual }, lr, step),
        "adamw: weight_decay is -0.1; give a number not below 0"
    );
    let mut other = Graph::new();
    let foreign = other.parameter("w", [3], Init::Zeros).unwrap();
    assert_eq!(
        text((foreign, x), usual, lr, step),
        "adamw: operand 0 belongs to another graph; record it in this one"
    );
}

#[test]
fn a_parameter_is_updated_once() {
    let mut g = Graph::new();
    let p = g.parameter("w", [3], Init::Zeros).unwrap();
    let x = g.input("x", DType::F32, [3]).unwrap();
    let lr = g.input("lr", DType::F32, []).unwrap();
    let step = g.input("step", DType::I32, []).unwrap();
    let twice = g.adamw_step(&[(p, x), (p, x)], &AdamW::default(), lr, step, None);
    assert_eq!(
        twice.unwrap_err().to_string(),
        "adamw: reads `w` as it was before adamw replaced it; use the value that adamw returned"
    );
}
