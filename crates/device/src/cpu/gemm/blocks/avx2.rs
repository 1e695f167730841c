//! The kernel for AVX2: bytes widen to pairs of sixteen bits, whose products are summed exactly. Up to 3 rows
//! by sixteen columns at a time.

use super::super::PANEL;
use super::super::kernel::Tile;
use super::{BLOCK, Form, HALVES, Rows};
use std::arch::x86_64::*;

/// # Safety
/// As [`super::multiply`], with one panel and at most 3 rows, on a CPU with AVX2 and FMA. (Every CPU with
/// AVX2 has F16C.)
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn multiply(form: Form, rows: usize, a: Rows, b: *const u8, tile: Tile) {
    debug_assert!((1..=3).contains(&rows));
    for half in 0..2 {
        // SAFETY: passed on to the caller.
        unsafe {
            match rows {
                1 => strip_times_half::<1>(form, a, b, half, tile),
                2 => strip_times_half::<2>(form, a, b, half, tile),
                _ => strip_times_half::<3>(form, a, b, half, tile),
            }
        }
    }
}

/// `ROWS` rows by the sixteen columns of one half of the panel.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn strip_times_half<const ROWS: usize>(form: Form, a: Rows, b: *const u8, half: usize, tile: Tile) {
    let mut sums = [[_mm256_setzero_ps(); 2]; ROWS];
    // SAFETY: all addresses are inside the rows, the panel and the tile, whose sizes the caller vouches for.
    unsafe {
        let place = |row: usize, part: usize| tile.c.add(row * tile.stride + half * 16 + part * 8);
        if tile.add {
            for (row, sums) in sums.iter_mut().enumerate() {
                *sums = [_mm256_loadu_ps(place(row, 0)), _mm256_loadu_ps(place(row, 1))];
            }
        }
        for block in 0..a.blocks {
            let cell = b.add(block * form.cell_bytes());
            let products = products::<ROWS>(form, a, block, cell.add(form.head() + half * 64));
            let halves = |at: usize| _mm256_cvtph_ps(_mm_loadu_si128(cell.add(at + half * 32).cast()));
            let scales = [halves(0), halves(16)];
            for (row, sums) in sums.iter_mut().enumerate() {
                let x = _mm256_set1_ps(a.scale(row, block));
                for ((sum, product), scales) in sums.iter_mut().zip(products[row]).zip(scales) {
                    let exact = _mm256_cvtepi32_ps(product);
                    *sum = _mm256_fmadd_ps(exact, _mm256_mul_ps(scales, x), *sum);
                }
            }
            if form == Form::Q4 {
                let least = [halves(HALVES), halves(HALVES + 16)];
                for (row, sums) in sums.iter_mut().enumerate() {
                    let x = _mm256_castsi256_ps(_mm256_set1_epi32(a.sum(row, block)));
                    for (sum, least) in sums.iter_mut().zip(least) {
                        *sum = _mm256_fmadd_ps(least, x, *sum);
                    }
                }
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            _mm256_storeu_ps(place(row, 0), sums[0]);
            _mm256_storeu_ps(place(row, 1), sums[1]);
        }
    }
}

/// The sums of the products of one block: rows by sixteen columns.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn products<const ROWS: usize>(
    form: Form,
    a: Rows,
    block: usize,
    body: *const u8,
) -> [[__m256i; 2]; ROWS] {
    let mut sums = [[_mm256_setzero_si256(); 2]; ROWS];
    let low_bytes = _mm256_set1_epi16(255);
    // SAFETY: the caller vouches for the rows and for the cell.
    unsafe {
        if form == Form::Q8 {
            for (row, sums) in sums.iter_mut().enumerate() {
                *sums = [_mm256_set1_epi32(a.sum(row, block)); 2];
            }
        }
        // Four k of every row times four of the sixteen columns: the even two, then the odd two.
        let mut step = |group: usize, columns: [__m256i; 2]| {
            for (row, sums) in sums.iter_mut().enumerate() {
                let x = a.integers(row, block).add(4 * group).cast::<i32>().read();
                let x = _mm256_set1_epi32(x);
                let even = _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(x));
                let odd = _mm256_srai_epi16::<8>(x);
                for (sum, bytes) in sums.iter_mut().zip(columns) {
                    let products = _mm256_madd_epi16(_mm256_and_si256(bytes, low_bytes), even);
                    *sum = _mm256_add_epi32(*sum, products);
                    let products = _mm256_madd_epi16(_mm256_srli_epi16::<8>(bytes), odd);
                    *sum = _mm256_add_epi32(*sum, products);
                }
            }
        };
        let load =
            |group: usize, part: usize| _mm256_loadu_si256(body.add(group * PANEL * 4 + part * 32).cast());
        match form {
            Form::Q8 => {
                for group in 0..BLOCK / 4 {
                    step(group, [load(group, 0), load(group, 1)]);
                }
            }
            Form::Q4 => {
                let mask = _mm256_set1_epi8(15);
                for group in 0..BLOCK / 8 {
                    let bytes = [load(group, 0), load(group, 1)];
                    step(group, bytes.map(|bytes| _mm256_and_si256(bytes, mask)));
                    let upper = bytes.map(|bytes| _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), mask));
                    step(group + BLOCK / 8, upper);
                }
            }
        }
    }
    sums
}
