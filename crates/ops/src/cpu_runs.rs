//! Copies of equally long runs of bytes, split over threads: what joining, cutting and slicing come down to.

#![allow(unsafe_code)]

use regard_device::{Disjoint, Pool};

/// About how many bytes make one task.
const TASK: usize = 64 * 1024;

/// Where runs lie: run i begins at `first + i * step`.
#[derive(Clone, Copy, Debug)]
pub struct Runs {
    /// The first byte of the first run.
    pub first: usize,
    /// Bytes from run to run.
    pub step: usize,
}

/// Copies `count` runs of `length` bytes from one buffer to another. The runs of the target do not overlap.
pub fn copy(pool: &Pool, count: usize, length: usize, x: &[u8], from: Runs, out: &mut [u8], to: Runs) {
    assert!(count <= 1 || to.step >= length, "the runs of the target overlap");
    let out = Disjoint::new(out);
    for_stretches(pool, count, length, |i, start, stop| {
        let (from, to) = (from.first + i * from.step, to.first + i * to.step);
        // SAFETY: runs do not overlap (asserted above), and the stretches of one run do not meet.
        let into = unsafe { out.range(to + start..to + stop) };
        into.copy_from_slice(&x[from + start..from + stop]);
    });
}

/// Writes zeros over `count` runs of `length` bytes, which do not overlap.
pub fn clear(pool: &Pool, count: usize, length: usize, out: &mut [u8], at: Runs) {
    assert!(count <= 1 || at.step >= length, "the runs overlap");
    let out = Disjoint::new(out);
    for_stretches(pool, count, length, |i, start, stop| {
        let at = at.first + i * at.step;
        // SAFETY: runs do not overlap (asserted above), and the stretches of one run do not meet.
        unsafe { out.range(at + start..at + stop) }.fill(0);
    });
}

/// Calls `body(run, start, stop)` so that every byte of every run is covered once: long runs are cut, many
/// short ones are put together.
fn for_stretches(pool: &Pool, count: usize, length: usize, body: impl Fn(usize, usize, usize) + Sync) {
    if length == 0 {
        return;
    }
    let pieces = length.div_ceil(TASK);
    let together = (TASK / length).max(1);
    pool.run(count.div_ceil(together) * pieces, &|task, _| {
        let (group, piece) = (task / pieces, task % pieces);
        for i in group * together..((group + 1) * together).min(count) {
            body(i, piece * TASK, ((piece + 1) * TASK).min(length));
        }
    });
}
