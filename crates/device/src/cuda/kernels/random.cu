// The bits that an operation draws for one position of one example: channels 0 to count - 1.

#include "prelude.cuh"

extern "C" __global__ void __launch_bounds__(256)
draw(u32* bits, u64 seed, u64 step, u64 name_hash, u32 example, u32 position, u32 count) {
    u32 block = blockIdx.x * 256 + threadIdx.x;
    if (4 * block >= count) return;
    Draws draws = random_block(random_stream(seed, step, name_hash), example, position, block);
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        if (4 * block + i < count) bits[4 * block + i] = draws.word[i];
    }
}
