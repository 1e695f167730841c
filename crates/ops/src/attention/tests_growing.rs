//! Scores that grow from tile to tile of keys, so that what is taken from them has to be raised in some rows
//! and not in others: the result is right, and each row's bits are its own.

use regard_device::Level;
use regard_engine::Cpu;
use regard_engine::check::Case;
use regard_graph::Graph;
use regard_ops::prelude::*;
use regard_ops::{Array, Attention, AttentionScale};

const QUERIES: usize = 40;
/// Two tiles of 256 and part of a third.
const KEYS: usize = 600;
const WIDTH: usize = 4;

/// How much each query makes of each key: nothing, a little, so much that later tiles are raised, so much
/// that their weights would overflow; and what falls instead of growing.
fn slope(query: usize) -> f64 {
    [0.0, 0.01, 0.125, 0.25, -0.25, 1.0, 2.0][query % 7]
}

fn query(t: usize) -> [f64; WIDTH] {
    [slope(t), 0.5, (t % 3) as f64 - 1.0, 0.25]
}

/// Whole numbers and eighths, which are exact in bf16 as well.
fn key(s: usize) -> [f64; WIDTH] {
    [(s / 8 * 2) as f64, (s * 7 % 5) as f64 - 2.0, (s * 5 % 7) as f64 / 8.0, 1.0]
}

fn value(s: usize) -> [f64; WIDTH] {
    [(s % 16) as f64 / 8.0 - 1.0, 1.0, (s / 64) as f64, (s * 3 % 11) as f64 / 4.0]
}

/// y and lse of these queries.
fn run(level: Level, bf16: bool, queries: &[usize]) -> Vec<Array> {
    run_scaled(level, bf16, queries, 1.0)
}

/// The same with queries over this number and scores times it.
fn run_scaled(level: Level, bf16: bool, queries: &[usize], scale: f32) -> Vec<Array> {
    let t = queries.len();
    let record = |g: &mut Graph| {
        if bf16 {
            g.set_precision(Precision::Bf16);
        }
        let q = g.input("q", DType::F32, [1, t, 1, WIDTH])?;
        let k = g.input("k", DType::F32, [1, KEYS, 1, WIDTH])?;
        let v = g.input("v", DType::F32, [1, KEYS, 1, WIDTH])?;
        let spec = Attention { scale: AttentionScale::Constant(scale), ..Attention::default() };
        let found = g.attention(q, k, v, &spec)?;
        Ok(vec![found.y, found.lse])
    };
    let all = |n: std::ops::Range<usize>, of: fn(usize) -> [f64; WIDTH]| n.flat_map(of).collect::<Vec<f64>>();
    let q: Vec<f64> = queries.iter().flat_map(|&t| query(t).map(|x| x / scale as f64)).collect();
    let case = Case::new(record)
        .given("q", &[1, t, 1, WIDTH], &q)
        .given("k", &[1, KEYS, 1, WIDTH], &all(0..KEYS, key))
        .given("v", &[1, KEYS, 1, WIDTH], &all(0..KEYS, value));
    case.run_on(&Cpu::with(2, level).unwrap()).unwrap()
}

#[test]
fn growing_scores_are_weighed_right() {
    let every: Vec<usize> = (0..QUERIES).collect();
    let found = run(Level::best(), false, &every);
    for t in every {
        let scores: Vec<f64> =
            (0..KEYS).map(|s| query(t).iter().zip(key(s)).map(|(q, k)| q * k).sum()).collect();
        let most = scores.iter().copied().fold(f64::MIN, f64::max);
        let sum: f64 = scores.iter().map(|score| (score - most).exp()).sum();
        let lse = most + sum.ln();
        let got = found[1].data()[t];
        assert!((got - lse).abs() <= 2e-6 * (1.0 + lse.abs()), "lse of query {t}: {lse}, got {got}");
        for e in 0..WIDTH {
            let y: f64 = scores.iter().enumerate().map(|(s, score)| (score - lse).exp() * value(s)[e]).sum();
            let got = found[0].data()[t * WIDTH + e];
            assert!((got - y).abs() <= 3e-6 * (1.0 + y.abs()), "y of query {t}, {e}: {y}, got {got}");
        }
    }
}

#[test]
fn no_row_feels_that_another_is_raised() {
    for (&level, bf16) in Level::available().iter().flat_map(|level| [(level, false), (level, true)]) {
        let every: Vec<usize> = (0..QUERIES).collect();
        let whole = run(level, bf16, &every);
        // Alone, and with others than before.
        let parts =
            every.iter().map(|&t| vec![t]).chain([vec![0, 7, 14, 21, 28, 35], vec![6, 5, 0, 4, 3, 2, 1]]);
        for part in parts {
            for (whole, own) in whole.iter().zip(run(level, bf16, &part)) {
                let width = own.data().len() / part.len();
                for (&t, own) in part.iter().zip(own.data().chunks_exact(width)) {
                    let whole = &whole.data()[t * width..(t + 1) * width];
                    assert_eq!(whole, own, "query {t} of {part:?}, {level}, bf16: {bf16}");
                }
            }
        }
    }
}

#[test]
fn a_negative_scale_turns_scores_round() {
    let every: Vec<usize> = (0..QUERIES).collect();
    for bf16 in [false, true] {
        let [plain, turned] = [2.0, -2.0].map(|scale| run_scaled(Level::best(), bf16, &every, scale));
        assert_eq!(plain[0].data(), turned[0].data());
        assert_eq!(plain[1].data(), turned[1].data());
    }
}
