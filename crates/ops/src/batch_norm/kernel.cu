// Batch norm over columns. Rows are cut into parts of `length`; each part's mean and squares, or sums, are found by one
// block for WIDE columns, and the parts are put together in f64, in a fixed order. X and Y are the types in memory of x and
// of the result, G that of dy.

#include "prelude.cuh"

#define WIDE 32
#define TALL 16
#define KERNEL extern "C" __global__ void __launch_bounds__(WIDE* TALL)
#define COLUMN (blockIdx.x * WIDE + threadIdx.x)

template <class T> DEVICE T sum_columns(T sum, T (*room)[WIDE]) {
    __syncthreads();
    room[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    sum = room[0][threadIdx.x];
#pragma unroll
    for (int i = 1; i < TALL; i++) sum += room[i][threadIdx.x];
    return sum;
}

// ---- Forward ----

// partial[part][3][C]: the mean of a part, Σ (x - mean) and Σ (x - mean)^2.
KERNEL part_statistics(f32* partial, const X* x, u32 rows, u32 width, u32 length) {
    __shared__ f32 room[TALL][WIDE];
    u32 column = COLUMN, begin = blockIdx.y * length, end = min(begin + length, rows);
    bool there = column < width;
    f32 sum = 0.0f, left = 0.0f, squares = 0.0f;
    for (u32 row = begin + threadIdx.y; there && row < end; row += TALL) sum += load(x + u64(row) * width + column);
    f32 mean = sum_columns(sum, room) / f32(end - begin);
    for (u32 row = begin + threadIdx.y; there && row < end; row += TALL) {
        f32 away = load(x + u64(row) * width + column) - mean;
        left += away, squares += away * away;
    }
    left = sum_columns(left, room), squares = sum_columns(squares, room);
    if (!there || threadIdx.y > 0) return;
    f32* to = partial + u64(blockIdx.y) * 3 * width + column;
    to[0] = mean, to[width] = left, to[2 * u64(width)] = squares;
}

struct Statistics {
    f32* known;  // [3 C]: the mean in two parts, 1 / sqrt(variance + epsilon)
    f32* mean;
    f32* rstd;
    f32* running_mean;
    f32* running_variance;
    const f32* old_mean;
    const f32* old_variance;
    const f32* partial;
    const u32* stop;
};

// The statistics of every channel: those of the batch from its parts, or the running ones. Moves these in training.
KERNEL join_statistics(Statistics o, u32 rows, u32 width, u32 parts, u32 length, u32 trains, f32 momentum, f32 epsilon) {
    __shared__ double room[TALL][WIDE];
    u32 column = COLUMN;
    bool there = column < width;
    double mean = 0.0, variance = 0.0;
    if (trains) {
        double sum = 0.0, squares = 0.0;
        for (u32 part = threadIdx.y; there && part < parts; part += TALL) {
            const f32* from = o.partial + u64(part) * 3 * width + column;
            sum += double(min(length, rows - part * length)) * double(from[0]) + double(from[width]);
        }
        mean = sum_columns(sum, room) / double(rows);
        for (u32 part = threadIdx.y; there && part < parts; part += TALL) {
            const f32* from = o.partial + u64(part) * 3 * width + column;
            double count = double(min(length, rows - part * length)), left = double(from[width]);
            double away = double(from[0]) + left / count - mean;
            squares += double(from[2 * u64(width)]) - left * left / count + count * away * away;
        }
        squares = sum_columns(squares, room);
        variance = squares / double(rows);
        if (there && threadIdx.y == 0 && !stopped(o.stop)) {
            double m = double(momentum), unbiased = squares / (double(rows) - 1.0);
            if (o.running_mean) o.running_mean[column] = f32((1.0 - m) * double(o.old_mean[column]) + m * mean);
            if (o.running_variance)
                o.running_variance[column] = f32((1.0 - m) * double(o.old_variance[column]) + m * unbiased);
        }
    } else if (there) {
        mean = double(o.old_mean[column]), variance = double(o.old_variance[column]);
    }
    if (!there || threadIdx.y > 0) return;
    f32 high = f32(mean), rstd = f32(1.0 / sqrt(variance + double(epsilon)));
    o.known[column] = high;
    o.known[width + column] = f32(mean - double(high));
    o.known[2 * u64(width) + column] = rstd;
    if (o.mean) o.mean[column] = high;
    if (o.rstd) o.rstd[column] = rstd;
}

// y = (x - mean) rstd scale + shift. y may lie over x.
extern "C" __global__ void __launch_bounds__(256)
normalize(Y* y, const X* x, const f32* known, const f32* scale, const f32* shift, u32 count, u32 width) {
    u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= count) return;
    u32 column = i % width;
    f32 z = (load(x + i) - known[column] - known[width + column]) * known[2 * u64(width) + column];
    if (scale) z *= scale[column];
    if (shift) z += shift[column];
    store(y + i, z);
}

// ---- Backward ----

// partial[part][3][C]: Σ dy, Σ dy (x - mean) and Σ (x - mean) over a part.
KERNEL part_sums(f32* partial, const G* dy, const X* x, const f32* mean, u32 rows, u32 width, u32 length) {
    __shared__ f32 room[TALL][WIDE];
    u32 column = COLUMN, begin = blockIdx.y * length, end = min(begin + length, rows);
    bool there = column < width;
    f32 plain = 0.0f, across = 0.0f, left = 0.0f, centre = there ? mean[column] : 0.0f;
    for (u32 row = begin + threadIdx.y; there && row < end; row += TALL) {
        u64 at = u64(row) * width + column;
        f32 d = load(dy + at), away = load(x + at) - centre;
        plain += d, across += d * away, left += away;
    }
    plain = sum_columns(plain, room), across = sum_columns(across, room), left = sum_columns(left, room);
    if (!there || threadIdx.y > 0) return;
    f32* to = partial + u64(blockIdx.y) * 3 * width + column;
    to[0] = plain, to[width] = across, to[2 * u64(width)] = left;
}

// coefficients[4][C]: the factor of dx, the mean of dy, what the rounded mean has left, and the factor of x - mean. dscale
// and dshift where they are asked for.
KERNEL join_sums(f32* coefficients, f32* dscale, f32* dshift, const f32* partial, const f32* rstd, const f32* scale,
                 u32 rows, u32 width, u32 parts, u32 trains) {
    __shared__ double room[TALL][WIDE];
    u32 column = COLUMN;
    bool there = column < width;
    double sums[3];
#pragma unroll
    for (int which = 0; which < 3; which++) {
        double sum = 0.0;
        for (u32 part = threadIdx.y; there && part < parts; part += TALL)
            sum += double(partial[(u64(part) * 3 + which) * width + column]);
        sums[which] = sum_columns(sum, room);
    }
    if (!there || threadIdx.y > 0) return;
    double count = double(rows), plain = sums[0], left = trains ? sums[2] / count : 0.0, own = double(rstd[column]);
    double across = (sums[1] - left * plain) * own;
    if (dscale) dscale[column] = f32(across);
    if (dshift) dshift[column] = f32(plain);
    coefficients[column] = f32(own * (scale ? double(scale[column]) : 1.0));
    coefficients[width + column] = f32(plain / count);
    coefficients[2 * u64(width) + column] = f32(left);
    coefficients[3 * u64(width) + column] = f32(own * across / count);
}

// dx = factor (dy - common - (x - mean - left) across); without training factor dy. dx may lie over dy or x.
extern "C" __global__ void __launch_bounds__(256)
input_gradient(Y* dx, const G* dy, const X* x, const f32* mean, const f32* coefficients, u32 count, u32 width, u32 trains) {
    u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= count) return;
    u32 column = i % width;
    f32 d = load(dy + i);
    if (trains) {
        f32 away = load(x + i) - mean[column] - coefficients[2 * u64(width) + column];
        d = d - coefficients[width + column] - away * coefficients[3 * u64(width) + column];
    }
    store(dx + i, d * coefficients[column]);
}
