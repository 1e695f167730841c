//! Copies a part of A into a worker's scratch, as f32 and in a layout that the kernel reads without cache
//! conflicts: rows a fixed odd number of lines apart, or, for a transposed A, columns of twelve.

use super::kernel::Strip;
use super::matrix::{Data, Matrix};
use super::{BLOCK_BF16, STRIP};
use crate::cpu::convert;
use half::bf16;

/// Distance of packed rows: an odd number of cache lines, so that a column of twelve rows falls into twelve
/// different sets.
pub(super) const ROW: usize = BLOCK_BF16 + 16;
/// The same for rows of bf16.
pub(super) const ROW_BF16: usize = BLOCK_BF16 + 32;

/// Bytes after which the sets of the nearest cache come round again.
const ROUND: usize = 4096;
/// Lines that one of its sets holds.
const WAYS: usize = 8;

/// Whether a strip of rows so many bytes apart spreads over the sets of the nearest cache, so that each has
/// room for its share of them.
pub(super) fn spreads(rows: usize, bytes: usize) -> bool {
    let apart = 1 << bytes.trailing_zeros().min(ROUND.trailing_zeros());
    rows * apart.max(64) <= WAYS * ROUND
}

/// Rows of A from (`row`, `start`) on that the kernel can read where they lie, for `k` columns.
pub(super) fn rows_in_place<'a>(a: &Matrix<'a>, row: usize, (start, k): (usize, usize)) -> Option<&'a [f32]> {
    match a.data {
        Data::F32(data) if k > 0 && a.column_stride == 1 && spreads(STRIP, 4 * a.row_stride) => {
            Some(&data[row * a.row_stride + start..])
        }
        _ => None,
    }
}

/// Packs rows `row..row + rows` and columns `start..start + k` of A. Says how strips lie and how many
/// elements they are apart.
pub(super) fn pack_a(
    level: crate::Level,
    a: &Matrix<'_>,
    round: bool,
    (row, rows): (usize, usize),
    (start, k): (usize, usize),
    out: &mut [f32],
) -> (Strip, usize) {
    if k == 0 {
        return (Strip::Rows(ROW), STRIP * ROW);
    }
    let (down, across) = (a.row_stride, a.column_stride);
    let first = row * down + start * across;
    if across != 1 && down == 1 && rows > 1 {
        match a.data {
            Data::F32(data) => columns_f32(level, &data[first..], across, rows, k, round, out),
            Data::Bf16(data) => columns_bf16(level, &data[first..], across, rows, k, out),
        }
        return (Strip::Columns, k * STRIP);
    }
    match a.data {
        Data::F32(data) => rows_f32(level, &data[first..], down, across, rows, k, round, out),
        Data::Bf16(data) => rows_bf16(level, &data[first..], down, across, rows, k, out),
    }
    (Strip::Rows(ROW), STRIP * ROW)
}

#[inline(always)]
fn copy_rows<T: Copy>(
    source: &[T],
    down: usize,
    across: usize,
    rows: usize,
    k: usize,
    out: &mut [f32],
    convert: impl Fn(T) -> f32,
) {
    for (r, out) in out.chunks_mut(ROW).take(rows).enumerate() {
        if across == 1 {
            let source = &source[r * down..r * down + k];
            out[..k].iter_mut().zip(source).for_each(|(to, x)| *to = convert(*x));
        } else {
            out[..k].iter_mut().enumerate().for_each(|(i, to)| *to = convert(source[r * down + i * across]));
        }
    }
}

#[inline(always)]
fn copy_columns<T: Copy>(
    source: &[T],
    across: usize,
    rows: usize,
    k: usize,
    out: &mut [f32],
    convert: impl Fn(T) -> f32,
) {
    // k outside: each source line is read once, in order.
    for i in 0..k {
        let source = &source[i * across..i * across + rows];
        let mut strips = source.chunks_exact(STRIP);
        let mut place = i * STRIP;
        for strip in &mut strips {
            let strip: &[T; STRIP] = strip.try_into().expect("a whole strip");
            let to: &mut [f32; STRIP] = (&mut out[place..place + STRIP]).try_into().expect("a whole strip");
            *to = strip.map(&convert);
            place += k * STRIP;
        }
        for (j, x) in strips.remainder().iter().enumerate() {
            out[place + j] = convert(*x);
        }
    }
}

crate::multiversion! {
    fn rows_f32(
        source: &[f32],
        down: usize,
        across: usize,
        rows: usize,
        k: usize,
        round: bool,
        out: &mut [f32],
    ) {
        if round {
            copy_rows(source, down, across, rows, k, out, convert::round);
        } else {
            copy_rows(source, down, across, rows, k, out, |x| x);
        }
    }

    fn rows_bf16(source: &[bf16], down: usize, across: usize, rows: usize, k: usize, out: &mut [f32]) {
        copy_rows(source, down, across, rows, k, out, convert::widen);
    }

    fn columns_f32(source: &[f32], across: usize, rows: usize, k: usize, round: bool, out: &mut [f32]) {
        if round {
            copy_columns(source, across, rows, k, out, convert::round);
        } else {
            copy_columns(source, across, rows, k, out, |x| x);
        }
    }

    fn columns_bf16(source: &[bf16], across: usize, rows: usize, k: usize, out: &mut [f32]) {
        copy_columns(source, across, rows, k, out, convert::widen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twelve rows fit half a page apart, the 32 of a strip of AMX a quarter; whole pages, or no distance,
    /// never do.
    #[test]
    fn a_strip_spreads_unless_its_rows_fall_into_a_few_sets() {
        for (rows, fits) in [(STRIP, [true, true, true]), (32, [true, true, false])] {
            assert_eq!([512, 1024, 2048].map(|bytes| spreads(rows, bytes)), fits, "{rows} rows");
            assert_eq!([768, 1536, 3072].map(|bytes| spreads(rows, bytes)), [true; 3], "{rows} rows");
            assert_eq!([0, 4096, 12_288].map(|bytes| spreads(rows, bytes)), [false; 3], "{rows} rows");
        }
    }
}
