//! The kernel for `vdpbf16ps`: up to 12 rows by 32 columns, 24 accumulators, two loads of B and twelve
//! broadcasts of A for 24 products of pairs; or, where memory is the limit, up to 3 rows by four panels. And
//! the rounding of f32 on its way into such a product, by instructions which take numbers below 2⁻¹²⁶ for 0,
//! as the product does.

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
/// As [`super::kernel::Bf16Kernel::multiply`] with up to 3 rows and four panels, `apart` words from one to
/// the next, on a CPU with AVX-512 F and BF16.
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
    // SAFETY: all addresses are inside the strip, the panels and the tile, whose sizes the caller vouches
    // for; an odd last k has a zero beside it in both A and B.
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

/// Rounds numbers to bf16.
///
/// # Safety
/// A CPU with AVX-512 F, BW and BF16; as many numbers as there is room for.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn round(numbers: &[f32], out: &mut [bf16]) {
    debug_assert_eq!(numbers.len(), out.len());
    let (whole, rest) = numbers.as_chunks::<32>();
    for (from, to) in whole.iter().zip(out.as_chunks_mut::<32>().0) {
        // SAFETY: thirty-two numbers each.
        unsafe {
            let (low, high) = (_mm512_loadu_ps(from.as_ptr()), _mm512_loadu_ps(from.as_ptr().add(16)));
            let rounded = words(_mm512_cvtne2ps_pbh(high, low));
            _mm512_storeu_si512(to.as_mut_ptr().cast(), rounded);
        }
    }
    let (mut from, mut to) = ([0.0; 32], [bf16::ZERO; 32]);
    if !rest.is_empty() {
        from[..rest.len()].copy_from_slice(rest);
        // SAFETY: as this function; one whole chunk.
        unsafe { round(&from, &mut to) };
        out[whole.len() * 32..].copy_from_slice(&to[..rest.len()]);
    }
}

/// Panels of pairs from rows of f32 that are `stride` apart; k is even and n whole panels.
///
/// # Safety
/// A CPU with AVX-512 F, BW and BF16; `k` rows of `n` numbers, and as many words of panels as they make.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn panels(rows: &[f32], stride: usize, k: usize, n: usize, out: &mut [u32]) {
    debug_assert!((k - 1) * stride + n <= rows.len() && k * n / 2 <= out.len());
    // SAFETY: all addresses are inside the rows and the panels, whose sizes the caller vouches for.
    unsafe {
        for column in (0..n).step_by(16) {
            let (panel, within) = (column / PANEL, column % PANEL);
            let to = out.as_mut_ptr().add(panel * k / 2 * PANEL + within);
            for i in 0..k / 2 {
                let from = rows.as_ptr().add(2 * i * stride + column);
                _mm512_storeu_si512(to.add(i * PANEL).cast(), side_by_side(from, from.add(stride)));
            }
        }
    }
}

/// Sixteen pairs of each two rows of f32, `stride` apart; k is even.
///
/// # Safety
/// A CPU with AVX-512 F, BW and BF16; `k` rows of 16 numbers, and as many words as they make.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn pairs_of_rows(rows: &[f32], stride: usize, k: usize, out: &mut [u32]) {
    debug_assert!((k - 1) * stride + 16 <= rows.len() && k / 2 * 16 <= out.len());
    for i in 0..k / 2 {
        // SAFETY: inside the rows and the words, whose sizes the caller vouches for.
        unsafe {
            let from = rows.as_ptr().add(2 * i * stride);
            _mm512_storeu_si512(out.as_mut_ptr().add(16 * i).cast(), side_by_side(from, from.add(stride)));
        }
    }
}

/// Sixteen numbers each, rounded, an even and an odd one in every word.
///
/// # Safety
/// A CPU with AVX-512 F, BW and BF16, and sixteen numbers at both places.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn side_by_side(even: *const f32, odd: *const f32) -> __m512i {
    /// Where the halves of each word come from: sixteen even numbers, then sixteen odd ones.
    const PLACES: [u16; 32] = {
        let mut places = [0; 32];
        let mut i = 0;
        while i < 32 {
            places[i] = i as u16 / 2 + i as u16 % 2 * 16;
            i += 1;
        }
        places
    };
    // SAFETY: passed on to the caller.
    unsafe {
        let apart = words(_mm512_cvtne2ps_pbh(_mm512_loadu_ps(odd), _mm512_loadu_ps(even)));
        _mm512_permutexvar_epi16(_mm512_loadu_si512(PLACES.as_ptr().cast()), apart)
    }
}

/// Pairs of bf16 as words.
#[inline(always)]
fn words(pairs: __m512bh) -> __m512i {
    // SAFETY: both are 64 bytes of which every pattern is valid.
    unsafe { std::mem::transmute(pairs) }
}
