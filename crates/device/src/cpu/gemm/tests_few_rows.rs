//! Few rows give the bits of many, panels side by side or not; panels of integers are what they are specified
//! to be.

use super::tests::{assert_bits, numbers, product, specified};
use super::*;
use crate::{Level, Pool};

#[test]
fn few_rows_give_the_bits_of_many() {
    let pool = Pool::new(3).unwrap();
    // Blocks of k, and panels in groups, half a group and half a panel.
    for [k, n] in [[700, 300], [37, 130], [1, 5], [1100, 64]] {
        let many = few_rows::MOST_ROWS + 5;
        let (a, b) = (numbers(many * k, 31), numbers(k * n, 32));
        for &level in Level::available() {
            for storage in [Storage::F32, Storage::Bf16, Storage::Int8] {
                let all = product(&pool, level, [many, k, n], &a, &b, storage);
                for rows in 1..=few_rows::MOST_ROWS + 1 {
                    let few = product(&pool, level, [rows, k, n], &a[..rows * k], &b, storage);
                    assert_bits(&few, &all[..rows * n], &format!("{level} {storage:?} {rows}x{k}x{n}"));
                }
            }
        }
    }
}

/// The specification of a column: its integers and its scale.
fn quantised(column: impl Iterator<Item = f32> + Clone) -> (Vec<f32>, f32) {
    let scale = column.clone().fold(0.0f32, |most, w| most.max(w.abs())) / 127.0;
    (column.map(|w| if scale == 0.0 { 0.0 } else { (w / scale).round_ties_even() }).collect(), scale)
}

#[test]
fn integers_are_rounded_by_column_and_multiplied_exactly() {
    for [m, k, n] in [[1, 700, 300], [2, 13, 33], [40, 129, 70], [5, 0, 9]] {
        let (a, mut b) = (numbers(m * k, 33), numbers(k * n, 34));
        // A column of zeros, a column with an outlier, a tie.
        for row in b.chunks_exact_mut(n.max(1)) {
            row[1] = 0.0;
        }
        if k > 2 {
            b[2] = 50.0;
            (b[3], b[n + 3], b[2 * n + 3]) = (127.0, 2.5, -3.5);
        }
        let mut integers = vec![0.0; k * n];
        let mut scales = vec![0.0; n];
        for j in 0..n {
            let (column, scale) = quantised((0..k).map(|i| b[i * n + j]));
            column.iter().enumerate().for_each(|(i, q)| integers[i * n + j] = *q);
            scales[j] = scale;
        }
        let mut expected = specified([m, k, n], &a, &integers);
        expected.iter_mut().enumerate().for_each(|(i, sum)| *sum *= scales[i % n]);
        for &level in Level::available() {
            for threads in [1, 3] {
                let pool = Pool::new(threads).unwrap();
                let got = product(&pool, level, [m, k, n], &a, &b, Storage::Int8);
                assert_bits(&got, &expected, &format!("{level} {m}x{k}x{n}"));
            }
        }
    }
}

#[test]
fn integers_come_the_same_from_a_transposed_source() {
    let pool = Pool::new(2).unwrap();
    let (k, n) = (150, 77);
    let b = numbers(k * n, 35);
    let turned: Vec<f32> = (0..n * k).map(|i| b[i % k * n + i / k]).collect();
    for &level in Level::available() {
        let bytes = packed_b_bytes(k, n, Storage::Int8);
        let (mut straight, mut transposed) = (vec![1u8; bytes], vec![2u8; bytes]);
        pack_b(&pool, level, Matrix::rows(&b[..], n), k, n, Storage::Int8, &mut straight);
        pack_b(&pool, level, Matrix::transposed(&turned[..], k), k, n, Storage::Int8, &mut transposed);
        assert!(straight == transposed, "{level}");
    }
}

#[test]
fn a_weight_that_is_no_number_shows() {
    let pool = Pool::new(1).unwrap();
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let (a, mut b) = (numbers(2 * 70, 36), numbers(70 * 40, 37));
        b[3 * 40 + 5] = bad;
        for &level in Level::available() {
            let got = product(&pool, level, [2, 70, 40], &a, &b, Storage::Int8);
            for (i, y) in got.iter().enumerate() {
                assert_eq!(y.is_nan(), i % 40 == 5, "{level}: column {} is {y}", i % 40);
            }
        }
    }
}
