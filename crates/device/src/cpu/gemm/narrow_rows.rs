//! Rows of A as bf16, filled up with zeros to whole tiles: what the bf16 kernels read. A transposed source is
//! turned in words of two k each.

#[cfg(target_arch = "x86_64")]
use super::avx512_bf16;
use super::matrix::{Data, Matrix};
use super::pack_a::spreads;
use super::pairs::{as_words, word};
use super::transpose::{TALL, turn_words};
use super::{PANEL, TILE_K};
use crate::cpu::convert::narrow;
#[cfg(target_arch = "x86_64")]
use crate::cpu::level::Kind;
use crate::cpu::level::Level;
use half::bf16;

/// Rows of A from (`row`, `start`) on that a kernel for strips of so many can read where they lie: `k`
/// columns that are whole tiles of bf16.
pub(super) fn rows_in_place<'a>(
    a: &Matrix<'a>,
    row: usize,
    (start, k): (usize, usize),
    strip: usize,
) -> Option<&'a [bf16]> {
    match a.data {
        Data::Bf16(data)
            if k > 0
                && a.column_stride == 1
                && k.is_multiple_of(TILE_K)
                && spreads(strip, 2 * a.row_stride) =>
        {
            Some(&data[row * a.row_stride + start..])
        }
        _ => None,
    }
}

/// Writes rows `row..row + rows` and columns `start..start + k` of A to rows `stride` apart, each filled up
/// with zeros to a multiple of [`TILE_K`].
pub(super) fn narrow_rows(
    level: Level,
    a: &Matrix<'_>,
    (row, rows): (usize, usize),
    (start, k): (usize, usize),
    out: &mut [bf16],
    stride: usize,
) {
    if k == 0 || rows == 0 {
        return;
    }
    let whole = k.next_multiple_of(TILE_K);
    assert!(stride >= whole && (rows - 1) * stride + whole <= out.len(), "narrow_rows: sizes");
    let (down, across) = (a.row_stride, a.column_stride);
    let source = a.data.after(row * down + start * across);
    if across == 1 {
        for (r, out) in out.chunks_mut(stride).take(rows).enumerate() {
            match source {
                Data::F32(x) => round(level, &x[r * down..r * down + k], &mut out[..k]),
                Data::Bf16(x) => out[..k].copy_from_slice(&x[r * down..r * down + k]),
            }
            out[k..whole].fill(bf16::ZERO);
        }
    } else if down == 1 && rows > 1 && stride.is_multiple_of(2) {
        turned(level, source, across, rows, k, as_words(out), stride / 2);
    } else {
        for (r, out) in out.chunks_mut(stride).take(rows).enumerate() {
            for (i, out) in out[..k].iter_mut().enumerate() {
                *out = match source {
                    Data::F32(x) if rounds_by_instruction(level) => narrow_normal(x[r * down + i * across]),
                    Data::F32(x) => narrow(x[r * down + i * across]),
                    Data::Bf16(x) => x[r * down + i * across],
                };
            }
            out[k..whole].fill(bf16::ZERO);
        }
    }
}

/// The source's rows are k: 64 of them by sixteen rows of A at a time, first paired, then turned.
fn turned(
    level: Level,
    source: Data<'_>,
    across: usize,
    rows: usize,
    k: usize,
    out: &mut [u32],
    stride: usize,
) {
    let (mut paired, mut rows_of_words) = ([0u32; TALL * PANEL], [0u32; TALL * PANEL]);
    for start in (0..k).step_by(2 * PANEL) {
        let count = (k - start).min(2 * PANEL);
        if count < 2 * PANEL {
            paired.fill(0);
        }
        let width = count.next_multiple_of(TILE_K) / 2;
        for row in (0..rows).step_by(TALL) {
            let tall = (rows - row).min(TALL);
            let from = start * across + row;
            match source {
                Data::F32(x) => round_pairs(level, &x[from..], across, count, tall, &mut paired),
                Data::Bf16(x) => pair_bf16(level, &x[from..], across, count, tall, &mut paired),
            }
            let out = &mut out[row * stride + start / 2..];
            if tall == TALL {
                turn_words(level, &paired, width, out, stride);
                continue;
            }
            turn_words(level, &paired, width, &mut rows_of_words, PANEL);
            for (out, words) in out.chunks_mut(stride).zip(rows_of_words.chunks_exact(PANEL)).take(tall) {
                out[..width].copy_from_slice(&words[..width]);
            }
        }
    }
}

/// Whether a level's products are of bf16, and the CPU rounds to it.
fn rounds_by_instruction(level: Level) -> bool {
    #[cfg(target_arch = "x86_64")]
    return level.kind() >= Kind::Avx512Bf16;
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = level;
        false
    }
}

/// As the instruction rounds: numbers below 2⁻¹²⁶ are 0.
#[inline(always)]
fn narrow_normal(x: f32) -> bf16 {
    narrow(if x.is_subnormal() { 0f32.copysign(x) } else { x })
}

/// Numbers as bf16, by the instruction for it where there is one.
fn round(level: Level, source: &[f32], out: &mut [bf16]) {
    #[cfg(target_arch = "x86_64")]
    if rounds_by_instruction(level) {
        // SAFETY: a `Level` exists only where the CPU has its instructions; the caller gave two slices of
        // `k`.
        return unsafe { avx512_bf16::round(source, out) };
    }
    copy_f32(level, source, out);
}

/// Pairs of k of up to sixteen rows of A, rounded in the same way.
fn round_pairs(
    level: Level,
    source: &[f32],
    across: usize,
    k: usize,
    rows: usize,
    out: &mut [u32; TALL * PANEL],
) {
    #[cfg(target_arch = "x86_64")]
    if rounds_by_instruction(level) {
        if rows < TALL || !k.is_multiple_of(2) {
            return pair_normal_f32(level, source, across, k, rows, out);
        }
        assert!((k - 1) * across + rows <= source.len() && k / 2 <= PANEL);
        // SAFETY: as above; `k` rows of sixteen were checked.
        return unsafe { avx512_bf16::pairs_of_rows(source, across, k, out) };
    }
    pair_f32(level, source, across, k, rows, out);
}

#[inline(always)]
fn pair<T: Copy>(
    source: &[T],
    across: usize,
    k: usize,
    rows: usize,
    out: &mut [u32; TALL * PANEL],
    narrow: impl Fn(T) -> bf16,
) {
    for (i, out) in out.as_chunks_mut::<TALL>().0.iter_mut().take(k.div_ceil(2)).enumerate() {
        let even = &source[2 * i * across..][..rows];
        if 2 * i + 1 == k {
            for (out, even) in out.iter_mut().zip(even) {
                *out = word(narrow(*even), bf16::ZERO);
            }
            return;
        }
        let odd = &source[(2 * i + 1) * across..][..rows];
        match (<&[T; TALL]>::try_from(even), <&[T; TALL]>::try_from(odd)) {
            (Ok(even), Ok(odd)) => {
                for r in 0..TALL {
                    out[r] = word(narrow(even[r]), narrow(odd[r]));
                }
            }
            _ => {
                for ((out, even), odd) in out.iter_mut().zip(even).zip(odd) {
                    *out = word(narrow(*even), narrow(*odd));
                }
            }
        }
    }
}

crate::multiversion! {
    fn copy_f32(source: &[f32], out: &mut [bf16]) {
        for (out, x) in out.iter_mut().zip(source) {
            *out = narrow(*x);
        }
    }

    fn pair_f32(source: &[f32], across: usize, k: usize, rows: usize, out: &mut [u32; TALL * PANEL]) {
        pair(source, across, k, rows, out, narrow);
    }

    fn pair_normal_f32(source: &[f32], across: usize, k: usize, rows: usize, out: &mut [u32; TALL * PANEL]) {
        pair(source, across, k, rows, out, narrow_normal);
    }

    fn pair_bf16(source: &[bf16], across: usize, k: usize, rows: usize, out: &mut [u32; TALL * PANEL]) {
        pair(source, across, k, rows, out, |x| x);
    }
}
