//! The kernel for AVX-512 with integer products (`vpdpbusd`): each multiplies four neighbouring k of sixteen
//! columns by four of a row and adds them up. Up to 6 rows by one panel, or fewer by several side by side.

use super::super::PANEL;
use super::super::kernel::Tile;
use super::{BLOCK, Form, HALVES, Rows};
use std::arch::x86_64::*;

/// [`Form`] as a constant.
const Q8: bool = true;
/// See [`Q8`].
const Q4: bool = false;

/// # Safety
/// As [`super::multiply`], on a CPU with AVX-512 F, BW and VNNI.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) unsafe fn multiply(
    form: Form,
    (rows, panels): (usize, usize),
    a: Rows,
    b: (*const u8, usize),
    tile: Tile,
) {
    macro_rules! by_shape {
        ($form:expr) => {
            // SAFETY: passed on to the caller; panels that are not side by side go one after the other.
            unsafe {
                match (rows, panels) {
                    (1, 4) => strip_times_panels::<1, 4, $form>(a, b, tile),
                    (2, 4) => strip_times_panels::<2, 4, $form>(a, b, tile),
                    (3, 2) => strip_times_panels::<3, 2, $form>(a, b, tile),
                    (4, 2) => strip_times_panels::<4, 2, $form>(a, b, tile),
                    _ => {
                        for panel in 0..panels {
                            let (b, tile) = ((b.0.add(panel * b.1), 0), tile.after(0, panel * PANEL));
                            match rows {
                                1 => strip_times_panels::<1, 1, $form>(a, b, tile),
                                2 => strip_times_panels::<2, 1, $form>(a, b, tile),
                                3 => strip_times_panels::<3, 1, $form>(a, b, tile),
                                4 => strip_times_panels::<4, 1, $form>(a, b, tile),
                                5 => strip_times_panels::<5, 1, $form>(a, b, tile),
                                _ => strip_times_panels::<6, 1, $form>(a, b, tile),
                            }
                        }
                    }
                }
            }
        };
    }
    debug_assert!((1..=6).contains(&rows));
    match form {
        Form::Q8 => by_shape!(Q8),
        Form::Q4 => by_shape!(Q4),
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn strip_times_panels<const ROWS: usize, const PANELS: usize, const FORM: bool>(
    a: Rows,
    (b, apart): (*const u8, usize),
    tile: Tile,
) {
    let form = if FORM == Q8 { Form::Q8 } else { Form::Q4 };
    let mut sums = [[[_mm512_setzero_ps(); 2]; PANELS]; ROWS];
    // SAFETY: all addresses are inside the rows, the panels and the tile, whose sizes the caller vouches for.
    unsafe {
        let place =
            |row: usize, panel: usize, half: usize| tile.c.add(row * tile.stride + panel * PANEL + half * 16);
        if tile.add {
            for (row, sums) in sums.iter_mut().enumerate() {
                for (panel, sums) in sums.iter_mut().enumerate() {
                    *sums = [_mm512_loadu_ps(place(row, panel, 0)), _mm512_loadu_ps(place(row, panel, 1))];
                }
            }
        }
        for block in 0..a.blocks {
            for panel in 0..PANELS {
                let cell = b.add(panel * apart + block * form.cell_bytes());
                let products = products::<ROWS, FORM>(a, block, cell.add(form.head()));
                let halves = |at: usize| _mm512_cvtph_ps(_mm256_loadu_si256(cell.add(at).cast()));
                let scales = [halves(0), halves(32)];
                for (row, sums) in sums.iter_mut().enumerate() {
                    let x = _mm512_set1_ps(a.scale(row, block));
                    for ((sum, product), scales) in sums[panel].iter_mut().zip(products[row]).zip(scales) {
                        let exact = _mm512_cvtepi32_ps(product);
                        *sum = _mm512_fmadd_ps(exact, _mm512_mul_ps(scales, x), *sum);
                    }
                }
                if FORM == Q4 {
                    let least = [halves(HALVES), halves(HALVES + 32)];
                    for (row, sums) in sums.iter_mut().enumerate() {
                        let x = _mm512_castsi512_ps(_mm512_set1_epi32(a.sum(row, block)));
                        for (sum, least) in sums[panel].iter_mut().zip(least) {
                            *sum = _mm512_fmadd_ps(least, x, *sum);
                        }
                    }
                }
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            for (panel, sums) in sums.iter().enumerate() {
                for (half, &sum) in sums.iter().enumerate() {
                    _mm512_storeu_ps(place(row, panel, half), sum);
                }
            }
        }
    }
}

/// The sums of the products of one block: rows by 32 columns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn products<const ROWS: usize, const FORM: bool>(
    a: Rows,
    block: usize,
    body: *const u8,
) -> [[__m512i; 2]; ROWS] {
    let mut sums = [[_mm512_setzero_si512(); 2]; ROWS];
    // SAFETY: the caller vouches for the rows and for the cell.
    unsafe {
        if FORM == Q8 {
            for (row, sums) in sums.iter_mut().enumerate() {
                *sums = [_mm512_set1_epi32(a.sum(row, block)); 2];
            }
        }
        // Four k of every row times four of the 32 columns.
        let mut step = |group: usize, columns: [__m512i; 2]| {
            for (row, sums) in sums.iter_mut().enumerate() {
                let x = a.integers(row, block).add(4 * group).cast::<i32>().read();
                let x = _mm512_set1_epi32(x);
                sums[0] = _mm512_dpbusd_epi32(sums[0], columns[0], x);
                sums[1] = _mm512_dpbusd_epi32(sums[1], columns[1], x);
            }
        };
        let load =
            |group: usize, half: usize| _mm512_loadu_si512(body.add(group * PANEL * 4 + half * 64).cast());
        if FORM == Q8 {
            for group in 0..BLOCK / 4 {
                step(group, [load(group, 0), load(group, 1)]);
            }
        } else {
            let mask = _mm512_set1_epi8(15);
            for group in 0..BLOCK / 8 {
                let bytes = [load(group, 0), load(group, 1)];
                step(group, bytes.map(|bytes| _mm512_and_si512(bytes, mask)));
                step(
                    group + BLOCK / 8,
                    bytes.map(|bytes| _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), mask)),
                );
            }
        }
    }
    sums
}
