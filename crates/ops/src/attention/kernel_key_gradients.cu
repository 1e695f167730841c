// dk and dv of soft attention on tensor cores. A block has 64 * TILES keys of one key/value head, each of its four warps
// 16 * TILES of them; queries and dy come in tiles of QUERIES, of which a warp takes PART at a time. Everything is turned:
// rows are keys, so that weights and score gradients are left factors where they stand. Each sum runs over the heads that
// share the keys, then over the queries, in order; nothing is added atomically. Weights and score gradients are rounded to
// bf16 where they meet dy and queries.

#include "tiles.cuh"

#define KEYS (64 * TILES)
#define THREADS 128
#define PART (QUERIES * TILES < 64 ? QUERIES : 64 / TILES)
#define COLUMNS (PART / 8)

// The queries from which on, and up to which, any may attend to these keys: [first, end).
DEVICE void query_span(const Operands& o, const Sizes& n, u32 first_key, u32& first, u32& end) {
    first = 0, end = n.t;
    if (!indexed(o)) return;
    i64 early = i64(first_key) - i64(n.after), late = i64(first_key) + KEYS + i64(n.before);
    if (early > 0) first = u32(early);
    if (late < i64(end)) end = u32(late);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
key_gradients(Operands o, Sizes n, Factors x, K* dk, V* dv, const Q* dy, const f32* lse, const f32* terms) {
    extern __shared__ uint4 room[];
    u16* keys = (u16*)room;
    u16* values = keys + KEYS * PITCH;
    u16* queries = values + KEYS * PITCH;        // two tiles
    u16* dys = queries + 2 * QUERIES * PITCH;    // two tiles
    f32* lses = (f32*)(dys + 2 * QUERIES * PITCH);  // two tiles
    f32* own_terms = lses + 2 * QUERIES;         // two tiles
    u32 blocks = (n.s + KEYS - 1) / KEYS, share = n.h / n.g;
    u32 first_key = blockIdx.x % blocks * KEYS, group = blockIdx.x / blocks % n.g, b = blockIdx.x / blocks / n.g;
    u32 own_key = first_key + WARP * 16 * TILES, exist = key_end(o, n, b);
    u32 first_query, end;
    query_span(o, n, first_key, first_query, end);
    first_query = first_query / QUERIES * QUERIES;
    u32 tiles = first_query < end && first_key < exist ? (end - first_query + QUERIES - 1) / QUERIES : 0;
    Streams streams = streams_of(o, n);

    auto stage_tile = [&](u32 at, u32 turn) {
        u32 h = group * share + at / tiles, first = first_query + at % tiles * QUERIES;
        stage_queries<QUERIES, THREADS>(queries + turn * QUERIES * PITCH, o.query, n, b, h, first);
        stage_queries<QUERIES, THREADS>(dys + turn * QUERIES * PITCH, dy, n, b, h, first);
        for (u32 i = threadIdx.x; i < 2 * QUERIES; i += THREADS) {
            u32 t = first + i % QUERIES;
            u64 row = (u64(b) * n.t + t) * n.h + h;
            const f32* from = i < QUERIES ? lse : terms;
            // The two rooms follow each other in shared memory, and each has two tiles.
            f32* to = (i < QUERIES ? lses : own_terms) + turn * QUERIES + i % QUERIES;
            copy_4(to, t < n.t ? from + row : from, t < n.t);
        }
    };

    stage_keys<KEYS, THREADS>(keys, o.key, o, n, b, group, first_key, exist);
    stage_keys<KEYS, THREADS>(values, o.value, o, n, b, group, first_key, exist);
    if (tiles > 0) stage_tile(0, 0);
    end_of_copies();

    f32 key_sums[TILES][WIDTH / 8][4] = {}, value_sums[TILES][WIDTH / 8][4] = {};
    for (u32 at = 0, turn = 0; at < tiles * share; at++, turn ^= 1) {
        wait_for_copies<0>();
        __syncthreads();  // this tile is here, and everybody is done with the other one
        if (at + 1 < tiles * share) stage_tile(at + 1, turn ^ 1);
        end_of_copies();
        u32 h = group * share + at / tiles;
        f32 beta = beta_of(o, x, h), scale = beta * LOG2_E;
#pragma unroll 1
        for (u32 part = 0; part < QUERIES; part += PART) {
            const u16* own_queries = queries + (turn * QUERIES + part) * PITCH;
            const u16* own_dys = dys + (turn * QUERIES + part) * PITCH;
            const f32* part_lse = lses + turn * QUERIES + part;
            const f32* part_terms = own_terms + turn * QUERIES + part;
            u32 first = first_query + at % tiles * QUERIES + part;
            u32 allowed = ~0u;
            bool whole = all_allowed(o, n, first, PART, own_key, 16 * TILES, exist);
            if (!whole) {
                allowed = 0;
#pragma unroll (PLAIN ? 2 : 1)
                for (u32 m = 0; m < TILES; m++)
#pragma unroll (PLAIN ? COLUMNS : 1)
                    for (u32 c = 0; c < COLUMNS; c++)
#pragma unroll
                        for (u32 i = 0; i < 4; i++) {
                            u32 s = own_key + m * 16 + i / 2 * 8 + LANE / 4, t = first + c * 8 + LANE % 4 * 2 + i % 2;
                            u32 bit = t < n.t && is_allowed(o, n, b, h, t, query_at(o, n, b, t), s, exist);
                            allowed |= bit << ((m * COLUMNS + c) * 4 + i);
                        }
                if (!__any_sync(FULL_WARP, allowed != 0)) continue;
            }

            // k·q, then the weights.
            f32 weights[TILES][COLUMNS][4] = {};
#pragma unroll
            for (u32 k = 0; k < WIDTH / 16; k++) {
                u32 left[TILES][4];
#pragma unroll
                for (u32 m = 0; m < TILES; m++) load_tiles(left[m], left_at(keys, (WARP * TILES + m) * 16, k * 16));
#pragma unroll
                for (u32 c = 0; c < COLUMNS; c += 2) {
                    u32 right[4];
                    load_tiles(right, turned_at(own_queries, c * 8, k * 16));
#pragma unroll
                    for (u32 m = 0; m < TILES; m++) {
                        multiply_tile(weights[m][c], left[m], right[0], right[1]);
                        multiply_tile(weights[m][c + 1], left[m], right[2], right[3]);
                    }
                }
            }
            u32 kept = 0;  // one bit for each of this thread's pairs
#pragma unroll
            for (u32 c = 0; c < COLUMNS; c++) {
                float2 of_lse = *(const float2*)(part_lse + c * 8 + LANE % 4 * 2);
                u32 t = first + c * 8 + LANE % 4 * 2;
#pragma unroll
                for (u32 m = 0; m < TILES; m++) {
                    if (DROPOUT) {
                        int early = PLAIN ? int(t) : query_at(o, n, b, min(t, n.t - 1));
                        int late = PLAIN ? int(t + 1) : query_at(o, n, b, min(t + 1, n.t - 1));
                        u32 four = kept_four_turned(o, n, streams, b, h, early, late, own_key + m * 16 + LANE / 4);
                        kept |= four << ((m * COLUMNS + c) * 4);
                    }
#pragma unroll
                    for (u32 i = 0; i < 4; i++) {
                        f32& weight = weights[m][c][i];
                        f32 less = (i % 2 ? of_lse.y : of_lse.x) * LOG2_E;
                        bool in = whole || (allowed >> ((m * COLUMNS + c) * 4 + i) & 1);
                        if (PLAIN) {
                            weight = power_of_two(fmaf(weight, scale, -less));
                        } else if (in) {
                            u32 s = own_key + m * 16 + i / 2 * 8 + LANE / 4;
                            int query = query_at(o, n, b, t + i % 2);
                            weight = power_of_two(score_of_two(o, n, beta, scale, weight, b, h, t + i % 2, s, query) - less);
                        }
                        if (!in) weight = 0.0f;
                    }
                }
            }

            // dv += weights · dy
#pragma unroll
            for (u32 k = 0; k < PART / 16; k++) {
                u32 left[TILES][4];
#pragma unroll
                for (u32 m = 0; m < TILES; m++)
#pragma unroll
                    for (u32 i = 0; i < 4; i++) {
                        u32 c = 2 * k + i / 2, from = i % 2 * 2;
                        f32 low = weights[m][c][from], high = weights[m][c][from + 1];
                        if (DROPOUT) {
                            u32 own = kept >> ((m * COLUMNS + c) * 4 + from);
                            low = own & 1 ? low : 0.0f, high = own & 2 ? high : 0.0f;
                        }
                        left[m][i] = round_bf16_pair(low, high);
                    }
#pragma unroll
                for (u32 c = 0; c < WIDTH / 8; c += 2) {
                    u32 right[4];
                    load_tiles_turned(right, straight_at(own_dys, k * 16, c * 8));
#pragma unroll
                    for (u32 m = 0; m < TILES; m++) {
                        multiply_tile(value_sums[m][c], left[m], right[0], right[1]);
                        multiply_tile(value_sums[m][c + 1], left[m], right[2], right[3]);
                    }
                }
            }

            // v·dy, then the gradients of the scores.
            f32 gradients[TILES][COLUMNS][4] = {};
#pragma unroll
            for (u32 k = 0; k < WIDTH / 16; k++) {
                u32 left[TILES][4];
#pragma unroll
                for (u32 m = 0; m < TILES; m++) load_tiles(left[m], left_at(values, (WARP * TILES + m) * 16, k * 16));
#pragma unroll
                for (u32 c = 0; c < COLUMNS; c += 2) {
                    u32 right[4];
                    load_tiles(right, turned_at(own_dys, c * 8, k * 16));
#pragma unroll
                    for (u32 m = 0; m < TILES; m++) {
                        multiply_tile(gradients[m][c], left[m], right[0], right[1]);
                        multiply_tile(gradients[m][c + 1], left[m], right[2], right[3]);
                    }
                }
            }
#pragma unroll
            for (u32 k = 0; k < PART / 16; k++) {
                u32 left[TILES][4];
#pragma unroll
                for (u32 c = 2 * k; c < 2 * k + 2; c++) {
                    float2 of_terms = *(const float2*)(part_terms + c * 8 + LANE % 4 * 2);
#pragma unroll
                    for (u32 m = 0; m < TILES; m++) {
                        f32 four[4];
#pragma unroll
                        for (u32 i = 0; i < 4; i++) {
                            f32 gradient = gradients[m][c][i];
                            if (DROPOUT) gradient = kept >> ((m * COLUMNS + c) * 4 + i) & 1 ? gradient * x.growth : 0.0f;
                            four[i] = weights[m][c][i] * (gradient - (i % 2 ? of_terms.y : of_terms.x)) * beta;
                        }
                        left[m][c % 2 * 2] = round_bf16_pair(four[0], four[1]);
                        left[m][c % 2 * 2 + 1] = round_bf16_pair(four[2], four[3]);
                    }
                }
                // dk += score gradients · queries
#pragma unroll
                for (u32 c = 0; c < WIDTH / 8; c += 2) {
                    u32 right[4];
                    load_tiles_turned(right, straight_at(own_queries, k * 16, c * 8));
#pragma unroll
                    for (u32 m = 0; m < TILES; m++) {
                        multiply_tile(key_sums[m][c], left[m], right[0], right[1]);
                        multiply_tile(key_sums[m][c + 1], left[m], right[2], right[3]);
                    }
                }
            }
        }
    }
    wait_for_copies<0>();

    f32 growth = DROPOUT ? x.growth : 1.0f;
#pragma unroll
    for (u32 r = 0; r < 2 * TILES; r++) {
        u32 s = own_key + r / 2 * 16 + r % 2 * 8 + LANE / 4;
        if (s >= n.s) continue;
        u64 row = ((u64(b) * n.s + s) * n.g + group) * WIDTH;
#pragma unroll
        for (u32 c = 0; c < WIDTH / 8; c++) {
            u64 at = row + c * 8 + LANE % 4 * 2;
            f32* of_key = &key_sums[r / 2][c][r % 2 * 2];
            f32* of_value = &value_sums[r / 2][c][r % 2 * 2];
            if (dk) store_pair(dk + at, of_key[0], of_key[1]);
            if (dv) store_pair(dv + at, of_value[0] * growth, of_value[1] * growth);
        }
    }
}
