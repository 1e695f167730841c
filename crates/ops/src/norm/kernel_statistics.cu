// What a norm has to know of rows: for each part of `columns` columns its mean, what f32 has rounded away of it, and the sum
// of the squares of the deviations from it. A warp has one part.

#include "row.cuh"

#define MOST 16  // parts have at most 512 columns

KERNEL gather_statistics(f32* statistics, const f32* x, u32 rows, u32 width, u32 parts, u32 columns, u32 centred) {
    __shared__ f32 room[THREADS / 32];
    u32 item = MY_ROW;
    if (item >= rows * parts) return;
    u32 begin = item % parts * columns, count = min(width - begin, columns);
    x += u64(item / parts) * width + begin;
    f32 held[MOST], sum = 0.0f, mean = 0.0f, left = 0.0f, squares = 0.0f;
#pragma unroll
    for (u32 i = 0; i < MOST; i++) {
        u32 at = i * TEAM + LANE;
        held[i] = at < count ? x[at] : 0.0f;
        sum += held[i];
    }
    if (centred) {
        mean = reduce_row<Sum>(sum, room) / f32(count);
        sum = 0.0f;
#pragma unroll
        for (u32 i = 0; i < MOST; i++) {
            if (i * TEAM + LANE < count) sum += held[i] - mean;
        }
        left = reduce_row<Sum>(sum, room) / f32(count);
    }
#pragma unroll
    for (u32 i = 0; i < MOST; i++) {
        f32 away = held[i] - mean - left;
        if (i * TEAM + LANE < count) squares += away * away;
    }
    squares = reduce_row<Sum>(squares, room);
    if (LANE == 0) statistics[3 * item] = mean, statistics[3 * item + 1] = left, statistics[3 * item + 2] = squares;
}
