//! The online softmax of a tile on the CPU, in passes over all its rows: the largest scores, the weights, their sums.
//! What a row adds up to is left in lanes and brought together afterwards, so that the loops over keys stay whole
//! vectors. Each row's arithmetic is its own.

use super::cpu::QUERIES;
use super::cpu_rows::exp_below;
use regard_device::reduce::{LANES, larger, max_lanes, sum_lanes};
use regard_device::{math, multiversion};
use std::ops::Range;

/// A number in each lane of each row.
pub type Lanes = [[f32; LANES]; QUERIES];

/// What is known of the rows of a tile of queries after some tiles of keys.
pub struct Rows {
    /// The largest score.
    pub most: [f32; QUERIES],
    /// Σ exp(score − most).
    pub sum: [f32; QUERIES],
    /// The first key with the largest score, for hard attention.
    pub choice: [i32; QUERIES],
    /// What is taken from the scores of this tile: the largest; 0 in a row without keys so far, where everything is
    /// exp(−∞) = 0.
    pub from: [f32; QUERIES],
    /// What sums over earlier tiles shrink by.
    pub shrink: [f32; QUERIES],
}

impl Rows {
    pub fn new() -> Self {
        let zeros = [0.0; QUERIES];
        Rows {
            most: [f32::NEG_INFINITY; QUERIES],
            sum: zeros,
            choice: [-1; QUERIES],
            from: zeros,
            shrink: zeros,
        }
    }
}

multiversion! {
    /// The largest factor · dot of each row; rows are `stride` apart.
    pub fn largest(scores: &[f32], stride: usize, live: Range<usize>, factor: f32, lanes: &mut Lanes) {
        for (scores, lanes) in scores.chunks_exact(stride).zip(lanes) {
            let mut most = [f32::NEG_INFINITY; LANES];
            for scores in scores[live.clone()].as_chunks::<LANES>().0 {
                for j in 0..LANES {
                    most[j] = larger(most[j], scores[j] * factor);
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

    /// The same where only keys that exist, between two positions, are allowed.
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

    /// Takes in the largest scores of a tile.
    pub fn raise(tile_most: &[f32; QUERIES], rows: &mut Rows) {
        for (i, &tile_most) in tile_most.iter().enumerate() {
            let most = larger(rows.most[i], tile_most);
            rows.from[i] = if most == f32::NEG_INFINITY { 0.0 } else { most };
            rows.shrink[i] = exp_below(rows.most[i] - rows.from[i]);
            rows.most[i] = most;
        }
    }

    /// factor · dot to exp(factor · dot − from) in each row, adding up.
    pub fn exponentials(
        scores: &mut [f32], stride: usize, live: Range<usize>, factor: f32, from: &[f32; QUERIES], lanes: &mut Lanes,
    ) {
        for ((scores, lanes), &from) in scores.chunks_exact_mut(stride).zip(lanes).zip(from) {
            let mut sums = [0.0; LANES];
            for scores in scores[live.clone()].as_chunks_mut::<LANES>().0 {
                let dots = *scores;
                let weights: [f32; LANES] = std::array::from_fn(|j| exp_below(dots[j] * factor - from));
                *scores = weights;
                for j in 0..LANES {
                    sums[j] += weights[j];
                }
            }
            *lanes = sums;
        }
    }

    /// Adds the weights of a tile to the sums, from their lanes.
    pub fn add_up(lanes: &[[f32; LANES]], rows: &mut Rows) {
        for ((lanes, sum), shrink) in lanes.iter().zip(&mut rows.sum).zip(&rows.shrink) {
            *sum = sum.mul_add(*shrink, sum_lanes(*lanes));
        }
    }

    /// Shrinks what was mixed from earlier tiles.
    pub fn shrink(mixed: &mut [f32], width: usize, shrink: &[f32; QUERIES]) {
        for (mixed, &shrink) in mixed.chunks_exact_mut(width.max(1)).zip(shrink) {
            if shrink != 1.0 {
                for x in mixed {
                    *x *= shrink;
                }
            }
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

    /// log Σ exp(score) of each row.
    pub fn log_sum_exp(most: &[f32; QUERIES], sum: &[f32; QUERIES], out: &mut [f32; QUERIES]) {
        for i in 0..QUERIES {
            out[i] = most[i] + math::log(sum[i]);
        }
    }
}
