// Words moved from one place to another, each side with strides of its own: joining, cutting, slices, turned axes.
// Nothing is computed, so words of 1, 2, 4, 8 and 16 bytes serve every type.

#include "prelude.cuh"

// Dimensions from the innermost to the outermost, and how far apart neighbours along each lie, in words.
struct Box {
    u32 rank;
    u32 dims[6];
    u32 to[6];
    u32 from[6];
};

DEVICE void place(const Box& box, u32 i, u32& to, u32& from) {
    to = from = 0;
#pragma unroll
    for (int d = 0; d < 6; d++) {
        if (d == box.rank) break;
        u32 next = d + 1 < box.rank ? i / box.dims[d] : 0;
        u32 here = i - next * box.dims[d];
        i = next;
        to += here * box.to[d], from += here * box.from[d];
    }
}

template <class W> DEVICE void move_words(W* to, const W* from, const Box& box, u32 count) {
    u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= count) return;
    u32 there, here;
    place(box, i, there, here);
    to[there] = from[here];
}

#define MOVE(name, W)                                                                                      \
    extern "C" __global__ void __launch_bounds__(256) name(W* to, const W* from, Box box, u32 count) {     \
        move_words<W>(to, from, box, count);                                                               \
    }
MOVE(move_1, u8)
MOVE(move_2, u16)
MOVE(move_4, u32)
MOVE(move_8, uint2)
MOVE(move_16, uint4)

// Two axes change places: `a` is dense where words come from, `b` where they go. Tiles of 32 by 32 go through shared
// memory, so that both sides are touched in runs. The box has the other axes.
struct Turn {
    u32 a, a_to;
    u32 b, b_from;
};

template <class W> DEVICE void turn_words(W* to, const W* from, const Turn& turn, const Box& box) {
    __shared__ W tile[32][33];
    u32 across = (turn.a + 31) / 32, tiles = across * ((turn.b + 31) / 32);
    u32 other = blockIdx.x / tiles, here = blockIdx.x % tiles;
    u32 a = here % across * 32, b = here / across * 32;
    u32 there, source;
    place(box, other, there, source);
    to += there, from += source;
#pragma unroll
    for (u32 row = threadIdx.y; row < 32; row += 8) {
        if (b + row < turn.b && a + threadIdx.x < turn.a) {
            tile[row][threadIdx.x] = from[(b + row) * turn.b_from + a + threadIdx.x];
        }
    }
    __syncthreads();
#pragma unroll
    for (u32 row = threadIdx.y; row < 32; row += 8) {
        if (a + row < turn.a && b + threadIdx.x < turn.b) {
            to[(a + row) * turn.a_to + b + threadIdx.x] = tile[threadIdx.x][row];
        }
    }
}

#define TURN(name, W)                                                                                      \
    extern "C" __global__ void __launch_bounds__(256) name(W* to, const W* from, Turn turn, Box box) {     \
        turn_words<W>(to, from, turn, box);                                                                \
    }
TURN(turn_1, u8)
TURN(turn_2, u16)
TURN(turn_4, u32)
