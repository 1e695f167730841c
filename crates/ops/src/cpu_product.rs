//! What the CPU kernels of all products share: operands and results as matrices of the device crate, and
//! scratch as the bytes that packing writes to.

#![allow(unsafe_code)]

use crate::{Activation, CpuCall};
use regard_device::{Data, DataMut, Pointwise, Storage};
use regard_graph::{DType, Precision};

/// How the panels of a product of this precision are stored.
pub fn storage(precision: Precision) -> Storage {
    match precision {
        Precision::F32 => Storage::F32,
        Precision::Bf16 => Storage::Bf16,
    }
}

/// The function that the epilogue of a product applies for an activation.
pub fn pointwise(activation: Activation) -> Pointwise {
    match activation {
        Activation::None => Pointwise::None,
        Activation::Relu => Pointwise::Relu,
        Activation::Gelu => Pointwise::Gelu,
        Activation::GeluTanh => Pointwise::GeluTanh,
        Activation::Silu => Pointwise::Silu,
    }
}

/// A float operand.
pub fn data<'a>(call: &CpuCall<'a>, input: usize) -> Data<'a> {
    match call.dtype(input) {
        DType::BF16 => Data::Bf16(call.bf16(input)),
        _ => Data::F32(call.f32(input)),
    }
}

/// A float operand from an element on.
pub fn data_from<'a>(call: &CpuCall<'a>, input: usize, start: usize) -> Data<'a> {
    match data(call, input) {
        Data::F32(numbers) => Data::F32(&numbers[start..]),
        Data::Bf16(numbers) => Data::Bf16(&numbers[start..]),
    }
}

/// All of a float result, to be written.
///
/// # Safety
/// As for [`CpuCall::out_f32`].
pub unsafe fn out_data<'a>(call: &CpuCall<'a>, output: usize) -> DataMut<'a> {
    // SAFETY: passed on to the caller.
    unsafe {
        match call.out_dtype(output) {
            DType::BF16 => DataMut::Bf16(call.out_bf16(output)),
            _ => DataMut::F32(call.out_f32(output)),
        }
    }
}

/// Scratch as bytes.
pub fn bytes_of(floats: &mut [f32]) -> &mut [u8] {
    // SAFETY: every f32 is four bytes without padding, and every four bytes are an f32.
    unsafe { floats.align_to_mut::<u8>() }.1
}
