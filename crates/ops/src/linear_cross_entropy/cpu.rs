//! The output projection with cross-entropy, some rows at a time and never more logits than
//! [`LOGIT_BYTES`]. Logits stand transposed, [V rows]: then the weight is the left factor of every product and is
//! read as it lies, without a packed copy, and the softmax runs over rows side by side.
//!
//! For each group of rows: gather x; logits = W · xᵀ; in blocks of the vocabulary, the maximum, exp(logit −
//! maximum) in its place and the sum; from the blocks, each row's loss; then, if wanted, the exponentials
//! become scale · (softmax − target), and dx = dᵀ · W, dW += d · x, dbias += Σ d. Every sum has a fixed order.

#![allow(unsafe_code)]

use super::LinearCrossEntropy;
use super::cpu_softmax::BLOCK;
use crate::call::CHUNK;
use crate::cpu_product::{bytes_of, storage};
use crate::cross_entropy::targets::check_targets;
use crate::{CpuCall, Fault, Needs};
use regard_device::{
    Disjoint, Epilogue, Gemm, Matrix, MatrixMut, PANEL, PackedB, Scratch, Storage, gemm, pack_b,
    packed_b_bytes,
};
use regard_graph::Precision;

/// The most bytes of logits at a time. With GPT-2's vocabulary that is 512 rows: each group of rows packs the whole
/// weight twice and adds to the whole of its gradient, which with 160 rows cost a fifth of the time.
const LOGIT_BYTES: usize = 128 << 20;
/// The most rows at a time.
pub const MOST_ROWS: usize = 512;
/// How many entries of the vocabulary are packed at a time for dx.
const PART: usize = 2048;

/// How many of `rows` rows are worked on at a time: groups of nearly equal size, whole panels each. A matter of these
/// two numbers alone, because it is part of the summation order of dW.
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
    packed: usize,
    logits: usize,
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
    fn new(rows: usize, v: usize, c: usize, precision: Precision) -> Self {
        // Rows that are ignored make groups smaller, never larger than the largest.
        let n = rows.min(most_rows(v));
        let blocks = v.div_ceil(BLOCK);
        let storage = storage(precision);
        // Packed in turn: x transposed, parts of the logits' gradient, x.
        let packed = [(c, n), (v.min(PART), n), (n, c)];
        let packed = packed.iter().map(|&(k, n)| packed_b_bytes(k, n, storage) / 4 + 1).max().unwrap_or(0);
        Layout {
            x: n * c,
            packed,
            logits: v * n,
            dx: c * n,
            maxima: blocks * n,
            sums: blocks * n,
            totals: blocks * n,
            own: n,
            ids: n,
            live: rows,
            losses: rows,
        }
    }

    fn parts(&self) -> [usize; 11] {
        let Layout { x, packed, logits, dx, maxima, sums, totals, own, ids, live, losses } = *self;
        // Each begins on a cache line.
        [x, packed, logits, dx, maxima, sums, totals, own, ids, live, losses].map(|n| n.next_multiple_of(16))
    }
}

pub fn needs(op: &LinearCrossEntropy, rows: usize, v: usize, c: usize) -> Needs {
    let floats: usize = Layout::new(rows, v, c, op.precision).parts().iter().sum();
    Needs { scratch: floats * 4, thread_scratch: Gemm::thread_scratch_bytes(), packs: Vec::new() }
}

/// One call: its sizes, operands and scratch.
pub(super) struct Pass<'a> {
    pub(super) call: &'a CpuCall<'a>,
    pub(super) op: &'a LinearCrossEntropy,
    pub(super) v: usize,
    pub(super) c: usize,
    pub(super) storage: Storage,
    pub(super) weight: &'a [f32],
    pub(super) bias: Option<&'a [f32]>,
    pub(super) scale: f32,
    pub(super) x: &'a mut [f32],
    pub(super) packed: &'a mut [u8],
    pub(super) logits: &'a mut [f32],
    pub(super) dx: &'a mut [f32],
    pub(super) maxima: &'a mut [f32],
    pub(super) sums: &'a mut [f32],
    pub(super) totals: &'a mut [f32],
    pub(super) own: &'a mut [f32],
    pub(super) ids: &'a mut [u32],
    pub(super) threads: Scratch<'a>,
}

pub fn run(op: &LinearCrossEntropy, call: &CpuCall<'_>) -> Result<(), Fault> {
    let targets = call.i32(op.targets_input());
    let (v, c) = (call.dims(1)[0], call.dims(1)[1]);
    check_targets("linear_cross_entropy", targets.iter().map(|&id| id as i64), v, op.ignore_index)?;
    let rows = targets.len();
    // SAFETY: scratch and the threads' scratch are each taken once in this call.
    let (mut rest, threads) = unsafe { (call.scratch_f32(), call.product_scratch()) };
    let mut parts = Layout::new(rows, v, c, op.precision).parts().into_iter();
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
        bias: op.bias.then(|| call.f32(2)),
        scale: call.f32(op.scale_input())[0],
        x: next(),
        packed: bytes_of(next()),
        logits: next(),
        dx: next(),
        maxima: next(),
        sums: next(),
        totals: next(),
        own: next(),
        ids: words_of(next()),
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
        for (id, &row) in pass.ids.iter_mut().zip(chosen) {
            *id = targets[row as usize] as u32;
        }
        pass.gather(chosen);
        pass.project(chosen.len());
        pass.exponentials(chosen.len());
        pass.losses(chosen, losses);
        if (2..5).any(|output| pass.wants(output)) {
            pass.logit_gradients(chosen.len(), group == 0);
            pass.products(chosen, group == 0);
        }
    }
    if call.wants(0) {
        // One chain over the rows, in their order.
        let total = losses[..rows].iter().fold(0.0f64, |sum, &loss| sum + loss as f64);
        call.store(0, 0..1, &[(pass.scale as f64 * total) as f32]);
    }
    if call.wants(1) {
        call.store(1, 0..rows, &losses[..rows]);
    }
    Ok(())
}

/// Scratch as integers.
fn words_of(floats: &mut [f32]) -> &mut [u32] {
    // SAFETY: f32 and u32 have the same size and alignment, and every bit pattern is valid for both.
    unsafe { floats.align_to_mut::<u32>() }.1
}

impl Pass<'_> {
    pub(super) fn wants(&self, output: usize) -> bool {
        (output < 4 || self.op.bias) && self.call.wants(output)
    }

    /// Zeros where no group of rows will write: dx of ignored rows, and all sums if there is no row at all.
    fn clear(&self, targets: &[i32], nothing_lives: bool) {
        let (call, c) = (self.call, self.c);
        let zeros = [0.0; CHUNK];
        if self.wants(2) {
            call.rows(targets.len(), c, |row, _| {
                if targets[row] == self.op.ignore_index {
                    for from in (0..c).step_by(CHUNK) {
                        let width = CHUNK.min(c - from);
                        call.store(2, row * c + from..row * c + from + width, &zeros[..width]);
                    }
                }
            });
        }
        for output in [3, 4] {
            if nothing_lives && self.wants(output) {
                call.chunks(call.out_dims(output).count(), |range| {
                    call.store(output, range.clone(), &zeros[..range.len()]);
                });
            }
        }
    }

    /// The chosen rows of x, as f32, one after the other.
    fn gather(&mut self, chosen: &[u32]) {
        let (call, c) = (self.call, self.c);
        let x = Disjoint::new(&mut self.x[..chosen.len() * c]);
        call.rows(chosen.len(), c, |at, _| {
            // SAFETY: each row is gathered by one task.
            let into = unsafe { x.range(at * c..(at + 1) * c) };
            let start = chosen[at] as usize * c;
            call.load(0, start..start + c, into);
        });
    }

    /// logits [V n] = W [V C] · xᵀ [C n].
    fn project(&mut self, n: usize) {
        let (call, v, c) = (self.call, self.v, self.c);
        let x = Matrix::transposed(&self.x[..n * c], c);
        pack_b(call.pool, call.level, x, c, n, self.storage, self.packed);
        let b = PackedB::new(self.packed, c, n, self.storage);
        let out = MatrixMut::rows(&mut self.logits[..v * n], n);
        let product = Gemm::new(v, Matrix::rows(self.weight, c), b, out);
        gemm(call.pool, call.level, product, &mut self.threads);
    }

    /// dx [n C] = dᵀ · W, dW [V C] += d · x, from d [V n] in the place of the logits.
    fn products(&mut self, chosen: &[u32], first: bool) {
        let (call, v, c, n) = (self.call, self.v, self.c, chosen.len());
        let d = &self.logits[..v * n];
        if self.wants(2) {
            for start in (0..v).step_by(PART) {
                let part = PART.min(v - start);
                pack_b(
                    call.pool,
                    call.level,
                    Matrix::rows(&d[start * n..], n),
                    part,
                    n,
                    self.storage,
                    self.packed,
                );
                // Transposed: dxᵀ [C n] += Wᵀ [C V] · d [V n], a part of the vocabulary at a time.
                let weight = Matrix::transposed(&self.weight[start * c..], c);
                let b = PackedB::new(self.packed, part, n, self.storage);
                let product = Gemm::new(c, weight, b, MatrixMut::rows(&mut self.dx[..c * n], n));
                let epilogue = Epilogue { accumulate: start > 0, ..Epilogue::default() };
                gemm(call.pool, call.level, product.with(epilogue), &mut self.threads);
            }
            let dx = &self.dx[..c * n];
            call.rows(n, c, |at, _| {
                let mut buffer = [0.0; CHUNK];
                let row = chosen[at] as usize * c;
                for from in (0..c).step_by(CHUNK) {
                    let chunk = &mut buffer[..CHUNK.min(c - from)];
                    chunk.iter_mut().enumerate().for_each(|(i, y)| *y = dx[(from + i) * n + at]);
                    call.store(2, row + from..row + from + chunk.len(), chunk);
                }
            });
        }
        if self.wants(3) {
            let x = Matrix::rows(&self.x[..n * c], c);
            pack_b(call.pool, call.level, x, n, c, self.storage, self.packed);
            let b = PackedB::new(self.packed, n, c, self.storage);
            // SAFETY: taken once for this product, and overlaps no operand.
            let out = MatrixMut::rows(unsafe { call.out_f32(3) }, c);
            let epilogue = Epilogue { accumulate: !first, ..Epilogue::default() };
            let product = Gemm::new(v, Matrix::rows(d, n), b, out).with(epilogue);
            gemm(call.pool, call.level, product, &mut self.threads);
        }
    }
}
