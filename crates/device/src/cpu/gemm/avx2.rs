//! The kernel for AVX2 with FMA: 6 rows by 16 columns, or up to 3 rows by all 32, twelve accumulators either
//! way. A strip of twelve rows is done in parts.

use super::kernel::{BF16, F32, INT8, Panel, Strip, Tile, width};
use super::{PANEL, STRIP};
use std::arch::x86_64::*;

/// Rows of one call by half a panel: twelve accumulators, two of B and one of A fill fifteen of sixteen
/// registers.
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
            match (strip, panel) {
                (Strip::Rows(stride), Panel::F32(b)) => {
                    by_rows::<1, F32>(count, k, a.add(first * stride), stride, b.cast(), tile);
                }
                (Strip::Rows(stride), Panel::Bf16(b)) => {
                    by_rows::<1, BF16>(count, k, a.add(first * stride), stride, b.cast(), tile);
                }
                (Strip::Rows(stride), Panel::Int8(b)) => {
                    by_rows::<1, INT8>(count, k, a.add(first * stride), stride, b.cast(), tile);
                }
                (Strip::Columns, Panel::F32(b)) => {
                    by_rows::<STRIP, F32>(count, k, a.add(first), 1, b.cast(), tile);
                }
                (Strip::Columns, Panel::Bf16(b)) => {
                    by_rows::<STRIP, BF16>(count, k, a.add(first), 1, b.cast(), tile);
                }
                (Strip::Columns, Panel::Int8(b)) => {
                    by_rows::<STRIP, INT8>(count, k, a.add(first), 1, b.cast(), tile);
                }
            }
        }
        first += count;
    }
}

/// Few rows read the panel once, whole; more rows read it in two halves.
#[target_feature(enable = "avx2,fma")]
unsafe fn by_rows<const STEP: usize, const KIND: u8>(
    rows: usize,
    k: usize,
    a: *const f32,
    stride: usize,
    b: *const u8,
    tile: Tile,
) {
    // SAFETY: passed on to the caller; the second half starts 16 columns further.
    unsafe {
        let second = (b.add(16 * width(KIND)), Tile { c: tile.c.add(16), ..tile });
        match rows {
            1 => rows_times_halves::<1, 2, STEP, KIND>(k, a, stride, b, tile),
            2 => rows_times_halves::<2, 2, STEP, KIND>(k, a, stride, b, tile),
            3 => rows_times_halves::<3, 2, STEP, KIND>(k, a, stride, b, tile),
            4 => {
                rows_times_halves::<4, 1, STEP, KIND>(k, a, stride, b, tile);
                rows_times_halves::<4, 1, STEP, KIND>(k, a, stride, second.0, second.1);
            }
            5 => {
                rows_times_halves::<5, 1, STEP, KIND>(k, a, stride, b, tile);
                rows_times_halves::<5, 1, STEP, KIND>(k, a, stride, second.0, second.1);
            }
            _ => {
                rows_times_halves::<6, 1, STEP, KIND>(k, a, stride, b, tile);
                rows_times_halves::<6, 1, STEP, KIND>(k, a, stride, second.0, second.1);
            }
        }
    }
}

/// `HALVES` times sixteen columns, in two groups of eight each.
#[target_feature(enable = "avx2,fma")]
unsafe fn rows_times_halves<const ROWS: usize, const HALVES: usize, const STEP: usize, const KIND: u8>(
    k: usize,
    a: *const f32,
    stride: usize,
    b: *const u8,
    tile: Tile,
) {
    let stride = if STEP == 1 { stride } else { 1 };
    let mut sums = [[[_mm256_setzero_ps(); 2]; HALVES]; ROWS];
    // SAFETY: all addresses are inside the strip, the panel and the tile, whose sizes the caller vouches for.
    unsafe {
        // Element k of each row times the columns of one row of B.
        let mut step = |k: usize, columns: [[__m256; 2]; HALVES]| {
            let column = a.add(k * STEP);
            for (r, sums) in sums.iter_mut().enumerate() {
                let x = _mm256_set1_ps(*column.add(r * stride));
                for (sum, columns) in sums.iter_mut().zip(&columns) {
                    sum[0] = _mm256_fmadd_ps(x, columns[0], sum[0]);
                    sum[1] = _mm256_fmadd_ps(x, columns[1], sum[1]);
                }
            }
        };
        // Sixteen words or numbers of a row of B from column `16 * half` on.
        let row = |i: usize, half: usize| b.add((i * PANEL + half * 16) * width(KIND));
        if KIND == INT8 {
            let load = |numbers: *const u8| {
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(numbers.cast())))
            };
            for i in 0..k {
                step(i, std::array::from_fn(|h| [load(row(i, h)), load(row(i, h).add(8))]));
            }
        } else if KIND == BF16 {
            let mask = _mm256_set1_epi32(0xffff_0000u32 as i32);
            let high = |words: *const u8| {
                _mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256(words.cast()), mask))
            };
            let low = |words: *const u8| {
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_loadu_si256(words.cast())))
            };
            for i in 0..k.div_ceil(2) {
                if 2 * i + 1 < k {
                    step(2 * i + 1, std::array::from_fn(|h| [high(row(i, h)), high(row(i, h).add(32))]));
                }
                step(2 * i, std::array::from_fn(|h| [low(row(i, h)), low(row(i, h).add(32))]));
            }
        } else {
            let load = |numbers: *const u8| _mm256_loadu_ps(numbers.cast());
            for i in 0..k {
                step(i, std::array::from_fn(|h| [load(row(i, h)), load(row(i, h).add(32))]));
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            let row = tile.c.add(r * tile.stride);
            for (half, sum) in sums.iter().enumerate() {
                for (group, &value) in sum.iter().enumerate() {
                    let to = row.add(half * 16 + group * 8);
                    let value = if tile.add { _mm256_add_ps(_mm256_loadu_ps(to), value) } else { value };
                    _mm256_storeu_ps(to, value);
                }
            }
        }
    }
}
