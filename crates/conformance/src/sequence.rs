//! A model of sequences recorded from ops alone, of what the GPT has not: RMS norm, rotary positions, grouped
//! heads, a gated feed-forward part; causal, also through caches, or looking both ways at keys up to a
//! length. Sizes are odd on purpose. Letters: B T, C = 42, H = 6, G = 2, D = 8, F = 390 (beyond one block of
//! a product).

use regard::graph::{Graph, Result, Shape, Var};
use regard::ops::{Attention, AttentionMask, Gate, LinearOptions, RotarySpec};
use regard::prelude::*;

/// How many tokens it knows.
pub const VOCABULARY: usize = 61;
/// The most positions: more than a tile of keys.
pub const CONTEXT: usize = 150;
/// How many blocks.
pub const LAYERS: usize = 2;

const WIDTH: usize = 42;
const HEADS: usize = 6;
const GROUPS: usize = 2;
const HEAD_WIDTH: usize = 8;
const HIDDEN: usize = 390;

/// What a position may see.
#[derive(Clone, Copy, Debug)]
pub enum Sight {
    /// Itself and what comes before.
    Causal,
    /// Everything below the length of its example, i32 `[B]`.
    Below(Var),
    /// Itself and what comes before, of which earlier runs left keys and values in caches.
    Cached {
        /// The position of each id, i32 `[B T]`.
        position: Var,
        /// How many positions are known, i32 `[B]`.
        lengths: Var,
        /// How many examples the caches hold, B.
        rows: usize,
    },
}

/// The scores of all tokens: B T -> B T V. Taps: `block.<layer>.stream`.
pub fn logits(g: &mut Graph, ids: Var, sight: Sight) -> Result<Var> {
    let table = weight(g, "tokens", [VOCABULARY, WIDTH])?;
    let mut x = g.embedding(table, ids, None)?; // B T C
    for layer in 0..LAYERS {
        x = g.scope(format!("block.{layer}"), |g| block(g, x, layer, sight))?;
    }
    let x = norm(g, x, "final_norm")?;
    g.linear(x, table, LinearOptions { output: Some(DType::F32), ..Default::default() })
}

fn block(g: &mut Graph, x: Var, layer: usize, sight: Sight) -> Result<Var> {
    let name = |part: &str| format!("block.{layer}.{part}");
    let h = norm(g, x, &name("attention_norm"))?;
    let position = if let Sight::Cached { position, .. } = sight { Some(position) } else { None };
    let project = |g: &mut Graph, part: &str, heads: usize| -> Result<Var> {
        let weight = weight(g, &name(part), [heads * HEAD_WIDTH, WIDTH])?;
        let y = g.linear(h, weight, LinearOptions::default())?;
        g.split_heads(y, heads) // B T (H D) -> B T H D
    };
    let (query, key, mut value) =
        (project(g, "query", HEADS)?, project(g, "key", GROUPS)?, project(g, "value", GROUPS)?);
    let query = g.rotary(query, position, RotarySpec::default())?;
    let mut key = g.rotary(key, position, RotarySpec::default())?;
    let mut spec = Attention::causal();
    match sight {
        Sight::Causal => {}
        Sight::Below(lengths) => {
            spec.mask = AttentionMask { key_lengths: Some(lengths), ..Default::default() };
        }
        Sight::Cached { position, lengths, rows } => {
            let keep = |g: &mut Graph, part: &str, new: Var| {
                let dims = [rows, CONTEXT, GROUPS, HEAD_WIDTH];
                let cache = g.state(&name(&format!("{part}_cache")), g.dtype(new), dims, Init::Zeros)?;
                g.cache_write(cache, new, position, None)
            };
            key = keep(g, "key", key)?;
            value = keep(g, "value", value)?;
            spec.query_position = Some(position);
            spec.mask.key_lengths = Some(lengths);
        }
    }
    let mixed = g.attention(query, key, value, &spec)?.y; // B T H D
    let mixed = g.merge_heads(mixed)?;
    let output = weight(g, &name("output"), [WIDTH, HEADS * HEAD_WIDTH])?;
    let x = g.linear(mixed, output, LinearOptions { residual: Some(x), ..Default::default() })?;

    let h = norm(g, x, &name("feed_forward_norm"))?;
    let (gate, up) = (weight(g, &name("gate"), [HIDDEN, WIDTH])?, weight(g, &name("up"), [HIDDEN, WIDTH])?);
    let gate = g.linear(h, gate, LinearOptions::default())?;
    let up = g.linear(h, up, LinearOptions::default())?;
    let h = g.gated(Gate::Silu, gate, up)?;
    let down = weight(g, &name("down"), [WIDTH, HIDDEN])?;
    let x = g.linear(h, down, LinearOptions { residual: Some(x), ..Default::default() })?;
    g.tap("stream", x)
}

fn norm(g: &mut Graph, x: Var, name: &str) -> Result<Var> {
    let scale = g.parameter(name, [WIDTH], Init::Normal(1.0))?;
    let spec = NormSpec { output: Some(g.precision().activation()), ..Default::default() };
    g.rms_norm(x, Some(scale), spec)
}

/// Larger than a trained model's beginning, so that attention is far from even.
fn weight(g: &mut Graph, name: &str, shape: impl Into<Shape>) -> Result<Var> {
    g.parameter(name, shape, Init::Normal(0.3))
}
