//! What a small product is made of: f32 or bf16 numbers as rows of A and panels of B. Attention is written
//! once over this trait, and its precision picks the type.

#[cfg(target_arch = "x86_64")]
use super::avx512_bf16;
use super::block::{self, Into};
use super::matrix::{Data, Matrix};
use super::narrow_rows::narrow_rows;
use super::pack_b::{panels_bf16, panels_f32};
use super::pairs::as_words;
use super::transpose::{TALL, turn};
use super::{PANEL, TILE_K};
use crate::Element;
use crate::cpu::convert;
#[cfg(target_arch = "x86_64")]
use crate::cpu::level::Kind;
use crate::cpu::level::Level;
use half::bf16;
use std::ops::Neg;

/// Numbers that small products multiply; sums are f32 either way.
pub trait Operand: Element + Default + Neg<Output = Self> {
    /// How far apart rows of `k` numbers lie: bf16 is filled up with zeros to whole tiles.
    fn stride(k: usize) -> usize;

    /// Numbers in the panels of a K by N matrix.
    fn panel_numbers(k: usize, n: usize) -> usize;

    /// f32 numbers that take up at least the room of `numbers` of these.
    fn floats(numbers: usize) -> usize;

    /// Scratch of f32 as such numbers: as many as fit, whatever they are.
    fn view(scratch: &[f32]) -> &[Self];

    /// The same, to be written.
    fn view_mut(scratch: &mut [f32]) -> &mut [Self];

    /// Copies an M by K matrix into rows [`Operand::stride`] apart, as an A. Panics if sizes do not fit.
    fn rows(level: Level, source: Matrix<'_>, m: usize, k: usize, out: &mut [Self]);

    /// Copies a K by N matrix into panels, as a B. Panics if sizes do not fit.
    fn panels(level: Level, source: Matrix<'_>, k: usize, n: usize, out: &mut [Self]);

    /// f32 numbers as they are, or rounded to `room` for a product at this level, which takes numbers below
    /// 2⁻¹²⁶ as it does. Panics if there is too little room.
    fn rounded<'a>(level: Level, numbers: &'a [f32], room: &'a mut [Self]) -> &'a [Self];

    /// `C[m n] = A[m k] · B[k n]`, or `C += …` with `accumulate`, on the calling thread. Rows of A are
    /// `a_stride` apart and, of bf16, end with zeros as [`Operand::rows`] writes them. Panics if sizes do not
    /// fit.
    #[allow(clippy::too_many_arguments)]
    fn block(
        level: Level,
        m: usize,
        n: usize,
        k: usize,
        a: &[Self],
        a_stride: usize,
        panels: &[Self],
        c: &mut [f32],
        c_stride: usize,
        accumulate: bool,
    );
}

impl Operand for f32 {
    fn stride(k: usize) -> usize {
        k
    }

    fn panel_numbers(k: usize, n: usize) -> usize {
        n.div_ceil(PANEL) * PANEL * k
    }

    fn floats(numbers: usize) -> usize {
        numbers
    }

    fn view(scratch: &[f32]) -> &[f32] {
        scratch
    }

    fn view_mut(scratch: &mut [f32]) -> &mut [f32] {
        scratch
    }

    fn rows(level: Level, source: Matrix<'_>, m: usize, k: usize, out: &mut [f32]) {
        source.check(m, k, "rows");
        if k > 0 {
            wide_rows(level, &source, m, k, &mut out[..m * k]);
        }
    }

    fn panels(level: Level, source: Matrix<'_>, k: usize, n: usize, out: &mut [f32]) {
        source.check(k, n, "panels");
        panels_f32(level, source, k, n, &mut out[..Self::panel_numbers(k, n)]);
    }

    fn rounded<'a>(_level: Level, numbers: &'a [f32], _room: &'a mut [f32]) -> &'a [f32] {
        numbers
    }

    #[inline]
    fn block(
        level: Level,
        m: usize,
        n: usize,
        k: usize,
        a: &[f32],
        a_stride: usize,
        panels: &[f32],
        c: &mut [f32],
        c_stride: usize,
        accumulate: bool,
    ) {
        block::f32_block(level, [m, n, k], a, a_stride, panels, Into { c, stride: c_stride, accumulate });
    }
}

impl Operand for bf16 {
    fn stride(k: usize) -> usize {
        k.next_multiple_of(TILE_K)
    }

    fn panel_numbers(k: usize, n: usize) -> usize {
        n.div_ceil(PANEL) * PANEL * k.next_multiple_of(2)
    }

    fn floats(numbers: usize) -> usize {
        numbers.div_ceil(2)
    }

    fn view(scratch: &[f32]) -> &[bf16] {
        // SAFETY: every bit pattern is two bf16, which need no more than the alignment of an f32.
        unsafe { scratch.align_to().1 }
    }

    fn view_mut(scratch: &mut [f32]) -> &mut [bf16] {
        // SAFETY: every bit pattern is two bf16 or an f32, and a bf16 needs no more than the alignment of an
        // f32.
        unsafe { scratch.align_to_mut().1 }
    }

    fn rows(level: Level, source: Matrix<'_>, m: usize, k: usize, out: &mut [bf16]) {
        source.check(m, k, "rows");
        narrow_rows(level, &source, (0, m), (0, k), out, Self::stride(k));
    }

    fn panels(level: Level, source: Matrix<'_>, k: usize, n: usize, out: &mut [bf16]) {
        source.check(k, n, "panels");
        let out = as_words(&mut out[..Self::panel_numbers(k, n)]);
        #[cfg(target_arch = "x86_64")]
        if let (true, 1, Data::F32(x)) = (level.kind() >= Kind::Avx512Bf16, source.column_stride, source.data)
            && (k > 0 && k.is_multiple_of(2) && n.is_multiple_of(PANEL))
        {
            // SAFETY: a `Level` exists only where the CPU has its instructions; sizes were checked.
            return unsafe { avx512_bf16::panels(x, source.row_stride, k, n, out) };
        }
        panels_bf16(level, source, k, n, out);
    }

    fn rounded<'a>(level: Level, numbers: &'a [f32], room: &'a mut [bf16]) -> &'a [bf16] {
        let room = &mut room[..numbers.len()];
        #[cfg(target_arch = "x86_64")]
        if level.kind() >= Kind::Avx512Bf16 {
            // SAFETY: a `Level` exists only where the CPU has its instructions; there is as much room as
            // numbers.
            unsafe { avx512_bf16::round(numbers, room) };
            return room;
        }
        convert::to_bf16(level, numbers, room);
        room
    }

    #[inline]
    fn block(
        level: Level,
        m: usize,
        n: usize,
        k: usize,
        a: &[bf16],
        a_stride: usize,
        panels: &[bf16],
        c: &mut [f32],
        c_stride: usize,
        accumulate: bool,
    ) {
        block::bf16_block(level, [m, n, k], a, a_stride, panels, Into { c, stride: c_stride, accumulate });
    }
}

/// Rows of f32, those of a transposed source sixteen by thirty-two at a time.
fn wide_rows(level: Level, source: &Matrix<'_>, m: usize, k: usize, out: &mut [f32]) {
    let (down, across) = (source.row_stride, source.column_stride);
    let mut done = 0;
    if down == 1 && across != 1 {
        while done + TALL <= m {
            for start in (0..k).step_by(PANEL) {
                let columns = PANEL.min(k - start);
                let source = source.data.after(start * across + done);
                turn(level, source, across, columns, &mut out[done * k + start..], k);
            }
            done += TALL;
        }
    }
    for (i, out) in out.chunks_exact_mut(k).enumerate().skip(done) {
        match source.data {
            Data::F32(x) if across == 1 => out.copy_from_slice(&x[i * down..][..k]),
            _ => out.iter_mut().enumerate().for_each(|(j, out)| *out = source.at(i, j)),
        }
    }
}
