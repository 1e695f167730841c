//! The small products of attention: f32 to the bit as specified, bf16 to the bit as the large product, at
//! every level.

use super::tests::{assert_bits, numbers, product, specified};
use super::*;
use crate::cpu::convert;
use crate::{Level, Pool};
use half::bf16;

const SIZES: [[usize; 3]; 9] = [
    [1, 1, 1],
    [1, 7, 33],
    [5, 13, 31],
    [12, 37, 96],
    [33, 64, 40],
    [48, 64, 128],
    [24, 513, 40],
    [31, 1030, 67],
    [4, 0, 9],
];

/// A[m k] · B[k n] as a small product of numbers of one type, from B as it lies and from its transpose.
fn small<T: Operand>(
    level: Level,
    [m, k, n]: [usize; 3],
    a: &[f32],
    b: &[f32],
    before: &[f32],
) -> [Vec<f32>; 2] {
    let turned: Vec<f32> = (0..n * k).map(|i| b[i % k * n + i / k]).collect();
    [Matrix::rows(b, n), Matrix::transposed(&turned[..], k)].map(|source| {
        let stride = T::stride(k);
        let mut block = crate::Buffer::zeroed((m * stride + T::panel_numbers(k, n) + 2) * 4).unwrap();
        let (rows, panels) = block.as_mut_slice::<T>().split_at_mut((m * stride).next_multiple_of(2));
        T::rows(level, Matrix::rows(a, k), m, k, rows);
        T::panels(level, source, k, n, panels);
        let mut out = before.to_vec();
        T::block(level, m, n, k, rows, stride, panels, &mut out, n + 3, false);
        out
    })
}

#[test]
fn blocks_for_attention_give_the_bits_of_the_large_product() {
    let pool = Pool::new(1).unwrap();
    for size @ [m, k, n] in SIZES {
        let (a, b, before) = (numbers(m * k, 18), numbers(k * n, 19), numbers(m * (n + 3), 20));
        for &level in Level::available() {
            let wide = small::<f32>(level, size, &a, &b, &before);
            let narrow = small::<bf16>(level, size, &a, &b, &before);
            let expected_narrow = product(&pool, level, size, &a, &b, Storage::Bf16);
            let expected = [specified(size, &a, &b), expected_narrow];
            for (got, expected) in [wide, narrow].iter().zip(&expected) {
                for out in got {
                    for (i, row) in out.chunks(n + 3).enumerate() {
                        assert_bits(&row[..n], &expected[i * n..(i + 1) * n], &format!("{level} {size:?}"));
                        assert_bits(&row[n..], &before[i * (n + 3) + n..(i + 1) * (n + 3)], "gap");
                    }
                }
            }
        }
    }
}

#[test]
fn rows_of_f32_are_copied_or_turned() {
    for (m, k) in [(1, 5), (16, 64), (17, 70), (40, 33), (3, 130)] {
        let a = numbers(m * k, 21);
        let turned: Vec<f32> = (0..m * k).map(|i| a[i % m * k + i / m]).collect();
        for &level in Level::available() {
            for source in [Matrix::rows(&a[..], k), Matrix::transposed(&turned[..], m)] {
                let mut rows = vec![f32::NAN; m * k];
                f32::rows(level, source, m, k, &mut rows);
                assert_bits(&rows, &a, &format!("{level} {m} {k}"));
            }
        }
    }
}

#[test]
fn numbers_for_a_product_are_rounded_alike_at_every_level() {
    let mut a = numbers(96 * 70, 22);
    (a[3], a[40], a[70]) = (f32::INFINITY, -3.4e38, -0.0);
    for &level in Level::available() {
        for length in [1, 31, 32, 64, 77] {
            let mut room = vec![bf16::ZERO; length];
            let rounded = bf16::rounded(level, &a[..length], &mut room);
            assert!(rounded.iter().zip(&a).all(|(x, y)| x.to_bits() == convert::narrow(*y).to_bits()));
        }
        let mut not_a_number = [bf16::ZERO; 40];
        assert!(bf16::rounded(level, &[f32::NAN; 40], &mut not_a_number).iter().all(|x| x.is_nan()));
        for (k, n) in [(2, 32), (64, 64), (70, 96)] {
            let mut block = crate::Buffer::zeroed(k * n * 2).unwrap();
            let panels = block.as_mut_slice::<bf16>();
            bf16::panels(level, Matrix::rows(&a[..k * n], n), k, n, panels);
            for (i, x) in panels.iter().enumerate() {
                let (panel, within) = (i / (k * PANEL), i % (k * PANEL));
                let (row, column) = (within / (2 * PANEL) * 2 + within % 2, within % (2 * PANEL) / 2);
                let expected = convert::narrow(a[row * n + panel * PANEL + column]);
                assert_eq!(x.to_bits(), expected.to_bits(), "{level} {k} {n} at {i}");
            }
        }
    }
}

#[test]
fn scratch_holds_twice_as_many_bf16() {
    let mut scratch = [1.0f32, -2.0, 0.5];
    assert_eq!((<bf16 as Operand>::floats(5), <f32 as Operand>::floats(5)), (3, 5));
    assert_eq!(f32::view(&scratch), [1.0, -2.0, 0.5]);
    assert_eq!(bf16::view(&scratch).len(), 6);
    bf16::view_mut(&mut scratch)[5] = bf16::ONE;
    assert_eq!(scratch[2], 1.0);
}

#[test]
fn rows_of_bf16_are_rounded_turned_and_filled_up() {
    for (m, k) in [(1, 5), (16, 64), (17, 70), (40, 33), (3, 130)] {
        let a = numbers(m * k, 21);
        let turned: Vec<f32> = (0..m * k).map(|i| a[i % m * k + i / m]).collect();
        for &level in Level::available() {
            for source in [Matrix::rows(&a[..], k), Matrix::transposed(&turned[..], m)] {
                let stride = bf16::stride(k);
                let mut block = crate::Buffer::zeroed(m * stride * 2).unwrap();
                let rows = block.as_mut_slice::<bf16>();
                rows.fill(bf16::NAN);
                bf16::rows(level, source, m, k, rows);
                for (i, row) in rows.chunks(stride).enumerate() {
                    for (j, x) in row.iter().enumerate() {
                        let expected = if j < k { convert::narrow(a[i * k + j]) } else { bf16::ZERO };
                        assert_eq!(x.to_bits(), expected.to_bits(), "{level} {m} {k} at {i} {j}");
                    }
                }
            }
        }
    }
}
