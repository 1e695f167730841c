// The maximum of windows and where it is: ties go to the lowest index, and a NaN is the largest. Which threads look at
// which elements does not matter to the result. X and Y are the types in memory.

#include "prelude.cuh"

// Dimensions from the innermost to the outermost, and how far apart neighbours along each lie.
struct Walk {
    u32 rank;
    u32 dims[6];
    u32 strides[6];
};
DEVICE u32 place(const Walk& walk, u32 i) {
    u32 at = 0;
#pragma unroll
    for (int d = 0; d < 6; d++) {
        if (d == walk.rank) break;
        u32 next = d + 1 < walk.rank ? i / walk.dims[d] : 0;
        at += (i - next * walk.dims[d]) * walk.strides[d];
        i = next;
    }
    return at;
}

#define NOWHERE 0xffffffffu

struct Best {
    f32 value;
    u32 index;
};
// The better of two.
DEVICE Best join(Best a, Best b) {
    bool none_a = a.value != a.value, none_b = b.value != b.value;
    bool same = a.value == b.value || (none_a && none_b);
    bool second = same ? b.index < a.index : b.value > a.value || (none_b && !none_a);
    return second ? b : a;
}
DEVICE Best join_warp(Best best) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        Best other = {__shfl_xor_sync(NOWHERE, best.value, distance), __shfl_xor_sync(NOWHERE, best.index, distance)};
        best = join(best, other);
    }
    return best;
}

// The best of elements first, first + step, ... of the window that begins at x.
DEVICE Best look(const X* x, const Walk& window, u32 count, u32 first, u32 step) {
    Best best = {-INFINITY_F32, NOWHERE};
    for (u32 i = first; i < count; i += step) best = join(best, Best{load(x + place(window, i)), i});
    return best;
}
DEVICE void write(X* most, i32* index, u32 j, Best best) {
    if (most) store(most + j, best.value);
    if (index) index[j] = best.index == NOWHERE ? 0 : i32(best.index);
}

// A thread has a window: neighbours in the result are neighbours in x.
extern "C" __global__ void __launch_bounds__(256)
max_by_thread(X* most, i32* index, const X* x, Walk kept, Walk window, u32 windows, u32 count) {
    u32 j = blockIdx.x * 256 + threadIdx.x;
    if (j >= windows) return;
    write(most, index, j, look(x + place(kept, j), window, count, 0, 1));
}
extern "C" __global__ void __launch_bounds__(256)
max_by_warp(X* most, i32* index, const X* x, Walk kept, Walk window, u32 windows, u32 count) {
    u32 j = blockIdx.x * 8 + threadIdx.x / 32;
    if (j >= windows) return;  // a whole warp leaves
    Best best = join_warp(look(x + place(kept, j), window, count, threadIdx.x % 32, 32));
    if (threadIdx.x % 32 == 0) write(most, index, j, best);
}
extern "C" __global__ void __launch_bounds__(256)
max_by_block(X* most, i32* index, const X* x, Walk kept, Walk window, u32 windows, u32 count) {
    __shared__ Best room[8];
    u32 j = blockIdx.x;
    Best best = join_warp(look(x + place(kept, j), window, count, threadIdx.x, 256));
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int warp = 1; warp < 8; warp++) best = join(best, room[warp]);
    write(most, index, j, best);
}

// dx is dy where the maximum was, and 0 elsewhere: one element to a thread. `kept` leads to the window's result, `within`
// to the place in the window. An index outside of its window is told.
extern "C" __global__ void __launch_bounds__(256)
max_gradient(Y* dx, const X* dy, const i32* index, u64* fault, u32* stop, Walk kept, Walk within, u32 elements, u32 count) {
    u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= elements) return;
    u32 j = place(kept, i), at = place(within, i);
    i32 chosen = index[j];
    if (at == 0 && u32(chosen) >= count) fault_at(fault, stop, j, chosen);
    store(dx + i, chosen == i32(at) ? load(dy + j) : 0.0f);
}
