// AdamW in one pass over the gradient and the states, which are updated where they are. The numbers of the step are made
// in f64 from the learning rate and the step's number, and rounded once, as on the CPU.

#include "prelude.cuh"
#include "table.cuh"

struct Settings {
    f64 beta1, beta2, epsilon, weight_decay;
};
struct Numbers {
    f32 scale, new1, beta2, new2, epsilon, keep, rate, root_correction;
};

DEVICE f64 power(f64 base, u32 exponent) {
    f64 result = 1.0;
    for (; exponent; exponent >>= 1) {
        if (exponent & 1) result *= base;
        base *= base;
    }
    return result;
}

DEVICE void step_one(f32& p, f32 g, f32& m, f32& v, const Numbers& n) {
    g = __fmul_rn(n.scale, g);
    m = fmaf(n.new1, g - m, m);
    v = fmaf(n.new2, __fmul_rn(g, g), __fmul_rn(n.beta2, v));
    f32 root = sqrtf(v) / n.root_correction + n.epsilon;
    p = fmaf(-n.rate, m / root, __fmul_rn(n.keep, p));
}

extern "C" __global__ void __launch_bounds__(256)
adamw(const f32* lr, const i32* step, const f32* scale, u32* stop, Settings settings, const __grid_constant__ Table table,
      u32 many) {
    __shared__ Numbers numbers;
    if (stopped(stop)) return;
    const Entry& own = table.all[entry_of(table, many, blockIdx.x)];
    i32 t = *step;
    if (t < 1) {
        if (blockIdx.x == own.first && threadIdx.x == 0) fault_at(own.fault, stop, 0, t);
        return;
    }
    f32 factor = scale ? *scale : 1.0f;
    if (!(fabsf(factor) < INFINITY_F32)) return;  // no step
    if (threadIdx.x == 0) {
        f64 rate = *lr;
        numbers.scale = factor;
        numbers.new1 = f32(1.0 - settings.beta1);
        numbers.beta2 = f32(settings.beta2);
        numbers.new2 = f32(1.0 - settings.beta2);
        numbers.epsilon = f32(settings.epsilon);
        numbers.keep = f32(1.0 - __dmul_rn(rate, settings.weight_decay));
        numbers.rate = f32(rate / (1.0 - power(settings.beta1, t)));
        numbers.root_correction = f32(sqrt(1.0 - power(settings.beta2, t)));
    }
    __syncthreads();
    Numbers n = numbers;
    f32 *p = own.at[0], *m = own.at[2], *v = own.at[3];
    const f32* g = own.at[1];
    u32 first = (blockIdx.x - own.first) * PER_BLOCK, end = min(first + PER_BLOCK, own.count);
    if (((u64)p | (u64)g | (u64)m | (u64)v) % 16 == 0) {
        for (u32 i = first + threadIdx.x * 4; i + 4 <= end; i += 256 * 4) {
            float4 a = *(float4*)(p + i), b = *(const float4*)(g + i), c = *(float4*)(m + i), d = *(float4*)(v + i);
            step_one(a.x, b.x, c.x, d.x, n);
            step_one(a.y, b.y, c.y, d.y, n);
            step_one(a.z, b.z, c.z, d.z, n);
            step_one(a.w, b.w, c.w, d.w, n);
            *(float4*)(p + i) = a, *(float4*)(m + i) = c, *(float4*)(v + i) = d;
        }
        first = end / 4 * 4;  // what is left after the last four
    }
    for (u32 i = first + threadIdx.x; i < end; i += 256) step_one(p[i], g[i], m[i], v[i], n);
}
