// Dropout: eight channels of a row to a thread, which are two draws. X is the type in memory.

#include "prelude.cuh"

extern "C" __global__ void __launch_bounds__(256)
dropout(X* y, const X* x, const i32* random, const i32* position, u64 name_hash, u32 rows, u32 width, u32 middle,
        u32 length, u32 rest, u32 threshold, f32 scale, u32 wide) {
    u32 groups = (width + 7) / 8;
    u32 i = blockIdx.x * 256 + threadIdx.x;
    u32 row = i / groups, first = i % groups * 8;
    if (row >= rows) return;
    // Where positions are given, T counts as they say; axes between T and C subdivide a position.
    u32 example = row / middle, at = row % middle;
    if (position) at = u32(position[example * length + at / rest]) * rest + at % rest;
    u64 seed = u64(u32(random[1])) << 32 | u32(random[0]), step = u64(u32(random[3])) << 32 | u32(random[2]);
    Random stream = random_stream(seed, step, name_hash);
    example += u32(random[4]);
    Draws draws[2];
    draws[0] = random_block(stream, example, at, first / 4);
    draws[1] = random_block(stream, example, at, first / 4 + 1);
    x += u64(row) * width + first, y += u64(row) * width + first;
    if (wide) {
        f32 values[8];
        load8(x, values);
#pragma unroll
        for (int j = 0; j < 8; j++) values[j] = draws[j / 4].word[j % 4] >= threshold ? values[j] * scale : 0.0f;
        store8(y, values);
        return;
    }
#pragma unroll
    for (int j = 0; j < 8; j++) {
        if (first + j < width) store(y + j, draws[j / 4].word[j % 4] >= threshold ? load(x + j) * scale : 0.0f);
    }
}
