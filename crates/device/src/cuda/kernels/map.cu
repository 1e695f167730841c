// One result for each element of a shape, from up to four operands that may be broadcast or turned.
//
// MAP_BODY is an expression of x0 to x3 (the operands, as f32) and s.v[0] to s.v[3] (numbers of the launch); X0 to X3 and
// Y are the types in memory; MAP_INPUTS counts the operands and MAP_RANK the dimensions of the strided kernel.

#include "prelude.cuh"

struct Inputs {
    const void* at[4];
};
struct Scalars {
    f32 v[4];
};
// Dimensions from the outermost to the innermost, and how far apart neighbours along each lie in every operand.
struct Shape {
    u32 dims[6];
    u32 strides[4][6];
};

DEVICE f32 body(f32 x0, f32 x1, f32 x2, f32 x3, const Scalars& s) { return MAP_BODY; }

// Operands and result lie alike, one number after the other: eight to a thread.
extern "C" __global__ void __launch_bounds__(256) map_flat(Y* y, Inputs in, Scalars s, u32 count) {
    u32 first = (blockIdx.x * 256 + threadIdx.x) * 8;
    if (first + 8 <= count) {
        f32 x[4][8], z[8];
        if (MAP_INPUTS > 0) load8((const X0*)in.at[0] + first, x[0]);
        if (MAP_INPUTS > 1) load8((const X1*)in.at[1] + first, x[1]);
        if (MAP_INPUTS > 2) load8((const X2*)in.at[2] + first, x[2]);
        if (MAP_INPUTS > 3) load8((const X3*)in.at[3] + first, x[3]);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            f32 v[4];
#pragma unroll
            for (int j = 0; j < 4; j++) v[j] = j < MAP_INPUTS ? x[j][i] : 0.0f;
            z[i] = body(v[0], v[1], v[2], v[3], s);
        }
        store8(y + first, z);
        return;
    }
    for (u32 i = first; i < count; i++) {
        f32 x0 = MAP_INPUTS > 0 ? load((const X0*)in.at[0] + i) : 0.0f;
        f32 x1 = MAP_INPUTS > 1 ? load((const X1*)in.at[1] + i) : 0.0f;
        f32 x2 = MAP_INPUTS > 2 ? load((const X2*)in.at[2] + i) : 0.0f;
        f32 x3 = MAP_INPUTS > 3 ? load((const X3*)in.at[3] + i) : 0.0f;
        store(y + i, body(x0, x1, x2, x3, s));
    }
}

// Any strides: one element to a thread, found by dividing its number by the dimensions.
extern "C" __global__ void __launch_bounds__(256) map_strided(Y* y, Inputs in, Scalars s, Shape shape, u32 count) {
    u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= count) return;
    u32 rest = i, at[4] = {0, 0, 0, 0};
#pragma unroll
    for (int d = MAP_RANK - 1; d >= 0; d--) {
        u32 next = d > 0 ? rest / shape.dims[d] : 0;
        u32 place = rest - next * shape.dims[d];
        rest = next;
#pragma unroll
        for (int j = 0; j < MAP_INPUTS; j++) at[j] += place * shape.strides[j][d];
    }
    f32 x0 = MAP_INPUTS > 0 ? load((const X0*)in.at[0] + at[0]) : 0.0f;
    f32 x1 = MAP_INPUTS > 1 ? load((const X1*)in.at[1] + at[1]) : 0.0f;
    f32 x2 = MAP_INPUTS > 2 ? load((const X2*)in.at[2] + at[2]) : 0.0f;
    f32 x3 = MAP_INPUTS > 3 ? load((const X3*)in.at[3] + at[3]) : 0.0f;
    store(y + i, body(x0, x1, x2, x3, s));
}
