//! The largest element of each piece of a row, then its first place in the piece.

#![allow(unsafe_code)]

use crate::CpuCall;
use crate::call::CHUNK;
use regard_device::{Disjoint, multiversion, reduce};

pub fn run(call: &CpuCall<'_>) {
    let (rows, width) = (call.dims(0).rows(), call.dims(0).last_size());
    // SAFETY: the result is taken once, and overlaps no operand.
    let out = Disjoint::new(unsafe { call.out_i32(0) });
    call.rows(rows, width, |i, _| {
        let mut chunk = [0.0; CHUNK];
        let mut best: Option<(f32, usize)> = None;
        for from in (0..width).step_by(CHUNK) {
            let part = &mut chunk[..CHUNK.min(width - from)];
            call.load(0, i * width + from..i * width + from + part.len(), part);
            let largest = reduce::max(call.level, part);
            // No place: NaNs alone. Minus infinity still beats those.
            if best.is_none_or(|(so_far, _)| largest > so_far)
                && let Some(place) = first_place(call.level, part, largest)
            {
                best = Some((largest, from + place));
            }
        }
        // SAFETY: each row has one element of the result.
        let into = unsafe { out.range(i..i + 1) };
        into[0] = best.map_or(0, |(_, place)| place as i32);
    });
}

multiversion! {
    fn first_place(part: &[f32], number: f32) -> Option<usize> {
        part.iter().position(|x| *x == number)
    }
}
