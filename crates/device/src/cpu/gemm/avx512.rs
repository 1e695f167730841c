//! The kernel for AVX-512: up to 12 rows by 32 columns, 24 accumulators, two loads of B and twelve broadcasts
//! of A for 24 multiply-adds; or, where memory is the limit, up to 3 rows by four panels of 32 columns.

use super::kernel::{BF16, F32, INT8, Panel, SIDE_BY_SIDE, Strip, Tile, width};
use super::{PANEL, STRIP};
use std::arch::x86_64::*;

/// # Safety
/// As [`super::kernel::multiply`], on a CPU with AVX-512 F.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn multiply(rows: usize, k: usize, a: *const f32, strip: Strip, panel: Panel, tile: Tile) {
    macro_rules! by_rows {
        ($step:expr, $kind:expr, $stride:expr, $b:expr) => {
            // SAFETY: passed on to the caller.
            unsafe {
                match rows {
                    1 => strip_times_panels::<1, 1, $step, $kind>(k, a, $stride, $b, 0, tile),
                    2 => strip_times_panels::<2, 1, $step, $kind>(k, a, $stride, $b, 0, tile),
                    3 => strip_times_panels::<3, 1, $step, $kind>(k, a, $stride, $b, 0, tile),
                    4 => strip_times_panels::<4, 1, $step, $kind>(k, a, $stride, $b, 0, tile),
                    5 => strip_times_panels::<5, 1, $step, $kind>(k, a, $stride, $b, 0, tile),
                    6 => strip_times_panels::<6, 1, $step, $kind>(k, a, $stride, $b, 0, tile),
                    7 => strip_times_panels::<7, 1, $step, $kind>(k, a, $stride, $b, 0, tile),
                    8 => strip_times_panels::<8, 1, $step, $kind>(k, a, $stride, $b, 0, tile),
                    9 => strip_times_panels::<9, 1, $step, $kind>(k, a, $stride, $b, 0, tile),
                    10 => strip_times_panels::<10, 1, $step, $kind>(k, a, $stride, $b, 0, tile),
                    11 => strip_times_panels::<11, 1, $step, $kind>(k, a, $stride, $b, 0, tile),
                    _ => strip_times_panels::<12, 1, $step, $kind>(k, a, $stride, $b, 0, tile),
                }
            }
        };
    }
    match (strip, panel) {
        (Strip::Rows(stride), Panel::F32(b)) => by_rows!(1, F32, stride, b.cast()),
        (Strip::Rows(stride), Panel::Bf16(b)) => by_rows!(1, BF16, stride, b.cast()),
        (Strip::Rows(stride), Panel::Int8(b)) => by_rows!(1, INT8, stride, b.cast()),
        (Strip::Columns, Panel::F32(b)) => by_rows!(STRIP, F32, 1, b.cast()),
        (Strip::Columns, Panel::Bf16(b)) => by_rows!(STRIP, BF16, 1, b.cast()),
        (Strip::Columns, Panel::Int8(b)) => by_rows!(STRIP, INT8, 1, b.cast()),
    }
}

/// # Safety
/// As [`super::kernel::multiply_panels`], on a CPU with AVX-512 F.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn multiply_panels(
    (rows, panels): (usize, usize),
    k: usize,
    (a, stride): (*const f32, usize),
    panel: Panel,
    apart: usize,
    tile: Tile,
) {
    macro_rules! by_shape {
        ($kind:expr, $b:expr) => {
            // SAFETY: passed on to the caller; panels that are not side by side go one after the other.
            unsafe {
                match (rows, panels) {
                    (1, SIDE_BY_SIDE) => {
                        strip_times_panels::<1, SIDE_BY_SIDE, 1, $kind>(k, a, stride, $b, apart, tile)
                    }
                    (2, SIDE_BY_SIDE) => {
                        strip_times_panels::<2, SIDE_BY_SIDE, 1, $kind>(k, a, stride, $b, apart, tile)
                    }
                    (3, SIDE_BY_SIDE) => {
                        strip_times_panels::<3, SIDE_BY_SIDE, 1, $kind>(k, a, stride, $b, apart, tile)
                    }
                    _ => {
                        for panel in 0..panels {
                            let tile = Tile { c: tile.c.add(panel * PANEL), ..tile };
                            let b: *const u8 = $b;
                            let b = b.add(panel * apart);
                            match rows {
                                1 => strip_times_panels::<1, 1, 1, $kind>(k, a, stride, b, 0, tile),
                                2 => strip_times_panels::<2, 1, 1, $kind>(k, a, stride, b, 0, tile),
                                _ => strip_times_panels::<3, 1, 1, $kind>(k, a, stride, b, 0, tile),
                            }
                        }
                    }
                }
            }
        };
    }
    debug_assert!((1..=3).contains(&rows) && (1..=SIDE_BY_SIDE).contains(&panels));
    match panel {
        Panel::F32(b) => by_shape!(F32, b.cast()),
        Panel::Bf16(b) => by_shape!(BF16, b.cast()),
        Panel::Int8(b) => by_shape!(INT8, b.cast()),
    }
}

/// `ROWS` rows by `PANELS` panels, `apart` bytes from one to the next; from k to k + 1 is `STEP` elements of
/// A.
#[target_feature(enable = "avx512f")]
unsafe fn strip_times_panels<const ROWS: usize, const PANELS: usize, const STEP: usize, const KIND: u8>(
    k: usize,
    a: *const f32,
    stride: usize,
    b: *const u8,
    apart: usize,
    tile: Tile,
) {
    let stride = if STEP == 1 { stride } else { 1 };
    let mut sums = [[[_mm512_setzero_ps(); 2]; PANELS]; ROWS];
    // SAFETY: all addresses are inside the strip, the panels and the tile, whose sizes the caller vouches
    // for.
    unsafe {
        // Element k of each row times two vectors of each panel.
        let mut step = |k: usize, columns: [[__m512; 2]; PANELS]| {
            let column = a.add(k * STEP);
            for (r, sums) in sums.iter_mut().enumerate() {
                let x = _mm512_set1_ps(*column.add(r * stride));
                for (sum, columns) in sums.iter_mut().zip(&columns) {
                    sum[0] = _mm512_fmadd_ps(x, columns[0], sum[0]);
                    sum[1] = _mm512_fmadd_ps(x, columns[1], sum[1]);
                }
            }
        };
        // Sixteen words or numbers of row `i` of a panel, from column `16 * half` on.
        let row = |i: usize, panel: usize, half: usize| {
            b.add(panel * apart + (i * PANEL + half * 16) * width(KIND))
        };
        match KIND {
            BF16 => {
                let mask = _mm512_set1_epi32(0xffff_0000u32 as i32);
                let words = |at: *const u8| _mm512_loadu_si512(at.cast());
                let high = |at| _mm512_castsi512_ps(_mm512_and_si512(words(at), mask));
                let low = |at| _mm512_castsi512_ps(_mm512_slli_epi32::<16>(words(at)));
                for i in 0..k.div_ceil(2) {
                    if 2 * i + 1 < k {
                        step(2 * i + 1, std::array::from_fn(|p| [high(row(i, p, 0)), high(row(i, p, 1))]));
                    }
                    step(2 * i, std::array::from_fn(|p| [low(row(i, p, 0)), low(row(i, p, 1))]));
                }
            }
            INT8 => {
                let load =
                    |at: *const u8| _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(at.cast())));
                for i in 0..k {
                    step(i, std::array::from_fn(|p| [load(row(i, p, 0)), load(row(i, p, 1))]));
                }
            }
            _ => {
                let load = |at: *const u8| _mm512_loadu_ps(at.cast());
                for i in 0..k {
                    step(i, std::array::from_fn(|p| [load(row(i, p, 0)), load(row(i, p, 1))]));
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
