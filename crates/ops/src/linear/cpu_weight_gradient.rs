//! The gradient of a weight: some rows at a time, each time one product whose left factor is read transposed.

#![allow(unsafe_code)]

use super::WeightGradient;
use crate::cpu_product::{bytes_of, data_from, out_data, storage};
use crate::{CpuCall, Needs, Request};
use regard_device::{
    DataMut, Epilogue, Gemm, Matrix, MatrixMut, PANEL, PackedB, gemm, pack_b, packed_b_bytes,
};
use regard_graph::{Concrete, DType, Op, Work};

/// How many rows are packed at a time: bounds the scratch, and their panels are still in the last cache when
/// they are multiplied. Part of the summation order.
const ROWS_AT_ONCE: usize = 2048;

/// How many rows a call packs at a time. A bf16 result cannot be added to without rounding in between.
fn rows_at_once(op: &WeightGradient, rows: usize) -> usize {
    if op.output == DType::F32 { rows.min(ROWS_AT_ONCE) } else { rows }
}

/// The work that is executed: whole panels, and of product and sums only what somebody reads.
pub fn work(op: &WeightGradient, call: &Concrete<'_>) -> Work {
    let (rows, n, k) = (call.inputs[0].rows(), call.outputs[0][0], call.outputs[0][1]);
    let mut work = op.cost(call);
    work.macs = (rows * n * k.next_multiple_of(PANEL)) as u64;
    if !call.used[0] {
        let right = call.inputs[1].count() * call.input_dtypes[1].bytes();
        (work.macs, work.read) = (0, work.read - right as u64);
    }
    if op.sums && !call.used[1] {
        work.flops = 0;
    }
    work
}

/// Room for the panels of the rows that are packed at a time.
pub fn needs(op: &WeightGradient, request: &Request<'_>) -> Needs {
    let right = request.call.inputs[1];
    let rows = rows_at_once(op, right.rows());
    Needs {
        scratch: packed_b_bytes(rows, right.last_size(), storage(op.precision)),
        thread_scratch: Gemm::thread_scratch_bytes(),
        packs: Vec::new(),
    }
}

pub fn run(op: &WeightGradient, call: &CpuCall<'_>) {
    let (rows, n, k) = (call.dims(0).rows(), call.out_dims(0)[0], call.out_dims(0)[1]);
    // Where only the sums are read, the product has no columns.
    let width = if call.wants(0) { k } else { 0 };
    if n == 0 || (width == 0 && !op.sums) {
        return;
    }
    let storage = storage(op.precision);
    // SAFETY: scratch, the threads' scratch and the results are each taken once in this call.
    let (scratch, mut threads, mut out, mut sums) = unsafe {
        (
            bytes_of(call.scratch_f32()),
            call.product_scratch(),
            if call.wants(0) { out_data(call, 0) } else { DataMut::F32(&mut []) },
            (op.sums && call.wants(1)).then(|| call.out_f32(1)),
        )
    };
    let at_once = rows_at_once(op, rows).max(1);
    // Without any row there is still one product, over nothing, that writes zeros.
    for start in (0..rows.max(1)).step_by(at_once) {
        let count = at_once.min(rows - start);
        let right = Matrix::rows(data_from(call, 1, start * k), k);
        pack_b(call.pool, call.level, right, count, width, storage, scratch);
        let left = Matrix::transposed(data_from(call, 0, start * n), n);
        let into = match &mut out {
            DataMut::F32(out) => MatrixMut::rows(&mut **out, width),
            DataMut::Bf16(out) => MatrixMut::rows(&mut **out, width),
        };
        let epilogue = Epilogue { accumulate: start > 0, ..Epilogue::default() };
        let product = Gemm::new(n, left, PackedB::new(scratch, count, width, storage), into)
            .with(epilogue)
            .with_row_sums(sums.as_deref_mut());
        gemm(call.pool, call.level, product, &mut threads);
    }
}
