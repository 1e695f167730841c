//! The kernel for AMX: up to 32 rows by 32 columns, as two by two tiles of sixteen by sixteen sums, over 32 k
//! at a time. Rows of A are read as they lie or are packed, pairs of B as they are packed; tiles are
//! configured for the rows there are, so that nothing beyond them is touched. In assembly, because the
//! intrinsics are not stable.

use super::kernel::Tile;
use super::{PANEL, TILE_K};
use half::bf16;
use std::arch::asm;

/// Rows of one call.
pub(super) const STRIP: usize = 32;
/// Rows of one tile.
const ROWS: usize = 16;
/// Bytes of a row of a tile.
const ROW_BYTES: usize = 64;
/// Words of sixteen pair rows of a panel: what one step over k reads of B.
const STEP_WORDS: usize = TILE_K / 2 * PANEL;

/// The tiles' configuration, as `ldtilecfg` reads it: palette 1, then bytes of a row and rows of each tile.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// Tiles of this thread, configured for strips of some rows. They are given back when this goes.
pub(super) struct Tiles {
    rows: usize,
    /// Not to be sent: the tiles belong to the thread.
    own: std::marker::PhantomData<*const ()>,
}

impl Tiles {
    pub(super) fn new() -> Self {
        Tiles { rows: 0, own: std::marker::PhantomData }
    }

    /// Tiles 0 to 3 are sums, 4 and 5 rows of A, 6 and 7 columns of B.
    ///
    /// # Safety
    /// The CPU has AMX and the system permits it; `rows` is 1 to 32.
    unsafe fn configure(&mut self, rows: usize) {
        if self.rows == rows {
            return;
        }
        // Without a second sixteen, its tiles are never used, but must not be empty to be valid.
        let (upper, lower) = (rows.min(ROWS) as u8, rows.saturating_sub(ROWS).max(1) as u8);
        let mut configuration =
            Configuration { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
        configuration.row_bytes[..8].fill(ROW_BYTES as u16);
        let whole = ROWS as u8;
        configuration.rows[..8].copy_from_slice(&[upper, upper, lower, lower, upper, lower, whole, whole]);
        // SAFETY: the configuration is valid and lives through the instruction.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const configuration, options(nostack)) };
        self.rows = rows;
    }

    /// # Safety
    /// As [`super::kernel::Bf16Kernel::multiply`] with up to 32 rows, on a CPU with AMX and BF16 that the
    /// system permits.
    pub(super) unsafe fn multiply(
        &mut self,
        rows: usize,
        k: usize,
        a: *const bf16,
        stride: usize,
        b: *const u32,
        tile: Tile,
    ) {
        let (steps, rest) = (k / TILE_K, k % TILE_K);
        // SAFETY: passed on to the caller; whole steps read whole tiles of A and B, and the rest of A is
        // filled up with zeros, that of B is copied to where it is.
        unsafe {
            self.configure(rows);
            if steps > 0 || rest == 0 {
                strip_times_panel(rows, steps, a, stride, b, tile);
            }
            if rest > 0 {
                let mut last = [0u32; STEP_WORDS];
                let from = b.add(steps * STEP_WORDS);
                std::ptr::copy_nonoverlapping(from, last.as_mut_ptr(), rest.div_ceil(2) * PANEL);
                let tile = Tile { add: tile.add || steps > 0, ..tile };
                strip_times_panel(rows, 1, a.add(steps * TILE_K), stride, last.as_ptr(), tile);
            }
        }
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        if self.rows > 0 {
            // SAFETY: only a configuration that was loaded sets `rows`, so the CPU has tiles.
            unsafe { asm!("tilerelease", options(nomem, nostack)) };
        }
    }
}

/// The sums of `steps` times 32 k, from zero or from what the tile of C holds.
///
/// # Safety
/// As [`Tiles::multiply`]; tiles are configured for `rows`; A and B hold `steps` whole steps.
unsafe fn strip_times_panel(
    rows: usize,
    steps: usize,
    a: *const bf16,
    stride: usize,
    b: *const u32,
    tile: Tile,
) {
    // SAFETY: passed on to the caller; each is for the rows that it is called with.
    unsafe {
        match rows > ROWS {
            true => both_halves(steps, a, stride, b, tile),
            false => upper_half(steps, a, stride, b, tile),
        }
    }
}

/// More than sixteen rows: four tiles of sums.
///
/// # Safety
/// As [`strip_times_panel`].
#[inline(always)]
unsafe fn both_halves(steps: usize, a: *const bf16, stride: usize, b: *const u32, tile: Tile) {
    let (a_stride, b_stride, c_stride) = (stride * 2, PANEL * 4, tile.stride * 4);
    // SAFETY: the caller vouches for the memory; the registers are named as used, and the tiles as
    // overwritten.
    unsafe {
        asm!(
            "test {add}, {add}",
            "jz 2f",
            "tileloadd tmm0, [{c0} + {cs}]",
            "tileloadd tmm1, [{c0} + {cs} + 64]",
            "tileloadd tmm2, [{c1} + {cs}]",
            "tileloadd tmm3, [{c1} + {cs} + 64]",
            "jmp 3f",
            "2:",
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "3:",
            "test {steps}, {steps}",
            "jz 5f",
            "4:",
            "tileloadd tmm6, [{b} + {bs}]",
            "tileloadd tmm4, [{a0} + {stride}]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{b} + {bs} + 64]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{a1} + {stride}]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {a0}, 64",
            "add {a1}, 64",
            "add {b}, 2048",
            "dec {steps}",
            "jnz 4b",
            "5:",
            "tilestored [{c0} + {cs}], tmm0",
            "tilestored [{c0} + {cs} + 64], tmm1",
            "tilestored [{c1} + {cs}], tmm2",
            "tilestored [{c1} + {cs} + 64], tmm3",
            add = in(reg) tile.add as usize,
            steps = inout(reg) steps => _,
            a0 = inout(reg) a => _,
            a1 = inout(reg) a.add(ROWS * stride) => _,
            b = inout(reg) b => _,
            c0 = in(reg) tile.c,
            c1 = in(reg) tile.c.add(ROWS * tile.stride),
            stride = in(reg) a_stride,
            bs = in(reg) b_stride,
            cs = in(reg) c_stride,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack)
        );
    }
}

/// Up to sixteen rows: two tiles of sums.
///
/// # Safety
/// As [`strip_times_panel`].
#[inline(always)]
unsafe fn upper_half(steps: usize, a: *const bf16, stride: usize, b: *const u32, tile: Tile) {
    let (a_stride, b_stride, c_stride) = (stride * 2, PANEL * 4, tile.stride * 4);
    // SAFETY: as in `both_halves`.
    unsafe {
        asm!(
            "test {add}, {add}",
            "jz 2f",
            "tileloadd tmm0, [{c0} + {cs}]",
            "tileloadd tmm1, [{c0} + {cs} + 64]",
            "jmp 3f",
            "2:",
            "tilezero tmm0",
            "tilezero tmm1",
            "3:",
            "test {steps}, {steps}",
            "jz 5f",
            "4:",
            "tileloadd tmm6, [{b} + {bs}]",
            "tileloadd tmm4, [{a0} + {stride}]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{b} + {bs} + 64]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "add {a0}, 64",
            "add {b}, 2048",
            "dec {steps}",
            "jnz 4b",
            "5:",
            "tilestored [{c0} + {cs}], tmm0",
            "tilestored [{c0} + {cs} + 64], tmm1",
            add = in(reg) tile.add as usize,
            steps = inout(reg) steps => _,
            a0 = inout(reg) a => _,
            b = inout(reg) b => _,
            c0 = in(reg) tile.c,
            stride = in(reg) a_stride,
            bs = in(reg) b_stride,
            cs = in(reg) c_stride,
            out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm6") _, out("tmm7") _,
            options(nostack)
        );
    }
}
