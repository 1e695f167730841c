//! Two heads against a key of uncertain length: split queries help, equal ones do not, and why.

use super::noisy::{KEYS, asking, many, swinging};
use crate::picture::{Axis, Chart, figure};
use crate::statistics::{Estimate, deviation, histogram, mean, share};
use crate::{Context, Finding, Number, Table, Verdict};
use regard::Result;

const LENGTHS: [f64; 3] = [10.0, 20.0, 50.0];

/// The weight of c = ½(c₁ + c₂) on vₐ and on v_b, and the length of kₐ, for many draws.
struct Two {
    on_a: Vec<f64>,
    on_b: Vec<f64>,
    /// The first head's own weight on vₐ.
    first: Vec<f64>,
    lengths: Vec<f64>,
}

fn two(context: &Context, name: &str, queries: [Vec<f64>; 2]) -> Result<Two> {
    let samples = context.size(20_000, 100_000);
    let (scene, lengths) = many(&mut context.draws(name), samples, 1e-6, true, &queries);
    let found = scene.attend()?;
    let both =
        |row: usize, at: usize| (found.output_of(2 * row)[at] + found.output_of(2 * row + 1)[at]) / 2.0;
    Ok(Two {
        on_a: (0..samples).map(|row| both(row, 0)).collect(),
        on_b: (0..samples).map(|row| both(row, 1)).collect(),
        first: (0..samples).map(|row| found.output_of(2 * row)[0]).collect(),
        lengths,
    })
}

/// Only draws in which kₐ has not turned round.
fn positive(numbers: &[f64], lengths: &[f64]) -> Vec<f64> {
    numbers.iter().zip(lengths).filter(|(_, l)| **l > 0.0).map(|(x, _)| *x).collect()
}

/// D10: split queries give the average.
pub fn split(context: &Context) -> Result<Finding> {
    let mut finding = Finding::new(
        Verdict::Holds,
        "Two heads, one for each key, give c ≈ ½(vₐ + v_b) as long as kₐ keeps its direction.",
    );
    let mut table =
        Table::new("Weights of c, draws with kₐᵀq > 0", &["t", "on vₐ", "on v_b", "on all others"]);
    for t in LENGTHS {
        let found = two(context, &format!("D10.{t}"), [asking(t, &[0]), asking(t, &[1])])?;
        let (on_a, on_b) =
            (mean(&positive(&found.on_a, &found.lengths)), mean(&positive(&found.on_b, &found.lengths)));
        finding = finding
            .number(Number::equal(format!("mean weight on v_b, t = {t}"), on_b.value, 0.5, 0.02))
            .number(Number::equal(format!("mean weight on vₐ, t = {t}"), on_a.value, 0.5, 0.06));
        table.row([figure(t), figure(on_a.value), figure(on_b.value), figure(1.0 - on_a.value - on_b.value)]);
    }
    let found = two(context, "D10.10", [asking(10.0, &[0]), asking(10.0, &[1])])?;
    Ok(finding
        .picture(
            Chart::new("Weight of c on vₐ, two heads with a query each, t = 10", Axis::new("weight on vₐ"), Axis::new("share of draws"))
                .bars("all draws", histogram(&found.on_a, 0.0, 0.6, 30)),
        )
        .table(table)
        .how("Ten keys as in D9; q₁ = tμₐ, q₂ = tμ_b as two queries of the attention op, their outputs averaged."))
}

/// D11: equal queries are one head.
pub fn same_query(context: &Context) -> Result<Finding> {
    let mut finding = Finding::new(
        Verdict::Wrong,
        "With equal queries both heads are the same head: c₁ = c₂, and the variance is that of one.",
    );
    let mut table =
        Table::new("Standard deviation of the weight on vₐ", &["t", "two heads, equal queries", "one head"]);
    let mut picture = vec![];
    for (t, quoted) in [(10.0, 0.44), (20.0, 0.47)] {
        let both = two(context, &format!("D11.{t}"), [asking(t, &[0, 1]), asking(t, &[0, 1])])?;
        let apart = both.on_a.iter().zip(&both.first).filter(|(c, first)| c != first).count();
        let (spread, (alone, _)) =
            (deviation(&both.on_a), swinging(context, &format!("D11.{t}"), t, both.on_a.len())?);
        let alone = deviation(&alone);
        finding = finding
            .number(
                Number::count(format!("draws in which c differs from one head’s, t = {t}"), apart, 0)
                    .erratum("E31"),
            )
            .number(
                Number::sampled_quoted(format!("std with equal queries, t = {t}"), spread, quoted, 0.005)
                    .erratum("E31"),
            )
            .number(Number::equal(
                format!("the same of one head, t = {t}"),
                spread.value,
                alone.value,
                1e-12,
            ));
        table.row([figure(t), figure(spread.value), figure(alone.value)]);
        picture.push((t, histogram(&both.on_a, 0.0, 1.0, 25)));
    }
    let mut chart = Chart::new(
        "Weight on vₐ under two heads with equal queries: it swings as with one",
        Axis::new("weight on vₐ"),
        Axis::new("share of draws").covering(&[0.0]),
    );
    for (t, bars) in picture {
        chart = chart.line(format!("t = {t}"), bars);
    }
    Ok(finding
        .picture(chart)
        .counter_example(
            "q₁ = q₂ = 10(μₐ + μ_b): c₁ = c₂ in every draw, and the spread is 0.44 as with a single head.",
        )
        .table(table)
        .how("The draws of one head, asked twice with the same query."))
}

/// Spread of split heads and of one head at each t: all draws, then those with kₐᵀq > 0.
fn spreads(context: &Context, name: &str) -> Result<Vec<(f64, [Estimate; 4])>> {
    let mut found = vec![];
    for t in LENGTHS {
        let split = two(context, &format!("{name}.{t}"), [asking(t, &[0]), asking(t, &[1])])?;
        let (one, lengths) = swinging(context, &format!("{name}.{t}"), t, split.on_a.len())?;
        found.push((
            t,
            [
                deviation(&split.on_a),
                deviation(&positive(&split.on_a, &split.lengths)),
                deviation(&one),
                deviation(&positive(&one, &lengths)),
            ],
        ));
    }
    Ok(found)
}

/// The quoted spreads were sampled themselves: they are right to about this.
const SAMPLED: f64 = 0.005;

/// The standard deviation of a function of the length of kₐ, by integration; of positive lengths only, or of
/// all.
fn spread_of(f: impl Fn(f64) -> f64, positive: bool) -> f64 {
    const STEP: f64 = 1e-4;
    let first = if positive { -2f64.sqrt() } else { -10.0 };
    let mut sums = [0.0; 3];
    for i in 0..((10.0 - first) / STEP) as usize {
        let z = first + STEP * (i as f64 + 0.5);
        let (weight, y) = ((-z * z / 2.0).exp(), f(1.0 + 0.5f64.sqrt() * z));
        sums = [sums[0] + weight, sums[1] + weight * y, sums[2] + weight * y * y];
    }
    let mean = sums[1] / sums[0];
    (sums[2] / sums[0] - mean * mean).sqrt()
}

/// D12: the quoted spreads.
pub fn variance(context: &Context) -> Result<Finding> {
    let found = spreads(context, "D12")?;
    let quoted = [[0.156, 0.147, f64::NAN], [0.092, 0.067, 0.042], [0.436, 0.470, 0.486]];
    let mut finding = Finding::new(
        Verdict::Holds,
        "Two heads with split queries cut the spread of c to a third at t = 10, and to a tenth at t = 50 if draws with a turned key are left out.",
    );
    let mut table = Table::new(
        "Standard deviation of the weight on vₐ",
        &["t", "two heads, all draws", "two heads, kₐᵀq > 0", "one head, all draws", "one head, kₐᵀq > 0"],
    );
    for (index, (t, [all, kept, one, one_kept])) in found.iter().enumerate() {
        let two = |length: f64| 0.5 / (1.0 + (KEYS as f64 - 1.0) * (-t * length).exp());
        let single = |length: f64| 1.0 / (1.0 + (-t * (length - 1.0)).exp());
        finding = finding
            .number(Number::theory(format!("two heads, all draws, t = {t}"), *all, spread_of(two, false)))
            .number(Number::theory(format!("two heads, kₐᵀq > 0, t = {t}"), *kept, spread_of(two, true)))
            .number(Number::theory(
                format!("one head, kₐᵀq > 0, t = {t}"),
                *one_kept,
                spread_of(single, true),
            ));
        for (name, estimate, quoted) in [
            ("two heads, all draws", all, quoted[0][index]),
            ("two heads, kₐᵀq > 0", kept, quoted[1][index]),
            ("one head, kₐᵀq > 0", one_kept, quoted[2][index]),
        ] {
            if quoted.is_finite() {
                let name = format!("{name}, t = {t}, quoted");
                finding = finding.number(Number::sampled_quoted(name, *estimate, quoted, SAMPLED));
            }
        }
        finding = finding.number(Number::at_most(
            format!("two heads over one, t = {t}, kₐᵀq > 0"),
            kept.high / one_kept.low,
            0.25,
        ));
        table.row([figure(*t)].into_iter().chain([all, kept, one, one_kept].map(|e| figure(e.value))));
    }
    let line = |which: usize| found.iter().map(move |(t, e)| (*t, e[which])).collect::<Vec<_>>();
    Ok(finding
        .picture(
            Chart::new("Spread of c when the length of kₐ is uncertain", Axis::new("t").covering(&[0.0]), Axis::new("std of the weight on vₐ").covering(&[0.0]))
                .estimates("one head", line(2))
                .estimates("two heads, all draws", line(0))
                .estimates("two heads, kₐᵀq > 0", line(1)),
        )
        .table(table)
        .how("Ten keys as in D9; one query t(μₐ + μ_b), or two heads with tμₐ and tμ_b averaged; the same kinds of draws. Theories integrate over the length of kₐ."))
}

/// The weight on vₐ of a head that asks with this query, by the attention op, where kₐ has this length and
/// nothing else is uncertain.
fn weight_at(length: f64, query: &[f64]) -> Result<f64> {
    let (mut scene, _) = many(&mut Context::default().draws("D13.still"), 1, 0.0, false, &[query.to_vec()]);
    scene.k[..KEYS].iter_mut().for_each(|x| *x *= length);
    Ok(scene.attend()?.output_of(0)[0])
}

/// D13: saturation, not averaging.
pub fn reason(context: &Context) -> Result<Finding> {
    let t = 20.0;
    let found = two(context, "D13", [asking(t, &[0]), asking(t, &[1])])?;
    let second: Vec<f64> = found.on_b.iter().map(|b| 2.0 * b).collect();
    let own = deviation(&positive(&found.first, &found.lengths));
    let other = deviation(&second);
    // Were the reason averaging, two independent copies of the swinging head would do as well as the split
    // pair.
    let (one, _) = swinging(context, "D13.first", t, found.on_a.len())?;
    let (again, _) = swinging(context, "D13.second", t, found.on_a.len())?;
    let averaged: Vec<f64> = one.iter().zip(&again).map(|(a, b)| (a + b) / 2.0).collect();
    let (averaged, pair) = (deviation(&averaged), deviation(&positive(&found.on_a, &found.lengths)));
    let over = Estimate {
        value: pair.value / averaged.value,
        low: pair.low / averaged.high,
        high: pair.high / averaged.low,
    };
    let line = |query: &[f64]| -> Result<Vec<(f64, f64)>> {
        (0..=40).map(|i| i as f64 / 20.0).map(|length| Ok((length, weight_at(length, query)?))).collect()
    };
    let (split, single) = (asking(t, &[0]), asking(t, &[0, 1]));
    let moved = |query: &[f64]| -> Result<f64> { Ok(weight_at(1.5, query)? - weight_at(0.5, query)?) };
    Ok(Finding::new(
        Verdict::Wrong,
        "Averaging independent errors would leave a several times larger spread, and only one of the two heads is uncertain at all. Each \
         head saturates, so that the length of its key does not matter.",
    )
    .number(Number::sampled("spread of the split heads over that of two independent swinging heads averaged", over).erratum("E32"))
    .number(Number::sampled("std of the second head’s weight on v_b, which would have to have an error", other))
    .number(Number::shown("std of the first head’s weight on vₐ, kₐᵀq > 0", own.value))
    .number(Number::sampled("std if two independent swinging heads were averaged", averaged).erratum("E32"))
    .number(Number::sampled("std of the split heads, kₐᵀq > 0", pair).erratum("E32"))
    .number(Number::at_most("change of a split head’s weight when its key grows from 0.5 to 1.5", moved(&split)?, 0.001))
    .number(Number::at_least("change of the single head’s weight when that key grows from 0.5 to 1.5", moved(&single)?, 0.9))
    .counter_example(format!("Averaging two independent swinging heads would leave a spread of {}; the split heads leave {}.", figure(averaged.value), figure(pair.value)))
    .picture(
        Chart::new("Weight on vₐ against the length of its key, t = 20", Axis::new("length of kₐ"), Axis::new("weight on vₐ"))
            .line("head with q = tμₐ: saturated", line(&split)?)
            .line("single head with q = t(μₐ + μ_b): swings", line(&single)?),
    )
    .how("The two heads looked at one by one; two independent copies of the single swinging head averaged; and the weight against the length of the key, all through the attention op."))
}

/// D14: the share of turned keys.
pub fn negative(context: &Context) -> Result<Finding> {
    let samples = context.size(50_000, 400_000);
    let (_, lengths) =
        many(&mut context.draws("D14"), samples.min(20_000), 1e-6, true, &[asking(10.0, &[0])]);
    let mut draws = context.draws("D14.more");
    let more = (0..samples).map(|_| 1.0 + 0.5f64.sqrt() * draws.normal());
    let all: Vec<f64> = lengths.into_iter().chain(more).collect();
    let turned = share(all.iter().filter(|l| **l < 0.0).count(), all.len());
    // Φ(−√2) = ½ erfc(1).
    let theory = 0.078_649_603_525_142_8;
    let mut table =
        Table::new("What leaving them out does to the spread of two heads", &["t", "all draws", "kₐᵀq > 0"]);
    for (t, spread) in spreads(context, "D12")? {
        table.row([figure(t), figure(spread[0].value), figure(spread[1].value)]);
    }
    Ok(Finding::measured("In 7.9 % of draws the key has turned round and kₐᵀq is negative; both figures, with and without them, are shown.")
        .number(Number::theory("share of draws with kₐᵀq < 0", turned, theory))
        .number(Number::sampled_quoted("the same, quoted", turned, 0.079, 0.0005))
        .picture(
            Chart::new("Length of kₐ along μₐ", Axis::new("1 + ε"), Axis::new("share of draws")).bars("draws", histogram(&all, -1.5, 3.5, 50)),
        )
        .table(table)
        .how("Draws of ε ~ N(0, ½); kₐᵀq < 0 where 1 + ε < 0."))
}
