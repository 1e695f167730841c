//! The kernels: a strip of rows of A times one panel of B, over one block of k, stored to or added to a tile
//! of C. One signature, one file per instruction set.
//!
//! With A in f32, all give the same bits: each element is `acc = a.mul_add(b, acc)` from zero, for k = 0, 1,
//! 2 … with an f32 or int8 panel and for k = 1, 0, 3, 2 … with a bf16 one. With A in bf16, `vdpbf16ps` does
//! the latter, too.

use super::{PANEL, STRIP, portable};
#[cfg(target_arch = "x86_64")]
use crate::cpu::level::Kind;
use crate::cpu::level::Level;
#[cfg(target_arch = "x86_64")]
use half::bf16;

/// How a strip of A lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strip {
    /// Element (r, k) at `r * stride + k`: rows.
    Rows(usize),
    /// Element (r, k) at `k * 12 + r`: columns of twelve.
    Columns,
}

/// A panel of B from the first row of the block on: k rows of 32.
#[derive(Clone, Copy, Debug)]
pub(super) enum Panel {
    /// A row for each k.
    F32(*const f32),
    /// A row of words for each pair of k, the even one low: both widen by one operation on 32-bit lanes.
    Bf16(*const u32),
    /// A row for each k.
    Int8(*const i8),
}

/// [`Panel`] as a constant, for kernels that are compiled for each.
pub(super) const F32: u8 = 0;
/// See [`F32`].
pub(super) const BF16: u8 = 1;
/// See [`F32`].
pub(super) const INT8: u8 = 2;

/// Bytes of a word of a panel: a number, or a pair of bf16.
pub(super) const fn width(kind: u8) -> usize {
    if kind == INT8 { 1 } else { 4 }
}

/// Where the 32 columns of a row go: `c + r * stride`, and whether they are added to what is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile {
    pub c: *mut f32,
    pub stride: usize,
    pub add: bool,
}

impl Tile {
    /// The tile from (`row`, `column`) on.
    ///
    /// # Safety
    /// It is that tall and wide.
    #[inline(always)]
    pub(super) unsafe fn after(self, row: usize, column: usize) -> Self {
        // SAFETY: passed on to the caller.
        Tile { c: unsafe { self.c.add(row * self.stride + column) }, ..self }
    }

    /// Asks for `rows` rows of a panel, so that they come from memory while their sums are made.
    #[inline(always)]
    pub(super) fn fetch(&self, rows: usize) {
        #[cfg(target_arch = "x86_64")]
        for row in (0..rows).map(|row| self.c.wrapping_add(row * self.stride)) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: it reads nothing and never faults.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(row.cast());
                _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(PANEL / 2).cast());
            }
        }
    }
}

/// The product of one strip and one panel.
///
/// # Safety
/// `rows` is 1 to 12; `a` holds `rows` rows of `k` elements in the layout of `strip`; the panel holds `k`
/// rows of 32; the tile has `rows` rows of 32 writable elements that nobody else uses.
#[inline]
pub(super) unsafe fn multiply(
    level: Level,
    rows: usize,
    k: usize,
    a: *const f32,
    strip: Strip,
    panel: Panel,
    tile: Tile,
) {
    debug_assert!((1..=STRIP).contains(&rows));
    // SAFETY: the caller's promises are those of the kernels, and a `Level` exists only where the CPU has its
    // instructions.
    unsafe {
        match level.kind() {
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 | Kind::Avx512Bf16 | Kind::Amx => {
                super::avx512::multiply(rows, k, a, strip, panel, tile)
            }
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => super::avx2::multiply(rows, k, a, strip, panel, tile),
            _ => portable::multiply(rows, k, a, strip, panel, tile),
        }
    }
}

/// Most panels of [`multiply_panels`].
pub(super) const SIDE_BY_SIDE: usize = 4;

/// The shape of [`multiply_panels`] at a level, rows by panels: as many sums as the registers hold. With one
/// panel it is [`multiply`].
#[inline]
pub(super) fn few_rows_shape(level: Level) -> (usize, usize) {
    match level.kind() {
        #[cfg(target_arch = "x86_64")]
        Kind::Avx512 | Kind::Avx512Bf16 | Kind::Amx => (3, SIDE_BY_SIDE),
        _ => (STRIP, 1),
    }
}

/// The product of few rows and one or several panels, `apart` bytes from one to the next. The panels are
/// walked side by side, row by row of each, because a core fetches several streams of memory much faster than
/// one.
///
/// # Safety
/// As [`multiply`], with rows and panels as [`few_rows_shape`] allows; all panels are there, and the tile has
/// 32 columns for each.
#[inline]
pub(super) unsafe fn multiply_panels(
    level: Level,
    (rows, panels): (usize, usize),
    k: usize,
    (a, stride): (*const f32, usize),
    panel: Panel,
    apart: usize,
    tile: Tile,
) {
    // SAFETY: as in `multiply`.
    unsafe {
        match level.kind() {
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 | Kind::Avx512Bf16 | Kind::Amx => {
                super::avx512::multiply_panels((rows, panels), k, (a, stride), panel, apart, tile)
            }
            _ => multiply(level, rows, k, a, Strip::Rows(stride), panel, tile),
        }
    }
}

/// Rows of a strip of bf16 at a level that multiplies them as they are; `None` at others, which widen A
/// first.
#[inline]
pub(super) fn bf16_strip(level: Level) -> Option<usize> {
    match level.kind() {
        #[cfg(target_arch = "x86_64")]
        Kind::Avx512Bf16 => Some(STRIP),
        #[cfg(target_arch = "x86_64")]
        Kind::Amx => Some(super::amx::STRIP),
        _ => None,
    }
}

/// The products of strips of bf16 with panels of pairs, at a level for which [`bf16_strip`] gives a number.
#[cfg(target_arch = "x86_64")]
pub(super) struct Bf16Kernel(Option<super::amx::Tiles>);

#[cfg(target_arch = "x86_64")]
impl Bf16Kernel {
    pub(super) fn new(level: Level) -> Self {
        assert!(level.kind() >= Kind::Avx512Bf16, "a level with bf16 products");
        Bf16Kernel((level.kind() == Kind::Amx).then(super::amx::Tiles::new))
    }

    /// The product of one strip and one panel.
    ///
    /// # Safety
    /// `rows` is 1 to the level's strip; `a` holds `rows` rows, `stride` apart, of `k` elements, filled up
    /// with zeros to a multiple of 32; the panel holds `k` rows of 32 in pairs; the tile has `rows` rows of
    /// 32 writable elements that nobody else uses.
    #[inline]
    pub(super) unsafe fn multiply(
        &mut self,
        rows: usize,
        k: usize,
        a: *const bf16,
        stride: usize,
        panel: *const u32,
        tile: Tile,
    ) {
        // SAFETY: the caller's promises are those of the kernels, and `new` was given a level with their
        // instructions, which exists only where the CPU has them.
        unsafe {
            match &mut self.0 {
                Some(tiles) => tiles.multiply(rows, k, a, stride, panel, tile),
                None => super::avx512_bf16::multiply(rows, k, a, stride, panel, tile),
            }
        }
    }
}
