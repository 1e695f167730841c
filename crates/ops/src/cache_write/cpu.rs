//! Finds slots that are given twice by one bit for each slot, then copies row by row into the cache.

#![allow(unsafe_code)]

use super::twice;
use crate::call::CHUNK;
use crate::{CpuCall, Fault};
use regard_graph::Dims;

/// Words of 32 bits with a bit for each slot of the cache `[R S G D]`.
pub fn words(cache: Dims) -> usize {
    (cache[0] * cache[1]).div_ceil(32)
}

/// Rows and slots are inside of the cache.
pub fn run(call: &CpuCall<'_>, row: Option<&[i32]>) -> Result<(), Fault> {
    let (cache, new, slot) = (call.dims(0), call.dims(1), call.i32(2));
    let (t, width) = (new[1], new[2] * new[3]);
    let place = |i: usize| (row.map_or(i / t, |row| row[i / t] as usize), slot[i] as usize);
    // SAFETY: taken once, here; u32 and f32 have the same size and alignment, and every bit pattern is a u32.
    let taken = unsafe {
        let scratch = call.scratch_f32();
        std::slice::from_raw_parts_mut(scratch.as_mut_ptr().cast::<u32>(), words(cache))
    };
    taken.fill(0);
    for i in 0..slot.len() {
        let (row, slot) = place(i);
        let bit = row * cache[1] + slot;
        if taken[bit / 32] >> (bit % 32) & 1 == 1 {
            return Err(twice(i / t, i % t, row, slot));
        }
        taken[bit / 32] |= 1 << (bit % 32);
    }
    call.rows(slot.len(), width, |new, _| {
        let i = new.first();
        let (row, slot) = place(i);
        let mut part = [0.0; CHUNK];
        for from in (0..width).step_by(CHUNK) {
            let part = &mut part[..CHUNK.min(width - from)];
            let (source, target) = (i * width + from, (row * cache[1] + slot) * width + from);
            call.load(1, source..source + part.len(), part);
            // SAFETY: every slot is given once (checked above), by one row of the run.
            unsafe { call.store(0, target..target + part.len(), part) };
        }
    });
    Ok(())
}
