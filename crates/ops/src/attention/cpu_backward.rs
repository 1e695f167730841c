//! The backward on the CPU. With enough key/value heads for all threads, each goes through the five products
//! of a tile once, adding to dk and dv of the tile of keys and to dq of the tile of queries. With fewer, one
//! pass over tiles of queries makes dq and one over tiles of keys dk and dv. Both add the same numbers in the
//! same order, so that the number of threads changes no bit; nothing is shared, nothing is atomic.

#![allow(unsafe_code)]

use super::backward::Backward;
use super::bias::{radius, table_row};
use super::cpu_rows::{Terms, by_distance_floats, carve, carved_bytes};
use super::cpu_score_gradient::Tiles;
use super::cpu_table::Bias;
use super::cpu_tile::{Buffers, Layout, Pair, buffer_floats};
use super::form::{BiasForm, Extent, Extra, Form};
use super::mask::Cover;
use crate::{CpuCall, Fault, Needs, Request};
use half::bf16;
use regard_device::{Disjoint, Matrix, Operand, convert, reduce};
use regard_graph::{DType, Dims, Precision};
use std::marker::PhantomData;

pub use super::cpu_tile::{KEYS, QUERIES};

/// The most scratch of one thread, in bytes, with which a thread takes on whole heads.
const MOST_FUSED: usize = 64 << 20;

/// What is asked for.
#[derive(Clone, Copy)]
struct Wants {
    query: bool,
    key: bool,
    value: bool,
    scale: bool,
    table: bool,
    dense: bool,
}

impl Wants {
    fn new(op: &Backward, wants: &dyn Fn(usize) -> bool) -> Self {
        let bias = op.bias_output().is_some_and(wants);
        let dense = op.form.bias == BiasForm::Dense;
        Wants {
            query: wants(0),
            key: wants(1),
            value: wants(2),
            scale: op.scale_output().is_some_and(wants),
            table: bias && !dense,
            dense: bias && dense,
        }
    }
}

/// Numbers that a table's gradient is first summed in, for each head: by distance; one for slopes.
fn table_floats(form: &Form, wants: &Wants, bias: Option<Dims>) -> usize {
    match bias {
        Some(bias) if wants.table && form.bias != BiasForm::Alibi => 2 * radius(form.bias, bias[0]) + 1,
        _ => usize::from(wants.table),
    }
}

/// Floats of the scratch that all threads share: the bias by distance, the tables' gradients of each example
/// and head, the parts of dβ, and for one key/value head: keys, queries, tables of each tile of keys.
fn shared_floats(layout: &Layout, by_distance: usize, table: usize) -> [usize; 6] {
    let Extent { b, h, .. } = layout.extent;
    let share = layout.extent.share();
    [
        by_distance,
        b * h * table,
        b * h * layout.query_tiles,
        layout.key_tiles * layout.key_unit,
        share * layout.query_tiles * layout.query_unit,
        share * layout.key_tiles * table,
    ]
}

/// Floats of a thread's scratch: the buffers of a tile; then, for a whole key/value head: keys, queries, dq
/// and a tile's tables.
fn fused_floats(layout: &Layout, table: usize) -> [usize; 5] {
    let share = layout.extent.share();
    [
        buffer_floats(layout),
        layout.key_tiles * layout.key_unit,
        share * layout.query_tiles * layout.query_unit,
        share * layout.query_tiles * QUERIES * layout.extent.d,
        table,
    ]
}

/// Floats of a thread's scratch otherwise: the buffers of a tile; one unit of keys and of queries.
fn split_floats(layout: &Layout) -> [usize; 3] {
    [buffer_floats(layout), layout.key_unit, layout.query_unit]
}

pub fn needs(op: &Backward, request: &Request<'_>) -> Needs {
    match op.form.precision {
        Precision::F32 => needs_in::<f32>(op, request),
        Precision::Bf16 => needs_in::<bf16>(op, request),
    }
}

fn needs_in<T: Operand>(op: &Backward, request: &Request<'_>) -> Needs {
    let (dims, form) = (request.call.inputs, &op.form);
    let extent = Extent::new(dims[0], dims[1], Some(dims[2]));
    let bias = form.place(op.base(), Extra::Bias).map(|input| dims[input]);
    let wants = Wants::new(op, &|output| request.call.used[output]);
    let (layout, table) = (Layout::new::<T>(extent, form.cap.is_some()), table_floats(form, &wants, bias));
    let split = carved_bytes(split_floats(&layout));
    let fused = carved_bytes(fused_floats(&layout, table));
    Needs {
        scratch: carved_bytes(shared_floats(&layout, by_distance_floats(form, extent.h, bias), table)),
        thread_scratch: if fused <= MOST_FUSED { split.max(fused) } else { split },
        packs: Vec::new(),
    }
}

pub fn run(op: &Backward, call: &CpuCall<'_>) -> Result<(), Fault> {
    match op.form.precision {
        Precision::F32 => run_in::<f32>(op, call),
        Precision::Bf16 => run_in::<bf16>(op, call),
    }
}

/// All of it, with products of one type of numbers.
fn run_in<T: Operand>(op: &Backward, call: &CpuCall<'_>) -> Result<(), Fault> {
    let form = &op.form;
    let extent = Extent::new(call.dims(0), call.dims(1), Some(call.dims(2)));
    let bias = form.place(op.base(), Extra::Bias).map(|input| call.dims(input));
    let wants = Wants::new(op, &|output| call.wants(output));
    let (layout, table) = (Layout::new::<T>(extent, form.cap.is_some()), table_floats(form, &wants, bias));
    let floats = shared_floats(&layout, by_distance_floats(form, extent.h, bias), table);
    // SAFETY: taken once in this call.
    let [by_distance, tables, scales, keys, queries, tile_tables] =
        carve(unsafe { call.scratch_f32() }, floats);
    let terms = Terms::new(form, call, extent, op.base(), by_distance)?;
    let tiles = Tiles::<T> { op, call, terms: &terms, layout, numbers: PhantomData };
    tables.fill(0.0);
    scales.fill(0.0);
    let pairs = extent.b * extent.g;
    let shared =
        |output: usize| (form.has(Extra::KeyRow) && call.wants(output)).then(|| Sums::new(call, output));
    let work = Work { tiles, wants, table, shared: [shared(1), shared(2)] };
    if !(work.wants_query() || wants.key || wants.value || wants.table) {
        // A dense bias alone has a pass of its own.
    } else if work.is_fused(pairs) {
        let (tables, scales) = (Disjoint::new(&mut *tables), Disjoint::new(&mut *scales));
        call.pool.run(pairs, &|pair, worker| {
            let heads = pair * extent.share();
            // SAFETY: one task at a time on this worker.
            let scratch = unsafe { call.thread_scratch_f32(worker) };
            // SAFETY: each pair has heads of its own.
            let (tables, scales) = unsafe {
                let (first, last) = (heads, heads + extent.share());
                let parts = layout.query_tiles;
                (tables.range(first * table..last * table), scales.range(first * parts..last * parts))
            };
            work.fused(Pair::new(&extent, pair), scratch, tables, scales);
        });
    } else {
        for pair in 0..pairs {
            let heads = pair * extent.share()..(pair + 1) * extent.share();
            let tables = &mut tables[heads.start * table..heads.end * table];
            let scales = &mut scales[heads.start * layout.query_tiles..heads.end * layout.query_tiles];
            work.split(Pair::new(&extent, pair), keys, queries, tile_tables, tables, scales);
        }
    }
    if wants.dense {
        work.dense();
    }
    work.finish(tables, scales);
    Ok(())
}

struct Work<'a, T> {
    tiles: Tiles<'a, T>,
    wants: Wants,
    /// Numbers of a table by distance.
    table: usize,
    /// dk and dv, where examples share rows of the key/value batch.
    shared: [Option<Sums<'a>>; 2],
}

impl<T: Operand> Work<'_, T> {
    /// Whether the key/value heads keep all threads busy for more of the time than it costs to make the
    /// scores twice: seven products instead of five.
    fn is_fused(&self, pairs: usize) -> bool {
        let call = self.tiles.call;
        let threads = call.pool.threads();
        let rounds = pairs.div_ceil(threads);
        // SAFETY: only its length is read; no task runs.
        let room = unsafe { call.thread_scratch_f32(0) }.len() * 4;
        let fits = carved_bytes(fused_floats(&self.tiles.layout, self.table)) <= room;
        fits && !self.tiles.op.form.has(Extra::KeyRow) && pairs * 7 >= rounds * threads * 5
    }

    fn wants_query(&self) -> bool {
        self.wants.query || self.wants.scale
    }

    /// All of one key/value head by one thread.
    fn fused(&self, pair: Pair, scratch: &mut [f32], tables: &mut [f32], scales: &mut [f32]) {
        let (tiles, layout) = (&self.tiles, &self.tiles.layout);
        let extent = layout.extent;
        let [buffers, keys, queries, dq, tile_table] = carve(scratch, fused_floats(layout, self.table));
        let mut buffers = Buffers::new(buffers, layout);
        for tile in 0..layout.key_tiles {
            let unit = &mut keys[tile * layout.key_unit..][..layout.key_unit];
            tiles.pack_keys(pair, tile, unit, buffers.rows);
        }
        for at in 0..pair.share * layout.query_tiles {
            let unit = &mut queries[at * layout.query_unit..][..layout.query_unit];
            tiles.pack_queries(pair, at, unit, &mut buffers);
            tiles.soft_mean(pair, at, Some(keys), unit, &mut buffers);
        }
        dq.fill(0.0);
        for tile in 0..layout.key_tiles {
            let unit = &keys[tile * layout.key_unit..][..layout.key_unit];
            buffers.clear();
            for head in 0..pair.share {
                tile_table.fill(0.0);
                for block in 0..layout.query_tiles {
                    let at = head * layout.query_tiles + block;
                    let queries = &queries[at * layout.query_unit..][..layout.query_unit];
                    if !tiles.score_gradient(pair, tile, at, unit, queries, &mut buffers) {
                        continue;
                    }
                    self.add_table(pair, tile, at, &mut buffers, tile_table);
                    tiles.through_cap(&mut buffers);
                    self.add_key_value(queries, &mut buffers);
                    if self.wants_query() {
                        let dq = &mut dq[at * QUERIES * extent.d..][..QUERIES * extent.d];
                        tiles.add_query(unit, &mut buffers, dq);
                    }
                }
                buffers.finish_head(self.factor(pair, head));
                let own = &mut tables[head * self.table..(head + 1) * self.table];
                own.iter_mut().zip(&*tile_table).for_each(|(sum, part)| *sum += part);
            }
            self.store_key_value(pair, tile, &mut buffers);
        }
        for at in 0..pair.share * layout.query_tiles {
            let dq = &mut dq[at * QUERIES * extent.d..][..QUERIES * extent.d];
            scales[at] = self.store_query(pair, at, dq, &mut buffers);
        }
    }

    /// One key/value head by all threads: dq by tiles of queries, then dk and dv by tiles of keys.
    fn split(
        &self,
        pair: Pair,
        keys: &mut [f32],
        queries: &mut [f32],
        tile_tables: &mut [f32],
        tables: &mut [f32],
        scales: &mut [f32],
    ) {
        let (tiles, layout, call) = (&self.tiles, &self.tiles.layout, self.tiles.call);
        let blocks = pair.share * layout.query_tiles;
        let units = Disjoint::new(&mut *keys);
        call.pool.run(layout.key_tiles, &|tile, worker| {
            // SAFETY: one task at a time on this worker.
            let [buffers, ..] = carve(unsafe { call.thread_scratch_f32(worker) }, split_floats(layout));
            // SAFETY: each task has a unit of its own.
            let unit = unsafe { units.range(tile * layout.key_unit..(tile + 1) * layout.key_unit) };
            tiles.pack_keys(pair, tile, unit, Buffers::new(buffers, layout).rows);
        });
        let keys = &*keys;
        let units = Disjoint::new(&mut *queries);
        call.pool.run(blocks, &|at, worker| {
            // SAFETY: one task at a time on this worker.
            let [buffers, ..] = carve(unsafe { call.thread_scratch_f32(worker) }, split_floats(layout));
            let mut buffers = Buffers::new(buffers, layout);
            // SAFETY: each task has a unit of its own.
            let unit = unsafe { units.range(at * layout.query_unit..(at + 1) * layout.query_unit) };
            tiles.pack_queries(pair, at, unit, &mut buffers);
            tiles.soft_mean(pair, at, Some(keys), unit, &mut buffers);
        });
        let queries = &*queries;
        if self.wants_query() {
            let scales = Disjoint::new(scales);
            call.pool.run(blocks, &|at, worker| {
                let at = blocks - 1 - at;
                // SAFETY: one task at a time on this worker.
                let [buffers, ..] = carve(unsafe { call.thread_scratch_f32(worker) }, split_floats(layout));
                let part = self.query_gradient(pair, at, keys, queries, &mut Buffers::new(buffers, layout));
                // SAFETY: each task has a number of its own.
                let own = unsafe { scales.range(at..at + 1) };
                own[0] = part;
            });
        }
        if self.wants.key || self.wants.value || self.wants.table {
            let parts = Disjoint::new(&mut *tile_tables);
            call.pool.run(layout.key_tiles, &|tile, worker| {
                // SAFETY: one task at a time on this worker.
                let [buffers, ..] = carve(unsafe { call.thread_scratch_f32(worker) }, split_floats(layout));
                let length = pair.share * self.table;
                // SAFETY: each task has tables of its own.
                let part = unsafe { parts.range(tile * length..(tile + 1) * length) };
                self.key_gradient(pair, tile, keys, queries, part, &mut Buffers::new(buffers, layout));
            });
            for part in tile_tables.chunks_exact((pair.share * self.table).max(1)) {
                tables.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
            }
        }
    }

    /// dq of one tile of queries; its part of dβ.
    fn query_gradient(
        &self,
        pair: Pair,
        at: usize,
        keys: &[f32],
        queries: &[f32],
        buffers: &mut Buffers<'_>,
    ) -> f32 {
        let (tiles, layout) = (&self.tiles, &self.tiles.layout);
        let queries = &queries[at * layout.query_unit..][..layout.query_unit];
        let mut dq = std::mem::take(&mut buffers.dq);
        dq.fill(0.0);
        for tile in 0..layout.key_tiles {
            let unit = &keys[tile * layout.key_unit..][..layout.key_unit];
            if tiles.score_gradient(pair, tile, at, unit, queries, buffers) {
                tiles.through_cap(buffers);
                tiles.add_query(unit, buffers, dq);
            }
        }
        let part = self.store_query(pair, at, dq, buffers);
        buffers.dq = std::mem::take(&mut dq);
        part
    }

    /// dk and dv of one tile of keys, and its tables.
    fn key_gradient(
        &self,
        pair: Pair,
        tile: usize,
        keys: &[f32],
        queries: &[f32],
        tables: &mut [f32],
        buffers: &mut Buffers<'_>,
    ) {
        let (tiles, layout) = (&self.tiles, &self.tiles.layout);
        let unit = &keys[tile * layout.key_unit..][..layout.key_unit];
        buffers.clear();
        tables.fill(0.0);
        for head in 0..pair.share {
            let part = &mut tables[head * self.table..(head + 1) * self.table];
            for at in head * layout.query_tiles..(head + 1) * layout.query_tiles {
                let queries = &queries[at * layout.query_unit..][..layout.query_unit];
                if tiles.score_gradient(pair, tile, at, unit, queries, buffers) {
                    self.add_table(pair, tile, at, buffers, part);
                    tiles.through_cap(buffers);
                    self.add_key_value(queries, buffers);
                }
            }
            buffers.finish_head(self.factor(pair, head));
        }
        self.store_key_value(pair, tile, buffers);
    }

    /// What the products of a head are scaled by.
    fn factor(&self, pair: Pair, head: usize) -> f32 {
        self.tiles.terms.factor(pair.g * pair.share + head)
    }

    fn add_key_value(&self, queries: &[f32], buffers: &mut Buffers<'_>) {
        self.tiles.add_key_value(queries, buffers, self.wants.key, self.wants.value);
    }

    fn add_table(&self, pair: Pair, tile: usize, at: usize, buffers: &mut Buffers<'_>, part: &mut [f32]) {
        if self.wants.table {
            buffers.turn();
            let bias = if self.table == 1 && self.tiles.op.form.bias == BiasForm::Alibi {
                Bias::Slope
            } else {
                Bias::ByDistance
            };
            self.tiles.add_table(pair, tile, at, buffers, bias, part);
        }
    }

    /// Writes dq of a tile from dqᵀ, scaled; gives Σ q·(dq before scaling), its part of dβ.
    fn store_query(&self, pair: Pair, at: usize, dq_t: &[f32], buffers: &mut Buffers<'_>) -> f32 {
        if !self.wants_query() {
            return 0.0;
        }
        let (tiles, extent) = (&self.tiles, self.tiles.layout.extent);
        let (level, (h, start)) = (tiles.call.level, tiles.layout.place(pair, at));
        let (dq, rows) = buffers.rows.split_at_mut(QUERIES * extent.d);
        f32::rows(level, Matrix::transposed(dq_t, QUERIES), QUERIES, extent.d, dq);
        let mut part = 0.0;
        if self.wants.scale {
            let rows = &mut rows[..QUERIES * extent.d];
            tiles.terms.load_queries(tiles.call, 0, (pair.b, h), start, rows);
            for (q, dq) in rows.chunks_exact(extent.d).zip(dq.chunks_exact(extent.d)) {
                part += reduce::dot(level, q, dq);
            }
        }
        if self.wants.query {
            let factor = tiles.terms.factor(h);
            dq.iter_mut().for_each(|x| *x *= factor);
            let there = (extent.t - start).min(QUERIES) * extent.d;
            let first = extent.row(pair.b, start, h) * extent.d;
            // SAFETY: these queries of this head are one task's alone.
            unsafe { tiles.call.store_rows(0, first, extent.h * extent.d, extent.d, &dq[..there]) };
        }
        part
    }

    /// Writes dk and dv of a tile, or adds them where several examples share the row of a key.
    fn store_key_value(&self, pair: Pair, tile: usize, buffers: &mut Buffers<'_>) {
        let (terms, call) = (self.tiles.terms, self.tiles.call);
        let extent = terms.extent;
        let outputs =
            [(1, self.wants.key, extent.d, &*buffers.dk), (2, self.wants.value, extent.e, &*buffers.dv)];
        for (output, wanted, width, rows) in outputs {
            if !wanted {
                continue;
            }
            let at = |key_row: usize, s: usize| ((key_row * extent.s + s) * extent.g + pair.g) * width;
            let (first, there) = (tile * KEYS, (extent.s - tile * KEYS).min(KEYS));
            let Some(sums) = &self.shared[output - 1] else {
                let rows = &rows[..there * width];
                // SAFETY: these keys of this key/value head are one task's alone.
                unsafe { call.store_rows(output, at(pair.b, first), extent.g * width, width, rows) };
                continue;
            };
            for (s, row) in (first..first + there).zip(rows.chunks_exact(width)) {
                if terms.allowed.exists(pair.b, s) {
                    // SAFETY: examples come one after the other, and each key of one has its own row.
                    unsafe { sums.add(at(terms.row_of(pair.b, s), s), row) };
                }
            }
        }
    }

    /// The gradient of a dense bias: each task makes the score gradients of one tile of queries again, for
    /// all examples and heads that share the bias, in order.
    fn dense(&self) {
        let (tiles, layout, call) = (&self.tiles, &self.tiles.layout, self.tiles.call);
        let extent = layout.extent;
        let Some(output) = tiles.op.bias_output() else { return };
        let dims = call.out_dims(output);
        // SAFETY: taken once here; tasks write rows of their own.
        let out = Disjoint::new(unsafe { call.out_f32(output) });
        let per_temperature = tiles.terms.per_temperature() as f32;
        call.pool.run(dims[0] * dims[1] * layout.query_tiles, &|task, worker| {
            let (own, block) = (task / layout.query_tiles, task % layout.query_tiles);
            let (own_b, own_h) = (own / dims[1], own % dims[1]);
            let start = block * QUERIES;
            let count = QUERIES.min(extent.t - start);
            let from = (own * extent.t + start) * extent.s;
            // SAFETY: each task has rows of its own.
            let out = unsafe { out.range(from..from + count * extent.s) };
            out.fill(0.0);
            // SAFETY: one task at a time on this worker.
            let scratch = unsafe { call.thread_scratch_f32(worker) };
            let [buffers, key_unit, query_unit] = carve(scratch, split_floats(layout));
            let mut buffers = Buffers::new(buffers, layout);
            for b in (0..extent.b).filter(|&b| dims[0] != extent.b || b == own_b) {
                for h in (0..extent.h).filter(|&h| dims[1] != extent.h || h == own_h) {
                    let pair = Pair::new(&extent, b * extent.g + h / extent.share());
                    let at = h % extent.share() * layout.query_tiles + block;
                    tiles.pack_queries(pair, at, query_unit, &mut buffers);
                    tiles.soft_mean(pair, at, None, query_unit, &mut buffers);
                    for tile in 0..layout.key_tiles {
                        let keys = tile * KEYS..((tile + 1) * KEYS).min(extent.s);
                        let cover = tiles.terms.allowed.cover(b, h, start..start + count, keys.clone());
                        if cover == Cover::Nothing {
                            continue;
                        }
                        tiles.pack_keys(pair, tile, key_unit, buffers.rows);
                        tiles.score_gradient(pair, tile, at, key_unit, query_unit, &mut buffers);
                        buffers.turn();
                        for (i, ds) in buffers.turned.chunks_exact(KEYS).take(count).enumerate() {
                            let out = &mut out[i * extent.s..][keys.clone()];
                            out.iter_mut().zip(ds).for_each(|(sum, ds)| *sum += ds * per_temperature);
                        }
                    }
                }
            }
        });
    }

    /// Sums the parts of dβ, and the tables by distance into tables by row, in the order of examples.
    fn finish(&self, tables: &[f32], scales: &[f32]) {
        let (tiles, op) = (&self.tiles, self.tiles.op);
        let (call, extent) = (tiles.call, tiles.layout.extent);
        let per_temperature = tiles.terms.per_temperature();
        let head = |at: usize| at % extent.h;
        if let (Some(output), true) = (op.scale_output(), self.wants.scale) {
            // SAFETY: taken once here.
            let out = unsafe { call.out_f32(output) };
            for (h, out) in out.iter_mut().enumerate() {
                let parts = scales.chunks_exact(tiles.layout.query_tiles.max(1)).enumerate();
                let own = parts.filter(|(at, _)| head(*at) == h).flat_map(|(_, parts)| parts);
                *out = (own.map(|&x| x as f64).sum::<f64>() * per_temperature) as f32;
            }
        }
        if let (Some(output), true) = (op.bias_output(), self.wants.table) {
            let rows = call.out_dims(output)[0];
            // SAFETY: taken once here.
            let out = unsafe { call.out_f32(output) };
            out.fill(0.0);
            let reach = radius(op.form.bias, rows) as i64;
            for (at, table) in tables.chunks_exact(self.table).enumerate() {
                let h = head(at);
                for (distance, sum) in table.iter().enumerate() {
                    let slot = match op.form.bias {
                        BiasForm::Alibi => h,
                        form => table_row(form, rows, distance as i64 - reach) * extent.h + h,
                    };
                    out[slot] += sum * per_temperature as f32;
                }
            }
        }
    }
}

/// A result that examples add to, where they share rows of the key/value batch.
enum Sums<'a> {
    F32(Disjoint<'a, f32>),
    Bf16(Disjoint<'a, bf16>),
}

impl<'a> Sums<'a> {
    fn new(call: &CpuCall<'a>, output: usize) -> Self {
        let count = call.out_dims(output).count();
        call.chunks(count, |part| {
            let zeros = [0.0; crate::CHUNK];
            part.store(output, part.items(), &zeros[..part.len()]);
        });
        match call.out_dtype(output) {
            // SAFETY: taken once in this call.
            DType::BF16 => Sums::Bf16(Disjoint::new(unsafe { call.out_bf16(output) })),
            // SAFETY: taken once in this call.
            _ => Sums::F32(Disjoint::new(unsafe { call.out_f32(output) })),
        }
    }

    /// Adds a row.
    ///
    /// # Safety
    /// No other task adds to the same row meanwhile.
    unsafe fn add(&self, from: usize, row: &[f32]) {
        let range = from..from + row.len();
        match self {
            Sums::F32(all) => {
                // SAFETY: the row is the caller's alone.
                let out = unsafe { all.range(range) };
                out.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
            }
            Sums::Bf16(all) => {
                // SAFETY: the row is the caller's alone.
                let out = unsafe { all.range(range) };
                out.iter_mut().zip(row).for_each(|(sum, x)| *sum = convert::narrow(convert::widen(*sum) + x));
            }
        }
    }
}
