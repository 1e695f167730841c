// The forward of soft attention for few queries, as decoding asks it: memory decides, so that keys are split over blocks and
// each is read once for up to four rows. `attend_chunk` has CHUNK keys of one key/value head and up to ROWS of the rows that
// share them (queries of its heads); `join_chunks` puts the chunks of a row together in their order. A key's chunk and its
// place in it depend on its index alone, and a chunk without any allowed key changes nothing: padding changes no bits.

#include "pairs.cuh"

#define CHUNK 128
#define ROWS 4
#define NOWHERE 0xffffffffu

DEVICE u32 chunks_of(const Sizes& n) { return (n.s + CHUNK - 1) / CHUNK; }

// dots[r] += queries[r] · key, in the order of the columns.
DEVICE void multiply_key(f32 (&dots)[ROWS], const f32* queries, const K* key, const Sizes& n) {
    u32 d = 0;
    if (n.d % 8 == 0 && u64(key) % 16 == 0) {
        for (; d < n.d; d += 8) {
            f32 own[8];
            load8(key + d, own);
#pragma unroll
            for (u32 i = 0; i < 8; i++)
#pragma unroll
                for (u32 r = 0; r < ROWS; r++) dots[r] = fmaf(queries[r * n.d + d + i], rounded(own[i]), dots[r]);
        }
    }
    for (; d < n.d; d++)
#pragma unroll
        for (u32 r = 0; r < ROWS; r++) dots[r] = fmaf(queries[r * n.d + d], operand(key + d), dots[r]);
}

// statistics is [B T H, chunks] of the largest score and the sum of the weights, parts [B T H, chunks, E].
extern "C" __global__ void __launch_bounds__(CHUNK)
attend_chunk(Operands o, Sizes n, Factors x, float2* statistics, f32* parts) {
    extern __shared__ f32 queries[];  // [ROWS, D]
    __shared__ f32 weights[ROWS][CHUNK], room[CHUNK * ROWS];
    __shared__ u32 rows_from[CHUNK];  // the row of the key/value batch, or NOWHERE
    u32 share = n.h / n.g, all = n.t * share, groups = (all + ROWS - 1) / ROWS, chunks = chunks_of(n), at = blockIdx.x;
    u32 chunk = at % chunks, first_row = at / chunks % groups * ROWS, group = at / chunks / groups % n.g;
    u32 b = at / chunks / groups / n.g, rows = min(u32(ROWS), all - first_row);
    auto query_of = [&](u32 r) { return (first_row + r) / share; };
    auto head_of = [&](u32 r) { return group * share + (first_row + r) % share; };
    auto row_of = [&](u32 r) { return (u64(b) * n.t + query_of(r)) * n.h + head_of(r); };
    u32 s = chunk * CHUNK + threadIdx.x;
    bool exists = key_exists(o, n, b, s, key_end(o, n, b));
    u32 from = exists ? source_row(o, n, b, s) : NOWHERE;
    rows_from[threadIdx.x] = from;
    for (u32 i = threadIdx.x; i < ROWS * n.d; i += CHUNK)
        queries[i] = i / n.d < rows ? operand(o.query + row_of(i / n.d) * n.d + i % n.d) : 0.0f;
    __syncthreads();

    f32 dots[ROWS] = {};
    if (exists) multiply_key(dots, queries, o.key + ((u64(from) * n.s + s) * n.g + group) * n.d, n);
    Streams streams = streams_of(o, n);
    int key = exists ? key_at(o, n, b, s) : 0;
    bool any = false;
#pragma unroll
    for (u32 r = 0; r < ROWS; r++) {
        f32 score = -INFINITY_F32;
        u32 t = query_of(r), h = head_of(r);
        int query = r < rows ? query_at(o, n, b, t) : 0;
        Range range = range_of(n, query);
        if (r < rows && exists && key >= range.low && key <= range.high && pair_allowed(o, n, b, h, t, s))
            score = score_of(o, n, x, streams, beta_of(o, x, h), dots[r], b, h, t, s, query, key);
        f32 most = reduce_team<Max, CHUNK>(score, room);
        f32 weight = score == -INFINITY_F32 ? 0.0f : expf(score - most);
        f32 total = reduce_team<Sum, CHUNK>(weight, room);
        if (DROPOUT && weight != 0.0f) weight *= is_kept(n, streams, b, h, query, key) ? x.growth : 0.0f;
        weights[r][threadIdx.x] = weight;
        if (r < rows && threadIdx.x == 0) statistics[row_of(r) * chunks + chunk] = make_float2(most, total);
        any |= most != -INFINITY_F32;
    }
    if (!any) return;  // for the whole block: `join_chunks` does not read its parts
    __syncthreads();

    // Teams of threads with neighbouring columns; each team has every so-manieth key, and the teams are added in order.
    u32 width = n.e <= 32 ? 32 : n.e <= 64 ? 64 : CHUNK, teams = CHUNK / width;
    u32 team = threadIdx.x / width, end = min(u32(CHUNK), n.s - chunk * CHUNK);
    for (u32 first = 0; first < n.e; first += width) {
        u32 column = first + threadIdx.x % width;
        f32 sums[ROWS] = {};
        if (column < n.e) {
#pragma unroll 8
            for (u32 i = team; i < end; i += teams) {
                u32 row = rows_from[i];
                const V* value = o.value + ((u64(row) * n.s + chunk * CHUNK + i) * n.g + group) * n.e + column;
                f32 own = row == NOWHERE ? 0.0f : operand(value);
#pragma unroll
                for (u32 r = 0; r < ROWS; r++) sums[r] = fmaf(weights[r][i], own, sums[r]);
            }
        }
#pragma unroll
        for (u32 r = 0; r < ROWS; r++) room[r * CHUNK + threadIdx.x] = sums[r];
        __syncthreads();
        if (team == 0 && column < n.e) {
#pragma unroll
            for (u32 r = 0; r < ROWS; r++) {
                f32 sum = sums[r];
                for (u32 other = 1; other < teams; other++) sum += room[r * CHUNK + other * width + threadIdx.x];
                if (r < rows) parts[(row_of(r) * chunks + chunk) * n.e + column] = sum;
            }
        }
        __syncthreads();
    }
}

// A block has a row.
extern "C" __global__ void __launch_bounds__(CHUNK)
join_chunks(Sizes n, Q* y, f32* lse, int* choice, const float2* statistics, const f32* parts) {
    u32 chunks = chunks_of(n);
    u64 row = blockIdx.x;
    const float2* own = statistics + row * chunks;
    f32 most = -INFINITY_F32, total = 0.0f;
    for (u32 chunk = 0; chunk < chunks; chunk++) most = Max::join(own[chunk].x, most);
    bool empty = most == -INFINITY_F32;
    // What a chunk's numbers are worth beside the largest score of all.
    auto worth = [&](u32 chunk) { return expf(own[chunk].x - most); };
    auto counts = [&](u32 chunk) { return own[chunk].x != -INFINITY_F32; };
    for (u32 chunk = 0; chunk < chunks; chunk++)
        if (counts(chunk)) total = fmaf(worth(chunk), own[chunk].y, total);
    for (u32 column = threadIdx.x; column < n.e; column += CHUNK) {
        f32 sum = 0.0f;
        for (u32 chunk = 0; chunk < chunks; chunk++)
            if (counts(chunk)) sum = fmaf(worth(chunk), parts[(row * chunks + chunk) * n.e + column], sum);
        if (y) store(y + row * n.e + column, empty ? 0.0f : sum / total);
    }
    if (threadIdx.x == 0) {
        if (lse) lse[row] = empty ? -INFINITY_F32 : most + logf(total);
        if (choice) choice[row] = -1;
    }
}
