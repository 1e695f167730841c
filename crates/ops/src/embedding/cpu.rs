//! Copies rows of the table, in pieces that fit a buffer, so that one body serves f32 and bf16 results.

use crate::CpuCall;
use crate::call::CHUNK;

/// The ids have been checked.
pub fn run(call: &CpuCall<'_>) {
    let (table, ids, width) = (call.f32(0), call.i32(1), call.dims(0)[1]);
    call.rows(ids.len(), width, |own, _| {
        let n = own.first();
        let row = &table[ids[n] as usize * width..][..width];
        for (piece, part) in row.chunks(CHUNK).enumerate() {
            let start = n * width + piece * CHUNK;
            own.store(0, start..start + part.len(), part);
        }
    });
}
