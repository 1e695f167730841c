//! Dropout by rows of the last axis: bits for a chunk of channels, then select and scale.

use super::{Dropout, place};
use crate::call::CHUNK;
use crate::{CpuCall, stream_of};
use regard_device::{multiversion, random};

pub fn run(op: &Dropout, call: &CpuCall<'_>) {
    let dims = call.dims(0);
    let (width, rest) = (dims.last_size(), Dropout::rest(&dims));
    let (stream, first) = stream_of(call.i32(1), &op.stream);
    // p < 1 and has 24 bits, so the threshold is below 2³².
    let (threshold, scale) = (op.threshold() as u32, op.scale() as f32);
    let position = op.positioned.then(|| call.i32(2));
    call.rows(dims.rows(), width, |part, _| {
        let row = part.first();
        let given = position.map(|position| |flat: usize| position[flat]);
        let (example, at) = place(&dims, rest, row, given);
        let (mut x, mut bits) = ([0.0; CHUNK], [0; CHUNK]);
        for from in (0..width).step_by(CHUNK) {
            let length = CHUNK.min(width - from);
            let (x, bits) = (&mut x[..length], &mut bits[..length]);
            let range = row * width + from..row * width + from + length;
            part.load(0, range.clone(), x);
            // A chunk begins at a multiple of the four channels that one draw serves.
            let block = (from / 4) as u32;
            random::fill_bits(call.level, &stream, first.wrapping_add(example), at, block, bits);
            mask(call.level, x, bits, threshold, scale);
            part.store(0, range, x);
        }
    });
}

multiversion! {
    fn mask(x: &mut [f32], bits: &[u32], threshold: u32, scale: f32) {
        for (x, bits) in x.iter_mut().zip(bits) {
            *x = if *bits >= threshold { *x * scale } else { 0.0 };
        }
    }
}
