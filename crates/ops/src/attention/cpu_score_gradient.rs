//! The gradient of the scores in one tile of keys and queries, and what is added up from it. Tiles lie with a
//! key to a row: two of the three products that follow read them so, and every number that belongs to a query
//! (log-sum-exp, mean) lies along the vector.

use super::backward::Backward;
use super::cpu_rows::{KeyTile, Terms, exp_below, load_rows};
use super::form::Extent;
use super::mask::Cover;
use super::spec::AttentionKind;
use crate::CpuCall;
use regard_device::{Level, Matrix, Operand, multiversion, reduce};
use regard_graph::DType;

/// Keys of a tile: dq is a sum over tiles of keys.
pub const KEYS: usize = 64;
/// Queries of a tile: dk and dv are sums over tiles of queries.
pub const QUERIES: usize = 64;

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
/// A unit of keys: rows of K, rows of V, panels of K. A unit of queries: panels of Qᵀ and dYᵀ (for scores and dw),
/// of β·Q and dY (for dk and dv), the log-sum-exp and the mean of dw.
#[derive(Clone, Copy)]
pub struct Layout {
    pub extent: Extent,
    pub key_tiles: usize,
    pub query_tiles: usize,
    pub key_unit: usize,
    pub query_unit: usize,
    key_parts: [usize; 3],
    query_parts: [usize; 6],
}

impl Layout {
    pub fn new(extent: Extent) -> Self {
        let Extent { d, e, .. } = extent;
        let key_parts = [KEYS * d, KEYS * e, f32::panel_numbers(KEYS, d)];
        let query_parts = [
            f32::panel_numbers(d, QUERIES),
            f32::panel_numbers(e, QUERIES),
            f32::panel_numbers(QUERIES, d),
            f32::panel_numbers(QUERIES, e),
            QUERIES,
            QUERIES,
        ];
        Layout {
            extent,
            key_tiles: extent.s.div_ceil(KEYS),
            query_tiles: extent.t.div_ceil(QUERIES),
            key_unit: key_parts.iter().sum(),
            query_unit: query_parts.iter().sum(),
            key_parts,
            query_parts,
        }
    }

    /// The head and the first query of a unit: units of one pair are numbered head by head.
    pub fn place(&self, pair: Pair, at: usize) -> (usize, usize) {
        (pair.g * pair.share + at / self.query_tiles, at % self.query_tiles * QUERIES)
    }
}

fn cut<const N: usize>(mut unit: &[f32], parts: [usize; N]) -> [&[f32]; N] {
    parts.map(|length| {
        let (part, rest) = unit.split_at(length);
        unit = rest;
        part
    })
}

fn cut_mut<const N: usize>(mut unit: &mut [f32], parts: [usize; N]) -> [&mut [f32]; N] {
    parts.map(|length| {
        let (part, rest) = std::mem::take(&mut unit).split_at_mut(length);
        unit = rest;
        part
    })
}

/// A thread's buffers for one tile.
pub struct Buffers<'a> {
    /// Weights, a key to a row: what dv is made from.
    weights: &'a mut [f32],
    /// Score gradients, a key to a row.
    scores: &'a mut [f32],
    added: &'a mut [f32],
    kept: &'a mut [f32],
    /// Score gradients, a query to a row.
    pub turned: &'a mut [f32],
    /// Rows on their way into panels.
    pub rows: &'a mut [f32],
    pub dk: &'a mut [f32],
    pub dv: &'a mut [f32],
    pub dq: &'a mut [f32],
    /// A unit of keys, where they are not all packed beforehand.
    unit: &'a mut [f32],
}

fn buffer_parts(layout: &Layout) -> [usize; 10] {
    let Extent { d, e, .. } = layout.extent;
    let tile = KEYS * QUERIES;
    let rows = 2 * QUERIES.max(KEYS) * d.max(e);
    [tile, tile, tile, tile, tile, rows, KEYS * d, KEYS * e, QUERIES * d, layout.key_unit]
}

pub fn buffer_floats(layout: &Layout) -> usize {
    buffer_parts(layout).iter().sum()
}

impl<'a> Buffers<'a> {
    pub fn new(scratch: &'a mut [f32], layout: &Layout) -> Self {
        let [weights, scores, added, kept, turned, rows, dk, dv, dq, unit] =
            cut_mut(scratch, buffer_parts(layout));
        Buffers { weights, scores, added, kept, turned, rows, dk, dv, dq, unit }
    }

    /// dk and dv begin at 0.
    pub fn clear(&mut self) {
        self.dk.fill(0.0);
        self.dv.fill(0.0);
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

/// How the gradient of a bias is summed.
#[derive(Clone, Copy)]
pub enum Bias {
    /// One number for each distance.
    ByDistance,
    /// One number: the slope of ALiBi.
    Slope,
}

/// One backward call.
#[derive(Clone, Copy)]
pub struct Tiles<'a> {
    pub op: &'a Backward,
    pub call: &'a CpuCall<'a>,
    pub terms: &'a Terms<'a>,
    pub layout: Layout,
}

impl Tiles<'_> {
    pub fn pack_keys(&self, pair: Pair, tile: usize, unit: &mut [f32]) {
        let (terms, call, d) = (self.terms, self.call, self.layout.extent.d);
        let [rows, value_rows, panels] = cut_mut(unit, self.layout.key_parts);
        let keys = terms.key_tile::<KEYS>(pair.b, tile * KEYS);
        terms.load_keys(call, 1, (pair.b, pair.g), &keys, rows);
        terms.load_keys(call, 2, (pair.b, pair.g), &keys, value_rows);
        f32::panels(call.level, Matrix::rows(&*rows, d), KEYS, d, panels);
    }

    /// Packs a unit of queries; the mean is dy·y − dlse, where y is soft.
    pub fn pack_queries(&self, pair: Pair, at: usize, unit: &mut [f32], buffers: &mut Buffers<'_>) {
        let (terms, call) = (self.terms, self.call);
        let extent @ Extent { d, e, .. } = self.layout.extent;
        let (h, start) = self.layout.place(pair, at);
        let [queries_t, dy_t, queries, dy, lse, mean] = cut_mut(unit, self.layout.query_parts);
        let rows = &mut buffers.rows[..QUERIES * d];
        terms.load_queries(call, 0, (pair.b, h), start, rows);
        f32::panels(call.level, Matrix::transposed(&*rows, d), d, QUERIES, queries_t);
        let factor = terms.factor(h);
        rows.iter_mut().for_each(|x| *x *= factor);
        f32::panels(call.level, Matrix::rows(&*rows, d), QUERIES, d, queries);

        let (rows, y_rows) = buffers.rows.split_at_mut(QUERIES * e);
        let y_rows = &mut y_rows[..QUERIES * e];
        terms.load_queries(call, 4, (pair.b, h), start, rows);
        f32::panels(call.level, Matrix::transposed(&*rows, e), e, QUERIES, dy_t);
        f32::panels(call.level, Matrix::rows(&*rows, e), QUERIES, e, dy);

        if self.op.form.kind == AttentionKind::Hard {
            mean.fill(0.0);
        } else {
            if self.is_straight_through() {
                self.load_chosen(pair, h, start, y_rows);
            } else {
                load_rows(call, 5, &extent, (pair.b, h), start, y_rows);
            }
            means(call.level, rows, y_rows, e, mean);
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

    /// For straight-through kinds, whose y is not the soft one: the mean of dw, by a pass of its own. It is taken
    /// from the chosen key's dw on, mean = dw′ + Σ w·(dw − dw′): where all weight is on that key, nothing is left to
    /// round, and a row with a single key gets dw − mean = 0 exactly.
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
                    self.pack_keys(pair, tile, own);
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
        let (terms, level) = (self.terms, self.call.level);
        let extent @ Extent { d, e, .. } = self.layout.extent;
        let (h, start) = self.layout.place(pair, at);
        let count = QUERIES.min(extent.t - start);
        let range = tile * KEYS..((tile + 1) * KEYS).min(extent.s);
        let mut cover = terms.allowed.cover(pair.b, h, start..start + count, range.clone());
        if cover == Cover::Nothing {
            return false;
        }
        let [key_rows, value_rows, _] = cut(keys, self.layout.key_parts);
        let [queries_t, dy_t, _, _, lse, mean] = cut(queries, self.layout.query_parts);
        let Buffers { weights, scores, added, kept, .. } = buffers;
        f32::block(level, KEYS, QUERIES, d, key_rows, d, queries_t, weights, QUERIES, false);
        if self.op.form.kind == AttentionKind::Hard {
            scores.fill(0.0);
        } else {
            f32::block(level, KEYS, QUERIES, e, value_rows, e, dy_t, scores, QUERIES, false);
        }
        let key_tile = terms.key_tile::<KEYS>(pair.b, range.start);
        if !key_tile.whole {
            cover = Cover::Part;
        }
        let (adds, drops) = (terms.adds(cover), terms.random.dropout.is_some());
        let mut row = [0.0; KEYS];
        for i in 0..count {
            if adds {
                terms.additive((pair.b, h, start + i), &key_tile, cover, &mut row);
                (0..KEYS).for_each(|j| added[j * QUERIES + i] = row[j]);
            }
            if drops {
                terms.keep((pair.b, h, start + i), &key_tile, &mut row);
                (0..KEYS).for_each(|j| kept[j * QUERIES + i] = row[j]);
            }
        }
        // Queries beyond the end have weight 0 whatever is added, but not if that is NaN.
        for i in count..QUERIES {
            (0..KEYS).for_each(|j| (added[j * QUERIES + i], kept[j * QUERIES + i]) = (0.0, 0.0));
        }
        let factor = terms.factor(h);
        let (lse, mean) = (as_row(lse), as_row(mean));
        match (adds, drops) {
            (false, false) => differentiate(level, weights, scores, factor, lse, mean),
            (true, false) => differentiate_added(level, weights, scores, added, factor, lse, mean),
            (_, true) => {
                if !adds {
                    added.fill(0.0);
                }
                differentiate_dropped(level, weights, scores, added, kept, factor, lse, mean);
            }
        }
        if self.settles() {
            let mut over = [0.0; QUERIES];
            if self.op.dlse {
                for (i, over) in over.iter_mut().enumerate().take(count) {
                    *over = -self.call.f32(6)[extent.row(pair.b, start + i, h)];
                }
            }
            settle(level, weights, scores, &mut over);
        }
        if drops {
            drop_weights(level, weights, kept);
        }
        if self.op.form.kind.is_hard() {
            weights.fill(0.0);
            let choice = self.call.i32(5);
            for i in 0..count {
                let chosen = usize::try_from(choice[extent.row(pair.b, start + i, h)]);
                if let Some(j) = chosen.ok().and_then(|s| s.checked_sub(range.start)).filter(|&j| j < KEYS) {
                    weights[j * QUERIES + i] = if drops { kept[j * QUERIES + i] } else { 1.0 };
                }
            }
        }
        true
    }

    /// Whether what the mean is off by can be taken out again: all keys are in one tile, so that the score gradients
    /// of a query, which add up to dlse, are all at hand. dw − mean loses digits where one key has nearly all the
    /// weight, and y was rounded; their sum shows by how much. A bf16 y is taken at its word, as the reference does.
    fn settles(&self) -> bool {
        self.layout.key_tiles == 1 && !self.op.form.kind.is_hard() && self.call.dtype(5) == DType::F32
    }

    /// dv += wᵀ·dy and dk += dsᵀ·(β·q).
    pub fn add_key_value(&self, queries: &[f32], buffers: &mut Buffers<'_>, key: bool, value: bool) {
        let (level, Extent { d, e, .. }) = (self.call.level, self.layout.extent);
        let [_, _, queries, dy, _, _] = cut(queries, self.layout.query_parts);
        if value {
            f32::block(level, KEYS, e, QUERIES, buffers.weights, QUERIES, dy, buffers.dv, e, true);
        }
        if key {
            f32::block(level, KEYS, d, QUERIES, buffers.scores, QUERIES, queries, buffers.dk, d, true);
        }
    }

    /// dq += ds·k, of turned score gradients, before scaling by β.
    pub fn add_query(&self, keys: &[f32], buffers: &Buffers<'_>, dq: &mut [f32]) {
        let (level, d) = (self.call.level, self.layout.extent.d);
        let [_, _, panels] = cut(keys, self.layout.key_parts);
        f32::block(level, QUERIES, d, KEYS, buffers.turned, KEYS, panels, dq, d, true);
    }

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

fn as_row(x: &[f32]) -> &[f32; QUERIES] {
    x.try_into().unwrap_or_else(|_| unreachable!("a unit has one number for each query"))
}

/// w = exp(score − lse), ds = w·(dw − mean).
#[inline(always)]
fn one(score: f32, dw: f32, lse: f32, mean: f32) -> (f32, f32) {
    let w = exp_below(score - lse);
    (w, w * (dw - mean))
}

multiversion! {
    /// dy·y of each query, summed as the products sum dy·v: a row with a single key gets dw − mean = 0 exactly.
    fn means(dy: &[f32], y: &[f32], width: usize, out: &mut [f32]) {
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

    /// Dots to weights, dw to score gradients, for a tile.
    fn differentiate(
        weights: &mut [f32], scores: &mut [f32], factor: f32, lse: &[f32; QUERIES], mean: &[f32; QUERIES],
    ) {
        for (weights, scores) in weights.as_chunks_mut::<QUERIES>().0.iter_mut().zip(scores.as_chunks_mut::<QUERIES>().0) {
            for i in 0..QUERIES {
                (weights[i], scores[i]) = one(weights[i] * factor, scores[i], lse[i], mean[i]);
            }
        }
    }

    /// The same with something added to the scores; −∞ whatever the dot.
    fn differentiate_added(
        weights: &mut [f32], scores: &mut [f32], added: &[f32], factor: f32, lse: &[f32; QUERIES],
        mean: &[f32; QUERIES],
    ) {
        let rows = weights.as_chunks_mut::<QUERIES>().0.iter_mut().zip(scores.as_chunks_mut::<QUERIES>().0);
        for ((weights, scores), added) in rows.zip(added.as_chunks::<QUERIES>().0) {
            for i in 0..QUERIES {
                let score = weights[i].mul_add(factor, added[i]);
                let score = if added[i] == f32::NEG_INFINITY { f32::NEG_INFINITY } else { score };
                (weights[i], scores[i]) = one(score, scores[i], lse[i], mean[i]);
            }
        }
    }

    /// The same with dropout, y = Σ keep·w·v; the weights are still those before it.
    fn differentiate_dropped(
        weights: &mut [f32], scores: &mut [f32], added: &[f32], kept: &[f32], factor: f32,
        lse: &[f32; QUERIES], mean: &[f32; QUERIES],
    ) {
        let rows = weights.as_chunks_mut::<QUERIES>().0.iter_mut().zip(scores.as_chunks_mut::<QUERIES>().0);
        let more = added.as_chunks::<QUERIES>().0.iter().zip(kept.as_chunks::<QUERIES>().0);
        for ((weights, scores), (added, kept)) in rows.zip(more) {
            for i in 0..QUERIES {
                let score = weights[i].mul_add(factor, added[i]);
                let score = if added[i] == f32::NEG_INFINITY { f32::NEG_INFINITY } else { score };
                (weights[i], scores[i]) = one(score, scores[i] * kept[i], lse[i], mean[i]);
            }
        }
    }

    /// Takes out of the score gradients of each query, in proportion to the weights, what they add up to beyond what
    /// they should; `over` begins at minus that.
    fn settle(weights: &[f32], scores: &mut [f32], over: &mut [f32; QUERIES]) {
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
    fn drop_weights(weights: &mut [f32], kept: &[f32]) {
        for (weight, kept) in weights.iter_mut().zip(kept) {
            *weight *= kept;
        }
    }
}
