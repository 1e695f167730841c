//! Self-attention’s shape, biases by distance, and windows: weights by the reference engine, work by the cost
//! reader.

use crate::compute::{array, compute, differing, largest_difference};
use crate::picture::{Axis, Chart, Colours, Heat};
use crate::{Context, Finding, Number, Table, Verdict};
use regard::Result;
use regard::cost;
use regard::layers::{
    AttentionConfig, AttentionLayer, Context as Surroundings, KeySource, KeySourceConfig, Parameters,
    RelativeConfig, RelativePositions,
};
use regard::ops::{Attention, AttentionMask, WeightsRequest, Window};
use regard::prelude::*;
use regard::reference::{self, Mode};
use regard_graph::{Integers, Sizes};

/// F-1: the output has the shape of the input, and self-attention is cross-attention to oneself.
pub fn keeps_shape(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("F-1");
    let mut table = Table::new("Shapes", &["input", "heads", "output"]);
    let mut other = 0;
    for (n, e, h) in [(1usize, 4usize, 1usize), (5, 12, 3), (7, 8, 8), (3, 6, 2)] {
        let layer = AttentionLayer::new(AttentionConfig::new(e, h)?, &mut Parameters::new())?;
        let mut g = Graph::inference();
        let x = g.input("x", DType::F32, [2, n, e])?;
        let y = layer.forward(&mut g, x, KeySource::Own, &Surroundings::default())?;
        other += usize::from(g.shape(y) != g.shape(x));
        table.row([g.shape(x).to_string(), h.to_string(), g.shape(y).to_string()]);
    }
    let (n, e, h) = (5, 12, 3);
    let config = AttentionConfig::new(e, h)?;
    let own = AttentionLayer::new(config, &mut Parameters::new())?;
    let cross = AttentionConfig { source: KeySourceConfig::Memory(e), ..config };
    let cross = AttentionLayer::new(cross, &mut Parameters::new())?;
    let feed = Feed::new().with("x", array(&[2, n, e], &draws.normals(2 * n * e))?);
    let found = compute(&feed, |g| {
        let x = g.input("x", DType::F32, [2, n, e])?;
        let nobody = Surroundings::default();
        Ok(vec![
            own.forward(g, x, KeySource::Own, &nobody)?,
            cross.forward(g, x, KeySource::Memory(x), &nobody)?,
        ])
    })?;
    Ok(Finding::new(Verdict::Holds, "Q = K = V = C: shapes stay, and the layer equals cross-attention whose memory is the stream itself.")
        .number(Number::count("shapes that change", other, 0))
        .number(Number::count("numbers that differ from cross-attention to oneself", differing(found[0].data(), found[1].data()), 0))
        .table(table)
        .picture(Heat::new("Output of self-attention, position × channel", "position", "channel", e, &found[0].data()[..n * e], Colours::Signed))
        .how("The attention layer of the library with its projections for each head; shapes by recording, numbers by the reference engine."))
}

/// Weights [heads, n, n] of random queries and keys whose positions begin at `first`.
fn weights(config: RelativeConfig, n: usize, first: i32, content: &[f64], table: &[f64]) -> Result<Vec<f64>> {
    let (heads, width) = (2, 6);
    let mut parameters = Parameters::new();
    let relative = RelativePositions::new(config, heads, &mut parameters)?;
    let positions: Vec<f64> = (0..n).map(|p| f64::from(first) + p as f64).collect();
    let mut feed = Feed::new()
        .with("q", array(&[1, n, heads, width], &content[..n * heads * width])?)
        .with("k", array(&[1, n, heads, width], &content[n * heads * width..2 * n * heads * width])?)
        .with("position", array(&[1, n], &positions)?);
    for declared in parameters.declared() {
        let dims = declared.shape.bound();
        feed = feed.with_stored(&declared.name, array(&dims, &table[..dims.count()])?);
    }
    let mut g = Graph::inference();
    let mut q = g.input("q", DType::F32, [1, n, heads, width])?;
    let mut k = g.input("k", DType::F32, [1, n, heads, width])?;
    let position = Some(g.input("position", DType::I32, [1, n])?);
    if let Some(spec) = relative.rotary() {
        q = g.rotary(q, position, spec)?;
        k = g.rotary(k, position, spec)?;
    }
    let bias = relative.bias(&mut g)?;
    let spec = Attention { bias, query_position: position, key_position: position, ..Default::default() };
    let lse = g.attention(q, k, k, &spec)?.lse;
    let all = WeightsRequest::Block { queries: 0..n, keys: 0..n };
    let weights = g.attention_weights(q, k, lse, &spec, all)?.values;
    Ok(reference::run(&g, &feed, Mode::Exact)?.value(weights).data().to_vec())
}

/// F-4: weights do not change when all positions are shifted.
pub fn shift_invariant(context: &Context) -> Result<Finding> {
    let n = 8;
    let mut draws = context.draws("F-4");
    let (content, table) = (draws.normals(2 * n * 12), draws.normals(64));
    let alike: Vec<f64> = (0..2 * n * 12).map(|at| content[at % 12]).collect();
    let kinds = [
        ("T5 buckets", RelativeConfig::Buckets { buckets: 8, max_distance: 16, bidirectional: true }, 0.0),
        ("ALiBi", RelativeConfig::Alibi, 0.0),
        ("clipped table", RelativeConfig::Clipped { reach: 3 }, 0.0),
        // Turned numbers are rounded differently at each position.
        ("rotary", RelativeConfig::Rotary(RotarySpec::default()), 1e-12),
    ];
    let mut finding = Finding::new(
        Verdict::Holds,
        "Biases by distance give the same weights to the bit when every position is shifted; rotary ones to rounding. Where all \
         contents are alike, scores depend on j − i alone.",
    );
    for (name, config, within) in kinds {
        let near = weights(config, n, 0, &content, &table)?;
        let far = weights(config, n, 1000, &content, &table)?;
        finding = finding.number(Number::at_most(
            format!("{name}: largest change of a weight when positions begin at 1000"),
            largest_difference(&near, &far),
            within,
        ));
        // log(a(i,j)/a(i,i)) is the difference of scores: the same along every diagonal.
        let same = weights(config, n, 0, &alike, &table)?;
        let score = |i: usize, j: usize| (same[i * n + j] / same[i * n + i]).ln();
        let uneven = (0..n - 1).flat_map(|i| (0..n - 1).map(move |j| (i, j)));
        let uneven = uneven.map(|(i, j)| (score(i, j) - score(i + 1, j + 1)).abs()).fold(0.0, f64::max);
        finding = finding.number(Number::at_most(
            format!("{name}: largest difference of scores along a diagonal"),
            uneven,
            1e-12,
        ));
        if name == "clipped table" || name == "ALiBi" {
            finding = finding.picture(Heat::new(
                format!("{name}: weights of equal contents, head 1"),
                "query",
                "key",
                n,
                &same[..n * n],
                Colours::Rising,
            ));
        }
    }
    Ok(finding.how("The biases and rotations of the library in one attention with explicit positions, counted from 0 and from 1000."))
}

/// F-9: a window is the mask it says, and its cost is n·w.
pub fn window(context: &Context) -> Result<Finding> {
    let (width, w) = (4usize, 5usize);
    let mut draws = context.draws("F-9");
    let n = 12;
    let x = draws.normals(n * width);
    let feed = Feed::new().with("x", array(&[1, n, 1, width], &x)?);
    let found = compute(&feed, |g| {
        let x = g.input("x", DType::F32, [1, n, 1, width])?;
        let window = Some(Window { before: w - 1, after: 0 });
        let windowed = AttentionMask { causal: true, window, ..Default::default() };
        let allowed: Vec<f64> =
            (0..n * n).map(|at| f64::from(u8::from(at % n <= at / n && at / n < at % n + w))).collect();
        let explicit = AttentionMask {
            explicit: Some(g.constant(DType::Bool, [1, 1, n, n], &allowed)?),
            ..Default::default()
        };
        let mut out = Vec::new();
        for mask in [windowed, explicit] {
            out.push(g.attention(x, x, x, &Attention { mask, ..Default::default() })?.y);
        }
        Ok(out)
    })?;
    let off = differing(found[0].data(), found[1].data());
    let macs = |n: usize, window: Option<usize>| -> Result<[u64; 2]> {
        let mut g = Graph::inference();
        let x = g.input("x", DType::F32, [1, n, 1, width])?;
        let window = window.map(|w| Window { before: w - 1, after: 0 });
        let mask = AttentionMask { causal: true, window, ..Default::default() };
        g.attention(x, x, x, &Attention { mask, ..Default::default() })?;
        let math = cost::cost(&g, &Sizes::none(), &Integers::none(), None)?;
        let executed = Cpu::executed(&g, &Sizes::none(), &Integers::none(), None)?;
        Ok([math, executed].map(|costs| costs.total().macs))
    };
    let mut table =
        Table::new("Multiply-adds, head width 4", &["n", "window 64", "executed", "causal without window"]);
    let (mut wrong, mut local, mut full) = (0, vec![], vec![]);
    let w = 64;
    for n in [128usize, 256, 512, 1024, 2048, 4096] {
        let ([windowed, executed], [whole, _]) = (macs(n, Some(w))?, macs(n, None)?);
        // Query t sees min(t + 1, w) keys; scores and weighted sum take `width` each.
        let pairs = w * (w + 1) / 2 + (n - w) * w;
        wrong += usize::from(windowed != (2 * width * pairs) as u64);
        wrong += usize::from(whole != (2 * width * n * (n + 1) / 2) as u64);
        table.row([n as u64, windowed, executed, whole].map(|x| x.to_string()));
        local.push((n as f64, windowed as f64));
        full.push((n as f64, whole as f64));
    }
    let growth = |points: &[(f64, f64)]| points[5].1 / points[4].1;
    Ok(Finding::new(Verdict::Holds, "A window is exactly the mask that it says, and costs n·w: twice the length, twice the work, where full attention takes four times.")
        .number(Number::count("outputs that differ from an explicit mask", off, 0))
        .number(Number::count("multiply-adds that differ from the closed forms", wrong, 0))
        .number(Number::equal("work at 4096 over work at 2048, window 64", growth(&local), 2.0, 0.04))
        .number(Number::equal("work at 4096 over work at 2048, no window", growth(&full), 4.0, 0.01))
        .table(table)
        .picture(
            Chart::new("Work of causal attention", Axis::log("n"), Axis::log("multiply-adds"))
                .line("window of 64", local)
                .line("no window", full),
        )
        .how("The attention op with its window against an explicit mask, by the reference engine; multiply-adds by the cost reader, “executed” with the engine’s padded tiles."))
}
