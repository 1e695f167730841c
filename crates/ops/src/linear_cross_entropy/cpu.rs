//! The output projection with cross-entropy, some rows at a time and never more logits than [`LOGIT_BYTES`].
//! Logits stand transposed, [V rows]: then the weight is the left factor of every product and is read as it
//! lies, without a packed copy, and the softmax runs over rows side by side.
//!
//! A group of rows walks the vocabulary twice, and what one step writes the next finds in a cache: of the
//! logits, memory sees one write and one read. First, for each [`TASK`] of entries, one thread makes logits =
//! W · xᵀ and, in blocks, the maximum, exp(logit − maximum) in its place and the sum. From the blocks comes
//! each row's loss. Then, if wanted, for each part of the vocabulary: one thread for each task makes d =
//! scale · (softmax − target), as the products read it, in a place that every part takes again, dbias += Σ d
//! and dW += d · x; and when the part is done, all threads add dᵀ · W to dx. Every sum has a fixed order.

#![allow(unsafe_code)]

use super::LinearCrossEntropy;
use super::cpu_softmax::{BLOCK, Softmax};
use crate::call::CHUNK;
use crate::cpu_product::{bytes_of, storage};
use crate::cross_entropy::targets::check_targets;
use crate::{CpuCall, Fault, Needs};
use half::bf16;
use regard_device::{
    DataMut, Disjoint, Epilogue, Gemm, Matrix, MatrixMut, PANEL, PackedB, Scratch, Storage, convert, gemm,
    pack_b, packed_b_bytes,
};
use std::ops::Range;

/// The most bytes of logits at a time. With GPT-2's vocabulary that is 512 rows: each group of rows packs the
/// whole weight twice and adds to the whole of its gradient, which with 160 rows cost a fifth of the time.
const LOGIT_BYTES: usize = 128 << 20;
/// The most rows at a time.
pub const MOST_ROWS: usize = 512;
/// The most entries of the vocabulary that a thread works on at a time: whole blocks, as many rows as one
/// task of a product has, and with 512 rows of x their logits stay in its second cache.
const TASK: usize = 3 * BLOCK;

/// How many entries a thread works on at a time: fewer where there would not be enough for all. It shows in
/// no bit.
fn entries_of_task(entries: usize, threads: usize) -> usize {
    BLOCK * entries.div_ceil(BLOCK).div_ceil(threads).clamp(1, TASK / BLOCK)
}

/// How many entries of the vocabulary dx is added up from at a time: their gradients, 3 MB with 512 rows,
/// stay in the shared cache.
fn part_of(storage: Storage) -> usize {
    32 * TASK / storage.bytes()
}

/// How many of `rows` rows are worked on at a time: groups of nearly equal size, whole panels each. A matter
/// of these two numbers alone, because it is part of the summation order of dW.
pub fn rows_at_once(rows: usize, v: usize) -> usize {
    let groups = rows.div_ceil(most_rows(v)).max(1);
    rows.div_ceil(groups).next_multiple_of(PANEL).max(PANEL)
}

/// The most rows that are worked on at a time.
fn most_rows(v: usize) -> usize {
    (LOGIT_BYTES / 4 / v.max(1) / PANEL * PANEL).clamp(PANEL, MOST_ROWS)
}

/// How many f32 numbers of scratch each purpose takes, for at most `rows` rows.
struct Layout {
    x: usize,
    packed_x: usize,
    logits: usize,
    d: usize,
    packed_d: usize,
    dx: usize,
    maxima: usize,
    sums: usize,
    totals: usize,
    own: usize,
    ids: usize,
    live: usize,
    losses: usize,
}

impl Layout {
    fn new(op: &LinearCrossEntropy, rows: usize, v: usize, c: usize) -> Self {
        // Rows that are ignored make groups smaller, never larger than the largest.
        let n = rows.min(most_rows(v));
        let blocks = v.div_ceil(BLOCK);
        let storage = storage(op.precision);
        let packed = |k, n| packed_b_bytes(k, n, storage).div_ceil(4);
        let part = v.min(part_of(storage));
        Layout {
            x: n * c,
            // Transposed on the first walk, as it is on the second.
            packed_x: packed(c, n).max(packed(n, c)),
            logits: v * n,
            d: (part * n * storage.bytes()).div_ceil(4),
            packed_d: packed(part, n),
            dx: c * n,
            maxima: blocks * n,
            sums: blocks * n,
            totals: if op.label_smoothing == 0.0 { 0 } else { blocks * n },
            own: n,
            ids: n,
            live: rows,
            losses: rows,
        }
    }

    fn parts(&self) -> [usize; 13] {
        let Layout { x, packed_x, logits, d, packed_d, dx, maxima, sums, totals, own, ids, live, losses } =
            *self;
        // Each begins on a cache line.
        [x, packed_x, logits, d, packed_d, dx, maxima, sums, totals, own, ids, live, losses]
            .map(|n| n.next_multiple_of(16))
    }
}

pub fn needs(op: &LinearCrossEntropy, rows: usize, v: usize, c: usize) -> Needs {
    let floats: usize = Layout::new(op, rows, v, c).parts().iter().sum();
    let thread_scratch = Gemm::thread_scratch_bytes().max(BLOCK * MOST_ROWS * 4);
    Needs { scratch: floats * 4, thread_scratch, packs: Vec::new() }
}

/// One call: its sizes, operands and scratch.
struct Pass<'a> {
    call: &'a CpuCall<'a>,
    op: &'a LinearCrossEntropy,
    v: usize,
    c: usize,
    storage: Storage,
    weight: &'a [f32],
    softmax: Softmax<'a>,
    x: &'a mut [f32],
    packed_x: &'a mut [u8],
    logits: &'a mut [f32],
    d: &'a mut [f32],
    packed_d: &'a mut [u8],
    dx: &'a mut [f32],
    threads: Scratch<'a>,
}

pub fn run(op: &LinearCrossEntropy, call: &CpuCall<'_>) -> Result<(), Fault> {
    let targets = call.i32(op.targets_input());
    let (v, c) = (call.dims(1)[0], call.dims(1)[1]);
    check_targets("linear_cross_entropy", targets.iter().map(|&id| id as i64), v, op.ignore_index)?;
    let rows = targets.len();
    // SAFETY: scratch and the threads' scratch are each taken once in this call.
    let (mut rest, threads) = unsafe { (call.scratch_f32(), call.product_scratch()) };
    let mut parts = Layout::new(op, rows, v, c).parts().into_iter();
    let mut next = || {
        let (part, after) = std::mem::take(&mut rest).split_at_mut(parts.next().unwrap_or(0));
        rest = after;
        part
    };
    let mut pass = Pass {
        call,
        op,
        v,
        c,
        storage: storage(op.precision),
        weight: call.f32(1),
        x: next(),
        packed_x: bytes_of(next()),
        logits: next(),
        d: next(),
        packed_d: bytes_of(next()),
        dx: next(),
        softmax: Softmax {
            level: call.level,
            v,
            smoothing: op.label_smoothing,
            scale: call.f32(op.scale_input())[0],
            bias: op.bias.then(|| call.f32(2)),
            maxima: next(),
            sums: next(),
            totals: next(),
            own: next(),
            ids: words_of(next()),
        },
        threads,
    };
    let (live, losses) = (words_of(next()), next());
    losses.fill(0.0);
    let mut count = 0;
    for (row, &id) in targets.iter().enumerate() {
        if id != op.ignore_index {
            live[count] = row as u32;
            count += 1;
        }
    }
    let live = &live[..count];
    pass.clear(targets, count == 0);
    for (group, chosen) in live.chunks(rows_at_once(count, v)).enumerate() {
        for (id, &row) in pass.softmax.ids.iter_mut().zip(chosen) {
            *id = targets[row as usize] as u32;
        }
        pass.gather(chosen);
        pass.project(chosen.len());
        pass.softmax.losses(chosen, losses);
        if (2..5).any(|output| pass.wants(output)) {
            pass.gradients(chosen.len(), group == 0);
            pass.store_dx(chosen);
        }
    }
    if call.wants(0) {
        // One chain over the rows, in their order.
        let total = losses[..rows].iter().fold(0.0f64, |sum, &loss| sum + loss as f64);
        let loss = (pass.softmax.scale as f64 * total) as f32;
        // SAFETY: no task runs.
        unsafe { call.store(0, 0..1, &[loss]) };
    }
    if call.wants(1) {
        // SAFETY: no task runs.
        unsafe { call.store(1, 0..rows, &losses[..rows]) };
    }
    Ok(())
}

/// Scratch as integers.
fn words_of(floats: &mut [f32]) -> &mut [u32] {
    // SAFETY: f32 and u32 have the same size and alignment, and every bit pattern is valid for both.
    unsafe { floats.align_to_mut::<u32>() }.1
}

/// Scratch as bf16.
fn halves_of(floats: &mut [f32]) -> &mut [bf16] {
    // SAFETY: every f32 is two bf16 without padding, and every bit pattern is valid for both.
    unsafe { floats.align_to_mut::<bf16>() }.1
}

/// Numbers of either width, `n` to a row, to be read.
fn matrix_of<'a>(data: &'a DataMut<'_>, n: usize) -> Matrix<'a> {
    match data {
        DataMut::F32(data) => Matrix::rows(&**data, n),
        DataMut::Bf16(data) => Matrix::rows(&**data, n),
    }
}

impl Pass<'_> {
    fn wants(&self, output: usize) -> bool {
        (output < 4 || self.op.bias) && self.call.wants(output)
    }

    /// Zeros where no group of rows will write: dx of ignored rows, and all sums if there is no row at all.
    fn clear(&self, targets: &[i32], nothing_lives: bool) {
        let (call, c) = (self.call, self.c);
        let zeros = [0.0; CHUNK];
        if self.wants(2) {
            call.rows(targets.len(), c, |own, _| {
                let row = own.first();
                if targets[row] == self.op.ignore_index {
                    for from in (0..c).step_by(CHUNK) {
                        let width = CHUNK.min(c - from);
                        own.store(2, row * c + from..row * c + from + width, &zeros[..width]);
                    }
                }
            });
        }
        for output in [3, 4] {
            if nothing_lives && self.wants(output) {
                call.chunks(call.out_dims(output).count(), |part| {
                    part.store(output, part.items(), &zeros[..part.len()]);
                });
            }
        }
    }

    /// The chosen rows of x, as f32, one after the other.
    fn gather(&mut self, chosen: &[u32]) {
        let (call, c) = (self.call, self.c);
        let x = Disjoint::new(&mut self.x[..chosen.len() * c]);
        call.rows(chosen.len(), c, |row, _| {
            let at = row.first();
            // SAFETY: each row is gathered by one task.
            let into = unsafe { x.range(at * c..(at + 1) * c) };
            let start = chosen[at] as usize * c;
            call.load(0, start..start + c, into);
        });
    }

    /// x [n C] as a right factor, transposed or as it is.
    fn pack_x(&mut self, n: usize, transposed: bool) {
        let (call, c) = (self.call, self.c);
        let x = &self.x[..n * c];
        let (x, k, columns) =
            if transposed { (Matrix::transposed(x, c), c, n) } else { (Matrix::rows(x, c), n, c) };
        pack_b(call.pool, call.level, x, k, columns, self.storage, self.packed_x);
    }

    /// exp(logits − maxima) [V n], from logits = W [V C] · xᵀ [C n].
    fn project(&mut self, n: usize) {
        self.pack_x(n, true);
        let (call, c, weight, threads) = (self.call, self.c, self.weight, &self.threads);
        let b = PackedB::new(self.packed_x, c, n, self.storage);
        let softmax = self.softmax.exponentials(n);
        let entries = entries_of_task(self.v, call.pool.threads());
        call.pool.rows(&mut self.logits[..self.v * n], n, entries, |first, logits, worker| {
            let weight = Matrix::rows(&weight[first * c..], c);
            let product = Gemm::new(logits.len() / n, weight, b, MatrixMut::rows(&mut *logits, n));
            // SAFETY: a worker's number belongs to one thread, which works on one task at a time.
            gemm(call.pool, call.level, product, &mut unsafe { threads.single(worker) });
            for (block, logits) in logits.chunks_mut(BLOCK * n).enumerate() {
                softmax.block(first + block * BLOCK, logits);
            }
        });
    }

    /// dx, dW and dbias from the exponentials of a group of rows.
    fn gradients(&mut self, n: usize, first_group: bool) {
        self.pack_x(n, false);
        let part = part_of(self.storage);
        for start in (0..self.v).step_by(part) {
            let part = start..self.v.min(start + part);
            self.logit_gradients(part.clone(), n, first_group);
            if self.wants(2) {
                self.add_to_dx(part, n);
            }
        }
    }

    /// d [part n], rounded if the products are of bf16, and from it dbias [part] += Σ d and dW [part C] += d
    /// · x.
    fn logit_gradients(&mut self, part: Range<usize>, n: usize, first_group: bool) {
        let (call, c, threads) = (self.call, self.c, &self.threads);
        // SAFETY: each is taken once for this walk over a part, and overlaps no operand.
        let [dw, dbias] =
            [3, 4].map(|output| self.wants(output).then(|| Disjoint::new(unsafe { call.out_f32(output) })));
        let b = PackedB::new(self.packed_x, n, c, self.storage);
        let softmax = self.softmax.gradients(n, dbias, first_group);
        let exponentials = &self.logits[part.start * n..part.end * n];
        let task = |first: usize, mut d: DataMut<'_>, worker: usize| {
            let (exponentials, first) = (&exponentials[first * n..][..d.len()], part.start + first);
            for (block, exponentials) in exponentials.chunks(BLOCK * n).enumerate() {
                let place = block * BLOCK * n..block * BLOCK * n + exponentials.len();
                match &mut d {
                    DataMut::F32(d) => softmax.block(first + block * BLOCK, exponentials, &mut d[place]),
                    DataMut::Bf16(d) => {
                        // SAFETY: a worker's number belongs to one thread, and every bit pattern is an f32.
                        let tile = unsafe { threads.worker(worker).align_to_mut::<f32>() }.1;
                        let tile = &mut tile[..exponentials.len()];
                        softmax.block(first + block * BLOCK, exponentials, tile);
                        convert::to_bf16(call.level, tile, &mut d[place]);
                    }
                }
            }
            let Some(dw) = &dw else { return };
            let (rows, d) = (d.len() / n, matrix_of(&d, n));
            // SAFETY: each entry of the vocabulary lies in one task.
            let out = MatrixMut::rows(unsafe { dw.range(first * c..(first + rows) * c) }, c);
            let epilogue = Epilogue { accumulate: !first_group, ..Epilogue::default() };
            let product = Gemm::new(rows, d, b, out).with(epilogue);
            // SAFETY: as above; the tile is no longer in use.
            gemm(call.pool, call.level, product, &mut unsafe { threads.single(worker) });
        };
        let (count, entries) = (part.len() * n, entries_of_task(part.len(), call.pool.threads()));
        match self.storage {
            Storage::Bf16 => {
                let d = &mut halves_of(self.d)[..count];
                call.pool.rows(d, n, entries, |first, d, worker| task(first, DataMut::Bf16(d), worker));
            }
            _ => {
                let d = &mut self.d[..count];
                call.pool.rows(d, n, entries, |first, d, worker| task(first, DataMut::F32(d), worker));
            }
        }
    }

    /// Transposed: dxᵀ [C n] += Wᵀ [C part] · d [part n].
    fn add_to_dx(&mut self, part: Range<usize>, n: usize) {
        let (call, c, storage) = (self.call, self.c, self.storage);
        let d = match storage {
            Storage::Bf16 => Matrix::rows(&*halves_of(self.d), n),
            _ => Matrix::rows(&*self.d, n),
        };
        pack_b(call.pool, call.level, d, part.len(), n, storage, self.packed_d);
        let weight = Matrix::transposed(&self.weight[part.start * c..], c);
        let b = PackedB::new(self.packed_d, part.len(), n, storage);
        let product = Gemm::new(c, weight, b, MatrixMut::rows(&mut self.dx[..c * n], n));
        let epilogue = Epilogue { accumulate: part.start > 0, ..Epilogue::default() };
        gemm(call.pool, call.level, product.with(epilogue), &mut self.threads);
    }

    /// The chosen rows of dx, from their sums dxᵀ [C n].
    fn store_dx(&self, chosen: &[u32]) {
        if !self.wants(2) {
            return;
        }
        let (call, c, n) = (self.call, self.c, chosen.len());
        let dx = &self.dx[..c * n];
        call.rows(n, c, |own, _| {
            let at = own.first();
            let mut buffer = [0.0; CHUNK];
            let row = chosen[at] as usize * c;
            for from in (0..c).step_by(CHUNK) {
                let chunk = &mut buffer[..CHUNK.min(c - from)];
                chunk.iter_mut().enumerate().for_each(|(i, y)| *y = dx[(from + i) * n + at]);
                // SAFETY: the chosen rows are different ones, each stored by one task.
                unsafe { call.store(2, row + from..row + from + chunk.len(), chunk) };
            }
        });
    }
}
