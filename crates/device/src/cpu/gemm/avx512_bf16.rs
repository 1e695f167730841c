//! The kernel for `vdpbf16ps`: up to 12 rows by 32 columns, 24 accumulators, two loads of B and twelve broadcasts of A
//! for 24 products of pairs.

use super::PANEL;
use super::kernel::Tile;
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
            1 => strip_times_panel::<1>(k, a, stride, b, tile),
            2 => strip_times_panel::<2>(k, a, stride, b, tile),
            3 => strip_times_panel::<3>(k, a, stride, b, tile),
            4 => strip_times_panel::<4>(k, a, stride, b, tile),
            5 => strip_times_panel::<5>(k, a, stride, b, tile),
            6 => strip_times_panel::<6>(k, a, stride, b, tile),
            7 => strip_times_panel::<7>(k, a, stride, b, tile),
            8 => strip_times_panel::<8>(k, a, stride, b, tile),
            9 => strip_times_panel::<9>(k, a, stride, b, tile),
            10 => strip_times_panel::<10>(k, a, stride, b, tile),
            11 => strip_times_panel::<11>(k, a, stride, b, tile),
            _ => strip_times_panel::<12>(k, a, stride, b, tile),
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
unsafe fn strip_times_panel<const ROWS: usize>(
    k: usize,
    a: *const bf16,
    stride: usize,
    b: *const u32,
    tile: Tile,
) {
    let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
    // SAFETY: all addresses are inside the strip, the panel and the tile, whose sizes the caller vouches for; an odd
    // last k has a zero beside it in both A and B.
    unsafe {
        for i in 0..k.div_ceil(2) {
            let row = b.add(i * PANEL);
            let left = pairs(_mm512_loadu_si512(row.cast()));
            let right = pairs(_mm512_loadu_si512(row.add(16).cast()));
            for (r, sum) in sums.iter_mut().enumerate() {
                let words: *const i32 = a.add(r * stride + 2 * i).cast();
                let x = pairs(_mm512_set1_epi32(words.read_unaligned()));
                sum[0] = _mm512_dpbf16_ps(sum[0], x, left);
                sum[1] = _mm512_dpbf16_ps(sum[1], x, right);
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
