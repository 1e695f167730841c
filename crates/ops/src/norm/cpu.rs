//! The norms, one row at a time in the thread's scratch. The mean is taken twice: the second pass sums what
//! the first has left, so that rows with a large mean lose nothing, and the variance is that of deviations.
//! The product that made the rows may have done so already.

use super::{Norm, NormKind, statistics};
use crate::CpuCall;
use regard_device::multiversion;
use regard_device::statistics::{STATISTICS, columns_of_part, of, of_row, parts_of_row};
use regard_graph::{Concrete, Op, Work};

// A product gathers statistics for each of its tasks: these have to be the parts of the contract. Up to a
// width at which everything has come round several times.
const _: () = {
    assert!(STATISTICS == statistics::STATISTICS);
    let mut n = 0;
    while n <= 4 * statistics::MOST_COLUMNS + 1 {
        assert!(columns_of_part(n) == statistics::columns_of_part(n));
        assert!(parts_of_row(n) == statistics::parts_of_row(n));
        n += 1;
    }
};

/// The work that is executed: a mean is corrected once, by Σ(h − μ), and taken as two numbers (RMS norm takes
/// two zeros); or statistics are read, and the sums of several parts put together.
pub fn work(op: &Norm, call: &Concrete<'_>) -> Work {
    let (rows, width) = (call.inputs[0].rows() as u64, call.inputs[0].last_size() as u64);
    let centred = u64::from(op.kind == NormKind::Layer);
    let math = op.cost(call);
    if !op.statistics {
        return Work { flops: math.flops + rows * (centred * (width + 3) + 2 * width), ..math };
    }
    let parts = parts_of_row(width as usize) as u64;
    let several = u64::from(parts > 1);
    let reading = Work {
        macs: rows * centred * several * 2 * parts,
        flops: rows * (centred * width + several * parts * (1 + centred * 4)),
        read: rows * parts * STATISTICS as u64 * 4,
        written: 0,
    };
    let (macs, flops) = (math.macs - rows * width, math.flops - rows * centred * (width + 1));
    Work { macs, flops, ..math } + reading
}

/// The work that a product executes to gather statistics of rows of n. The mathematics has it in the norm,
/// wherever it is done.
pub fn gathering(kind: NormKind, rows: usize, n: usize) -> Work {
    let (rows, n, parts) = (rows as u64, n as u64, parts_of_row(n) as u64);
    let centred = u64::from(kind == NormKind::Layer);
    // Σx, x − mean, Σ(x − mean); Σ(x − mean)², and what the rounded mean has left.
    let (macs, flops) = (rows * (n + centred * parts), rows * centred * (3 * n + 2 * parts));
    Work { macs, flops, written: rows * parts * STATISTICS as u64 * 4, read: 0 }
}

/// Floats of a thread's scratch: a row, its residual; where a row has several parts, one of them and what is
/// found of all.
pub fn thread_floats(op: &Norm, width: usize) -> [usize; 4] {
    let residual = if op.residual { width } else { 0 };
    match parts_of_row(width) {
        ..=1 => [width, residual, 0, 0],
        parts => [width, residual, columns_of_part(width), parts * STATISTICS],
    }
}

pub fn run(op: &Norm, call: &CpuCall<'_>) {
    let (rows, width) = (call.dims(0).rows(), call.dims(0).last_size());
    let scale = op.scale_at().map(|at| call.f32(at));
    let shift = op.shift_at().map(|at| call.f32(at));
    let known = op.statistics_at().map(|at| call.f32(at));
    let centred = op.kind == NormKind::Layer;
    let [_, residual_floats, part_floats, found_floats] = thread_floats(op, width);
    call.rows(rows, width, |own, scratch| {
        let i = own.first();
        let (h, rest) = scratch.split_at_mut(width);
        let (residual, rest) = rest.split_at_mut(residual_floats);
        let (part, rest) = rest.split_at_mut(part_floats);
        let found = &mut rest[..found_floats];
        let range = i * width..(i + 1) * width;
        own.load(0, range.clone(), h);
        if let Some(sum) = op.sum_at() {
            own.load(1, range.clone(), residual);
            add(call.level, h, residual);
            if call.wants(sum) {
                own.store(sum, range.clone(), h);
            }
        }
        let ([first, left, squares], taken) = match known {
            Some(known) => {
                let parts = known.len() / rows;
                (of_row(&known[i * parts..(i + 1) * parts], width, centred), false)
            }
            // It takes the mean from the row at once.
            None if found.is_empty() => (of(call.level, h, centred), true),
            // Part by part, as a product gathers it: joined or not, the bits are the same.
            None => {
                for (h, found) in h.chunks(part.len()).zip(found.chunks_exact_mut(STATISTICS)) {
                    let part = &mut part[..h.len()];
                    part.copy_from_slice(h);
                    found.copy_from_slice(&of(call.level, part, centred));
                }
                (of_row(found, width, centred), false)
            }
        };
        let rstd = 1.0 / (squares / width as f32 + op.spec.epsilon).sqrt();
        if call.wants(0) {
            normalize(call.level, h, if taken { 0.0 } else { first }, left, rstd, scale, shift);
            own.store(0, range, h);
        }
        if let Some(at) = op.mean_at().filter(|&at| call.wants(at)) {
            own.store(at, i..i + 1, &[first + left]);
        }
        if call.wants(op.rstd_at()) {
            own.store(op.rstd_at(), i..i + 1, &[rstd]);
        }
    });
}

multiversion! {
    fn add(h: &mut [f32], residual: &[f32]) {
        h.iter_mut().zip(residual).for_each(|(h, r)| *h += r);
    }

    /// Normalises a row in place: takes a mean from it, and what that leaves, then multiplies.
    fn normalize(
        h: &mut [f32],
        first: f32,
        left: f32,
        rstd: f32,
        scale: Option<&[f32]>,
        shift: Option<&[f32]>,
    ) {
        match (scale, shift) {
            (None, None) => h.iter_mut().for_each(|h| *h = (*h - first - left) * rstd),
            (Some(scale), None) => {
                for (h, s) in h.iter_mut().zip(scale) {
                    *h = (*h - first - left) * rstd * s;
                }
            }
            (None, Some(shift)) => {
                for (h, t) in h.iter_mut().zip(shift) {
                    *h = (*h - first - left).mul_add(rstd, *t);
                }
            }
            (Some(scale), Some(shift)) => {
                for ((h, s), t) in h.iter_mut().zip(scale).zip(shift) {
                    *h = ((*h - first - left) * rstd).mul_add(*s, *t);
                }
            }
        }
    }
}
