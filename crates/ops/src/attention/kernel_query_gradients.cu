// dq of soft attention on tensor cores, and each row's part of the gradients of the scale and of slopes; with it
// `row_products`, which both gradients begin with. A block has 64 * TILES queries of one head, each of its four warps
// 16 * TILES of them; keys and values come in tiles of KEYS, of which a warp takes 32 at a time. The weights are made again
// from lse. Sums are f32 in the order of the keys; score gradients are rounded to bf16 where they meet keys.

#include "tiles.cuh"

#define QUERIES (64 * TILES)
#define THREADS 128
#define PART 32
#define COLUMNS (PART / 8)

// dy·y of each row, less the gradient of lse. A warp has a row.
extern "C" __global__ void __launch_bounds__(256) row_products(Sizes n, f32* terms, const Q* dy, const Q* y, const f32* dlse) {
    u64 row = u64(blockIdx.x) * 8 + threadIdx.x / 32;
    if (row >= u64(n.b) * n.t * n.h) return;
    f32 sum = 0.0f;
#pragma unroll
    for (u32 e = LANE * 2; e < WIDTH; e += 64) {
        sum = fmaf(operand(dy + row * WIDTH + e), load(y + row * WIDTH + e), sum);
        sum = fmaf(operand(dy + row * WIDTH + e + 1), load(y + row * WIDTH + e + 1), sum);
    }
    sum = reduce_warp<Sum>(sum);
    if (LANE == 0) terms[row] = dlse ? sum - dlse[row] : sum;
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
query_gradients(Operands o, Sizes n, Factors x, Q* dq, f32* scale_parts, f32* slope_parts, const Q* dy, const f32* lse,
                const f32* terms) {
    extern __shared__ uint4 room[];
    u16* queries = (u16*)room;
    u16* dys = queries + QUERIES * PITCH;
    u16* keys = dys + QUERIES * PITCH;        // two tiles
    u16* values = keys + 2 * KEYS * PITCH;    // two tiles
    u32 blocks = (n.t + QUERIES - 1) / QUERIES;
    u32 block = n.after == 0 ? blocks - 1 - blockIdx.x % blocks : blockIdx.x % blocks;
    u32 h = blockIdx.x / blocks % n.h, b = blockIdx.x / blocks / n.h, group = h / (n.h / n.g);
    u32 first_query = block * QUERIES, own_query = first_query + WARP * 16 * TILES;
    u32 span_first, end;
    key_span(o, n, b, first_query, QUERIES, span_first, end);
    u32 exist = key_end(o, n, b);
    u32 first = span_first / KEYS * KEYS;

    Streams streams = streams_of(o, n);
    f32 beta = beta_of(o, x, h), scale = beta * LOG2_E;
    // This thread has 2 * TILES queries: the index of one, and its position.
    auto asker = [&](u32 r) { return own_query + r / 2 * 16 + r % 2 * 8 + LANE / 4; };
    f32 own_lse[2 * TILES], own_terms[2 * TILES], for_scale[2 * TILES] = {}, for_slope[2 * TILES] = {};
#pragma unroll
    for (u32 r = 0; r < 2 * TILES; r++) {
        bool there = asker(r) < n.t;
        u64 row = (u64(b) * n.t + asker(r)) * n.h + h;
        own_lse[r] = there ? lse[row] * LOG2_E : 0.0f;
        own_terms[r] = there ? terms[row] : 0.0f;
    }
    auto position = [&](u32 r) { return PLAIN ? int(asker(r)) : query_at(o, n, b, min(asker(r), n.t - 1)); };

    stage_queries<QUERIES, THREADS>(queries, o.query, n, b, h, first_query);
    stage_queries<QUERIES, THREADS>(dys, dy, n, b, h, first_query);
    if (first < end) {
        stage_keys<KEYS, THREADS>(keys, o.key, o, n, b, group, first, exist);
        stage_keys<KEYS, THREADS>(values, o.value, o, n, b, group, first, exist);
    }
    end_of_copies();

    f32 sums[TILES][WIDTH / 8][4] = {};
    for (u32 turn = 0; first < end; first += KEYS, turn ^= 1) {
        wait_for_copies<0>();
        __syncthreads();  // this tile is here, and everybody is done with the other one
        if (first + KEYS < end) {
            stage_keys<KEYS, THREADS>(keys + (turn ^ 1) * KEYS * PITCH, o.key, o, n, b, group, first + KEYS, exist);
            stage_keys<KEYS, THREADS>(values + (turn ^ 1) * KEYS * PITCH, o.value, o, n, b, group, first + KEYS, exist);
        }
        end_of_copies();
#pragma unroll 1
        for (u32 part = 0; part < KEYS; part += PART) {
            const u16* own_keys = keys + (turn * KEYS + part) * PITCH;
            const u16* own_values = values + (turn * KEYS + part) * PITCH;
            u32 first_key = first + part;
            u32 allowed = ~0u;
            bool whole = all_allowed(o, n, own_query, 16 * TILES, first_key, PART, exist);
            if (!whole) {
                allowed = 0;
#pragma unroll (PLAIN ? 2 : 1)
                for (u32 m = 0; m < TILES; m++)
#pragma unroll (PLAIN ? COLUMNS : 1)
                    for (u32 c = 0; c < COLUMNS; c++)
#pragma unroll
                        for (u32 i = 0; i < 4; i++) {
                            u32 s = first_key + c * 8 + LANE % 4 * 2 + i % 2, r = m * 2 + i / 2;
                            u32 bit = is_allowed(o, n, b, h, asker(r), position(r), s, exist);
                            allowed |= bit << ((m * COLUMNS + c) * 4 + i);
                        }
                if (!__any_sync(FULL_WARP, allowed != 0)) continue;
            }

            // q·k and dy·v.
            f32 dots[TILES][COLUMNS][4] = {}, weights[TILES][COLUMNS][4] = {};
#pragma unroll
            for (u32 k = 0; k < WIDTH / 16; k++) {
                u32 left[TILES][4];
#pragma unroll
                for (u32 m = 0; m < TILES; m++) load_tiles(left[m], left_at(queries, (WARP * TILES + m) * 16, k * 16));
#pragma unroll
                for (u32 c = 0; c < COLUMNS; c += 2) {
                    u32 right[4];
                    load_tiles(right, turned_at(own_keys, c * 8, k * 16));
#pragma unroll
                    for (u32 m = 0; m < TILES; m++) {
                        multiply_tile(dots[m][c], left[m], right[0], right[1]);
                        multiply_tile(dots[m][c + 1], left[m], right[2], right[3]);
                    }
                }
#pragma unroll
                for (u32 m = 0; m < TILES; m++) load_tiles(left[m], left_at(dys, (WARP * TILES + m) * 16, k * 16));
#pragma unroll
                for (u32 c = 0; c < COLUMNS; c += 2) {
                    u32 right[4];
                    load_tiles(right, turned_at(own_values, c * 8, k * 16));
#pragma unroll
                    for (u32 m = 0; m < TILES; m++) {
                        multiply_tile(weights[m][c], left[m], right[0], right[1]);
                        multiply_tile(weights[m][c + 1], left[m], right[2], right[3]);
                    }
                }
            }

            // From dy·v to the gradients of the scores.
#pragma unroll
            for (u32 m = 0; m < TILES; m++)
#pragma unroll
                for (u32 c = 0; c < COLUMNS; c++) {
                    u32 kept = 15;
                    if (DROPOUT) {
                        u32 s = first_key + c * 8 + LANE % 4 * 2;
                        kept = kept_four(o, n, streams, b, h, position(m * 2), position(m * 2 + 1), s);
                    }
#pragma unroll
                    for (u32 i = 0; i < 4; i++) {
                        u32 r = m * 2 + i / 2, s = first_key + c * 8 + LANE % 4 * 2 + i % 2;
                        f32 dot = dots[m][c][i], gradient = weights[m][c][i];
                        if (DROPOUT) gradient = kept >> i & 1 ? gradient * x.growth : 0.0f;
                        gradient -= own_terms[r];
                        bool in = whole || (allowed >> ((m * COLUMNS + c) * 4 + i) & 1);
                        f32 weight = 0.0f;
                        if (PLAIN) {
                            weight = power_of_two(fmaf(dot, scale, -own_lse[r]));
                            weight = in ? weight : 0.0f;
                        } else if (in) {
                            weight = power_of_two(score_of_two(o, n, beta, scale, dot, b, h, asker(r), s, position(r)) - own_lse[r]);
                        }
                        gradient *= weight;
                        if (!PLAIN) for_scale[r] = fmaf(gradient, dot, for_scale[r]);
                        if (BIAS == BIAS_ALIBI && in)
                            for_slope[r] = fmaf(-f32(away(position(r), key_at(o, n, b, s))), gradient, for_slope[r]);
                        weights[m][c][i] = gradient * beta;
                    }
                }
#pragma unroll
            for (u32 k = 0; k < PART / 16; k++) {
                u32 left[TILES][4];
#pragma unroll
                for (u32 m = 0; m < TILES; m++)
#pragma unroll
                    for (u32 i = 0; i < 4; i++) {
                        f32* pair = &weights[m][2 * k + i / 2][i % 2 * 2];
                        left[m][i] = round_bf16_pair(pair[0], pair[1]);
                    }
#pragma unroll
                for (u32 c = 0; c < WIDTH / 8; c += 2) {
                    u32 right[4];
                    load_tiles_turned(right, straight_at(own_keys, k * 16, c * 8));
#pragma unroll
                    for (u32 m = 0; m < TILES; m++) {
                        multiply_tile(sums[m][c], left[m], right[0], right[1]);
                        multiply_tile(sums[m][c + 1], left[m], right[2], right[3]);
                    }
                }
            }
        }
    }
    wait_for_copies<0>();

#pragma unroll
    for (u32 r = 0; r < 2 * TILES; r++) {
        f32 for_both[2] = {for_scale[r], for_slope[r]};
#pragma unroll
        for (u32 i = 0; i < 2; i++) {
            for_both[i] += __shfl_xor_sync(FULL_WARP, for_both[i], 1);
            for_both[i] += __shfl_xor_sync(FULL_WARP, for_both[i], 2);
        }
        if (asker(r) >= n.t) continue;
        u64 row = (u64(b) * n.t + asker(r)) * n.h + h;
        if (!PLAIN && scale_parts && LANE % 4 == 0) scale_parts[row] = for_both[0];
        if (BIAS == BIAS_ALIBI && slope_parts && LANE % 4 == 0) slope_parts[row] = for_both[1];
#pragma unroll
        for (u32 c = 0; c < WIDTH / 8; c++)
            store_pair(dq + row * WIDTH + c * 8 + LANE % 4 * 2, sums[r / 2][c][r % 2 * 2], sums[r / 2][c][r % 2 * 2 + 1]);
    }
}
