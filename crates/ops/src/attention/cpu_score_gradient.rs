//! The gradient of the scores in one tile of keys and queries, and what is added up from it. Tiles lie with a
//! key to a row: dv and dk read them so, as rows, and dqᵀ as panels, and every number that belongs to a query
//! (log-sum-exp, mean) lies along the vector. Nothing is turned but keys, once, and dq, at the end.
//!
//! In bf16 all five products are of bf16: weights and score gradients are rounded on their way into them.

use super::backward::Backward;
use super::cpu_cap::{cap_with_slopes, through_cap};
use super::cpu_differentiate::{
    differentiate_added, differentiate_dropped, differentiate_within, drop_weights, means, means_in_pairs,
    means_in_tiles, settle,
};
use super::cpu_exp::differentiate;
use super::cpu_live::Live;
use super::cpu_rows::{KeyTile, Terms, load_rows, turned};
use super::cpu_tile::{Buffers, KEYS, Layout, Pair, QUERIES, cut, cut_mut};
use super::form::Extent;
use super::mask::Cover;
use super::spec::AttentionKind;
use crate::CpuCall;
use regard_device::{Bf16Chain, Matrix, Operand, PANEL};
use regard_graph::{DType, Precision};
use std::marker::PhantomData;
use std::ops::Range;

/// Where a tile of keys and queries lies, and what happens to its scores.
struct TilePlace {
    b: usize,
    h: usize,
    /// The first query, and how many there are.
    start: usize,
    count: usize,
    keys: Range<usize>,
    cover: Cover,
    /// Whether numbers are added, and whether weights are dropped.
    adds: bool,
    drops: bool,
    /// Whether positions are compared instead of adding −∞.
    ranges: bool,
}

/// One backward call, with products of one type of numbers.
#[derive(Clone, Copy)]
pub struct Tiles<'a, T> {
    pub op: &'a Backward,
    pub call: &'a CpuCall<'a>,
    pub terms: &'a Terms<'a>,
    pub layout: Layout,
    pub numbers: PhantomData<T>,
}

impl<T: Operand> Tiles<'_, T> {
    /// Packs a unit of keys; `rows` is for them on their way.
    pub fn pack_keys(&self, pair: Pair, tile: usize, unit: &mut [f32], rows: &mut [f32]) {
        let (terms, call, Extent { d, e, .. }) = (self.terms, self.call, self.layout.extent);
        let [key_rows, value_rows, columns] = cut_mut(unit, self.layout.key_parts);
        let keys = terms.key_tile::<KEYS>(pair.b, tile * KEYS);
        let key = terms.keys(call, 1, (pair.b, pair.g), &keys, 0..KEYS, &mut rows[..KEYS * d]);
        T::rows(call.level, key, KEYS, d, T::view_mut(key_rows));
        T::rows(call.level, turned(key), d, KEYS, T::view_mut(columns));
        let value = terms.keys(call, 2, (pair.b, pair.g), &keys, 0..KEYS, &mut rows[..KEYS * e]);
        T::rows(call.level, value, KEYS, e, T::view_mut(value_rows));
    }

    /// Packs a unit of queries; the mean is dy·y − dlse, where y is soft.
    pub fn pack_queries(&self, pair: Pair, at: usize, unit: &mut [f32], buffers: &mut Buffers<'_>) {
        let (terms, call) = (self.terms, self.call);
        let extent @ Extent { d, e, .. } = self.layout.extent;
        let (h, start) = self.layout.place(pair, at);
        let [queries_t, dy_t, queries, dy, lse, mean] = cut_mut(unit, self.layout.query_parts);
        let rows = terms.queries(call, 0, (pair.b, h), start, &mut buffers.rows[..QUERIES * d]);
        T::panels(call.level, turned(rows), d, QUERIES, T::view_mut(queries_t));
        T::panels(call.level, rows, QUERIES, d, T::view_mut(queries));

        let (rows, y_rows) = buffers.rows.split_at_mut(QUERIES * e);
        let y_rows = &mut y_rows[..QUERIES * e];
        terms.load_queries(call, 4, (pair.b, h), start, rows);
        T::panels(call.level, Matrix::transposed(&*rows, e), e, QUERIES, T::view_mut(dy_t));
        T::panels(call.level, Matrix::rows(&*rows, e), QUERIES, e, T::view_mut(dy));

        if self.op.form.kind == AttentionKind::Hard {
            mean.fill(0.0);
        } else {
            if self.is_straight_through() {
                self.load_chosen(pair, h, start, y_rows);
            } else {
                load_rows(call, 5, &extent, (pair.b, h), start, y_rows);
            }
            match (terms.form.precision, call.level.bf16_chain()) {
                (Precision::F32, _) => means(call.level, rows, y_rows, e, mean),
                (Precision::Bf16, Bf16Chain::Pairs) => means_in_pairs(call.level, rows, y_rows, e, mean),
                (Precision::Bf16, Bf16Chain::Tiles) => means_in_tiles(call.level, rows, y_rows, e, mean),
            }
        }
        let saved_lse = call.f32(3);
        for i in 0..QUERIES {
            let t = start + i;
            // Rows without keys, and those beyond the end, get weights exp(−∞) = 0.
            lse[i] = f32::INFINITY;
            if t >= extent.t {
                continue;
            }
            let row = extent.row(pair.b, t, h);
            if saved_lse[row] != f32::NEG_INFINITY {
                lse[i] = saved_lse[row];
            }
            if self.op.dlse && !self.is_straight_through() {
                mean[i] -= call.f32(6)[row];
            }
        }
    }

    fn is_straight_through(&self) -> bool {
        self.op.form.kind.is_hard() && self.op.form.kind != AttentionKind::Hard
    }

    /// The value of each query's chosen key, zeros where there is none.
    fn load_chosen(&self, pair: Pair, h: usize, start: usize, out: &mut [f32]) {
        let (terms, call, extent) = (self.terms, self.call, self.layout.extent);
        let choice = call.i32(5);
        for (i, out) in out.chunks_exact_mut(extent.e).enumerate() {
            let t = start + i;
            let chosen = (t < extent.t).then(|| choice[extent.row(pair.b, t, h)]);
            match chosen.and_then(|s| usize::try_from(s).ok()).filter(|&s| s < extent.s) {
                Some(s) => {
                    let row = (terms.row_of(pair.b, s) * extent.s + s) * extent.g + pair.g;
                    call.load(2, row * extent.e..(row + 1) * extent.e, out);
                }
                None => out.fill(0.0),
            }
        }
        terms.round(call.dtype(2), out);
    }

    /// For straight-through kinds, whose y is not the soft one: the mean of dw, by a pass of its own. It is
    /// taken from the chosen key's dw on, mean = dw′ + Σ w·(dw − dw′): where all weight is on that key,
    /// nothing is left to round, and a row with a single key gets dw − mean = 0 exactly.
    pub fn soft_mean(
        &self,
        pair: Pair,
        at: usize,
        keys: Option<&[f32]>,
        unit: &mut [f32],
        buffers: &mut Buffers<'_>,
    ) {
        if !self.is_straight_through() {
            return;
        }
        let offset = self.layout.query_unit - QUERIES;
        let mut sums = [0.0; QUERIES];
        for tile in 0..self.layout.key_tiles {
            let mut own = std::mem::take(&mut buffers.unit);
            let keys = match keys {
                Some(keys) => &keys[tile * self.layout.key_unit..][..self.layout.key_unit],
                None => {
                    self.pack_keys(pair, tile, own, buffers.rows);
                    &*own
                }
            };
            if self.score_gradient(pair, tile, at, keys, unit, buffers) {
                for scores in buffers.scores.chunks_exact(QUERIES) {
                    sums.iter_mut().zip(scores).for_each(|(sum, x)| *sum += x);
                }
            }
            buffers.unit = std::mem::take(&mut own);
        }
        let extent = self.layout.extent;
        let (h, start) = self.layout.place(pair, at);
        for i in 0..QUERIES.min(extent.t - start) {
            unit[offset + i] += sums[i];
            if self.op.dlse {
                unit[offset + i] -= self.call.f32(6)[extent.row(pair.b, start + i, h)];
            }
        }
    }

    /// Weights and score gradients of one tile, into the buffers; false if no pair of it is allowed.
    pub fn score_gradient(
        &self,
        pair: Pair,
        tile: usize,
        at: usize,
        keys: &[f32],
        queries: &[f32],
        buffers: &mut Buffers<'_>,
    ) -> bool {
        let Some(place) = self.tile_place(pair, tile, at) else { return false };
        buffers.live = match place.cover {
            Cover::Part => Live::new(
                &self.terms.allowed,
                place.b,
                place.start..place.start + place.count,
                place.keys.clone(),
            ),
            _ => Live::ALL,
        };
        self.multiply(keys, queries, buffers);
        if let Some((inner, cap)) = self.terms.cap(place.h) {
            cap_with_slopes(self.call.level, buffers.weights, buffers.slopes, inner, cap);
        }
        let key_tile = (place.adds || place.drops).then(|| self.terms.key_tile(place.b, place.keys.start));
        if let Some(key_tile) = key_tile.as_ref().filter(|_| !place.ranges) {
            self.load_terms(&place, key_tile, buffers);
        }
        self.weigh_and_differentiate(&place, key_tile.as_ref(), queries, buffers);
        if self.settles(place.b) {
            self.settle_queries(&place, buffers);
        }
        if place.drops {
            drop_weights(self.call.level, buffers.weights, buffers.kept);
        }
        if self.op.form.kind.is_hard() {
            self.weigh_chosen(&place, buffers);
        }
        true
    }

    /// Takes the score gradients of a tile through the soft cap, where there is one: from what biases get of
    /// them to what queries and keys get.
    pub fn through_cap(&self, buffers: &mut Buffers<'_>) {
        if !buffers.slopes.is_empty() {
            through_cap(self.call.level, buffers.scores, buffers.slopes);
        }
    }

    /// Where a tile lies and what happens to its scores; none if no pair of it is allowed.
    #[inline(always)]
    fn tile_place(&self, pair: Pair, tile: usize, at: usize) -> Option<TilePlace> {
        let (terms, extent) = (self.terms, self.layout.extent);
        let (h, start) = self.layout.place(pair, at);
        let count = QUERIES.min(extent.t - start);
        let keys = tile * KEYS..((tile + 1) * KEYS).min(extent.s);
        let mut cover = terms.allowed.cover(pair.b, h, start..start + count, keys.clone());
        if cover == Cover::Nothing {
            return None;
        }
        if keys.len() < KEYS {
            cover = Cover::Part;
        }
        let (adds, drops) = (terms.adds(cover), terms.random.dropout.is_some());
        let ranges = adds && !drops && terms.adds_ranges();
        Some(TilePlace { b: pair.b, h, start, count, keys, cover, adds, drops, ranges })
    }

    /// q·k and dy·v where the tile is alive, 0 elsewhere; a hard y does not move with the scores.
    #[inline(always)]
    fn multiply(&self, keys: &[f32], queries: &[f32], buffers: &mut Buffers<'_>) {
        let Extent { d, e, .. } = self.layout.extent;
        let [key_rows, value_rows, _] = cut(keys, self.layout.key_parts);
        let [queries_t, dy_t, ..] = cut(queries, self.layout.query_parts);
        let Buffers { weights, scores, live, .. } = buffers;
        live.runs().for_each(|(keys, queries)| clear_outside(keys, queries, weights, scores));
        self.dots(live, d, key_rows, queries_t, weights);
        if self.op.form.kind == AttentionKind::Hard {
            scores.fill(0.0);
        } else {
            self.dots(live, e, value_rows, dy_t, scores);
        }
    }

    /// What is added to the scores of a tile, and which of its weights are kept.
    #[inline(always)]
    fn load_terms(&self, place: &TilePlace, key_tile: &KeyTile<KEYS>, buffers: &mut Buffers<'_>) {
        let TilePlace { b, h, start, count, cover, .. } = *place;
        let Buffers { added, kept, .. } = buffers;
        let mut row = [0.0; KEYS];
        for i in 0..count {
            if place.adds {
                self.terms.additive((b, h, start + i), key_tile, cover, &mut row);
                (0..KEYS).for_each(|j| added[j * QUERIES + i] = row[j]);
            }
            if place.drops {
                row.fill(0.0);
                self.terms.keep((b, h, start + i), key_tile, 0..place.keys.len(), &mut row);
                (0..KEYS).for_each(|j| kept[j * QUERIES + i] = row[j]);
            }
        }
        // Queries beyond the end have weight 0 whatever is added, but not if that is NaN.
        for i in count..QUERIES {
            (0..KEYS).for_each(|j| (added[j * QUERIES + i], kept[j * QUERIES + i]) = (0.0, 0.0));
        }
    }

    /// Dots become weights, dw score gradients, by the pass that fits what is added and dropped.
    #[inline(always)]
    fn weigh_and_differentiate(
        &self,
        place: &TilePlace,
        key_tile: Option<&KeyTile<KEYS>>,
        queries: &[f32],
        buffers: &mut Buffers<'_>,
    ) {
        let (terms, level) = (self.terms, self.call.level);
        let [.., lse, mean] = cut(queries, self.layout.query_parts);
        let (lse, mean, factor) = (as_row(lse), as_row(mean), terms.outer_factor(place.h));
        let Buffers { weights, scores, added, kept, panels, in_panels, live, .. } = buffers;
        // What is to be rounded or settled is not yet what a product reads.
        let plain = terms.form.precision == Precision::F32 && terms.form.cap.is_none();
        *in_panels = key_tile.is_none() && plain && !self.settles(place.b);
        match key_tile {
            None => {
                let panels = in_panels.then_some(&mut **panels);
                differentiate(level, weights, scores, panels, factor, lse, mean);
            }
            Some(keys) if place.ranges => {
                let (mut low, mut high) = ([1; QUERIES], [0; QUERIES]); // beyond the end: nothing
                for i in 0..place.count {
                    let query = terms.allowed.query_at(place.b, place.start + i);
                    (low[i], high[i]) = terms.allowed.range(query);
                }
                for (rows, queries) in live.runs() {
                    let (first, own) = (rows.start, rows.start * QUERIES..rows.end * QUERIES);
                    let (weights, scores) = (&mut weights[own.clone()], &mut scores[own]);
                    differentiate_within(
                        level, weights, scores, queries, keys, first, &low, &high, factor, lse, mean,
                    );
                }
            }
            Some(_) if !place.drops => differentiate_added(level, weights, scores, added, factor, lse, mean),
            Some(_) => {
                if !place.adds {
                    added.fill(0.0);
                }
                differentiate_dropped(level, weights, scores, added, kept, factor, lse, mean);
            }
        }
    }

    /// Takes out what the score gradients of each query are off by: together they are dlse.
    #[inline(always)]
    fn settle_queries(&self, place: &TilePlace, buffers: &mut Buffers<'_>) {
        let mut over = [0.0; QUERIES];
        if self.op.dlse {
            for (i, over) in over.iter_mut().enumerate().take(place.count) {
                *over = -self.call.f32(6)[self.layout.extent.row(place.b, place.start + i, place.h)];
            }
        }
        settle(self.call.level, buffers.weights, buffers.scores, &mut over);
    }

    /// Hard weights: 1 at the chosen key, or what dropout makes of it.
    #[inline(always)]
    fn weigh_chosen(&self, place: &TilePlace, buffers: &mut Buffers<'_>) {
        let Buffers { weights, kept, .. } = buffers;
        weights.fill(0.0);
        let choice = self.call.i32(5);
        for i in 0..place.count {
            let chosen = usize::try_from(choice[self.layout.extent.row(place.b, place.start + i, place.h)]);
            let here = chosen.ok().and_then(|s| s.checked_sub(place.keys.start));
            if let Some(j) = here.filter(|&j| j < KEYS) {
                weights[j * QUERIES + i] = if place.drops { kept[j * QUERIES + i] } else { 1.0 };
            }
        }
    }

    /// Whether what the mean is off by can be taken out again: all keys of the example are in the first tile,
    /// so that the score gradients of a query, which add up to dlse, are all at hand. Padding has no say, or
    /// it would show in the bits. dw − mean loses digits where one key has nearly all the weight, and y was
    /// rounded; their sum shows by how much. A bf16 y is taken at its word, as the reference does.
    fn settles(&self, b: usize) -> bool {
        self.terms.allowed.ends_by(b, KEYS)
            && !self.op.form.kind.is_hard()
            && self.call.dtype(5) == DType::F32
    }

    /// dv += wᵀ·dy, and dk of the head += dsᵀ·q, before scaling by β.
    pub fn add_key_value(&self, queries: &[f32], buffers: &mut Buffers<'_>, key: bool, value: bool) {
        let (level, Extent { d, e, .. }) = (self.call.level, self.layout.extent);
        let [_, _, queries, dy, _, _] = cut(queries, self.layout.query_parts);
        let Buffers { weights, scores, room, dk_of_head, dv, live, .. } = buffers;
        let room = T::view_mut(room);
        if value {
            let weights = T::rounded(level, weights, room);
            self.add_rows(live, e, weights, T::view(dy), dv);
        }
        if key {
            let scores = T::rounded(level, scores, room);
            self.add_rows(live, d, scores, T::view(queries), dk_of_head);
        }
    }

    /// The products of rows of keys or values and panels of queries or dy, where the tile is alive.
    fn dots(&self, live: &Live, width: usize, rows: &[f32], panels: &[f32], out: &mut [f32]) {
        let (rows, panels, stride) = (T::view(rows), T::view(panels), T::stride(width));
        for (keys, queries) in live.runs().filter(|(_, queries)| !queries.is_empty()) {
            let (rows, panels) =
                (&rows[keys.start * stride..], &panels[T::panel_numbers(width, queries.start)..]);
            let out = &mut out[keys.start * QUERIES + queries.start..];
            let (m, n) = (keys.len(), queries.len());
            T::block(self.call.level, m, n, width, rows, stride, panels, out, QUERIES, false);
        }
    }

    /// Adds the product of a tile with a key to a row and panels with a query to a row, where the tile is
    /// alive.
    fn add_rows(&self, live: &Live, width: usize, tile: &[T], panels: &[T], out: &mut [f32]) {
        let level = self.call.level;
        for (keys, queries) in live.runs().filter(|(_, queries)| !queries.is_empty()) {
            let (tile, m, k) = (&tile[keys.start * QUERIES + queries.start..], keys.len(), queries.len());
            let out = &mut out[keys.start * width..];
            if k == QUERIES {
                T::block(level, m, width, k, tile, QUERIES, panels, out, width, true);
                continue;
            }
            for (panel, columns) in panels.chunks_exact(QUERIES * PANEL).enumerate() {
                let (columns, out) = (&columns[queries.start * PANEL..], &mut out[panel * PANEL..]);
                let n = PANEL.min(width - panel * PANEL);
                T::block(level, m, n, k, tile, QUERIES, columns, out, width, true);
            }
        }
    }

    /// dqᵀ += kᵀ·dsᵀ, before scaling by β.
    pub fn add_query(&self, keys: &[f32], buffers: &mut Buffers<'_>, dq: &mut [f32]) {
        let (level, d) = (self.call.level, self.layout.extent.d);
        let [_, _, columns] = cut(keys, self.layout.key_parts);
        let (columns, panels) = (T::view(columns), T::view_mut(buffers.panels));
        if !buffers.in_panels {
            T::panels(level, Matrix::rows(&*buffers.scores, QUERIES), KEYS, QUERIES, panels);
        }
        for (queries, keys) in buffers.live.turned_runs().filter(|(_, keys)| !keys.is_empty()) {
            let (columns, k) = (&columns[keys.start..], keys.len());
            if k == KEYS {
                let (panels, dq) = (&panels[queries.start * KEYS..], &mut dq[queries.start..]);
                T::block(level, d, queries.len(), k, columns, T::stride(KEYS), panels, dq, QUERIES, true);
                continue;
            }
            for start in queries.step_by(PANEL) {
                let (panel, dq) = (&panels[start * KEYS + keys.start * PANEL..], &mut dq[start..]);
                T::block(level, d, PANEL, k, columns, T::stride(KEYS), panel, dq, QUERIES, true);
            }
        }
    }
}

/// Weights and score gradients are 0 outside of what is alive.
fn clear_outside(keys: Range<usize>, queries: Range<usize>, weights: &mut [f32], scores: &mut [f32]) {
    if queries.len() == QUERIES {
        return;
    }
    for row in keys {
        for tile in [&mut *weights, &mut *scores] {
            let row = &mut tile[row * QUERIES..][..QUERIES];
            row[..queries.start].fill(0.0);
            row[queries.end..].fill(0.0);
        }
    }
}

fn as_row(x: &[f32]) -> &[f32; QUERIES] {
    x.try_into().unwrap_or_else(|_| unreachable!("a unit has one number for each query"))
}
