//! Casts in chunks through f32, which holds every bf16, every boolean, and integers up to 2²⁴ exactly.

use crate::CpuCall;
use crate::call::CHUNK;
use regard_graph::DType;

pub fn run(call: &CpuCall<'_>) {
    call.chunks(call.out_dims(0).count(), |part| {
        let range = part.items();
        let mut x = [0.0; CHUNK];
        let x = &mut x[..range.len()];
        match call.dtype(0) {
            DType::F32 | DType::BF16 => part.load(0, range.clone(), x),
            DType::I32 => {
                x.iter_mut().zip(&call.i32(0)[range.clone()]).for_each(|(x, &i)| *x = i as f32);
            }
            DType::Bool => {
                x.iter_mut().zip(&call.bools(0)[range.clone()]).for_each(|(x, &b)| *x = f32::from(b));
            }
        }
        part.store(0, range, x);
    });
}
