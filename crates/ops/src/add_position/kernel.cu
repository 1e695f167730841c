// Learned positions: a row of a table added to each row, and the sums of rows by position. X is the type of the rows in
// memory; the table and its gradient are f32.

#include "prelude.cuh"

// y[n] = x[n] + table[position[n]]. A position outside of the table is told, and its row stays without it.
extern "C" __global__ void __launch_bounds__(256)
add_rows(X* y, const X* x, const f32* table, const i32* position, u64* fault, u32* stop, u32 rows, u32 length, u32 width,
         u32 size, u32 wide) {
    u32 groups = wide ? width / 8 : width;
    u32 i = blockIdx.x * 256 + threadIdx.x;
    u32 row = i / groups, column = i % groups * (wide ? 8 : 1);
    if (row >= rows) return;
    i32 at = position ? position[row] : i32(row % length);
    bool inside = u32(at) < size;
    if (!inside && column == 0) fault_at(fault, stop, row, at);
    u64 place = u64(row) * width + column;
    table += u64(inside ? at : 0) * width + column;
    if (wide) {
        f32 values[8], own[8] = {};
        load8(x + place, values);
        if (inside) load8(table, own);
#pragma unroll
        for (int j = 0; j < 8; j++) values[j] += own[j];
        store8(y + place, values);
    } else {
        store(y + place, load(x + place) + (inside ? *table : 0.0f));
    }
}

// sums[p] = the rows of dy whose position is p, in their order, 64 at a time. A block has a position and 256 columns; it
// looks through the list of positions, where one is given.
struct Total {
    f32 total, some;
    u32 many;
    DEVICE void add(Total& t, f32 x) {
        t.some += x;
        if (++t.many == 64) t.total += t.some, t.some = 0.0f, t.many = 0;
    }
};

extern "C" __global__ void __launch_bounds__(256)
sum_rows(f32* sums, const X* dy, const i32* position, u64* fault, u32* stop, u32 rows, u32 length, u32 width, u32 size) {
    __shared__ u32 found[256], counts[8];
    u32 own = blockIdx.x, column = blockIdx.y * 256 + threadIdx.x;
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    bool inside = own < size && column < width;
    Total sum = {0.0f, 0.0f, 0};
    if (!position) {
        if (inside && own < length) {
            for (u32 row = own; row < rows; row += length) Total::add(sum, load(dy + u64(row) * width + column));
        }
    } else {
        for (u32 begin = 0; begin < rows; begin += 256) {
            u32 row = begin + threadIdx.x;
            i32 at = row < rows ? position[row] : 0;
            if (row < rows && u32(at) >= size && blockIdx.x == 0 && blockIdx.y == 0) fault_at(fault, stop, row, at);
            bool mine = row < rows && at == i32(own);
            u32 votes = __ballot_sync(0xffffffffu, mine);
            if (lane == 0) counts[warp] = __popc(votes);
            __syncthreads();
            u32 before = 0, all = 0;
#pragma unroll
            for (u32 i = 0; i < 8; i++) before += i < warp ? counts[i] : 0, all += counts[i];
            if (mine) found[before + __popc(votes & ((1u << lane) - 1))] = row;
            __syncthreads();
            for (u32 i = 0; i < all && inside; i++) Total::add(sum, load(dy + u64(found[i]) * width + column));
        }
    }
    if (inside) sums[u64(own) * width + column] = sum.total + sum.some;
}
