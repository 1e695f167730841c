//! Copies rows of the table, in pieces that fit a buffer, so that one body serves f32 and bf16 results. Rows
//! of a table that was lent come from where it lies.

use crate::CpuCall;
use crate::call::CHUNK;

/// The ids have been checked.
pub fn run(call: &CpuCall<'_>) {
    let (ids, width) = (call.i32(1), call.dims(0)[1]);
    if let Some(table) = call.lent(0) {
        return call.rows(ids.len(), width, |own, _| {
            let n = own.first();
            let mut piece = [0.0; CHUNK];
            for start in (0..width).step_by(CHUNK) {
                let piece = &mut piece[..CHUNK.min(width - start)];
                let from = ids[n] as usize * width + start;
                table.read(from..from + piece.len(), piece);
                own.store(0, n * width + start..n * width + start + piece.len(), piece);
            }
        });
    }
    let table = call.f32(0);
    call.rows(ids.len(), width, |own, _| {
        let n = own.first();
        let row = &table[ids[n] as usize * width..][..width];
        for (piece, part) in row.chunks(CHUNK).enumerate() {
            let start = n * width + piece * CHUNK;
            own.store(0, start..start + part.len(), part);
        }
    });
}
