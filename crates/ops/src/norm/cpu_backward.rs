//! The backward pass of the norms. A task takes a block of rows, a fixed number of them: it writes their dh,
//! and sums dscale and dshift down the block in the shared scratch. The blocks are then added up in order.

#![allow(unsafe_code)]

use super::NormBackward;
use crate::CpuCall;
use regard_device::reduce::{LANES, centre_inline, sum_lanes};
use regard_device::{Disjoint, multiversion};
use std::hint::black_box;

/// Rows of one block.
const BLOCK: usize = 32;
/// How many columns one task of the last sum takes.
const COLUMNS: usize = 64;

/// How many blocks there are.
pub fn blocks(rows: usize) -> usize {
    rows.div_ceil(BLOCK)
}

pub fn run(op: &NormBackward, call: &CpuCall<'_>) {
    let (rows, width) = (call.dims(1).rows(), call.dims(1).last_size());
    let scale = op.scale_input().map(|at| call.f32(at));
    let mean = op.mean_at().map(|at| call.f32(at));
    let rstd = call.f32(op.rstd_at());
    let parameters = [op.scale_at(), op.shift_at()].map(|at| at.filter(|&at| call.wants(at)));
    let wanted = parameters.iter().any(Option::is_some);
    let stride = if wanted { 2 * width } else { 0 };
    // SAFETY: taken once, here; blocks write to disjoint parts of it.
    let partial = Disjoint::new(unsafe { call.scratch_f32() });
    call.blocks(rows, BLOCK, |own, scratch| {
        let block = own.first() / BLOCK;
        let (dy, rest) = scratch.split_at_mut(width);
        let (h, rest) = rest.split_at_mut(width);
        // SAFETY: this block's part, which no other task touches.
        let sums = unsafe { partial.range(block * stride..(block + 1) * stride) };
        sums.fill(0.0);
        let (dscale, dshift) = sums.split_at_mut(stride / 2);
        for i in own.items() {
            let range = i * width..(i + 1) * width;
            own.load(0, range.clone(), dy);
            own.load(1, range.clone(), h);
            let stream = op.stream_at().map(|at| {
                let stream = &mut rest[..width];
                own.load(at, range.clone(), stream);
                &*stream
            });
            row(call.level, dy, h, mean.map(|mean| mean[i]), rstd[i], scale, wanted, dscale, dshift, stream);
            for output in 0..1 + usize::from(op.rounded.is_some()) {
                if call.wants(output) {
                    own.store(output, range.clone(), dy);
                }
            }
        }
    });
    for (output, offset) in parameters.into_iter().zip([0, width]) {
        let Some(output) = output else { continue };
        call.blocks(width, COLUMNS, |own, _| {
            let (start, length) = (own.first(), own.len());
            let mut total = [0.0f64; COLUMNS];
            for block in 0..blocks(rows) {
                let at = block * stride + offset + start;
                // SAFETY: these columns are this task's alone, and the blocks are done.
                let part = unsafe { partial.range(at..at + length) };
                total.iter_mut().zip(part).for_each(|(total, part)| *total += *part as f64);
            }
            own.store(output, own.items(), &total.map(|total| total as f32)[..length]);
        });
    }
}

/// What the row kernel works on; scale, dscale and dshift are empty where there are none.
struct Row<'a> {
    dy: &'a mut [f32],
    h: &'a mut [f32],
    scale: &'a [f32],
    dscale: &'a mut [f32],
    dshift: &'a mut [f32],
}

/// h becomes normed = (h − left) · rstd, dy becomes dy · scale; gives their sums Σ dy·scale and Σ
/// dy·scale·normed; dscale and dshift take this row's part. The flags are known to the compiler, so that one
/// pass does it all without branches.
#[inline(always)]
fn pass<const SCALE: bool, const PARAMETERS: bool>(mut row: Row<'_>, left: f32, rstd: f32) -> (f32, f32) {
    let (mut sums, mut across) = ([0.0; LANES], [0.0; LANES]);
    let width = row.dy.len();
    let whole = width / LANES * LANES;
    let mut from = 0;
    while from < whole {
        lanes::<SCALE, PARAMETERS>(&mut row, from, LANES, left, rstd, &mut sums, &mut across);
        from += LANES;
    }
    // Keeps the lanes together, as in `centre_inline`.
    (sums, across) = black_box((sums, across));
    if whole < width {
        lanes::<SCALE, PARAMETERS>(&mut row, whole, width - whole, left, rstd, &mut sums, &mut across);
    }
    (sum_lanes(sums), sum_lanes(across))
}

/// At most sixteen elements of a row, in arrays that the compiler keeps in registers. Lanes beyond the end
/// hold dy = 0, which adds nothing.
#[inline(always)]
fn lanes<const SCALE: bool, const PARAMETERS: bool>(
    row: &mut Row<'_>,
    from: usize,
    count: usize,
    left: f32,
    rstd: f32,
    sums: &mut [f32; LANES],
    across: &mut [f32; LANES],
) {
    let to = from + count;
    let mut dy = padded(&row.dy[from..to]);
    let mut normed = padded(&row.h[from..to]);
    for normed in &mut normed {
        *normed = (*normed - left) * rstd;
    }
    if PARAMETERS {
        let (mut dscale, mut dshift) = (padded(&row.dscale[from..to]), padded(&row.dshift[from..to]));
        for j in 0..LANES {
            dscale[j] = dy[j].mul_add(normed[j], dscale[j]);
            dshift[j] += dy[j];
        }
        row.dscale[from..to].copy_from_slice(&dscale[..count]);
        row.dshift[from..to].copy_from_slice(&dshift[..count]);
    }
    if SCALE {
        let scale = padded(&row.scale[from..to]);
        for j in 0..LANES {
            dy[j] *= scale[j];
        }
    }
    for j in 0..LANES {
        sums[j] += dy[j];
        across[j] = dy[j].mul_add(normed[j], across[j]);
    }
    row.dy[from..to].copy_from_slice(&dy[..count]);
    row.h[from..to].copy_from_slice(&normed[..count]);
}

#[inline(always)]
fn padded(part: &[f32]) -> [f32; LANES] {
    let mut lanes = [0.0; LANES];
    lanes[..part.len()].copy_from_slice(part);
    lanes
}

multiversion! {
    /// dy becomes dh. A mean means that the rows were centred; it was rounded when it was saved, so it is
    /// corrected as in the forward pass.
    fn row(
        dy: &mut [f32],
        h: &mut [f32],
        mean: Option<f32>,
        rstd: f32,
        scale: Option<&[f32]>,
        wanted: bool,
        dscale: &mut [f32],
        dshift: &mut [f32],
        stream: Option<&[f32]>,
    ) {
        let width = dy.len() as f32;
        // Not `map_or`: a closure of this size would be compiled without the level's instructions.
        let left = match mean {
            Some(mean) => centre_inline(h, mean).0 / width,
            None => 0.0,
        };
        let row = Row { dy, h, scale: scale.unwrap_or(&[]), dscale, dshift };
        let (sum, across) = match (scale.is_some(), wanted) {
            (true, true) => pass::<true, true>(row, left, rstd),
            (true, false) => pass::<true, false>(row, left, rstd),
            (false, true) => pass::<false, true>(row, left, rstd),
            (false, false) => pass::<false, false>(row, left, rstd),
        };
        let common = if mean.is_some() { sum / width } else { 0.0 };
        let across = across / width;
        for (dy, normed) in dy.iter_mut().zip(h.iter()) {
            *dy = normed.mul_add(-across, *dy - common) * rstd;
        }
        if let Some(stream) = stream {
            dy.iter_mut().zip(stream).for_each(|(dy, stream)| *dy += stream);
        }
    }
}
