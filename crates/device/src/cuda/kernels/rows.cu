// Results that need a whole row: softmax and layer norm. A team of TEAM threads (a warp, or a block of 256) has a row; the
// order of a sum depends on the row's length alone, so a row's bits do not depend on its neighbours.
//
// X and Y are the types in memory.

#include "prelude.cuh"

#define THREADS 256
#define MY_ROW (blockIdx.x * (THREADS / TEAM) + threadIdx.x / TEAM)
#define FIRST (threadIdx.x % TEAM)

// y = softmax(scale * x) along each row.
extern "C" __global__ void __launch_bounds__(THREADS) softmax_rows(Y* y, const X* x, u32 rows, u32 width, f32 scale) {
    __shared__ f32 room[THREADS / 32];
    u32 row = MY_ROW;
    if (row >= rows) return;  // whole teams leave, so none waits for another
    x += u64(row) * width, y += u64(row) * width;
    f32 most = -INFINITY_F32;
    for (u32 i = FIRST; i < width; i += TEAM) most = Max::join(most, load(x + i) * scale);
    most = reduce_team<Max, TEAM>(most, room);
    f32 sum = 0.0f;
    for (u32 i = FIRST; i < width; i += TEAM) sum += expf(load(x + i) * scale - most);
    sum = reduce_team<Sum, TEAM>(sum, room);
    f32 inverse = 1.0f / sum;
    for (u32 i = FIRST; i < width; i += TEAM) store(y + i, expf(load(x + i) * scale - most) * inverse);
}

// y = (x - mean) / sqrt(variance + epsilon) * weight + bias along each row; mean and 1 / sqrt(...) are kept for backward.
extern "C" __global__ void __launch_bounds__(THREADS)
norm_rows(Y* y, f32* kept_mean, f32* kept_scale, const X* x, const f32* weight, const f32* bias, u32 rows, u32 width,
          f32 epsilon) {
    __shared__ f32 room[THREADS / 32];
    u32 row = MY_ROW;
    if (row >= rows) return;
    x += u64(row) * width, y += u64(row) * width;
    f32 sum = 0.0f;
    for (u32 i = FIRST; i < width; i += TEAM) sum += load(x + i);
    f32 mean = reduce_team<Sum, TEAM>(sum, room) / f32(width);
    // The squares of what is left when the mean is gone: no cancellation.
    f32 squares = 0.0f;
    for (u32 i = FIRST; i < width; i += TEAM) {
        f32 away = load(x + i) - mean;
        squares += away * away;
    }
    f32 variance = reduce_team<Sum, TEAM>(squares, room) / f32(width);
    f32 scale = 1.0f / sqrtf(variance + epsilon);
    for (u32 i = FIRST; i < width; i += TEAM) store(y + i, (load(x + i) - mean) * scale * weight[i] + bias[i]);
    if (FIRST == 0) kept_mean[row] = mean, kept_scale[row] = scale;
}
