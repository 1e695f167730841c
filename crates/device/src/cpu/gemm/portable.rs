//! The kernel in plain Rust: four rows at a time by 32 columns, each element its own chain of `mul_add`.

use super::PANEL;
use super::STRIP;
use super::kernel::{Panel, Strip, Tile};

const ROWS: usize = 4;

/// # Safety
/// As [`super::kernel::multiply`].
pub(super) unsafe fn multiply(rows: usize, k: usize, a: *const f32, strip: Strip, panel: Panel, tile: Tile) {
    let (stride, step) = match strip {
        Strip::Rows(stride) => (stride, 1),
        Strip::Columns => (1, STRIP),
    };
    let mut first = 0;
    while first < rows {
        let count = ROWS.min(rows - first);
        let mut sums = [[0.0f32; PANEL]; ROWS];
        // SAFETY: all addresses are inside the strip, the panel and the tile, whose sizes the caller vouches
        // for.
        unsafe {
            for at in 0..k {
                let i = place(panel, at, k);
                let b = read_row(panel, i);
                for (r, sum) in sums[..count].iter_mut().enumerate() {
                    let x = *a.add((first + r) * stride + i * step);
                    for (sum, b) in sum.iter_mut().zip(&b) {
                        *sum = x.mul_add(*b, *sum);
                    }
                }
            }
            for (r, sum) in sums[..count].iter().enumerate() {
                let row = std::slice::from_raw_parts_mut(tile.c.add((first + r) * tile.stride), PANEL);
                for (to, value) in row.iter_mut().zip(sum) {
                    *to = if tile.add { *to + value } else { *value };
                }
            }
        }
        first += count;
    }
}

/// Which k comes at a step: pairs of bf16 begin with the odd one.
#[inline(always)]
fn place(panel: Panel, step: usize, k: usize) -> usize {
    match panel {
        Panel::F32(_) | Panel::Int8(_) => step,
        Panel::Bf16(_) if step.is_multiple_of(2) && step + 1 == k => step,
        Panel::Bf16(_) => step ^ 1,
    }
}

/// Row `i` of a panel, as f32.
///
/// # Safety
/// The panel holds more than `i` rows.
#[inline(always)]
unsafe fn read_row(panel: Panel, i: usize) -> [f32; PANEL] {
    // SAFETY: passed on to the caller.
    unsafe {
        match panel {
            Panel::F32(b) => *b.add(i * PANEL).cast(),
            Panel::Int8(b) => (*b.add(i * PANEL).cast::<[i8; PANEL]>()).map(f32::from),
            Panel::Bf16(b) => {
                let words: [u32; PANEL] = *b.add(i / 2 * PANEL).cast();
                words.map(|word| f32::from_bits(if i % 2 == 1 { word & 0xffff_0000 } else { word << 16 }))
            }
        }
    }
}
