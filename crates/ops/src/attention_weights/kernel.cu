// Weights of an attention on request: exp(score - lse), from the log-sum-exp that the attention kept, or read off the choice
// of the hard kinds. A thread makes the score of a pair by one chain, so that it depends on nothing but the pair.

#include "pairs.cuh"

#define THREADS 256u
#define KERNEL extern "C" __global__ void __launch_bounds__(THREADS)
#define MINE (blockIdx.x * THREADS + threadIdx.x)
#define WARP (MINE / 32)
#define LANE (threadIdx.x % 32)
#define MOST_LISTED 128
#define BLOCK 64u

// The log-sum-exp of each row, or its choice where the kind is hard: [B T H].
union Held {
    const f32* lse;
    const i32* choice;
};

DEVICE u64 row_of(const Sizes& n, u32 b, u32 t, u32 h) { return (u64(b) * n.t + t) * n.h + h; }

// The score of a pair, minus infinity where it is not allowed.
DEVICE f32 score_at(const Operands& o, const Sizes& n, const Factors& x, const Streams& streams, u32 b, u32 h, u32 t, u32 s) {
    if (!key_exists(o, n, b, s, key_end(o, n, b))) return -INFINITY_F32;
    int query = query_at(o, n, b, t), key = key_at(o, n, b, s);
    Range range = range_of(n, query);
    if (key < range.low || key > range.high || !pair_allowed(o, n, b, h, t, s)) return -INFINITY_F32;
    const Q* left = o.query + row_of(n, b, t, h) * n.d;
    const K* right = o.key + ((u64(source_row(o, n, b, s)) * n.s + s) * n.g + h / (n.h / n.g)) * n.d;
    f32 dot = 0.0f;
    for (u32 i = 0; i < n.d; i++) dot = fmaf(operand(left + i), operand(right + i), dot);
    return score_of(o, n, x, streams, beta_of(o, x, h), dot, b, h, t, s, query, key);
}
DEVICE f32 weight_of(f32 score, f32 lse) { return score == -INFINITY_F32 ? 0.0f : expf(score - lse); }

DEVICE f32 weight_at(const Operands& o, const Sizes& n, const Factors& x, const Streams& streams, Held held, u32 b, u32 h,
                     u32 t, u32 s) {
    u64 row = row_of(n, b, t, h);
    if (CHOOSES) return held.choice[row] == i32(s) ? 1.0f : 0.0f;
    return weight_of(score_at(o, n, x, streams, b, h, t, s), held.lse[row]);
}

// Some of the queries or of the keys: `count` of `total` that were asked for, from `offset` on. They are those from `first`
// on, or listed.
struct Picked {
    u32 total, offset, count, first, listed, list[MOST_LISTED];
};
DEVICE u32 picked(const Picked& p, u32 i) { return p.listed ? p.list[i] : p.first + i; }

// y[B H queries keys]
KERNEL pick(Operands o, Sizes n, Factors x, f32* y, Held held, Picked queries, Picked keys) {
    u32 item = MINE;
    u32 key = item % keys.count, rest = item / keys.count, query = rest % queries.count;
    u32 own = rest / queries.count;
    if (own >= n.b * n.h) return;
    Streams streams = streams_of(o, n);
    u32 t = picked(queries, query), s = picked(keys, key);
    u64 at = (u64(own) * queries.total + queries.offset + query) * keys.total + keys.offset + key;
    y[at] = weight_at(o, n, x, streams, held, own / n.h, own % n.h, t, s);
}

// y[B H S]: over all queries, in blocks.
KERNEL sum_columns(Operands o, Sizes n, Factors x, f32* y, Held held) {
    u32 item = MINE, s = item % n.s, own = item / n.s;
    if (own >= n.b * n.h) return;
    Streams streams = streams_of(o, n);
    f32 total = 0.0f;
    for (u32 first = 0; first < n.t; first += BLOCK) {
        f32 part = 0.0f;
        for (u32 t = first; t < min(first + BLOCK, n.t); t++)
            part += weight_at(o, n, x, streams, held, own / n.h, own % n.h, t, s);
        total += part;
    }
    y[item] = total;
}

// y[B T H]: Σ w (lse - score). A warp has a row.
KERNEL entropy(Operands o, Sizes n, Factors x, f32* y, Held held) {
    u32 row = WARP, h = row % n.h, t = row / n.h % n.t, b = row / n.h / n.t;
    if (b >= n.b) return;
    Streams streams = streams_of(o, n);
    f32 sum = 0.0f;
    for (u32 s = LANE; !CHOOSES && s < n.s; s += 32) {
        f32 score = score_at(o, n, x, streams, b, h, t, s), weight = weight_of(score, held.lse[row]);
        if (weight != 0.0f) sum += weight * (held.lse[row] - score);
    }
    sum = reduce_warp<Sum>(sum);
    if (LANE == 0) y[row] = sum;
}

// y[B T H k] and their keys: the largest weights, of equal scores that of the lowest key first. A warp has a row, and looks
// through its keys once for each.
KERNEL largest(Operands o, Sizes n, Factors x, f32* y, i32* indices, Held held, u32 k) {
    u32 row = WARP, h = row % n.h, t = row / n.h % n.t, b = row / n.h / n.t;
    if (b >= n.b) return;
    Streams streams = streams_of(o, n);
    f32 last = INFINITY_F32;
    u32 last_key = 0xffffffffu;
    for (u32 i = 0; i < k; i++) {
        f32 best = -INFINITY_F32;
        u32 best_key = 0xffffffffu;
        if (CHOOSES) {
            if (i == 0 && held.choice[row] >= 0) best = 0.0f, best_key = u32(held.choice[row]);
        } else {
            for (u32 s = LANE; s < n.s; s += 32) {
                f32 score = score_at(o, n, x, streams, b, h, t, s);
                bool after = i == 0 || score < last || (score == last && s > last_key);
                if (after && score > best) best = score, best_key = s;
            }
#pragma unroll
            for (int distance = 16; distance > 0; distance /= 2) {
                f32 score = __shfl_xor_sync(0xffffffffu, best, distance);
                u32 key = __shfl_xor_sync(0xffffffffu, best_key, distance);
                if (score > best || (score == best && key < best_key)) best = score, best_key = key;
            }
        }
        bool found = best_key != 0xffffffffu;
        if (LANE == 0) {
            u64 at = u64(row) * k + i;
            if (y) y[at] = !found ? 0.0f : CHOOSES ? 1.0f : weight_of(best, held.lse[row]);
            if (indices) indices[at] = found ? i32(best_key) : -1;
        }
        last = found ? best : -INFINITY_F32, last_key = best_key;
    }
}

// Tells of keys that come from a row which is none, whoever looks at them.
KERNEL check_rows(Operands o, Sizes n, Factors) {
    u32 item = MINE;
    if (item < n.b * n.s) key_exists(o, n, item / n.s, item % n.s, key_end(o, n, item / n.s));
}
