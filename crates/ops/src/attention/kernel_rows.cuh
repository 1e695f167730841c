// Tiles of 64 queries by 64 keys in true f32, for every form and every size: what the forward and the backward of
// `kernel_rows.cu` and `kernel_rows_backward.cu` are made of. A key's place in its tile depends on its index alone and
// every number is one chain over the keys, so that a row's bits depend neither on other rows nor on padding.

#include "pairs.cuh"

#define TILE 64u
#define DEPTH 32u
#define PITCH 68
#define THREADS 256u
#define KERNEL extern "C" __global__ void __launch_bounds__(THREADS)

// Each thread has four queries and four keys of a tile: queries 4 * MY_Y + i, keys 4 * MY_X + j.
#define MY_X (threadIdx.x % 16)
#define MY_Y (threadIdx.x / 16)
#define EACH(i, j)                      \
    _Pragma("unroll") for (u32 i = 0; i < 4; i++) _Pragma("unroll") for (u32 j = 0; j < 4; j++)

typedef f32 Micro[4][4];

DEVICE void clear(Micro& sums) {
    EACH(i, j) sums[i][j] = 0.0f;
}

// One example, one head, one tile of queries and one of keys.
struct Place {
    u32 b, h, first_query, first_key, end;
    int query[4];
    Range range[4];
    int key[4];
    bool exists[4];
    bool allowed[4][4];
};

DEVICE void at_queries(Place& p, const Operands& o, const Sizes& n, u32 b, u32 h, u32 first_query) {
    p.b = b, p.h = h, p.first_query = first_query, p.end = key_end(o, n, b);
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        u32 t = first_query + 4 * MY_Y + i;
        p.query[i] = t < n.t ? query_at(o, n, b, t) : 0;
        p.range[i] = range_of(n, p.query[i]);
    }
}

// Which pairs of this tile are allowed, for keys that come from `row` if it is not ANY_ROW. False, for the whole block,
// when none is.
#define ANY_ROW 0xffffffffu
DEVICE bool at_keys(Place& p, const Operands& o, const Sizes& n, u32 first_key, u32 row) {
    p.first_key = first_key;
    bool any = false;
#pragma unroll
    for (u32 j = 0; j < 4; j++) {
        u32 s = first_key + 4 * MY_X + j;
        p.exists[j] = key_exists(o, n, p.b, s, p.end);
        if (HAS(o.key_row) && p.exists[j] && row != ANY_ROW) p.exists[j] = source_row(o, n, p.b, s) == row;
        p.key[j] = p.exists[j] ? key_at(o, n, p.b, s) : 0;
    }
    EACH(i, j) {
        u32 t = p.first_query + 4 * MY_Y + i, s = first_key + 4 * MY_X + j;
        bool allowed = t < n.t && p.exists[j] && p.key[j] >= p.range[i].low && p.key[j] <= p.range[i].high;
        p.allowed[i][j] = allowed && pair_allowed(o, n, p.b, p.h, t, s);
        any |= p.allowed[i][j];
    }
    return __syncthreads_or(any);
}

// room[column][row] = the columns from `first` on of 64 rows; what lies outside, and rows that are null, is 0.
template <class Row> DEVICE void load_turned(f32 (*room)[PITCH], u32 first, u32 width, Row row) {
    u32 column = threadIdx.x % DEPTH;
    for (u32 i = threadIdx.x / DEPTH; i < TILE; i += THREADS / DEPTH) {
        auto at = row(i);
        room[column][i] = at && first + column < width ? operand(at + first + column) : 0.0f;
    }
}
// room[row][column] = the 64 columns from `first` on of 64 rows.
template <class Row> DEVICE void load_straight(f32 (*room)[PITCH], u32 first, u32 width, Row row) {
    u32 column = threadIdx.x % TILE;
    for (u32 i = threadIdx.x / TILE; i < TILE; i += THREADS / TILE) {
        auto at = row(i);
        room[i][column] = at && first + column < width ? operand(at + first + column) : 0.0f;
    }
}

// sums[i][j] += Σ left[k][4 y + i] * right[k][4 x + j], in the order of k.
DEVICE void multiply(Micro& sums, const f32 (*left)[PITCH], const f32 (*right)[PITCH], u32 depth) {
    for (u32 k = 0; k < depth; k++) {
        float4 a = *(const float4*)&left[k][4 * MY_Y], b = *(const float4*)&right[k][4 * MY_X];
        f32 rows[4] = {a.x, a.y, a.z, a.w}, columns[4] = {b.x, b.y, b.z, b.w};
        EACH(i, j) sums[i][j] = fmaf(rows[i], columns[j], sums[i][j]);
    }
}

DEVICE const Q* query_row(const Operands& o, const Sizes& n, const Place& p, u32 i) {
    u32 t = p.first_query + i;
    return t < n.t ? o.query + ((u64(p.b) * n.t + t) * n.h + p.h) * n.d : nullptr;
}
template <class T> DEVICE const T* query_side(const T* at, const Sizes& n, const Place& p, u32 width, u32 i) {
    u32 t = p.first_query + i;
    return t < n.t ? at + ((u64(p.b) * n.t + t) * n.h + p.h) * width : nullptr;
}
// Rows of keys that do not exist are null: what stands there, and which row it is, means nothing.
template <class T>
DEVICE const T* key_side(const T* at, const Operands& o, const Sizes& n, const Place& p, u32 width, u32 i) {
    u32 s = p.first_key + i;
    if (!key_exists(o, n, p.b, s, p.end)) return nullptr;
    u64 row = source_row(o, n, p.b, s);
    return at + ((row * n.s + s) * n.g + p.h / (n.h / n.g)) * width;
}

// q·k of the tile. The rooms are free afterwards only behind a barrier.
DEVICE void dots(Micro& sums, const Operands& o, const Sizes& n, const Place& p, f32 (*left)[PITCH], f32 (*right)[PITCH]) {
    clear(sums);
    for (u32 first = 0; first < n.d; first += DEPTH) {
        __syncthreads();
        load_turned(left, first, n.d, [&](u32 i) { return query_row(o, n, p, i); });
        load_turned(right, first, n.d, [&](u32 i) { return key_side(o.key, o, n, p, n.d, i); });
        __syncthreads();
        multiply(sums, left, right, min(n.d - first, DEPTH));
    }
}
// dy·v of the tile.
DEVICE void value_dots(Micro& sums, const Operands& o, const Sizes& n, const Place& p, const Q* dy, f32 (*left)[PITCH],
                       f32 (*right)[PITCH]) {
    clear(sums);
    for (u32 first = 0; first < n.e; first += DEPTH) {
        __syncthreads();
        load_turned(left, first, n.e, [&](u32 i) { return query_side(dy, n, p, n.e, i); });
        load_turned(right, first, n.e, [&](u32 i) { return key_side(o.value, o, n, p, n.e, i); });
        __syncthreads();
        multiply(sums, left, right, min(n.e - first, DEPTH));
    }
}

DEVICE f32 final_score(const Operands& o, const Sizes& n, const Factors& x, const Streams& streams, const Place& p,
                       f32 beta, f32 dot, u32 i, u32 j) {
    return score_of(o, n, x, streams, beta, dot, p.b, p.h, p.first_query + 4 * MY_Y + i, p.first_key + 4 * MY_X + j,
                    p.query[i], p.key[j]);
}
// Which of a thread's weights are kept: bit 4 i + j. Where keys stand at their index, its four keys are one block of draws.
DEVICE u32 kept_of_tile(const Operands& o, const Sizes& n, const Streams& streams, const Place& p) {
    if (!DROPOUT) return 0xffffu;
    u32 kept = 0;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        Draws draws = random_block(streams.dropout, streams.first_example + p.b, u32(p.query[i]),
                                   channel(p.h, int(p.first_key + 4 * MY_X)) / 4);
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            u32 word = HAS(o.key_position) ? dropout_bits(streams, p.b, p.h, p.query[i], p.key[j]) : draws.word[j];
            kept |= u32(word >= n.threshold) << (4 * i + j);
        }
    }
    return kept;
}
// What dropout makes of a weight.
DEVICE f32 grown(const Factors& x, u32 kept, u32 i, u32 j, f32 weight) {
    if (!DROPOUT) return weight;
    return kept >> (4 * i + j) & 1 ? weight * x.growth : 0.0f;
}
DEVICE u64 row_index(const Sizes& n, const Place& p, u32 i) {
    return (u64(p.b) * n.t + p.first_query + 4 * MY_Y + i) * n.h + p.h;
}
// Over the sixteen threads that share four queries; each has the result.
template <class Op> DEVICE f32 reduce_keys(f32 x) {
#pragma unroll
    for (int distance = 8; distance > 0; distance /= 2) x = Op::join(x, __shfl_xor_sync(0xffffffffu, x, distance));
    return x;
}
// A block's example, head, tile and chunk of columns, from its index in a line of them.
struct Block {
    u32 b, h, tile, chunk;
};
DEVICE Block block_of(u32 heads, u32 tiles, u32 chunks) {
    u32 at = blockIdx.x;
    u32 chunk = at % chunks, tile = at / chunks % tiles, h = at / chunks / tiles % heads;
    return Block{at / chunks / tiles / heads, h, tile, chunk};
}
#define TILES(count) (((count) + TILE - 1) / TILE)
