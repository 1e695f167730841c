//! Same bits: one query through a cache, other examples in the batch, padding, looking at the weights.

use super::attention_cases::scramble;
use regard_engine::Cpu;
use regard_engine::check::Case;
use regard_graph::{Graph, Result};
use regard_ops::prelude::*;
use regard_ops::{Array, Attention, AttentionBias, AttentionKind, AttentionMask, WeightsRequest, Window};

const N: usize = 150;
const BOUND: usize = 300;
const HEADS: usize = 4;
const GROUPS: usize = 2;
const WIDTH: usize = 9;

fn cpu() -> Cpu {
    Cpu::with(2, regard_device::Level::best()).unwrap()
}

fn same_bits(a: &Array, b: &Array) -> bool {
    a.dims() == b.dims() && a.data().iter().zip(b.data()).all(|(x, y)| x.to_bits() == y.to_bits())
}

/// [n heads WIDTH] numbers between −2 and 2, different for each seed.
fn numbers(n: usize, heads: usize, seed: usize) -> Vec<f64> {
    let count = n * heads * WIDTH;
    scramble(count + seed * 1000, 4001)[seed * 1000..].iter().map(|x| x / 1000.0 - 2.0).collect()
}

/// The first `n` rows, and what is in the rest of a cache of `bound` rows.
fn padded(rows: &[f64], n: usize, bound: usize, rest: f64) -> Vec<f64> {
    let mut all = rows[..n * GROUPS * WIDTH].to_vec();
    all.resize(bound * GROUPS * WIDTH, rest);
    all
}

fn setting(g: &mut Graph, bf16: bool) -> DType {
    if bf16 {
        g.set_precision(Precision::Bf16);
        DType::BF16
    } else {
        DType::F32
    }
}

fn full(bf16: bool, kind: AttentionKind, window: Option<Window>) -> Vec<Array> {
    let record = |g: &mut Graph| {
        let dtype = setting(g, bf16);
        let q = g.input("q", dtype, [1, N, HEADS, WIDTH])?;
        let k = g.input("k", dtype, [1, N, GROUPS, WIDTH])?;
        let v = g.input("v", dtype, [1, N, GROUPS, WIDTH])?;
        let slopes = g.input("slopes", DType::F32, [HEADS])?;
        let bias = AttentionBias::Alibi { slopes };
        let mask = AttentionMask { causal: true, window, ..Default::default() };
        let found = g.attention(q, k, v, &Attention { mask, bias, kind, ..Attention::default() })?;
        Ok(vec![found.y, found.lse, found.choice])
    };
    let case = Case::new(record)
        .given("q", &[1, N, HEADS, WIDTH], &numbers(N, HEADS, 1))
        .given("k", &[1, N, GROUPS, WIDTH], &numbers(N, GROUPS, 2))
        .given("v", &[1, N, GROUPS, WIDTH], &numbers(N, GROUPS, 3))
        .given("slopes", &[HEADS], &[0.5, 0.25, 0.125, 0.0625]);
    case.run_on(&cpu()).unwrap()
}

#[test]
fn one_position_through_a_cache_is_that_row_of_the_whole() {
    // With the window the first keys of a tile are not alive.
    let near = Some(Window { before: 40, after: 0 });
    for (bf16, window) in [(false, None), (true, None), (false, near), (true, near)] {
        for kind in [AttentionKind::Soft, AttentionKind::Hard] {
            let whole = full(bf16, kind, window);
            for t in [0, 1, 63, 64, 100, 127, 128, 149] {
                let record = |g: &mut Graph| {
                    let dtype = setting(g, bf16);
                    let q = g.input("q", dtype, [1, 1, HEADS, WIDTH])?;
                    let k = g.input("k", dtype, [1, BOUND, GROUPS, WIDTH])?;
                    let v = g.input("v", dtype, [1, BOUND, GROUPS, WIDTH])?;
                    let slopes = g.input("slopes", DType::F32, [HEADS])?;
                    let mask = AttentionMask {
                        causal: true,
                        window,
                        key_lengths: Some(g.input("lengths", DType::I32, [1])?),
                        ..Default::default()
                    };
                    let query_position = Some(g.input("at", DType::I32, [1, 1])?);
                    let bias = AttentionBias::Alibi { slopes };
                    let spec = Attention { mask, bias, kind, query_position, ..Attention::default() };
                    let found = g.attention(q, k, v, &spec)?;
                    Ok(vec![found.y, found.lse, found.choice])
                };
                // Slots that are not filled yet hold whatever was there, infinities even.
                let row = HEADS * WIDTH;
                let case = Case::new(record)
                    .given("q", &[1, 1, HEADS, WIDTH], &numbers(N, HEADS, 1)[t * row..(t + 1) * row])
                    .given(
                        "k",
                        &[1, BOUND, GROUPS, WIDTH],
                        &padded(&numbers(N, GROUPS, 2), t + 1, BOUND, f64::INFINITY),
                    )
                    .given(
                        "v",
                        &[1, BOUND, GROUPS, WIDTH],
                        &padded(&numbers(N, GROUPS, 3), t + 1, BOUND, f64::NAN),
                    )
                    .given("slopes", &[HEADS], &[0.5, 0.25, 0.125, 0.0625])
                    .given("lengths", &[1], &[(t + 1) as f64])
                    .given("at", &[1, 1], &[t as f64]);
                let step = case.run_on(&cpu()).unwrap();
                for (whole, step) in whole.iter().zip(&step) {
                    let width = whole.data().len() / N;
                    let want = &whole.data()[t * width..(t + 1) * width];
                    let same = want.iter().zip(step.data()).all(|(x, y)| x.to_bits() == y.to_bits());
                    assert!(same, "bf16 {bf16}, {kind:?}, position {t}: {want:?} and {:?}", step.data());
                }
            }
        }
    }
}

/// Lengths of examples; the last fits one tile of keys of the backward, unless it is padded.
const LENGTHS: [usize; 4] = [70, 130, 97, 40];

/// y, lse and all gradients of some examples, each of its own length, padded to `size`. What is padding is
/// said by lengths, or by a mask of keys.
fn batch(examples: &[usize], size: usize, by_mask: bool) -> Result<Vec<Array>> {
    let b = examples.len();
    let record = |g: &mut Graph| {
        let q = g.input_with_gradient("q", [b, size, HEADS, WIDTH])?;
        let k = g.input_with_gradient("k", [b, size, GROUPS, WIDTH])?;
        let v = g.input_with_gradient("v", [b, size, GROUPS, WIDTH])?;
        let mut mask = AttentionMask {
            window: Some(regard_ops::Window { before: 90, after: 20 }),
            ..Default::default()
        };
        if by_mask {
            mask.key_mask = Some(g.input("keys", DType::Bool, [b, size])?);
        } else {
            mask.key_lengths = Some(g.input("lengths", DType::I32, [b])?);
        }
        let spec = Attention { mask, ..Attention::default() };
        let found = g.attention(q, k, v, &spec)?;
        Ok(vec![found.y, found.lse])
    };
    let gather = |heads: usize, width: usize, seed: usize| {
        let mut all = Vec::new();
        for &example in examples {
            let mut own = numbers(LENGTHS[example], heads, seed + example);
            own.truncate(LENGTHS[example] * heads * width);
            own.resize(size * heads * width, 0.0);
            all.extend(own);
        }
        all
    };
    let lengths: Vec<f64> = examples.iter().map(|&example| LENGTHS[example] as f64).collect();
    let case = Case::new(record)
        .given("q", &[b, size, HEADS, WIDTH], &gather(HEADS, WIDTH, 1))
        .given("k", &[b, size, GROUPS, WIDTH], &gather(GROUPS, WIDTH, 4))
        .given("v", &[b, size, GROUPS, WIDTH], &gather(GROUPS, WIDTH, 7))
        .given("cotangent.0", &[b, size, HEADS, WIDTH], &gather(HEADS, WIDTH, 10))
        .given("cotangent.1", &[b, size, HEADS], &gather(HEADS, 1, 13));
    let keys = |&length: &f64| (0..size).map(move |key| f64::from((key as f64) < length));
    let case = if by_mask {
        case.given("keys", &[b, size], &lengths.iter().flat_map(keys).collect::<Vec<f64>>())
    } else {
        case.given("lengths", &[b], &lengths)
    };
    // What belongs to padded places is cut off.
    let mut found = Vec::new();
    for array in case.run_on(&cpu()).unwrap() {
        let width = array.data().len() / (b * size);
        for (place, &example) in examples.iter().enumerate() {
            let from = place * size * width;
            let own = array.data()[from..from + LENGTHS[example] * width].to_vec();
            found.push(Array::new(&[LENGTHS[example], width], own).unwrap());
        }
    }
    Ok(found)
}

#[test]
fn neither_the_batch_nor_padding_changes_a_bit() {
    for by_mask in [false, true] {
        let all = batch(&[0, 1, 2, 3], 130, by_mask).unwrap();
        let other_order = batch(&[3, 2, 1, 0], 257, by_mask).unwrap();
        for (example, length) in LENGTHS.into_iter().enumerate() {
            let alone = batch(&[example], length, by_mask).unwrap();
            for (result, alone) in alone.iter().enumerate() {
                let what = format!("result {result} of example {example}, by mask: {by_mask}");
                assert!(same_bits(alone, &all[4 * result + example]), "{what}");
                assert!(same_bits(alone, &other_order[4 * result + 3 - example]), "{what}, more padding");
            }
        }
    }
}

#[test]
fn looking_changes_no_bit() {
    let run = |looks: bool| {
        let record = |g: &mut Graph| {
            let q = g.input("q", DType::F32, [1, N, HEADS, WIDTH])?;
            let k = g.input("k", DType::F32, [1, N, GROUPS, WIDTH])?;
            let v = g.input("v", DType::F32, [1, N, GROUPS, WIDTH])?;
            let spec = Attention { dropout: 0.1, ..Attention::causal() };
            let found = g.attention(q, k, v, &spec)?;
            let mut outputs = vec![found.y, found.lse];
            if looks {
                for request in
                    [WeightsRequest::Rows(vec![3, 7]), WeightsRequest::Entropy, WeightsRequest::ColumnSums]
                {
                    outputs.push(g.attention_weights(q, k, found.lse, &spec, request)?.values);
                }
            }
            Ok(outputs)
        };
        Case::new(record).given("random", &[5], &[1.0, 0.0, 2.0, 0.0, 0.0]).run_on(&cpu()).unwrap()
    };
    let (plain, looked) = (run(false), run(true));
    assert!(same_bits(&plain[0], &looked[0]) && same_bits(&plain[1], &looked[1]));
}
