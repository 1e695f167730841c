//! Sums over broadcast axes. Three walks: columns of rows (leading axes summed), rows (trailing axes summed),
//! and the general one. Each result is a sum of block sums, blocks of a fixed length in increasing order.

use super::SumTo;
use crate::CpuCall;
use crate::call::CHUNK;
use regard_device::{multiversion, reduce};
use regard_graph::{Dims, MAX_RANK};

/// How many rows are added up before their sum joins the total: keeps the rounding error of long sums low.
const BLOCK: usize = 64;
/// How many columns one task sums: several tasks even for narrow values.
const COLUMNS: usize = 64;

pub fn run(op: &SumTo, call: &CpuCall<'_>) {
    let (x, out) = (call.dims(0), call.out_dims(0));
    if out.count() == 0 {
        return;
    }
    // Dividing a plain sum by 1 changes no bit.
    let terms = if op.mean { SumTo::terms(&x, &out) as f32 } else { 1.0 };
    let leading = x.len() - out.len();
    let is_summed = |axis: usize| axis < leading || out[axis - leading] != x[axis];
    // The axes that matter, outermost first, split where "summed" turns into "kept" or the other way.
    let summed_first = (0..x.len()).take_while(|&axis| is_summed(axis) || x[axis] == 1).count();
    if (summed_first..x.len()).all(|axis| !is_summed(axis)) {
        return columns(call, x[..summed_first].iter().product(), x[summed_first..].iter().product(), terms);
    }
    let kept_first = (0..x.len()).take_while(|&axis| !is_summed(axis) || x[axis] == 1).count();
    if (kept_first..x.len()).all(|axis| is_summed(axis) || x[axis] == 1) {
        return rows(call, x[..kept_first].iter().product(), x[kept_first..].iter().product(), terms);
    }
    general(call, x, out, terms);
}

fn columns(call: &CpuCall<'_>, count: usize, width: usize, terms: f32) {
    call.pool.run(width.div_ceil(COLUMNS), &|task, _| {
        let first = task * COLUMNS;
        let length = COLUMNS.min(width - first);
        let (mut total, mut block, mut row) = ([0.0; COLUMNS], [0.0; COLUMNS], [0.0; COLUMNS]);
        for start in (0..count).step_by(BLOCK) {
            block.fill(0.0);
            for i in start..(start + BLOCK).min(count) {
                let at = i * width + first;
                call.load(0, at..at + length, &mut row[..length]);
                add(call.level, &mut block, &row);
            }
            add(call.level, &mut total, &block);
        }
        total.iter_mut().for_each(|total| *total /= terms);
        call.store(0, first..first + length, &total[..length]);
    });
}

fn rows(call: &CpuCall<'_>, count: usize, width: usize, terms: f32) {
    call.rows(count, width, |i, _| {
        let mut chunk = [0.0; CHUNK];
        let mut total = 0.0;
        for from in (0..width).step_by(CHUNK) {
            let part = &mut chunk[..CHUNK.min(width - from)];
            call.load(0, i * width + from..i * width + from + part.len(), part);
            total += reduce::sum(call.level, part);
        }
        call.store(0, i..i + 1, &[total / terms]);
    });
}

fn general(call: &CpuCall<'_>, x: Dims, out: Dims, terms: f32) {
    // The summed axes as a shape of their own, kept axes counting 1.
    let leading = x.len() - out.len();
    let mut summed = x;
    for axis in leading..x.len() {
        if out[axis - leading] == x[axis] {
            summed[axis] = 1;
        }
    }
    let strides = x.strides();
    call.rows(out.count(), summed.count(), |j, _| {
        let at = out.coordinates(j);
        let base: usize = (0..out.len()).map(|axis| at[axis] * strides[axis + leading]).sum();
        let (mut total, mut block) = (0.0, 0.0);
        for s in 0..summed.count() {
            let step: [usize; MAX_RANK] = summed.coordinates(s);
            let offset: usize = (0..x.len()).map(|axis| step[axis] * strides[axis]).sum();
            let mut one = [0.0];
            call.load(0, base + offset..base + offset + 1, &mut one);
            block += one[0];
            if s % BLOCK == BLOCK - 1 {
                total += block;
                block = 0.0;
            }
        }
        call.store(0, j..j + 1, &[(total + block) / terms]);
    });
}

multiversion! {
    fn add(total: &mut [f32], row: &[f32]) {
        total.iter_mut().zip(row).for_each(|(t, x)| *t += x);
    }
}
