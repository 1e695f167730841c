// The forward of attention in true f32 for every form and every size: `row_statistics`, then `mix`.

#include "rows.cuh"

// lse, the choice of the hard kinds, and [largest score, 1 / sum] of each row for `mix`.
KERNEL row_statistics(Operands o, Sizes n, Factors x, f32* lse, int* choice, float2* statistics) {
    __shared__ f32 left[DEPTH][PITCH], right[DEPTH][PITCH];
    Block block = block_of(n.h, TILES(n.t), 1);
    Streams streams = streams_of(o, n);
    f32 beta = beta_of(o, x, block.h);
    Place p;
    at_queries(p, o, n, block.b, block.h, block.tile * TILE);
    f32 most[4], sum[4];
    u32 best[4];
#pragma unroll
    for (u32 i = 0; i < 4; i++) most[i] = -INFINITY_F32, sum[i] = 0.0f, best[i] = 0xffffffffu;
    for (u32 first = 0; first < p.end; first += TILE) {
        if (!at_keys(p, o, n, first, ANY_ROW)) continue;
        Micro dot;
        dots(dot, o, n, p, left, right);
        EACH(i, j) {
            if (!p.allowed[i][j]) continue;
            f32 score = final_score(o, n, x, streams, p, beta, dot[i][j], i, j);
            if (best[i] == 0xffffffffu || score > most[i] || score != score) {
                sum[i] = best[i] == 0xffffffffu ? 1.0f : sum[i] * expf(most[i] - score) + 1.0f;
                most[i] = score, best[i] = first + 4 * MY_X + j;
            } else {
                sum[i] += expf(score - most[i]);
            }
        }
    }
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        f32 largest = reduce_keys<Max>(most[i]);
        u32 chosen = most[i] == largest ? best[i] : 0xffffffffu;
#pragma unroll
        for (int distance = 8; distance > 0; distance /= 2)
            chosen = min(chosen, __shfl_xor_sync(0xffffffffu, chosen, distance));
        f32 own = best[i] == 0xffffffffu ? 0.0f : sum[i] * expf(most[i] - largest);
        f32 total = reduce_keys<Sum>(own);
        if (MY_X == 0 && p.first_query + 4 * MY_Y + i < n.t) {
            u64 row = row_index(n, p, i);
            bool empty = chosen == 0xffffffffu && largest == -INFINITY_F32;
            if (lse) lse[row] = empty ? -INFINITY_F32 : largest + logf(total);
            if (choice) choice[row] = CHOOSES && !empty ? int(chosen) : -1;
            statistics[row] = make_float2(largest, empty ? 0.0f : 1.0f / total);
        }
    }
}

// y: the values, mixed by the weights.
KERNEL mix(Operands o, Sizes n, Factors x, Q* y, const int* choice, const float2* statistics) {
    __shared__ f32 left[TILE][PITCH], right[TILE][PITCH];
    Block block = block_of(n.h, TILES(n.t), TILES(n.e));
    Streams streams = streams_of(o, n);
    f32 beta = beta_of(o, x, block.h);
    Place p;
    at_queries(p, o, n, block.b, block.h, block.tile * TILE);
    float2 own[4];
    int chosen[4];
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        bool there = p.first_query + 4 * MY_Y + i < n.t;
        own[i] = there ? statistics[row_index(n, p, i)] : make_float2(0.0f, 0.0f);
        chosen[i] = CHOOSES && there ? choice[row_index(n, p, i)] : -1;
    }
    Micro sums;
    clear(sums);
    for (u32 first = 0; first < p.end; first += TILE) {
        if (!at_keys(p, o, n, first, ANY_ROW)) continue;
        Micro dot;
        if (!CHOOSES) dots(dot, o, n, p, left, right);
        __syncthreads();
        u32 kept = kept_of_tile(o, n, streams, p);
        EACH(i, j) {
            f32 weight = 0.0f;
            if (CHOOSES) {
                weight = chosen[i] == int(first + 4 * MY_X + j) ? 1.0f : 0.0f;
            } else if (p.allowed[i][j]) {
                weight = expf(final_score(o, n, x, streams, p, beta, dot[i][j], i, j) - own[i].x) * own[i].y;
            }
            left[4 * MY_X + j][4 * MY_Y + i] = grown(x, kept, i, j, weight);
        }
        load_straight(right, block.chunk * TILE, n.e, [&](u32 i) { return key_side(o.value, o, n, p, n.e, i); });
        __syncthreads();
        multiply(sums, left, right, TILE);
    }
    EACH(i, j) {
        u32 column = block.chunk * TILE + 4 * MY_X + j;
        if (p.first_query + 4 * MY_Y + i < n.t && column < n.e) store(y + row_index(n, p, i) * n.e + column, sums[i][j]);
    }
}
