//! What the machine can do at best, measured here and now: multiply-adds in registers, and bytes read in a
//! row. Rooflines are drawn against these two. Caches show in [`reading`]: the less is read again and again,
//! the faster it goes.

use super::level::Level;
use super::threads::Pool;
use crate::{DeviceError, buffer::Buffer, multiversion};
use std::hint::black_box;
use std::time::Instant;

/// Measured ceilings of all threads of a pool together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceilings {
    /// f32 multiply-adds a second, in units of 1e9 flop (a multiply-add is two).
    pub gflops: f64,
    /// Bytes read a second from memory that no cache holds, in units of 1e9.
    pub gbytes: f64,
}

/// Independent chains that hide the latency of a multiply-add, sixteen lanes each.
const CHAINS: usize = 12;
const LANES: usize = 16;
/// Turns of one measurement: about a millisecond.
const TURNS: usize = 100_000;
/// Bytes that each thread reads: far more than its share of any cache.
const READ: usize = 128 << 20;
/// The best of so many counts: whoever else uses the machine can only make it slower.
const TRIES: usize = 7;

multiversion! {
    fn multiply_adds(turns: usize, factor: f32) -> f32 {
        // One flat array: of nested ones the compiler keeps no vector in a register.
        let mut sums = [1.0f32; CHAINS * LANES];
        for _ in 0..turns {
            for sum in &mut sums {
                *sum = sum.mul_add(factor, 0.5);
            }
        }
        let mut all = 0.0;
        for sum in sums {
            all += sum;
        }
        all
    }

    fn read_all(words: &[i32]) -> i32 {
        let mut lanes = [0i32; 64];
        for part in words.chunks_exact(64) {
            for lane in 0..64 {
                lanes[lane] |= part[lane];
            }
        }
        let mut all = 0;
        for lane in lanes {
            all |= lane;
        }
        all
    }
}

/// Measures both, in about a third of a second.
pub fn measure(pool: &Pool, level: Level) -> Result<Ceilings, DeviceError> {
    let threads = pool.threads();
    let gflops = best(|| {
        pool.run(threads, &|_, _| {
            black_box(multiply_adds(level, TURNS, black_box(0.25)));
        });
        (threads * TURNS * CHAINS * LANES * 2) as f64
    });
    let mut memory = Buffer::zeroed(threads * READ)?;
    // Pages that nobody has written may all be the same one.
    memory.as_mut_slice::<i32>().fill(1);
    let words = memory.as_slice::<i32>();
    let share = words.len() / threads;
    let gbytes = best(|| {
        pool.run(threads, &|task, _| {
            black_box(read_all(level, &words[task * share..][..share]));
        });
        (threads * share * 4) as f64
    });
    Ok(Ceilings { gflops, gbytes })
}

/// Bytes that each thread reads again and again, from what a first cache holds to what none does.
const AGAIN: [usize; 7] = [16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20];
/// Bytes that each thread reads in one measurement at the least.
const ENOUGH: usize = 8 << 20;

/// How fast memory is read, by how much of it: pairs of the bytes that all threads together read again and
/// again, and the bytes that they read a nanosecond. Takes about a fifth of a second.
pub fn reading(pool: &Pool, level: Level) -> Result<Vec<(usize, f64)>, DeviceError> {
    let threads = pool.threads();
    let most = AGAIN[AGAIN.len() - 1];
    let mut memory = Buffer::zeroed(threads * most)?;
    memory.as_mut_slice::<i32>().fill(1);
    let words = memory.as_slice::<i32>();
    let measured = AGAIN.map(|bytes| {
        let (share, turns) = (bytes / 4, (ENOUGH / bytes).max(1));
        let speed = best(|| {
            pool.run(threads, &|task, _| {
                for _ in 0..turns {
                    black_box(read_all(level, black_box(&words[task * share..][..share])));
                }
            });
            (threads * turns * bytes) as f64
        });
        (threads * bytes, speed)
    });
    Ok(measured.to_vec())
}

/// The most of something in a nanosecond.
fn best(mut amount: impl FnMut() -> f64) -> f64 {
    let mut most: f64 = 0.0;
    for _ in 0..TRIES {
        let began = Instant::now();
        let done = amount();
        most = most.max(done / began.elapsed().as_nanos().max(1) as f64);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceilings_are_plausible() {
        let pool = Pool::new(1).unwrap();
        let here = measure(&pool, Level::best()).unwrap();
        assert!(here.gflops.is_finite() && here.gflops > 0.0, "{here:?}");
        assert!(here.gbytes.is_finite() && here.gbytes > 0.0, "{here:?}");
        let reading = reading(&pool, Level::best()).unwrap();
        assert!(reading.windows(2).all(|pair| pair[0].0 < pair[1].0), "{reading:?}");
        assert!(reading.iter().all(|(_, speed)| speed.is_finite() && *speed > 0.0), "{reading:?}");
    }
}
