//! Pairs of bf16: two neighbouring k side by side in one 32-bit word, the even one low. A panel of bf16 is
//! rows of 32 such words, one row for each pair of k, an odd last k filled up with 0: what `vdpbf16ps` and
//! the tiles of AMX multiply by, and what a shift and a mask widen for everyone else.

use super::PANEL;
use super::matrix::Data;
use super::transpose::{TALL, turn_words};
use crate::cpu::convert::narrow;
use crate::cpu::level::Level;
use half::bf16;

/// A word of an even and an odd element.
#[inline(always)]
pub(super) fn word(even: bf16, odd: bf16) -> u32 {
    even.to_bits() as u32 | (odd.to_bits() as u32) << 16
}

/// Numbers as words.
pub(super) fn as_words(numbers: &mut [bf16]) -> &mut [u32] {
    // SAFETY: every bit pattern is two bf16; unaligned ends are refused.
    match unsafe { numbers.align_to_mut::<u32>() } {
        ([], words, []) => words,
        _ => panic!("pairs of bf16 must be aligned to 4 bytes"),
    }
}

/// Fills rows of words of one panel from a source with `k` rows from its first element on and at most 32
/// columns.
pub(super) fn fill(
    level: Level,
    source: Data<'_>,
    (down, across): (usize, usize),
    k: usize,
    columns: usize,
    out: &mut [u32],
) {
    debug_assert_eq!(k.div_ceil(2) * PANEL, out.len());
    if columns < PANEL || k % 2 == 1 {
        out.fill(0);
    }
    if across == 1 {
        return match source {
            Data::F32(x) => rows_f32(level, x, down, k, columns, out),
            Data::Bf16(x) => rows_bf16(level, x, down, k, columns, out),
        };
    }
    let mut done = 0;
    if down == 1 {
        // Sixteen pairs at a time: columns of the source lie in order, so that each gives sixteen words.
        let mut columns_of_words = [0u32; TALL * PANEL];
        while done + 2 * TALL <= k {
            gather(level, source.after(done), across, columns, &mut columns_of_words);
            let out = &mut out[done / 2 * PANEL..][..TALL * PANEL];
            turn_words(level, &columns_of_words, columns, out, PANEL);
            done += 2 * TALL;
        }
    }
    let at = |i: usize, j: usize| match source {
        Data::F32(x) => narrow(x[i * down + j * across]),
        Data::Bf16(x) => x[i * down + j * across],
    };
    for i in (done..k).step_by(2) {
        for j in 0..columns {
            let odd = if i + 1 < k { at(i + 1, j) } else { bf16::ZERO };
            out[i / 2 * PANEL + j] = word(at(i, j), odd);
        }
    }
}

/// Sixteen words of each column, `stride` apart in the source.
fn gather(level: Level, source: Data<'_>, stride: usize, columns: usize, out: &mut [u32; TALL * PANEL]) {
    match source {
        Data::F32(x) => gather_f32(level, x, stride, columns, out),
        Data::Bf16(x) => gather_bf16(level, x, stride, columns, out),
    }
}

#[inline(always)]
fn pair_rows<T: Copy>(
    source: &[T],
    down: usize,
    k: usize,
    columns: usize,
    out: &mut [u32],
    narrow: impl Fn(T) -> bf16,
) {
    for (i, out) in out.chunks_exact_mut(PANEL).enumerate() {
        let even = &source[2 * i * down..][..columns];
        if 2 * i + 1 == k {
            for (out, even) in out.iter_mut().zip(even) {
                *out = word(narrow(*even), bf16::ZERO);
            }
            return;
        }
        let odd = &source[(2 * i + 1) * down..][..columns];
        if columns == PANEL {
            // Of known length, which vectorises.
            let (even, odd): (&[T; PANEL], &[T; PANEL]) = match (even.try_into(), odd.try_into()) {
                (Ok(even), Ok(odd)) => (even, odd),
                _ => unreachable!("a whole row"),
            };
            for j in 0..PANEL {
                out[j] = word(narrow(even[j]), narrow(odd[j]));
            }
        } else {
            for ((out, even), odd) in out.iter_mut().zip(even).zip(odd) {
                *out = word(narrow(*even), narrow(*odd));
            }
        }
    }
}

#[inline(always)]
fn gather_words<T: Copy>(
    source: &[T],
    stride: usize,
    columns: usize,
    out: &mut [u32; TALL * PANEL],
    narrow: impl Fn(T) -> bf16,
) {
    for (j, out) in out.as_chunks_mut::<TALL>().0.iter_mut().take(columns).enumerate() {
        let column = &source[j * stride..][..2 * TALL];
        for (out, pair) in out.iter_mut().zip(column.as_chunks::<2>().0) {
            *out = word(narrow(pair[0]), narrow(pair[1]));
        }
    }
}

crate::multiversion! {
    fn rows_f32(source: &[f32], down: usize, k: usize, columns: usize, out: &mut [u32]) {
        pair_rows(source, down, k, columns, out, narrow);
    }

    fn rows_bf16(source: &[bf16], down: usize, k: usize, columns: usize, out: &mut [u32]) {
        pair_rows(source, down, k, columns, out, |x| x);
    }

    fn gather_f32(source: &[f32], stride: usize, columns: usize, out: &mut [u32; TALL * PANEL]) {
        gather_words(source, stride, columns, out, narrow);
    }

    fn gather_bf16(source: &[bf16], stride: usize, columns: usize, out: &mut [u32; TALL * PANEL]) {
        gather_words(source, stride, columns, out, |x| x);
    }
}
