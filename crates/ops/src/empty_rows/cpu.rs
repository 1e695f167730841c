//! The count of rows without keys, on one thread: there is one number for each row.

use crate::CpuCall;

pub fn run(call: &CpuCall<'_>) {
    let count = call.f32(0).iter().filter(|&&x| x == f32::NEG_INFINITY).count();
    call.blocks(1, 1, |part, _| part.own(0)[0] = count as i32);
}
