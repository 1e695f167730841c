//! Weights on request on the CPU: the scores of a tile as the attention makes them, then exp(score − lse).
//! Requests by query walk the keys, requests by key walk the queries; each result is summed in one fixed
//! order.

#![allow(unsafe_code)]

use super::WeightsRequest;
use crate::attention::{
    Cover, Extent, Extra, Form, KeyTile, Terms, by_distance_floats, cap_scores, carve, carved_bytes,
};
use crate::{CpuCall, Fault, Needs, Request};
use regard_device::{Disjoint, Matrix, Operand, math, multiversion, reduce};

/// Keys of a tile.
const KEYS: usize = 64;
/// Queries of a tile.
const QUERIES: usize = 48;

/// Floats of a thread's scratch: queries, keys, panels of keys, scores, weights, and the best of each query.
fn thread_floats(extent: &Extent, request: &WeightsRequest) -> [usize; 6] {
    let best = if let WeightsRequest::TopK(k) = request { 3 * QUERIES * k } else { 0 };
    let d = extent.d;
    [QUERIES * d, KEYS * d, f32::panel_numbers(d, KEYS), QUERIES * KEYS, QUERIES * KEYS, best]
}

pub fn needs(form: &Form, asked: &WeightsRequest, request: &Request<'_>) -> Needs {
    let dims = request.call.inputs;
    let extent = Extent::new(dims[0], dims[1], None);
    let table = by_distance_floats(form, extent.h, form.place(3, Extra::Bias).map(|input| dims[input]));
    Needs {
        scratch: carved_bytes([table]),
        thread_scratch: carved_bytes(thread_floats(&extent, asked)),
        packs: Vec::new(),
    }
}

pub fn run(form: &Form, request: &WeightsRequest, call: &CpuCall<'_>) -> Result<(), Fault> {
    let extent = Extent::new(call.dims(0), call.dims(1), None);
    let table = by_distance_floats(form, extent.h, form.place(3, Extra::Bias).map(|input| call.dims(input)));
    // SAFETY: taken once in this call.
    let [table] = carve(unsafe { call.scratch_f32() }, [table]);
    let terms = Terms::new(form, call, extent, 3, table)?;
    if form.kind.is_hard() {
        hard(call, &extent, request);
        return Ok(());
    }
    let looker = Looker { terms: &terms, call, request };
    match request {
        WeightsRequest::Rows(list) => looker.rows(list.len(), |n| list[n], 0..extent.s),
        WeightsRequest::Block { queries, keys } => {
            looker.rows(queries.len(), |n| queries.start + n, keys.clone());
        }
        WeightsRequest::Columns(list) => looker.columns(list),
        WeightsRequest::ColumnSums => looker.column_sums(),
        WeightsRequest::TopK(k) => looker.top(*k),
        WeightsRequest::Entropy => looker.entropy(),
    }
    Ok(())
}

struct Looker<'a> {
    terms: &'a Terms<'a>,
    call: &'a CpuCall<'a>,
    request: &'a WeightsRequest,
}

/// A thread's buffers.
struct Buffers<'a> {
    query: &'a mut [f32],
    rows: &'a mut [f32],
    panels: &'a mut [f32],
    scores: &'a mut [f32],
    weights: &'a mut [f32],
    best: &'a mut [f32],
}

impl Looker<'_> {
    fn extent(&self) -> Extent {
        self.terms.extent
    }

    fn buffers(&self, worker: usize) -> Buffers<'_> {
        // SAFETY: one task at a time on this worker, and each takes its buffers once.
        let scratch = unsafe { self.call.thread_scratch_f32(worker) };
        let [query, rows, panels, scores, weights, best] =
            carve(scratch, thread_floats(&self.extent(), self.request));
        Buffers { query, rows, panels, scores, weights, best }
    }

    /// Loads up to [`QUERIES`] queries.
    fn load(
        &self,
        (b, h): (usize, usize),
        count: usize,
        query: impl Fn(usize) -> usize,
        to: &mut Buffers<'_>,
    ) {
        let d = self.extent().d;
        for (n, out) in to.query.chunks_exact_mut(d).take(count).enumerate() {
            self.terms.load_queries(self.call, 0, (b, h), query(n), out);
        }
    }

    /// Final scores and weights of the loaded queries and the keys from `start` on, rows of [`KEYS`].
    fn tile(
        &self,
        (b, h): (usize, usize),
        count: usize,
        query: impl Fn(usize) -> usize,
        start: usize,
        to: &mut Buffers<'_>,
    ) {
        let (terms, call, d) = (self.terms, self.call, self.extent().d);
        let keys: KeyTile<KEYS> = terms.key_tile(b, start);
        terms.load_keys(call, 1, (b, h / self.extent().share()), &keys, to.rows);
        f32::panels(call.level, Matrix::transposed(&*to.rows, d), d, KEYS, to.panels);
        f32::block(call.level, count, KEYS, d, to.query, d, to.panels, to.scores, KEYS, false);
        let (factor, lse) = (terms.outer_factor(h), call.f32(2));
        let mut added = [0.0; KEYS];
        let rows = to.scores.as_chunks_mut::<KEYS>().0.iter_mut().zip(to.weights.as_chunks_mut::<KEYS>().0);
        for (n, (scores, weights)) in rows.take(count).enumerate() {
            let t = query(n);
            if let Some((inner, cap)) = terms.cap(h) {
                cap_scores(call.level, scores, inner, cap);
            }
            terms.additive((b, h, t), &keys, Cover::Part, &mut added);
            weigh(call.level, scores, weights, &added, factor, lse[self.extent().row(b, t, h)]);
        }
    }

    /// [B H N S']: the weights of some queries for a run of keys.
    fn rows(&self, total: usize, query: impl Fn(usize) -> usize + Sync, keys: std::ops::Range<usize>) {
        let (extent, width) = (self.extent(), keys.len());
        let tiles = total.div_ceil(QUERIES);
        self.call.pool.run(extent.b * extent.h * tiles, &|task, worker| {
            let (own, first) = (task / tiles, task % tiles * QUERIES);
            let (at, count) = ((own / extent.h, own % extent.h), QUERIES.min(total - first));
            let mut buffers = self.buffers(worker);
            self.load(at, count, |n| query(first + n), &mut buffers);
            for start in keys.clone().step_by(KEYS) {
                self.tile(at, count, |n| query(first + n), start, &mut buffers);
                let length = KEYS.min(keys.end - start);
                for (n, weights) in buffers.weights.chunks_exact(KEYS).take(count).enumerate() {
                    let from = (own * total + first + n) * width + start - keys.start;
                    // SAFETY: these queries of this head are this task's alone.
                    unsafe { self.call.store(0, from..from + length, &weights[..length]) };
                }
            }
        });
    }

    /// [B H T N]: the weights of some keys for all queries.
    fn columns(&self, list: &[usize]) {
        let (extent, terms, call) = (self.extent(), self.terms, self.call);
        let (d, tiles) = (extent.d, extent.t.div_ceil(QUERIES));
        let lse = call.f32(2);
        call.pool.run(extent.b * extent.h * tiles, &|task, worker| {
            let (own, first) = (task / tiles, task % tiles * QUERIES);
            let (b, h) = (own / extent.h, own % extent.h);
            let count = QUERIES.min(extent.t - first);
            let mut buffers = self.buffers(worker);
            self.load((b, h), count, |n| first + n, &mut buffers);
            for (column, &s) in list.iter().enumerate() {
                let key: KeyTile<1> = terms.key_tile(b, s);
                let row = &mut buffers.rows[..d];
                terms.load_keys(call, 1, (b, h / extent.share()), &key, row);
                for (n, query) in buffers.query.chunks_exact(d).take(count).enumerate() {
                    let mut added = [0.0];
                    terms.additive((b, h, first + n), &key, Cover::Part, &mut added);
                    let (mut score, mut weight) = ([reduce::dot(call.level, query, row)], [0.0]);
                    if let Some((inner, cap)) = terms.cap(h) {
                        cap_scores(call.level, &mut score, inner, cap);
                    }
                    let lse = lse[extent.row(b, first + n, h)];
                    weigh(call.level, &mut score, &mut weight, &added, terms.outer_factor(h), lse);
                    let at = (own * extent.t + first + n) * list.len() + column;
                    // SAFETY: this query of this head is this task's alone.
                    unsafe { call.store(0, at..at + 1, &weight) };
                }
            }
        });
    }

    /// [B H S]: Σ over queries, tile by tile.
    fn column_sums(&self) {
        let extent = self.extent();
        let tiles = extent.s.div_ceil(KEYS);
        self.call.pool.run(extent.b * extent.h * tiles, &|task, worker| {
            let (own, start) = (task / tiles, task % tiles * KEYS);
            let at = (own / extent.h, own % extent.h);
            let mut buffers = self.buffers(worker);
            let mut total = [0.0; KEYS];
            for first in (0..extent.t).step_by(QUERIES) {
                let count = QUERIES.min(extent.t - first);
                let keys = start..(start + KEYS).min(extent.s);
                if self.terms.allowed.cover(at.0, at.1, first..first + count, keys) == Cover::Nothing {
                    continue;
                }
                self.load(at, count, |n| first + n, &mut buffers);
                self.tile(at, count, |n| first + n, start, &mut buffers);
                let mut part = [0.0; KEYS];
                for weights in buffers.weights.chunks_exact(KEYS).take(count) {
                    part.iter_mut().zip(weights).for_each(|(sum, w)| *sum += w);
                }
                total.iter_mut().zip(&part).for_each(|(sum, part)| *sum += part);
            }
            let length = KEYS.min(extent.s - start);
            let from = own * extent.s + start;
            // SAFETY: these keys of this head are this task's alone.
            unsafe { self.call.store(0, from..from + length, &total[..length]) };
        });
    }

    /// Runs `body` over all tiles of each tile of queries: (b, h), first query, count, first key.
    fn by_query(
        &self,
        begin: impl Fn((usize, usize), usize, usize, &mut Buffers<'_>) + Sync,
        body: impl Fn((usize, usize), usize, usize, usize, &mut Buffers<'_>) + Sync,
        end: impl Fn((usize, usize), usize, usize, &mut Buffers<'_>) + Sync,
    ) {
        let extent = self.extent();
        let tiles = extent.t.div_ceil(QUERIES);
        self.call.pool.run(extent.b * extent.h * tiles, &|task, worker| {
            let (own, first) = (task / tiles, task % tiles * QUERIES);
            let at = (own / extent.h, own % extent.h);
            let count = QUERIES.min(extent.t - first);
            let mut buffers = self.buffers(worker);
            begin(at, first, count, &mut buffers);
            self.load(at, count, |n| first + n, &mut buffers);
            for start in (0..extent.s).step_by(KEYS) {
                let keys = start..(start + KEYS).min(extent.s);
                if self.terms.allowed.cover(at.0, at.1, first..first + count, keys) != Cover::Nothing {
                    self.tile(at, count, |n| first + n, start, &mut buffers);
                    body(at, first, count, start, &mut buffers);
                }
            }
            end(at, first, count, &mut buffers);
        });
    }

    /// [B T H]: Σ w·(lse − score), tile by tile.
    fn entropy(&self) {
        let (extent, call) = (self.extent(), self.call);
        let lse = call.f32(2);
        // SAFETY: taken once here; each task adds to rows of its own.
        let out = Disjoint::new(unsafe { call.out_f32(0) });
        self.by_query(
            |(b, h), first, count, _| {
                for n in 0..count {
                    let at = extent.row(b, first + n, h);
                    // SAFETY: this row belongs to this task.
                    let sum = unsafe { out.range(at..at + 1) };
                    sum[0] = 0.0;
                }
            },
            |(b, h), first, count, _, buffers| {
                let rows = buffers.scores.chunks_exact_mut(KEYS).zip(buffers.weights.chunks_exact(KEYS));
                for (n, (scores, weights)) in rows.take(count).enumerate() {
                    let at = extent.row(b, first + n, h);
                    for (score, w) in scores.iter_mut().zip(weights) {
                        *score = if *w == 0.0 { 0.0 } else { lse[at] - *score };
                    }
                    // SAFETY: this row belongs to this task.
                    let sum = unsafe { out.range(at..at + 1) };
                    sum[0] += reduce::dot(call.level, scores, weights);
                }
            },
            |_, _, _, _| (),
        );
    }

    /// [B T H k] twice: a list of each query's best, kept in order while the keys go by.
    fn top(&self, k: usize) {
        let (extent, call) = (self.extent(), self.call);
        // SAFETY: taken once here; each task writes rows of its own.
        let indices = call.wants(1).then(|| Disjoint::new(unsafe { call.out_i32(1) }));
        self.by_query(
            |_, _, _, buffers| {
                for best in buffers.best.chunks_exact_mut(3 * k) {
                    best[..k].fill(f32::NEG_INFINITY); // scores
                    best[k..2 * k].fill(0.0); // weights
                    best[2 * k..].fill(f32::from_bits(u32::MAX)); // indices, −1
                }
            },
            |_, _, count, start, buffers| {
                let rows = buffers.scores.chunks_exact(KEYS).zip(buffers.weights.chunks_exact(KEYS));
                for ((scores, weights), best) in rows.zip(buffers.best.chunks_exact_mut(3 * k)).take(count) {
                    let (best_scores, rest) = best.split_at_mut(k);
                    let (best_weights, best_indices) = rest.split_at_mut(k);
                    for (j, &score) in scores.iter().enumerate() {
                        // Behind all that are at least as large: of equals the lowest index comes first.
                        let at = best_scores.partition_point(|best| *best >= score);
                        if at == k || score == f32::NEG_INFINITY {
                            continue;
                        }
                        for list in [&mut *best_scores, &mut *best_weights, &mut *best_indices] {
                            list.copy_within(at..k - 1, at + 1);
                        }
                        best_scores[at] = score;
                        best_weights[at] = weights[j];
                        best_indices[at] = f32::from_bits((start + j) as u32);
                    }
                }
            },
            |(b, h), first, count, buffers| {
                for (n, best) in buffers.best.chunks_exact(3 * k).take(count).enumerate() {
                    let at = extent.row(b, first + n, h) * k;
                    if call.wants(0) {
                        // SAFETY: this query of this head is this task's alone.
                        unsafe { call.store(0, at..at + k, &best[k..2 * k]) };
                    }
                    if let Some(indices) = &indices {
                        // SAFETY: this row belongs to this task.
                        let out = unsafe { indices.range(at..at + k) };
                        out.iter_mut().zip(&best[2 * k..]).for_each(|(out, x)| *out = x.to_bits() as i32);
                    }
                }
            },
        );
    }
}

/// The one-hot weights of hard attention, read off the choice.
fn hard(call: &CpuCall<'_>, extent: &Extent, request: &WeightsRequest) {
    let choice = call.i32(2);
    let chosen = |b: usize, h: usize, t: usize, s: usize| choice[extent.row(b, t, h)] as usize == s;
    let one = |truth: bool| if truth { 1.0 } else { 0.0 };
    // SAFETY: taken once here, by this thread.
    let out: &mut [f32] = if call.wants(0) { unsafe { call.out_f32(0) } } else { &mut [] };
    let fill = |out: &mut [f32], queries: usize, keys: usize, at: &dyn Fn(usize, usize) -> (usize, usize)| {
        for (flat, out) in out.iter_mut().enumerate() {
            let (own, n, m) = (flat / (queries * keys), flat / keys % queries, flat % keys);
            let (t, s) = at(n, m);
            *out = one(chosen(own / extent.h, own % extent.h, t, s));
        }
    };
    match request {
        WeightsRequest::Rows(list) => fill(out, list.len(), extent.s, &|n, s| (list[n], s)),
        WeightsRequest::Columns(list) => fill(out, extent.t, list.len(), &|t, n| (t, list[n])),
        WeightsRequest::Block { queries, keys } => {
            fill(out, queries.len(), keys.len(), &|n, m| (queries.start + n, keys.start + m));
        }
        WeightsRequest::Entropy => out.fill(0.0),
        WeightsRequest::ColumnSums => {
            out.fill(0.0);
            for (row, &s) in choice.iter().enumerate().filter(|(_, s)| **s >= 0) {
                let (b, h) = (row / extent.h / extent.t, row % extent.h);
                out[(b * extent.h + h) * extent.s + s as usize] += 1.0;
            }
        }
        WeightsRequest::TopK(k) => {
            out.chunks_exact_mut(*k).zip(choice).for_each(|(out, &s)| {
                out.fill(0.0);
                out[0] = one(s >= 0);
            });
            if call.wants(1) {
                // SAFETY: taken once here, by this thread.
                let indices = unsafe { call.out_i32(1) };
                indices.chunks_exact_mut(*k).zip(choice).for_each(|(out, &s)| {
                    out.fill(-1);
                    out[0] = s;
                });
            }
        }
    }
}

multiversion! {
    /// Dots to final scores, and weights exp(score − lse); masked pairs get −∞ and 0.
    fn weigh(scores: &mut [f32], weights: &mut [f32], added: &[f32], factor: f32, lse: f32) {
        for ((score, weight), &added) in scores.iter_mut().zip(weights).zip(added) {
            let masked = added == f32::NEG_INFINITY;
            *score = if masked { f32::NEG_INFINITY } else { score.mul_add(factor, added) };
            *weight = if masked { 0.0 } else { math::exp(*score - lse) };
        }
    }
}
