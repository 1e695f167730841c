//! Shapes and layouts: the notes' formulas, written out as products and a softmax, against the one attention
//! op.

use crate::attend::Scene;
use crate::compute::{array, compute, compute_on_cpu, largest_difference};
use crate::picture::{Axis, Chart, Colours, Heat};
use crate::{Context, Finding, Number, Table, Verdict};
use regard::Result;
use regard::ops::MatmulOptions;
use regard::prelude::*;

/// H = V·softmax(β KᵀQ) as the notes write it, features in columns: weights m × n, then outputs t × n.
fn by_columns(scene: &Scene) -> Result<[Vec<f64>; 2]> {
    let &Scene { queries: n, keys: m, width: d, value_width: t, .. } = scene;
    let turned = |numbers: &[f64], rows: usize, columns: usize| -> Vec<f64> {
        (0..rows * columns).map(|at| numbers[at % rows * columns + at / rows]).collect()
    };
    let feed = Feed::new()
        .with("Q", array(&[d, n], &turned(&scene.q, n, d))?)
        .with("K", array(&[d, m], &turned(&scene.k, m, d))?)
        .with("V", array(&[t, m], &turned(&scene.v, m, t))?);
    let found = compute(&feed, |g| {
        let q = g.input("Q", DType::F32, [d, n])?;
        let k = g.input("K", DType::F32, [d, m])?;
        let v = g.input("V", DType::F32, [t, m])?;
        let transpose_a = MatmulOptions { transpose_a: true, ..Default::default() };
        let scores = g.matmul(k, q, transpose_a)?; // d m, d n -> m n
        let by_query = g.transpose(scores, &[1, 0])?;
        let weights = g.softmax_scaled(by_query, scene.beta)?;
        let weights = g.transpose(weights, &[1, 0])?; // m n
        Ok(vec![weights, g.matmul(v, weights, Default::default())?]) // t m, m n -> t n
    })?;
    Ok([found[0].data().to_vec(), found[1].data().to_vec()])
}

/// The transpose of rows of numbers.
fn transposed(numbers: &[f64], columns: usize) -> Vec<f64> {
    let rows = numbers.len() / columns;
    (0..numbers.len()).map(|at| numbers[at % rows * columns + at / rows]).collect()
}

const SIZES: [[usize; 4]; 6] =
    [[4, 5, 5, 4], [8, 3, 7, 5], [2, 9, 4, 16], [16, 1, 33, 1], [1, 12, 2, 3], [64, 40, 25, 32]];

/// A1: m × n weights and t × n outputs, for sizes that all differ.
pub fn shapes(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("A1");
    let mut table = Table::new(
        "Sizes tried",
        &[
            "d",
            "n queries",
            "m keys",
            "t",
            "weights",
            "outputs",
            "largest difference to the op",
            "of the f32 engine",
        ],
    );
    let (mut worst, mut worst_f32, mut picture) = (0.0f64, 0.0f64, None);
    for [d, n, m, t] in SIZES {
        let scene = Scene::random(&mut draws, 1, n, m, d, t);
        let [weights, outputs] = by_columns(&scene)?;
        let found = scene.attend()?;
        let off = largest_difference(&transposed(&weights, n), &found.weights)
            .max(largest_difference(&transposed(&outputs, n), &found.mixed));
        let fast = compute_on_cpu(&scene.feed()?, 1, |g| {
            let q = g.input("query", DType::F32, [1, n, 1, d])?;
            let k = g.input("key", DType::F32, [1, m, 1, d])?;
            let v = g.input("value", DType::F32, [1, m, 1, t])?;
            Ok(vec![g.attention(q, k, v, &Default::default())?.y])
        })?;
        let off_f32 = largest_difference(fast[0].data(), &found.mixed);
        (worst, worst_f32) = (worst.max(off), worst_f32.max(off_f32));
        let size = |rows: usize, columns: usize| format!("{rows} × {columns}");
        table.row([
            d.to_string(),
            n.to_string(),
            m.to_string(),
            t.to_string(),
            size(weights.len() / n, n),
            size(outputs.len() / n, n),
            format!("{off:.1e}"),
            format!("{off_f32:.1e}"),
        ]);
        if [d, n, m, t] == SIZES[1] {
            let title = "The weights of three queries over seven keys: each column sums to 1";
            picture = Some(Heat::new(title, "key", "query", n, weights, Colours::Rising));
        }
    }
    let summary = "Attention takes any number of queries and keys, and values of any width; the notes’ formula and the op agree.";
    let mut finding = Finding::new(Verdict::Holds, summary)
        .number(Number::at_most("largest difference, f64", worst, 1e-13).erratum("E10"))
        .number(Number::at_most("largest difference, f32 engine", worst_f32, 2e-6))
        .table(table)
        .how(
            "KᵀQ, a softmax over keys and V·A, each recorded as an op of its own in the notes’ column layout and computed in \
             f64, against the single attention op with queries in rows, for six sizes.",
        );
    if let Some(picture) = picture {
        finding = finding.picture(picture);
    }
    Ok(finding)
}

/// A3: the same numbers in columns and in rows.
pub fn layouts(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("A3");
    let scene = Scene::random(&mut draws, 1, 6, 9, 8, 5);
    let [columns, outputs] = by_columns(&scene)?;
    let rows = scene.attend()?;
    let weights_off = largest_difference(&transposed(&columns, 6), &rows.weights);
    let outputs_off = largest_difference(&transposed(&outputs, 6), &rows.mixed);
    Ok(Finding::new(
        Verdict::Holds,
        "Column and row layout give the same numbers, transposed: one kernel serves both.",
    )
    .number(Number::at_most("weights: largest difference", weights_off, 1e-14))
    .number(Number::at_most("outputs: largest difference", outputs_off, 1e-13).erratum("E10"))
    .picture(Heat::new("Column layout (S0, S2): key × query", "key", "query", 6, columns, Colours::Rising))
    .picture(Heat::new("Row layout (S3): query × key", "query", "key", 9, rows.weights, Colours::Rising))
    .how("The column formula as three ops and the attention op, on the same random numbers, in f64."))
}

/// A5: one query, no scale.
pub fn single_query(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("A5");
    let scene = Scene { beta: 1.0, ..Scene::random(&mut draws, 1, 1, 6, 4, 3) };
    let found = scene.attend()?;
    let scores: Vec<f64> = (0..6).map(|key| scene.score(0, key)).collect();
    let sum: f64 = scores.iter().map(|s| s.exp()).sum();
    let weights: Vec<f64> = scores.iter().map(|s| s.exp() / sum).collect();
    let mut c = vec![0.0; 3];
    for (key, a) in weights.iter().enumerate() {
        c.iter_mut().zip(scene.value(key)).for_each(|(c, v)| *c += a * v);
    }
    let mut table = Table::new("Six keys", &["key", "score", "weight by hand", "weight of the op"]);
    for key in 0..6 {
        table.row([
            (key + 1).to_string(),
            format!("{:.4}", scores[key]),
            format!("{:.6}", weights[key]),
            format!("{:.6}", found.weights[key]),
        ]);
    }
    Ok(Finding::new(Verdict::Holds, "A single query is the same op with β = 1.")
        .number(Number::at_most(
            "weights: largest difference",
            largest_difference(&weights, &found.weights),
            1e-14,
        ))
        .number(Number::at_most("c: largest difference", largest_difference(&c, &found.mixed), 1e-14))
        .table(table)
        .picture(
            Chart::new(
                "Weights of one query over six keys",
                Axis::new("key"),
                Axis::new("weight").covering(&[0.0]),
            )
            .bars("the op", (0..6).map(|key| ((key + 1) as f64, found.weights[key])))
            .points("by hand", (0..6).map(|key| ((key + 1) as f64, weights[key]))),
        )
        .how("exp, sum and division by hand in f64, against the attention op."))
}
