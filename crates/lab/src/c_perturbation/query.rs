//! One query is moved: its own output and weights, and nobody else's.

use super::key::{KEYS, MOVED, QUERIES, moved_key};
use crate::attend::Scene;
use crate::compute::{compute_on_cpu, differing, minus};
use crate::picture::{Colours, Heat};
use crate::{Context, Draws, Finding, Number, Verdict};
use regard::Result;
use regard::prelude::*;

fn moved_query(draws: &mut Draws) -> (Scene, Scene) {
    let scene = Scene::random(draws, 1, QUERIES, KEYS, 5, 4);
    let mut other = scene.clone();
    other.q[MOVED * 5..(MOVED + 1) * 5].iter_mut().for_each(|q| *q += draws.normal());
    (scene, other)
}

/// C8: bits of the other outputs, on both engines.
pub fn only_own(context: &Context) -> Result<Finding> {
    let (scene, other) = moved_query(&mut context.draws("C8"));
    let fast = |scene: &Scene| -> Result<Vec<f64>> {
        let found = compute_on_cpu(&scene.feed()?, 2, |g| {
            let q = g.input("query", DType::F32, [1, QUERIES, 1, 5])?;
            let k = g.input("key", DType::F32, [1, KEYS, 1, 5])?;
            let v = g.input("value", DType::F32, [1, KEYS, 1, 4])?;
            Ok(vec![g.attention(q, k, v, &Default::default())?.y])
        })?;
        Ok(found[0].data().to_vec())
    };
    let mut finding = Finding::new(
        Verdict::Holds,
        "Only the output of the moved query changes; all others keep every bit.",
    );
    let mut shown = vec![];
    let pairs = [
        ("reference", [scene.attend()?.mixed, other.attend()?.mixed]),
        ("CPU engine", [fast(&scene)?, fast(&other)?]),
    ];
    for (engine, [before, after]) in pairs {
        let row = |of: &[f64], j: usize| of[j * 4..(j + 1) * 4].to_vec();
        let own = differing(&row(&before, MOVED), &row(&after, MOVED));
        finding = finding
            .number(Number::count(
                format!("{engine}: numbers of other outputs with other bits"),
                differing(&before, &after) - own,
                0,
            ))
            .number(Number::at_least(
                format!("{engine}: numbers of its own output that changed, of 4"),
                own as f64,
                1.0,
            ));
        shown = minus(&after, &before);
    }
    Ok(finding
        .picture(Heat::new(
            "ΔH after query 3 moved (query × feature)",
            "query",
            "feature",
            4,
            shown,
            Colours::Signed,
        ))
        .how("Attention with one query moved, on the reference and on the CPU engine, compared bit by bit."))
}

/// C9: all weights of its column.
pub fn whole_column(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("C9");
    let (scene, other) = moved_query(&mut draws);
    let (before, after) = (scene.attend()?, other.attend()?);
    let changed =
        before.weights_of(MOVED).iter().zip(after.weights_of(MOVED)).filter(|(a, b)| a != b).count();
    // Where all keys are the same every score moves alike, and no weight moves.
    let key = draws.normals(5);
    let alike = |scene: &Scene| Scene { k: key.repeat(KEYS), ..scene.clone() };
    let (flat, still) = (alike(&scene).attend()?, alike(&other).attend()?);
    let off = crate::compute::largest_difference(&flat.weights, &still.weights);
    Ok(Finding::new(
        Verdict::Holds,
        "All weights of the moved query change, unless all its scores change alike.",
    )
    .number(Number::count("weights of query 3 that changed", changed, KEYS))
    .number(Number::at_most("equal keys: largest change of a weight", off, 1e-15))
    .picture(Heat::new(
        "ΔA after query 3 moved (query × key)",
        "query",
        "key",
        KEYS,
        minus(&after.weights, &before.weights),
        Colours::Signed,
    ))
    .how("The attention op before and after, in f64; and with seven equal keys."))
}

/// C10: both pictures side by side.
pub fn contrast(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("C10");
    let (scene, by_key, _) = moved_key(&mut draws, 3.0);
    let mut by_query = scene.clone();
    by_query.q[MOVED * 5..(MOVED + 1) * 5].iter_mut().for_each(|q| *q += draws.normal());
    let before = scene.attend()?.weights;
    let columns = |of: Vec<f64>| -> Vec<f64> {
        (0..KEYS * QUERIES).map(|at| of[at % QUERIES * KEYS + at / QUERIES]).collect()
    };
    let scores = |of: &Scene| -> Vec<f64> {
        (0..KEYS * QUERIES)
            .map(|at| of.score(at % QUERIES, at / QUERIES) - scene.score(at % QUERIES, at / QUERIES))
            .collect()
    };
    let key_weights = columns(minus(&by_key.attend()?.weights, &before));
    let query_weights = columns(minus(&by_query.attend()?.weights, &before));
    let nonzero = |of: &[f64]| of.iter().filter(|x| **x != 0.0).count();
    Ok(Finding::new(
        Verdict::Holds,
        "A moved key changes one row of the scores but every weight; a moved query changes one column of both.",
    )
    .number(Number::count("key moved: scores that changed", nonzero(&scores(&by_key)), QUERIES))
    .number(Number::count("key moved: weights that changed", nonzero(&key_weights), KEYS * QUERIES).erratum("E3"))
    .number(Number::count("query moved: scores that changed", nonzero(&scores(&by_query)), KEYS))
    .number(Number::count("query moved: weights that changed", nonzero(&query_weights), KEYS))
    .picture(Heat::new("Key 3 moved: ΔA (key × query)", "key", "query", QUERIES, key_weights, Colours::Signed))
    .picture(Heat::new("Query 3 moved: ΔA (key × query)", "key", "query", QUERIES, query_weights, Colours::Signed))
    .how("The same scene with key 3 or query 3 moved, in the notes’ layout."))
}
