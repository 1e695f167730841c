//! How fast the packed products are, as a share of what the cores can do.
//!
//! Run with `cargo run --release -p regard-device --example products [level] [threads…]`.

use half::bf16;
use regard_device::{
    Buffer, Data, Gemm, Level, Matrix, MatrixMut, PackedB, Pool, Scratch, Storage, gemm, multiversion,
    pack_b, packed_b_bytes,
};
use std::time::Instant;

const SIZES: [[usize; 3]; 9] = [
    [256, 256, 256],
    [1024, 1024, 1024],
    [2048, 2048, 2048],
    [4096, 256, 1024],
    [4096, 1024, 256],
    [2048, 768, 3072],
    [1, 768, 3072],
    [8, 768, 3072],
    [1, 2048, 8192],
];

/// One multiply-add in each of sixteen lanes.
#[inline(always)]
fn step(x: &[f32; 16], sum: &mut [f32; 16]) {
    for (sum, x) in sum.iter_mut().zip(x) {
        *sum = x.mul_add(*sum, *x);
    }
}

multiversion! {
    /// Six independent chains of sixteen lanes in registers: nothing but multiply-adds.
    fn multiply_adds(rounds: usize, x: &[f32; 16], sums: &mut [[f32; 16]; 6]) {
        let [mut a, mut b, mut c, mut d, mut e, mut f] = *sums;
        for _ in 0..rounds {
            step(x, &mut a);
            step(x, &mut b);
            step(x, &mut c);
            step(x, &mut d);
            step(x, &mut e);
            step(x, &mut f);
        }
        *sums = [a, b, c, d, e, f];
    }
}

/// Best of several timings, in seconds.
fn best(mut work: impl FnMut()) -> f64 {
    let begin = Instant::now();
    let mut least = f64::INFINITY;
    while begin.elapsed().as_secs_f64() < 0.4 {
        let start = Instant::now();
        work();
        least = least.min(start.elapsed().as_secs_f64());
    }
    least
}

fn peak(pool: &Pool, level: Level) -> f64 {
    const ROUNDS: usize = 200_000;
    let x = std::hint::black_box([0.5f32; 16]);
    let seconds = best(|| {
        pool.run(pool.threads(), &|_, _| {
            let mut sums = std::hint::black_box([[0.0; 16]; 6]);
            multiply_adds(level, ROUNDS, &x, &mut sums);
            std::hint::black_box(sums);
        })
    });
    (pool.threads() * ROUNDS * 6 * 16 * 2) as f64 / seconds / 1e9
}

fn time_product(pool: &Pool, level: Level, [m, k, n]: [usize; 3], storage: Storage, transposed: bool) -> f64 {
    let numbers = |bytes: usize| Buffer::zeroed(bytes).expect("memory for the example");
    let (mut a, mut b) = (numbers(m * k * 4), numbers(k * n * 4));
    a.as_mut_slice::<f32>().iter_mut().enumerate().for_each(|(i, x)| *x = (i % 101) as f32 * 0.01 - 0.5);
    b.as_mut_slice::<f32>().iter_mut().enumerate().for_each(|(i, x)| *x = (i % 97) as f32 * 0.01 - 0.5);
    let mut packed = numbers(packed_b_bytes(k, n, storage));
    pack_b(pool, level, Matrix::rows(b.as_slice::<f32>(), n), k, n, storage, packed.as_mut_slice());
    let narrow: Vec<bf16> = a.as_slice::<f32>().iter().map(|&x| bf16::from_f32(x)).collect();
    let mut out = numbers(m * n * 4);
    let mut scratch = numbers(Scratch::bytes(Gemm::thread_scratch_bytes(), pool.threads()));
    let mut scratch = Scratch::new(scratch.as_mut_slice(), pool.threads());
    let data: Data = match storage {
        Storage::F32 | Storage::Int8 | Storage::Q8 | Storage::Q4 => a.as_slice::<f32>().into(),
        Storage::Bf16 => narrow.as_slice().into(),
    };
    let seconds = best(|| {
        let a = if transposed { Matrix::transposed(data, m) } else { Matrix::rows(data, k) };
        let b = PackedB::new(packed.as_slice(), k, n, storage);
        gemm(pool, level, Gemm::new(m, a, b, MatrixMut::rows(out.as_mut_slice::<f32>(), n)), &mut scratch);
    });
    2.0 * (m * k * n) as f64 / seconds / 1e9
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let level = arguments.next().map_or(Ok(Level::best()), |text| text.parse())?;
    let mut threads = arguments.map(|text| text.parse()).collect::<Result<Vec<usize>, _>>()?;
    if threads.is_empty() {
        threads = vec![1, Pool::default_threads()];
        threads.dedup();
    }
    for threads in threads {
        let pool = Pool::new(threads)?;
        let peak = peak(&pool, level);
        println!("{level}, {threads} thread(s): multiply-adds alone {peak:.0} GFLOP/s");
        println!("{:>18} {:>12} {:>12} {:>12} {:>12}", "M x K x N", "f32", "f32 A^T", "bf16", "bf16 A^T");
        for size in SIZES {
            print!("{:>18}", size.map(|x| x.to_string()).join("x"));
            for storage in [Storage::F32, Storage::Bf16] {
                for transposed in [false, true] {
                    let rate = time_product(&pool, level, size, storage, transposed);
                    print!(" {:>6.1} {:>4.0}%", rate, 100.0 * rate / peak);
                }
            }
            println!();
        }
    }
    Ok(())
}
