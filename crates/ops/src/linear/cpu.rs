//! The product with a weight: one call of the device's product, whose epilogue does the rest.

#![allow(unsafe_code)]

use super::{Linear, WeightLayout};
use crate::CpuCall;
use crate::cpu_product::{bytes_of, data, out_data, storage};
use regard_device::{Activation, Epilogue, Gemm, Matrix, MatrixMut, PackedB, Storage, gemm, pack_b};

pub fn run(op: &Linear, call: &CpuCall<'_>) {
    run_with(op, storage(op.precision), call);
}

/// The same with the weight stored in this way.
pub(crate) fn run_with(op: &Linear, storage: Storage, call: &CpuCall<'_>) {
    let (n, k) = op.layout.sizes(call.dims(1));
    let rows = call.dims(0).rows();
    if rows == 0 || n == 0 {
        return;
    }
    let packed = match call.packed(1) {
        Some(packed) => packed.bytes,
        None => {
            let weight = match op.layout {
                WeightLayout::OutIn => Matrix::transposed(data(call, 1), k),
                WeightLayout::InOut => Matrix::rows(data(call, 1), n),
            };
            // SAFETY: taken once in this call.
            let scratch = bytes_of(unsafe { call.scratch_f32() });
            pack_b(call.pool, call.level, weight, k, n, storage, scratch);
            scratch
        }
    };
    let bias = op.bias_input().map(|input| call.f32(input));
    let residual = op.residual_input().map(|input| Matrix::rows(data(call, input), n));
    let derivative = op.derivative_input().map(|input| (op.derivative, Matrix::rows(data(call, input), n)));
    // SAFETY: each result is taken once in this call, and overlaps no operand.
    let result = |output: usize| MatrixMut::rows(unsafe { out_data(call, output) }, n);
    let keeps_z = op.activation != Activation::None && call.wants(1);
    let (out, epilogue) = if call.wants(0) {
        let pre = keeps_z.then(|| result(1));
        let activation = op.activation;
        (result(0), Epilogue { bias, pre, activation, derivative, residual, ..Epilogue::default() })
    } else {
        // Only the gradient reads this product: what came before the activation is all it needs.
        (result(1), Epilogue { bias, ..Epilogue::default() })
    };
    let x = Matrix::rows(data(call, 0), k);
    let product = Gemm::new(rows, x, PackedB::new(packed, k, n, storage), out).with(epilogue);
    // SAFETY: taken once in this call.
    gemm(call.pool, call.level, product, &mut unsafe { call.product_scratch() });
}
