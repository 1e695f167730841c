//! The kernel for AVX2 with FMA: up to 6 rows by 16 columns, twelve accumulators; a strip of twelve and a
//! panel of 32 are two halves each.

use super::kernel::{Panel, Strip, Tile};
use super::{PANEL, STRIP};
use std::arch::x86_64::*;

/// Rows of one call: twelve accumulators, two of B and one of A fill fifteen of sixteen registers.
const ROWS: usize = 6;

/// # Safety
/// As [`super::kernel::multiply`], on a CPU with AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn multiply(rows: usize, k: usize, a: *const f32, strip: Strip, panel: Panel, tile: Tile) {
    let mut first = 0;
    while first < rows {
        let count = ROWS.min(rows - first);
        // SAFETY: rows `first` to `first + count` of the strip and of the tile.
        unsafe {
            let tile = Tile { c: tile.c.add(first * tile.stride), ..tile };
            match strip {
                Strip::Rows(stride) => by_panel::<1>(count, k, a.add(first * stride), stride, panel, tile),
                Strip::Columns => by_panel::<STRIP>(count, k, a.add(first), 1, panel, tile),
            }
        }
        first += count;
    }
}

#[target_feature(enable = "avx2,fma")]
unsafe fn by_panel<const STEP: usize>(
    rows: usize,
    k: usize,
    a: *const f32,
    stride: usize,
    panel: Panel,
    tile: Tile,
) {
    // SAFETY: passed on to the caller; the second half starts 16 columns, or 8 pairs, further.
    unsafe {
        match panel {
            Panel::F32(b) => {
                by_rows::<STEP, false>(rows, k, a, stride, b.cast(), tile);
                let tile = Tile { c: tile.c.add(16), ..tile };
                by_rows::<STEP, false>(rows, k, a, stride, b.add(16).cast(), tile);
            }
            Panel::Bf16(b) => {
                by_rows::<STEP, true>(rows, k, a, stride, b.cast(), tile);
                let tile = Tile { c: tile.c.add(8), ..tile };
                by_rows::<STEP, true>(rows, k, a, stride, b.add(16).cast(), tile);
            }
        }
    }
}

#[target_feature(enable = "avx2,fma")]
unsafe fn by_rows<const STEP: usize, const BF16: bool>(
    rows: usize,
    k: usize,
    a: *const f32,
    stride: usize,
    b: *const u8,
    tile: Tile,
) {
    // SAFETY: passed on to the caller.
    unsafe {
        match rows {
            1 => rows_times_half::<1, STEP, BF16>(k, a, stride, b, tile),
            2 => rows_times_half::<2, STEP, BF16>(k, a, stride, b, tile),
            3 => rows_times_half::<3, STEP, BF16>(k, a, stride, b, tile),
            4 => rows_times_half::<4, STEP, BF16>(k, a, stride, b, tile),
            5 => rows_times_half::<5, STEP, BF16>(k, a, stride, b, tile),
            _ => rows_times_half::<6, STEP, BF16>(k, a, stride, b, tile),
        }
    }
}

/// Sixteen columns: two groups of eight, side by side for f32, sixteen apart for the pairs of bf16.
#[target_feature(enable = "avx2,fma")]
unsafe fn rows_times_half<const ROWS: usize, const STEP: usize, const BF16: bool>(
    k: usize,
    a: *const f32,
    stride: usize,
    b: *const u8,
    tile: Tile,
) {
    let stride = if STEP == 1 { stride } else { 1 };
    let apart = if BF16 { 16 } else { 8 };
    let mut sums = [[_mm256_setzero_ps(); 2]; ROWS];
    // SAFETY: all addresses are inside the strip, the panel and the tile, whose sizes the caller vouches for.
    unsafe {
        for i in 0..k {
            let (left, right) = if BF16 {
                let both = _mm256_loadu_si256(b.add(i * PANEL * 2).cast());
                let low = _mm256_slli_epi32::<16>(both);
                let high = _mm256_and_si256(both, _mm256_set1_epi32(0xffff_0000u32 as i32));
                (_mm256_castsi256_ps(low), _mm256_castsi256_ps(high))
            } else {
                let row: *const f32 = b.cast::<f32>().add(i * PANEL);
                (_mm256_loadu_ps(row), _mm256_loadu_ps(row.add(8)))
            };
            let column = a.add(i * STEP);
            for (r, sum) in sums.iter_mut().enumerate() {
                let x = _mm256_set1_ps(*column.add(r * stride));
                sum[0] = _mm256_fmadd_ps(x, left, sum[0]);
                sum[1] = _mm256_fmadd_ps(x, right, sum[1]);
            }
        }
        for (r, sum) in sums.iter().enumerate() {
            let row = tile.c.add(r * tile.stride);
            for (group, &value) in sum.iter().enumerate() {
                let to = row.add(apart * group);
                let value = if tile.add { _mm256_add_ps(_mm256_loadu_ps(to), value) } else { value };
                _mm256_storeu_ps(to, value);
            }
        }
    }
}
