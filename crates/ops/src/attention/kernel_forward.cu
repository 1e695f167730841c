// The forward of soft attention on tensor cores, one pass over the keys with a running maximum (Dao, "FlashAttention-2",
// 2023). A block has 128 queries of one head, each of its four warps 32 of them; keys and values come in tiles of KEYS,
// the next one copied while this one is used. Scores and sums are f32; q, k, v and the weights that meet v are bf16.
//
// A key's tile depends on its index alone, and a tile that a row may not see changes nothing of the row, not even bits:
// so a row's result depends neither on its neighbours nor on padding.

#include "tiles.cuh"

#define QUERIES 128
#define THREADS 128
#define COLUMNS (KEYS / 8)
// With few columns the queries stay in registers.
#define HOLD_QUERIES (WIDTH <= 64)
// Scores are left as q·k, and the scale, which is above 0, is applied where the maximum is subtracted.
#define RAW_SCORES PLAIN

extern "C" __global__ void __launch_bounds__(THREADS, 2)
attend(Operands o, Sizes n, Factors x, Q* y, f32* lse, int* choice) {
    extern __shared__ uint4 room[];
    u16* queries = (u16*)room;
    u16* keys = queries + QUERIES * PITCH;     // two tiles
    u16* values = keys + 2 * KEYS * PITCH;     // two tiles
    u32 tiles = (n.t + QUERIES - 1) / QUERIES;
    // The tiles with the most keys first, so that no long one is left at the end.
    u32 tile = n.after == 0 ? tiles - 1 - blockIdx.x % tiles : blockIdx.x % tiles;
    u32 h = blockIdx.x / tiles % n.h, b = blockIdx.x / tiles / n.h, group = h / (n.h / n.g);
    u32 first_query = tile * QUERIES, own_query = first_query + WARP * 32;
    u32 span_first, end;
    key_span(o, n, b, first_query, QUERIES, span_first, end);
    u32 exist = key_end(o, n, b);
    u32 first = span_first / KEYS * KEYS;

    Streams streams = streams_of(o, n);
    f32 beta = beta_of(o, x, h), scale = beta * LOG2_E;
    // This thread has four queries: the index of one, and its position.
    auto asker = [&](u32 r) { return own_query + r / 2 * 16 + r % 2 * 8 + LANE / 4; };
    auto position = [&](u32 r) { return PLAIN ? int(asker(r)) : query_at(o, n, b, min(asker(r), n.t - 1)); };

    stage_queries<QUERIES, THREADS>(queries, o.query, n, b, h, first_query);
    if (first < end) {
        stage_keys<KEYS, THREADS>(keys, o.key, o, n, b, group, first, exist);
        stage_keys<KEYS, THREADS>(values, o.value, o, n, b, group, first, exist);
    }
    end_of_copies();

    f32 sums[2][WIDTH / 8][4] = {};
    f32 most[4], total[4];
#pragma unroll
    for (u32 r = 0; r < 4; r++) most[r] = -INFINITY_F32, total[r] = 0.0f;
    u32 held[2][HOLD_QUERIES ? WIDTH / 16 : 1][4];
    if (HOLD_QUERIES) {
        wait_for_copies<0>();
        __syncthreads();
#pragma unroll
        for (u32 m = 0; m < 2; m++)
#pragma unroll
            for (u32 k = 0; k < WIDTH / 16; k++)
                load_tiles(held[m][HOLD_QUERIES ? k : 0], left_at(queries, WARP * 32 + m * 16, k * 16));
    }

    for (u32 turn = 0; first < end; first += KEYS, turn ^= 1) {
        wait_for_copies<0>();
        __syncthreads();  // this tile is here, and everybody is done with the other one
        if (first + KEYS < end) {
            stage_keys<KEYS, THREADS>(keys + (turn ^ 1) * KEYS * PITCH, o.key, o, n, b, group, first + KEYS, exist);
            stage_keys<KEYS, THREADS>(values + (turn ^ 1) * KEYS * PITCH, o.value, o, n, b, group, first + KEYS, exist);
        }
        end_of_copies();
        const u16* own_keys = keys + turn * KEYS * PITCH;
        const u16* own_values = values + turn * KEYS * PITCH;

        // Which pairs are allowed: one bit for each of this thread's.
        u64 allowed = ~0ull;
        bool whole = all_allowed(o, n, own_query, 32, first, KEYS, exist);
        if (!whole) {
            allowed = 0;
#pragma unroll (PLAIN ? 2 : 1)
            for (u32 m = 0; m < 2; m++)
#pragma unroll (PLAIN ? COLUMNS : 1)
                for (u32 c = 0; c < COLUMNS; c++)
#pragma unroll
                    for (u32 i = 0; i < 4; i++) {
                        u32 s = first + c * 8 + LANE % 4 * 2 + i % 2;
                        u64 bit = is_allowed(o, n, b, h, asker(m * 2 + i / 2), position(m * 2 + i / 2), s, exist);
                        allowed |= bit << ((m * COLUMNS + c) * 4 + i);
                    }
            if (!__any_sync(FULL_WARP, allowed != 0)) continue;
        }

        f32 scores[2][COLUMNS][4] = {};
#pragma unroll
        for (u32 k = 0; k < WIDTH / 16; k++) {
            u32 left[2][4];
#pragma unroll
            for (u32 m = 0; m < 2; m++) {
                if (HOLD_QUERIES) {
#pragma unroll
                    for (u32 i = 0; i < 4; i++) left[m][i] = held[m][HOLD_QUERIES ? k : 0][i];
                } else {
                    load_tiles(left[m], left_at(queries, WARP * 32 + m * 16, k * 16));
                }
            }
#pragma unroll
            for (u32 c = 0; c < COLUMNS; c += 2) {
                u32 right[4];
                load_tiles(right, turned_at(own_keys, c * 8, k * 16));
#pragma unroll
                for (u32 m = 0; m < 2; m++) {
                    multiply_tile(scores[m][c], left[m], right[0], right[1]);
                    multiply_tile(scores[m][c + 1], left[m], right[2], right[3]);
                }
            }
        }

        // Scores in units of log 2, or as they are: see RAW_SCORES. What is not allowed is -infinity.
#pragma unroll
        for (u32 m = 0; m < 2; m++)
#pragma unroll
            for (u32 c = 0; c < COLUMNS; c++)
#pragma unroll
                for (u32 i = 0; i < 4; i++) {
                    f32& score = scores[m][c][i];
                    bool in = whole || (allowed >> ((m * COLUMNS + c) * 4 + i) & 1);
                    if (!RAW_SCORES && in) {
                        u32 s = first + c * 8 + LANE % 4 * 2 + i % 2, r = m * 2 + i / 2;
                        score = score_of_two(o, n, beta, scale, score, b, h, asker(r), s, position(r));
                    }
                    if (!in) score = -INFINITY_F32;
                }

        f32 shrink[4], base[4];
        bool changed = false;
#pragma unroll
        for (u32 r = 0; r < 4; r++) {
            f32 large = -INFINITY_F32;
#pragma unroll
            for (u32 c = 0; c < COLUMNS; c++)
                large = fmaxf(large, fmaxf(scores[r / 2][c][r % 2 * 2], scores[r / 2][c][r % 2 * 2 + 1]));
            large = fmaxf(large, __shfl_xor_sync(FULL_WARP, large, 1));
            large = fmaxf(large, __shfl_xor_sync(FULL_WARP, large, 2));
            if (RAW_SCORES) large *= scale;
            large = fmaxf(large, most[r]);
            // A row that has seen no key yet subtracts 0, so that no infinity meets another.
            base[r] = large == -INFINITY_F32 ? 0.0f : large;
            shrink[r] = power_of_two(most[r] - base[r]);
            changed |= shrink[r] != 1.0f;
            most[r] = large;
            total[r] *= shrink[r];
        }
        // Times 1 is nothing, in bits, too.
        if (__any_sync(FULL_WARP, changed)) {
#pragma unroll
            for (u32 m = 0; m < 2; m++)
#pragma unroll
                for (u32 c = 0; c < WIDTH / 8; c++)
#pragma unroll
                    for (u32 i = 0; i < 4; i++) sums[m][c][i] *= shrink[m * 2 + i / 2];
        }
#pragma unroll
        for (u32 k = 0; k < KEYS / 16; k++) {
            u32 weights[2][4];
#pragma unroll
            for (u32 m = 0; m < 2; m++)
#pragma unroll
                for (u32 c = 0; c < 2; c++) {
                    f32(&own)[4] = scores[m][2 * k + c];
#pragma unroll
                    for (u32 i = 0; i < 4; i++) {
                        own[i] = power_of_two(RAW_SCORES ? fmaf(own[i], scale, -base[m * 2 + i / 2]) : own[i] - base[m * 2 + i / 2]);
                        total[m * 2 + i / 2] += own[i];
                    }
                    if (DROPOUT) {
                        u32 s = first + k * 16 + c * 8 + LANE % 4 * 2;
                        u32 kept = kept_four(o, n, streams, b, h, position(m * 2), position(m * 2 + 1), s);
#pragma unroll
                        for (u32 i = 0; i < 4; i++)
                            if (!(kept >> i & 1)) own[i] = 0.0f;
                    }
                    weights[m][2 * c] = round_bf16_pair(own[0], own[1]);
                    weights[m][2 * c + 1] = round_bf16_pair(own[2], own[3]);
                }
#pragma unroll
            for (u32 c = 0; c < WIDTH / 8; c += 2) {
                u32 right[4];
                load_tiles_turned(right, straight_at(own_values, k * 16, c * 8));
#pragma unroll
                for (u32 m = 0; m < 2; m++) {
                    multiply_tile(sums[m][c], weights[m], right[0], right[1]);
                    multiply_tile(sums[m][c + 1], weights[m], right[2], right[3]);
                }
            }
        }
    }
    wait_for_copies<0>();

#pragma unroll
    for (u32 r = 0; r < 4; r++) {
        f32 sum = total[r];
        sum += __shfl_xor_sync(FULL_WARP, sum, 1);
        sum += __shfl_xor_sync(FULL_WARP, sum, 2);
        bool empty = most[r] == -INFINITY_F32;
        f32 inverse = empty ? 0.0f : (DROPOUT ? x.growth : 1.0f) / sum;
        if (asker(r) >= n.t) continue;
        u64 row = (u64(b) * n.t + asker(r)) * n.h + h;
        if (LANE % 4 == 0) {
            if (lse) lse[row] = empty ? -INFINITY_F32 : most[r] * LN_2 + logf(sum);
            if (choice) choice[row] = -1;
        }
#pragma unroll
        for (u32 c = 0; c < WIDTH / 8; c++) {
            f32* own = &sums[r / 2][c][r % 2 * 2];
            if (y) store_pair(y + row * WIDTH + c * 8 + LANE % 4 * 2, own[0] * inverse, own[1] * inverse);
        }
    }
}
