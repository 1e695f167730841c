//! The gradient of a bias by distance on the CPU: score gradients of a tile, summed for each distance or into
//! a slope.

use super::cpu_rows::KeyTile;
use super::cpu_score_gradient::Tiles;
use super::cpu_tile::{Buffers, KEYS, Pair, QUERIES};
use regard_device::{Level, Operand, reduce};

/// How the gradient of a bias is summed.
#[derive(Clone, Copy)]
pub enum Bias {
    /// One number for each distance.
    ByDistance,
    /// One number: the slope of ALiBi.
    Slope,
}

impl<T: Operand> Tiles<'_, T> {
    /// Adds turned score gradients to a table by distance, or to the slope.
    pub fn add_table(
        &self,
        pair: Pair,
        tile: usize,
        at: usize,
        buffers: &Buffers<'_>,
        bias: Bias,
        part: &mut [f32],
    ) {
        let terms = self.terms;
        let (_, start) = self.layout.place(pair, at);
        let keys = terms.key_tile::<KEYS>(pair.b, tile * KEYS);
        let count = QUERIES.min(self.layout.extent.t - start);
        for (i, ds) in buffers.turned.as_chunks::<KEYS>().0.iter().take(count).enumerate() {
            let query = terms.allowed.query_at(pair.b, start + i) as i64;
            match bias {
                Bias::Slope => {
                    let away = keys.position.map(|at| -((at as i64 - query).unsigned_abs() as f32));
                    part[0] += reduce::dot(self.call.level, &away, ds);
                }
                Bias::ByDistance => add_by_distance(self.call.level, &keys, query, ds, part),
            }
        }
    }
}

/// Adds a row of score gradients by distance; what lies beyond the ends of the table is summed up first.
fn add_by_distance(level: Level, keys: &KeyTile<KEYS>, query: i64, ds: &[f32; KEYS], part: &mut [f32]) {
    let (reach, last) = ((part.len() / 2) as i64, part.len() - 1);
    let first = keys.position[0] as i64 - query;
    if !keys.consecutive {
        for (&at, ds) in keys.position.iter().zip(ds) {
            part[((at as i64 - query).clamp(-reach, reach) + reach) as usize] += ds;
        }
        return;
    }
    let below = (-reach - first).clamp(0, KEYS as i64) as usize;
    let above = (reach + 1 - first).clamp(below as i64, KEYS as i64) as usize;
    if below > 0 {
        part[0] += reduce::sum(level, &ds[..below]);
    }
    if below < above {
        let from = (first + below as i64 + reach) as usize;
        part[from..].iter_mut().zip(&ds[below..above]).for_each(|(sum, ds)| *sum += ds);
    }
    if above < KEYS {
        part[last] += reduce::sum(level, &ds[above..]);
    }
}
