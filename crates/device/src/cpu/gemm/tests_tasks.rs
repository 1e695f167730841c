//! What the cut into tasks must not show in: where sums are added, and how rows are rounded.

use super::tests::{numbers, packed, run};
use super::*;
use crate::{Level, Pool};

/// Threads decide which columns are whole panels of a task, and so whether a kernel adds to the output
/// itself.
#[test]
fn threads_do_not_show_where_sums_are_added() {
    let [m, k, n] = [64, 52, 100];
    let (a, b, before) = (numbers(m * k, 21), numbers(k * n, 22), numbers(m * n, 23));
    for &level in Level::available() {
        for storage in [Storage::F32, Storage::Bf16] {
            let sums = |threads: usize| {
                let pool = Pool::new(threads).unwrap();
                let panels = packed(&pool, level, Matrix::rows(&b[..], n), k, n, storage);
                let mut out = before.clone();
                let b = PackedB::new(panels.as_slice(), k, n, storage);
                let call = Gemm::new(m, Matrix::rows(&a[..], k), b, MatrixMut::rows(&mut out[..], n));
                run(&pool, level, call.with(Epilogue { accumulate: true, ..Epilogue::default() }));
                out.iter().map(|x| x.to_bits()).collect::<Vec<_>>()
            };
            assert_eq!(sums(1), sums(8), "{level} {storage:?}");
        }
    }
}

/// The largest numbers below 2⁻¹²⁶ would round up to it: what a level takes them for must not depend on how
/// many rows a task has.
#[test]
fn the_smallest_numbers_are_the_same_in_any_number_of_rows() {
    let (k, most) = (6, 33);
    let a = vec![f32::from_bits(0x007f_ffff); k * most];
    let b = vec![2f32.powi(100); k * 32];
    let pool = Pool::new(1).unwrap();
    for &level in Level::available() {
        let panels = packed(&pool, level, Matrix::rows(&b[..], 32), k, 32, Storage::Bf16);
        let of_first = |m: usize| {
            let mut out = vec![f32::NAN; m * 32];
            let b = PackedB::new(panels.as_slice(), k, 32, Storage::Bf16);
            let a = Matrix::transposed(&a[..], m);
            run(&pool, level, Gemm::new(m, a, b, MatrixMut::rows(&mut out[..], 32)));
            assert!(out.iter().all(|x| x.to_bits() == out[0].to_bits()), "{level}, {m} rows");
            out[0].to_bits()
        };
        for m in [13, 16, 31, 33] {
            assert_eq!(of_first(m), of_first(32), "{level}, {m} rows");
        }
    }
}
