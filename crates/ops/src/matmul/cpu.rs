//! Products of two values. Many small ones are shared out, one to a thread; few or large ones are cut up
//! inside. An element is the same chain of multiply-adds either way.

#![allow(unsafe_code)]

use super::{Matmul, Sizes};
use crate::cpu_product::{bytes_of, data_from, out_data, storage};
use crate::{CpuCall, Needs, Request};
use half::bf16;
use regard_device::{
    DataMut, Disjoint, Epilogue, Gemm, Matrix, MatrixMut, PANEL, PackedB, Scratch, Storage, gemm, pack_b,
    packed_b_bytes,
};
use regard_graph::{Concrete, Op, Work};

/// Packed matrices up to this size are packed and multiplied by one thread each, when there are many.
const SMALL: usize = 1 << 20;

/// The work that is executed: panels are 32 wide, the last one filled up.
pub fn work(op: &Matmul, call: &Concrete<'_>) -> Work {
    let Sizes { m, k, n, batch, .. } = op.sizes(call.inputs[0], call.inputs[1]);
    Work { macs: (batch * m * n.next_multiple_of(PANEL) * k) as u64, ..op.cost(call) }
}

/// Room for the panels of b, for each thread its own where matrices are shared out.
pub fn needs(op: &Matmul, request: &Request<'_>) -> Needs {
    let Sizes { k, n, batch, .. } = op.sizes(request.call.inputs[0], request.call.inputs[1]);
    let scratch = packed_b_bytes(k, n, storage(op.precision));
    let own = if batch > 1 { scratch.min(SMALL).next_multiple_of(64) } else { 0 };
    Needs { scratch, thread_scratch: own + Gemm::thread_scratch_bytes(), packs: Vec::new() }
}

/// The products of one call.
struct Products<'a> {
    op: &'a Matmul,
    call: &'a CpuCall<'a>,
    sizes: Sizes,
    storage: Storage,
    out: Out<'a>,
}

/// The result, of which each product writes one part.
enum Out<'a> {
    F32(Disjoint<'a, f32>),
    Bf16(Disjoint<'a, bf16>),
}

pub fn run(op: &Matmul, call: &CpuCall<'_>) {
    let mut sizes = op.sizes(call.dims(0), call.dims(1));
    if sizes.one_b && !op.transpose_a && !sizes.one_a {
        // All rows of a meet the same matrix: one product.
        sizes = Sizes { m: sizes.m * sizes.batch, batch: 1, ..sizes };
    }
    let Sizes { m, k, n, batch, one_b, .. } = sizes;
    if m == 0 || n == 0 || batch == 0 {
        return;
    }
    // SAFETY: the result is taken once in this call, and overlaps no operand.
    let out = match unsafe { out_data(call, 0) } {
        DataMut::F32(out) => Out::F32(Disjoint::new(out)),
        DataMut::Bf16(out) => Out::Bf16(Disjoint::new(out)),
    };
    let products = Products { op, call, sizes, storage: storage(op.precision), out };
    let bytes = packed_b_bytes(k, n, products.storage);
    let shared_out = batch > 1 && batch >= call.pool.threads();
    // SAFETY: taken once in this call.
    let scratch = bytes_of(unsafe { call.scratch_f32() });
    if one_b && shared_out {
        let packed = products.pack(0, scratch);
        return call.pool.run(batch, &|matrix, worker| {
            // SAFETY: the thread's own, taken once in this task.
            let slot = bytes_of(unsafe { call.thread_scratch_f32(worker) });
            products.multiply(matrix, packed, &mut Scratch::new(slot, 1));
        });
    }
    if shared_out && bytes <= SMALL {
        return call.pool.run(batch, &|matrix, worker| {
            // SAFETY: the thread's own, taken once in this task.
            let slot = bytes_of(unsafe { call.thread_scratch_f32(worker) });
            let (own, rest) = slot.split_at_mut(bytes.next_multiple_of(64));
            products.multiply(matrix, products.pack(matrix, own), &mut Scratch::new(rest, 1));
        });
    }
    // SAFETY: taken once in this call, and no task takes a part of it.
    let mut threads = unsafe { call.product_scratch() };
    for matrix in 0..batch {
        products.multiply(matrix, products.pack(matrix, scratch), &mut threads);
    }
}

impl Products<'_> {
    /// Packs one matrix of b.
    fn pack<'s>(&self, matrix: usize, into: &'s mut [u8]) -> PackedB<'s> {
        let Sizes { k, n, one_b, .. } = self.sizes;
        let numbers = data_from(self.call, 1, if one_b { 0 } else { matrix * k * n });
        let b = if self.op.transpose_b { Matrix::transposed(numbers, k) } else { Matrix::rows(numbers, n) };
        pack_b(self.call.pool, self.call.level, b, k, n, self.storage, into);
        PackedB::new(into, k, n, self.storage)
    }

    /// One product.
    fn multiply(&self, matrix: usize, b: PackedB<'_>, scratch: &mut Scratch<'_>) {
        let Sizes { m, k, n, one_a, .. } = self.sizes;
        let numbers = data_from(self.call, 0, if one_a { 0 } else { matrix * m * k });
        let a = if self.op.transpose_a { Matrix::transposed(numbers, m) } else { Matrix::rows(numbers, k) };
        let part = matrix * m * n..(matrix + 1) * m * n;
        // SAFETY: each product has a part of its own, and is done once.
        let out = unsafe {
            match &self.out {
                Out::F32(out) => MatrixMut::rows(out.range(part), n),
                Out::Bf16(out) => MatrixMut::rows(out.range(part), n),
            }
        };
        let epilogue = Epilogue { scale: self.op.scale, ..Epilogue::default() };
        gemm(self.call.pool, self.call.level, Gemm::new(m, a, b, out).with(epilogue), scratch);
    }
}
