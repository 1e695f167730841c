//! Gated units in chunks: every operand is read once, every result written once.

use crate::call::CHUNK;
use crate::unary::cpu::{apply, undo};
use crate::{CpuCall, Function};
use regard_device::multiversion;

pub fn forward(function: Function, call: &CpuCall<'_>) {
    call.chunks(call.out_dims(0).count(), |part| {
        let range = part.items();
        let (mut a, mut b) = ([0.0; CHUNK], [0.0; CHUNK]);
        let (a, b) = (&mut a[..range.len()], &mut b[..range.len()]);
        part.load(0, range.clone(), a);
        part.load(1, range.clone(), b);
        apply(call.level, function, a);
        multiply(call.level, a, b);
        part.store(0, range, a);
    });
}

pub fn backward(function: Function, call: &CpuCall<'_>) {
    call.chunks(call.dims(0).count(), |part| {
        let range = part.items();
        let [mut a, mut b, mut dy, mut value] = [[0.0; CHUNK]; 4];
        let n = range.len();
        let (a, b, dy, value) = (&mut a[..n], &mut b[..n], &mut dy[..n], &mut value[..n]);
        part.load(0, range.clone(), a);
        part.load(1, range.clone(), b);
        part.load(2, range.clone(), dy);
        value.copy_from_slice(a);
        apply(call.level, function, value);
        if call.wants(0) {
            multiply(call.level, b, dy);
            undo(call.level, function, if function.from_result() { value } else { a }, b);
            part.store(0, range.clone(), b);
        }
        if call.wants(1) {
            multiply(call.level, value, dy);
            part.store(1, range, value);
        }
    });
}

multiversion! {
    fn multiply(x: &mut [f32], y: &[f32]) {
        for (x, y) in x.iter_mut().zip(y) {
            *x *= y;
        }
    }
}
