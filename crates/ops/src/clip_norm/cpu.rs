//! The global norm: blocks of a fixed length of each gradient are summed in f64 on all threads, and the block
//! sums are added in order.

#![allow(unsafe_code)]

use crate::CpuCall;
use crate::call::CHUNK;
use regard_device::{Disjoint, reduce};

/// How many elements make one block, and one task.
pub const BLOCK: usize = 32 * CHUNK;

/// √Σ x² over all operands.
pub fn norm(call: &CpuCall<'_>) -> f64 {
    let blocks_of = |input: usize| call.dims(input).count().div_ceil(BLOCK);
    let blocks: usize = (0..call.input_count()).map(blocks_of).sum();
    // SAFETY: the shared scratch is taken once; any bytes are an f64.
    let (_, sums, _) = unsafe { call.scratch_f32().align_to_mut::<f64>() };
    let sums = &mut sums[..blocks];
    let shared = Disjoint::new(sums);
    call.pool.run(blocks, &|task, _| {
        let (mut input, mut block) = (0, task);
        while block >= blocks_of(input) {
            block -= blocks_of(input);
            input += 1;
        }
        let end = call.dims(input).count().min((block + 1) * BLOCK);
        let mut chunk = [0.0; CHUNK];
        let mut sum = 0.0;
        for from in (block * BLOCK..end).step_by(CHUNK) {
            let part = &mut chunk[..CHUNK.min(end - from)];
            call.load(input, from..from + part.len(), part);
            sum += reduce::sum_of_squares_f64(call.level, part);
        }
        // SAFETY: each task writes its own block sum.
        let own = unsafe { shared.range(task..task + 1) };
        own[0] = sum;
    });
    sums.iter().sum::<f64>().sqrt()
}
