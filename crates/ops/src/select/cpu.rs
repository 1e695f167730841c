//! Choice by rows of the result.

use crate::CpuCall;
use crate::broadcast::Walk;
use crate::call::CHUNK;
use regard_graph::DType;

pub fn run(call: &CpuCall<'_>) {
    let out = call.out_dims(0);
    if out.count() == 0 {
        return;
    }
    let walks = [0, 1, 2].map(|input| Walk::new(call.dims(input), out));
    let width = out.last_size();
    let integers = call.out_dtype(0) == DType::I32;
    call.rows(out.rows(), width, |part, _| {
        let start = part.first() * width;
        let at = walks.map(|walk| walk.flat(start));
        for from in (0..width).step_by(CHUNK) {
            let length = CHUNK.min(width - from);
            let mut mask = [0; CHUNK];
            walks[0].pick(call.bools(0), at[0], from, &mut mask[..length]);
            match integers {
                true => {
                    let (mut a, mut b) = ([0; CHUNK], [0; CHUNK]);
                    walks[1].pick(call.i32(1), at[1], from, &mut a[..length]);
                    walks[2].pick(call.i32(2), at[2], from, &mut b[..length]);
                    choose(&mask[..length], &mut a, &b);
                    part.own(0)[from..from + length].copy_from_slice(&a[..length]);
                }
                false => {
                    let (mut a, mut b) = ([0.0; CHUNK], [0.0; CHUNK]);
                    walks[1].load(part, 1, at[1], from, &mut a[..length]);
                    walks[2].load(part, 2, at[2], from, &mut b[..length]);
                    choose(&mask[..length], &mut a, &b);
                    part.store(0, start + from..start + from + length, &a[..length]);
                }
            }
        }
    });
}

fn choose<T: Copy>(mask: &[u8], a: &mut [T], b: &[T]) {
    for ((mask, a), b) in mask.iter().zip(a).zip(b) {
        *a = if *mask != 0 { *a } else { *b };
    }
}
