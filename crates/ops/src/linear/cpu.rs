//! The product with a weight: one call of the device's product, whose epilogue does the rest.

#![allow(unsafe_code)]

use super::fused::FusedLinear;
use super::{Linear, WeightLayout};
use crate::cpu_product::{bytes_of, data, out_data, pointwise, storage};
use crate::quantised_linear::Rounding;
use crate::{CopyKind, CpuCall, Needs, NormKind, Pack, QuantisedLinear, Request};
use regard_device::{
    Epilogue, Gemm, Matrix, MatrixMut, PANEL, PackedB, RowStatistics, Storage, gemm, pack_b, packed_b_bytes,
};
use regard_graph::{Concrete, DType, Op, Work};

/// The work that is executed: panels are 32 wide, the last one filled up.
pub fn work(op: &Linear, call: &Concrete<'_>) -> Work {
    let (n, k) = op.layout.sizes(call.inputs[1]);
    let rows = call.inputs[0].rows();
    Work { macs: (rows * n.next_multiple_of(PANEL) * k) as u64, ..op.cost(call) }
}

pub fn needs(op: &Linear, request: &Request<'_>) -> Needs {
    needs_with(op, storage(op.precision), request)
}

/// What a product needs whose weight is stored in this way. The engine keeps packed copies of f32 weights in
/// the store; any other is packed for the call.
fn needs_with(op: &Linear, storage: Storage, request: &Request<'_>) -> Needs {
    let (call, thread_scratch) = (request.call, Gemm::thread_scratch_bytes());
    if request.stored[1] && call.input_dtypes[1] == DType::F32 {
        let transposed = op.layout == WeightLayout::OutIn;
        let kind = CopyKind::Panels { transposed, storage };
        return Needs { scratch: 0, thread_scratch, packs: vec![Pack { input: 1, kind }] };
    }
    let (n, k) = op.layout.sizes(call.inputs[1]);
    let scratch = packed_b_bytes(k, n, storage).next_multiple_of(4);
    Needs { scratch, thread_scratch, packs: Vec::new() }
}

pub fn run(op: &FusedLinear, call: &CpuCall<'_>) {
    run_with(op, storage(op.linear().precision), call);
}

/// The same with a weight of integers.
pub(crate) fn run_quantised(op: &FusedLinear, rounding: Rounding, call: &CpuCall<'_>) {
    run_with(op, integers(rounding), call);
}

/// What that needs.
pub(crate) fn needs_quantised(op: &QuantisedLinear, request: &Request<'_>) -> Needs {
    needs_with(&op.linear, integers(op.rounding), request)
}

fn integers(rounding: Rounding) -> Storage {
    match rounding {
        Rounding::Outputs => Storage::Int8,
        Rounding::Blocks8 => Storage::Q8,
        Rounding::Blocks4 => Storage::Q4,
    }
}

/// The same with the weight stored in this way.
fn run_with(op: &FusedLinear, storage: Storage, call: &CpuCall<'_>) {
    let linear = op.linear();
    let (n, k) = linear.layout.sizes(call.dims(1));
    let rows = call.dims(0).rows();
    if rows == 0 || n == 0 {
        return;
    }
    // SAFETY: taken once in this call.
    let scratch = unsafe { call.scratch_f32() };
    let statistics = op.statistics_at().filter(|&at| call.wants(at));
    let unread_y = if statistics.is_some() && !call.wants(0) { rows * n } else { 0 };
    let (packing, unread_y) = scratch.split_at_mut(scratch.len() - unread_y);
    let packed = match call.packed(1) {
        Some(packed) => packed.bytes,
        None => {
            let weight = match linear.layout {
                WeightLayout::OutIn => Matrix::transposed(data(call, 1), k),
                WeightLayout::InOut => Matrix::rows(data(call, 1), n),
            };
            let packing = bytes_of(packing);
            pack_b(call.pool, call.level, weight, k, n, storage, packing);
            packing
        }
    };
    let bias = linear.bias_input().map(|input| call.f32(input));
    let residual = linear.residual_input().map(|input| Matrix::rows(data(call, input), n));
    let derivative = op.derivative.zip(op.z_input());
    let derivative = derivative.map(|(of, input)| (pointwise(of), Matrix::rows(data(call, input), n)));
    // SAFETY: each result is taken once in this call, and overlaps no operand.
    let result = |output: usize| MatrixMut::rows(unsafe { out_data(call, output) }, n);
    let (out, epilogue) = if call.wants(0) || statistics.is_some() {
        let out = if call.wants(0) { result(0) } else { MatrixMut::rows(unread_y, n) };
        let pre = linear.z_at().filter(|&z| call.wants(z)).map(&result);
        let statistics = statistics.map(|at| {
            // SAFETY: taken once in this call.
            let parts = unsafe { call.out_f32(at) };
            RowStatistics { centred: op.statistics == Some(NormKind::Layer), parts }
        });
        let (activation, accumulate, scale) = (pointwise(linear.activation), false, 1.0);
        (out, Epilogue { scale, bias, pre, activation, derivative, residual, accumulate, statistics })
    } else {
        // Only the gradient reads this product: what came before the activation is all it needs.
        (result(1), Epilogue { bias, ..Epilogue::default() })
    };
    let x = Matrix::rows(data(call, 0), k);
    let product = Gemm::new(rows, x, PackedB::new(packed, k, n, storage), out).with(epilogue);
    // SAFETY: taken once in this call.
    gemm(call.pool, call.level, product, &mut unsafe { call.product_scratch() });
}
