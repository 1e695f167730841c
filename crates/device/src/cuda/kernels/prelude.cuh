// What every kernel stands on: numbers, loads and stores as f32, sums in a fixed order, random numbers, activations.
// No header of the toolkit is needed: the compiler's built-in functions and inline PTX suffice.

typedef float f32;
typedef double f64;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
struct bf16 {
    u16 bits;
};

#define DEVICE static __device__ __forceinline__

// ---- Numbers: whatever is stored, arithmetic is f32 ----

DEVICE f32 load(const f32* at) { return *at; }
DEVICE f32 load(const bf16* at) { return __uint_as_float(u32(at->bits) << 16); }
// Integers stay integers, and booleans are 0 or 1.
DEVICE i32 load(const i32* at) { return *at; }
DEVICE i32 load(const u8* at) { return *at; }

// To the nearest, ties to even.
DEVICE u16 round_bf16(f32 x) {
    u16 bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
// Two at once: `low` stands first in memory.
DEVICE u32 round_bf16_pair(f32 low, f32 high) {
    u32 bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}
DEVICE void store(f32* at, f32 x) { *at = x; }
DEVICE void store(bf16* at, f32 x) { at->bits = round_bf16(x); }
DEVICE void store(i32* at, i32 x) { *at = x; }
DEVICE void store(u8* at, i32 x) { *at = x != 0; }

// Four neighbours at once; the address is aligned to their size.
DEVICE void load4(const f32* at, f32 (&x)[4]) {
    float4 a = *(const float4*)at;
    x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w;
}
DEVICE void load4(const bf16* at, f32 (&x)[4]) {
    uint2 a = *(const uint2*)at;
    x[0] = __uint_as_float(a.x << 16), x[1] = __uint_as_float(a.x & 0xffff0000u);
    x[2] = __uint_as_float(a.y << 16), x[3] = __uint_as_float(a.y & 0xffff0000u);
}

// Eight neighbours by 16-byte accesses; the address is aligned to 16 bytes.
DEVICE void load8(const f32* at, f32 (&x)[8]) {
    float4 a = ((const float4*)at)[0], b = ((const float4*)at)[1];
    x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w;
    x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
}
DEVICE void load8(const bf16* at, f32 (&x)[8]) {
    uint4 a = *(const uint4*)at;
    u32 words[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        x[2 * i] = __uint_as_float(words[i] << 16);
        x[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
}
DEVICE void load8(const i32* at, i32 (&x)[8]) {
    int4 a = ((const int4*)at)[0], b = ((const int4*)at)[1];
    x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w;
    x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
}
DEVICE void load8(const u8* at, i32 (&x)[8]) {
    uint2 a = *(const uint2*)at;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        x[i] = a.x >> 8 * i & 0xffu;
        x[4 + i] = a.y >> 8 * i & 0xffu;
    }
}
DEVICE void store8(f32* at, const f32 (&x)[8]) {
    ((float4*)at)[0] = make_float4(x[0], x[1], x[2], x[3]);
    ((float4*)at)[1] = make_float4(x[4], x[5], x[6], x[7]);
}
DEVICE void store8(bf16* at, const f32 (&x)[8]) {
    *(uint4*)at = make_uint4(round_bf16_pair(x[0], x[1]), round_bf16_pair(x[2], x[3]), round_bf16_pair(x[4], x[5]),
                             round_bf16_pair(x[6], x[7]));
}
DEVICE void store8(i32* at, const i32 (&x)[8]) {
    ((int4*)at)[0] = make_int4(x[0], x[1], x[2], x[3]);
    ((int4*)at)[1] = make_int4(x[4], x[5], x[6], x[7]);
}
DEVICE void store8(u8* at, const i32 (&x)[8]) {
    u32 words[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < 8; i++) words[i / 4] |= u32(x[i] != 0) << 8 * (i % 4);
    *(uint2*)at = make_uint2(words[0], words[1]);
}

// ---- Faults: an operand that is wrong is left for the host to tell, and what outlives the run stays as it is ----

// The least place of all that are wrong, and the number that stands there. Nothing is done where nobody asks.
DEVICE void fault_at(u64* word, u32* stop, u32 place, i32 number) {
    if (!word) return;
    atomicMin(word, u64(place) << 32 | u32(number));
    *stop = 1;
}
// Whether something was found already.
DEVICE bool stopped(const u32* stop) { return stop && *(volatile const u32*)stop != 0; }

#define INFINITY_F32 __int_as_float(0x7f800000)

// ---- Reductions: the order depends on the number of threads alone, and every thread has the result ----

struct Sum {
    DEVICE f32 join(f32 a, f32 b) { return a + b; }
};
struct Max {
    // NaN wins, so that it is seen.
    DEVICE f32 join(f32 a, f32 b) { return a > b || a != a ? a : b; }
};

template <class Op> DEVICE f32 reduce_warp(f32 x) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) x = Op::join(x, __shfl_xor_sync(0xffffffffu, x, distance));
    return x;
}

// Over a team of neighbouring threads: one warp, or the whole block. `room` holds one number for each warp of the block;
// a block's threads must all be here.
template <class Op, int threads> DEVICE f32 reduce_team(f32 x, f32* room) {
    x = reduce_warp<Op>(x);
    if (threads == 32) return x;
    __syncthreads();
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
    __syncthreads();
    x = room[0];
#pragma unroll
    for (int warp = 1; warp < threads / 32; warp++) x = Op::join(x, room[warp]);
    return x;
}

// ---- Random numbers: Philox4x32-10 with the keys and counters of the CPU, bit for bit ----

struct Draws {
    u32 word[4];
};

DEVICE Draws philox(u32 k0, u32 k1, u32 c0, u32 c1, u32 c2, u32 c3) {
#pragma unroll
    for (int round = 0; round < 10; round++) {
        u32 left = __umulhi(0xd2511f53u, c0), left_low = 0xd2511f53u * c0;
        u32 right = __umulhi(0xcd9e8d57u, c2), right_low = 0xcd9e8d57u * c2;
        c0 = right ^ c1 ^ k0, c1 = right_low;
        c2 = left ^ c3 ^ k1, c3 = left_low;
        k0 += 0x9e3779b9u, k1 += 0xbb67ae85u;
    }
    return Draws{{c0, c1, c2, c3}};
}

// The finaliser of SplitMix64.
DEVICE u64 mix(u64 x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

// The random numbers of one operation in one step. The hash of its name is known when the launch is made; seed and step
// are read on the card.
struct Random {
    u32 k0, k1, step;
};
DEVICE Random random_stream(u64 seed, u64 step, u64 name_hash) {
    u64 key = mix(mix(mix(seed) ^ name_hash) ^ (step >> 32));
    return Random{u32(key), u32(key >> 32), u32(step)};
}
// The draws of channels 4 * block to 4 * block + 3.
DEVICE Draws random_block(Random random, u32 example, u32 position, u32 block) {
    return philox(random.k0, random.k1, block, position, example, random.step);
}
// A number in [0, 1) with 24 bits.
DEVICE f32 unit(u32 bits) { return f32(bits >> 8) * (1.0f / 16777216.0f); }

// ---- Activations and their derivatives: no difference of numbers that are nearly the same ----

// x inside of [-bound, bound]; NaN stays.
DEVICE f32 limit(f32 x, f32 bound) { return x > bound ? bound : x < -bound ? -bound : x; }

DEVICE f32 relu(f32 x) { return x < 0.0f ? 0.0f : x; }
DEVICE f32 sigmoid(f32 x) { return 1.0f / (1.0f + expf(-x)); }
DEVICE f32 silu(f32 x) { return x / (1.0f + expf(-x)); }
DEVICE f32 silu_slope(f32 x) {
    x = limit(x, 200.0f);
    return sigmoid(x) * fmaf(x, sigmoid(-x), 1.0f);
}
// The normal distribution's share below x.
DEVICE f32 normal_below(f32 x) { return 0.5f * erfcf(x * -0.70710678118654752f); }
DEVICE f32 gelu_erf(f32 x) { return x * normal_below(x); }
DEVICE f32 gelu_erf_slope(f32 x) {
    x = limit(x, 16.0f);
    return fmaf(x * 0.39894228040143268f, expf(-0.5f * x * x), normal_below(x));
}
// x (1 + tanh u) / 2 is x sigmoid(2 u), and this is 2 u.
DEVICE f32 gelu_tanh_inner(f32 x) { return 1.5957691216057308f * x * fmaf(0.044715f * x, x, 1.0f); }
DEVICE f32 gelu_tanh(f32 x) { return x * sigmoid(gelu_tanh_inner(x)); }
DEVICE f32 gelu_tanh_slope(f32 x) {
    x = limit(x, 12.0f);
    f32 inner = gelu_tanh_inner(x), s = sigmoid(inner);
    f32 slope = 1.5957691216057308f * fmaf(0.134145f * x, x, 1.0f);
    return s * fmaf(x * slope, sigmoid(-inner), 1.0f);
}
