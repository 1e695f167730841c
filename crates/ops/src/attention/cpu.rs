//! The forward on the CPU: tiles of queries against tiles of keys, an online softmax.
//!
//! Keys are walked in tiles that begin at key 0, in increasing order, and each row's arithmetic is its own. A
//! tile without an allowed key would multiply by exactly 1 and add exactly 0, so that skipping it changes no
//! bit: one query against a cache gives the bits of that row of the whole sequence, padded or not.
//!
//! Keys and values are packed once for all tiles of queries. Where there are few queries that would cost more than they do:
//! then each head turns the keys that are alive, and reads the values as they lie.

#![allow(unsafe_code)]

use super::cpu_rows::{Terms, by_distance_floats, carve, carved_bytes, exp_below};
use super::form::{Extent, Extra, Form};
use super::mask::Cover;
use crate::{CpuCall, Fault, Needs, Request};
use regard_device::reduce::{LANES, larger, max_lanes, sum_lanes};
use regard_device::{Disjoint, Matrix, Operand, PANEL, math, multiversion};
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
    fn new(extent: &Extent) -> Self {
        let tiles = extent.s.div_ceil(KEYS);
        Packs { key: f32::panel_numbers(extent.d, KEYS), value: f32::panel_numbers(KEYS, extent.e), tiles }
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

/// Floats of a thread's own scratch: queries, scores, sums; for few queries, panels of Kᵀ. Rows on their way into panels
/// borrow the place of the scores, behind those of few queries.
fn thread_floats(extent: &Extent) -> [usize; 4] {
    let rows = FEW * KEYS + KEYS * extent.d.max(extent.e);
    let panels = f32::panel_numbers(extent.d, KEYS);
    [QUERIES * extent.d, (QUERIES * KEYS).max(rows), QUERIES * extent.e, panels]
}

pub fn needs(form: &Form, request: &Request<'_>) -> Needs {
    let dims = request.call.inputs;
    let extent = Extent::new(dims[0], dims[1], Some(dims[2]));
    let table = by_distance_floats(form, extent.h, form.place(3, Extra::Bias).map(|input| dims[input]));
    let packs = match extent.t {
        ..=FEW => 0,
        _ => Packs::new(&extent).floats() * wave(&extent, request.threads),
    };
    Needs {
        scratch: carved_bytes([table, packs]),
        thread_scratch: carved_bytes(thread_floats(&extent)),
        packs: Vec::new(),
    }
}

pub fn run(form: &Form, call: &CpuCall<'_>) -> Result<(), Fault> {
    let extent = Extent::new(call.dims(0), call.dims(1), Some(call.dims(2)));
    let table = by_distance_floats(form, extent.h, form.place(3, Extra::Bias).map(|input| call.dims(input)));
    let packs = Packs::new(&extent);
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
            attend(&terms, call, head, 0, None, &packs, worker, choice.as_ref());
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
            pack(&terms, call, first + pair, tile, panels, worker, &packs);
        });
        let tiles = extent.t.div_ceil(QUERIES);
        let packed = &*packed;
        call.pool.run(count * extent.share() * tiles, &|task, worker| {
            let (pair, rest) = (task / (extent.share() * tiles), task % (extent.share() * tiles));
            let (b, g) = ((first + pair) / extent.g, (first + pair) % extent.g);
            // The last queries have the most keys under a causal mask: they go first.
            let (h, tile) = (g * extent.share() + rest % extent.share(), tiles - 1 - rest / extent.share());
            let panels = &packed[packs.tile(pair, 0).start..][..packs.floats()];
            attend(&terms, call, (b, h), tile * QUERIES, Some(panels), &packs, worker, choice.as_ref());
        });
    }
    Ok(())
}

/// Packs one tile of one key/value head. Keys that do not exist become zeros, whatever lies there.
fn pack(
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
    let [_, rows, _, _] = carve(scratch, thread_floats(&terms.extent));
    let keys = terms.key_tile::<KEYS>(b, tile * KEYS);
    let (key_panels, value_panels) = panels.split_at_mut(packs.key);
    terms.load_keys(call, 1, (b, g), &keys, &mut rows[..KEYS * d]);
    f32::panels(call.level, Matrix::transposed(&rows[..KEYS * d], d), d, KEYS, key_panels);
    terms.load_keys(call, 2, (b, g), &keys, &mut rows[..KEYS * e]);
    f32::panels(call.level, Matrix::rows(&rows[..KEYS * e], e), KEYS, e, value_panels);
}

/// What is known of a row after some tiles of keys.
#[derive(Clone, Copy)]
struct Row {
    /// The largest score.
    most: f32,
    /// Σ exp(score − most).
    sum: f32,
    /// The first key with the largest score, for hard attention.
    choice: i32,
}

/// One tile of queries of one head against all keys, which lie in panels unless the queries are few.
#[allow(clippy::too_many_arguments)]
fn attend(
    terms: &Terms<'_>,
    call: &CpuCall<'_>,
    (b, h): (usize, usize),
    start: usize,
    panels: Option<&[f32]>,
    packs: &Packs,
    worker: usize,
    choice: Option<&Disjoint<'_, i32>>,
) {
    let extent = terms.extent;
    let count = QUERIES.min(extent.t - start);
    let (hard, dropout) = (terms.form.kind.is_hard(), terms.random.dropout.is_some());
    // SAFETY: one task at a time on this worker.
    let scratch = unsafe { call.thread_scratch_f32(worker) };
    let [query, scores, mixed, own_panels] = carve(scratch, thread_floats(&extent));
    // Only rows of few queries leave room behind the scores.
    let (scores, loaded) = scores.split_at_mut(if panels.is_none() { FEW * KEYS } else { QUERIES * KEYS });
    let pair = (b, h / extent.share());
    let (query, mixed) = (&mut query[..count * extent.d], &mut mixed[..count * extent.e]);
    terms.load_queries(call, 0, (b, h), start, query);
    mixed.fill(0.0);
    let mut rows = [Row { most: f32::NEG_INFINITY, sum: 0.0, choice: -1 }; QUERIES];
    let factor = terms.factor(h);
    let (mut added, mut kept) = ([0.0; KEYS], [1.0; KEYS]);
    for tile in 0..packs.tiles {
        let keys = tile * KEYS..((tile + 1) * KEYS).min(extent.s);
        let mut cover = terms.allowed.cover(b, h, start..start + count, keys.clone());
        if cover == Cover::Nothing {
            continue;
        }
        let keys = terms.key_tile::<KEYS>(b, keys.start);
        if !keys.whole {
            cover = Cover::Part;
        }
        // Keys that no query of the tile attends to are left out, panel by panel: they would add exactly 0.
        let live = if cover == Cover::All { 0..KEYS } else { terms.live(b, start..start + count, &keys) };
        let (length, d, e) = (live.len(), extent.d, extent.e);
        if length == 0 {
            continue;
        }
        let (key_panels, value_panels) = match panels {
            Some(panels) => {
                let (keys, values) = panels[packs.tile(0, tile)].split_at(packs.key);
                (&keys[live.start * d..], Some(values))
            }
            None => {
                let loaded = &mut loaded[..length * d];
                terms.load_some_keys(call, 1, pair, &keys, live.clone(), loaded);
                f32::panels(call.level, Matrix::transposed(&*loaded, d), d, length, own_panels);
                (&*own_panels, None)
            }
        };
        f32::block(
            call.level,
            count,
            length,
            d,
            query,
            d,
            key_panels,
            &mut scores[live.start..],
            KEYS,
            false,
        );
        let adds = terms.adds(cover);
        for (i, scores) in scores.as_chunks_mut::<KEYS>().0.iter_mut().take(count).enumerate() {
            let (row, at, scores) = (&mut rows[i], (b, h, start + i), &mut scores[live.clone()]);
            let most = if adds {
                terms.additive(at, &keys, cover, &mut added);
                scale_and_add(call.level, scores, factor, &added[live.clone()])
            } else {
                scale(call.level, scores, factor)
            };
            if hard && most > row.most {
                let first = scores.iter().position(|&score| score == most);
                row.choice = (keys.start + live.start + first.unwrap_or(0)) as i32;
            }
            let shrink = exponentials(call.level, scores, most, &mut row.most, &mut row.sum);
            if shrink != 1.0 && !hard {
                mixed[i * e..(i + 1) * e].iter_mut().for_each(|x| *x *= shrink);
            }
            if dropout && !hard {
                terms.keep(at, &keys, &mut kept);
                scores.iter_mut().zip(&kept[live.clone()]).for_each(|(score, keep)| *score *= keep);
            }
        }
        if hard {
            continue;
        }
        if let Some(value_panels) = value_panels {
            for (panel, values) in value_panels.chunks_exact(KEYS * PANEL).enumerate() {
                let (scores, values) = (&scores[live.start..], &values[live.start * PANEL..]);
                let (columns, mixed) = (PANEL.min(e - panel * PANEL), &mut mixed[panel * PANEL..]);
                f32::block(call.level, count, columns, length, scores, KEYS, values, mixed, e, true);
            }
            continue;
        }
        let loaded = &mut loaded[..length * e];
        terms.load_some_keys(call, 2, pair, &keys, live.clone(), loaded);
        for (i, mixed) in mixed.chunks_exact_mut(e.max(1)).enumerate() {
            mix(call.level, &scores[i * KEYS..][live.clone()], loaded, mixed);
        }
    }
    for (i, row) in rows.iter().take(count).enumerate() {
        let (at, mixed) = (extent.row(b, start + i, h), &mut mixed[i * extent.e..(i + 1) * extent.e]);
        if hard {
            mix_chosen(terms, call, (b, h, start + i), row.choice, mixed);
        } else if row.sum > 0.0 {
            mixed.iter_mut().for_each(|x| *x /= row.sum);
        }
        if call.wants(0) {
            call.store(0, at * extent.e..(at + 1) * extent.e, mixed);
        }
        if call.wants(1) {
            call.store(1, at..at + 1, &[row.most + math::log(row.sum)]);
        }
        if let Some(choice) = choice {
            // SAFETY: each row belongs to one task.
            let choice = unsafe { choice.range(at..at + 1) };
            choice[0] = row.choice;
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

/// Columns of values that are mixed at a time: enough chains to hide the latency of a multiply-add.
const COLUMNS: usize = 64;

multiversion! {
    /// mixed += Σ weight · value over the keys: the chain of the product with panels, from 0 and in order of the keys.
    fn mix(weights: &[f32], values: &[f32], mixed: &mut [f32]) {
        let width = mixed.len();
        let (wide, rest) = mixed.as_chunks_mut::<COLUMNS>();
        for (part, mixed) in wide.iter_mut().enumerate() {
            let mut sums = [0.0; COLUMNS];
            for (weight, row) in weights.iter().zip(values.chunks_exact(width)) {
                if let Some(row) = row[part * COLUMNS..].first_chunk::<COLUMNS>() {
                    for j in 0..COLUMNS {
                        sums[j] = weight.mul_add(row[j], sums[j]);
                    }
                }
            }
            for j in 0..COLUMNS {
                mixed[j] += sums[j];
            }
        }
        let first = width - rest.len();
        let mut sums = [0.0; COLUMNS];
        for (weight, row) in weights.iter().zip(values.chunks_exact(width)) {
            for (sum, value) in sums.iter_mut().zip(&row[first..]) {
                *sum = weight.mul_add(*value, *sum);
            }
        }
        for (mixed, sum) in rest.iter_mut().zip(&sums) {
            *mixed += sum;
        }
    }

    /// score = factor · dot; the largest.
    fn scale(scores: &mut [f32], factor: f32) -> f32 {
        let mut most = [f32::NEG_INFINITY; LANES];
        for scores in scores.as_chunks_mut::<LANES>().0 {
            for j in 0..LANES {
                scores[j] *= factor;
                most[j] = larger(most[j], scores[j]);
            }
        }
        max_lanes(most)
    }

    /// score = factor · dot + added, −∞ where that is added, whatever the dot; the largest.
    fn scale_and_add(scores: &mut [f32], factor: f32, added: &[f32]) -> f32 {
        let mut most = [f32::NEG_INFINITY; LANES];
        for (scores, added) in scores.as_chunks_mut::<LANES>().0.iter_mut().zip(added.as_chunks::<LANES>().0) {
            for j in 0..LANES {
                let score = scores[j].mul_add(factor, added[j]);
                scores[j] = if added[j] == f32::NEG_INFINITY { f32::NEG_INFINITY } else { score };
                most[j] = larger(most[j], scores[j]);
            }
        }
        max_lanes(most)
    }

    /// Scores to exp(score − most), adding up; returns by what earlier sums shrink.
    fn exponentials(scores: &mut [f32], tile_most: f32, most: &mut f32, sum: &mut f32) -> f32 {
        let new = larger(*most, tile_most);
        // Of a row without keys so far, everything is exp(−∞) = 0.
        let from = if new == f32::NEG_INFINITY { 0.0 } else { new };
        let mut sums = [0.0; LANES];
        for scores in scores.as_chunks_mut::<LANES>().0 {
            for j in 0..LANES {
                scores[j] = exp_below(scores[j] - from);
                sums[j] += scores[j];
            }
        }
        let shrink = exp_below(*most - from);
        *sum = sum.mul_add(shrink, sum_lanes(sums));
        *most = new;
        shrink
    }
}
