//! Products against the exact answer in f64, and bit by bit against their own specification: one chain of
//! `mul_add` per element and block, at every level, with any number of threads, for one row or all of them.

use super::*;
use crate::cpu::convert::{self, narrow, widen};
use crate::{Buffer, Level, Pool, Scratch};
use half::bf16;

const SIZES: [[usize; 3]; 16] = [
    [1, 1, 1],
    [1, 7, 33],
    [2, 64, 32],
    [3, 1, 5],
    [5, 13, 31],
    [7, 100, 64],
    [12, 37, 96],
    [13, 511, 17],
    [24, 513, 40],
    [97, 19, 101],
    [31, 1030, 67],
    [110, 48, 290],
    [25, 512, 33],
    [14, 1024, 70],
    [1, 1537, 130],
    [4, 0, 9],
];

pub(super) fn numbers(len: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(747_796_405).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

fn to_bf16(x: &[f32]) -> Vec<bf16> {
    x.iter().map(|&x| narrow(x)).collect()
}

pub(super) fn packed(
    pool: &Pool,
    level: Level,
    source: Matrix<'_>,
    k: usize,
    n: usize,
    storage: Storage,
) -> Buffer {
    let mut buffer = Buffer::zeroed(packed_b_bytes(k, n, storage)).unwrap();
    pack_b(pool, level, source, k, n, storage, buffer.as_mut_slice());
    buffer
}

pub(super) fn run(pool: &Pool, level: Level, call: Gemm<'_>) {
    let mut block = Buffer::zeroed(Scratch::bytes(Gemm::thread_scratch_bytes(), pool.threads())).unwrap();
    gemm(pool, level, call, &mut Scratch::new(block.as_mut_slice(), pool.threads()));
}

/// A[M K] · B[K N] for row-major f32, B stored as `storage`, by the machine at hand.
pub(super) fn product(
    pool: &Pool,
    level: Level,
    [m, k, n]: [usize; 3],
    a: &[f32],
    b: &[f32],
    storage: Storage,
) -> Vec<f32> {
    let panels = packed(pool, level, Matrix::rows(b, n), k, n, storage);
    let mut out = vec![f32::NAN; m * n];
    let b = PackedB::new(panels.as_slice(), k, n, storage);
    run(pool, level, Gemm::new(m, Matrix::rows(a, k), b, MatrixMut::rows(&mut out[..], n)));
    out
}

/// The specification: chains from zero inside blocks of k, blocks added in order.
pub(super) fn specified([m, k, n]: [usize; 3], a: &[f32], b: &[f32]) -> Vec<f32> {
    specified_as(Storage::F32, [m, k, n], a, b)
}

/// The same for either storage; in bf16 the odd element of each pair of k comes first.
fn specified_as(storage: Storage, [m, k, n]: [usize; 3], a: &[f32], b: &[f32]) -> Vec<f32> {
    let mut out = vec![0.0; m * n];
    let order = |start: usize, size: usize| {
        let place = move |l: usize| match storage {
            Storage::Bf16 if (l ^ 1) < size => l ^ 1,
            _ => l,
        };
        (0..size).map(move |l| start + place(l))
    };
    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
        let block = |(start, size): (usize, usize)| {
            order(start, size).fold(0.0f32, |sum, l| a[i * k + l].mul_add(b[l * n + j], sum))
        };
        out[i * n + j] = k_blocks(k, storage).map(block).reduce(|sum, block| sum + block).unwrap();
    }
    out
}

/// Bits, or, where tiles of AMX sum in an order of their own, k roundings of what is summed.
fn assert_product(
    level: Level,
    storage: Storage,
    size: [usize; 3],
    got: &[f32],
    expected: &[f32],
    what: &str,
) {
    if level.same_bits(Level::PORTABLE, storage == Storage::Bf16) {
        return assert_bits(got, expected, what);
    }
    // Numbers are between −1 and 1.
    let bound = size[1] as f32 * 2f32.powi(-24) * size[1] as f32;
    assert!(
        got.len() == expected.len() && got.iter().zip(expected).all(|(x, y)| (x - y).abs() <= bound),
        "{what}"
    );
}

pub(super) fn assert_bits(got: &[f32], expected: &[f32], what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (i, (x, y)) in got.iter().zip(expected).enumerate() {
        assert_eq!(x.to_bits(), y.to_bits(), "{what}: element {i}: {x:e}, expected {y:e}");
    }
}

#[test]
fn blocks_cover_k_and_depend_on_it_alone() {
    for k in (0..3000).chain([100_000]) {
        for (storage, most) in [(Storage::F32, BLOCK), (Storage::Bf16, BLOCK_BF16)] {
            let mut next = 0;
            for (start, size) in k_blocks(k, storage) {
                assert_eq!(start, next);
                assert!(size <= most && (size > 0 || k == 0));
                assert!(storage == Storage::F32 || start.is_multiple_of(TILE_K));
                next += size;
            }
            assert_eq!(next, k);
        }
    }
}

#[test]
fn is_near_the_exact_product() {
    let pool = Pool::new(2).unwrap();
    for size @ [m, k, n] in SIZES {
        let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
        for storage in [Storage::F32, Storage::Bf16] {
            let got = product(&pool, Level::best(), size, &a, &b, storage);
            let value = |x: f32| if storage == Storage::Bf16 { convert::round(x) } else { x } as f64;
            for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let terms = (0..k).map(|l| value(a[i * k + l]) * value(b[l * n + j]));
                let (exact, size) = terms.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()));
                // k roundings, each of at most half an ulp of what was summed so far.
                let bound = k as f64 * 2f64.powi(-24) * size;
                let error = (got[i * n + j] as f64 - exact).abs();
                assert!(error <= bound, "{m} {k} {n} at {i} {j}: {error:e} over {bound:e}");
            }
        }
    }
}

#[test]
fn every_level_and_thread_count_gives_the_specified_bits() {
    for threads in 1..=4 {
        let pool = Pool::new(threads).unwrap();
        for size @ [m, k, n] in SIZES {
            let (a, b) = (numbers(m * k, 3), numbers(k * n, 4));
            let expected = specified(size, &a, &b);
            let [a16, b16] = [&a, &b].map(|x| x.iter().map(|&x| convert::round(x)).collect::<Vec<_>>());
            let expected_bf16 = specified_as(Storage::Bf16, size, &a16, &b16);
            for &level in Level::available() {
                let what = format!("{m}x{k}x{n} {level} {threads}");
                assert_bits(&product(&pool, level, size, &a, &b, Storage::F32), &expected, &what);
                let got = product(&pool, level, size, &a, &b, Storage::Bf16);
                assert_product(level, Storage::Bf16, size, &got, &expected_bf16, &what);
            }
        }
    }
}

fn storages_and_levels() -> impl Iterator<Item = (Storage, Level)> {
    let levels = Level::available().iter();
    levels.flat_map(|&level| [(Storage::F32, level), (Storage::Bf16, level)])
}

#[test]
fn one_row_gives_the_bits_of_all_rows() {
    let pool = Pool::new(2).unwrap();
    for size @ [m, k, n] in [[40, 700, 77], [130, 64, 300]] {
        let (a, b) = (numbers(m * k, 5), numbers(k * n, 6));
        for (storage, level) in storages_and_levels() {
            let all = product(&pool, level, size, &a, &b, storage);
            for i in 0..m {
                let one = product(&pool, level, [1, k, n], &a[i * k..(i + 1) * k], &b, storage);
                assert_bits(&one, &all[i * n..(i + 1) * n], &format!("row {i}"));
            }
        }
    }
}

#[test]
fn layouts_and_types_of_the_operands_do_not_matter() {
    let pool = Pool::new(2).unwrap();
    for size @ [m, k, n] in [[29, 530, 45], [12, 9, 64], [1, 40, 70], [100, 3, 2]] {
        // Values that bf16 holds, so that all types hold the same numbers.
        let [a, b] = [numbers(m * k, 7), numbers(k * n, 8)].map(|mut x| {
            x.iter_mut().for_each(|x| *x = convert::round(*x));
            x
        });
        let expected = [Storage::F32, Storage::Bf16].map(|storage| specified_as(storage, size, &a, &b));
        // Transposed copies, and copies with every second element a NaN that must not be read.
        let turn = |x: &[f32], rows: usize, columns: usize| -> Vec<f32> {
            (0..rows * columns).map(|i| x[i % rows * columns + i / rows]).collect()
        };
        let spread = |x: &[f32]| -> Vec<f32> { x.iter().flat_map(|&x| [x, f32::NAN]).collect() };
        let (a_turned, b_turned) = (turn(&a, m, k), turn(&b, k, n));
        let (a_spread, b_spread) = (spread(&a), spread(&b));
        let (a16, b16, a16_turned, b16_turned) =
            (to_bf16(&a), to_bf16(&b), to_bf16(&a_turned), to_bf16(&b_turned));
        let sources_a = [
            Matrix::rows(&a[..], k),
            Matrix::transposed(&a_turned[..], m),
            Matrix::rows(&a16[..], k),
            Matrix::transposed(&a16_turned[..], m),
            Matrix { data: Data::F32(&a_spread), row_stride: 2 * k, column_stride: 2 },
        ];
        let sources_b = [
            Matrix::rows(&b[..], n),
            Matrix::transposed(&b_turned[..], k),
            Matrix::rows(&b16[..], n),
            Matrix::transposed(&b16_turned[..], k),
            Matrix { data: Data::F32(&b_spread), row_stride: 2 * n, column_stride: 2 },
        ];
        for &level in Level::available() {
            for (i, source_b) in sources_b.into_iter().enumerate() {
                for storage in [Storage::F32, Storage::Bf16] {
                    let panels = packed(&pool, level, source_b, k, n, storage);
                    let b = PackedB::new(panels.as_slice(), k, n, storage);
                    for (j, source_a) in sources_a.into_iter().enumerate() {
                        let mut out = vec![f32::NAN; m * n];
                        let to = MatrixMut::rows(&mut out[..], n);
                        run(&pool, level, Gemm::new(m, source_a, b, to));
                        let (what, expected) =
                            (format!("{level} A {j} B {i} {storage:?}"), &expected[storage as usize]);
                        assert_product(level, storage, size, &out, expected, &what);
                    }
                }
            }
        }
    }
}

#[test]
fn epilogues_do_what_they_say() {
    let pool = Pool::new(3).unwrap();
    for size @ [m, k, n] in [[26, 50, 75], [1, 600, 40], [100, 8, 257]] {
        let (a, b, bias) = (numbers(m * k, 9), numbers(k * n, 10), numbers(n, 11));
        let (residual, before) = (numbers(m * n, 12), numbers(m * n, 13));
        let residual16 = to_bf16(&residual);
        let plain = product(&pool, Level::PORTABLE, size, &a, &b, Storage::F32);
        let panels = packed(&pool, Level::best(), Matrix::rows(&b[..], n), k, n, Storage::F32);
        let activations =
            [Pointwise::None, Pointwise::Relu, Pointwise::Gelu, Pointwise::GeluTanh, Pointwise::Silu];
        // Every combination of: activation, bias, scale, residual (none, f32, bf16), accumulate.
        for index in 0..5 * 2 * 2 * 3 * 2 {
            let (activation, with_bias) = (activations[index % 5], index / 5 % 2 == 1);
            let scale = if index / 10 % 2 == 1 { 0.37f32 } else { 1.0 };
            let (residual_kind, accumulate) = (index / 20 % 3, index / 60 == 1);
            let value = |i: usize| {
                let mut v = plain[i] * scale;
                if with_bias {
                    v += bias[i % n];
                }
                let mut y = activation.apply(v);
                match residual_kind {
                    1 => y += residual[i],
                    2 => y += widen(residual16[i]),
                    _ => (),
                }
                (v, if accumulate { before[i] + y } else { y })
            };
            let expected: Vec<(f32, f32)> = (0..m * n).map(value).collect();
            let expected_pre: Vec<f32> = expected.iter().map(|x| x.0).collect();
            let expected: Vec<f32> = expected.iter().map(|x| x.1).collect();
            for &level in Level::available() {
                let what = format!("{level} {activation:?} {with_bias} {scale} {residual_kind} {accumulate}");
                let (mut out, mut pre) = (before.clone(), vec![0.0; m * n]);
                let (mut out16, mut pre16) = (vec![bf16::NAN; m * n], vec![bf16::NAN; m * n]);
                let epilogue = |pre| Epilogue {
                    scale,
                    bias: with_bias.then_some(&bias[..]),
                    pre: Some(pre),
                    activation,
                    derivative: None,
                    residual: match residual_kind {
                        1 => Some(Matrix::rows(&residual[..], n)),
                        2 => Some(Matrix::rows(&residual16[..], n)),
                        _ => None,
                    },
                    accumulate,
                    statistics: None,
                };
                let b = PackedB::new(panels.as_slice(), k, n, Storage::F32);
                let a = Matrix::rows(&a[..], k);
                let to = MatrixMut::rows(&mut out[..], n);
                let wide = epilogue(MatrixMut::rows(&mut pre[..], n));
                run(&pool, level, Gemm::new(m, a, b, to).with(wide));
                if !accumulate {
                    let narrow = epilogue(MatrixMut::rows(&mut pre16[..], n));
                    let to = MatrixMut::rows(&mut out16[..], n);
                    run(&pool, level, Gemm::new(m, a, b, to).with(narrow));
                }
                assert_bits(&out, &expected, &what);
                assert_bits(&pre, &expected_pre, &what);
                if !accumulate {
                    assert_eq!(out16, to_bf16(&expected), "{what}");
                    assert_eq!(pre16, to_bf16(&expected_pre), "{what}");
                }
            }
        }
    }
}

/// The derivatives of the activations in f64, from their formulas. Beside erf, which has none: its series.
fn derivative(activation: Pointwise, z: f64) -> f64 {
    let sigmoid = |z: f64| 1.0 / (1.0 + (-z).exp());
    match activation {
        Pointwise::None => 1.0,
        Pointwise::Relu => f64::from(u8::from(z > 0.0)),
        Pointwise::Gelu => {
            // Phi(z) = 1/2 + phi(z) (z + z^3/3 + z^5/15 + ...)
            let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
            let (mut term, mut sum) = (z, z);
            for odd in (3..200).step_by(2) {
                term *= z * z / f64::from(odd);
                sum += term;
            }
            0.5 + density * sum + z * density
        }
        Pointwise::GeluTanh => {
            let root = (2.0 / std::f64::consts::PI).sqrt();
            let t = (root * (z + 0.044715 * z.powi(3))).tanh();
            0.5 * (1.0 + t) + 0.5 * z * (1.0 - t * t) * root * (1.0 + 3.0 * 0.044715 * z * z)
        }
        Pointwise::Silu => sigmoid(z) * (1.0 + z * (1.0 - sigmoid(z))),
    }
}

#[test]
fn a_product_is_multiplied_by_a_derivative() {
    let activations =
        [Pointwise::None, Pointwise::Relu, Pointwise::Gelu, Pointwise::GeluTanh, Pointwise::Silu];
    let pools = [Pool::new(1).unwrap(), Pool::new(3).unwrap()];
    // One row, few, and many; half a panel at the end.
    for size @ [m, k, n] in [[1, 60, 40], [5, 17, 75], [100, 8, 257]] {
        let (a, b) = (numbers(m * k, 18), numbers(k * n, 19));
        let z: Vec<f32> = numbers(m * n, 20).iter().map(|z| 4.0 * z).collect();
        let z16 = to_bf16(&z);
        let rounded: Vec<f32> = z16.iter().map(|&z| widen(z)).collect();
        for &level in Level::available() {
            for storage in [Storage::F32, Storage::Bf16] {
                let plain = product(&pools[0], level, size, &a, &b, storage);
                let panels = packed(&pools[0], level, Matrix::rows(&b[..], n), k, n, storage);
                let b = PackedB::new(panels.as_slice(), k, n, storage);
                for (activation, pool) in activations.iter().flat_map(|&a| pools.iter().map(move |p| (a, p)))
                {
                    for (at, values) in [(Matrix::rows(&z[..], n), &z), (Matrix::rows(&z16[..], n), &rounded)]
                    {
                        let what = format!("{level} {storage:?} {m}x{k}x{n} {activation:?}");
                        let expected: Vec<f32> =
                            plain.iter().zip(values).map(|(x, z)| x * activation.derivative(*z)).collect();
                        for ((got, x), z) in expected.iter().zip(&plain).zip(values) {
                            let exact = f64::from(*x) * derivative(activation, f64::from(*z));
                            let error = (f64::from(*got) - exact).abs();
                            assert!(error <= 1e-6 * f64::from(x.abs()), "{what}: {got} at {z}, {exact}");
                        }
                        let (mut out, mut out16) = (vec![f32::NAN; m * n], vec![bf16::NAN; m * n]);
                        for to in [MatrixMut::rows(&mut out[..], n), MatrixMut::rows(&mut out16[..], n)] {
                            let epilogue =
                                Epilogue { derivative: Some((activation, at)), ..Epilogue::default() };
                            let call = Gemm::new(m, Matrix::rows(&a[..], k), b, to).with(epilogue);
                            run(pool, level, call);
                        }
                        assert_bits(&out, &expected, &what);
                        assert_eq!(out16, to_bf16(&expected), "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn row_sums_come_beside_the_product_of_a_transposed_matrix() {
    for (storage, level) in storages_and_levels() {
        for [m, k, n] in [[1, 1, 1], [5, 70, 0], [70, 0, 3], [130, 700, 600], [201, 1100, 40]] {
            let (a, b) = (numbers(m * k, 3), numbers(k * n, 4));
            let mut bits = None;
            for threads in [1, 3] {
                let pool = Pool::new(threads).unwrap();
                let panels = packed(&pool, level, Matrix::rows(&b[..], n), k, n, storage);
                let (mut out, mut sums) = (vec![0.0; m * n], vec![10.0; m]);
                for accumulate in [false, true] {
                    let into = MatrixMut::rows(&mut out[..], n);
                    let packed = PackedB::new(panels.as_slice(), k, n, storage);
                    let product = Gemm::new(m, Matrix::transposed(&a[..], m), packed, into);
                    let epilogue = Epilogue { accumulate, ..Epilogue::default() };
                    run(&pool, level, product.with(epilogue).with_row_sums(Some(&mut sums)));
                }
                for (i, sum) in sums.iter().enumerate() {
                    let exact: f64 = (0..k).map(|l| 2.0 * a[l * m + i] as f64).sum();
                    assert!((*sum as f64 - exact).abs() <= 3e-5, "{m} {k} {n}: row {i}: {sum} {exact}");
                }
                assert_bits(&sums, bits.get_or_insert_with(|| sums.clone()), "any number of threads");
            }
            let portable = Pool::new(1).unwrap();
            let mut sums = vec![0.0; m];
            let panels = packed(&portable, Level::PORTABLE, Matrix::rows(&b[..], n), k, n, storage);
            for accumulate in [false, true] {
                let mut out = vec![0.0; m * n];
                let into = MatrixMut::rows(&mut out[..], n);
                let packed = PackedB::new(panels.as_slice(), k, n, storage);
                let product = Gemm::new(m, Matrix::transposed(&a[..], m), packed, into);
                let epilogue = Epilogue { accumulate, ..Epilogue::default() };
                run(&portable, Level::PORTABLE, product.with(epilogue).with_row_sums(Some(&mut sums)));
            }
            assert_bits(&sums, &bits.unwrap(), "any level");
        }
    }
}

/// Rows with gaps of NaN between them, and nothing behind the last one: read where they lie or copied.
#[test]
fn nothing_is_read_between_the_rows() {
    let pool = Pool::new(2).unwrap();
    for (storage, level) in storages_and_levels() {
        for m in [13, 33, 47] {
            for k in [0, 32, 64, 512, 544] {
                for gap in [3, 16, 512 - k % 512] {
                    let (n, stride) = (40, k + gap);
                    let b = numbers(k * n, 6);
                    let panels = packed(&pool, level, Matrix::rows(&b[..], n), k, n, storage);
                    let row = |i: usize| [&numbers(k, i as u32)[..], &vec![f32::NAN; gap]].concat();
                    let mut wide: Vec<f32> = (0..m).flat_map(row).collect();
                    wide.truncate(wide.len() - gap);
                    let narrow = to_bf16(&wide);
                    let rounded: Vec<f32> = narrow.iter().map(|&x| widen(x)).collect();
                    for (data, values) in [(Data::F32(&wide), &wide), (Data::Bf16(&narrow), &rounded)] {
                        let dense: Vec<f32> = (0..m)
                            .flat_map(|i| values[(i * stride).min(values.len())..][..k].to_vec())
                            .collect();
                        let expected = product(&pool, level, [m, k, n], &dense, &b, storage);
                        let mut out = vec![f32::NAN; m * n];
                        let a = Matrix { data, row_stride: stride, column_stride: 1 };
                        let panels = PackedB::new(panels.as_slice(), k, n, storage);
                        run(&pool, level, Gemm::new(m, a, panels, MatrixMut::rows(&mut out[..], n)));
                        assert_bits(
                            &out,
                            &expected,
                            &format!("{m} x {k}, {gap} between, {storage:?} {level}"),
                        );
                    }
                }
            }
        }
    }
}

/// Whole panels of sums are written to the output itself, others by way of a tile, as are those of several
/// blocks of k that are added to what is there: it shows in no bit, and nothing between the rows is touched.
#[test]
fn sums_reach_their_rows_and_nothing_between() {
    let pool = Pool::new(2).unwrap();
    for (storage, level) in storages_and_levels() {
        for size @ [m, k, n] in [[30, 20, 50], [30, 20, 64], [30, 1030, 64], [250, 40, 576]] {
            let [a, b] = [(m * k, 14), (k * n, 15)].map(|(len, seed)| -> Vec<f32> {
                numbers(len, seed).iter().map(|&x| convert::round(x)).collect()
            });
            let sums = specified_as(storage, size, &a, &b);
            let panels = packed(&pool, level, Matrix::rows(&b[..], n), k, n, storage);
            for accumulate in [false, true] {
                let what = format!("{level} {storage:?} {size:?} {accumulate}");
                let expected: Vec<f32> = sums.iter().map(|x| if accumulate { 7.0 + x } else { *x }).collect();
                let stride = n + 9;
                let mut out = vec![7.0; m * stride];
                let b = PackedB::new(panels.as_slice(), k, n, storage);
                let product = Gemm::new(m, Matrix::rows(&a[..], k), b, MatrixMut::rows(&mut out[..], stride));
                run(&pool, level, product.with(Epilogue { accumulate, ..Epilogue::default() }));
                for (row, expected) in out.chunks(stride).zip(expected.chunks(n)) {
                    assert_product(level, storage, size, &row[..n], expected, &what);
                    assert!(row[n..].iter().all(|&x| x == 7.0), "{what}");
                }
            }
        }
    }
}

#[test]
fn a_scratch_of_one_slot_serves_a_task() {
    let pool = Pool::new(3).unwrap();
    let size @ [m, k, n] = [40, 30, 100];
    let (a, b) = (numbers(m * k, 16), numbers(k * n, 17));
    let expected = specified(size, &a, &b);
    let panels = packed(&pool, Level::best(), Matrix::rows(&b[..], n), k, n, Storage::F32);
    let bytes = Gemm::thread_scratch_bytes();
    let mut block = Buffer::zeroed(Scratch::bytes(bytes, 3)).unwrap();
    let scratch = Scratch::new(block.as_mut_slice(), 3);
    pool.run(6, &|_, worker| {
        // SAFETY: within a run a worker's number belongs to one thread.
        let mut scratch = unsafe { scratch.single(worker) };
        let mut out = vec![0.0; m * n];
        let b = PackedB::new(panels.as_slice(), k, n, Storage::F32);
        let call = Gemm::new(m, Matrix::rows(&a[..], k), b, MatrixMut::rows(&mut out[..], n));
        gemm(&pool, Level::best(), call, &mut scratch);
        assert_bits(&out, &expected, "nested");
    });
}

#[test]
fn wrong_sizes_are_refused() {
    let pool = Pool::new(1).unwrap();
    let panels = Buffer::zeroed(packed_b_bytes(4, 8, Storage::F32)).unwrap();
    let refused = |m: usize, a_len: usize, out_len: usize, stride: usize| {
        let (a, mut out) = (vec![0.0f32; a_len], vec![0.0f32; out_len]);
        let b = PackedB::new(panels.as_slice(), 4, 8, Storage::F32);
        let work = std::panic::AssertUnwindSafe(|| {
            run(
                &pool,
                Level::best(),
                Gemm::new(m, Matrix::rows(&a[..], 4), b, MatrixMut::rows(&mut out[..], stride)),
            )
        });
        std::panic::catch_unwind(work).is_err()
    };
    assert!(!refused(3, 12, 24, 8));
    assert!(refused(3, 11, 24, 8));
    assert!(refused(3, 12, 23, 8));
    assert!(refused(3, 12, 24, 7));
    assert!(refused(usize::MAX, 12, 24, 8));
    assert!(!refused(0, 0, 0, 8));
    let refused = |z: Matrix<'_>| {
        let (a, mut out) = ([0.0f32; 12], [0.0f32; 24]);
        let b = PackedB::new(panels.as_slice(), 4, 8, Storage::F32);
        let epilogue = Epilogue { derivative: Some((Pointwise::Relu, z)), ..Epilogue::default() };
        let call = Gemm::new(3, Matrix::rows(&a[..], 4), b, MatrixMut::rows(&mut out[..], 8));
        let work = std::panic::AssertUnwindSafe(|| run(&pool, Level::best(), call.with(epilogue)));
        std::panic::catch_unwind(work).is_err()
    };
    let z = [0.0f32; 24];
    assert!(!refused(Matrix::rows(&z[..], 8)));
    assert!(refused(Matrix::rows(&z[..23], 8)));
    assert!(refused(Matrix::transposed(&z[..], 3)));
}

/// Whatever the threads and however few the rows, the statistics are those of the rows as stored.
#[test]
fn statistics_of_rows_come_beside_the_product() {
    for [m, k, n] in [[1, 20, 40], [3, 5, 700], [30, 64, 96], [200, 33, 520], [61, 10, 1100]] {
        let (a, b, add) = (numbers(m * k, 1), numbers(k * n, 2), numbers(m * n, 3));
        for storage in [Storage::F32, Storage::Bf16] {
            for (&level, threads) in Level::available().iter().flat_map(|level| [(level, 1), (level, 3)]) {
                let pool = Pool::new(threads).unwrap();
                let panels = packed(&pool, level, Matrix::rows(&b[..], n), k, n, storage);
                // With something else to do, and with nothing: then no kernel may write past them.
                for (centred, adds) in [(true, true), (true, false), (false, true), (false, false)] {
                    let of_row = statistics::parts_of_row(n) * statistics::STATISTICS;
                    let (mut out, mut parts) = (vec![f32::NAN; m * n], vec![f32::NAN; m * of_row]);
                    let call = Gemm::new(
                        m,
                        Matrix::rows(&a[..], k),
                        PackedB::new(panels.as_slice(), k, n, storage),
                        MatrixMut::rows(&mut out[..], n),
                    );
                    let call = call.with(Epilogue {
                        residual: adds.then(|| Matrix::rows(&add[..], n)),
                        statistics: Some(RowStatistics { centred, parts: &mut parts }),
                        ..Epilogue::default()
                    });
                    run(&pool, level, call);
                    for (row, got) in out.chunks(n).zip(parts.chunks(of_row)) {
                        let of_part = |part: &[f32]| statistics::of(level, &mut part.to_vec(), centred);
                        let want: Vec<f32> =
                            row.chunks(statistics::columns_of_part(n)).flat_map(of_part).collect();
                        assert_eq!(got, want, "{m} {k} {n} {storage:?} {level}, {threads} threads");
                    }
                }
            }
        }
    }
}
