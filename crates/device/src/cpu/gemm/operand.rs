//! What a small product is made of: f32 or bf16 numbers as rows of A and panels of B. Attention is written once over
//! this trait, and its precision picks the type.

use super::block::{self, Into};
use super::matrix::Matrix;
use super::narrow_rows::narrow_rows;
use super::pack_b::{panels_bf16, panels_f32};
use super::pairs::as_words;
use super::{PANEL, TILE_K};
use crate::Element;
use crate::cpu::convert;
use crate::cpu::level::Level;
use half::bf16;

/// Numbers that small products multiply; sums are f32 either way.
pub trait Operand: Element {
    /// How far apart rows of `k` numbers lie: bf16 is filled up with zeros to whole tiles.
    fn stride(k: usize) -> usize;

    /// Numbers in the panels of a K by N matrix.
    fn panel_numbers(k: usize, n: usize) -> usize;

    /// Copies an M by K matrix into rows [`Operand::stride`] apart, as an A. Panics if sizes do not fit.
    fn rows(level: Level, source: Matrix<'_>, m: usize, k: usize, out: &mut [Self]);

    /// Copies a K by N matrix into panels, as a B. Panics if sizes do not fit.
    fn panels(level: Level, source: Matrix<'_>, k: usize, n: usize, out: &mut [Self]);

    /// f32 numbers as they are, or rounded to `room`. Panics if there is too little room.
    fn rounded<'a>(level: Level, numbers: &'a [f32], room: &'a mut [Self]) -> &'a [Self];

    /// `C[m n] = A[m k] · B[k n]`, or `C += …` with `accumulate`, on the calling thread. Rows of A are `a_stride` apart
    /// and, of bf16, end with zeros as [`Operand::rows`] writes them. Panics if sizes do not fit.
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

    fn rows(_level: Level, source: Matrix<'_>, m: usize, k: usize, out: &mut [f32]) {
        source.check(m, k, "rows");
        for (i, out) in out[..m * k].chunks_exact_mut(k.max(1)).enumerate() {
            for (j, out) in out.iter_mut().enumerate() {
                *out = source.at(i, j);
            }
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

    fn rows(level: Level, source: Matrix<'_>, m: usize, k: usize, out: &mut [bf16]) {
        source.check(m, k, "rows");
        narrow_rows(level, &source, (0, m), (0, k), out, Self::stride(k));
    }

    fn panels(level: Level, source: Matrix<'_>, k: usize, n: usize, out: &mut [bf16]) {
        source.check(k, n, "panels");
        panels_bf16(level, source, k, n, as_words(&mut out[..Self::panel_numbers(k, n)]));
    }

    fn rounded<'a>(level: Level, numbers: &'a [f32], room: &'a mut [bf16]) -> &'a [bf16] {
        let room = &mut room[..numbers.len()];
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
