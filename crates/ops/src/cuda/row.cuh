// Rows of numbers, each with a team of TEAM threads: a warp of a block of 256, or a whole block. The order of a sum depends
// on the row's length alone, so that a row's bits do not depend on its neighbours.

#include "prelude.cuh"

#define THREADS (TEAM == 32 ? 256 : TEAM)
#define KERNEL extern "C" __global__ void __launch_bounds__(THREADS)
// The team's number, which is that of its row, and the thread's place in its team.
#define MY_ROW (blockIdx.x * (THREADS / TEAM) + threadIdx.x / TEAM)
#define LANE (threadIdx.x % TEAM)
#define EIGHT(i) _Pragma("unroll") for (int i = 0; i < 8; i++)
// The parts of eight numbers of a row that a thread has, by where they begin.
#define EACH_PART(from, width) for (u32 from = LANE * 8; from < (width); from += TEAM * 8)

// Eight neighbours of a row; what lies beyond its end is 0. `vectors` says that rows begin at multiples of 16 bytes.
template <class T> DEVICE void load_part(const T* row, u32 from, u32 width, u32 vectors, f32 (&x)[8]) {
    if (vectors && from + 8 <= width) {
        load8(row + from, x);
        return;
    }
    EIGHT(i) x[i] = from + i < width ? load(row + from + i) : 0.0f;
}
template <class T> DEVICE void store_part(T* row, u32 from, u32 width, u32 vectors, const f32 (&x)[8]) {
    if (vectors && from + 8 <= width) {
        store8(row + from, x);
        return;
    }
    EIGHT(i) if (from + i < width) store(row + from + i, x[i]);
}

template <class Op> DEVICE f32 reduce_row(f32 x, f32* room) { return reduce_team<Op, TEAM>(x, room); }
