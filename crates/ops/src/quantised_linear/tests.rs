//! The product with a weight of integers: values, every reader, same bits for one row and many, whole
//! programs.

use half::f16;
use regard_engine::check::{Case, Exactness};
use regard_engine::{Cpu, Feed, Program, Store, reference};
use regard_graph::{Error, Graph};
use regard_ops::prelude::*;
use regard_ops::{
    Activation, Array, CrossEntropyOptions, LinearOptions, NormSpec, Rounding, WeightLayout, Weights,
    with_weights,
};

const ROUNDINGS: [Rounding; 3] = [Rounding::Outputs, Rounding::Blocks8, Rounding::Blocks4];

#[test]
fn values() {
    let mut g = Graph::inference();
    let x = g.input("x", DType::F32, [1, 3]).unwrap();
    let w = g.input("w", DType::F32, [2, 3]).unwrap();
    let turned = g.input("turned", DType::F32, [3, 2]).unwrap();
    let y = g.quantised_linear(x, w, Rounding::Outputs, LinearOptions::default()).unwrap();
    let layout = WeightLayout::InOut;
    let same = g
        .quantised_linear(x, turned, Rounding::Outputs, LinearOptions { layout, ..Default::default() })
        .unwrap();
    // The first row has the scale 2 and the integers 127, 1.25 → 1, −0.5 → −0; the second is nothing.
    let feed = Feed::new()
        .with("x", Array::new(&[1, 3], vec![1.0, 10.0, 100.0]).unwrap())
        .with("w", Array::new(&[2, 3], vec![254.0, 2.5, -1.0, 0.0, 0.0, 0.0]).unwrap())
        .with("turned", Array::new(&[3, 2], vec![254.0, 0.0, 2.5, 0.0, -1.0, 0.0]).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    assert_eq!(run.value(y).data(), [274.0, 0.0]);
    assert_eq!(run.value(same).data(), [274.0, 0.0]);
}

#[test]
fn values_of_blocks() {
    let mut g = Graph::inference();
    let x = g.input("x", DType::F32, [1, 34]).unwrap();
    let w = g.input("w", DType::F32, [1, 34]).unwrap();
    let [eight, four] = [Rounding::Blocks8, Rounding::Blocks4]
        .map(|rounding| g.quantised_linear(x, w, rounding, LinearOptions::default()).unwrap());
    // Two blocks. x: 254, 3 and −1 have the scale 2 and become 127, 1.5 → 2 and −0.5 → 0; 127 and 1 stay.
    let mut numbers = vec![0.0; 34];
    (numbers[0], numbers[1], numbers[31], numbers[32], numbers[33]) = (254.0, 3.0, -1.0, 127.0, 1.0);
    // The weight in 8 bits: the scale 1/4 leaves 31.75, 0.6 becomes 0.5. In 4 bits, steps of 2.25 from −2 on:
    // 31.75 and −2 stay, 0.6 becomes 0.25, and 0 becomes 0.25, too. Of the second block both stay.
    let mut weights = vec![0.0; 34];
    (weights[0], weights[1], weights[31], weights[32], weights[33]) = (31.75, 0.6, -2.0, 1.0, -1.0);
    let feed = Feed::new()
        .with("x", Array::new(&[1, 34], numbers).unwrap())
        .with("w", Array::new(&[1, 34], weights).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    let by_hand = |second: f64| 254.0 * 31.75 + 4.0 * second;
    // 1/127 as an f16, of which 127 are a little less than 1, or 2/15, of which 15 make 2.
    let scale = f64::from(f16::from_f32(1.0 / 127.0).to_f32());
    assert_eq!(run.value(eight).data(), [by_hand(0.5) + (127.0 - 1.0) * 127.0 * scale]);
    let scale = f64::from(f16::from_f32(2.0 / 15.0).to_f32());
    assert_eq!(run.value(four).data(), [by_hand(0.25) + 127.0 * (15.0 * scale - 1.0) - 1.0]);
}

/// Everything at once, the weight in the store.
fn full(
    x: &'static [usize],
    n: usize,
    rounding: Rounding,
    activation: Activation,
    layout: WeightLayout,
) -> Case<'static> {
    Case::new(move |g| {
        let k = x[x.len() - 1];
        let rows = [&x[..x.len() - 1], &[n]].concat();
        let x = g.input("x", DType::F32, x)?;
        let sizes = if layout == WeightLayout::OutIn { [n, k] } else { [k, n] };
        let weight = g.state("weight", DType::F32, sizes, Init::Zeros)?;
        let bias = Some(g.input("bias", DType::F32, [n])?);
        let residual = Some(g.input("residual", DType::F32, &rows[..])?);
        let options = LinearOptions { bias, activation, residual, layout, output: None };
        Ok(vec![g.quantised_linear(x, weight, rounding, options)?])
    })
}

#[test]
fn every_reader_agrees() {
    let shapes: [(&'static [usize], usize); 6] =
        [(&[1, 1], 1), (&[3, 5], 7), (&[2, 3, 13], 31), (&[17], 33), (&[5, 64], 3), (&[13, 40], 32)];
    for (x, n) in shapes {
        // The bounds of `linear`: the chains are the same.
        for (activation, bound) in [(Activation::None, 7e-7), (Activation::GeluTanh, 1e-5)] {
            for layout in [WeightLayout::OutIn, WeightLayout::InOut] {
                for rounding in ROUNDINGS {
                    let case = full(x, n, rounding, activation, layout);
                    case.cpu(bound).unwrap();
                    case.cost().unwrap();
                    case.reach(Exactness::Safe).unwrap();
                }
            }
        }
    }
}

#[test]
fn a_weight_that_is_fed_is_packed_for_the_call() {
    for rounding in ROUNDINGS {
        let case = Case::new(move |g| {
            let x = g.input("x", DType::BF16, [3, 40])?;
            let weight = g.input("weight", DType::F32, [50, 40])?;
            Ok(vec![g.quantised_linear(x, weight, rounding, LinearOptions::default())?])
        });
        case.cpu(7e-7).unwrap();
    }
}

/// A small network with a loss: two products, one with a bias and an activation, and a projection inside of
/// the loss.
fn network(rows: usize) -> Graph {
    let mut g = Graph::inference();
    let x = g.input("x", DType::F32, [rows, 48]).unwrap();
    let targets = g.input("targets", DType::I32, [rows]).unwrap();
    let scale = g.input("scale", DType::F32, []).unwrap();
    let weight = g.parameter("up.weight", [96, 48], Init::Normal(0.3)).unwrap();
    let bias = Some(g.parameter("up.bias", [96], Init::Normal(0.3)).unwrap());
    let options = LinearOptions { bias, activation: Activation::Gelu, ..Default::default() };
    let hidden = g.scope("up", |g| g.linear(x, weight, options)).unwrap();
    g.tap("hidden", hidden).unwrap();
    let head = g.parameter("head.weight", [70, 96], Init::Normal(0.3)).unwrap();
    let scores = g.linear(hidden, head, LinearOptions::default()).unwrap();
    g.output("scores", scores).unwrap();
    let options = CrossEntropyOptions::default();
    let loss = g.linear_cross_entropy(hidden, head, None, targets, scale, options).unwrap();
    g.output("loss", loss.loss).unwrap();
    g.output("rows", loss.row_losses).unwrap();
    g
}

fn run(g: Graph, x: &[f32], store: &mut Store) -> (Vec<f32>, f32) {
    let rows = x.len() / 48;
    let mut program = Program::new(g, &[], store, &Cpu::new().unwrap()).unwrap();
    program.set_f32("x", &[rows, 48], x).unwrap();
    program.set_i32("targets", &[rows], &(0..rows as i32).map(|i| i * 7 % 70).collect::<Vec<_>>()).unwrap();
    program.set_f32("scale", &[], &[1.0 / rows as f32]).unwrap();
    program.run(store).unwrap();
    (program.f32("scores").unwrap().to_vec(), program.scalar("loss").unwrap())
}

#[test]
fn a_whole_program_is_rewritten_and_stays_near() {
    let x: Vec<f32> = (0..9 * 48).map(|i| ((i * 37 % 101) as f32 - 50.0) / 40.0).collect();
    // Eight bits: each weight is off by at most 1/254 of the largest of its row or block; four: by 1/30 of
    // what its block spans.
    for (weights, bound) in [(Weights::Int8, 0.02), (Weights::Q8, 0.02), (Weights::Q4, 0.15)] {
        let mut store = Store::new(3);
        let (scores, loss) = run(network(9), &x, &mut store);
        let g = with_weights(network(9), weights).unwrap();
        let names: Vec<&str> = g.nodes().iter().map(|node| node.op.name()).collect();
        assert_eq!(
            names,
            ["quantised_linear", "quantised_linear", "quantised_linear", "cross_entropy", "sum_to", "mul"]
        );
        assert_eq!(g.nodes()[0].name, "up.quantised_linear");
        let (near, near_loss) = run(g, &x, &mut store);
        let most = scores.iter().fold(0.0f32, |most, y| most.max(y.abs()));
        let apart = scores.iter().zip(&near).fold(0.0f32, |most, (a, b)| most.max((a - b).abs()));
        assert!(apart > 0.0 && apart < bound * most, "{weights:?}: {apart} of {most}");
        assert!((loss - near_loss).abs() < bound * loss, "{weights:?}: {loss} {near_loss}");
        // One row alone has the bits that it has among others, and a changed weight is seen.
        let (one, _) = run(with_weights(network(1), weights).unwrap(), &x[..48], &mut store);
        assert_eq!(one, near[..70]);
        let doubled: Vec<f32> = store.f32("head.weight").unwrap().iter().map(|w| 2.0 * w).collect();
        store.set_f32("head.weight", &doubled).unwrap();
        let (twice, _) = run(with_weights(network(9), weights).unwrap(), &x, &mut store);
        assert!(twice.iter().zip(&near).all(|(a, b)| *a == 2.0 * b));
    }
}

#[test]
fn weights_in_bf16_are_nearer_still() {
    let x: Vec<f32> = (0..4 * 48).map(|i| ((i * 37 % 101) as f32 - 50.0) / 40.0).collect();
    let mut store = Store::new(3);
    let (scores, loss) = run(network(4), &x, &mut store);
    let (near, near_loss) = run(with_weights(network(4), Weights::Bf16).unwrap(), &x, &mut store);
    let most = scores.iter().fold(0.0f32, |most, y| most.max(y.abs()));
    let apart = scores.iter().zip(&near).fold(0.0f32, |most, (a, b)| most.max((a - b).abs()));
    assert!(apart > 0.0 && apart < 0.01 * most, "{apart} of {most}");
    assert!((loss - near_loss).abs() < 0.01 * loss, "{loss} {near_loss}");
}

#[test]
fn a_store_tells_its_programs() {
    // Both weights as integers with their scales, panels of 32 columns, blocks of 32 inputs.
    for (weights, bytes) in [
        (Weights::Int8, 96 * (48 + 4) + 96 * (96 + 4)),
        (Weights::Q8, 96 * 2 * (32 + 2) + 96 * 3 * (32 + 2)),
        (Weights::Q4, 96 * 2 * (16 + 4) + 96 * 3 * (16 + 4)),
    ] {
        let mut store = Store::new(3);
        store.hold_weights(weights);
        let program = Program::new(network(2), &["hidden"], &mut store, &Cpu::new().unwrap()).unwrap();
        assert_eq!(program.graph().nodes()[0].name, "up.quantised_linear");
        assert_eq!(program.memory().packed, bytes, "{weights:?}");
    }
}

#[test]
fn full_weights_change_nothing() {
    let g = with_weights(network(2), Weights::Full).unwrap();
    assert!(g.nodes().iter().all(|node| node.op.name() != "quantised_linear"));
}

#[test]
fn refusals() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 3]).unwrap();
    let w = g.parameter("w", [4, 3], Init::Zeros).unwrap();
    let text = g.quantised_linear(x, w, Rounding::Outputs, LinearOptions::default()).unwrap_err().to_string();
    assert!(text.contains("integers have no derivative") && text.contains("quantised_linear"), "{text}");
    let odd = g.input("odd", DType::F32, [4, 5]).unwrap();
    let text =
        g.quantised_linear(x, odd, Rounding::Outputs, LinearOptions::default()).unwrap_err().to_string();
    assert!(text.starts_with("quantised_linear: weight is [4 5]"), "{text}");

    // A backward pass cannot be rewritten.
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 3]).unwrap();
    let w = g.parameter("w", [4, 3], Init::Zeros).unwrap();
    let y = g.linear(x, w, LinearOptions::default()).unwrap();
    let loss = g.sum_all(y).unwrap();
    let grad = g.gradient(loss, &[w]).unwrap()[0];
    g.output("grad", grad).unwrap();
    let refused = with_weights(g, Weights::Int8).err().map(|error: Error| error.to_string());
    assert!(refused.as_ref().is_some_and(|text| text.contains("belongs to a backward pass")), "{refused:?}");
}

#[test]
fn a_norm_behind_integers_is_joined_and_has_the_same_bits() {
    for weights in [Weights::Int8, Weights::Q8, Weights::Q4, Weights::Bf16] {
        let bits = |joins: bool| {
            let mut g = Graph::inference();
            let x = g.input("x", DType::F32, [20, 48]).unwrap();
            let weight = g.parameter("weight", [96, 48], Init::Normal(0.3)).unwrap();
            let options = LinearOptions { output: Some(DType::F32), ..LinearOptions::default() };
            let y = g.linear(x, weight, options).unwrap();
            let normed = if joins {
                g.layer_norm(y, None, None, NormSpec::default()).unwrap()
            } else {
                let zeros = g.fill(DType::F32, [20, 96], 0.0).unwrap();
                g.add_layer_norm(y, zeros, None, None, NormSpec::default()).unwrap().normed
            };
            g.output("normed", normed).unwrap();
            let mut store = Store::new(3);
            store.hold_weights(weights);
            let mut program = Program::new(g, &[], &mut store, &Cpu::new().unwrap()).unwrap();
            assert_eq!(program.graph().nodes()[0].outputs.len(), 1 + usize::from(joins));
            let x: Vec<f32> = (0..20 * 48).map(|i| ((i * 37 % 101) as f32 - 50.0) / 40.0).collect();
            program.set_f32("x", &[20, 48], &x).unwrap();
            program.run(&mut store).unwrap();
            program.f32("normed").unwrap().iter().map(|x| x.to_bits()).collect::<Vec<_>>()
        };
        assert_eq!(bits(true), bits(false), "{weights:?}");
    }
}
