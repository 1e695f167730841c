// The losses of some rows of logits and, where they are asked for, the gradients of the logits: one team of threads for each
// row, which it passes over twice. Rows lie `stride` numbers apart. D is the type of the gradients in memory. A target that
// is no class is told, and its row left out.

#include "row.cuh"

struct Operands {
    D* d;          // may lie over the logits
    f32* losses;   // of all rows
    f32* logits;   // of these rows, without the bias
    const f32* bias;
    const i32* targets;
    const f32* scale;
    u64* fault;
    u32* stop;
};
struct Sizes {
    u32 first, rows, width, stride;
    i32 ignored;
    f32 smoothing;
    // Whether gradients are asked for, whether as f32 in the place of the logits as well, and whether the bias is aligned.
    u32 gradients, kept, vectors;
};

DEVICE void load_logits(const Operands& o, const Sizes& n, const f32* row, u32 from, f32 (&x)[8]) {
    load_part(row, from, n.width, 1, x);
    if (o.bias) {
        f32 bias[8];
        load_part(o.bias, from, n.width, n.vectors, bias);
        EIGHT(i) x[i] += bias[i];
    }
}

KERNEL losses(Operands o, Sizes n) {
    __shared__ f32 room[THREADS / 32];
    u32 row = MY_ROW;
    if (row >= n.rows) return;  // whole teams leave, so none waits for another
    i32 target = o.targets[n.first + row];
    bool live = target != n.ignored;
    if (live && u32(target) >= n.width) {
        fault_at(o.fault, o.stop, n.first + row, target);
        live = false;
    }
    f32* logits = o.logits + u64(row) * n.stride;
    f32 v[8], most = -3.402823466e38f, sum = 0.0f, total = 0.0f, loss = 0.0f, factor = 0.0f;
    if (live) {
        // Sums of exponentials stay relative to the largest logit so far. It is never minus infinity, so that logits which
        // are give 0 and not NaN.
        EACH_PART(from, n.width) {
            load_logits(o, n, logits, from, v);
            f32 more = most;
            EIGHT(i) if (from + i < n.width) more = Max::join(more, v[i]);
            sum *= expf(most - more);
            most = more;
            EIGHT(i) if (from + i < n.width) sum += expf(v[i] - most), total += v[i];
        }
        f32 own = most;
        most = reduce_row<Max>(own, room);
        sum = reduce_row<Sum>(sum * expf(own - most), room);
        f32 sharp = logf(sum), away = most - (logits[target] + (o.bias ? o.bias[target] : 0.0f));
        loss = sharp + away;
        if (n.smoothing != 0.0f) {
            f32 below = most - reduce_row<Sum>(total, room) / f32(n.width);
            loss = sharp + (1.0f - n.smoothing) * away + n.smoothing * below;
        }
        factor = o.scale[0] / sum;
    }
    if (LANE == 0) o.losses[n.first + row] = loss;
    if (!n.gradients) return;
    // The loss has read the target's logit: it may be written over now.
    if (TEAM == 32) __syncwarp();
    else __syncthreads();
    f32 spread = o.scale[0] * (n.smoothing / f32(n.width)), peak = o.scale[0] * (1.0f - n.smoothing);
    D* d = o.d + u64(row) * n.stride;
    EACH_PART(from, n.width) {
        load_logits(o, n, logits, from, v);
        EIGHT(i) {
            f32 own = expf(v[i] - most) * factor - spread;
            if (from + i == u32(target)) own -= peak;
            // What stands behind the last class is 0, too.
            v[i] = live && from + i < n.width ? own : 0.0f;
        }
        if (n.kept) store_part(logits, from, n.width, 1, v);
        store_part(d, from, n.stride, 1, v);
    }
}

// loss = scale Σ losses, summed in f64 by one block.
extern "C" __global__ void __launch_bounds__(1024) total_loss(f32* loss, const f32* losses, const f32* scale, u32 rows) {
    __shared__ double room[1024];
    double sum = 0.0;
    for (u32 row = threadIdx.x; row < rows; row += 1024) sum += double(losses[row]);
    room[threadIdx.x] = sum;
    __syncthreads();
    for (u32 half = 512; half > 0; half /= 2) {
        if (threadIdx.x < half) room[threadIdx.x] += room[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) *loss = f32(double(*scale) * room[0]);
}
