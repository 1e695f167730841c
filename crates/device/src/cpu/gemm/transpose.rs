//! Sixteen rows, of a panel or of A, from a source whose rows are their columns: the transposing half of
//! packing. Data is only moved, so that the way of moving cannot show in the bits.

use super::PANEL;
use super::matrix::Data;
use crate::cpu::convert::widen;
#[cfg(target_arch = "x86_64")]
use crate::cpu::level::Kind;
use crate::cpu::level::Level;

/// Rows of the panel that are written at a time: a cache line of an f32 source, so that no line is read twice
/// where the stride sends them all to the same set.
pub(super) const TALL: usize = 16;
/// Rows and columns of one transposition in registers.
#[cfg(target_arch = "x86_64")]
const SIDE: usize = 8;

/// Writes `out[r * apart + j] = source[j * stride + r]` for r below 16 and j below `columns`, as f32.
#[inline]
pub(super) fn turn(
    level: Level,
    source: Data<'_>,
    stride: usize,
    columns: usize,
    out: &mut [f32],
    apart: usize,
) {
    assert!((1..=PANEL).contains(&columns) && (columns - 1) * stride + TALL <= source.len());
    assert!(columns <= apart && (TALL - 1) * apart + columns <= out.len());
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if level.kind() >= Kind::Avx2 {
        while done + SIDE <= columns {
            for row in [0, SIDE] {
                // SAFETY: `Level` gives out this kind only where the CPU has AVX2, and columns `done` to
                // `done + 8` of sixteen rows lie inside the source and the output, as checked above.
                unsafe {
                    let (from, to) = (done * stride + row, out.as_mut_ptr().add(row * apart + done));
                    match source {
                        Data::F32(x) => avx2::turn_f32(x.as_ptr().add(from), stride, to, apart),
                        Data::Bf16(x) => avx2::turn_bf16(x.as_ptr().add(from), stride, to, apart),
                    }
                }
            }
            done += SIDE;
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (level, &mut done);
    for j in done..columns {
        let start = j * stride;
        match source {
            Data::F32(x) => (0..TALL).for_each(|r| out[r * apart + j] = x[start + r]),
            Data::Bf16(x) => (0..TALL).for_each(|r| out[r * apart + j] = widen(x[start + r])),
        }
    }
}

/// The same for words of two bf16 each, sixteen to a row of the source.
#[inline]
pub(super) fn turn_words(
    level: Level,
    source: &[u32; TALL * PANEL],
    columns: usize,
    out: &mut [u32],
    apart: usize,
) {
    // SAFETY: u32 and f32 have the same size and alignment, and every bit pattern is valid for both; `turn`
    // only moves them.
    let (source, out) = unsafe { (source.align_to::<f32>().1, out.align_to_mut::<f32>().1) };
    turn(level, Data::F32(source), TALL, columns, out, apart);
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::SIDE;
    use half::bf16;
    use std::arch::x86_64::*;

    /// # Safety
    /// AVX2; eight rows of eight, `stride` apart, can be read, and eight rows of eight, `apart` apart,
    /// written.
    #[target_feature(enable = "avx2")]
    pub unsafe fn turn_f32(from: *const f32, stride: usize, to: *mut f32, apart: usize) {
        // SAFETY: passed on to the caller.
        unsafe {
            let mut rows = [_mm256_setzero_ps(); SIDE];
            for (j, row) in rows.iter_mut().enumerate() {
                *row = _mm256_loadu_ps(from.add(j * stride));
            }
            store_turned(rows, to, apart);
        }
    }

    /// # Safety
    /// As [`turn_f32`].
    #[target_feature(enable = "avx2")]
    pub unsafe fn turn_bf16(from: *const bf16, stride: usize, to: *mut f32, apart: usize) {
        // SAFETY: passed on to the caller.
        unsafe {
            let mut rows = [_mm256_setzero_ps(); SIDE];
            for (j, row) in rows.iter_mut().enumerate() {
                let narrow = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.add(j * stride).cast()));
                *row = _mm256_castsi256_ps(_mm256_slli_epi32::<16>(narrow));
            }
            store_turned(rows, to, apart);
        }
    }

    /// Interleaves pairs, then fours, then halves.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn store_turned([a, b, c, d, e, f, g, h]: [__m256; SIDE], to: *mut f32, apart: usize) {
        let (ab, ab_high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
        let (cd, cd_high) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
        let (ef, ef_high) = (_mm256_unpacklo_ps(e, f), _mm256_unpackhi_ps(e, f));
        let (gh, gh_high) = (_mm256_unpacklo_ps(g, h), _mm256_unpackhi_ps(g, h));
        let left = [
            _mm256_shuffle_ps::<0x44>(ab, cd),
            _mm256_shuffle_ps::<0xee>(ab, cd),
            _mm256_shuffle_ps::<0x44>(ab_high, cd_high),
            _mm256_shuffle_ps::<0xee>(ab_high, cd_high),
        ];
        let right = [
            _mm256_shuffle_ps::<0x44>(ef, gh),
            _mm256_shuffle_ps::<0xee>(ef, gh),
            _mm256_shuffle_ps::<0x44>(ef_high, gh_high),
            _mm256_shuffle_ps::<0xee>(ef_high, gh_high),
        ];
        for r in 0..4 {
            // SAFETY: rows `r` and `r + 4` of the eight that the caller vouches for.
            unsafe {
                let (low, high) = (to.add(r * apart), to.add((r + 4) * apart));
                _mm256_storeu_ps(low, _mm256_permute2f128_ps::<0x20>(left[r], right[r]));
                _mm256_storeu_ps(high, _mm256_permute2f128_ps::<0x31>(left[r], right[r]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;

    #[test]
    fn turns_at_every_level() {
        let stride = 19;
        let x: Vec<f32> = (0..PANEL * stride).map(|i| (i % 251) as f32).collect();
        let x16: Vec<bf16> = x.iter().map(|&x| bf16::from_f32(x)).collect();
        for &level in Level::available() {
            for columns in [1, 7, 8, 9, 24, 31, 32] {
                for data in [Data::F32(&x), Data::Bf16(&x16)] {
                    let apart = PANEL + 3;
                    let mut out = [-1.0; TALL * (PANEL + 3)];
                    turn(level, data, stride, columns, &mut out, apart);
                    for (i, &y) in out.iter().enumerate() {
                        let (r, j) = (i / apart, i % apart);
                        assert_eq!(y, if j < columns { x[j * stride + r] } else { -1.0 }, "{level} {r} {j}");
                    }
                }
            }
        }
    }
}
