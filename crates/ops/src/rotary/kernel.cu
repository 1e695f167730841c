// Rotary positions: all heads of some positions to a block, with one set of sines and cosines. Angles and their reduction
// are f64, with the CPU's steps: positions of a million still have angles that are right to the last bit of an f32 sine.
// X is the type in memory.

#include "prelude.cuh"

#define THREADS 256

struct Frequencies {
    f64 v[PAIRS];
};

// Cosine and sine: quarter turns are taken off, Taylor's series does the rest to 1e-14.
DEVICE void cos_sin(f64 angle, f64& cosine, f64& sine) {
    const f64 whole = 6755399441055744.0;  // 1.5 * 2^52: adding it leaves a whole number in the low bits
    f64 shifted = fma(angle, 0.63661977236758134308, whole);
    f64 quarters = shifted - whole;
    u32 quadrant = u32(__double_as_longlong(shifted));
    f64 r = fma(-quarters, 6.123233995736766e-17, fma(-quarters, 1.57079632679489661923, angle));
    f64 square = r * r;
    const f64 sines[7] = {1.0 / 6227020800.0, -1.0 / 39916800.0, 1.0 / 362880.0, -1.0 / 5040.0,
                          1.0 / 120.0,        -1.0 / 6.0,        1.0};
    const f64 cosines[8] = {-1.0 / 87178291200.0, 1.0 / 479001600.0, -1.0 / 3628800.0, 1.0 / 40320.0,
                            -1.0 / 720.0,         1.0 / 24.0,        -0.5,             1.0};
    f64 s = sines[0], c = cosines[0];
#pragma unroll
    for (int i = 1; i < 7; i++) s = fma(square, s, sines[i]);
#pragma unroll
    for (int i = 1; i < 8; i++) c = fma(square, c, cosines[i]);
    s *= r;
    f64 a = quadrant & 1 ? s : c, b = quadrant & 1 ? c : s;
    cosine = (quadrant + 1) & 2 ? -a : a;
    sine = quadrant & 2 ? -b : b;
}

// Pairs `first` to `first + pairs - 1` of `all`; the channels that do not turn are copied with the first ones.
extern "C" __global__ void __launch_bounds__(THREADS)
turn(X* y, const X* x, const i32* position, const __grid_constant__ Frequencies frequencies, u32 rows, u32 length,
     u32 heads, u32 head, u32 first, u32 pairs, u32 all, u32 interleaved, f64 scale, f64 direction) {
    __shared__ f32 cosines[THREADS], sines[THREADS];
    u32 at_once = THREADS / pairs, begin = blockIdx.x * at_once;
    u32 row = begin + threadIdx.x / pairs;
    if (threadIdx.x < at_once * pairs && row < rows) {
        f64 at = position ? f64(position[row]) : f64(row % length), cosine, sine;
        cos_sin(at * frequencies.v[threadIdx.x % pairs], cosine, sine);
        cosines[threadIdx.x] = f32(scale * cosine);
        sines[threadIdx.x] = f32(direction * sine);
    }
    __syncthreads();
    u32 vectors = min(at_once, rows - begin) * heads;
    x += u64(begin) * heads * head, y += u64(begin) * heads * head;
    for (u32 i = threadIdx.x; i < vectors * pairs; i += THREADS) {
        u32 pair = i % pairs, vector = i / pairs;
        u32 angle = vector / heads * pairs + pair;
        u32 one = vector * head + (interleaved ? 2 * (first + pair) : first + pair);
        u32 two = one + (interleaved ? 1 : all);
        f32 a = load(x + one), b = load(x + two), cosine = cosines[angle], sine = sines[angle];
        store(y + one, fmaf(a, cosine, -__fmul_rn(b, sine)));
        store(y + two, fmaf(a, sine, __fmul_rn(b, cosine)));
    }
    u32 rest = head - 2 * all;
    if (first > 0 || x == y) return;
    for (u32 i = threadIdx.x; i < vectors * rest; i += THREADS) {
        u32 at = i / rest * head + 2 * all + i % rest;
        y[at] = x[at];
    }
}
