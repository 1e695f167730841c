//! The softmax of a tile on the CPU, in passes over all its rows: where needed the largest scores, then the
//! weights and their sums. What a row adds up to is left in lanes and brought together at the end, so that
//! the loops over keys stay whole vectors. Each row's arithmetic is its own.
//!
//! Weights are 2^((score − from) · unit). A score is q·k, and then the unit holds β and log₂ e, or it is
//! β·q·k with something added to it. What is taken from the scores is the row's own: the largest of all would
//! do, but any that keeps weights from overflowing gives them as exactly. It is the largest of the row's
//! first tile with a key, until a tile turns up whose weights are too large ([`TOO_MUCH`]). So the largest
//! score is sought in few tiles, and what was summed hardly ever shrinks.

use super::cpu_exp::exp2;
pub use super::cpu_sharing::QUERIES;
use regard_device::reduce::{LANES, larger, max_lanes, sum_lanes};
use regard_device::{math, multiversion};
use std::ops::Range;

/// A number in each lane of each row.
pub type Lanes = [[f32; LANES]; QUERIES];

/// Rows of a tile, each of them in or out.
pub type Which = [bool; QUERIES];

/// Weights of a tile that add up to more than this in a lane: far from overflowing, also when multiplied by
/// values.
pub const TOO_MUCH: f32 = (1u64 << 32) as f32;

/// What is known of the rows of a tile of queries after some tiles of keys.
pub struct Rows {
    /// The largest score of some tile, −∞ in a row without keys so far.
    pub most: [f32; QUERIES],
    /// What is taken from scores: that, or 0 in a row without keys, where every weight is 2^−∞ = 0.
    pub from: [f32; QUERIES],
    /// What the weights add up to, in lanes.
    pub sums: Lanes,
    /// The first key with the largest score, for hard attention.
    pub choice: [i32; QUERIES],
}

impl Rows {
    pub fn new() -> Self {
        Rows {
            most: [f32::NEG_INFINITY; QUERIES],
            from: [0.0; QUERIES],
            sums: [[0.0; LANES]; QUERIES],
            choice: [-1; QUERIES],
        }
    }

    /// Marks rows with too much weight in a tile that are not marked yet; whether there are any.
    #[cold]
    pub fn mark_heavy(lanes: &[[f32; LANES]], marked: &mut Which) -> bool {
        let mut any = false;
        for (lanes, marked) in lanes.iter().zip(marked) {
            let heavy = !*marked && max_lanes(*lanes) > TOO_MUCH;
            (*marked, any) = (*marked | heavy, any | heavy);
        }
        any
    }

    /// The first `count` rows that have had no key yet.
    pub fn without_keys(&self, count: usize) -> Which {
        std::array::from_fn(|i| i < count && self.most[i] == f32::NEG_INFINITY)
    }
}

multiversion! {
    /// The largest score of each row; rows are `stride` apart.
    pub fn largest(scores: &[f32], stride: usize, live: Range<usize>, lanes: &mut Lanes) {
        for (scores, lanes) in scores.chunks_exact(stride).zip(lanes) {
            let mut most = [f32::NEG_INFINITY; LANES];
            for scores in scores[live.clone()].as_chunks::<LANES>().0 {
                for j in 0..LANES {
                    most[j] = larger(most[j], scores[j]);
                }
            }
            *lanes = most;
        }
    }

    /// One row's score = factor · dot + added, −∞ where that is added, whatever the dot; the largest.
    pub fn scale_and_add(scores: &mut [f32], factor: f32, added: &[f32], lanes: &mut [f32; LANES]) {
        let mut most = [f32::NEG_INFINITY; LANES];
        for (scores, added) in scores.as_chunks_mut::<LANES>().0.iter_mut().zip(added.as_chunks::<LANES>().0) {
            for j in 0..LANES {
                let score = scores[j].mul_add(factor, added[j]);
                scores[j] = if added[j] == f32::NEG_INFINITY { f32::NEG_INFINITY } else { score };
                most[j] = larger(most[j], scores[j]);
            }
        }
        *lanes = most;
    }

    /// The same, −∞ unless a key exists and lies between two positions. (Without a factor the compiler would
    /// take the choice at its word and store number by number.)
    pub fn scale_within(
        scores: &mut [f32], factor: f32, position: &[i32], exists: &[u8], low: i32, high: i32,
        lanes: &mut [f32; LANES],
    ) {
        let mut most = [f32::NEG_INFINITY; LANES];
        let keys = position.as_chunks::<LANES>().0.iter().zip(exists.as_chunks::<LANES>().0);
        for (scores, (position, exists)) in scores.as_chunks_mut::<LANES>().0.iter_mut().zip(keys) {
            for j in 0..LANES {
                let allowed = (exists[j] != 0) & (position[j] >= low) & (position[j] <= high);
                scores[j] = if allowed { scores[j] * factor } else { f32::NEG_INFINITY };
                most[j] = larger(most[j], scores[j]);
            }
        }
        *lanes = most;
    }

    /// The largest score of each row in this tile, from its lanes.
    pub fn most_of(lanes: &[[f32; LANES]], out: &mut [f32; QUERIES]) {
        for (lanes, out) in lanes.iter().zip(out) {
            *out = max_lanes(*lanes);
        }
    }

    /// Takes the largest scores of a tile into some rows, and brings what they have summed and mixed to that
    /// measure.
    pub fn raise(
        tile_most: &[f32; QUERIES], which: &Which, unit: f32, rows: &mut Rows, mixed: &mut [f32], width: usize,
    ) {
        for i in 0..QUERIES {
            let most = larger(rows.most[i], tile_most[i]);
            if !which[i] || most == rows.most[i] {
                continue;
            }
            let before = std::mem::replace(&mut rows.most[i], most);
            rows.from[i] = most;
            if before == f32::NEG_INFINITY {
                continue; // nothing was summed yet
            }
            let shrink = exp2((before - most) * unit);
            rows.sums[i].iter_mut().for_each(|sum| *sum *= shrink);
            if let Some(mixed) = mixed.get_mut(i * width..(i + 1) * width) {
                mixed.iter_mut().for_each(|x| *x *= shrink);
            }
        }
    }

    /// Adds the weights of a tile to the sums.
    pub fn add_up(lanes: &[[f32; LANES]], rows: &mut Rows) {
        for (sum, x) in rows.sums.as_flattened_mut().iter_mut().zip(lanes.as_flattened()) {
            *sum += x;
        }
    }

    /// Scores to weights in each row, adding up; the largest sum of a lane.
    pub fn exponentials(
        scores: &mut [f32], stride: usize, live: Range<usize>, unit: f32, from: &[f32], lanes: &mut Lanes,
    ) -> f32 {
        let mut most = [0.0; LANES];
        for ((scores, lanes), &from) in scores.chunks_exact_mut(stride).zip(lanes).zip(from) {
            let mut sums = [0.0; LANES];
            for scores in scores[live.clone()].as_chunks_mut::<LANES>().0 {
                let own = *scores;
                let weights: [f32; LANES] = std::array::from_fn(|j| exp2((own[j] - from) * unit));
                *scores = weights;
                for j in 0..LANES {
                    sums[j] += weights[j];
                }
            }
            for j in 0..LANES {
                most[j] = larger(most[j], sums[j]);
            }
            *lanes = sums;
        }
        max_lanes(most)
    }

    /// The sum of each row.
    pub fn sums_of(lanes: &Lanes, out: &mut [f32; QUERIES]) {
        for (lanes, out) in lanes.iter().zip(out) {
            *out = sum_lanes(*lanes);
        }
    }

    /// Mixtures of weights to mixtures: over their sums, 0 without a key.
    pub fn divide(mixed: &mut [f32], width: usize, sum: &[f32; QUERIES]) {
        for (mixed, &sum) in mixed.chunks_exact_mut(width.max(1)).zip(sum) {
            if sum > 0.0 {
                for x in mixed {
                    *x /= sum;
                }
            }
        }
    }

    /// log Σ exp(factor · score) of each row.
    pub fn log_sum_exp(most: &[f32; QUERIES], factor: f32, sum: &[f32; QUERIES], out: &mut [f32; QUERIES]) {
        for i in 0..QUERIES {
            // Without keys, −∞ and not 0 · −∞.
            let most = if most[i] == f32::NEG_INFINITY { most[i] } else { most[i] * factor };
            out[i] = most + math::log(sum[i]);
        }
    }
}
