//! The forward on the CPU: tiles of queries against tiles of keys, an online softmax.
//!
//! Keys are walked in tiles that begin at key 0, in increasing order, and each row's arithmetic is its own. A
//! tile without an allowed key would multiply by exactly 1 and add exactly 0, so that skipping it changes no
//! bit: one query against a cache gives the bits of that row of the whole sequence, padded or not.
//!
//! In bf16 both products are of bf16, with the weights rounded on their way to the values; their sum is of the
//! unrounded ones.
//!
//! Keys and values are packed once for all tiles of queries. Where there are few queries that would cost more than they do:
//! then each head packs only the keys and values that are alive, tile by tile, in its thread's own scratch.

#![allow(unsafe_code)]

use super::cpu_rows::{Terms, by_distance_floats, carve, carved_bytes};
use super::cpu_softmax::{
    Rows, add_up, exponentials, largest, most_of, raise, scale_and_add, scale_within, shrink,
};
use super::form::{Extent, Extra, Form};
use super::mask::Cover;
use crate::{CpuCall, Fault, Needs, Request};
use half::bf16;
use regard_device::{Disjoint, Matrix, Operand, PANEL, math, reduce::LANES};
use regard_graph::Precision;
use std::ops::Range;

/// Keys of a tile: part of the result's meaning, for sums run over whole tiles.
pub const KEYS: usize = 128;
/// Queries of a tile: whole strips of twelve for the products.
pub const QUERIES: usize = 48;

/// So many queries, or fewer, read keys and values without packing all of them first.
const FEW: usize = 4;

/// How the scratch of one key/value head is laid out: for each tile of keys, panels of Kᵀ, then of V.
#[derive(Clone, Copy)]
struct Packs {
    key: usize,
    value: usize,
    tiles: usize,
}

impl Packs {
    fn new<T: Operand>(extent: &Extent) -> Self {
        let (key, value) = (T::panel_numbers(extent.d, KEYS), T::panel_numbers(KEYS, extent.e));
        Packs { key: T::floats(key), value: T::floats(value), tiles: extent.s.div_ceil(KEYS) }
    }

    /// Floats of one key/value head.
    fn floats(&self) -> usize {
        self.tiles * (self.key + self.value)
    }

    fn tile(&self, pair: usize, tile: usize) -> Range<usize> {
        let start = (pair * self.tiles + tile) * (self.key + self.value);
        start..start + self.key + self.value
    }
}

/// How many key/value heads are packed at a time: enough to keep the threads busy.
fn wave(extent: &Extent, threads: usize) -> usize {
    (extent.b * extent.g).min((4 * threads).max(1)).max(1)
}

/// Floats of a thread's own scratch: queries, scores, rounded weights, sums; for few queries, panels of a tile of keys and of
/// values. Rows on their way into panels borrow the place of the scores, behind those of few queries.
fn thread_floats<T: Operand>(extent: &Extent) -> [usize; 5] {
    let rows = FEW * KEYS + KEYS.max(QUERIES) * extent.d.max(extent.e);
    let tile = QUERIES * KEYS;
    let panels = if extent.t <= FEW { Packs::new::<T>(extent).tile(0, 0).len() } else { 0 };
    [T::floats(QUERIES * T::stride(extent.d)), tile.max(rows), T::floats(tile), QUERIES * extent.e, panels]
}

pub fn needs(form: &Form, request: &Request<'_>) -> Needs {
    match form.precision {
        Precision::F32 => needs_in::<f32>(form, request),
        Precision::Bf16 => needs_in::<bf16>(form, request),
    }
}

fn needs_in<T: Operand>(form: &Form, request: &Request<'_>) -> Needs {
    let dims = request.call.inputs;
    let extent = Extent::new(dims[0], dims[1], Some(dims[2]));
    let table = by_distance_floats(form, extent.h, form.place(3, Extra::Bias).map(|input| dims[input]));
    let packs = match extent.t {
        ..=FEW => 0,
        _ => Packs::new::<T>(&extent).floats() * wave(&extent, request.threads),
    };
    Needs {
        scratch: carved_bytes([table, packs]),
        thread_scratch: carved_bytes(thread_floats::<T>(&extent)),
        packs: Vec::new(),
    }
}

pub fn run(form: &Form, call: &CpuCall<'_>) -> Result<(), Fault> {
    match form.precision {
        Precision::F32 => run_in::<f32>(form, call),
        Precision::Bf16 => run_in::<bf16>(form, call),
    }
}

/// All of it, with products of one type of numbers.
fn run_in<T: Operand>(form: &Form, call: &CpuCall<'_>) -> Result<(), Fault> {
    let extent = Extent::new(call.dims(0), call.dims(1), Some(call.dims(2)));
    let table = by_distance_floats(form, extent.h, form.place(3, Extra::Bias).map(|input| call.dims(input)));
    let packs = Packs::new::<T>(&extent);
    let (pairs, wave) = (extent.b * extent.g, wave(&extent, call.pool.threads()));
    let few = extent.t <= FEW;
    // SAFETY: taken once in this call.
    let scratch = unsafe { call.scratch_f32() };
    let [table, packed] = carve(scratch, [table, if few { 0 } else { packs.floats() * wave }]);
    let terms = Terms::new(form, call, extent, 3, table)?;
    // SAFETY: taken once in this call; tasks write disjoint rows of it.
    let choice = call.wants(2).then(|| Disjoint::new(unsafe { call.out_i32(2) }));
    if few {
        call.pool.run(if extent.t == 0 { 0 } else { extent.b * extent.h }, &|task, worker| {
            let head = (task / extent.h, task % extent.h);
            attend::<T>(&terms, call, head, 0, None, &packs, worker, choice.as_ref());
        });
        return Ok(());
    }
    for first in (0..pairs).step_by(wave) {
        let count = wave.min(pairs - first);
        let panels = Disjoint::new(&mut *packed);
        call.pool.run(count * packs.tiles, &|task, worker| {
            let (pair, tile) = (task / packs.tiles, task % packs.tiles);
            // SAFETY: each task has a tile of its own.
            let panels = unsafe { panels.range(packs.tile(pair, tile)) };
            pack::<T>(&terms, call, first + pair, tile, panels, worker, &packs);
        });
        let tiles = extent.t.div_ceil(QUERIES);
        let packed = &*packed;
        call.pool.run(count * extent.share() * tiles, &|task, worker| {
            let (pair, rest) = (task / (extent.share() * tiles), task % (extent.share() * tiles));
            let (b, g) = ((first + pair) / extent.g, (first + pair) % extent.g);
            // The last queries have the most keys under a causal mask: they go first.
            let (h, tile) = (g * extent.share() + rest % extent.share(), tiles - 1 - rest / extent.share());
            let panels = &packed[packs.tile(pair, 0).start..][..packs.floats()];
            attend::<T>(&terms, call, (b, h), tile * QUERIES, Some(panels), &packs, worker, choice.as_ref());
        });
    }
    Ok(())
}

/// Packs one tile of one key/value head. Keys that do not exist become zeros, whatever lies there.
fn pack<T: Operand>(
    terms: &Terms<'_>,
    call: &CpuCall<'_>,
    pair: usize,
    tile: usize,
    panels: &mut [f32],
    worker: usize,
    packs: &Packs,
) {
    let Extent { g: groups, d, e, .. } = terms.extent;
    let (b, g) = (pair / groups, pair % groups);
    if tile * KEYS >= terms.allowed.end(b) {
        return; // never read
    }
    // SAFETY: one task at a time on this worker.
    let scratch = unsafe { call.thread_scratch_f32(worker) };
    let [_, rows, ..] = carve(scratch, thread_floats::<T>(&terms.extent));
    let keys = terms.key_tile::<KEYS>(b, tile * KEYS);
    let (key_panels, value_panels) = panels.split_at_mut(packs.key);
    terms.load_keys(call, 1, (b, g), &keys, &mut rows[..KEYS * d]);
    T::panels(call.level, Matrix::transposed(&rows[..KEYS * d], d), d, KEYS, T::view_mut(key_panels));
    terms.load_keys(call, 2, (b, g), &keys, &mut rows[..KEYS * e]);
    T::panels(call.level, Matrix::rows(&rows[..KEYS * e], e), KEYS, e, T::view_mut(value_panels));
}

/// One tile of queries of one head against all keys, which lie in panels unless the queries are few.
#[allow(clippy::too_many_arguments)]
fn attend<T: Operand>(
    terms: &Terms<'_>,
    call: &CpuCall<'_>,
    (b, h): (usize, usize),
    start: usize,
    panels: Option<&[f32]>,
    packs: &Packs,
    worker: usize,
    choice: Option<&Disjoint<'_, i32>>,
) {
    let extent @ Extent { d, e, .. } = terms.extent;
    let (level, count) = (call.level, QUERIES.min(extent.t - start));
    let (hard, dropout) = (terms.form.kind.is_hard(), terms.random.dropout.is_some());
    // SAFETY: one task at a time on this worker.
    let scratch = unsafe { call.thread_scratch_f32(worker) };
    let [query, scores, room, mixed, own] = carve(scratch, thread_floats::<T>(&extent));
    let (query, room, mixed) = (T::view_mut(query), T::view_mut(room), &mut mixed[..count * e]);
    terms.load_queries(call, 0, (b, h), start, &mut scores[..count * d]);
    T::rows(level, Matrix::rows(&scores[..count * d], d), count, d, query);
    mixed.fill(0.0);
    // Only few queries leave room behind the scores.
    let (scores, loaded) = scores.split_at_mut(if panels.is_none() { FEW * KEYS } else { QUERIES * KEYS });
    let pair = (b, h / extent.share());
    let (mut rows, factor) = (Rows::new(), terms.factor(h));
    let (mut added, mut kept, mut tile_most) = ([0.0; KEYS], [1.0; KEYS], [0.0; QUERIES]);
    let mut lanes = [[0.0; LANES]; QUERIES];
    for tile in 0..packs.tiles {
        let range = tile * KEYS..((tile + 1) * KEYS).min(extent.s);
        let mut cover = terms.allowed.cover(b, h, start..start + count, range.clone());
        if cover == Cover::Nothing {
            continue;
        }
        if range.len() < KEYS {
            cover = Cover::Part;
        }
        let adds = terms.adds(cover);
        let keys = (adds || dropout).then(|| terms.key_tile::<KEYS>(b, range.start));
        // Keys that no query of the tile attends to are left out, panel by panel: they would add exactly 0.
        let live = match &keys {
            Some(keys) if cover != Cover::All => terms.live(b, start..start + count, keys),
            _ => 0..KEYS,
        };
        let length = live.len();
        if length == 0 {
            continue;
        }
        // Where the tile's own keys begin in its panels, and how many its panels of values have.
        let (panels, first, packed) = match panels {
            Some(panels) => (&panels[packs.tile(0, tile)], live.start, KEYS),
            None => {
                let keys = &terms.key_tile::<KEYS>(b, range.start);
                let (key_panels, value_panels) = own.split_at_mut(packs.key);
                let (k, v) = (T::view_mut(key_panels), T::view_mut(value_panels));
                terms.load_some_keys(call, 1, pair, keys, live.clone(), &mut loaded[..length * d]);
                T::panels(level, Matrix::transposed(&loaded[..length * d], d), d, length, k);
                terms.load_some_keys(call, 2, pair, keys, live.clone(), &mut loaded[..length * e]);
                T::panels(level, Matrix::rows(&loaded[..length * e], e), length, e, v);
                (&*own, 0, length)
            }
        };
        let (key_panels, value_panels) = panels.split_at(packs.key);
        let (key_panels, value_panels) = (T::view(key_panels), T::view(value_panels));
        let key_panels = &key_panels[T::panel_numbers(d, first)..];
        let out = &mut scores[live.start..];
        T::block(level, count, length, d, query, T::stride(d), key_panels, out, KEYS, false);
        let scores_of = scores.as_chunks_mut::<KEYS>().0;
        let scores_of = &mut scores_of[..count];
        let mut factor = factor;
        match keys.as_ref().filter(|_| adds) {
            None => largest(level, scores_of, live.clone(), factor, &mut lanes),
            Some(keys) => {
                for (i, (scores, lanes)) in scores_of.iter_mut().zip(&mut lanes).enumerate() {
                    let scores = &mut scores[live.clone()];
                    if terms.adds_ranges() {
                        let (low, high) = terms.allowed.range(terms.allowed.query_at(b, start + i));
                        let (position, exists) = (&keys.position[live.clone()], &keys.exists[live.clone()]);
                        scale_within(level, scores, factor, position, exists, low, high, lanes);
                    } else {
                        terms.additive((b, h, start + i), keys, cover, &mut added);
                        scale_and_add(level, scores, factor, &added[live.clone()], lanes);
                    }
                }
                factor = 1.0; // they are scaled
            }
        }
        most_of(level, &lanes[..count], &mut tile_most);
        if hard {
            for (i, scores) in scores_of.iter().enumerate().filter(|(i, _)| tile_most[*i] > rows.most[*i]) {
                let first = scores[live.clone()].iter().position(|&score| score * factor == tile_most[i]);
                rows.choice[i] = (range.start + live.start + first.unwrap_or(0)) as i32;
            }
        }
        raise(level, &tile_most, &mut rows);
        exponentials(level, scores_of, live.clone(), factor, &rows.from, &mut lanes);
        add_up(level, &lanes[..count], &mut rows);
        if hard {
            continue;
        }
        shrink(level, mixed, e, &rows.shrink);
        if let Some(keys) = keys.as_ref().filter(|_| dropout) {
            for (i, scores) in scores_of.iter_mut().enumerate() {
                terms.keep((b, h, start + i), keys, &mut kept);
                let (scores, kept) = (&mut scores[live.clone()], &kept[live.clone()]);
                scores.iter_mut().zip(kept).for_each(|(score, keep)| *score *= keep);
            }
        }
        let weights = &T::rounded(level, &scores[..count * KEYS], room)[live.start..];
        if length == packed {
            T::block(level, count, e, length, weights, KEYS, value_panels, mixed, e, true);
            continue;
        }
        for (panel, values) in value_panels.chunks_exact(packed * PANEL).enumerate() {
            let (values, mixed) = (&values[first * PANEL..], &mut mixed[panel * PANEL..]);
            let columns = PANEL.min(e - panel * PANEL);
            T::block(level, count, columns, length, weights, KEYS, values, mixed, e, true);
        }
    }
    for i in 0..count {
        let (at, mixed) = (extent.row(b, start + i, h), &mut mixed[i * e..(i + 1) * e]);
        if hard {
            mix_chosen(terms, call, (b, h, start + i), rows.choice[i], mixed);
        } else if rows.sum[i] > 0.0 {
            mixed.iter_mut().for_each(|x| *x /= rows.sum[i]);
        }
        if call.wants(0) {
            call.store(0, at * e..(at + 1) * e, mixed);
        }
        if call.wants(1) {
            call.store(1, at..at + 1, &[rows.most[i] + math::log(rows.sum[i])]);
        }
        if let Some(choice) = choice {
            // SAFETY: each row belongs to one task.
            let choice = unsafe { choice.range(at..at + 1) };
            choice[0] = rows.choice[i];
        }
    }
}

/// y of a hard row: the chosen value, unless dropout drops it.
fn mix_chosen(
    terms: &Terms<'_>,
    call: &CpuCall<'_>,
    (b, h, t): (usize, usize, usize),
    choice: i32,
    out: &mut [f32],
) {
    let Ok(s) = usize::try_from(choice) else { return };
    let extent = terms.extent;
    let from = ((terms.row_of(b, s) * extent.s + s) * extent.g + h / extent.share()) * extent.e;
    call.load(2, from..from + extent.e, out);
    terms.round(call.dtype(2), out);
    let (query, key) = (terms.allowed.query_at(b, t), terms.allowed.key_at(b, s));
    let keep = terms.random.keep(b, h, query, key) as f32;
    out.iter_mut().for_each(|x| *x *= keep);
}
