// A weight as 8-bit integers, each kept exactly as a number of a product's operand: scale = max |w| / 127 over the weights of
// an output, q = w / scale to the nearest integer, ties to even. f32 divisions, which every machine rounds alike.
//
// W is the type of the weight in memory, Q that of the integers.

#include "row.cuh"

// The weights of an output are a row: a team has it.
KERNEL scales_of_rows(f32* scales, const W* weight, u32 outputs, u32 inputs) {
    __shared__ f32 room[THREADS / 32];
    u32 row = MY_ROW;
    if (row >= outputs) return;
    f32 most = 0.0f;
    for (u32 i = LANE; i < inputs; i += TEAM) most = fmaxf(most, fabsf(load(weight + u64(row) * inputs + i)));
    most = reduce_row<Max>(most, room);
    if (LANE == 0) scales[row] = most / 127.0f;
}

#define WIDE 32
#define TALL 16

// The weights of an output are a column.
extern "C" __global__ void __launch_bounds__(WIDE* TALL)
scales_of_columns(f32* scales, const W* weight, u32 outputs, u32 inputs) {
    __shared__ f32 room[TALL][WIDE];
    u32 column = blockIdx.x * WIDE + threadIdx.x;
    f32 most = 0.0f;
    for (u32 i = threadIdx.y; column < outputs && i < inputs; i += TALL)
        most = fmaxf(most, fabsf(load(weight + u64(i) * outputs + column)));
    room[threadIdx.y][threadIdx.x] = most;
    __syncthreads();
    if (threadIdx.y > 0 || column >= outputs) return;
    for (int i = 1; i < TALL; i++) most = fmaxf(most, room[i][threadIdx.x]);
    scales[column] = most / 127.0f;
}

extern "C" __global__ void __launch_bounds__(256)
quantise(Q* q, const W* weight, const f32* scales, u32 outputs, u32 inputs, u32 by_rows) {
    u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= outputs * inputs) return;
    f32 scale = scales[by_rows ? i / inputs : i % outputs];
    f32 integer = scale == 0.0f ? 0.0f : rintf(load(weight + i) / scale);
    store(q + i, fminf(fmaxf(integer, -127.0f), 127.0f));
}
