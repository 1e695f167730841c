// One result, or two, for each element of a shape, from up to four operands that may be broadcast or turned.
//
// MAP_BODY, and MAP_SECOND where there is a second result, are expressions of x0 to x3 (the operands: f32 where they are
// floats, i32 where they are integers or booleans), of s.v[0] to s.v[3] (numbers of the launch), and of e.fault and e.stop
// for `fault_at`. X0 to X3, Y0 and Y1 are the types in memory; MAP_INPUTS counts the operands.

#include "prelude.cuh"

struct Outputs {
    void* at[2];
};
struct Inputs {
    const void* at[4];
};
struct Scalars {
    f32 v[4];
};
// Where faults are told, and a word that keeps results that outlive the run as they are; null where there is none.
struct Effects {
    u64* fault;
    u32* stop;
    const u32* halt;
};
// Dimensions from the innermost to the outermost, and how far apart neighbours along each lie in every operand.
struct Shape {
    u32 rank;
    u32 dims[6];
    u32 strides[4][6];
};

typedef decltype(load((const X0*)0)) V0;
typedef decltype(load((const X1*)0)) V1;
typedef decltype(load((const X2*)0)) V2;
typedef decltype(load((const X3*)0)) V3;
typedef decltype(load((const Y0*)0)) Z0;
typedef decltype(load((const Y1*)0)) Z1;

DEVICE Z0 first_of(V0 x0, V1 x1, V2 x2, V3 x3, const Scalars& s, const Effects& e) { return MAP_BODY; }
#ifdef MAP_SECOND
DEVICE Z1 second_of(V0 x0, V1 x1, V2 x2, V3 x3, const Scalars& s, const Effects& e) { return MAP_SECOND; }
#endif

DEVICE void one(const Outputs& out, u32 i, V0 x0, V1 x1, V2 x2, V3 x3, const Scalars& s, const Effects& e) {
#ifdef MAP_SECOND
    Z1 second = second_of(x0, x1, x2, x3, s, e);
    if (out.at[0]) store((Y0*)out.at[0] + i, first_of(x0, x1, x2, x3, s, e));
    if (out.at[1]) store((Y1*)out.at[1] + i, second);
#else
    store((Y0*)out.at[0] + i, first_of(x0, x1, x2, x3, s, e));
#endif
}

DEVICE void eight(const Outputs& out, u32 i, const V0 (&x0)[8], const V1 (&x1)[8], const V2 (&x2)[8], const V3 (&x3)[8],
                  const Scalars& s, const Effects& e) {
    Z0 first[8];
#pragma unroll
    for (int j = 0; j < 8; j++) first[j] = first_of(x0[j], x1[j], x2[j], x3[j], s, e);
#ifdef MAP_SECOND
    Z1 second[8];
#pragma unroll
    for (int j = 0; j < 8; j++) second[j] = second_of(x0[j], x1[j], x2[j], x3[j], s, e);
    if (out.at[0]) store8((Y0*)out.at[0] + i, first);
    if (out.at[1]) store8((Y1*)out.at[1] + i, second);
#else
    store8((Y0*)out.at[0] + i, first);
#endif
}

// Eight neighbours, or one number eight times.
template <class X, class V> DEVICE void load_run(const X* at, u32 step, V (&x)[8]) {
    if (step) {
        load8(at, x);
    } else {
        V only = load(at);
#pragma unroll
        for (int j = 0; j < 8; j++) x[j] = only;
    }
}

// Where element i of the results lies in every operand: its number is divided by the dimensions.
DEVICE void place(const Shape& shape, u32 i, u32 (&at)[4]) {
#pragma unroll
    for (int j = 0; j < 4; j++) at[j] = 0;
#pragma unroll
    for (int d = 0; d < 6; d++) {
        if (d == shape.rank) break;
        u32 next = d + 1 < shape.rank ? i / shape.dims[d] : 0;
        u32 here = i - next * shape.dims[d];
        i = next;
#pragma unroll
        for (int j = 0; j < MAP_INPUTS; j++) at[j] += here * shape.strides[j][d];
    }
}

// Operands and results lie alike, one number after the other: eight to a thread.
extern "C" __global__ void __launch_bounds__(256) map_flat(Outputs out, Inputs in, Scalars s, Effects e, u32 count) {
    if (stopped(e.halt)) return;
    u32 first = (blockIdx.x * 256 + threadIdx.x) * 8;
    if (first + 8 <= count) {
        V0 x0[8] = {};
        V1 x1[8] = {};
        V2 x2[8] = {};
        V3 x3[8] = {};
        if (MAP_INPUTS > 0) load8((const X0*)in.at[0] + first, x0);
        if (MAP_INPUTS > 1) load8((const X1*)in.at[1] + first, x1);
        if (MAP_INPUTS > 2) load8((const X2*)in.at[2] + first, x2);
        if (MAP_INPUTS > 3) load8((const X3*)in.at[3] + first, x3);
        eight(out, first, x0, x1, x2, x3, s, e);
        return;
    }
    for (u32 i = first; i < count; i++) {
        V0 x0 = MAP_INPUTS > 0 ? load((const X0*)in.at[0] + i) : V0();
        V1 x1 = MAP_INPUTS > 1 ? load((const X1*)in.at[1] + i) : V1();
        V2 x2 = MAP_INPUTS > 2 ? load((const X2*)in.at[2] + i) : V2();
        V3 x3 = MAP_INPUTS > 3 ? load((const X3*)in.at[3] + i) : V3();
        one(out, i, x0, x1, x2, x3, s, e);
    }
}

// The innermost dimension is a multiple of eight, along which every operand is dense or the same number: eight to a
// thread, and one division by each dimension for all of them.
extern "C" __global__ void __launch_bounds__(256)
map_runs(Outputs out, Inputs in, Scalars s, Effects e, Shape shape, u32 count) {
    if (stopped(e.halt)) return;
    u32 first = (blockIdx.x * 256 + threadIdx.x) * 8;
    if (first >= count) return;
    u32 at[4];
    place(shape, first, at);
    V0 x0[8] = {};
    V1 x1[8] = {};
    V2 x2[8] = {};
    V3 x3[8] = {};
    if (MAP_INPUTS > 0) load_run((const X0*)in.at[0] + at[0], shape.strides[0][0], x0);
    if (MAP_INPUTS > 1) load_run((const X1*)in.at[1] + at[1], shape.strides[1][0], x1);
    if (MAP_INPUTS > 2) load_run((const X2*)in.at[2] + at[2], shape.strides[2][0], x2);
    if (MAP_INPUTS > 3) load_run((const X3*)in.at[3] + at[3], shape.strides[3][0], x3);
    eight(out, first, x0, x1, x2, x3, s, e);
}

// Any strides: one element to a thread.
extern "C" __global__ void __launch_bounds__(256)
map_strided(Outputs out, Inputs in, Scalars s, Effects e, Shape shape, u32 count) {
    if (stopped(e.halt)) return;
    u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= count) return;
    u32 at[4];
    place(shape, i, at);
    V0 x0 = MAP_INPUTS > 0 ? load((const X0*)in.at[0] + at[0]) : V0();
    V1 x1 = MAP_INPUTS > 1 ? load((const X1*)in.at[1] + at[1]) : V1();
    V2 x2 = MAP_INPUTS > 2 ? load((const X2*)in.at[2] + at[2]) : V2();
    V3 x3 = MAP_INPUTS > 3 ? load((const X3*)in.at[3] + at[3]) : V3();
    one(out, i, x0, x1, x2, x3, s, e);
}
