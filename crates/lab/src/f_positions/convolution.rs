//! Attention as a convolution: a band of relative biases for one head, one head for each tap in general.

use crate::compute::{array, compute, largest_difference};
use crate::picture::{Axis, Chart, Colours, Heat};
use crate::{Context, Finding, Number, Verdict};
use regard::Result;
use regard::ops::{Attention, AttentionBias, AttentionMask, WeightsRequest, Window};
use regard::prelude::*;

const LENGTH: usize = 7;
const WIDTH: usize = 3;

/// Weights and outputs of attention without content: biases log w over distances −1, 0, 1 in a window, or no
/// window at all.
fn banded(x: &[f64], taps: [f64; 3], reach: usize, window: bool) -> Result<[Vec<f64>; 2]> {
    let feed = Feed::new().with("x", array(&[1, LENGTH, 1, WIDTH], x)?);
    let found = compute(&feed, |g| {
        let v = g.input("x", DType::F32, [1, LENGTH, 1, WIDTH])?;
        let nothing = g.fill(DType::F32, [1, LENGTH, 1, 1], 0.0)?;
        let table = g.constant(DType::F32, [3, 1], &taps.map(f64::ln))?;
        let window = window.then_some(Window { before: reach, after: reach });
        let mask = AttentionMask { window, ..Default::default() };
        let spec = Attention { mask, bias: AttentionBias::Clipped { table }, ..Default::default() };
        let found = g.attention(nothing, nothing, v, &spec)?;
        let all = WeightsRequest::Block { queries: 0..LENGTH, keys: 0..LENGTH };
        Ok(vec![g.attention_weights(nothing, nothing, found.lse, &spec, all)?.values, found.y])
    })?;
    Ok([0, 1].map(|at| found[at].data().to_vec()))
}

/// Σ_δ w_δ x_{t+δ}, only for positions whose neighbours all exist.
fn interior(x: &[f64], taps: [f64; 3]) -> Vec<f64> {
    let at = |t: usize, c: usize| x[t * WIDTH + c];
    (1..LENGTH - 1)
        .flat_map(|t| (0..WIDTH).map(move |c| (t, c)))
        .map(|(t, c)| taps[0] * at(t - 1, c) + taps[1] * at(t, c) + taps[2] * at(t + 1, c))
        .collect()
}

/// A convolution with a matrix for each tap and zeros beyond the border, by three heads that each look at one
/// offset.
fn by_heads(x: &[f64], kernel: &[f64]) -> Result<Vec<f64>> {
    let feed = Feed::new()
        .with("x", array(&[1, LENGTH, WIDTH], x)?)
        .with("kernel", array(&[3 * WIDTH, WIDTH], kernel)?);
    let found = compute(&feed, |g| {
        let x = g.input("x", DType::F32, [1, LENGTH, WIDTH])?;
        let kernel = g.input("kernel", DType::F32, [3 * WIDTH, WIDTH])?;
        let values = g.linear(x, kernel, Default::default())?; // B T (H E)
        let values = g.split_heads(values, 3)?;
        let nothing = g.fill(DType::F32, [1, LENGTH, 3, 1], 0.0)?;
        let allowed: Vec<f64> = (0..3 * LENGTH * LENGTH)
            .map(|at| (at / (LENGTH * LENGTH), at / LENGTH % LENGTH, at % LENGTH))
            .map(|(head, t, s)| f64::from(u8::from(s + 1 == t + head)))
            .collect();
        let explicit = Some(g.constant(DType::Bool, [1, 3, LENGTH, LENGTH], &allowed)?);
        let spec = Attention { mask: AttentionMask { explicit, ..Default::default() }, ..Default::default() };
        let y = g.attention(nothing, nothing, values, &spec)?.y; // B T H E
        let like = Fact::f32([1, LENGTH, 1, WIDTH]);
        Ok(vec![g.sum_to_fact(y, like)?])
    })?;
    Ok(found[0].data().to_vec())
}

/// F-8: exact inside, renormalised at the border; k heads for a general kernel.
pub fn banded_is_convolution(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("F-8");
    let x = draws.normals(LENGTH * WIDTH);
    let mut finding = Finding::new(
        Verdict::Conditional,
        "Biases log w and a window make an exact convolution inside; at the border the weights are renormalised. One head has \
         one number for each tap: a matrix for each tap takes one head for each.",
    );
    let third = [1.0 / 3.0; 3];
    let smooth = [0.25, 0.5, 0.25];
    for (name, taps, ends) in [("⅓ ⅓ ⅓", third, [0.5, 0.5]), ("¼ ½ ¼", smooth, [2.0 / 3.0, 1.0 / 3.0])]
    {
        let [weights, y] = banded(&x, taps, 1, true)?;
        let off = largest_difference(&y[WIDTH..(LENGTH - 1) * WIDTH], &interior(&x, taps));
        let outside = (0..LENGTH * LENGTH)
            .filter(|at| (at / LENGTH).abs_diff(at % LENGTH) > 1 && weights[*at] != 0.0)
            .count();
        finding = finding
            .number(Number::at_most(format!("{name}: interior against the convolution"), off, 1e-14))
            .number(Number::count(
                format!("{name}: weights outside of the band that are not exactly 0"),
                outside,
                0,
            ))
            .number(
                Number::equal(format!("{name}: first query’s weight on itself"), weights[0], ends[0], 1e-14)
                    .erratum("E14"),
            )
            .number(
                Number::equal(
                    format!("{name}: first query’s weight on its neighbour"),
                    weights[1],
                    ends[1],
                    1e-14,
                )
                .erratum("E14"),
            );
        if taps == smooth {
            finding = finding.picture(Heat::new(
                "Weights of the band ¼ ½ ¼: borders renormalise to ⅔ ⅓",
                "query",
                "key",
                LENGTH,
                weights,
                Colours::Rising,
            ));
        }
    }
    let [diagonal, same] = banded(&x, [1.0; 3], 0, true)?;
    let [open, _] = banded(&x, [1e-6, 1.0, 1e-6], 1, false)?;
    let least = open.iter().copied().fold(f64::MAX, f64::min);
    let kernel = draws.normals(3 * WIDTH * WIDTH);
    let found = by_heads(&x, &kernel)?;
    let mut wanted = vec![0.0; LENGTH * WIDTH];
    for t in 0..LENGTH {
        for tap in 0..3 {
            let Some(s) = (t + tap).checked_sub(1).filter(|s| *s < LENGTH) else { continue };
            for c in 0..WIDTH {
                let row = &kernel[(tap * WIDTH + c) * WIDTH..(tap * WIDTH + c + 1) * WIDTH];
                wanted[t * WIDTH + c] += crate::compute::dot(row, &x[s * WIDTH..(s + 1) * WIDTH]);
            }
        }
    }
    Ok(finding
        .number(Number::at_most("k = 1, diagonal weights: output against input", largest_difference(&same, &x), 0.0).erratum("E13"))
        .number(Number::equal("k = 1: diagonal weight", diagonal[0], 1.0, 0.0).erratum("E13"))
        .number(Number::at_least("softmax without a window: smallest weight, never exactly 0", least, 1e-9).erratum("E13"))
        .number(Number::at_most("3 heads, a matrix for each tap: against the convolution with zero padding", largest_difference(&found, &wanted), 1e-13))
        .counter_example("A column of thirds at the border sums to ⅔; no softmax gives that. It becomes ½, ½.")
        .how("Attention without content (queries and keys zero), biases by distance and a window of the attention op; for the general kernel three heads with a mask each."))
}

/// F-16: a window whose taps come from scores: too small a β averages, too large a one copies.
pub fn moderate_beta(_context: &Context) -> Result<Finding> {
    let taps = [0.25, 0.5, 0.25];
    // Scores by distance that give the taps at β = 1, through keys and queries and not through a bias:
    // one-hot places as keys, the wanted scores of each place as queries.
    let score = |from: usize, to: usize| match from.abs_diff(to) {
        0 => taps[1],
        1 => taps[0],
        _ => 1.0,
    };
    let places = |of: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
        (0..LENGTH * LENGTH).map(|at| of(at / LENGTH, at % LENGTH)).collect()
    };
    let queries = places(&|t, s| f64::ln(score(t, s)));
    let keys = places(&|t, s| f64::from(u8::from(t == s)));
    let weights_at = |beta: f32| -> Result<Vec<f64>> {
        let feed = Feed::new()
            .with("query", array(&[1, LENGTH, 1, LENGTH], &queries)?)
            .with("key", array(&[1, LENGTH, 1, LENGTH], &keys)?);
        let found = compute(&feed, |g| {
            let q = g.input("query", DType::F32, [1, LENGTH, 1, LENGTH])?;
            let k = g.input("key", DType::F32, [1, LENGTH, 1, LENGTH])?;
            let spec = Attention {
                mask: AttentionMask { window: Some(Window { before: 1, after: 1 }), ..Default::default() },
                scale: regard::ops::AttentionScale::Constant(beta),
                ..Default::default()
            };
            let lse = g.attention(q, k, k, &spec)?.lse;
            let all = WeightsRequest::Block { queries: 0..LENGTH, keys: 0..LENGTH };
            Ok(vec![g.attention_weights(q, k, lse, &spec, all)?.values])
        })?;
        Ok(found[0].data().to_vec())
    };
    // The middle query: three neighbours, no border.
    let middle = LENGTH / 2;
    let off = |beta: f32| -> Result<[f64; 3]> {
        let weights = weights_at(beta)?;
        let own = &weights[middle * LENGTH + middle - 1..middle * LENGTH + middle + 2];
        let against = |to: [f64; 3]| largest_difference(own, &to);
        Ok([against(taps), against([1.0 / 3.0; 3]), against([0.0, 1.0, 0.0])])
    };
    let mut lines = [vec![], vec![], vec![]];
    for step in -16..=16 {
        let beta = 10f32.powf(step as f32 / 8.0);
        for (line, off) in lines.iter_mut().zip(off(beta)?) {
            line.push((f64::from(beta), off.max(1e-17)));
        }
    }
    let (small, right, large) = (off(0.01)?, off(1.0)?, off(100.0)?);
    let [to_taps, to_mean, to_copy] = lines;
    Ok(Finding::new(
        Verdict::Holds,
        "Moderate is a matter of the kernel. Each has its own β: a hundredth of it averages the window, a hundred times it copies the middle.",
    )
    .number(Number::shown("the β of the kernel: weights against ¼ ½ ¼", right[0]))
    .number(Number::shown("a hundredth of it: weights against ¼ ½ ¼", small[0]))
    .number(Number::shown("a hundred times it: weights against ¼ ½ ¼", large[0]))
    .number(Number::at_most("a hundredth of it: weights against ⅓ ⅓ ⅓", small[1], 0.01))
    .number(Number::at_most("a hundred times it: weights against 0 1 0", large[2], 1e-9))
    .counter_example("At β = 100 the weight of the middle is 1: the neighbours are not seen, however local the window is.")
    .picture(
        Chart::new("A window of three, scores ln ¼, ln ½, ln ¼", Axis::log("β"), Axis::log("largest difference of a weight"))
            .line("from ¼ ½ ¼", to_taps)
            .line("from the mean, ⅓ ⅓ ⅓", to_mean)
            .line("from a copy, 0 1 0", to_copy),
    )
    .how("Scores through queries and keys (one-hot places), a window of one to either side, the attention op at β from 0.01 to 100."))
}
