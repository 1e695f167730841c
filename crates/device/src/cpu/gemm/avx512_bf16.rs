//! The kernel for `vdpbf16ps`: up to 12 rows by 32 columns, 24 accumulators, two loads of B and twelve broadcasts of A
//! for 24 products of pairs; or, where memory is the limit, up to 3 rows by four panels.

use super::PANEL;
use super::kernel::{SIDE_BY_SIDE, Tile};
use half::bf16;
use std::arch::x86_64::*;

/// # Safety
/// As [`super::kernel::Bf16Kernel::multiply`] with up to 12 rows, on a CPU with AVX-512 F and BF16.
#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) unsafe fn multiply(
    rows: usize,
    k: usize,
    a: *const bf16,
    stride: usize,
    b: *const u32,
    tile: Tile,
) {
    // SAFETY: passed on to the caller.
    unsafe {
        match rows {
            1 => strip_times_panels::<1, 1>(k, a, stride, b, 0, tile),
            2 => strip_times_panels::<2, 1>(k, a, stride, b, 0, tile),
            3 => strip_times_panels::<3, 1>(k, a, stride, b, 0, tile),
            4 => strip_times_panels::<4, 1>(k, a, stride, b, 0, tile),
            5 => strip_times_panels::<5, 1>(k, a, stride, b, 0, tile),
            6 => strip_times_panels::<6, 1>(k, a, stride, b, 0, tile),
            7 => strip_times_panels::<7, 1>(k, a, stride, b, 0, tile),
            8 => strip_times_panels::<8, 1>(k, a, stride, b, 0, tile),
            9 => strip_times_panels::<9, 1>(k, a, stride, b, 0, tile),
            10 => strip_times_panels::<10, 1>(k, a, stride, b, 0, tile),
            11 => strip_times_panels::<11, 1>(k, a, stride, b, 0, tile),
            _ => strip_times_panels::<12, 1>(k, a, stride, b, 0, tile),
        }
    }
}

/// # Safety
/// As [`super::kernel::Bf16Kernel::multiply`] with up to 3 rows and four panels, `apart` words from one to the next, on a
/// CPU with AVX-512 F and BF16.
#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) unsafe fn multiply_panels(
    (rows, panels): (usize, usize),
    k: usize,
    (a, stride): (*const bf16, usize),
    b: *const u32,
    apart: usize,
    tile: Tile,
) {
    debug_assert!((1..=3).contains(&rows) && (1..=SIDE_BY_SIDE).contains(&panels));
    // SAFETY: passed on to the caller; panels that are not side by side go one after the other.
    unsafe {
        match (rows, panels) {
            (1, SIDE_BY_SIDE) => strip_times_panels::<1, SIDE_BY_SIDE>(k, a, stride, b, apart, tile),
            (2, SIDE_BY_SIDE) => strip_times_panels::<2, SIDE_BY_SIDE>(k, a, stride, b, apart, tile),
            (3, SIDE_BY_SIDE) => strip_times_panels::<3, SIDE_BY_SIDE>(k, a, stride, b, apart, tile),
            _ => {
                for panel in 0..panels {
                    let tile = Tile { c: tile.c.add(panel * PANEL), ..tile };
                    multiply(rows, k, a, stride, b.add(panel * apart), tile);
                }
            }
        }
    }
}

/// Words as pairs of bf16.
#[inline(always)]
fn pairs(words: __m512i) -> __m512bh {
    // SAFETY: both are 64 bytes of which every pattern is valid.
    unsafe { std::mem::transmute(words) }
}

#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn strip_times_panels<const ROWS: usize, const PANELS: usize>(
    k: usize,
    a: *const bf16,
    stride: usize,
    b: *const u32,
    apart: usize,
    tile: Tile,
) {
    let mut sums = [[[_mm512_setzero_ps(); 2]; PANELS]; ROWS];
    // SAFETY: all addresses are inside the strip, the panels and the tile, whose sizes the caller vouches for; an odd
    // last k has a zero beside it in both A and B.
    unsafe {
        for i in 0..k.div_ceil(2) {
            let row = b.add(i * PANEL);
            let columns: [[__m512bh; 2]; PANELS] = std::array::from_fn(|panel| {
                let row = row.add(panel * apart);
                [pairs(_mm512_loadu_si512(row.cast())), pairs(_mm512_loadu_si512(row.add(16).cast()))]
            });
            for (r, sums) in sums.iter_mut().enumerate() {
                let words: *const i32 = a.add(r * stride + 2 * i).cast();
                let x = pairs(_mm512_set1_epi32(words.read_unaligned()));
                for (sum, columns) in sums.iter_mut().zip(&columns) {
                    sum[0] = _mm512_dpbf16_ps(sum[0], x, columns[0]);
                    sum[1] = _mm512_dpbf16_ps(sum[1], x, columns[1]);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            let row = tile.c.add(r * tile.stride);
            for (half, &value) in sums.as_flattened().iter().enumerate() {
                let to = row.add(16 * half);
                let value = if tile.add { _mm512_add_ps(_mm512_loadu_ps(to), value) } else { value };
                _mm512_storeu_ps(to, value);
            }
        }
    }
}
