//! Rows of A in blocks: 32 neighbouring k are integers from −127 to 127 that share an f32 scale, the largest
//! magnitude over 127. They are x · (127 / largest) to the nearest integer, ties to even. A block whose
//! largest number is below 2⁻¹⁰⁰ counts as zeros; one with anything that is no finite number has a scale that
//! is none.

use super::super::matrix::{Data, Matrix};
use super::{BLOCK, Form, OFFSET, Rows};
use crate::cpu::convert::widen;
use crate::cpu::level::Level;

/// The largest integer: symmetric, so that −128 is not used.
const MOST: f32 = 127.0;
/// Below this a block counts as zeros: no scale comes near the end of the range of f32.
const LEAST: f32 = 7.888609e-31;
/// Added to a number below 2²² it leaves the nearest integer, ties to even, in the lower bits.
pub(super) const ROUND: f32 = 12_582_912.0;
/// How many numbers are gathered at a time, where they do not lie side by side as f32.
const PIECE: usize = 16 * BLOCK;

/// Rounds columns `start..start + size` of some rows, one row after the other in `out`.
pub(super) fn round_rows(
    level: Level,
    a: &Matrix<'_>,
    form: Form,
    (row, rows): (usize, usize),
    (start, size): (usize, usize),
    out: &mut [u8],
) -> Rows {
    let blocks = size.div_ceil(BLOCK);
    let (stride, across) = (Rows::stride(blocks), a.column_stride);
    for (r, out) in out.chunks_exact_mut(stride.max(1)).take(rows).enumerate() {
        let first = (row + r) * a.row_stride + start * across;
        let (integers, rest) = out.split_at_mut(blocks * BLOCK);
        let (scales, sums) = rest.split_at_mut(blocks * 4);
        let mut round = |at: usize, x: &[f32]| {
            let (from, to) = (at / BLOCK, (at + x.len()).div_ceil(BLOCK));
            let (integers, scales) = (&mut integers[from * BLOCK..to * BLOCK], &mut scales[from * 4..to * 4]);
            let sums = &mut sums[from * 4..to * 4];
            round_blocks(level, x, form == Form::Q4, integers, scales, sums);
        };
        match a.data {
            Data::F32(x) if across == 1 => round(0, &x[first..first + size]),
            _ => {
                let mut piece = [0.0; PIECE];
                for at in (0..size).step_by(PIECE) {
                    let piece = &mut piece[..PIECE.min(size - at)];
                    let from = |i: usize| first + (at + i) * across;
                    match a.data {
                        Data::F32(x) => piece.iter_mut().enumerate().for_each(|(i, to)| *to = x[from(i)]),
                        Data::Bf16(x) => {
                            piece.iter_mut().enumerate().for_each(|(i, to)| *to = widen(x[from(i)]))
                        }
                    }
                    round(at, piece);
                }
            }
        }
    }
    Rows { start: out.as_ptr(), blocks }
}

crate::multiversion! {
    /// Blocks of neighbours; the last one is filled up with zeros.
    fn round_blocks(x: &[f32], quarter: bool, integers: &mut [u8], scales: &mut [u8], sums: &mut [u8]) {
        let (whole, rest) = x.as_chunks::<BLOCK>();
        let mut last = [0.0; BLOCK];
        last[..rest.len()].copy_from_slice(rest);
        let blocks = whole.iter().chain((!rest.is_empty()).then_some(&last));
        let integers = integers.as_chunks_mut::<BLOCK>().0;
        let heads = scales.as_chunks_mut::<4>().0.iter_mut().zip(sums.as_chunks_mut::<4>().0);
        for ((x, integers), (scale, sum)) in blocks.zip(integers).zip(heads) {
            let (own, total) = round_block(x, integers);
            *scale = own.to_ne_bytes();
            *sum = if quarter { (own * total as f32).to_ne_bytes() } else { (-OFFSET * total).to_ne_bytes() };
        }
    }
}

/// The integers of a block; its scale, and the sum of the integers. Plain loops over the whole block, which
/// are what vectorises.
#[inline(always)]
fn round_block(x: &[f32; BLOCK], integers: &mut [u8; BLOCK]) -> (f32, i32) {
    // Magnitudes compare as their bits do, and what is no number is larger than all that are.
    let mut most = 0;
    for x in x {
        most = most.max(x.to_bits() & 0x7fff_ffff);
    }
    let largest = f32::from_bits(most);
    let factor = if largest < LEAST { 0.0 } else { MOST / largest };
    let mut bits = [0u32; BLOCK];
    for j in 0..BLOCK {
        bits[j] = (x[j] * factor + ROUND).to_bits();
    }
    let mut total = 0;
    for bits in bits {
        total += i32::from(bits as i8);
    }
    for j in 0..BLOCK {
        integers[j] = bits[j] as u8;
    }
    (if largest < LEAST { 0.0 } else { largest / MOST }, total)
}
