// Softmax and its logarithm over rows, and their gradients. X, Y and G are the types of x, of the result and of dy in memory.
// A thread reads and writes the same elements of a row in every pass, so that a result may lie over an operand.

#include "row.cuh"

// y = softmax(beta x), or its logarithm: of a row of minus infinity alone zeros, or minus infinity.
KERNEL softmax_rows(Y* y, const X* x, u32 rows, u32 width, f32 beta, u32 log, u32 vectors) {
    __shared__ f32 room[THREADS / 32];
    u32 row = MY_ROW;
    if (row >= rows) return;  // whole teams leave, so none waits for another
    x += u64(row) * width, y += u64(row) * width;
    f32 v[8], most = -INFINITY_F32, sum = 0.0f;
    EACH_PART(from, width) {
        load_part(x, from, width, vectors, v);
        EIGHT(i) if (from + i < width) most = Max::join(most, v[i]);
    }
    most = reduce_row<Max>(most, room);
    f32 shift = most == -INFINITY_F32 ? 0.0f : most;
    EACH_PART(from, width) {
        load_part(x, from, width, vectors, v);
        EIGHT(i) if (from + i < width) sum += expf(beta * (v[i] - shift));
    }
    sum = reduce_row<Sum>(sum, room);
    f32 scale = sum == 0.0f ? 0.0f : 1.0f / sum, log_sum = logf(sum);
    EACH_PART(from, width) {
        load_part(x, from, width, vectors, v);
        EIGHT(i) {
            f32 away = beta * (v[i] - shift);
            v[i] = log ? (sum == 0.0f ? -INFINITY_F32 : away - log_sum) : expf(away) * scale;
        }
        store_part(y, from, width, vectors, v);
    }
}

// dx = beta y (dy - Σ dy y); for the logarithm dx = beta (dy - exp(y) Σ dy), and 0 where all of y is minus infinity.
KERNEL softmax_backward(Y* dx, const X* y, const G* dy, u32 rows, u32 width, f32 beta, u32 log, u32 vectors) {
    __shared__ f32 room[THREADS / 32];
    u32 row = MY_ROW;
    if (row >= rows) return;
    dx += u64(row) * width, y += u64(row) * width, dy += u64(row) * width;
    f32 v[8], d[8], sum = 0.0f, most = -INFINITY_F32;
    EACH_PART(from, width) {
        load_part(y, from, width, vectors, v);
        load_part(dy, from, width, vectors, d);
        EIGHT(i) if (from + i < width) {
            sum += log ? d[i] : d[i] * v[i];
            if (log) most = Max::join(most, v[i]);
        }
    }
    sum = reduce_row<Sum>(sum, room);
    bool dead = log && reduce_row<Max>(most, room) == -INFINITY_F32;
    EACH_PART(from, width) {
        load_part(y, from, width, vectors, v);
        load_part(dy, from, width, vectors, d);
        EIGHT(i) {
            f32 own = log ? d[i] - sum * expf(v[i]) : v[i] * (d[i] - sum);
            d[i] = dead ? 0.0f : beta * own;
        }
        store_part(dx, from, width, vectors, d);
    }
}
