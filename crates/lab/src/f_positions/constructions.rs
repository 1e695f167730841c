//! What one layer can be made to do by hand: nothing at all, and any reordering.

use crate::attend::Scene;
use crate::compute::{array, compute, largest_difference};
use crate::picture::{Axis, Chart, Colours, Heat, figure};
use crate::{Context, Draws, Finding, Number, Table, Verdict};
use regard::Result;
use regard::prelude::*;

/// Unit vectors as rows, in an order.
fn one_hot(order: &[usize], width: usize) -> Vec<f64> {
    order.iter().flat_map(|&row| (0..width).map(move |at| if at == row { 1.0 } else { 0.0 })).collect()
}

/// Queries β·e_order, keys e: the query at j looks for the key order[j].
fn looking(draws: &mut Draws, order: &[usize], keys: usize, beta: f64) -> Scene {
    let q = one_hot(order, keys).iter().map(|x| beta * x).collect();
    let all: Vec<usize> = (0..keys).collect();
    Scene { beta: 1.0, q, k: one_hot(&all, keys), ..Scene::random(draws, 1, order.len(), keys, keys, 4) }
}

/// F-6: A = I only in the limit.
pub fn identity(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("F-6");
    let mut finding = Finding::new(
        Verdict::Conditional,
        "KᵀQ = βI gives a diagonal weight of e^β/(e^β+n−1), not 1: β must be at least ln((n−1)(1−ε)/ε), keys must be \
         orthonormal (n ≤ d), and W_O·W_V = I.",
    );
    let mut table = Table::new(
        "Diagonal weight at β = 1, and the β for an error of 0.01",
        &["n", "weight at β = 1", "β for ε = 0.01", "weight there"],
    );
    let mut chart = Chart::new(
        "Diagonal weight of the identity layer",
        Axis::new("β"),
        Axis::new("weight on itself").covering(&[0.0, 1.0]),
    );
    let mut off = 0.0f64;
    for (n, quoted) in [(4usize, 0.475), (10, 0.232), (64, 0.041)] {
        let order: Vec<usize> = (0..n).collect();
        let at = |draws: &mut Draws, beta: f64| -> Result<f64> {
            Ok(looking(draws, &order, n, beta).attend()?.weights[0])
        };
        let one = at(&mut draws, 1.0)?;
        let formula = |beta: f64| beta.exp() / (beta.exp() + n as f64 - 1.0);
        let mut points = vec![];
        for beta in [0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0] {
            let found = at(&mut draws, beta)?;
            off = off.max((found - formula(beta)).abs());
            points.push((beta, found));
        }
        let needed = ((n as f64 - 1.0) * 0.99 / 0.01).ln();
        let there = at(&mut draws, needed)?;
        finding = finding
            .number(
                Number::quoted(format!("diagonal weight at β = 1, n = {n}"), one, quoted, 0.0005)
                    .erratum("E12"),
            )
            .number(Number::equal(format!("weight at the β for ε = 0.01, n = {n}"), there, 0.99, 1e-12));
        table.row([n.to_string(), figure(one), figure(needed), figure(there)]);
        chart = chart.line(format!("n = {n}"), (0..=120).map(|i| i as f64 / 10.0).map(|b| (b, formula(b))));
        let colour = chart.series.len() - 1;
        chart = chart.points("", points).in_colour(colour);
    }
    // The whole layer: W_V a random invertible matrix, W_O its inverse (a rotation, so its transpose).
    let n = 6;
    let order: Vec<usize> = (0..n).collect();
    let scene = looking(&mut draws, &order, n, 40.0);
    let angle: f64 = 0.7;
    let turn = [
        angle.cos(),
        -angle.sin(),
        0.0,
        0.0,
        angle.sin(),
        angle.cos(),
        0.0,
        0.0,
        0.0,
        0.0,
        0.0,
        1.0,
        0.0,
        0.0,
        1.0,
        0.0,
    ];
    let rows = |x: &[f64], weight: &[f64]| -> Result<Vec<f64>> {
        let feed = Feed::new().with("x", array(&[n, 4], x)?).with("w", array(&[4, 4], weight)?);
        let found = compute(&feed, |g| {
            let (x, w) = (g.input("x", DType::F32, [n, 4])?, g.input("w", DType::F32, [4, 4])?);
            Ok(vec![g.linear(x, w, Default::default())?])
        })?;
        Ok(found[0].data().to_vec())
    };
    let back: Vec<f64> = (0..16).map(|at| turn[at % 4 * 4 + at / 4]).collect();
    let values = rows(&scene.v, &turn)?;
    let mixed = Scene { v: values.clone(), ..scene.clone() }.attend()?.mixed;
    let whole = largest_difference(&rows(&mixed, &back)?, &scene.v);
    let half = largest_difference(&mixed, &scene.v);
    Ok(finding
        .number(Number::at_most("weights against e^β/(e^β+n−1)", off, 1e-14))
        .number(Number::at_most("layer with W_O·W_V = I, β = 40: output against input", whole, 1e-13))
        .number(Number::at_least("the same without W_O: output against input", half, 0.1))
        .counter_example("Four tokens with KᵀQ = I: each keeps only 47.5 % of itself.")
        .picture(chart)
        .table(table)
        .how("Unit vectors as keys and β times them as queries, through the attention op; values turned by W_V and back by W_O."))
}

/// F-7: any permutation; one-hot per query alone is a gather.
pub fn permutation(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("F-7");
    let (mut off, mut tried) = (0.0f64, 0);
    let mut shown = vec![];
    let n = 6;
    for _ in 0..50 {
        let order = draws.permutation(n);
        let scene = looking(&mut draws, &order, n, 40.0);
        let found = scene.attend()?;
        let wanted: Vec<f64> = order.iter().flat_map(|&from| scene.value(from).to_vec()).collect();
        off = off.max(largest_difference(&found.mixed, &wanted));
        tried += 1;
        shown = found.weights;
    }
    // a₂₁ = 1 in key × query: the first output is the second value.
    let swap = looking(&mut draws, &[1, 0, 2, 3, 4, 5], n, 40.0);
    let first = largest_difference(swap.attend()?.output_of(0), swap.value(1));
    // Every query one-hot, yet two of them want the same key: input 3 is lost.
    let twice = looking(&mut draws, &[0, 1, 1, 3, 4, 5], n, 40.0);
    let found = twice.attend()?;
    let taken = |key: usize| (0..n).map(|query| found.weights_of(query)[key]).sum::<f64>();
    Ok(Finding::new(
        Verdict::Conditional,
        "Any permutation can be built. One 1 for each query is not enough for one: each key must be taken once as well, \
         else it is a gather that repeats some inputs and drops others.",
    )
    .number(Number::at_most(format!("{tried} permutations: outputs against permuted inputs, β = 40"), off, 1e-14))
    .number(Number::at_most("a₂₁ = 1: h₁ against v₂", first, 1e-14))
    .number(Number::equal("one-hot queries, a gather: weight that key 2 gets in all", taken(1), 2.0, 1e-14).erratum("E17"))
    .number(Number::equal("weight that key 3 gets in all", taken(2), 0.0, 1e-14).erratum("E17"))
    .counter_example("Queries 2 and 3 both take key 2: every query has exactly one 1, and input 3 is gone.")
    .picture(Heat::new("A permutation, query × key", "query", "key", n, shown, Colours::Rising))
    .picture(Heat::new("One-hot queries, but no permutation", "query", "key", n, found.weights, Colours::Rising))
    .how("One-hot positions as keys, β = 40 times the wanted ones as queries, through the attention op."))
}
