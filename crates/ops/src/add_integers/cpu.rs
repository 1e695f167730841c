//! Sums of integers. Positions are few, so one thread does it: first the check, then the sums.

use super::overflow;
use crate::broadcast::Walk;
use crate::{CpuCall, Fault};

pub fn run(call: &CpuCall<'_>) -> Result<(), Fault> {
    let out = call.out_dims(0);
    let (walk_a, walk_b) = (Walk::new(call.dims(0), out), Walk::new(call.dims(1), out));
    let (a, b) = (call.i32(0), call.i32(1));
    let terms = |i: usize| (a[walk_a.flat(i)], b[walk_b.flat(i)]);
    for i in 0..out.count() {
        let (x, y) = terms(i);
        x.checked_add(y).ok_or_else(|| overflow(x, y))?;
    }
    call.blocks(out.count(), out.count(), |part, _| {
        for (i, sum) in part.own::<i32>(0).iter_mut().enumerate() {
            let (x, y) = terms(i);
            *sum = x + y;
        }
    });
    Ok(())
}
