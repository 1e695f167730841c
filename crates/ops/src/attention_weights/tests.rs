//! Weights on request: against the specification, against a naive softmax, and every error.

use super::attention_cases::{bits, size};
use regard_engine::Cpu;
use regard_engine::check::Case;
use regard_graph::{Graph, Result, Var, shape};
use regard_ops::prelude::*;
use regard_ops::{
    Attention, AttentionBias, AttentionKind, AttentionMask, AttentionWeightsFound, WeightsRequest, Window,
    random_numbers,
};

const BOUND: f64 = 1.6e-6;

fn cpu() -> Cpu {
    Cpu::with(2, regard_device::Level::best()).unwrap()
}

fn requests(t: usize, s: usize) -> Vec<WeightsRequest> {
    vec![
        WeightsRequest::Rows(vec![t - 1, 0, 0]),
        WeightsRequest::Columns(vec![s / 2, s - 1]),
        WeightsRequest::Block { queries: t / 3..t, keys: s / 4..s - 1 },
        WeightsRequest::TopK(3),
        WeightsRequest::ColumnSums,
        WeightsRequest::Entropy,
    ]
}

#[test]
fn every_request_of_every_kind() {
    let kinds = [
        AttentionKind::Soft,
        AttentionKind::Hard,
        AttentionKind::Gumbel { temperature: 0.8, hard: false },
        AttentionKind::Gumbel { temperature: 0.8, hard: true },
    ];
    for at in [size([2, 5, 7, 4, 2, 3, 1]), size([1, 61, 140, 2, 1, 8, 1])] {
        for kind in kinds {
            for request in requests(at.t, at.s) {
                let record = |g: &mut Graph| {
                    let q = g.input("q", DType::F32, [at.b, at.t, at.h, at.d])?;
                    let k = g.input("k", DType::F32, [at.b, at.s, at.g, at.d])?;
                    let v = g.input("v", DType::F32, [at.b, at.s, at.g, at.e])?;
                    let mask = AttentionMask {
                        window: Some(Window { before: 60, after: 3 }),
                        key_mask: Some(g.input("key_mask", DType::Bool, [at.b, at.s])?),
                        ..Default::default()
                    };
                    let bias = AttentionBias::Clipped { table: g.input("table", DType::F32, [5, at.h])? };
                    let spec = Attention { mask, bias, kind, dropout: 0.3, ..Attention::default() };
                    let lse = g.attention(q, k, v, &spec)?.lse;
                    let found = g.attention_weights(q, k, lse, &spec, request.clone())?;
                    Ok([Some(found.values), found.indices].into_iter().flatten().collect())
                };
                let case = Case::new(record).given("key_mask", &[at.b, at.s], &bits(at.b * at.s, 7)).given(
                    "random",
                    &[5],
                    &random_numbers(2, 4, 6).map(f64::from),
                );
                let result = case.cpu(2.0 * BOUND).and_then(|_| case.cost());
                assert!(result.is_ok(), "{at:?} {kind:?} {request:?}: {}", result.unwrap_err());
            }
        }
    }
}

#[test]
fn weights_are_those_of_a_naive_softmax() {
    // Two heads over one key head, T = 3, S = 4, causal by position: query t sees keys 0 ..= t.
    let record = |g: &mut Graph| {
        let q = g.input("q", DType::F32, [1, 3, 2, 2])?;
        let k = g.input("k", DType::F32, [1, 4, 1, 2])?;
        let spec = Attention::causal();
        let lse = g.attention(q, k, k, &spec)?.lse;
        let mut outputs = vec![q, k];
        let all = [
            WeightsRequest::Rows(vec![0, 1, 2]),
            WeightsRequest::Columns(vec![0, 1, 2, 3]),
            WeightsRequest::Block { queries: 0..3, keys: 0..4 },
            WeightsRequest::ColumnSums,
            WeightsRequest::Entropy,
        ];
        for request in all {
            outputs.push(g.attention_weights(q, k, lse, &spec, request)?.values);
        }
        let top = g.attention_weights(q, k, lse, &spec, WeightsRequest::TopK(3))?;
        outputs.extend([Some(top.values), top.indices].into_iter().flatten());
        Ok(outputs)
    };
    let found = Case::new(record).run_on(&cpu()).unwrap();
    let (q, k) = (&found[0], &found[1]);
    let mut sums = [[0.0; 4]; 2];
    for h in 0..2 {
        for t in 0..3 {
            let score =
                |s: usize| (0..2).map(|d| q[[0, t, h, d]] * k[[0, s, 0, d]]).sum::<f64>() / 2f64.sqrt();
            let exponentials: Vec<f64> = (0..=t).map(|s| score(s).exp()).collect();
            let total: f64 = exponentials.iter().sum();
            let weights: Vec<f64> = (0..4).map(|s| exponentials.get(s).map_or(0.0, |x| x / total)).collect();
            for s in 0..4 {
                for array in &found[2..5] {
                    assert!((array[[0, h, t, s]] - weights[s]).abs() < 1e-6);
                }
                sums[h][s] += weights[s];
            }
            let entropy: f64 = weights.iter().filter(|&&w| w > 0.0).map(|w| -w * w.ln()).sum();
            assert!((found[6][[0, t, h]] - entropy).abs() < 1e-6);
            let mut order: Vec<usize> = (0..=t).collect();
            order.sort_by(|&x, &y| weights[y].total_cmp(&weights[x]));
            for n in 0..3 {
                let index = order.get(n).map_or(-1.0, |&s| s as f64);
                let weight = order.get(n).map_or(0.0, |&s| weights[s]);
                assert_eq!(found[8][[0, t, h, n]], index);
                assert!((found[7][[0, t, h, n]] - weight).abs() < 1e-6);
            }
        }
        for s in 0..4 {
            assert!((found[5][[0, h, s]] - sums[h][s]).abs() < 1e-6);
        }
    }
}

fn recorded(record: impl Fn(&mut Graph, Var, Var, Var) -> Result<AttentionWeightsFound>) -> String {
    let mut g = Graph::new();
    let q = g.input("q", DType::F32, [2, 5, 4, 3]).unwrap();
    let k = g.input("k", DType::F32, [2, 7, 2, 3]).unwrap();
    let lse = g.input("lse", DType::F32, [2, 5, 4]).unwrap();
    record(&mut g, q, k, lse).unwrap_err().to_string()
}

#[test]
fn errors() {
    let asked = |request: WeightsRequest| {
        recorded(|g, q, k, lse| g.attention_weights(q, k, lse, &Attention::default(), request.clone()))
    };
    let beyond = "attention_weights: query 5 is asked for, there are 5; ask for those there are";
    assert_eq!(asked(WeightsRequest::Rows(vec![1, 5])), beyond);
    assert_eq!(asked(WeightsRequest::Block { queries: 3..6, keys: 0..1 }), beyond);
    let beyond = "attention_weights: key 7 is asked for, there are 7; ask for those there are";
    assert_eq!(asked(WeightsRequest::Columns(vec![7])), beyond);
    assert_eq!(asked(WeightsRequest::Block { queries: 0..1, keys: 7..8 }), beyond);
    #[allow(clippy::reversed_empty_ranges)]
    let reversed = WeightsRequest::Block { queries: 2..1, keys: 0..1 };
    assert_eq!(
        asked(reversed),
        "attention_weights: queries 2..1 and keys 0..1 are asked for; a range must not end before it begins"
    );
    assert_eq!(
        asked(WeightsRequest::TopK(0)),
        "attention_weights: the largest 0 weights are asked for; ask for at least 1"
    );
    let hard = Attention { kind: AttentionKind::Hard, ..Attention::default() };
    assert_eq!(
        recorded(|g, q, k, lse| g.attention_weights(q, k, lse, &hard, WeightsRequest::Entropy)),
        "attention_weights: lse does not come from an attention of this graph; hard and random weights are \
         known to the attention alone; give its own lse"
    );
    let noisy = AttentionKind::Gumbel { temperature: 1.0, hard: false };
    let noisy = Attention { kind: noisy, ..Attention::default() };
    assert_eq!(
        recorded(|g, q, k, _| {
            let lse = g.attention(q, k, k, &Attention::default())?.lse;
            g.attention_weights(q, k, lse, &noisy, WeightsRequest::Entropy)
        }),
        "attention_weights: lse comes from an attention without noise; give the spec that the attention was \
         recorded with"
    );
    assert_eq!(
        recorded(|g, q, k, _| g.attention_weights(q, k, k, &Attention::default(), WeightsRequest::Entropy)),
        "attention_weights: lse is [2 7 2 3], expected [B=2 T=5 H=4]; B, T, H come from query"
    );
    let mut g = Graph::new();
    let q = g.input_with_gradient("q", [1, 2, 1, 1]).unwrap();
    let lse = g.attention(q, q, q, &Attention::default()).unwrap().lse;
    let error = g.attention_weights(q, q, lse, &Attention::default(), WeightsRequest::Entropy).unwrap_err();
    assert_eq!(
        error.to_string(),
        "attention_weights: no derivative exists with respect to query: weights on request are for looking; \
         use stop_gradient if none is wanted"
    );
}

#[test]
fn a_query_beyond_this_run() {
    let record = |g: &mut Graph| {
        let t = g.open('T', 9)?;
        let q = g.input("q", DType::F32, shape![1, t, 1, 2])?;
        let lse = g.attention(q, q, q, &Attention::default())?.lse;
        let rows = WeightsRequest::Rows(vec![6]);
        Ok(vec![g.attention_weights(q, q, lse, &Attention::default(), rows)?.values])
    };
    Case::new(record).size('T', 7).cpu(BOUND).unwrap();
    let error = Case::new(record).size('T', 6).run_on(&cpu()).unwrap_err().to_string();
    assert!(error.contains("query 6 is asked for, this run has 6; ask for those there are"), "{error}");
}

#[test]
fn a_recorded_attention_is_asked_by_its_number() {
    for (kind, dropout) in
        [(AttentionKind::Soft, 0.3), (AttentionKind::Hard, 0.0), (AttentionKind::Soft, 0.0)]
    {
        let mut g = Graph::inference();
        let q = g.input("q", DType::F32, [2, 5, 2, 4]).unwrap();
        let mask = AttentionMask {
            key_mask: Some(g.input("mask", DType::Bool, [2, 5]).unwrap()),
            ..Default::default()
        };
        let spec = Attention { mask, kind, dropout, ..Attention::causal() };
        let lse = g.attention(q, q, q, &spec).unwrap().lse;
        let wanted = g.attention_weights(q, q, lse, &spec, WeightsRequest::Rows(vec![4, 0])).unwrap();
        let found = g.weights_of(0, WeightsRequest::Rows(vec![4, 0])).unwrap();
        g.output("wanted", wanted.values).unwrap();
        g.output("found", found.values).unwrap();
        let mut store = regard_engine::Store::new(0);
        let mut program = regard_engine::Program::new(g, &[], &mut store, &cpu()).unwrap();
        let numbers: Vec<f32> = (0..80).map(|i| ((i * 37 % 23) as f32 - 11.0) / 7.0).collect();
        program.set_f32("q", &[2, 5, 2, 4], &numbers).unwrap();
        program
            .set_bools("mask", &[2, 5], &[true, true, false, true, true, true, true, true, true, false])
            .unwrap();
        if dropout > 0.0 {
            program.set_i32("random", &[5], &random_numbers(2, 4, 6)).unwrap();
        }
        program.run(&mut store).unwrap();
        assert_eq!(program.f32("wanted").unwrap(), program.f32("found").unwrap());
        assert!(program.f32("found").unwrap().iter().any(|&w| w > 0.0));
    }
    let mut g = Graph::inference();
    let x = g.input("x", DType::F32, [2]).unwrap();
    g.scale(x, 2.0).unwrap();
    let mut text = |node| g.weights_of(node, WeightsRequest::Entropy).unwrap_err().to_string();
    assert_eq!(text(0), "attention_weights: `scale` is no attention; ask for a node whose op is `attention`");
    assert_eq!(text(9), "attention_weights: there is no node 9; ask for a node whose op is `attention`");
}

#[test]
fn looking_into_a_training_graph_says_where_to_look() {
    let mut g = Graph::new();
    let q = g.input_with_gradient("q", [1, 3, 1, 2]).unwrap();
    g.attention(q, q, q, &Attention::default()).unwrap();
    assert_eq!(
        g.weights_of(0, WeightsRequest::Entropy).unwrap_err().to_string(),
        "attention_weights: `attention` stands in a graph that is recorded for training; record the pass in \
         `Graph::inference()`, look there, and run it with the same store"
    );
}
