//! Residuals and norms as they act on gradients: Jacobians by the gradient reader, and their singular values.

use super::layer_norm::{VANISHING, moments};
use crate::compute::{compute, dot, largest_difference, length};
use crate::jacobian::{jacobian, singular_values};
use crate::picture::{Axis, Chart, Colours, Heat, figure};
use crate::{Context, Finding, Number, Table, Verdict};
use regard::Result;
use regard::layers::{
    AttentionConfig, AttentionLayer, Block, BlockConfig, Context as Surroundings, FeedForward,
    FeedForwardConfig, FeedForwardKind, KeySource, NormConfig, NormLayer, NormPlace, Parameters,
};
use regard::prelude::*;

const LENGTH: usize = 3;
const WIDTH: usize = 8;

/// I5: the two directions that layer norm removes.
pub fn lost_directions(context: &Context) -> Result<Finding> {
    let d = 10;
    let x: Vec<f64> = context.draws("I5").normals(d).iter().map(|x| 2.5 * x + 1.0).collect();
    let (mean, variance) = moments(&x);
    let j = jacobian(&[1, d], &x, &Feed::new(), |g, x| {
        g.layer_norm(x, None, None, NormSpec { epsilon: VANISHING, output: None })
    })?;
    let times = |v: &[f64]| -> f64 { length(&j.chunks(d).map(|row| dot(row, v)).collect::<Vec<_>>()) };
    let centred: Vec<f64> = x.iter().map(|x| x - mean).collect();
    let values = singular_values(&j, d);
    let (kept, lost) = values.split_at(d - 2);
    let off = kept.iter().map(|s| (s - 1.0 / variance.sqrt()).abs()).fold(0.0, f64::max);
    Ok(Finding::new(
        Verdict::Holds,
        "The Jacobian kills 1 and x − μ, and multiplies every other direction by exactly 1/σ.",
    )
    .number(Number::at_most("‖J·1‖", times(&vec![1.0; d]), 1e-14))
    .number(Number::at_most("‖J·(x − μ)‖", times(&centred), 1e-13))
    .number(Number::at_most("the two smallest singular values", lost[0], 1e-14))
    .number(Number::at_most("all others against 1/σ", off, 1e-14))
    .picture(
        Chart::new(
            "Singular values of the Jacobian of layer norm, ten features",
            Axis::names("number", 1..=d),
            Axis::new("singular value").covering(&[0.0]),
        )
        .bars("J", values.iter().enumerate().map(|(at, &s)| (at as f64, s)))
        .dashed("1/σ", [(0.0, 1.0 / variance.sqrt()), (d as f64 - 1.0, 1.0 / variance.sqrt())]),
    )
    .how("One gradient for each output of the op, ε = 10⁻³⁰; singular values by turning columns."))
}

fn config(place: NormPlace) -> Result<BlockConfig> {
    Ok(BlockConfig {
        attention: AttentionConfig { std: 0.35, ..AttentionConfig::new(WIDTH, 2)? },
        cross: None,
        feed_forward: feed_forward(),
        norm: NormConfig::layer(WIDTH),
        place,
        dropout: 0.0,
    })
}

fn feed_forward() -> FeedForwardConfig {
    FeedForwardConfig {
        width: WIDTH,
        hidden: 4 * WIDTH,
        kind: FeedForwardKind::Gelu,
        bias: true,
        dropout: 0.0,
        std: 0.35,
    }
}

/// The parts of a block under the names that the block gives them.
struct Parts {
    attention: AttentionLayer,
    attention_norm: NormLayer,
    feed_forward: FeedForward,
    feed_forward_norm: NormLayer,
}

impl Parts {
    fn new() -> Result<Parts> {
        let mut p = Parameters::new();
        let attention = config(NormPlace::Pre)?.attention;
        Ok(Parts {
            attention: p.under("attention", |p| AttentionLayer::new(attention, p))?,
            attention_norm: p.under("attention_norm", |p| NormLayer::new(NormConfig::layer(WIDTH), p))?,
            feed_forward: p.under("feed_forward", |p| FeedForward::new(feed_forward(), p))?,
            feed_forward_norm: p
                .under("feed_forward_norm", |p| NormLayer::new(NormConfig::layer(WIDTH), p))?,
        })
    }

    /// The block written out: with or without the way past each part.
    fn forward(
        &self,
        g: &mut Graph,
        x: Var,
        place: Option<NormPlace>,
        past: bool,
    ) -> regard_graph::Result<Var> {
        let mut x = x;
        for part in 0..2 {
            let norm = if part == 0 { &self.attention_norm } else { &self.feed_forward_norm };
            let before = if place == Some(NormPlace::Pre) { norm.forward(g, x)? } else { x };
            let y = match part {
                0 => self.attention.forward(g, before, KeySource::Own, &Surroundings::default())?,
                _ => self.feed_forward.forward(g, before)?,
            };
            let sum = if past { g.add(x, y)? } else { y };
            x = if place == Some(NormPlace::Post) { norm.forward_f32(g, sum)? } else { sum };
        }
        Ok(x)
    }
}

/// I6: both orders, against the block of the library.
pub fn places(context: &Context) -> Result<Finding> {
    let x = context.draws("I6").normals(LENGTH * WIDTH);
    let feed = Feed::new().with("x", crate::compute::array(&[1, LENGTH, WIDTH], &x)?);
    let parts = Parts::new()?;
    let mut finding = Finding::new(
        Verdict::Holds,
        "Blocks exist in both orders: LN(x + F(x)) after each part, or x + F(LN(x)) before it.",
    );
    let mut norms = vec![];
    for (name, place) in [("post-norm", NormPlace::Post), ("pre-norm", NormPlace::Pre)] {
        let block = Block::new(config(place)?, &mut Parameters::new())?;
        let found = compute(&feed, |g| {
            let x = g.input("x", DType::F32, [1, LENGTH, WIDTH])?;
            Ok(vec![
                block.forward(g, x, &Surroundings::default(), None)?,
                parts.forward(g, x, Some(place), true)?,
            ])
        })?;
        let off = largest_difference(found[0].data(), found[1].data());
        finding = finding.number(Number::at_most(
            format!("{name}: block against the parts written out"),
            off,
            1e-13,
        ));
        norms.push(found[0].data().chunks(WIDTH).map(length).fold(0.0, f64::max));
        finding = finding.picture(Heat::new(
            format!("{name}: outputs of the block"),
            "position",
            "feature",
            WIDTH,
            found[0].data().to_vec(),
            Colours::Signed,
        ));
    }
    Ok(finding
        .number(Number::equal("post-norm: length of an output position, √8", norms[0], (WIDTH as f64).sqrt(), 1e-3))
        .number(Number::shown("pre-norm: largest length of an output position", norms[1]))
        .how("The block of the library and its parts recorded one by one under the same names, hence with the same numbers."))
}

/// I7: F = −x, and the singular values of real blocks.
pub fn at_least_one(context: &Context) -> Result<Finding> {
    let x = context.draws("I7").normals(LENGTH * WIDTH);
    let dims = [1, LENGTH, WIDTH];
    let minus = jacobian(&dims, &x, &Feed::new(), |g, x| {
        let f = g.scale(x, -1.0)?;
        g.add(x, f)
    })?;
    let nearly = jacobian(&dims, &x, &Feed::new(), |g, x| {
        let f = g.scale(x, -0.75)?;
        g.add(x, f)
    })?;
    let columns = LENGTH * WIDTH;
    let mut finding = Finding::new(
        Verdict::Wrong,
        "I + ∂F/∂x can be singular: F = −x gives zero. In real blocks the smallest singular value is far below 1; post-norm \
         removes two directions at every position.",
    )
    .number(Number::equal("F = −x: largest singular value of I + ∂F/∂x", singular_values(&minus, columns)[0], 0.0, 0.0).erratum("E20"))
    .number(Number::equal("F = −¾x: every singular value", singular_values(&nearly, columns)[columns - 1], 0.25, 1e-15));
    let parts = Parts::new()?;
    let mut chart = Chart::new(
        "Singular values of one block, 3 positions of 8 features",
        Axis::new("number").covering(&[1.0]),
        Axis::log("singular value"),
    );
    let mut table = Table::new("One block", &["block", "largest", "smallest", "below 10⁻⁸"]);
    for (name, place, past) in [
        ("pre-norm", Some(NormPlace::Pre), true),
        ("post-norm", Some(NormPlace::Post), true),
        ("residual, no norm", None, true),
        ("no residual, pre-norm", Some(NormPlace::Pre), false),
    ] {
        let j = jacobian(&dims, &x, &Feed::new(), |g, x| parts.forward(g, x, place, past))?;
        let values = singular_values(&j, columns);
        let (largest, smallest) = (values[0], values[columns - 1]);
        // ε = 10⁻⁵ keeps the directions that a norm removes from being exactly zero.
        let gone = values.iter().filter(|s| **s < 1e-3 * largest).count();
        let none = values.iter().filter(|s| **s < 1e-8).count();
        table.row([name.to_string(), figure(largest), figure(smallest), none.to_string()]);
        chart = chart.line(name, values.iter().enumerate().map(|(at, &s)| (at as f64 + 1.0, s.max(1e-10))));
        if past {
            finding = finding.number(
                Number::at_most(format!("{name}: smallest singular value"), smallest, 0.99).erratum("E20"),
            );
        }
        if name == "post-norm" {
            finding = finding.number(Number::at_least(
                "post-norm: directions removed, two for each position",
                gone as f64,
                2.0 * LENGTH as f64,
            ));
        }
    }
    Ok(finding
        .counter_example("F(x) = −x: x + F(x) = 0, and no gradient passes at all.")
        .picture(chart.dashed("1, which the notes promise", [(1.0, 1.0), (columns as f64, 1.0)]))
        .table(table)
        .how("Jacobians by the gradient reader, one gradient for each output; the block’s parts with random weights (std 0.35)."))
}
