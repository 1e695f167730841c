//! The gradient of a weight: some rows at a time, each time one product whose left factor is read transposed.

#![allow(unsafe_code)]

use super::WeightGradient;
use crate::CpuCall;
use crate::cpu_product::{bytes_of, data_from, out_data, storage};
use regard_device::{DataMut, Epilogue, Gemm, Matrix, MatrixMut, PackedB, gemm, pack_b};

pub fn run(op: &WeightGradient, call: &CpuCall<'_>) {
    let (rows, n, k) = (call.dims(0).rows(), call.out_dims(0)[0], call.out_dims(0)[1]);
    if n == 0 || k == 0 {
        return;
    }
    let storage = storage(op.precision);
    // SAFETY: scratch, the threads' scratch and the result are each taken once in this call.
    let (scratch, mut threads, mut out) =
        unsafe { (bytes_of(call.scratch_f32()), call.product_scratch(), out_data(call, 0)) };
    let at_once = op.rows_at_once(rows).max(1);
    // Without any row there is still one product, over nothing, that writes zeros.
    for start in (0..rows.max(1)).step_by(at_once) {
        let count = at_once.min(rows - start);
        let right = Matrix::rows(data_from(call, 1, start * k), k);
        pack_b(call.pool, call.level, right, count, k, storage, scratch);
        let left = Matrix::transposed(data_from(call, 0, start * n), n);
        let into = match &mut out {
            DataMut::F32(out) => MatrixMut::rows(&mut **out, k),
            DataMut::Bf16(out) => MatrixMut::rows(&mut **out, k),
        };
        let epilogue = Epilogue { accumulate: start > 0, ..Epilogue::default() };
        let product = Gemm::new(n, left, PackedB::new(scratch, count, k, storage), into).with(epilogue);
        gemm(call.pool, call.level, product, &mut threads);
    }
}
