//! Hard, straight-through and Gumbel attention, and dropout: what they are defined to be.

use super::attention_cases::{case, case_with_lse, fed, size};
use regard_engine::Cpu;
use regard_engine::check::Case;
use regard_graph::Graph;
use regard_ops::prelude::*;
use regard_ops::{Array, Attention, AttentionKind, AttentionMask, random_numbers};

const BOUND: f64 = 1.6e-6;
const KINDS: [AttentionKind; 4] = [
    AttentionKind::Hard,
    AttentionKind::StraightThrough,
    AttentionKind::Gumbel { temperature: 0.7, hard: false },
    AttentionKind::Gumbel { temperature: 1.3, hard: true },
];

fn cpu() -> Cpu {
    Cpu::with(2, regard_device::Level::best()).unwrap()
}

#[test]
fn every_kind_on_the_cpu() {
    for at in [size([2, 5, 7, 4, 2, 3, 5]), size([1, 70, 135, 2, 1, 8, 4])] {
        for kind in KINDS {
            for dropout in [0.0, 0.2] {
                let case = case_with_lse(at, |g| {
                    let key_mask = Some(g.input("key_mask", DType::Bool, [at.b, at.s])?);
                    let mask = AttentionMask { causal: true, key_mask, ..Default::default() };
                    Ok(Attention { kind, dropout, mask, ..Attention::default() })
                });
                let case = fed(case, at);
                let result = case.cpu(2.0 * BOUND).and_then(|_| case.cost());
                assert!(result.is_ok(), "{at:?} {kind:?} {dropout}: {}", result.unwrap_err());
            }
        }
    }
}

#[test]
fn differences_where_they_mean_something() {
    let at = size([2, 5, 7, 4, 2, 3, 5]);
    // Soft Gumbel is differentiable; so are the values of hard attention, whose scores get exactly 0.
    for kind in [AttentionKind::Gumbel { temperature: 0.7, hard: false }, AttentionKind::Hard] {
        for dropout in [0.0, 0.3] {
            fed(case(at, |_| Ok(Attention { kind, dropout, ..Attention::default() })), at)
                .gradients()
                .unwrap();
        }
        fed(case_with_lse(at, |_| Ok(Attention { kind, ..Attention::default() })), at).gradients().unwrap();
    }
}

/// y, choice, then the gradients of k, q, v.
fn found(kind: AttentionKind) -> Vec<Array> {
    let record = |g: &mut Graph| {
        let q = g.input_with_gradient("q", [2, 9, 2, 4])?;
        let k = g.input_with_gradient("k", [2, 70, 2, 4])?;
        let v = g.input_with_gradient("v", [2, 70, 2, 3])?;
        let found = g.attention(q, k, v, &Attention { kind, ..Attention::default() })?;
        Ok(vec![found.y, found.choice])
    };
    Case::new(record).given("random", &[5], &random_numbers(1, 2, 3).map(f64::from)).run_on(&cpu()).unwrap()
}

#[test]
fn straight_through_is_hard_forward_and_soft_backward() {
    let (soft, hard, through) =
        (found(AttentionKind::Soft), found(AttentionKind::Hard), found(AttentionKind::StraightThrough));
    assert_eq!(through[0], hard[0]);
    assert_eq!(through[1], hard[1]);
    assert_eq!(through[4], hard[4], "values get the gradient of the hard weights");
    for (got, want) in through[2..4].iter().zip(&soft[2..4]) {
        let most = want.data().iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        let close = got.data().iter().zip(want.data()).all(|(x, y)| (x - y).abs() <= 2.0 * BOUND * most);
        assert!(close && most > 0.0, "scores get the gradient of the soft weights");
    }
    assert!(hard[2].data().iter().chain(hard[3].data()).all(|&x| x == 0.0));
    assert!(soft[1].data().iter().all(|&choice| choice == -1.0));
}

#[test]
fn ties_go_to_the_lowest_index() {
    // Keys 3 and 140 are equal and largest: the second lies in another tile.
    let record = |g: &mut Graph| {
        let q = g.input("q", DType::F32, [1, 1, 1, 1])?;
        let k = g.input("k", DType::F32, [1, 150, 1, 1])?;
        let spec = Attention { kind: AttentionKind::Hard, ..Attention::default() };
        let found = g.attention(q, k, k, &spec)?;
        Ok(vec![found.y, found.choice])
    };
    let mut keys = vec![0.5; 150];
    (keys[3], keys[140]) = (2.0, 2.0);
    let case = Case::new(record).given("q", &[1, 1, 1, 1], &[1.0]).given("k", &[1, 150, 1, 1], &keys);
    let found = case.run_on(&cpu()).unwrap();
    assert_eq!((found[0].data(), found[1].data()), (&[2.0][..], &[3.0][..]));
    case.cpu(0.0).unwrap();
}

#[test]
fn gumbel_chooses_as_often_as_the_softmax_says() {
    // 4000 queries with scores (0, ln 2, ln 5): probabilities 1/8, 2/8, 5/8, at any temperature.
    const N: usize = 4000;
    for temperature in [0.5, 2.0] {
        let record = |g: &mut Graph| {
            let q = g.input("q", DType::F32, [1, N, 1, 1])?;
            let k = g.input("k", DType::F32, [1, 3, 1, 1])?;
            let kind = AttentionKind::Gumbel { temperature, hard: true };
            Ok(vec![g.attention(q, k, k, &Attention { kind, ..Attention::default() })?.choice])
        };
        let case = Case::new(record)
            .given("q", &[1, N, 1, 1], &[1.0; N])
            .given("k", &[1, 3, 1, 1], &[0.0, 2f64.ln(), 5f64.ln()])
            .given("random", &[5], &random_numbers(5, 0, 0).map(f64::from));
        let found = &case.run_on(&cpu()).unwrap()[0];
        for (key, p) in [(0.0, 0.125), (1.0, 0.25), (2.0, 0.625)] {
            let count = found.data().iter().filter(|&&choice| choice == key).count() as f64;
            let (mean, deviation) = (N as f64 * p, (N as f64 * p * (1.0 - p)).sqrt());
            assert!((count - mean).abs() < 4.0 * deviation, "key {key}: {count} of {mean}");
        }
    }
}

#[test]
fn dropout_keeps_the_mean_and_the_log_sum_exp() {
    // Equal weights over 128 keys with value 1: y is (kept keys)/(128·(1−p)), of mean 1.
    const N: usize = 500;
    let run = |dropout: f32, step: u64| {
        let record = move |g: &mut Graph| {
            let q = g.input("q", DType::F32, [1, N, 1, 1])?;
            let k = g.input("k", DType::F32, [1, 128, 1, 1])?;
            let found = g.attention(q, k, k, &Attention { dropout, ..Attention::default() })?;
            Ok(vec![found.y, found.lse])
        };
        let case =
            Case::new(record).given("q", &[1, N, 1, 1], &[0.0; N]).given("k", &[1, 128, 1, 1], &[1.0; 128]);
        let random = random_numbers(9, step, 0).map(f64::from);
        case.given("random", &[5], &random).run_on(&cpu()).unwrap()
    };
    let (plain, dropped, later) = (run(0.0, 0), run(0.25, 0), run(0.25, 1));
    assert_eq!(plain[1], dropped[1]);
    let mean = dropped[0].data().iter().sum::<f64>() / N as f64;
    let deviation = (0.25f64 / 0.75 / 128.0 / N as f64).sqrt();
    assert!((mean - 1.0).abs() < 4.0 * deviation, "{mean}");
    assert_ne!(dropped[0], later[0], "another step drops others");
    assert!(dropped[0].data().windows(2).any(|pair| pair[0] != pair[1]), "queries differ");
}

#[test]
fn dropout_knows_examples_and_positions_not_places() {
    // The second example alone, with one more key of padding in front: the same weights are dropped.
    let all = |g: &mut Graph| {
        let q = g.input("q", DType::F32, [2, 4, 2, 1])?;
        let k = g.input("k", DType::F32, [2, 6, 2, 1])?;
        let v = g.input("v", DType::F32, [2, 6, 2, 1])?;
        Ok(vec![g.attention(q, k, v, &Attention { dropout: 0.5, ..Attention::default() })?.y])
    };
    let v: Vec<f64> = (0..24).map(|i| f64::from(1 << (i % 12 / 2)) * 64.0).collect();
    let case = Case::new(all).given("q", &[2, 4, 2, 1], &[0.0; 16]).given("v", &[2, 6, 2, 1], &v).given(
        "random",
        &[5],
        &random_numbers(3, 3, 10).map(f64::from),
    );
    let both = case.run_on(&cpu()).unwrap();
    let one = |g: &mut Graph| {
        let q = g.input("q", DType::F32, [1, 4, 2, 1])?;
        let k = g.input("k", DType::F32, [1, 7, 2, 1])?;
        let v = g.input("v", DType::F32, [1, 7, 2, 1])?;
        let key_mask = Some(g.input("key_mask", DType::Bool, [1, 7])?);
        let mask = AttentionMask { key_mask, ..Default::default() };
        let key_position = Some(g.input("key_position", DType::I32, [1, 7])?);
        let spec = Attention { dropout: 0.5, mask, key_position, ..Attention::default() };
        Ok(vec![g.attention(q, k, v, &spec)?.y])
    };
    let padded: Vec<f64> = [0.0, 0.0].into_iter().chain(v[12..].iter().copied()).collect();
    let case = Case::new(one)
        .given("q", &[1, 4, 2, 1], &[0.0; 8])
        .given("v", &[1, 7, 2, 1], &padded)
        .given("key_mask", &[1, 7], &[0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
        .given("key_position", &[1, 7], &[-1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
        .given("random", &[5], &random_numbers(3, 3, 11).map(f64::from));
    let alone = case.run_on(&cpu()).unwrap();
    for (x, y) in both[0].data()[8..].iter().zip(alone[0].data()) {
        assert!((x - y).abs() < 1e-3, "powers of two tell which were dropped: {x} {y}");
    }
}
