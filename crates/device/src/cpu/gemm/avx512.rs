//! The kernel for AVX-512: up to 12 rows by 32 columns, 24 accumulators, two loads of B and twelve broadcasts
//! of A for 24 multiply-adds.

use super::kernel::{Panel, Strip, Tile};
use super::{PANEL, STRIP};
use std::arch::x86_64::*;

/// # Safety
/// As [`super::kernel::multiply`], on a CPU with AVX-512 F.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn multiply(rows: usize, k: usize, a: *const f32, strip: Strip, panel: Panel, tile: Tile) {
    macro_rules! by_rows {
        ($step:expr, $bf16:expr, $stride:expr, $b:expr) => {
            // SAFETY: passed on to the caller.
            unsafe {
                match rows {
                    1 => strip_times_panel::<1, $step, $bf16>(k, a, $stride, $b, tile),
                    2 => strip_times_panel::<2, $step, $bf16>(k, a, $stride, $b, tile),
                    3 => strip_times_panel::<3, $step, $bf16>(k, a, $stride, $b, tile),
                    4 => strip_times_panel::<4, $step, $bf16>(k, a, $stride, $b, tile),
                    5 => strip_times_panel::<5, $step, $bf16>(k, a, $stride, $b, tile),
                    6 => strip_times_panel::<6, $step, $bf16>(k, a, $stride, $b, tile),
                    7 => strip_times_panel::<7, $step, $bf16>(k, a, $stride, $b, tile),
                    8 => strip_times_panel::<8, $step, $bf16>(k, a, $stride, $b, tile),
                    9 => strip_times_panel::<9, $step, $bf16>(k, a, $stride, $b, tile),
                    10 => strip_times_panel::<10, $step, $bf16>(k, a, $stride, $b, tile),
                    11 => strip_times_panel::<11, $step, $bf16>(k, a, $stride, $b, tile),
                    _ => strip_times_panel::<12, $step, $bf16>(k, a, $stride, $b, tile),
                }
            }
        };
    }
    match (strip, panel) {
        (Strip::Rows(stride), Panel::F32(b)) => by_rows!(1, false, stride, b.cast()),
        (Strip::Rows(stride), Panel::Bf16(b)) => by_rows!(1, true, stride, b.cast()),
        (Strip::Columns, Panel::F32(b)) => by_rows!(STRIP, false, 1, b.cast()),
        (Strip::Columns, Panel::Bf16(b)) => by_rows!(STRIP, true, 1, b.cast()),
    }
}

/// `ROWS` rows; from k to k + 1 is `STEP` elements of A; B is f32 or bf16.
#[target_feature(enable = "avx512f")]
unsafe fn strip_times_panel<const ROWS: usize, const STEP: usize, const BF16: bool>(
    k: usize,
    a: *const f32,
    stride: usize,
    b: *const u8,
    tile: Tile,
) {
    let stride = if STEP == 1 { stride } else { 1 };
    let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
    // SAFETY: all addresses are inside the strip, the panel and the tile, whose sizes the caller vouches for.
    unsafe {
        // Element k of each row times two vectors of B.
        let mut step = |k: usize, left: __m512, right: __m512| {
            let column = a.add(k * STEP);
            for (r, sum) in sums.iter_mut().enumerate() {
                let x = _mm512_set1_ps(*column.add(r * stride));
                sum[0] = _mm512_fmadd_ps(x, left, sum[0]);
                sum[1] = _mm512_fmadd_ps(x, right, sum[1]);
            }
        };
        if BF16 {
            let (low, high) = (
                |words: __m512i| _mm512_castsi512_ps(_mm512_slli_epi32::<16>(words)),
                |words: __m512i| {
                    _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(0xffff_0000u32 as i32)))
                },
            );
            for i in 0..k.div_ceil(2) {
                let row: *const u32 = b.cast::<u32>().add(i * PANEL);
                let (left, right) = (_mm512_loadu_si512(row.cast()), _mm512_loadu_si512(row.add(16).cast()));
                if 2 * i + 1 < k {
                    step(2 * i + 1, high(left), high(right));
                }
                step(2 * i, low(left), low(right));
            }
        } else {
            for i in 0..k {
                let row: *const f32 = b.cast::<f32>().add(i * PANEL);
                step(i, _mm512_loadu_ps(row), _mm512_loadu_ps(row.add(16)));
            }
        }
        for (r, sum) in sums.iter().enumerate() {
            let row = tile.c.add(r * tile.stride);
            for (half, &value) in sum.iter().enumerate() {
                let to = row.add(16 * half);
                let value = if tile.add { _mm512_add_ps(_mm512_loadu_ps(to), value) } else { value };
                _mm512_storeu_ps(to, value);
            }
        }
    }
}
