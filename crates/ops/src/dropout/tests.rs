//! Dropout: one mask whatever the batching, the padding and the threads; expectation; the same mask backward.

use regard_engine::check::Case;
use regard_engine::{Cpu, Program, Store};
use regard_graph::{Graph, shape};
use regard_ops::prelude::*;
use regard_ops::{RANDOM_INPUT, random_numbers};

fn random(seed: u64, step: u64, first: u32) -> Vec<f64> {
    random_numbers(seed, step, first).iter().map(|&x| f64::from(x)).collect()
}

fn case(dims: &'static [usize], p: f32) -> Case<'static> {
    let case = Case::new(move |g| {
        let x = g.input_with_gradient("x", dims)?;
        Ok(vec![g.dropout(x, p)?])
    });
    case.given(RANDOM_INPUT, &[5], &random(7, 3, 2))
}

/// The mask of ones `[B T C]` (scaled), in a step, from an example on, at positions counted from one.
fn mask(dims: [usize; 3], step: u64, first: u32, position: Option<i32>, padding: usize) -> Vec<f32> {
    let [b, t, c] = [dims[0], dims[1] + padding, dims[2]];
    let mut g = Graph::inference();
    let x = g.input("x", DType::F32, [b, t, c]).unwrap();
    let y = g.scope("block.0", |g| match position {
        None => g.dropout(x, 0.3).unwrap(),
        Some(_) => {
            let position = g.input("position", DType::I32, [b, t]).unwrap();
            g.dropout_at(x, 0.3, position).unwrap()
        }
    });
    g.output("y", y).unwrap();
    let (cpu, mut store) = (Cpu::new().unwrap(), Store::new(0));
    let mut program = Program::new(g, &[], &mut store, &cpu).unwrap();
    program.set_f32("x", &[b, t, c], &vec![1.0; b * t * c]).unwrap();
    program.set_i32(RANDOM_INPUT, &[5], &random_numbers(1, step, first)).unwrap();
    if let Some(start) = position {
        let positions: Vec<i32> = (0..b * t).map(|i| start + (i % t) as i32).collect();
        program.set_i32("position", &[b, t], &positions).unwrap();
    }
    program.run(&mut store).unwrap();
    let all = program.array("y").unwrap();
    let mut kept = Vec::new();
    for example in 0..b {
        for at in 0..dims[1] {
            kept.extend(all.row(example * t + at).iter().map(|&y| y as f32));
        }
    }
    kept
}

#[test]
fn every_reader_agrees() {
    for dims in [&[2, 3][..], &[3, 5, 7], &[2, 3, 2, 9], &[0, 3, 4], &[2, 0, 5], &[2, 2, 0], &[1, 2, 1031]] {
        for p in [0.1, 0.5, 0.999] {
            case(dims, p).all(1.2e-7).unwrap_or_else(|e| panic!("{dims:?} {p}: {e}"));
        }
    }
}

#[test]
fn positions_and_open_letters() {
    let case = Case::new(|g| {
        let t = g.open('T', 8)?;
        let x = g.input_with_gradient("x", shape![2, t, 3, 5])?;
        let position = g.input("position", DType::I32, shape![2, t])?;
        Ok(vec![g.dropout_at(x, 0.25, position)?])
    });
    let case = case.size('T', 3).given("position", &[2, 3], &[4.0, 5.0, 6.0, -1.0, 0.0, 1.0]);
    case.given(RANDOM_INPUT, &[5], &random(1, 2, 3)).all(1.2e-7).unwrap();
}

#[test]
fn bf16() {
    let case = Case::new(|g| {
        let x = g.input_with_gradient("x", [4, 33])?;
        let x = g.cast(x, DType::BF16)?;
        Ok(vec![g.dropout(x, 0.25)?])
    });
    case.given(RANDOM_INPUT, &[5], &random(1, 2, 3)).cpu(0.008).unwrap();
}

#[test]
fn the_mask_is_a_function_of_the_place_alone() {
    let whole = mask([4, 6, 10], 5, 0, None, 0);
    let (one, two) = (mask([1, 6, 10], 5, 0, None, 0), mask([3, 6, 10], 5, 1, None, 0));
    assert_eq!(whole, [one, two].concat(), "whatever the split of the batch");
    assert_eq!(whole, mask([4, 6, 10], 5, 0, None, 3), "whatever the padding");
    assert_eq!(whole, mask([4, 6, 10], 5, 0, Some(0), 0), "counted positions are the default");
    let later = mask([4, 2, 10], 5, 0, Some(4), 0);
    for example in 0..4 {
        let (from, to) = (example * 60 + 40, example * 60 + 60);
        assert_eq!(whole[from..to], later[example * 20..example * 20 + 20], "a chunk of a stream");
    }
    assert_eq!(whole, mask([4, 6, 10], 5, 0, None, 0), "a step that is run again");
    assert_ne!(whole, mask([4, 6, 10], 6, 0, None, 0), "another step");
}

#[test]
fn names_tell_streams_apart() {
    let mut g = Graph::inference();
    let x = g.input("x", DType::F32, [8, 64]).unwrap();
    let (a, b) = (g.dropout(x, 0.5).unwrap(), g.dropout(x, 0.5).unwrap());
    g.output("a", a).unwrap();
    g.output("b", b).unwrap();
    let (cpu, mut store) = (Cpu::new().unwrap(), Store::new(0));
    let mut program = Program::new(g, &[], &mut store, &cpu).unwrap();
    program.set_f32("x", &[8, 64], &[1.0; 512]).unwrap();
    program.set_i32(RANDOM_INPUT, &[5], &random_numbers(0, 0, 0)).unwrap();
    program.run(&mut store).unwrap();
    assert_ne!(program.array("a").unwrap(), program.array("b").unwrap());
}

#[test]
fn the_expectation_is_x() {
    let kept = mask([16, 64, 64], 0, 0, None, 0);
    let mean = kept.iter().map(|&y| f64::from(y)).sum::<f64>() / kept.len() as f64;
    // Variance of one is p/(1 − p) = 3/7; five standard errors over 65536.
    assert!((mean - 1.0).abs() < 5.0 * (3.0f64 / 7.0 / 65536.0).sqrt(), "{mean}");
    assert!(kept.iter().all(|&y| y == 0.0 || y == 1.0 / 0.7));
}

#[test]
fn nothing_dropped_is_the_value_itself() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 2]).unwrap();
    assert_eq!(g.dropout(x, 0.0).unwrap(), x);
    assert_eq!(g.inputs().count(), 1, "and asks for no random input");
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 3, 4]).unwrap();
    let flat = g.input("flat", DType::F32, [2]).unwrap();
    let i = g.input("i", DType::I32, [2, 3]).unwrap();
    let wrong = g.input("wrong", DType::I32, [2, 4]).unwrap();
    let float = g.input("float", DType::F32, [2, 3]).unwrap();
    let text = |result: regard_graph::Result<Var>| result.unwrap_err().to_string();
    for p in [1.0, -0.1, f32::NAN, 2.0] {
        assert_eq!(
            text(g.dropout(x, p)),
            format!("dropout: the probability is {p}; give a number from 0 to below 1")
        );
    }
    assert_eq!(
        text(g.dropout(flat, 0.1)),
        "dropout: x is [2], expected [B ... C]; examples, then positions, then channels"
    );
    assert_eq!(
        text(g.dropout_at(float, 0.1, i)),
        "dropout: x is [2 3], expected [B T ... C]; examples, then positions, then channels"
    );
    assert_eq!(text(g.dropout(i, 0.1)), "dropout: x is i32, expected f32 or bf16; cast it to f32 first");
    assert_eq!(
        text(g.dropout_at(x, 0.1, wrong)),
        "dropout: position is [2 4], expected [B=2 T=3]; B, T come from x"
    );
    assert_eq!(
        text(g.dropout_at(x, 0.1, float)),
        "dropout: position is f32, expected i32; random and position are integers"
    );
}
