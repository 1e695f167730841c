// Layer norm and RMS norm over rows that stay in registers, PARTS parts of eight numbers to a thread. The mean is taken
// twice: the second pass sums what the first has left, so that rows with a large mean lose nothing.
//
// X, R, H and Y are the types of x, of the residual, of their sum and of the result in memory.

#include "row.cuh"

#define EACH(v) _Pragma("unroll") for (u32 v = 0; v < PARTS; v++)
#define FROM(v) ((v * TEAM + LANE) * 8)

typedef f32 Held[PARTS][8];

struct Operands {
    Y* y;
    H* sum;
    f32* mean;
    f32* rstd;
    const X* x;
    const R* residual;
    const f32* scale;
    const f32* shift;
    const f32* known;  // [rows parts 3], where the product that made x has gathered it
};
struct Sizes {
    u32 rows, width, parts, columns, centred, vectors;
};

// Σ (h - first - left), or the sum of its squares, over a row.
DEVICE f32 deviations(const Held& h, const Sizes& n, f32 first, f32 left, bool squared, f32* room) {
    f32 sum = 0.0f;
    EACH(v) EIGHT(i) {
        f32 away = h[v][i] - first - left;
        if (FROM(v) + i < n.width) sum += squared ? away * away : away;
    }
    return reduce_row<Sum>(sum, room);
}

struct Found {
    f32 first, left, squares;
};

// What was gathered of the parts of a row, put together.
DEVICE Found from_parts(const f32* parts, const Sizes& n) {
    double mean = 0.0, squares = 0.0;
    if (n.centred) {
        for (u32 p = 0; p < n.parts; p++) {
            u32 count = min(n.width - p * n.columns, n.columns);
            mean += double(count) * (double(parts[3 * p]) + double(parts[3 * p + 1]));
        }
        mean /= double(n.width);
    }
    for (u32 p = 0; p < n.parts; p++) {
        squares += double(parts[3 * p + 2]);
        if (n.centred) {
            double away = double(parts[3 * p]) + double(parts[3 * p + 1]) - mean;
            squares += double(min(n.width - p * n.columns, n.columns)) * away * away;
        }
    }
    f32 first = f32(mean);
    return Found{first, f32(mean - double(first)), f32(squares)};
}

KERNEL norm_rows(Operands o, Sizes n, f32 epsilon) {
    __shared__ f32 room[THREADS / 32];
    u32 row = MY_ROW;
    if (row >= n.rows) return;  // whole teams leave, so none waits for another
    u64 start = u64(row) * n.width;
    Held h;
    EACH(v) {
        load_part(o.x + start, FROM(v), n.width, n.vectors, h[v]);
        if (o.residual) {
            f32 more[8];
            load_part(o.residual + start, FROM(v), n.width, n.vectors, more);
            EIGHT(i) h[v][i] += more[i];
        }
        if (o.sum) store_part(o.sum + start, FROM(v), n.width, n.vectors, h[v]);
    }
    Found found = {0.0f, 0.0f, 0.0f};
    if (o.known) {
        found = from_parts(o.known + u64(row) * n.parts * 3, n);
    } else {
        f32 width = f32(n.width);
        if (n.centred) {
            found.first = deviations(h, n, 0.0f, 0.0f, false, room) / width;
            found.left = deviations(h, n, found.first, 0.0f, false, room) / width;
        }
        found.squares = deviations(h, n, found.first, found.left, true, room);
    }
    f32 rstd = 1.0f / sqrtf(found.squares / f32(n.width) + epsilon);
    if (o.y) {
        EACH(v) {
            f32 scale[8], shift[8], y[8];
            if (o.scale) load_part(o.scale, FROM(v), n.width, n.vectors, scale);
            if (o.shift) load_part(o.shift, FROM(v), n.width, n.vectors, shift);
            EIGHT(i) {
                y[i] = (h[v][i] - found.first - found.left) * rstd;
                if (o.scale) y[i] *= scale[i];
                if (o.shift) y[i] += shift[i];
            }
            store_part(o.y + start, FROM(v), n.width, n.vectors, y);
        }
    }
    if (LANE == 0) {
        if (o.mean) o.mean[row] = found.first + found.left;
        if (o.rstd) o.rstd[row] = rstd;
    }
}
