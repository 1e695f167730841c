//! How the forward on the CPU shares its work out among threads, and how that work lies in their scratch.
//!
//! Keys and values are packed once for all tiles of queries, by the thread that attends to them where there
//! are many short sequences. Where there are few queries that would cost more than they do: then each head
//! packs only the keys and values that are alive, tile by tile, in its thread's own scratch.

use super::cpu_rows::carve;
use super::form::Extent;
use regard_device::{Operand, PANEL};
use std::ops::Range;

/// Keys of a tile: part of the result's meaning, for sums run over whole tiles.
pub const KEYS: usize = 256;
/// Queries of a tile: as many as a panel has keys, so that under a causal mask a tile has hardly more keys
/// than it needs.
pub const QUERIES: usize = 32;

/// So many queries, or fewer, read keys and values without packing all of them first.
pub const FEW: usize = 4;

/// How the scratch of one key/value head is laid out: for each tile of keys, panels of Kᵀ, then of V.
#[derive(Clone, Copy)]
pub struct Packs {
    pub key: usize,
    value: usize,
    pub tiles: usize,
}

impl Packs {
    pub fn new<T: Operand>(extent: &Extent) -> Self {
        let (key, value) = (T::panel_numbers(extent.d, KEYS), T::panel_numbers(KEYS, extent.e));
        Packs { key: T::floats(key), value: T::floats(value), tiles: extent.s.div_ceil(KEYS) }
    }

    /// Floats of one key/value head.
    pub fn floats(&self) -> usize {
        self.tiles * (self.key + self.value)
    }

    /// Keys that are packed of a tile: whole panels.
    pub fn keys(extent: &Extent, tile: usize) -> usize {
        KEYS.min(extent.s - tile * KEYS).next_multiple_of(PANEL)
    }

    pub fn tile(&self, pair: usize, tile: usize) -> Range<usize> {
        let start = (pair * self.tiles + tile) * (self.key + self.value);
        start..start + self.key + self.value
    }
}

/// How the work is shared out among threads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// By heads; each packs only the keys and values that are alive, tile by tile: for few queries.
    Few,
    /// By key/value heads, each packed by the thread that attends to it: for many short sequences.
    Heads,
    /// So many key/value heads at a time, packed by all threads and then shared out by tiles of queries.
    Waves(usize),
}

/// The most floats of a head that a thread packs for itself: what the second cache holds.
const MOST_OF_HEAD: usize = 1 << 17;

impl Sharing {
    pub fn new(extent: &Extent, packs: &Packs, threads: usize) -> Self {
        /// So many heads for each thread, or more, keep all of them busy to the end.
        const ENOUGH: usize = 8;
        let pairs = extent.b * extent.g;
        match extent.t {
            ..=FEW => Sharing::Few,
            _ if pairs >= ENOUGH * threads && packs.floats() <= MOST_OF_HEAD => Sharing::Heads,
            _ => Sharing::Waves(Sharing::wave(pairs, threads)),
        }
    }

    fn wave(pairs: usize, threads: usize) -> usize {
        pairs.min(4 * threads).max(1)
    }

    /// Floats of the panels that all threads share. A plan is made for the largest sizes and has room for all
    /// smaller ones, which may be shared out otherwise: fewer sequences go in waves where many go by heads.
    pub fn shared_floats(extent: &Extent, packs: &Packs, threads: usize) -> usize {
        if extent.t <= FEW { 0 } else { Sharing::wave(extent.b * extent.g, threads) * packs.floats() }
    }

    /// Floats of a thread's own scratch, as [`Buffers`] cuts it: room for any of them, too.
    pub fn thread_floats<T: Operand>(extent: &Extent, packs: &Packs) -> [usize; 5] {
        let rows = FEW * KEYS + KEYS.max(QUERIES) * extent.d.max(extent.e);
        let tile = QUERIES * KEYS;
        let own = if extent.t <= FEW { 0 } else { packs.floats().min(MOST_OF_HEAD) };
        let panels = own.max(packs.tile(0, 0).len());
        let query = T::floats(QUERIES * T::stride(extent.d));
        [query, tile.max(rows), T::floats(tile), QUERIES * extent.e, panels]
    }
}

/// A thread's own scratch.
pub struct Buffers<'a> {
    pub query: &'a mut [f32],
    /// Scores, then weights. Rows on their way into panels borrow their place, behind those of few queries.
    pub scores: &'a mut [f32],
    /// Rounded weights.
    pub room: &'a mut [f32],
    pub mixed: &'a mut [f32],
    /// Of one tile, or of a head.
    pub panels: &'a mut [f32],
}

impl<'a> Buffers<'a> {
    pub fn new(scratch: &'a mut [f32], floats: [usize; 5]) -> Self {
        let [query, scores, room, mixed, panels] = carve(scratch, floats);
        Buffers { query, scores, room, mixed, panels }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plan is made once, for the largest batch and the longest texts; whatever comes must find room in it.
    #[test]
    fn the_scratch_of_a_plan_is_enough_for_all_smaller_sizes() {
        let sizes = [0, 1, 4, 5, 31, 64, 300, 2000];
        let extent = |b, t, s| Extent { b, t, s, h: 4, g: 2, d: 32, e: 32, rows: b };
        let room = |extent: Extent, threads| {
            let packs = Packs::new::<f32>(&extent);
            // What each takes, as `run_in` uses it.
            let sharing = Sharing::new(&extent, &packs, threads);
            let (shared, own) = match sharing {
                Sharing::Few => (0, packs.tile(0, 0).len()),
                Sharing::Heads => (0, packs.floats()),
                Sharing::Waves(wave) => (wave * packs.floats(), 0),
            };
            let floats = Sharing::thread_floats::<f32>(&extent, &packs);
            let given = (Sharing::shared_floats(&extent, &packs, threads), floats[4]);
            assert!(shared <= given.0 && own <= given.1, "{threads} threads");
            (given.0, floats)
        };
        for threads in [1, 2, 16] {
            for (largest_b, largest_t) in [(1, 300), (8, 4), (64, 64), (300, 5), (64, 2000)] {
                let (shared, own) = room(extent(largest_b, largest_t, 2000), threads);
                for b in sizes.into_iter().filter(|&b| b <= largest_b) {
                    for t in sizes.into_iter().filter(|&t| t <= largest_t) {
                        for s in sizes {
                            let (less, floats) = room(extent(b, t, s), threads);
                            assert!(
                                less <= shared,
                                "{b} {t} {s} of {largest_b} {largest_t}, {threads} threads"
                            );
                            assert!(
                                floats.iter().zip(own).all(|(less, most)| *less <= most),
                                "{floats:?} of {own:?}"
                            );
                        }
                    }
                }
            }
        }
    }
}
