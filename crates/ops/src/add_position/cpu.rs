//! Adds a row of the table to each row, in pieces that fit a buffer.

use crate::CpuCall;
use crate::call::CHUNK;
use regard_device::multiversion;

/// The positions have been checked.
pub fn run(call: &CpuCall<'_>, position: Option<&[i32]>) {
    let (table, dims) = (call.f32(1), call.dims(0));
    let (rows, t, width) = (dims.rows(), dims[1], dims[2]);
    call.rows(rows, width, |own, _| {
        let n = own.first();
        let position = position.map_or_else(|| n % t, |position| position[n] as usize);
        let row = &table[position * width..][..width];
        let mut x = [0.0; CHUNK];
        for (piece, part) in row.chunks(CHUNK).enumerate() {
            let start = n * width + piece * CHUNK;
            let x = &mut x[..part.len()];
            own.load(0, start..start + part.len(), x);
            add(call.level, x, part);
            own.store(0, start..start + part.len(), x);
        }
    });
}

multiversion! {
    fn add(x: &mut [f32], row: &[f32]) {
        x.iter_mut().zip(row).for_each(|(x, r)| *x += r);
    }
}
