//! Batch norm: values by hand, every reader, running statistics, large means, evaluation.

use regard_engine::check::{Case, Exactness};
use regard_engine::{Cpu, Feed, Program, Store, reference};
use regard_graph::{Graph, shape};
use regard_ops::prelude::*;
use regard_ops::{Array, BatchNormBackward, BatchNormMode, BatchNormSpec};

/// Twice PyTorch's own worst error, 1.9e-7 in the gradient.
const BOUND: f64 = 4e-7;

fn running(g: &mut Graph, width: usize) -> regard_graph::Result<[Var; 2]> {
    let mean = g.state("running_mean", DType::F32, [width], Init::Zeros)?;
    Ok([mean, g.state("running_variance", DType::F32, [width], Init::Ones)?])
}

fn case(dims: &[usize], parameters: usize, train: bool) -> Case<'_> {
    Case::new(move |g| {
        let width = dims[dims.len() - 1];
        let x = g.input_with_gradient("x", dims)?;
        let running = running(g, width)?;
        let mut parameter =
            |name: &str, present: bool| present.then(|| g.parameter(name, [width], Init::Ones)).transpose();
        let scale = parameter("scale", parameters & 1 > 0)?;
        let shift = parameter("shift", parameters & 2 > 0)?;
        let spec = BatchNormSpec { epsilon: 0.1, momentum: 0.25, output: None };
        if !train {
            return Ok(vec![g.batch_norm_eval(x, running, scale, shift, spec)?]);
        }
        let out = g.batch_norm(x, running, scale, shift, spec)?;
        Ok(vec![out.normed, out.running_mean, out.running_variance])
    })
}

#[test]
fn values_by_hand() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 2, 1]).unwrap();
    let states = running(&mut g, 1).unwrap();
    let scale = g.parameter("scale", [1], Init::Constant(3.0)).unwrap();
    let shift = g.parameter("shift", [1], Init::Constant(10.0)).unwrap();
    let spec = BatchNormSpec { epsilon: 0.25, momentum: 0.5, output: None };
    let before = g.batch_norm_eval(x, states, None, None, spec).unwrap();
    let out = g.batch_norm(x, states, Some(scale), Some(shift), spec).unwrap();
    let after = [out.running_mean, out.running_variance];
    let eval = g.batch_norm_eval(x, after, Some(scale), None, spec).unwrap();
    // Mean 2, variance 2 (unbiased 8/3), √(2 + 1/4) = 3/2.
    let feed = Feed::new()
        .with("x", Array::new(&[2, 2, 1], vec![0.0, 2.0, 2.0, 4.0]).unwrap())
        .with_stored("running_mean", Array::new(&[1], vec![4.0]).unwrap())
        .with_stored("running_variance", Array::new(&[1], vec![6.0]).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    let close = |got: &[f64], want: &[f64]| {
        got.len() == want.len() && got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-12)
    };
    assert!(close(run.value(before).data(), &[-1.6, -0.8, -0.8, 0.0]));
    assert!(close(run.value(out.normed).data(), &[6.0, 10.0, 10.0, 14.0]));
    assert!(close(run.value(after[0]).data(), &[3.0]));
    assert!(close(run.value(after[1]).data(), &[13.0 / 3.0]));
    let root = (13.0f64 / 3.0 + 0.25).sqrt();
    assert!(close(run.value(eval).data(), &[-9.0 / root, -3.0 / root, -3.0 / root, 3.0 / root]));
}

#[test]
fn every_reader_agrees() {
    for dims in [&[2, 1][..], &[5, 3], &[2, 3, 17], &[131, 7], &[3, 3, 2, 65], &[4, 601]] {
        for parameters in 0..4 {
            for train in [true, false] {
                case(dims, parameters, train).all(BOUND).unwrap();
            }
        }
    }
}

#[test]
fn one_row_and_none_in_evaluation() {
    case(&[1, 5], 3, false).all(BOUND).unwrap();
    case(&[0, 5], 3, false).all(BOUND).unwrap();
}

#[test]
fn open_letters() {
    for size in [2, 5, 100] {
        let case = Case::new(|g| {
            let b = g.open('B', 100)?;
            let x = g.input_with_gradient("x", shape![b, 6])?;
            let running = running(g, 6)?;
            // With two rows and a small ε the gradient would be the rounding error of a difference of equals.
            let spec = BatchNormSpec { epsilon: 0.1, ..BatchNormSpec::default() };
            let out = g.batch_norm(x, running, None, None, spec)?;
            Ok(vec![out.normed, out.running_mean, out.running_variance])
        });
        case.size('B', size).all(BOUND).unwrap();
    }
}

#[test]
fn large_means_lose_nothing() {
    // Deviations of about 1 around 10000 in one channel, around −3000 in another.
    let numbers: Vec<f64> = (0..400 * 2)
        .map(|i| ((i * 7919) % 1009) as f64 / 256.0 + if i % 2 == 0 { 10_000.0 } else { -3000.0 })
        .collect();
    case(&[400, 2], 3, true).given("x", &[400, 2], &numbers).cpu(BOUND).unwrap();
}

#[test]
fn bf16_in_and_out() {
    let case = Case::new(|g| {
        let x = g.input("x", DType::BF16, [9, 12])?;
        let scale = g.parameter("scale", [12], Init::Ones)?;
        let states = running(g, 12)?;
        let out = g.batch_norm(x, states, Some(scale), None, BatchNormSpec::default())?;
        assert_eq!(g.dtype(out.normed), DType::BF16);
        let wide = BatchNormSpec { output: Some(DType::F32), ..BatchNormSpec::default() };
        let states = [out.running_mean, out.running_variance];
        Ok(vec![g.batch_norm_eval(out.normed, states, Some(scale), None, wide)?])
    });
    case.cpu(4e-3).unwrap();
    case.cost().unwrap();
}

#[test]
fn running_statistics_move_once_for_each_run() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [4, 1]).unwrap();
    let states = running(&mut g, 1).unwrap();
    let spec = BatchNormSpec { momentum: 0.5, ..BatchNormSpec::default() };
    let out = g.batch_norm(x, states, None, None, spec).unwrap();
    g.output("y", out.normed).unwrap();
    let mut store = Store::new(0);
    let mut program = Program::new(g, &[], &mut store, &Cpu::new().unwrap()).unwrap();
    program.set_array("x", &Array::new(&[4, 1], vec![6.0, 8.0, 8.0, 10.0]).unwrap()).unwrap();
    for (mean, variance) in [(4.0, 11.0 / 6.0), (6.0, 9.0 / 4.0)] {
        program.run(&mut store).unwrap();
        assert_eq!(store.array("running_mean").unwrap().data(), [mean]);
        assert!((store.array("running_variance").unwrap().data()[0] - variance).abs() < 1e-6);
    }
}

#[test]
fn a_single_row_has_no_variance() {
    let mut g = Graph::new();
    let b = g.open('B', 8).unwrap();
    let x = g.input("x", DType::F32, shape![b, 2]).unwrap();
    let single = g.input("single", DType::F32, [1, 2]).unwrap();
    let states = running(&mut g, 2).unwrap();
    assert_eq!(
        g.batch_norm(single, states, None, None, BatchNormSpec::default()).unwrap_err().to_string(),
        "batch_norm: 1 rows have no variance; feed at least two rows in training"
    );
    let out = g.batch_norm(x, states, None, None, BatchNormSpec::default()).unwrap();
    g.output("y", out.normed).unwrap();
    let expected = "batch_norm: batch_norm: 1 rows have no variance; feed at least two rows in training";
    let feed = Feed::new()
        .with("x", Array::new(&[1, 2], vec![1.0, 2.0]).unwrap())
        .with("single", Array::new(&[1, 2], vec![1.0, 2.0]).unwrap());
    let fault = reference::run(&g, &feed, reference::Mode::Exact).err().unwrap().to_string();
    assert_eq!(fault, expected);
    let mut store = Store::new(0);
    let mut program = Program::new(g, &[], &mut store, &Cpu::new().unwrap()).unwrap();
    for (name, array) in &feed.inputs {
        program.set_array(name, array).unwrap();
    }
    assert_eq!(program.run(&mut store).unwrap_err().to_string(), expected);
    assert_eq!(store.array("running_mean").unwrap().data(), [0.0, 0.0], "nothing was written");
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [4, 3]).unwrap();
    let ids = g.input("ids", DType::I32, [4, 3]).unwrap();
    let wide = g.parameter("wide", [4], Init::Ones).unwrap();
    let states = running(&mut g, 3).unwrap();
    let spec = BatchNormSpec::default();
    let text = |result: regard_graph::Result<Var>| result.unwrap_err().to_string();
    assert_eq!(
        text(g.batch_norm_eval(x, [states[0], wide], None, None, spec)),
        "batch_norm: running_variance is [4], expected [C=3]; C comes from x"
    );
    assert_eq!(
        text(g.batch_norm_eval(ids, states, None, None, spec)),
        "batch_norm: x is i32, expected f32 or bf16; cast it to f32 first"
    );
    assert_eq!(
        text(g.batch_norm_eval(x, states, None, Some(wide), spec)),
        "batch_norm: shift is [4], expected [C=3]; C comes from x"
    );
    for momentum in [-0.1, 1.5, f32::NAN] {
        assert_eq!(
            text(g.batch_norm(x, states, None, None, BatchNormSpec { momentum, ..spec }).map(|o| o.normed)),
            format!("batch_norm: momentum is {momentum}; give the weight of a new batch, from 0 to 1")
        );
    }
    assert_eq!(
        text(g.batch_norm_eval(x, states, None, None, BatchNormSpec { epsilon: 0.0, ..spec })),
        "batch_norm: epsilon is 0; give a small positive number such as 1e-5"
    );
    assert_eq!(
        text(g.batch_norm_eval(x, states, None, None, BatchNormSpec { output: Some(DType::Bool), ..spec })),
        "batch_norm: output is bool, expected f32 or bf16; cast it to f32 first"
    );
    let mean = g.input("mean", DType::F32, [3]).unwrap();
    assert_eq!(
        text(g.batch_norm(x, [mean, states[1]], None, None, spec).map(|o| o.normed)),
        "batch_norm: running_mean is neither a parameter nor a state; only what lives in the store can be updated"
    );
    let trained = g.parameter("trained", [3], Init::Ones).unwrap();
    assert_eq!(
        text(g.batch_norm_eval(x, [trained, states[1]], None, None, spec)),
        "batch_norm: no derivative exists with respect to running_mean: running statistics are state; use \
         stop_gradient if none is wanted"
    );
}

#[test]
fn the_backward_pass_by_every_reader() {
    for mode in [BatchNormMode::Train, BatchNormMode::Eval] {
        for (scale, shift) in [(true, true), (true, false), (false, true), (false, false)] {
            let case = Case::new(move |g| {
                let mut inputs = vec![g.input("dy", DType::F32, [3, 2, 4])?];
                inputs.push(g.input("x", DType::F32, [3, 2, 4])?);
                inputs.push(g.input("mean", DType::F32, [4])?);
                inputs.push(g.input("rstd", DType::F32, [4])?);
                if scale {
                    inputs.push(g.input("scale", DType::F32, [4])?);
                }
                g.apply(BatchNormBackward { mode, scale, shift }, &inputs)
            });
            case.cost().unwrap();
            case.reach(Exactness::Equal).unwrap();
        }
    }
}
