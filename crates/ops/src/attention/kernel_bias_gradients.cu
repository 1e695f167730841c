// The gradients of biases in true f32: of a table by distance, or of a number for each pair. The gradient of slopes goes with
// that of the queries. Nothing is added atomically: where sums cross blocks, `sum_parts` adds them in order.

#include "score_gradients.cuh"

#if BIAS == BIAS_DISTANCE
// The gradient of a table, for one tile of queries and 64 of its rows: each query adds its keys in order, then the queries
// are added in order. parts is [B · tiles, N, H].
KERNEL table_gradient(Operands o, Sizes n, Factors x, f32* parts, const Q* dy, const f32* lse, const f32* terms) {
    __shared__ f32 left[DEPTH][PITCH], right[DEPTH][PITCH], tile[TILE][TILE + 1];
    extern __shared__ f32 found[];  // [64 queries][65]
    Block block = block_of(n.h, TILES(n.t), TILES(n.table_rows));
    Streams streams = streams_of(o, n);
    f32 beta = beta_of(o, x, block.h);
    Place p;
    at_queries(p, o, n, block.b, block.h, block.tile * TILE);
    f32 own_lse[4], own_terms[4];
    load_rows(own_lse, lse, n, p), load_rows(own_terms, terms, n, p);
    for (u32 i = threadIdx.x; i < TILE * (TILE + 1); i += THREADS) found[i] = 0.0f;
    for (u32 first = 0; first < p.end; first += TILE) {
        if (!at_keys(p, o, n, first, ANY_ROW)) continue;
        Micro dot, gradient;
        score_gradients(gradient, dot, o, n, x, streams, p, beta, dy, own_lse, own_terms, left, right);
        EACH(i, j) tile[4 * MY_Y + i][4 * MY_X + j] = gradient[i][j];
        __syncthreads();
        u32 t = p.first_query + threadIdx.x;
        if (threadIdx.x < TILE && t < n.t) {
            int query = query_at(o, n, p.b, t);
            for (u32 j = 0; j < TILE && first + j < p.end; j++) {
                f32 more = tile[threadIdx.x][j];
                if (more == 0.0f) continue;
                u32 row = o.rows_of_table[distance_index(n, query, key_at(o, n, p.b, first + j))] - block.chunk * TILE;
                if (row < TILE) found[threadIdx.x * (TILE + 1) + row] += more;
            }
        }
        __syncthreads();
    }
    __syncthreads();
    u32 row = block.chunk * TILE + threadIdx.x;
    if (threadIdx.x < TILE && row < n.table_rows) {
        f32 sum = 0.0f;
        for (u32 i = 0; i < TILE; i++) sum += found[i * (TILE + 1) + threadIdx.x];
        parts[((u64(block.b) * TILES(n.t) + block.tile) * n.table_rows + row) * n.h + block.h] = sum;
    }
}
#endif

#if BIAS == BIAS_DENSE
// The gradient of a dense bias: each pair's sum over the examples and heads that share it, in order.
// The sums live as long as the loop: one block with all registers is better than two that spill.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
dense_gradient(Operands o, Sizes n, Factors x, f32* to, const Q* dy, const f32* lse, const f32* terms) {
    __shared__ f32 left[DEPTH][PITCH], right[DEPTH][PITCH];
    Block block = block_of(n.bias_per_head ? n.h : 1, TILES(n.t), TILES(n.s));
    Streams streams = streams_of(o, n);
    Micro sums;
    clear(sums);
    Place p;
    for (u32 b = n.bias_per_batch ? block.b : 0; b < (n.bias_per_batch ? block.b + 1 : n.b); b++) {
        for (u32 h = n.bias_per_head ? block.h : 0; h < (n.bias_per_head ? block.h + 1 : n.h); h++) {
            at_queries(p, o, n, b, h, block.tile * TILE);
            if (!at_keys(p, o, n, block.chunk * TILE, ANY_ROW)) continue;
            f32 own_lse[4], own_terms[4];
            load_rows(own_lse, lse, n, p), load_rows(own_terms, terms, n, p);
            Micro dot, gradient;
            score_gradients(gradient, dot, o, n, x, streams, p, beta_of(o, x, h), dy, own_lse, own_terms, left, right);
            EACH(i, j) sums[i][j] += gradient[i][j];
        }
    }
    EACH(i, j) {
        u32 t = block.tile * TILE + 4 * MY_Y + i, s = block.chunk * TILE + 4 * MY_X + j;
        if (t < n.t && s < n.s) to[pair_row(n, n.bias_per_batch, n.bias_per_head, block.b, block.h, t) + s] = sums[i][j];
    }
}
#endif
