//! The causal mask: exact zeros, and which triangle they fill.

use crate::attend::Scene;
use crate::compute::compute_on_cpu;
use crate::picture::{Colours, Heat};
use crate::{Context, Finding, Number, Verdict};
use regard::Result;
use regard::ops::{Attention, WeightsRequest};
use regard::prelude::*;

const LENGTH: usize = 8;

fn fast_weights(scene: &Scene, length: usize) -> Result<Vec<f64>> {
    let found = compute_on_cpu(&scene.feed()?, 1, |g| {
        let q = g.input("query", DType::F32, [1, length, 1, 4])?;
        let k = g.input("key", DType::F32, [1, length, 1, 4])?;
        let v = g.input("value", DType::F32, [1, length, 1, 3])?;
        let spec = Attention::causal();
        let lse = g.attention(q, k, v, &spec)?.lse;
        let all = WeightsRequest::Block { queries: 0..length, keys: 0..length };
        Ok(vec![g.attention_weights(q, k, lse, &spec, all)?.values])
    })?;
    Ok(found[0].data().to_vec())
}

/// G1: zeros are exact, on both engines.
pub fn exact(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("G1");
    let mut finding = Finding::new(
        Verdict::Holds,
        "Weights of later keys are exactly 0, and the first query attends to itself alone.",
    );
    for length in [LENGTH, 200] {
        let scene = Scene::random(&mut draws, 1, length, length, 4, 3);
        let exact = scene.attend_as(|_| Ok(Attention::causal()))?;
        for (engine, weights) in
            [("reference", exact.weights.clone()), ("CPU engine", fast_weights(&scene, length)?)]
        {
            let later =
                (0..length * length).filter(|at| at % length > at / length && weights[*at] != 0.0).count();
            let sums =
                weights.chunks(length).map(|row| (row.iter().sum::<f64>() - 1.0).abs()).fold(0.0, f64::max);
            finding = finding
                .number(Number::count(
                    format!("{engine}, {length} positions: weights of later keys that are not exactly 0"),
                    later,
                    0,
                ))
                .number(Number::equal(
                    format!("{engine}, {length} positions: first query’s weight on itself"),
                    weights[0],
                    1.0,
                    0.0,
                ))
                .number(Number::at_most(
                    format!("{engine}, {length} positions: furthest row sum from 1"),
                    sums,
                    1e-6,
                ));
        }
        // A future that could overwhelm everything: huge later keys change nothing before them.
        let mut other = scene.clone();
        other.k[(length - 1) * 4..].iter_mut().for_each(|k| *k *= 1e6);
        let after = other.attend_as(|_| Ok(Attention::causal()))?;
        let earlier = (length - 1) * 3;
        let changed = crate::compute::differing(&exact.mixed[..earlier], &after.mixed[..earlier]);
        finding = finding.number(Number::count(
            format!("{length} positions, last key a million times larger: earlier outputs with other bits"),
            changed,
            0,
        ));
        if length == LENGTH {
            finding = finding.picture(Heat::new(
                "Causal weights, query × key",
                "query",
                "key",
                length,
                exact.weights,
                Colours::Rising,
            ));
        }
    }
    Ok(finding.how("The causal attention op on random numbers, on both engines, at 8 and at 200 positions."))
}

/// G2: lower in query × key, upper in key × query.
pub fn triangle(context: &Context) -> Result<Finding> {
    let scene = Scene::random(&mut context.draws("G2"), 1, LENGTH, LENGTH, 4, 3);
    let rows = scene.attend_as(|_| Ok(Attention::causal()))?.weights;
    let columns: Vec<f64> = (0..LENGTH * LENGTH).map(|at| rows[at % LENGTH * LENGTH + at / LENGTH]).collect();
    let below =
        |of: &[f64]| (0..LENGTH * LENGTH).filter(|at| at / LENGTH > at % LENGTH && of[*at] != 0.0).count();
    let above =
        |of: &[f64]| (0..LENGTH * LENGTH).filter(|at| at / LENGTH < at % LENGTH && of[*at] != 0.0).count();
    let half = LENGTH * (LENGTH - 1) / 2;
    Ok(Finding::new(
        Verdict::Wrong,
        "In the notes’ own layout, with keys in rows and queries in columns, the causal matrix is upper triangular. It is lower triangular in query × key.",
    )
    .number(Number::count("key × query: weights below the diagonal that are not 0", below(&columns), 0).erratum("E15"))
    .number(Number::count("key × query: weights above the diagonal that are not 0", above(&columns), half).erratum("E15"))
    .number(Number::count("query × key: weights above the diagonal that are not 0", above(&rows), 0))
    .number(Number::count("query × key: weights below the diagonal that are not 0", below(&rows), half))
    .counter_example("With S = KᵀQ the weight of key 2 for query 1 stands in row 2, column 1, below the diagonal, and is 0.")
    .picture(Heat::new("Key × query, as in the notes: upper triangular", "key", "query", LENGTH, columns, Colours::Rising))
    .picture(Heat::new("Query × key: lower triangular", "query", "key", LENGTH, rows, Colours::Rising))
    .how("The weights of one causal attention, in both layouts."))
}
