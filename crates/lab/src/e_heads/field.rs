//! Receptive fields of hard heads, and heads as the taps of a convolution.

use crate::compute::{array, compute, largest_difference};
use crate::picture::{Axis, Chart, Colours, Heat};
use crate::{Context, Finding, Number, Table, Verdict};
use regard::ops::{Attention, AttentionKind, AttentionMask, AttentionScale};
use regard::prelude::*;
use regard::reach;
use regard::{Array, Result};

/// Which key each head of each layer takes: layer, head, position -> position.
type Targets<'a> = dyn Fn(usize, usize, usize) -> usize + 'a;

/// The inputs that can change the last position after some layers of x + Σ heads, by the reach reader over
/// the keys that hard attention takes, and, where asked for, by changing each input of the real hard
/// attention in turn.
fn field(length: usize, heads: usize, layers: usize, target: &Targets, numbers: bool) -> Result<[usize; 2]> {
    // By reach: an explicit mask with the one chosen key of each query.
    let mut g = Graph::inference();
    let x = g.input("x", DType::F32, [1, length, 1])?;
    let mut stream = x;
    for layer in 0..layers {
        let chosen: Vec<f64> = (0..heads * length * length)
            .map(|at| (at / (length * length), at / length % length, at % length))
            .map(|(head, t, s)| f64::from(u8::from(target(layer, head, t) == s)))
            .collect();
        let explicit = Some(g.constant(DType::Bool, [1, heads, length, length], &chosen)?);
        let spec = Attention { mask: AttentionMask { explicit, ..Default::default() }, ..Default::default() };
        stream = one_layer(&mut g, stream, heads, length, None, &spec)?;
    }
    let query = reach::Query { from: vec![x], to: vec![stream], ..Default::default() };
    let reaches = reach::reach(&g, &query)?;
    let last = reaches.cell(stream, &[0, length - 1, 0])?;
    let by_reach = reaches.row(last)?.count();
    if !numbers {
        return Ok([by_reach, by_reach]);
    }

    // By numbers: keys are one-hot positions, queries the positions to be taken, and attention is the hard
    // kind.
    let run = |x: &[f64]| -> Result<Vec<Array>> {
        let feed = Feed::new().with("x", array(&[1, length, 1], x)?);
        compute(&feed, |g| {
            let mut stream = g.input("x", DType::F32, [1, length, 1])?;
            for layer in 0..layers {
                let asked: Vec<f64> = (0..length * heads * length)
                    .map(|at| (at / (heads * length), at / length % heads, at % length))
                    .map(|(t, head, s)| f64::from(u8::from(target(layer, head, t) == s)))
                    .collect();
                let query = g.constant(DType::F32, [1, length, heads, length], &asked)?;
                let spec = Attention {
                    kind: AttentionKind::Hard,
                    scale: AttentionScale::Constant(1.0),
                    ..Default::default()
                };
                stream = one_layer(g, stream, heads, length, Some(query), &spec)?;
            }
            Ok(vec![stream])
        })
    };
    let base: Vec<f64> = (0..length).map(|t| 1.0 + t as f64).collect();
    let before = run(&base)?[0].data()[length - 1];
    let mut by_numbers = 0;
    for at in 0..length {
        let mut moved = base.clone();
        moved[at] += 0.5;
        by_numbers += usize::from(run(&moved)?[0].data()[length - 1] != before);
    }
    Ok([by_reach, by_numbers])
}

/// x + Σ over heads of what each takes.
fn one_layer(
    g: &mut Graph,
    x: Var,
    heads: usize,
    length: usize,
    query: Option<Var>,
    spec: &Attention,
) -> regard_graph::Result<Var> {
    let value = g.concat(&vec![x; heads], 2)?;
    let value = g.split_heads(value, heads)?;
    let (query, key) = match query {
        Some(query) => {
            let places: Vec<f64> = (0..length * heads * length)
                .map(|at| f64::from(u8::from(at / (heads * length) == at % length)))
                .collect();
            (query, g.constant(DType::F32, [1, length, heads, length], &places)?)
        }
        None => {
            let nothing = g.fill(DType::F32, [1, length, heads, 1], 0.0)?;
            (nothing, nothing)
        }
    };
    let y = g.attention(query, key, value, spec)?.y;
    let y = g.sum_to_fact(y, Fact::f32([1, length, 1, 1]))?;
    let y = g.reshape(y, [1, length, 1])?;
    g.add(x, y)
}

/// E-11: (k+1)ⁿ if targets are distinct, less otherwise.
pub fn receptive_field(_context: &Context) -> Result<Finding> {
    let mut finding = Finding::new(
        Verdict::Conditional,
        "With hard heads the field after n layers is min(T, (k+1)ⁿ), if no two ways lead to the same position. Heads that \
         choose alike add nothing, a head that looks at its own position adds nothing, and soft attention sees everything \
         after one layer.",
    );
    let mut table = Table::new(
        "Inputs that can change the last output",
        &["heads", "layers", "T", "(k+1)ⁿ", "distinct targets", "all heads alike"],
    );
    let mut chart = Chart::new("Receptive field of hard heads", Axis::new("layers"), Axis::log("positions"));
    for heads in 1..=3usize {
        let mut points = vec![(0.0, 1.0)];
        for layers in 1..=3usize {
            for length in [20usize, 64] {
                let bound = (heads + 1).pow(layers as u32);
                // Layer l, head i looks back (i + 1)·(k+1)^l: the digits of a number in base k + 1.
                let distinct = |layer: usize, head: usize, t: usize| {
                    t.saturating_sub((head + 1) * (heads + 1).pow(layer as u32))
                };
                let alike = |layer: usize, _: usize, t: usize| t.saturating_sub(2usize.pow(layer as u32));
                // Changing inputs one by one takes T runs; the short sequences do for that.
                let short = length == 20;
                let [by_reach, by_numbers] = field(length, heads, layers, &distinct, short)?;
                let [same, _] = field(length, heads, layers, &alike, false)?;
                table.row([heads, layers, length, bound, by_reach, same].map(|n| n.to_string()));
                if length == 64 {
                    points.push((layers as f64, by_reach as f64));
                }
                finding = finding
                    .number(Number::count(
                        format!("k = {heads}, n = {layers}, T = {length}: by reach, min(T, {bound})"),
                        by_reach,
                        bound.min(length),
                    ))
                    .numbers(short.then(|| {
                        Number::count(
                            format!("k = {heads}, n = {layers}, T = {length}: by changing inputs of hard attention"),
                            by_numbers,
                            bound.min(length),
                        )
                    }))
                    .number(
                        Number::count(
                            format!("k = {heads}, n = {layers}, T = {length}: all heads alike, 2ⁿ"),
                            same,
                            2usize.pow(layers as u32).min(length),
                        )
                        .erratum("E25"),
                    );
            }
        }
        chart = chart.line(format!("{heads} heads, T = 64"), points);
    }
    let itself = field(20, 2, 2, &|_, _, t| t, false)?[0];
    let mut g = Graph::inference();
    let x = g.input("x", DType::F32, [1, 20, 1, 1])?;
    let y = g.attention(x, x, x, &Attention::default())?.y;
    let query = reach::Query { from: vec![x], to: vec![y], ..Default::default() };
    let reaches = reach::reach(&g, &query)?;
    let soft = reaches.row(reaches.cell(y, &[0, 19, 0, 0])?)?.count();
    Ok(finding
        .number(Number::count("heads that look at their own position: field after two layers", itself, 1).erratum("E25"))
        .number(Number::count("soft attention, T = 20: field after one layer", soft, 20).erratum("E25"))
        .counter_example("Two heads that choose the same key: 2ⁿ positions instead of 3ⁿ; T = 20 and three heads over three layers: 20 instead of 64.")
        .table(table)
        .picture(chart)
        .how("Layers of x + Σ heads. The reach reader over the keys that are taken, and the hard attention op with one-hot positions, each input changed in turn."))
}

/// E-6: k heads at fixed offsets are a convolution of width k.
pub fn heads_as_filters(context: &Context) -> Result<Finding> {
    let (length, width, taps) = (9usize, 4usize, 5usize);
    let mut draws = context.draws("E-6");
    let (x, values, output) = (
        draws.normals(length * width),
        draws.normals(taps * width * width),
        draws.normals(width * taps * width),
    );
    let feed = Feed::new()
        .with("x", array(&[1, length, width], &x)?)
        .with("values", array(&[taps * width, width], &values)?)
        .with("output", array(&[width, taps * width], &output)?);
    let mut reached = Vec::new();
    let found = compute(&feed, |g| {
        let x = g.input("x", DType::F32, [1, length, width])?;
        let values = g.input("values", DType::F32, [taps * width, width])?;
        let output = g.input("output", DType::F32, [width, taps * width])?;
        let values = g.linear(x, values, Default::default())?;
        let values = g.split_heads(values, taps)?;
        let nothing = g.fill(DType::F32, [1, length, taps, 1], 0.0)?;
        let allowed: Vec<f64> = (0..taps * length * length)
            .map(|at| (at / (length * length), at / length % length, at % length))
            .map(|(head, t, s)| f64::from(u8::from(s + taps / 2 == t + head)))
            .collect();
        let explicit = Some(g.constant(DType::Bool, [1, taps, length, length], &allowed)?);
        let spec = Attention { mask: AttentionMask { explicit, ..Default::default() }, ..Default::default() };
        let y = g.attention(nothing, nothing, values, &spec)?.y;
        let y = g.merge_heads(y)?;
        let local = g.linear(y, output, Default::default())?;
        let free = g.attention(nothing, nothing, values, &Attention::default())?.y;
        let free = g.merge_heads(free)?;
        let free = g.linear(free, output, Default::default())?;
        let query = reach::Query {
            from: vec![x],
            to: vec![local, free],
            grain: reach::Grain::Position,
            ..Default::default()
        };
        let reaches = reach::reach(g, &query)?;
        for to in [local, free] {
            let middle = reaches.cell(to, &[0, length / 2])?;
            reached.push(reaches.row(middle)?.map(|cell| cell.index()).collect::<Vec<usize>>());
        }
        Ok(vec![local])
    })?;
    // Kernel of tap δ: W_O,δ · W_V,δ; zeros beyond the border.
    let mut wanted = vec![0.0; length * width];
    for t in 0..length {
        for tap in 0..taps {
            let Some(s) = (t + tap).checked_sub(taps / 2).filter(|&s| s < length) else { continue };
            for out in 0..width {
                for inner in 0..width {
                    let row = &values[(tap * width + inner) * width..][..width];
                    let value: f64 = row.iter().zip(&x[s * width..]).map(|(w, x)| w * x).sum();
                    wanted[t * width + out] += output[out * taps * width + tap * width + inner] * value;
                }
            }
        }
    }
    let map: Vec<f64> = reached
        .iter()
        .flat_map(|row| (0..length).map(|s| f64::from(u8::from(row.contains(&s)))).collect::<Vec<f64>>())
        .collect();
    Ok(Finding::new(
        Verdict::Holds,
        "Five heads that each look at one offset are exactly a convolution of width 5, a matrix for each tap: parallel, each in \
         its subspace, mixed by W_O. Where the offsets are free, a head sees the whole sequence: the likeness ends there.",
    )
    .number(Number::at_most("five heads against the convolution", largest_difference(found[0].data(), &wanted), 1e-13))
    .number(Number::count("inputs of the middle output with fixed offsets", reached[0].len(), taps))
    .number(Number::count("inputs of the middle output with free heads", reached[1].len(), length))
    .picture(Heat::new("Inputs of the middle output: fixed offsets above, free heads below", "kind", "input", length, map, Colours::Rising))
    .how("The attention op with a mask of one key for each head and query, W_V and W_O random; a convolution by plain loops."))
}
