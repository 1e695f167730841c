//! A tile of keys and queries of the backward on the CPU: how packed keys and queries lie in scratch, and
//! what a thread holds of the tile that it works on.

use super::cpu_live::Live;
use super::form::Extent;
use regard_device::{Operand, PANEL};

/// Keys of a tile: dq is a sum over tiles of keys.
pub const KEYS: usize = 64;
/// Queries of a tile: dk and dv are sums over tiles of queries.
pub const QUERIES: usize = 128;

/// One key/value head of one example, and the heads that share it.
#[derive(Clone, Copy)]
pub struct Pair {
    pub b: usize,
    pub g: usize,
    pub share: usize,
}

impl Pair {
    pub fn new(extent: &Extent, pair: usize) -> Self {
        Pair { b: pair / extent.g, g: pair % extent.g, share: extent.share() }
    }
}

/// How packed keys and queries lie in scratch.
///
/// A unit of keys: rows of K, of V, and of Kᵀ. A unit of queries: panels of Qᵀ and dYᵀ (for scores and dw),
/// of Q and dY (for dk and dv), the log-sum-exp and the mean of dw.
#[derive(Clone, Copy)]
pub struct Layout {
    pub extent: Extent,
    pub key_tiles: usize,
    pub query_tiles: usize,
    pub key_unit: usize,
    pub query_unit: usize,
    pub key_parts: [usize; 3],
    pub query_parts: [usize; 6],
    pub buffer_parts: [usize; 14],
}

impl Layout {
    /// For products of one type of numbers; all sizes are in f32. `capped` where scores have a soft cap.
    pub fn new<T: Operand>(extent: Extent, capped: bool) -> Self {
        let Extent { d, e, .. } = extent;
        let key_parts = [KEYS * T::stride(d), KEYS * T::stride(e), d * T::stride(KEYS)].map(T::floats);
        let panels = [(d, QUERIES), (e, QUERIES), (QUERIES, d), (QUERIES, e)];
        let [queries_t, dy_t, queries, dy] = panels.map(|(k, n)| T::floats(T::panel_numbers(k, n)));
        let query_parts = [queries_t, dy_t, queries, dy, QUERIES, QUERIES];
        let key_unit = key_parts.iter().sum();
        let (tile, rows) = (KEYS * QUERIES, 2 * QUERIES.max(KEYS) * d.max(e));
        let (room, panels) = (T::floats(tile), T::floats(T::panel_numbers(KEYS, QUERIES)));
        let (key, value) = (KEYS * d, KEYS * e);
        let slopes = if capped { tile } else { 0 };
        let buffer_parts = [
            tile,
            tile,
            tile,
            tile,
            tile,
            room,
            panels,
            rows,
            key,
            key,
            value,
            QUERIES * d,
            key_unit,
            slopes,
        ];
        Layout {
            extent,
            key_tiles: extent.s.div_ceil(KEYS),
            query_tiles: extent.t.div_ceil(QUERIES),
            key_unit,
            query_unit: query_parts.iter().sum(),
            key_parts,
            query_parts,
            buffer_parts,
        }
    }

    /// The head and the first query of a unit: units of one pair are numbered head by head.
    pub fn place(&self, pair: Pair, at: usize) -> (usize, usize) {
        (pair.g * pair.share + at / self.query_tiles, at % self.query_tiles * QUERIES)
    }
}

pub fn cut<const N: usize>(mut unit: &[f32], parts: [usize; N]) -> [&[f32]; N] {
    parts.map(|length| {
        let (part, rest) = unit.split_at(length);
        unit = rest;
        part
    })
}

pub fn cut_mut<const N: usize>(mut unit: &mut [f32], parts: [usize; N]) -> [&mut [f32]; N] {
    parts.map(|length| {
        let (part, rest) = std::mem::take(&mut unit).split_at_mut(length);
        unit = rest;
        part
    })
}

/// A thread's buffers for one tile.
pub struct Buffers<'a> {
    /// Weights, a key to a row: what dv is made from.
    pub weights: &'a mut [f32],
    /// Score gradients, a key to a row.
    pub scores: &'a mut [f32],
    pub added: &'a mut [f32],
    pub kept: &'a mut [f32],
    /// Score gradients, a query to a row.
    pub turned: &'a mut [f32],
    /// Weights or score gradients, rounded for a product.
    pub room: &'a mut [f32],
    /// Score gradients as panels.
    pub panels: &'a mut [f32],
    /// Rows on their way into panels.
    pub rows: &'a mut [f32],
    /// Of one head, before scaling by β.
    pub dk_of_head: &'a mut [f32],
    pub dk: &'a mut [f32],
    pub dv: &'a mut [f32],
    /// A tile of dqᵀ.
    pub dq: &'a mut [f32],
    /// A unit of keys, where they are not all packed beforehand.
    pub unit: &'a mut [f32],
    /// How fast capped scores still grow, a key to a row; empty where nothing is capped.
    pub slopes: &'a mut [f32],
    /// The part of the tile that is not all zeros.
    pub live: Live,
    /// Whether the score gradients lie in the panels already.
    pub in_panels: bool,
}

pub fn buffer_floats(layout: &Layout) -> usize {
    layout.buffer_parts.iter().sum()
}

impl<'a> Buffers<'a> {
    pub fn new(scratch: &'a mut [f32], layout: &Layout) -> Self {
        let [weights, scores, added, kept, turned, room, panels, rows, dk_of_head, dk, dv, dq, unit, slopes] =
            cut_mut(scratch, layout.buffer_parts);
        let live = Live::ALL;
        Buffers {
            weights,
            scores,
            added,
            kept,
            turned,
            room,
            panels,
            rows,
            dk_of_head,
            dk,
            dv,
            dq,
            unit,
            slopes,
            live,
            in_panels: false,
        }
    }

    /// dk and dv begin at 0.
    pub fn clear(&mut self) {
        self.dk_of_head.fill(0.0);
        self.dk.fill(0.0);
        self.dv.fill(0.0);
    }

    /// Adds dk of a head, which is whole now, to that of the heads that share its keys.
    pub fn finish_head(&mut self, factor: f32) {
        for (sum, own) in self.dk.iter_mut().zip(self.dk_of_head.iter_mut()) {
            *sum += *own * factor;
            *own = 0.0;
        }
    }

    /// Score gradients, turned from a key to a row to a query to a row, eight by eight.
    pub fn turn(&mut self) {
        const SIDE: usize = 8;
        for j in (0..KEYS).step_by(SIDE) {
            for i in (0..QUERIES).step_by(SIDE) {
                for column in 0..SIDE {
                    let from = &self.scores[(j + column) * QUERIES + i..][..SIDE];
                    for (row, &x) in from.iter().enumerate() {
                        self.turned[(i + row) * KEYS + j + column] = x;
                    }
                }
            }
        }
    }
}

/// Where the score gradient of a key and a query lies in panels of f32.
#[inline(always)]
pub fn panel_place(key: usize, query: usize) -> usize {
    (query / PANEL * KEYS + key) * PANEL + query % PANEL
}
