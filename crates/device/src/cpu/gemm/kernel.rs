//! The kernel: a strip of up to twelve rows of A times one panel of B, over one block of k, stored to or
//! added to a tile of C. One signature, one file per instruction set; all give the same bits, because each
//! element is `acc = a.mul_add(b, acc)` for k = 0, 1, 2 … from zero.

use super::{PANEL, STRIP, portable};
#[cfg(target_arch = "x86_64")]
use crate::cpu::level::Kind;
use crate::cpu::level::Level;
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
    /// Columns in order.
    F32(*const f32),
    /// Columns j and 16 + j side by side, so that both halves widen by one operation on 32-bit lanes.
    Bf16(*const bf16),
}

/// Where the 32 columns of a row go: `c + r * stride`, and whether they are added to what is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile {
    pub c: *mut f32,
    pub stride: usize,
    pub add: bool,
}

/// The product of one strip and one panel.
///
/// # Safety
/// `rows` is 1 to 12; `a` holds `rows` rows of `k` elements in the layout of `strip`; the panel holds `k` rows
/// of 32; the tile has `rows` rows of 32 writable elements that nobody else uses.
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
            Kind::Avx512 => super::avx512::multiply(rows, k, a, strip, panel, tile),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => super::avx2::multiply(rows, k, a, strip, panel, tile),
            _ => portable::multiply(rows, k, a, strip, panel, tile),
        }
    }
}

/// The place of column `j` in a row of a bf16 panel.
#[inline(always)]
pub(super) const fn bf16_place(j: usize) -> usize {
    const HALF: usize = PANEL / 2;
    if j < HALF { 2 * j } else { 2 * (j - HALF) + 1 }
}
