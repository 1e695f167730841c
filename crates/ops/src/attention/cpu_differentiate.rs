//! From dots to weights and score gradients, for a tile with a key to a row, at every SIMD level. What
//! belongs to a query lies along the vector, so that nothing is added up across it.

use super::cpu_exp::exp_below;
use super::cpu_rows::KeyTile;
use super::cpu_tile::{KEYS, QUERIES, panel_place};
use regard_device::{PANEL, multiversion};
use std::ops::Range;

/// A row of weights and one of score gradients.
type Row<'a> = (&'a mut [f32; QUERIES], &'a mut [f32; QUERIES]);

/// The rows of a tile.
#[inline(always)]
fn rows<'a>(weights: &'a mut [f32], scores: &'a mut [f32]) -> impl Iterator<Item = Row<'a>> {
    weights.as_chunks_mut::<QUERIES>().0.iter_mut().zip(scores.as_chunks_mut::<QUERIES>().0)
}

/// A panel of a row: of known length, which vectorises.
#[inline(always)]
fn part<T>(row: &[T; QUERIES], at: usize) -> &[T; PANEL] {
    row[at..].first_chunk().expect("queries are whole panels")
}

/// The same, to be written.
#[inline(always)]
fn part_mut<T>(row: &mut [T; QUERIES], at: usize) -> &mut [T; PANEL] {
    row[at..].first_chunk_mut().expect("queries are whole panels")
}

/// w = exp(score − lse), ds = w·(dw − mean).
#[inline(always)]
fn one(score: f32, dw: f32, lse: f32, mean: f32) -> (f32, f32) {
    let w = exp_below(score - lse);
    (w, w * (dw - mean))
}

multiversion! {
    /// dy·y of each query, summed as the products sum dy·v: a row with a single key gets dw − mean = 0
    /// exactly.
    pub fn means(dy: &[f32], y: &[f32], width: usize, out: &mut [f32]) {
        const ROWS: usize = 8;
        for (at, out) in out.chunks_exact_mut(ROWS).enumerate() {
            let from = at * ROWS * width;
            let (dy, y) = (&dy[from..from + ROWS * width], &y[from..from + ROWS * width]);
            let mut sums = [0.0f32; ROWS];
            for e in 0..width {
                for (row, sum) in sums.iter_mut().enumerate() {
                    *sum = dy[row * width + e].mul_add(y[row * width + e], *sum);
                }
            }
            out.copy_from_slice(&sums);
        }
    }

    /// The same where pairs of e are summed, the odd one first.
    pub fn means_in_pairs(dy: &[f32], y: &[f32], width: usize, out: &mut [f32]) {
        const ROWS: usize = 8;
        for (at, out) in out.chunks_exact_mut(ROWS).enumerate() {
            let from = at * ROWS * width;
            let (dy, y) = (&dy[from..from + ROWS * width], &y[from..from + ROWS * width]);
            let mut sums = [0.0f32; ROWS];
            for step in 0..width {
                // An odd last one has no partner.
                let e = if step ^ 1 < width { step ^ 1 } else { step };
                for (row, sum) in sums.iter_mut().enumerate() {
                    *sum = dy[row * width + e].mul_add(y[row * width + e], *sum);
                }
            }
            out.copy_from_slice(&sums);
        }
    }

    /// The same where even and odd ones of thirty-two e are summed apart, then together.
    pub fn means_in_tiles(dy: &[f32], y: &[f32], width: usize, out: &mut [f32]) {
        for (i, out) in out.iter_mut().enumerate() {
            let (dy, y) = (&dy[i * width..(i + 1) * width], &y[i * width..(i + 1) * width]);
            *out = 0.0;
            for (dy, y) in dy.chunks(32).zip(y.chunks(32)) {
                let mut sums = [0.0f32; 2];
                for (e, (dy, y)) in dy.iter().zip(y).enumerate() {
                    sums[e % 2] = dy.mul_add(*y, sums[e % 2]);
                }
                *out += sums[0] + sums[1];
            }
        }
    }

    /// Dots to weights, dw to score gradients, for a whole tile; the latter as panels, too, where there is
    /// room.
    pub fn differentiate(
        weights: &mut [f32], scores: &mut [f32], panels: Option<&mut [f32]>, factor: f32, lse: &[f32; QUERIES],
        mean: &[f32; QUERIES],
    ) {
        let mut panels = panels;
        for (key, (weights, scores)) in rows(weights, scores).enumerate() {
            for i in 0..QUERIES {
                (weights[i], scores[i]) = one(weights[i] * factor, scores[i], lse[i], mean[i]);
            }
            if let Some(panels) = &mut panels {
                for at in (0..QUERIES).step_by(PANEL) {
                    panels[panel_place(key, at)..][..PANEL].copy_from_slice(part(scores, at));
                }
            }
        }
    }

    /// The same for some queries of some keys, where each query may attend to keys that exist, between two
    /// positions; the first key is given.
    pub fn differentiate_within(
        weights: &mut [f32], scores: &mut [f32], live: Range<usize>, keys: &KeyTile<KEYS>, first: usize,
        low: &[i32; QUERIES], high: &[i32; QUERIES], factor: f32, lse: &[f32; QUERIES], mean: &[f32; QUERIES],
    ) {
        for (j, (weights, scores)) in rows(weights, scores).enumerate() {
            let (at_key, exists) = (keys.position[first + j], keys.exists[first + j] != 0);
            for at in live.clone().step_by(PANEL) {
                let (weights, scores) = (part_mut(weights, at), part_mut(scores, at));
                let (lse, mean, low, high) = (part(lse, at), part(mean, at), part(low, at), part(high, at));
                for i in 0..PANEL {
                    let allowed = exists & (at_key >= low[i]) & (at_key <= high[i]);
                    let score = if allowed { weights[i] * factor } else { f32::NEG_INFINITY };
                    (weights[i], scores[i]) = one(score, scores[i], lse[i], mean[i]);
                }
            }
        }
    }

    /// The same for a whole tile with something added to the scores; −∞ whatever the dot.
    pub fn differentiate_added(
        weights: &mut [f32], scores: &mut [f32], added: &[f32], factor: f32, lse: &[f32; QUERIES],
        mean: &[f32; QUERIES],
    ) {
        for ((weights, scores), added) in rows(weights, scores).zip(added.as_chunks::<QUERIES>().0) {
            for i in 0..QUERIES {
                let score = weights[i].mul_add(factor, added[i]);
                let score = if added[i] == f32::NEG_INFINITY { f32::NEG_INFINITY } else { score };
                (weights[i], scores[i]) = one(score, scores[i], lse[i], mean[i]);
            }
        }
    }

    /// The same with dropout, y = Σ keep·w·v; the weights are still those before it.
    pub fn differentiate_dropped(
        weights: &mut [f32], scores: &mut [f32], added: &[f32], kept: &[f32], factor: f32,
        lse: &[f32; QUERIES], mean: &[f32; QUERIES],
    ) {
        let more = added.as_chunks::<QUERIES>().0.iter().zip(kept.as_chunks::<QUERIES>().0);
        for ((weights, scores), (added, kept)) in rows(weights, scores).zip(more) {
            for i in 0..QUERIES {
                let score = weights[i].mul_add(factor, added[i]);
                let score = if added[i] == f32::NEG_INFINITY { f32::NEG_INFINITY } else { score };
                (weights[i], scores[i]) = one(score, scores[i] * kept[i], lse[i], mean[i]);
            }
        }
    }

    /// Takes out of the score gradients of each query, in proportion to the weights, what they add up to
    /// beyond what they should; `over` begins at minus that.
    pub fn settle(weights: &[f32], scores: &mut [f32], over: &mut [f32; QUERIES]) {
        for scores in scores.as_chunks::<QUERIES>().0 {
            for i in 0..QUERIES {
                over[i] += scores[i];
            }
        }
        for (weights, scores) in weights.as_chunks::<QUERIES>().0.iter().zip(scores.as_chunks_mut::<QUERIES>().0) {
            for i in 0..QUERIES {
                scores[i] = (-over[i]).mul_add(weights[i], scores[i]);
            }
        }
    }

    /// The weights that dropout leaves.
    pub fn drop_weights(weights: &mut [f32], kept: &[f32]) {
        for (weight, kept) in weights.iter_mut().zip(kept) {
            *weight *= kept;
        }
    }
}
