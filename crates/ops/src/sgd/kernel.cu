// SGD in one pass over the gradient and the states, which are updated where they are. Without momentum there is no `kept`,
// and the direction is 0 * 0 + g: the same formula.

#include "prelude.cuh"
#include "table.cuh"

struct Numbers {
    f32 scale, weight_decay, momentum, rate;
    u32 nesterov;
};

DEVICE void step_one(f32& p, f32 g, f32& kept, const Numbers& n) {
    g = fmaf(n.weight_decay, p, __fmul_rn(n.scale, g));
    kept = fmaf(n.momentum, kept, g);
    p = fmaf(-n.rate, n.nesterov ? fmaf(n.momentum, kept, g) : kept, p);
}

extern "C" __global__ void __launch_bounds__(256)
sgd(const f32* lr, const f32* scale, const u32* stop, f32 weight_decay, f32 momentum, u32 nesterov,
    const __grid_constant__ Table table, u32 many) {
    if (stopped(stop)) return;
    Numbers n = {scale ? *scale : 1.0f, weight_decay, momentum, *lr, nesterov};
    if (!(fabsf(n.scale) < INFINITY_F32)) return;  // no step
    const Entry& own = table.all[entry_of(table, many, blockIdx.x)];
    f32 *p = own.at[0], *kept = own.at[2];
    const f32* g = own.at[1];
    u32 first = (blockIdx.x - own.first) * PER_BLOCK, end = min(first + PER_BLOCK, own.count);
    if (((u64)p | (u64)g | (u64)kept) % 16 == 0) {
        for (u32 i = first + threadIdx.x * 4; i + 4 <= end; i += 256 * 4) {
            float4 a = *(float4*)(p + i), b = *(const float4*)(g + i);
            float4 c = kept ? *(float4*)(kept + i) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            step_one(a.x, b.x, c.x, n);
            step_one(a.y, b.y, c.y, n);
            step_one(a.z, b.z, c.z, n);
            step_one(a.w, b.w, c.w, n);
            *(float4*)(p + i) = a;
            if (kept) *(float4*)(kept + i) = c;
        }
        first = end / 4 * 4;  // what is left after the last four
    }
    for (u32 i = first + threadIdx.x; i < end; i += 256) {
        f32 last = kept ? kept[i] : 0.0f;
        step_one(p[i], g[i], last, n);
        if (kept) kept[i] = last;
    }
}
