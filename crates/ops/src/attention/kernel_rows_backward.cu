// The backward of attention in true f32 for every form and every size: `row_terms` (or `row_terms_of_choice`), then
// `query_gradient`, `key_gradient`, `value_gradient`. Nothing is added atomically: where sums cross blocks, `sum_parts` adds
// them in order.

#include "score_gradients.cuh"

// What the score gradients of a row are taken from: Σ w·dw, which is dy·y, less the gradient of lse. A thread has a row, and
// sums in the order of `value_dots`: where all weight is on one key, nothing is left to round.
KERNEL row_terms(Sizes n, f32* terms, const Q* dy, const Q* y, const f32* dlse) {
    u64 row = u64(blockIdx.x) * THREADS + threadIdx.x;
    if (row >= u64(n.b) * n.t * n.h) return;
    f32 sum = 0.0f;
    if (KIND != KIND_HARD)
        for (u32 e = 0; e < n.e; e++) sum = fmaf(operand(dy + row * n.e + e), load(y + row * n.e + e), sum);
    terms[row] = dlse ? sum - dlse[row] : sum;
}

#if CHOOSES && KIND != KIND_HARD
// The same as `row_terms` for the hard kinds with a soft gradient: taken from the chosen key's dw on, so that where all
// weight is on that key nothing is left to round.
KERNEL row_terms_of_choice(Operands o, Sizes n, Factors x, f32* terms, const Q* dy, const f32* lse, const int* choice,
                           const f32* dlse) {
    __shared__ f32 left[DEPTH][PITCH], right[DEPTH][PITCH];
    Block block = block_of(n.h, TILES(n.t), 1);
    Streams streams = streams_of(o, n);
    f32 beta = beta_of(o, x, block.h);
    Place p;
    at_queries(p, o, n, block.b, block.h, block.tile * TILE);
    f32 own_lse[4], from[4], sum[4];
    load_rows(own_lse, lse, n, p);
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        u32 t = p.first_query + 4 * MY_Y + i;
        int chosen = t < n.t ? choice[row_index(n, p, i)] : -1;
        from[i] = 0.0f, sum[i] = 0.0f;
        if (chosen < 0) continue;
        // In the order of `value_dots`, so that the chosen key's own difference is nothing.
        p.first_key = u32(chosen);
        const V* value = key_side(o.value, o, n, p, n.e, 0);
        for (u32 e = 0; e < n.e; e++) from[i] = fmaf(operand(dy + row_index(n, p, i) * n.e + e), operand(value + e), from[i]);
        int key = key_at(o, n, p.b, u32(chosen));
        if (DROPOUT) from[i] *= is_kept(n, streams, p.b, p.h, p.query[i], key) ? x.growth : 0.0f;
    }
    for (u32 first = 0; first < p.end; first += TILE) {
        if (!at_keys(p, o, n, first, ANY_ROW)) continue;
        Micro dot, gradient;
        dots(dot, o, n, p, left, right);
        value_dots(gradient, o, n, p, dy, left, right);
        u32 kept = kept_of_tile(o, n, streams, p);
        EACH(i, j) {
            if (!p.allowed[i][j]) continue;
            f32 weight = expf(final_score(o, n, x, streams, p, beta, dot[i][j], i, j) - own_lse[i]);
            sum[i] = fmaf(weight, grown(x, kept, i, j, gradient[i][j]) - from[i], sum[i]);
        }
    }
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        f32 total = from[i] + reduce_keys<Sum>(sum[i]);
        if (MY_X == 0 && p.first_query + 4 * MY_Y + i < n.t) {
            u64 row = row_index(n, p, i);
            terms[row] = dlse ? total - dlse[row] : total;
        }
    }
}
#endif

// A row's part of a gradient Σ g·x, where g are score gradients and x belongs to the pair. The g of a row sum to `whole`,
// but for what was rounded in lse and in the row's term, and that rest meets the mean of x, which may be large where the
// differences that matter are small: so it is taken away with the mean.
struct Part {
    f32 sum = 0.0f, mean = 0.0f;
    __device__ void add(f32 gradient, f32 weight, f32 x) { sum = fmaf(gradient, x, sum), mean = fmaf(weight, x, mean); }
    __device__ f32 of_row(f32 all, f32 whole) const {
        f32 total = reduce_keys<Sum>(sum), middle = reduce_keys<Sum>(mean);
        // A y in bf16 carries more into the term than rounding of f32: the specification keeps that, and so does this.
        return sizeof(Q) == 4 ? fmaf(whole - all, middle, total) : total;
    }
};

// dq, and each row's part of the gradients of the scale and of the slopes where they are asked for.
KERNEL query_gradient(Operands o, Sizes n, Factors x, Q* dq, f32* scale_parts, f32* slope_parts, const Q* dy,
                      const f32* lse, const f32* terms, const f32* dlse) {
    __shared__ f32 left[TILE][PITCH], right[TILE][PITCH];
    Block block = block_of(n.h, TILES(n.t), TILES(n.d));
    Streams streams = streams_of(o, n);
    f32 beta = beta_of(o, x, block.h);
    Place p;
    at_queries(p, o, n, block.b, block.h, block.tile * TILE);
    f32 own_lse[4], own_terms[4], all[4] = {};
    Part for_scale[4], for_slope[4];
    load_rows(own_lse, lse, n, p), load_rows(own_terms, terms, n, p);
    Micro sums;
    clear(sums);
    for (u32 first = 0; first < p.end; first += TILE) {
        if (!at_keys(p, o, n, first, ANY_ROW)) continue;
        Micro dot, gradient, weight;
        score_gradients(gradient, dot, o, n, x, streams, p, beta, dy, own_lse, own_terms, left, right, &weight);
        __syncthreads();
        EACH(i, j) {
            all[i] += gradient[i][j];
            f32 slope = slope_of(x, beta, dot[i][j]);
            if (scale_parts) for_scale[i].add(gradient[i][j], weight[i][j], slope * dot[i][j]);
            if (BIAS == BIAS_ALIBI && p.allowed[i][j])
                for_slope[i].add(gradient[i][j], weight[i][j], -f32(away(p.query[i], p.key[j])));
            left[4 * MY_X + j][4 * MY_Y + i] = beta * gradient[i][j] * slope;
        }
        load_straight(right, block.chunk * TILE, n.d, [&](u32 i) { return key_side(o.key, o, n, p, n.d, i); });
        __syncthreads();
        multiply(sums, left, right, TILE);
    }
    EACH(i, j) {
        u32 column = block.chunk * TILE + 4 * MY_X + j;
        if (p.first_query + 4 * MY_Y + i < n.t && column < n.d) store(dq + row_index(n, p, i) * n.d + column, sums[i][j]);
    }
    if (!scale_parts && !slope_parts) return;
    f32 own_dlse[4] = {};
    if (dlse) load_rows(own_dlse, dlse, n, p);
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        f32 got = reduce_keys<Sum>(all[i]), whole = NOISY ? own_dlse[i] / x.temperature : own_dlse[i];
        f32 scale = for_scale[i].of_row(got, whole), slope = for_slope[i].of_row(got, whole);
        if (block.chunk == 0 && MY_X == 0 && p.first_query + 4 * MY_Y + i < n.t) {
            if (scale_parts) scale_parts[row_index(n, p, i)] = scale;
            if (slope_parts) slope_parts[row_index(n, p, i)] = slope;
        }
    }
}

// The gradient of keys (VALUES false) or values for one row of the key/value batch and one key/value head: a sum over the
// examples that read the row, the heads that share it, and the queries, in this order.
template <bool VALUES, class T>
DEVICE void gradient_of_keys(const Operands& o, const Sizes& n, const Factors& x, T* to, u32 width, const Q* dy,
                             const f32* lse, const f32* terms, const int* choice, f32 (*left)[PITCH], f32 (*right)[PITCH]) {
    Block block = block_of(n.g, TILES(n.s), TILES(width));
    u32 row = block.b, share = n.h / n.g, first_key = block.tile * TILE;
    Streams streams = streams_of(o, n);
    Micro sums;
    clear(sums);
    bool picked = HAS(o.key_row);
    for (u32 b = picked ? 0 : row; b < (picked ? n.b : min(row + 1, n.b)); b++) {
        for (u32 h = block.h * share; h < (block.h + 1) * share; h++) {
            f32 beta = beta_of(o, x, h);
            for (u32 first_query = 0; first_query < n.t; first_query += TILE) {
                Place p;
                at_queries(p, o, n, b, h, first_query);
                if (!at_keys(p, o, n, first_key, row)) continue;
                f32 own_lse[4];
                load_rows(own_lse, lse, n, p);
                Micro dot, weight;
                if (VALUES) {
                    if (!CHOOSES) dots(dot, o, n, p, left, right);
                    u32 kept = kept_of_tile(o, n, streams, p);
                    EACH(i, j) {
                        weight[i][j] = 0.0f;
                        if (!p.allowed[i][j]) continue;
                        if (CHOOSES) weight[i][j] = choice[row_index(n, p, i)] == int(first_key + 4 * MY_X + j) ? 1.0f : 0.0f;
                        else weight[i][j] = expf(final_score(o, n, x, streams, p, beta, dot[i][j], i, j) - own_lse[i]);
                        weight[i][j] = grown(x, kept, i, j, weight[i][j]);
                    }
                } else {
                    f32 own_terms[4];
                    load_rows(own_terms, terms, n, p);
                    score_gradients(weight, dot, o, n, x, streams, p, beta, dy, own_lse, own_terms, left, right);
                    EACH(i, j) weight[i][j] *= beta * slope_of(x, beta, dot[i][j]);
                }
                __syncthreads();
                // The threads of a product have rows where a tile has queries: here these are keys.
                EACH(i, j) left[4 * MY_Y + i][4 * MY_X + j] = weight[i][j];
                if (VALUES) load_straight(right, block.chunk * TILE, width, [&](u32 i) { return query_side(dy, n, p, width, i); });
                else load_straight(right, block.chunk * TILE, width, [&](u32 i) { return query_row(o, n, p, i); });
                __syncthreads();
                multiply(sums, left, right, TILE);
            }
        }
    }
    EACH(i, j) {
        u32 s = first_key + 4 * MY_Y + i, column = block.chunk * TILE + 4 * MY_X + j;
        if (s < n.s && column < width) store(to + ((u64(row) * n.s + s) * n.g + block.h) * width + column, sums[i][j]);
    }
}
KERNEL key_gradient(Operands o, Sizes n, Factors x, K* dk, const Q* dy, const f32* lse, const f32* terms) {
    __shared__ f32 left[TILE][PITCH], right[TILE][PITCH];
    gradient_of_keys<false>(o, n, x, dk, n.d, dy, lse, terms, nullptr, left, right);
}
KERNEL value_gradient(Operands o, Sizes n, Factors x, V* dv, const Q* dy, const f32* lse, const int* choice) {
    __shared__ f32 left[TILE][PITCH], right[TILE][PITCH];
    gradient_of_keys<true>(o, n, x, dv, n.e, dy, lse, nullptr, choice, left, right);
}
