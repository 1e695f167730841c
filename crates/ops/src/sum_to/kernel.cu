// Sums over axes in a fixed order that depends on sizes alone. What is summed is cut into parts of `length`; where there are
// several, their sums are summed in a second launch. X and Y are the types in memory.

#include "row.cuh"

// Groups of axes, from the outermost to the innermost: sizes and how far apart neighbours lie.
struct Axes {
    u32 count, dims[6], strides[6];
};

DEVICE u64 offset(const Axes& axes, u32 flat) {
    u64 at = 0;
    for (int d = int(axes.count) - 1; d > 0; d--) {
        u32 next = flat / axes.dims[d];
        at += u64(flat - next * axes.dims[d]) * axes.strides[d];
        flat = next;
    }
    return axes.count > 0 ? at + u64(flat) * axes.strides[0] : 0;
}

// As `reduce_team`, in f64: long sums cancel, and memory is what they wait for.
DEVICE double sum_team(double x, double* room) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(0xffffffffu, x, distance);
    if (TEAM == 32) return x;
    __syncthreads();
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
    __syncthreads();
    x = room[0];
#pragma unroll
    for (int warp = 1; warp < THREADS / 32; warp++) x += room[warp];
    return x;
}

// The innermost axes are summed: a team has one part of one result. y[result][part].
KERNEL sum_runs(Y* y, const X* x, Axes kept, Axes summed, u32 results, u32 count, u32 parts, u32 length, f32 terms) {
    __shared__ double room[THREADS / 32];
    u32 item = MY_ROW;
    if (item >= results * parts) return;
    u32 begin = item % parts * length, end = min(begin + length, count);
    const X* from = x + offset(kept, item / parts);
    double sum = 0.0;
    for (u32 s = begin + LANE; s < end; s += TEAM) sum += double(load(from + offset(summed, s)));
    sum = sum_team(sum, room);
    if (LANE == 0) store(y + item, f32(sum) / terms);
}

#define WIDE 32
#define TALL 16

// The innermost axes are kept: a block has WIDE columns of one part, and TALL threads share each. y[part][outer][column].
// With `more`, it is added to what stands there.
extern "C" __global__ void __launch_bounds__(WIDE* TALL)
sum_strips(Y* y, const X* x, Axes kept, Axes summed, u32 width, u32 strips, u32 count, u32 length, u32 more, f32 terms) {
    __shared__ f32 room[TALL][WIDE];
    u32 outer = blockIdx.x / strips, column = blockIdx.x % strips * WIDE + threadIdx.x;
    u32 begin = blockIdx.y * length, end = min(begin + length, count);
    f32 sum = 0.0f;
    if (column < width) {
        const X* from = x + offset(kept, outer) + column;
        for (u32 s = begin + threadIdx.y; s < end; s += TALL) sum += load(from + offset(summed, s));
    }
    room[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
#pragma unroll
    for (int half = TALL / 2; half > 0; half /= 2) {
        if (threadIdx.y < half) room[threadIdx.y][threadIdx.x] += room[threadIdx.y + half][threadIdx.x];
        __syncthreads();
    }
    if (threadIdx.y > 0 || column >= width) return;
    Y* at = y + (u64(blockIdx.y) * (gridDim.x / strips) + outer) * width + column;
    sum = room[0][threadIdx.x] / terms;
    store(at, more ? load(at) + sum : sum);
}
