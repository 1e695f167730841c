// Sums of columns in a fixed order and without atomics: rows are cut into parts of PART rows, each part is summed by one
// block, and the parts are added one after the other. The order depends on the number of rows alone.
//
// X is the type in memory; sums are f32.

#include "prelude.cuh"

#define WIDE 64
#define TALL 4

// partial[part][column]: the sum of one part's rows. A block has WIDE columns, and TALL threads share each of them.
extern "C" __global__ void __launch_bounds__(WIDE* TALL)
sum_parts(f32* partial, const X* x, u32 rows, u32 width) {
    __shared__ f32 room[TALL][WIDE];
    u32 column = blockIdx.x * WIDE + threadIdx.x;
    u32 begin = blockIdx.y * PART, end = min(begin + PART, rows);
    f32 sum = 0.0f;
    if (column < width) {
        for (u32 row = begin + threadIdx.y; row < end; row += TALL) sum += load(x + u64(row) * width + column);
    }
    room[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || column >= width) return;
#pragma unroll
    for (int i = 1; i < TALL; i++) sum += room[i][threadIdx.x];
    partial[u64(blockIdx.y) * width + column] = sum;
}

// sums[column]: the parts, added in their order.
extern "C" __global__ void __launch_bounds__(256)
join_parts(f32* sums, const f32* partial, u32 parts, u32 width) {
    u32 column = blockIdx.x * 256 + threadIdx.x;
    if (column >= width) return;
    f32 sum = 0.0f;
    for (u32 part = 0; part < parts; part++) sum += partial[u64(part) * width + column];
    sums[column] = sum;
}
