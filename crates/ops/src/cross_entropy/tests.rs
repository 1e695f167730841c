//! The cross-entropy: values, every reader, ignored rows, smoothing, faults, error texts.

use regard_engine::check::{Case, Exactness};
use regard_engine::{Cpu, Feed, Program, Store, reference};
use regard_graph::{Graph, shape};
use regard_ops::prelude::*;
use regard_ops::{Array, CrossEntropy, CrossEntropyBackward, CrossEntropyOptions};

fn options(label_smoothing: f32) -> CrossEntropyOptions {
    CrossEntropyOptions { label_smoothing, ..Default::default() }
}

fn case(logits: &'static [usize], targets: &[f64], label_smoothing: f32) -> Case<'static> {
    let rows = &logits[..logits.len() - 1];
    let case = Case::new(move |g| {
        let x = g.input_with_gradient("logits", logits)?;
        let targets = g.input("targets", DType::I32, rows)?;
        Ok(vec![g.cross_entropy(x, targets, options(label_smoothing))?])
    });
    case.given("targets", rows, targets)
}

/// Some targets, every fifth of them ignored.
fn targets(rows: usize, v: usize) -> Vec<f64> {
    (0..rows).map(|i| if i % 5 == 3 { -100.0 } else { (i * 7919 % v) as f64 }).collect()
}

#[test]
fn values() {
    let mut g = Graph::new();
    let logits = g.input("logits", DType::F32, [3, 2]).unwrap();
    let ids = g.input("ids", DType::I32, [3]).unwrap();
    let plain = g.cross_entropy(logits, ids, options(0.0)).unwrap();
    let smooth = g.cross_entropy(logits, ids, options(0.5)).unwrap();
    let pad = CrossEntropyOptions { ignore_index: 1, ..Default::default() };
    let padded = g.cross_entropy(logits, ids, pad).unwrap();
    let three = 3f64.ln();
    let feed = Feed::new()
        .with("logits", Array::new(&[3, 2], vec![0.0, 0.0, three, 0.0, 1000.0, 0.0]).unwrap())
        .with("ids", Array::new(&[3], vec![0.0, 1.0, 0.0]).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    let close = |got: &[f64], want: [f64; 3]| {
        assert!(got.iter().zip(want).all(|(x, y)| (x - y).abs() < 1e-12), "{got:?} is not {want:?}");
    };
    let (two, four) = (2f64.ln(), 4f64.ln());
    close(run.value(plain).data(), [two, four, 0.0]);
    // Half of the target at the class, half spread: three quarters of it and one quarter of the other.
    close(run.value(smooth).data(), [two, four - 0.25 * three, 250.0]);
    close(run.value(padded).data(), [two, 0.0, 0.0]);
}

#[test]
fn every_reader_agrees() {
    for smoothing in [0.0, 0.1] {
        case(&[1, 1], &[0.0], smoothing).cpu(2.1e-7).unwrap();
        case(&[5], &[3.0], smoothing).all(2.1e-7).unwrap();
        case(&[7, 13], &targets(7, 13), smoothing).all(2.1e-7).unwrap();
        case(&[2, 3, 31], &targets(6, 31), smoothing).all(2.1e-7).unwrap();
        case(&[3, 1201], &[1200.0, 511.0, 512.0], smoothing).all(2.1e-7).unwrap();
        case(&[4], &[-100.0], smoothing).cpu(0.0).unwrap();
        case(&[0, 4], &[], smoothing).cpu(0.0).unwrap();
        case(&[2, 0], &[-100.0, -100.0], smoothing).cpu(0.0).unwrap();
    }
}

/// The log-sum-exp and the backward op as values of their own.
#[test]
fn the_backward_op_has_its_readers() {
    for (rows, ids) in
        [(&[4][..], &[2.0, -100.0, 0.0, 4.0][..]), (&[2, 2], &[-100.0, 1.0, 1.0, 3.0]), (&[], &[-100.0])]
    {
        let case = Case::new(move |g| {
            let logits = g.input("logits", DType::F32, &[rows, &[5]].concat()[..])?;
            let targets = g.input("targets", DType::I32, rows)?;
            let dloss = g.input("dloss", DType::F32, rows)?;
            let lse = g.input("lse", DType::F32, rows)?;
            let forward = CrossEntropy { ignore_index: -100, label_smoothing: 0.1 };
            let backward = CrossEntropyBackward { ignore_index: -100, label_smoothing: 0.1 };
            let mut made = g.apply(forward, &[logits, targets])?;
            made.extend(g.apply(backward, &[logits, targets, lse, dloss])?);
            Ok(made)
        });
        let case = case.given("targets", rows, ids);
        case.cpu(2.1e-7).unwrap();
        case.cost().unwrap();
        case.reach(Exactness::Equal).unwrap();
    }
}

#[test]
fn open_letters() {
    let case = Case::new(|g| {
        let t = g.open('T', 16)?;
        let logits = g.input_with_gradient("logits", shape![2, t, 9])?;
        let targets = g.input("targets", DType::I32, shape![2, t])?;
        Ok(vec![g.cross_entropy(logits, targets, options(0.0))?])
    });
    let case = case.size('T', 3).given("targets", &[2, 3], &targets(6, 9));
    case.all(2.1e-7).unwrap();
}

#[test]
fn bf16_agrees() {
    for smoothing in [0.0, 0.1] {
        let case = Case::new(move |g| {
            let logits = g.input_with_gradient("logits", [8, 700])?;
            let half = g.sum_to_fact(logits, Fact::new([8, 700], DType::BF16))?;
            let targets = g.input("targets", DType::I32, [8])?;
            Ok(vec![g.cross_entropy(half, targets, options(smoothing))?])
        });
        let case = case.given("targets", &[8], &targets(8, 700));
        case.cpu(6e-3).unwrap();
        case.cost().unwrap();
    }
}

/// Losses of some logits on the CPU.
fn losses(rows: usize, v: usize, logits: &[f32], ids: &[i32]) -> regard_engine::Result<Vec<f32>> {
    let mut g = Graph::new();
    let x = g.input("logits", DType::F32, [rows, v])?;
    let targets = g.input("targets", DType::I32, [rows])?;
    let losses = g.cross_entropy(x, targets, options(0.0))?;
    g.output("losses", losses)?;
    let mut store = Store::new(0);
    let mut program = Program::new(g, &[], &mut store, &Cpu::new()?)?;
    program.set_f32("logits", &[rows, v], logits)?;
    program.set_i32("targets", &[rows], ids)?;
    program.run(&mut store)?;
    Ok(program.f32("losses")?.to_vec())
}

#[test]
fn large_logits_and_forbidden_classes() {
    let big = [3e38, -3e38, 0.0, 80.0, -80.0, f32::NEG_INFINITY];
    assert_eq!(losses(2, 3, &big, &[0, 0]).unwrap(), [0.0, 0.0]);
    // A class that cannot be, though it should: the loss is infinite, not NaN.
    assert_eq!(losses(1, 3, &[0.0, 1.0, f32::NEG_INFINITY], &[2]).unwrap(), [f32::INFINITY]);
}

#[test]
fn a_target_outside_of_the_vocabulary_is_named() {
    let text = |id: i32| losses(3, 4, &[0.0; 12], &[0, -100, id]).unwrap_err().to_string();
    let fault = "cross_entropy: the target of row 2 is 4, but V is 4; \
                 targets lie in 0..V; give rows without one the ignore index";
    assert!(text(4).contains(fault), "{}", text(4));
    assert!(text(-1).contains("the target of row 2 is -1, but V is 4"), "{}", text(-1));

    let mut g = Graph::new();
    let x = g.input("logits", DType::F32, [1, 4]).unwrap();
    let targets = g.input("targets", DType::I32, [1]).unwrap();
    g.cross_entropy(x, targets, options(0.0)).unwrap();
    let feed = Feed::new()
        .with("logits", Array::new(&[1, 4], vec![0.0; 4]).unwrap())
        .with("targets", Array::new(&[1], vec![9.0]).unwrap());
    let error = reference::run(&g, &feed, reference::Mode::Exact).err().unwrap().to_string();
    assert!(error.contains("cross_entropy: the target of row 0 is 9, but V is 4"), "{error}");
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let x = g.input_with_gradient("logits", [2, 5]).unwrap();
    let ids = g.input("ids", DType::I32, [2]).unwrap();
    let three = g.input("three", DType::I32, [3]).unwrap();
    let floats = g.input("floats", DType::F32, [2]).unwrap();
    let text = |g: &mut Graph, x: Var, ids: Var, smoothing: f32| {
        g.cross_entropy(x, ids, options(smoothing)).unwrap_err().to_string()
    };
    assert_eq!(
        text(&mut g, x, three, 0.0),
        "cross_entropy: targets is [3], expected [2]; ... comes from logits"
    );
    assert_eq!(
        text(&mut g, x, floats, 0.0),
        "cross_entropy: targets is f32, expected i32; give the ids of the right classes"
    );
    assert_eq!(
        text(&mut g, ids, ids, 0.0),
        "cross_entropy: logits is i32, expected f32 or bf16; cast it to f32 first"
    );
    for wrong in [1.0, -0.1, f32::NAN] {
        assert_eq!(
            text(&mut g, x, ids, wrong),
            format!("cross_entropy: label_smoothing is {wrong}; give a number from 0 (none) to below 1")
        );
    }
    let op = CrossEntropy { ignore_index: -100, label_smoothing: 0.0 };
    let lse = g.apply(op, &[x, ids]).unwrap()[1];
    let total = g.sum_all(lse).unwrap();
    assert_eq!(
        g.gradient(total, &[x]).unwrap_err().to_string(),
        "cross_entropy: a gradient arrives at the log-sum-exp, which has none here; \
         differentiate the losses alone"
    );
}
