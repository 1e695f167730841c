//! Clipping by the global norm: values, sizes, what is not a number, errors.

use regard_engine::check::{Case, Exactness};
use regard_engine::{Feed, reference};
use regard_graph::Graph;
use regard_ops::Array;
use regard_ops::prelude::*;

fn case(most: f64) -> Case<'static> {
    Case::new(move |g| {
        let a = g.input("a", DType::F32, [2])?;
        let b = g.input("b", DType::F32, [2, 2])?;
        let (norm, scale) = g.clip_norm(&[a, b], most)?;
        Ok(vec![norm, scale])
    })
}

fn values(case: &Case<'_>) -> [f64; 2] {
    let recorded = case.forward().unwrap();
    let run = reference::run(&recorded.graph, &recorded.feed, reference::Mode::Exact).unwrap();
    [0, 1].map(|output| run.value(recorded.outputs[output]).data()[0])
}

#[test]
fn the_norm_and_the_factor() {
    // 3-4-12 is a box with diagonal 13; torch.nn.utils.clip_grad_norm_ divides by norm + 1e-6, too.
    let known = [(2.0, 2.0 / 13.000001), (13.0, 13.0 / 13.000001), (14.0, 1.0), (f64::INFINITY, 1.0)];
    for (most, factor) in known {
        let case = case(most).given("a", &[2], &[3.0, 0.0]).given("b", &[2, 2], &[0.0, 4.0, 0.0, 12.0]);
        assert_eq!(values(&case), [13.0, factor]);
        case.cpu(1e-7).unwrap();
        case.cost().unwrap();
        // The factor does not move while it stays at 1, so reach may say more than what happens.
        case.reach(if most < 13.5 { Exactness::Equal } else { Exactness::Safe }).unwrap();
    }
    let case = case(1.0).given("a", &[2], &[0.0; 2]).given("b", &[2, 2], &[0.0; 4]);
    assert_eq!(values(&case), [0.0, 1.0]);
    case.cpu(0.0).unwrap();
}

#[test]
fn what_is_not_a_number_shows() {
    let case = case(1.0).given("a", &[2], &[f64::NAN, 1.0]).given("b", &[2, 2], &[1.0; 4]);
    assert!(values(&case).iter().all(|x| x.is_nan()));
    let got = case.run_on(&regard_engine::Cpu::new().unwrap()).unwrap();
    assert!(got.iter().all(|x| x.data()[0].is_nan()));
    for most in [1.0, f64::INFINITY] {
        let case = self::case(most).given("a", &[2], &[f64::INFINITY, 1.0]).given("b", &[2, 2], &[1.0; 4]);
        let [norm, factor] = values(&case);
        assert!(
            norm == f64::INFINITY && factor.is_nan(),
            "an infinite norm asks for no step, not for a factor of 0"
        );
        let got = case.run_on(&regard_engine::Cpu::new().unwrap()).unwrap();
        assert!(got[0].data()[0] == f64::INFINITY && got[1].data()[0].is_nan());
    }
}

#[test]
fn many_sizes_and_bf16() {
    let case = Case::new(|g| {
        let mut all = Vec::new();
        for (index, count) in [1, 40_003, 0, 17, 16_384, 16_385].into_iter().enumerate() {
            let dtype = if index % 2 == 0 { DType::F32 } else { DType::BF16 };
            all.push(g.input(&format!("x.{index}"), dtype, [count])?);
        }
        let (norm, scale) = g.clip_norm(&all, 1.0)?;
        Ok(vec![norm, scale])
    });
    // Summed in f64: only the result is rounded.
    case.cpu(6e-8).unwrap();
    case.cost().unwrap();
}

#[test]
fn a_large_norm_does_not_overflow() {
    let case = case(1.0).given("a", &[2], &[3e30, 0.0]).given("b", &[2, 2], &[4e30, 0.0, 0.0, 0.0]);
    case.cpu(1e-7).unwrap();
}

#[test]
fn it_leads_into_an_optimizer() {
    let mut g = Graph::new();
    let p = g.parameter("w", [2], Init::Zeros).unwrap();
    let x = g.input("x", DType::F32, [2]).unwrap();
    let product = g.mul(p, x).unwrap();
    let loss = g.sum_all(product).unwrap();
    let gradient = g.gradient(loss, &[p]).unwrap()[0];
    let (_, scale) = g.clip_norm(&[gradient], 1.0).unwrap();
    let lr = g.input("lr", DType::F32, []).unwrap();
    let updated = g.sgd_step(&[(p, gradient)], &Default::default(), lr, Some(scale)).unwrap()[0];
    let feed = Feed::new()
        .with("x", Array::new(&[2], vec![30.0, 40.0]).unwrap())
        .with("lr", Array::scalar(1.0))
        .with_stored("w", Array::new(&[2], vec![1.0, 1.0]).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    let factor = 1.0 / 50.000001;
    assert_eq!(run.value(updated).data(), [1.0 - 30.0 * factor, 1.0 - 40.0 * factor]);
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2]).unwrap();
    let i = g.input("i", DType::I32, [2]).unwrap();
    let mut text = |all: &[Var], most| g.clip_norm(all, most).unwrap_err().to_string();
    assert_eq!(text(&[], 1.0), "clip_norm: there are no gradients; give at least one");
    for most in [0.0, -1.0, f64::NAN] {
        assert_eq!(
            text(&[x], most),
            format!(
                "clip_norm: the largest norm is {most}; give a number above 0, or infinity to measure only"
            )
        );
    }
    assert_eq!(
        text(&[x, i], 1.0),
        "clip_norm: gradient 1 is i32, expected f32 or bf16; cast it to f32 first"
    );
}
