//! Products with a B of blocks: 32 neighbouring k of a column are small integers that share a scale, and so
//! are 32 neighbouring k of a row of A, which are rounded as they are read. Integers are multiplied and
//! summed as such, exactly; each block's sum then goes into one chain of f32 multiply-adds, from the first
//! block to the last. So every level, and one row as well as many, gives the same bits.
//!
//! What a block holds is what GGUF's blocks of 32 hold, so that such files need not be rounded again:
//! * [`Form::Q8`]: w = q · s, q from −127 to 127 and s an f16 (as Q8_0);
//! * [`Form::Q4`]: w = q · s + m, q from 0 to 15, s and m f16 (as Q4_1; Q4_0 is the case m = −8 s).
//!
//! A panel of 32 columns is a row of cells, one for each block of k. A cell begins with its 32 s (and 32 m);
//! then come its integers, four k of a column side by side, 32 columns one after the other, as the integer
//! products of CPUs want them. Q8 is stored as q + 128, because those take one operand without a sign. In a
//! byte of Q4 the lower half is of the first sixteen k, the upper half of the others.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;
mod product;
mod rows;
#[cfg(test)]
mod tests;
mod weights;

pub(super) use product::panels_of_task;
pub(super) use weights::pack;

use super::PANEL;
use super::kernel::Tile;
#[cfg(target_arch = "x86_64")]
use crate::cpu::level::Kind;
use crate::cpu::level::Level;

/// How many k share a scale.
pub(super) const BLOCK: usize = 32;
/// Bytes of one f16 for each column.
const HALVES: usize = PANEL * 2;
/// What is added to the integers of Q8.
const OFFSET: i32 = 128;

/// What the blocks hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Eight bits and a scale.
    Q8,
    /// Four bits, a scale and a least number.
    Q4,
}

impl Form {
    /// Bytes before the integers of a cell.
    const fn head(self) -> usize {
        match self {
            Form::Q8 => HALVES,
            Form::Q4 => 2 * HALVES,
        }
    }

    /// Bytes of a cell: a block of each of the 32 columns.
    pub const fn cell_bytes(self) -> usize {
        match self {
            Form::Q8 => HALVES + BLOCK * PANEL,
            Form::Q4 => 2 * HALVES + BLOCK / 2 * PANEL,
        }
    }
}

/// Rows of A in blocks, as [`rows::round_rows`] leaves them. Each is its integers, then the scale of each
/// block, then what the sum of its integers is good for: of Q8, −128 times it, with which the sum of a block
/// begins; of Q4, the f32 that m is multiplied by.
#[derive(Clone, Copy, Debug)]
struct Rows {
    start: *const u8,
    blocks: usize,
}

impl Rows {
    /// Bytes of one row.
    const fn stride(blocks: usize) -> usize {
        blocks * (BLOCK + 8)
    }

    /// # Safety
    /// There are that many rows and blocks.
    #[inline(always)]
    unsafe fn integers(&self, row: usize, block: usize) -> *const u8 {
        // SAFETY: passed on to the caller.
        unsafe { self.start.add(row * Rows::stride(self.blocks) + block * BLOCK) }
    }

    /// # Safety
    /// As [`Rows::integers`].
    #[inline(always)]
    unsafe fn scale(&self, row: usize, block: usize) -> f32 {
        // SAFETY: passed on to the caller; rows are a whole number of words.
        unsafe {
            let row = self.start.add(row * Rows::stride(self.blocks) + self.blocks * BLOCK);
            row.cast::<f32>().add(block).read()
        }
    }

    /// # Safety
    /// As [`Rows::integers`].
    #[inline(always)]
    unsafe fn sum(&self, row: usize, block: usize) -> i32 {
        // SAFETY: passed on to the caller; rows are a whole number of words.
        unsafe {
            let row = self.start.add(row * Rows::stride(self.blocks) + self.blocks * (BLOCK + 4));
            row.cast::<i32>().add(block).read()
        }
    }

    /// The rows from this one on.
    ///
    /// # Safety
    /// There are that many rows.
    unsafe fn after(self, row: usize) -> Rows {
        // SAFETY: passed on to the caller.
        Rows { start: unsafe { self.start.add(row * Rows::stride(self.blocks)) }, ..self }
    }
}

/// Rows by panels that [`multiply`] takes at once, for so many rows: as many sums as the registers hold, and
/// several panels where memory is the limit, since a core fetches several streams faster than one.
fn shape(level: Level, rows: usize) -> (usize, usize) {
    if !level.has_integer_products() {
        return (3, 1);
    }
    match rows {
        0..=2 => (2, 4),
        3..=4 | 7..=8 => (4, 2),
        _ => (6, 1),
    }
}

/// Some rows times some panels, `apart` bytes from one to the next, over all blocks of the rows: the sums go
/// to the tile, or on from those that are there.
///
/// # Safety
/// Rows and panels are at most what [`shape`] gives for some number of rows; the rows are there, and each
/// panel has a cell for each of their blocks; the tile has `rows` rows of whole panels that nobody else uses.
#[inline]
unsafe fn multiply(
    level: Level,
    form: Form,
    (rows, panels): (usize, usize),
    a: Rows,
    (b, apart): (*const u8, usize),
    tile: Tile,
) {
    // SAFETY: the caller's promises are those of the kernels, and a `Level` exists only where the CPU has its
    // instructions.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if level.has_integer_products() {
            return avx512::multiply(form, (rows, panels), a, (b, apart), tile);
        }
        for panel in 0..panels {
            let (b, tile) = (b.add(panel * apart), tile.after(0, panel * PANEL));
            match level.kind() {
                #[cfg(target_arch = "x86_64")]
                Kind::Avx2 | Kind::Avx512 | Kind::Avx512Bf16 | Kind::Amx => {
                    avx2::multiply(form, rows, a, b, tile)
                }
                _ => portable::multiply(form, rows, a, b, tile),
            }
        }
    }
}
