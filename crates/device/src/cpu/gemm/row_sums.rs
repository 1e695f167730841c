//! Sums over k of the rows of a transposed A, taken while a task has them in its cache: beside the gradient
//! of a weight they are that of the bias.

use super::matrix::{Data, Matrix};
use crate::cpu::convert;
use crate::cpu::level::Level;
use half::bf16;

/// How many k are added up before their sum joins the total: keeps the rounding error of long sums low.
const AT_ONCE: usize = 64;
/// Rows of A that are summed side by side, in registers.
const SIDE_BY_SIDE: usize = 64;

/// Adds columns `start..start + k` of A to one sum for each of the rows from `row` on. The order depends on
/// `k` alone.
pub(super) fn add_row_sums(
    level: Level,
    a: &Matrix<'_>,
    row: usize,
    (start, k): (usize, usize),
    sums: &mut [f32],
) {
    let across = a.column_stride;
    for (part, sums) in sums.chunks_mut(SIDE_BY_SIDE).enumerate() {
        for first in (start..start + k).step_by(AT_ONCE) {
            let count = AT_ONCE.min(start + k - first);
            match a.data.after(row + part * SIDE_BY_SIDE + first * across) {
                Data::F32(data) => add_f32(level, data, across, count, sums),
                Data::Bf16(data) => add_bf16(level, data, across, count, sums),
            }
        }
    }
}

#[inline(always)]
fn add<T: Copy>(data: &[T], across: usize, k: usize, sums: &mut [f32], widen: impl Fn(T) -> f32) {
    let mut block = [0.0f32; SIDE_BY_SIDE];
    if sums.len() == SIDE_BY_SIDE {
        for i in 0..k {
            let row: &[T; SIDE_BY_SIDE] = data[i * across..][..SIDE_BY_SIDE].try_into().expect("so many");
            for j in 0..SIDE_BY_SIDE {
                block[j] += widen(row[j]);
            }
        }
    } else {
        for i in 0..k {
            for (sum, x) in block.iter_mut().zip(&data[i * across..][..sums.len()]) {
                *sum += widen(*x);
            }
        }
    }
    sums.iter_mut().zip(block).for_each(|(sum, block)| *sum += block);
}

crate::multiversion! {
    fn add_f32(data: &[f32], across: usize, k: usize, sums: &mut [f32]) {
        add(data, across, k, sums, |x| x);
    }

    fn add_bf16(data: &[bf16], across: usize, k: usize, sums: &mut [f32]) {
        add(data, across, k, sums, convert::widen);
    }
}
