//! The forward on the CPU: tiles of queries against tiles of keys, an online softmax.
//!
//! Keys are walked in tiles that begin at key 0, in increasing order, and each row's arithmetic is its own. A
//! tile without an allowed key would multiply by exactly 1 and add exactly 0, so that skipping it changes no
//! bit: one query against a cache gives the bits of that row of the whole sequence, padded or not.
//!
//! In bf16 both products are of bf16, with the weights rounded on their way to the values; their sum is of
//! the unrounded ones.

#![allow(unsafe_code)]

use super::cpu_cap::cap_scores;
use super::cpu_exp::exponentials;
use super::cpu_rows::{KeyTile, Terms, by_distance_floats, carve, carved_bytes, drop_some, turned};
use super::cpu_sharing::{Buffers, FEW, KEYS, Packs, QUERIES, Sharing};
use super::cpu_softmax::{
    Lanes, Rows, TOO_MUCH, add_up, divide, largest, log_sum_exp, most_of, raise, scale_and_add, scale_within,
    sums_of,
};
use super::form::{Extent, Extra, Form};
use super::mask::Cover;
use crate::{CpuCall, Fault, Needs, Request};
use half::bf16;
use regard_device::{Disjoint, Operand, PANEL, reduce::LANES};
use regard_graph::Precision;
use std::ops::Range;

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
    let packs = Packs::new::<T>(&extent);
    Needs {
        scratch: carved_bytes([table, Sharing::shared_floats(&extent, &packs, request.threads)]),
        thread_scratch: carved_bytes(Sharing::thread_floats::<T>(&extent, &packs)),
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
    let sharing = Sharing::new(&extent, &packs, call.pool.threads());
    let floats = Sharing::thread_floats::<T>(&extent, &packs);
    // SAFETY: taken once in this call.
    let scratch = unsafe { call.scratch_f32() };
    let [table, packed] =
        carve(scratch, [table, Sharing::shared_floats(&extent, &packs, call.pool.threads())]);
    let terms = Terms::new(form, call, extent, 3, table)?;
    // SAFETY: taken once in this call; tasks write disjoint rows of it.
    let choice = call.wants(2).then(|| Disjoint::new(unsafe { call.out_i32(2) }));
    let work = Work { terms, call, packs, choice };
    let buffers = |worker: usize| {
        // SAFETY: one task at a time on this worker.
        Buffers::new(unsafe { call.thread_scratch_f32(worker) }, floats)
    };
    let (pairs, share, tiles) = (extent.b * extent.g, extent.share(), extent.t.div_ceil(QUERIES));
    let wave = match sharing {
        Sharing::Few => {
            call.pool.run(if extent.t == 0 { 0 } else { extent.b * extent.h }, &|task, worker| {
                work.attend::<T>((task / extent.h, task % extent.h), 0, None, &mut buffers(worker));
            });
            return Ok(());
        }
        Sharing::Heads => {
            call.pool.run(pairs, &|pair, worker| {
                let mut buffers = buffers(worker);
                let panels = std::mem::take(&mut buffers.panels);
                for tile in 0..packs.tiles {
                    work.pack::<T>(pair, tile, &mut panels[packs.tile(0, tile)], buffers.scores);
                }
                let (b, g) = (pair / extent.g, pair % extent.g);
                for (tile, of) in (0..tiles).flat_map(|tile| (0..share).map(move |of| (tile, of))) {
                    let head = (b, g * share + of);
                    work.attend::<T>(head, tile * QUERIES, Some(panels), &mut buffers);
                }
            });
            return Ok(());
        }
        Sharing::Waves(wave) => wave,
    };
    for first in (0..pairs).step_by(wave) {
        let count = wave.min(pairs - first);
        let panels = Disjoint::new(&mut *packed);
        call.pool.run(count * packs.tiles, &|task, worker| {
            let (pair, tile) = (task / packs.tiles, task % packs.tiles);
            // SAFETY: each task has a tile of its own.
            let panels = unsafe { panels.range(packs.tile(pair, tile)) };
            work.pack::<T>(first + pair, tile, panels, buffers(worker).scores);
        });
        let packed = &*packed;
        call.pool.run(count * share * tiles, &|task, worker| {
            let (pair, rest) = (task / (share * tiles), task % (share * tiles));
            let (b, g) = ((first + pair) / extent.g, (first + pair) % extent.g);
            // The last queries have the most keys under a causal mask: they go first.
            let (h, tile) = (g * share + rest % share, tiles - 1 - rest / share);
            let panels = &packed[packs.tile(pair, 0).start..][..packs.floats()];
            work.attend::<T>((b, h), tile * QUERIES, Some(panels), &mut buffers(worker));
        });
    }
    Ok(())
}

/// A tile of queries of one head on its way past the keys.
struct Tile<'a, T> {
    b: usize,
    h: usize,
    /// The first query, and how many there are.
    start: usize,
    count: usize,
    query: &'a mut [T],
    /// Of one tile of keys, a query to a row: scores, then weights.
    scores: &'a mut [f32],
    /// Rounded weights.
    room: &'a mut [T],
    /// Values, weighed and added up.
    mixed: &'a mut [f32],
    /// What dots are multiplied by before something is added to them, and with the exponentials.
    before: f32,
    after: f32,
    /// `after` for powers of two.
    unit: f32,
    rows: Rows,
    lanes: Lanes,
}

/// The keys of one tile that some of the queries see, from one panel's edge to another.
struct Span {
    /// The first key of the tile.
    start: usize,
    cover: Cover,
    /// Whether anything is added to scores.
    adds: bool,
    keys: Option<KeyTile<KEYS>>,
    live: Range<usize>,
    /// Scores from one query to the next.
    stride: usize,
}

/// The panels of a tile of keys: Kᵀ, then V.
struct Packed<'a> {
    panels: &'a [f32],
    /// Where the live keys begin in them.
    first: usize,
    /// How many keys the panels of V have.
    keys: usize,
}

/// One call.
struct Work<'a> {
    terms: Terms<'a>,
    call: &'a CpuCall<'a>,
    packs: Packs,
    choice: Option<Disjoint<'a, i32>>,
}

impl Work<'_> {
    /// Packs one tile of one key/value head; `rows` is for them on their way. Keys that do not exist become
    /// zeros, whatever lies there.
    fn pack<T: Operand>(&self, pair: usize, tile: usize, panels: &mut [f32], rows: &mut [f32]) {
        let (terms, call, packs) = (&self.terms, self.call, &self.packs);
        let Extent { g: groups, d, e, .. } = terms.extent;
        let (b, g) = (pair / groups, pair % groups);
        if tile * KEYS >= terms.allowed.end(b) {
            return; // never read
        }
        let (keys, count) = (terms.key_tile::<KEYS>(b, tile * KEYS), Packs::keys(&terms.extent, tile));
        let (key_panels, value_panels) = panels.split_at_mut(packs.key);
        let key_rows = turned(terms.keys(call, 1, (b, g), &keys, 0..count, &mut rows[..count * d]));
        T::panels(call.level, key_rows, d, count, T::view_mut(key_panels));
        let value_rows = terms.keys(call, 2, (b, g), &keys, 0..count, &mut rows[..count * e]);
        T::panels(call.level, value_rows, count, e, T::view_mut(value_panels));
    }

    /// One tile of queries of one head against all keys, which lie in panels unless the queries are few.
    fn attend<T: Operand>(
        &self,
        head: (usize, usize),
        start: usize,
        panels: Option<&[f32]>,
        buffers: &mut Buffers<'_>,
    ) {
        let Buffers { query, scores, room, mixed, panels: own } = buffers;
        // Only few queries leave room behind the scores.
        let few = panels.is_none();
        let (mut tile, loaded) = self.begin::<T>(head, start, few, query, scores, room, mixed);
        for at in 0..self.packs.tiles {
            let Some(span) = self.span(&tile, at) else { continue };
            let packed = match panels {
                Some(panels) => Packed {
                    panels: &panels[self.packs.tile(0, at)],
                    first: span.live.start,
                    keys: Packs::keys(&self.terms.extent, at),
                },
                None => self.pack_live::<T>(head, &span, own, loaded),
            };
            self.weigh(&mut tile, &span, &packed);
            if !self.terms.form.kind.is_hard() {
                self.mix(&mut tile, &span, &packed);
            }
        }
        self.finish(tile);
    }

    /// Loads queries, scaled as far as that can be done beforehand. What is left of the scores' place is for
    /// rows of keys on their way into panels.
    #[allow(clippy::too_many_arguments)] // the parts of a thread's buffers
    fn begin<'b, T: Operand>(
        &self,
        (b, h): (usize, usize),
        start: usize,
        few: bool,
        query: &'b mut [f32],
        scores: &'b mut [f32],
        room: &'b mut [f32],
        mixed: &'b mut [f32],
    ) -> (Tile<'b, T>, &'b mut [f32]) {
        let (terms, call) = (&self.terms, self.call);
        let extent @ Extent { d, e, .. } = terms.extent;
        let count = QUERIES.min(extent.t - start);
        let (query, mixed) = (T::view_mut(query), &mut mixed[..count * e]);
        let query_rows = terms.queries(call, 0, (b, h), start, &mut scores[..count * d]);
        T::rows(call.level, query_rows, count, d, query);
        mixed.fill(0.0);
        // Dots are scaled before something is added to them, or else with the exponentials, by a number above
        // 0.
        let (before, after) = match (terms.adds_numbers(), terms.factor(h)) {
            _ if terms.form.cap.is_some() => (terms.outer_factor(h), 1.0),
            (true, factor) => (factor, 1.0),
            (false, 0.0) => {
                query.fill(T::default());
                (1.0, 1.0)
            }
            (false, factor) => {
                if factor < 0.0 {
                    query.iter_mut().for_each(|x| *x = -*x);
                }
                (1.0, factor.abs())
            }
        };
        let unit = (after as f64 * std::f64::consts::LOG2_E) as f32;
        let (scores, loaded) = scores.split_at_mut(if few { FEW * KEYS } else { QUERIES * KEYS });
        let (room, rows, lanes) = (T::view_mut(room), Rows::new(), [[0.0; LANES]; QUERIES]);
        (Tile { b, h, start, count, query, scores, room, mixed, before, after, unit, rows, lanes }, loaded)
    }

    /// The keys of a tile that any of the queries may see; none if there are none.
    fn span<T>(&self, queries: &Tile<'_, T>, tile: usize) -> Option<Span> {
        let terms = &self.terms;
        let range = tile * KEYS..((tile + 1) * KEYS).min(terms.extent.s);
        let own = queries.start..queries.start + queries.count;
        let mut cover = terms.allowed.cover(queries.b, queries.h, own.clone(), range.clone());
        if cover == Cover::Nothing {
            return None;
        }
        if !range.len().is_multiple_of(PANEL) {
            cover = Cover::Part;
        }
        let adds = terms.adds(cover);
        let asked = adds || terms.random.dropout.is_some();
        let keys = asked.then(|| terms.key_tile::<KEYS>(queries.b, range.start));
        // Keys that no query of the tile attends to are left out, panel by panel: they would add exactly 0.
        let live = match &keys {
            Some(keys) if cover != Cover::All => terms.live(queries.b, own, keys),
            _ => 0..range.len(),
        };
        let stride = Packs::keys(&terms.extent, tile);
        (!live.is_empty()).then_some(Span { start: range.start, cover, adds, keys, live, stride })
    }

    /// Packs the keys and values of a span alone, for few queries.
    fn pack_live<'p, T: Operand>(
        &self,
        (b, h): (usize, usize),
        span: &Span,
        panels: &'p mut [f32],
        rows: &mut [f32],
    ) -> Packed<'p> {
        let (terms, call) = (&self.terms, self.call);
        let extent @ Extent { d, e, .. } = terms.extent;
        let (pair, length) = ((b, h / extent.share()), span.live.len());
        let keys = &terms.key_tile::<KEYS>(b, span.start);
        let (key_panels, value_panels) = panels.split_at_mut(self.packs.key);
        let key_rows = turned(terms.keys(call, 1, pair, keys, span.live.clone(), &mut rows[..length * d]));
        T::panels(call.level, key_rows, d, length, T::view_mut(key_panels));
        let value_rows = terms.keys(call, 2, pair, keys, span.live.clone(), &mut rows[..length * e]);
        T::panels(call.level, value_rows, length, e, T::view_mut(value_panels));
        Packed { panels, first: 0, keys: length }
    }

    /// Scores of a span become weights, and these are added up.
    fn weigh<T: Operand>(&self, tile: &mut Tile<'_, T>, span: &Span, packed: &Packed<'_>) {
        let (level, hard) = (self.call.level, self.terms.form.kind.is_hard());
        let Extent { e, .. } = self.terms.extent;
        let (stride, live) = (span.stride, &span.live);
        // Once, unless weights become too large for what is taken from the scores.
        let mut raised = if hard { [true; QUERIES] } else { tile.rows.without_keys(tile.count) };
        loop {
            let seek = raised.contains(&true);
            self.score(tile, span, packed, seek);
            let Tile { scores, lanes, rows, mixed, count, unit, .. } = tile;
            let scores = &mut scores[..*count * stride];
            if seek {
                let mut tile_most = [0.0; QUERIES];
                most_of(level, &lanes[..*count], &mut tile_most);
                if hard {
                    choose(scores, stride, live.clone(), &tile_most, span.start + live.start, rows);
                }
                raise(level, &tile_most, &raised, *unit, rows, mixed, e);
            }
            let most = exponentials(level, scores, stride, live.clone(), *unit, &rows.from, lanes);
            if most <= TOO_MUCH || !Rows::mark_heavy(&lanes[..*count], &mut raised) {
                break;
            }
        }
        add_up(level, &tile.lanes[..tile.count], &mut tile.rows);
    }

    /// Dots of the queries with the keys of a span, and what is added to them; the largest of each row in its
    /// lanes, where something is added or they are sought.
    fn score<T: Operand>(&self, tile: &mut Tile<'_, T>, span: &Span, packed: &Packed<'_>, seek: bool) {
        let (level, d) = (self.call.level, self.terms.extent.d);
        let (stride, live) = (span.stride, &span.live);
        let Tile { b, h, start, count, before, .. } = *tile;
        let scores = &mut tile.scores[..count * stride];
        let key_panels = &T::view(&packed.panels[..self.packs.key])[T::panel_numbers(d, packed.first)..];
        let out = &mut scores[live.start..];
        T::block(level, count, live.len(), d, tile.query, T::stride(d), key_panels, out, stride, false);
        if let Some((inner, cap)) = self.terms.cap(h) {
            for scores in scores.chunks_exact_mut(stride) {
                cap_scores(level, &mut scores[live.clone()], inner, cap);
            }
        }
        match span.keys.as_ref().filter(|_| span.adds) {
            None if seek => largest(level, scores, stride, live.clone(), &mut tile.lanes),
            None => {}
            Some(keys) => {
                for (i, (scores, lanes)) in scores.chunks_exact_mut(stride).zip(&mut tile.lanes).enumerate() {
                    let (at, scores) = ((b, h, start + i), &mut scores[live.clone()]);
                    self.add(at, keys, span.cover, live, before, scores, lanes);
                }
            }
        }
    }

    /// Adds the values of a span, weighed.
    fn mix<T: Operand>(&self, tile: &mut Tile<'_, T>, span: &Span, packed: &Packed<'_>) {
        let (terms, level, e) = (&self.terms, self.call.level, self.terms.extent.e);
        let (stride, live, length) = (span.stride, &span.live, span.live.len());
        let (b, h, start, count) = (tile.b, tile.h, tile.start, tile.count);
        let scores = &mut tile.scores[..count * stride];
        if let Some(keys) = span.keys.as_ref().filter(|_| terms.random.dropout.is_some()) {
            let mut kept = [1.0; KEYS];
            for (i, scores) in scores.chunks_exact_mut(stride).enumerate() {
                terms.keep((b, h, start + i), keys, live.clone(), &mut kept);
                drop_some(level, &mut scores[live.clone()], &kept[live.clone()]);
            }
        }
        let value_panels = T::view(&packed.panels[self.packs.key..]);
        let weights = &T::rounded(level, scores, tile.room)[live.start..];
        if length == packed.keys {
            return T::block(level, count, e, length, weights, stride, value_panels, tile.mixed, e, true);
        }
        let panels = value_panels.chunks_exact(packed.keys * PANEL).take(e.div_ceil(PANEL));
        for (panel, values) in panels.enumerate() {
            let (values, mixed) = (&values[packed.first * PANEL..], &mut tile.mixed[panel * PANEL..]);
            let columns = PANEL.min(e - panel * PANEL);
            T::block(level, count, columns, length, weights, stride, values, mixed, e, true);
        }
    }

    /// Divides by the sums of the weights, and stores y, the log-sum-exp and the choice of hard rows.
    fn finish<T>(&self, tile: Tile<'_, T>) {
        let (terms, call) = (&self.terms, self.call);
        let (level, extent) = (call.level, terms.extent);
        let Tile { b, h, start, count, mixed, after, rows, .. } = tile;
        let e = extent.e;
        let mut sum = [0.0; QUERIES];
        sums_of(level, &rows.sums, &mut sum);
        if terms.form.kind.is_hard() {
            for (i, mixed) in mixed.chunks_exact_mut(e.max(1)).enumerate() {
                mix_chosen(terms, call, (b, h, start + i), rows.choice[i], mixed);
            }
        } else {
            divide(level, mixed, e, &sum);
        }
        let first = extent.row(b, start, h);
        if call.wants(0) {
            // SAFETY: these queries of this head are this task's alone.
            unsafe { call.store_rows(0, first * e, extent.h * e, e, mixed) };
        }
        if call.wants(1) {
            let mut lse = [0.0; QUERIES];
            log_sum_exp(level, &rows.most, after, &sum, &mut lse);
            // SAFETY: as above.
            unsafe { call.store_rows(1, first, extent.h, 1, &lse[..count]) };
        }
        if let Some(choice) = &self.choice {
            for i in 0..count {
                let at = extent.row(b, start + i, h);
                // SAFETY: each row belongs to one task.
                let choice = unsafe { choice.range(at..at + 1) };
                choice[0] = rows.choice[i];
            }
        }
    }

    /// One row's scores: dots with what is added to them, −∞ where a key may not be seen; the largest.
    #[allow(clippy::too_many_arguments)]
    fn add(
        &self,
        (b, h, t): (usize, usize, usize),
        keys: &KeyTile<KEYS>,
        cover: Cover,
        live: &Range<usize>,
        factor: f32,
        scores: &mut [f32],
        lanes: &mut [f32; LANES],
    ) {
        let (terms, level) = (&self.terms, self.call.level);
        if terms.adds_ranges() {
            let (low, high) = terms.allowed.range(terms.allowed.query_at(b, t));
            let (position, exists) = (&keys.position[live.clone()], &keys.exists[live.clone()]);
            return scale_within(level, scores, factor, position, exists, low, high, lanes);
        }
        let mut added = [0.0; KEYS];
        terms.additive((b, h, t), keys, cover, &mut added);
        scale_and_add(level, scores, factor, &added[live.clone()], lanes);
    }
}

/// Notes the first key with the largest score, in rows where that is larger than all before; keys begin at
/// `first`.
fn choose(
    scores: &[f32],
    stride: usize,
    live: Range<usize>,
    tile_most: &[f32; QUERIES],
    first: usize,
    rows: &mut Rows,
) {
    for (i, scores) in scores.chunks_exact(stride).enumerate() {
        if tile_most[i] > rows.most[i] {
            let place = scores[live.clone()].iter().position(|&score| score == tile_most[i]);
            rows.choice[i] = (first + place.unwrap_or(0)) as i32;
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
