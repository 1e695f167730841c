// What learned parameters of the scores need around the other kernels: a table laid out by distance before them, and the sum
// of the parts of a gradient after them. Neither reads queries, keys or values, nor asks what they are made of.

#include "pairs.cuh"

#define THREADS 256u
#define KERNEL extern "C" __global__ void __launch_bounds__(THREADS)

// The bias by distance and the rows of the table, from −R to R.
KERNEL lay_out_table(Operands o, Sizes n, Factors x) {
    u32 at = blockIdx.x * THREADS + threadIdx.x, most = 2 * n.radius;
    if (at > most) return;
    u32 row = at;
    if (n.ways != 0) {
        bool ahead = at > n.radius;
        u32 far = ahead ? at - n.radius : n.radius - at, side = n.ways == 2 ? n.table_rows / 2 : n.table_rows;
        if (n.ways == 1 && ahead) far = 0;
        u32 exact = side / 2, first = n.ways == 2 && ahead ? side : 0;
        u32 bucket = far;
        if (far >= exact) {
            f32 ratio = f32(far) / f32(exact);
            f32 steps = f32(log(double(ratio))) / x.span * f32(side - exact);
            bucket = min(exact + u32(steps), side - 1);
        }
        row = first + bucket;
    }
    o.rows_of_table[at] = row;
    for (u32 h = 0; h < n.h; h++) o.by_distance[u64(h) * (most + 1) + at] = o.bias[u64(row) * n.h + h];
}

// to[column] = the sum of `count` rows of parts [count, width], in f64 and one order. A block has a column.
KERNEL sum_parts(f32* to, const f32* parts, u64 count, u32 width) {
    __shared__ double room[THREADS];
    double sum = 0.0;
    for (u64 i = threadIdx.x; i < count; i += THREADS) sum += parts[i * width + blockIdx.x];
    room[threadIdx.x] = sum;
    for (u32 half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) room[threadIdx.x] += room[threadIdx.x + half];
    }
    if (threadIdx.x == 0) to[blockIdx.x] = f32(room[0]);
}
