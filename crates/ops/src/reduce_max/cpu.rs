//! Maxima: contiguous windows chunk by chunk, others element by element. A chunk is searched for the place of
//! its maximum only if that beats what came before.

#![allow(unsafe_code)]

use super::{Window, beats};
use crate::CpuCall;
use crate::call::CHUNK;
use regard_device::reduce;

pub fn forward(call: &CpuCall<'_>) {
    let out = call.out_dims(0);
    let window = Window::new(call.dims(0), out);
    let count = window.dims.count();
    call.rows(out.count(), count, |own, _| {
        let j = own.first();
        let base = window.base(&out, j);
        let (mut best, mut index) = (f32::NEG_INFINITY, 0);
        let mut chunk = [0.0; CHUNK];
        for from in (0..count).step_by(CHUNK) {
            let part = &mut chunk[..CHUNK.min(count - from)];
            if window.contiguous {
                call.load(0, base + from..base + from + part.len(), part);
            } else {
                for (i, x) in part.iter_mut().enumerate() {
                    let at = base + window.offset(from + i);
                    call.load(0, at..at + 1, std::slice::from_mut(x));
                }
            }
            let largest = reduce::max(call.level, part);
            let has_nan = part.iter().fold(false, |found, x| found | x.is_nan());
            if has_nan || largest > best {
                for (i, &x) in part.iter().enumerate() {
                    if beats(x.into(), best.into()) {
                        (best, index) = (x, from + i);
                    }
                }
            }
        }
        if call.wants(0) {
            own.store(0, j..j + 1, &[best]);
        }
        if call.wants(1) {
            own.own(1)[0] = index as i32;
        }
    });
}

pub fn backward(call: &CpuCall<'_>) {
    let small = call.dims(0);
    let window = Window::new(call.out_dims(0), small);
    let (count, indices) = (window.dims.count(), call.i32(1));
    call.rows(small.count(), count, |own, _| {
        let j = own.first();
        let base = window.base(&small, j);
        let mut dy = [0.0];
        call.load(0, j..j + 1, &mut dy);
        // SAFETY: every element of the result lies in the window of one task.
        let store = |at: usize, numbers: &[f32]| unsafe { call.store(0, at..at + numbers.len(), numbers) };
        let zeros = [0.0; CHUNK];
        for from in (0..count).step_by(CHUNK) {
            let part = &zeros[..CHUNK.min(count - from)];
            if window.contiguous {
                store(base + from, part);
            } else {
                for i in from..from + part.len() {
                    store(base + window.offset(i), &[0.0]);
                }
            }
        }
        store(base + window.offset(indices[j] as usize), &dy);
    });
}
