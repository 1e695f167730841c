// The cross-entropy of rows of logits with their targets, and its gradient. X is the type of the logits in memory, and of
// their gradient. A target that is no class is told, and its row left out.

#include "row.cuh"

struct Settings {
    i32 ignored;
    f32 smoothing;
    u64* fault;
    u32* stop;
};

// Whether a row counts.
DEVICE bool is_live(const Settings& s, i32 target, u32 row, u32 width) {
    if (target == s.ignored) return false;
    if (u32(target) < width) return true;
    fault_at(s.fault, s.stop, row, target);
    return false;
}

// loss = log Σ exp(x - most) + most - x[target], smoothed; lse = most + log Σ exp(x - most). Both are 0 for rows that do
// not count.
KERNEL cross_entropy(f32* loss, f32* lse, const X* x, const i32* targets, u32 rows, u32 width, Settings s, u32 vectors) {
    __shared__ f32 room[THREADS / 32];
    u32 row = MY_ROW;
    if (row >= rows) return;  // whole teams leave, so none waits for another
    i32 target = targets[row];
    f32 own_loss = 0.0f, own_lse = 0.0f;
    if (is_live(s, target, row, width)) {
        x += u64(row) * width;
        f32 v[8], most = -INFINITY_F32, sum = 0.0f, below = 0.0f;
        EACH_PART(from, width) {
            load_part(x, from, width, vectors, v);
            EIGHT(i) if (from + i < width) most = Max::join(most, v[i]);
        }
        most = reduce_row<Max>(most, room);
        EACH_PART(from, width) {
            load_part(x, from, width, vectors, v);
            EIGHT(i) if (from + i < width) {
                sum += expf(v[i] - most);
                below += most - v[i];
            }
        }
        sum = reduce_row<Sum>(sum, room);
        if (s.smoothing != 0.0f) below = reduce_row<Sum>(below, room) / f32(width);
        f32 sharp = logf(sum), away = most - load(x + target);
        own_loss = s.smoothing == 0.0f ? sharp + away : sharp + (1.0f - s.smoothing) * away + s.smoothing * below;
        own_lse = most + sharp;
    }
    if (LANE == 0) {
        if (loss) loss[row] = own_loss;
        if (lse) lse[row] = own_lse;
    }
}

// dx = dloss (exp(x - lse) - target distribution), 0 for rows that do not count. dx may lie over x.
KERNEL cross_entropy_backward(X* dx, const X* x, const i32* targets, const f32* lse, const f32* dloss, u32 rows, u32 width,
                              Settings s, u32 vectors) {
    u32 row = MY_ROW;
    if (row >= rows) return;
    i32 target = targets[row];
    bool live = is_live(s, target, row, width);
    x += u64(row) * width, dx += u64(row) * width;
    f32 own = lse[row], d = dloss[row], spread = s.smoothing / f32(width);
    EACH_PART(from, width) {
        f32 v[8];
        load_part(x, from, width, vectors, v);
        EIGHT(i) {
            f32 away = expf(v[i] - own) - spread;
            if (from + i == u32(target)) away -= 1.0f - s.smoothing;
            v[i] = live ? d * away : 0.0f;
        }
        store_part(dx, from, width, vectors, v);
    }
}
