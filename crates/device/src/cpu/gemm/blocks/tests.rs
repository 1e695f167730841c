//! Products with blocks are what they are specified to be, to the bit, at every level, for few rows and many,
//! and near the product of the numbers that the blocks stand for.

use super::super::tests::{assert_bits, numbers, packed, product, run};
use super::super::*;
use crate::{Level, Pool};
use half::f16;

const STORAGES: [Storage; 2] = [Storage::Q8, Storage::Q4];

/// A block of a row: its integers and its scale.
fn rounded_row(x: &[f32]) -> (Vec<i32>, f32) {
    let largest = x.iter().fold(0.0f32, |most, x| most.max(x.abs()));
    if largest < 2f32.powi(-100) {
        return (vec![0; x.len()], 0.0);
    }
    let factor = 127.0 / largest;
    (x.iter().map(|x| (x * factor).round_ties_even() as i32).collect(), largest / 127.0)
}

/// A block of a column: its integers, its scale, and what is added.
fn rounded_column(storage: Storage, w: &[f32]) -> (Vec<i32>, f32, f32) {
    let half = |x: f32| f16::from_f32(x).to_f32();
    let (least, most) = w.iter().fold((w[0], w[0]), |(low, high), &w| (low.min(w), high.max(w)));
    let (scale, least, range) = match storage {
        Storage::Q8 => (half(least.abs().max(most.abs()) / 127.0), 0.0, -127.0..=127.0),
        _ => (half((most - least) / 15.0), half(least), 0.0..=15.0),
    };
    let factor = if scale > 0.0 { 1.0 / scale } else { 0.0 };
    let integer =
        |&w: &f32| ((w - least) * factor).round_ties_even().clamp(*range.start(), *range.end()) as i32;
    (w.iter().map(integer).collect(), scale, least)
}

/// The specification: the chain of each element, and the product of what the blocks stand for, in f64.
fn specified(storage: Storage, [m, k, n]: [usize; 3], a: &[f32], b: &[f32]) -> (Vec<f32>, Vec<f64>) {
    let (mut chains, mut exact) = (Vec::new(), Vec::new());
    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
        let (mut chain, mut sum) = (0.0f32, 0.0f64);
        for start in (0..k).step_by(32) {
            let ks = start..(start + 32).min(k);
            let (x, scale) = rounded_row(&a[i * k + ks.start..i * k + ks.end]);
            let column: Vec<f32> = ks.map(|l| b[l * n + j]).collect();
            let (w, size, least) = rounded_column(storage, &column);
            let products: i32 = x.iter().zip(&w).map(|(x, w)| x * w).sum();
            chain = (products as f32).mul_add(size * scale, chain);
            if storage == Storage::Q4 {
                chain = least.mul_add(scale * x.iter().sum::<i32>() as f32, chain);
            }
            let stands_for = |(x, w): (&i32, &i32)| {
                f64::from(*x) * f64::from(scale) * (f64::from(*w) * f64::from(size) + f64::from(least))
            };
            sum += x.iter().zip(&w).map(stands_for).sum::<f64>();
        }
        chains.push(chain);
        exact.push(sum);
    }
    (chains, exact)
}

#[test]
fn every_level_and_every_cut_gives_the_specified_bits() {
    // Whole blocks and panels, neither, one number, none; rows for every shape of the kernels.
    let shapes =
        [[1, 64, 32], [2, 70, 33], [5, 1, 1], [8, 200, 130], [13, 31, 70], [40, 129, 300], [3, 0, 9]];
    for (seed, [m, k, n]) in (40..).zip(shapes) {
        let (mut a, mut b) = (numbers(m * k, seed), numbers(k * n, seed + 100));
        // A block of zeros, a tie, an outlier; a column of zeros and one of a single number.
        if k > 64 {
            a[..32].fill(0.0);
            (a[33], a[34]) = (127.0, 2.5);
            b[2] = 50.0;
        }
        if n > 5 {
            b.chunks_exact_mut(n).for_each(|row| (row[1], row[5]) = (0.0, 0.25));
        }
        for storage in STORAGES {
            let (expected, exact) = specified(storage, [m, k, n], &a, &b);
            for &level in Level::available() {
                for threads in [1, 3] {
                    let pool = Pool::new(threads).unwrap();
                    let got = product(&pool, level, [m, k, n], &a, &b, storage);
                    assert_bits(&got, &expected, &format!("{level} {storage:?} {m}x{k}x{n}"));
                }
            }
            let largest = exact.iter().fold(0.0f64, |most, x| most.max(x.abs()));
            for (got, exact) in expected.iter().zip(&exact) {
                assert!((f64::from(*got) - exact).abs() <= 1e-6 * largest, "{storage:?} {got} {exact}");
            }
        }
    }
}

#[test]
fn few_rows_give_the_bits_of_many() {
    let pool = Pool::new(3).unwrap();
    // The second has more k than a task rounds at a time.
    for [many, k, n] in [[20, 130, 600], [200, 2100, 40]] {
        let (a, b) = (numbers(many * k, 51), numbers(k * n, 52));
        for &level in Level::available() {
            for storage in STORAGES {
                let all = product(&pool, level, [many, k, n], &a, &b, storage);
                for rows in (1..=14).filter(|&rows| rows < 3 || k < 1000) {
                    let few = product(&pool, level, [rows, k, n], &a[..rows * k], &b, storage);
                    assert_bits(&few, &all[..rows * n], &format!("{level} {storage:?} {rows}x{k}x{n}"));
                }
            }
        }
    }
}

#[test]
fn blocks_come_the_same_from_every_source_at_every_level() {
    let pool = Pool::new(2).unwrap();
    let (m, k, n) = (3, 150, 77);
    let narrow = |x: Vec<f32>| -> Vec<half::bf16> { x.into_iter().map(half::bf16::from_f32).collect() };
    let (a, b) = (narrow(numbers(m * k, 61)), narrow(numbers(k * n, 62)));
    let wide: Vec<f32> = b.iter().map(|x| x.to_f32()).collect();
    let turned: Vec<half::bf16> = (0..n * k).map(|i| b[i % k * n + i / k]).collect();
    let wide_a: Vec<f32> = a.iter().map(|x| x.to_f32()).collect();
    for storage in STORAGES {
        let first = packed(&pool, Level::PORTABLE, Matrix::rows(&wide[..], n), k, n, storage);
        let mut expected = vec![0.0; m * n];
        let b = PackedB::new(first.as_slice(), k, n, storage);
        let out = MatrixMut::rows(&mut expected[..], n);
        run(&pool, Level::PORTABLE, Gemm::new(m, Matrix::rows(&wide_a[..], k), b, out));
        for &level in Level::available() {
            let again = packed(&pool, level, Matrix::transposed(&turned[..], k), k, n, storage);
            assert!(first.as_slice::<u8>() == again.as_slice::<u8>(), "{level} {storage:?}");
            let mut got = vec![0.0; m * n];
            run(&pool, level, Gemm::new(m, Matrix::rows(&a[..], k), b, MatrixMut::rows(&mut got[..], n)));
            assert_bits(&got, &expected, &format!("{level} {storage:?}"));
        }
    }
}

#[test]
fn what_is_no_number_shows() {
    let pool = Pool::new(1).unwrap();
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for storage in STORAGES {
            let (mut a, mut b) = (numbers(2 * 70, 36), numbers(70 * 40, 37));
            for &level in Level::available() {
                b[3 * 40 + 5] = bad;
                let got = product(&pool, level, [2, 70, 40], &a, &b, storage);
                for (i, y) in got.iter().enumerate() {
                    assert_eq!(y.is_finite(), i % 40 != 5, "{level} {storage:?}: column {} is {y}", i % 40);
                }
                b[3 * 40 + 5] = 0.0;
                a[70 + 40] = bad;
                let got = product(&pool, level, [2, 70, 40], &a, &b, storage);
                for (i, y) in got.iter().enumerate() {
                    assert_eq!(y.is_finite(), i < 40, "{level} {storage:?}: row {} is {y}", i / 40);
                }
                a[70 + 40] = 0.0;
            }
        }
    }
}
