// What the kernels for tensor cores share: tiles of rows in shared memory, and what masks, biases and dropout say about the
// pairs that a thread has in its fragments.
//
// WIDTH is the head's width, a multiple of 16: D = E = WIDTH.

#include "tensor.cuh"

// A row is as long as its numbers and 16 bytes more, so that eight rows of 16 bytes lie in different banks at any width.
#define PITCH (WIDTH + 8)
#define LOG2_E 1.4426950408889634f
#define LN_2 0.6931471805599453f
#define FULL_WARP 0xffffffffu
#define LANE (threadIdx.x % 32)
#define WARP (threadIdx.x / 32)

// Eight numbers to shared memory as bf16: copied beside what runs if they are bf16 already, else rounded on the way.
DEVICE void stage_8(u16* to, const bf16* from, bool there) { copy_16(to, from, there); }
DEVICE void stage_8(u16* to, const f32* from, bool there) {
    f32 x[8] = {};
    if (there) load8(from, x);
    *(uint4*)to = make_uint4(round_bf16_pair(x[0], x[1]), round_bf16_pair(x[2], x[3]), round_bf16_pair(x[4], x[5]),
                             round_bf16_pair(x[6], x[7]));
}
// `rows` rows of a tile; `row(i)` is where row i begins, or null for zeros. `any` is an address that can be named.
template <u32 rows, u32 threads, class T, class Row> DEVICE void stage(u16* to, const T* any, Row row) {
    const u32 chunks = WIDTH / 8;
#pragma unroll
    for (u32 i = threadIdx.x; i < rows * chunks; i += threads) {
        u32 line = i / chunks, column = i % chunks * 8;
        const T* from = row(line);
        stage_8(to + line * PITCH + column, from ? from + column : any, from != nullptr);
    }
}
// Rows of keys or values from `first` on; those that do not exist are zeros, whatever stands there.
template <u32 rows, u32 threads, class T>
DEVICE void stage_keys(u16* to, const T* from, const Operands& o, const Sizes& n, u32 b, u32 group, u32 first, u32 end) {
    stage<rows, threads>(to, from, [&](u32 i) -> const T* {
        u32 s = first + i;
        if (!key_exists(o, n, b, s, end)) return nullptr;
        return from + ((u64(source_row(o, n, b, s)) * n.s + s) * n.g + group) * WIDTH;
    });
}
// Rows of queries, or of what has a row for each query.
template <u32 rows, u32 threads, class T>
DEVICE void stage_queries(u16* to, const T* from, const Sizes& n, u32 b, u32 h, u32 first) {
    stage<rows, threads>(to, from, [&](u32 i) -> const T* {
        return first + i < n.t ? from + ((u64(b) * n.t + first + i) * n.h + h) * WIDTH : nullptr;
    });
}

// Where a lane reads a fragment of 16 x 16 numbers: as the left factor, as two right factors whose columns are rows here
// (a product with the turned tile), and as two right factors as they stand.
DEVICE const u16* left_at(const u16* tile, u32 row, u32 column) {
    return tile + (row + LANE % 16) * PITCH + column + LANE / 16 * 8;
}
DEVICE const u16* turned_at(const u16* tile, u32 row, u32 column) {
    return tile + (row + LANE / 16 * 8 + LANE % 8) * PITCH + column + LANE / 8 % 2 * 8;
}
DEVICE const u16* straight_at(const u16* tile, u32 row, u32 column) {
    return tile + (row + LANE % 16) * PITCH + column + LANE / 16 * 8;
}

// Whether positions are indices, so that masks by position are intervals of indices, too.
DEVICE bool indexed(const Operands& o) { return !HAS(o.query_position) && !HAS(o.key_position); }

// Whether a query may not look everywhere.
DEVICE bool is_banded(const Sizes& n) { return (n.before & n.after) != 0xffffffffu; }

// The keys from which on, and up to which, any of these queries may attend: [first, end).
DEVICE void key_span(const Operands& o, const Sizes& n, u32 b, u32 first_query, u32 queries, u32& first, u32& end) {
    first = 0, end = key_end(o, n, b);
    if (indexed(o) && is_banded(n)) {
        int low = range_of(n, int(first_query)).low, high = range_of(n, int(min(first_query + queries, n.t)) - 1).high;
        if (low > 0) first = u32(low);
        if (high < 0) end = 0;
        else end = min(end, u32(high) + 1);
    }
}
// Whether all of these pairs are allowed, as far as it can be said without asking each.
DEVICE bool all_allowed(const Operands& o, const Sizes& n, u32 first_query, u32 queries, u32 first_key, u32 keys, u32 end) {
    if (HAS(o.key_mask) || HAS(o.pair_mask) || HAS(o.key_row)) return false;
    if (first_key + keys > end || first_query + queries > n.t) return false;
    if (!is_banded(n)) return true;
    if (!indexed(o)) return false;
    Range early = range_of(n, int(first_query)), late = range_of(n, int(first_query + queries - 1));
    return int(first_key) >= late.low && int(first_key + keys - 1) <= early.high;
}

// Whether a query at a position may attend to a key.
DEVICE bool is_allowed(const Operands& o, const Sizes& n, u32 b, u32 h, u32 t, int query, u32 s, u32 end) {
    if (t >= n.t || !key_exists(o, n, b, s, end)) return false;
    Range range = range_of(n, query);
    int key = key_at(o, n, b, s);
    return key >= range.low && key <= range.high && pair_allowed(o, n, b, h, t, s);
}

// Which of four weights are kept, one bit each: two neighbouring keys, the first at an even index, of two queries; bits 0
// and 1 are the first query's. Two neighbouring lanes have the four keys of one block of draws where keys stand at their
// index: each draws for one query and gives the other its half.
DEVICE u32 kept_four(const Operands& o, const Sizes& n, const Streams& streams, u32 b, u32 h, int first_query,
                     int second_query, u32 s) {
    u32 words[4];
    if (HAS(o.key_position)) {
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            u32 key = s + i % 2;
            words[i] = key < n.s ? dropout_bits(streams, b, h, i < 2 ? first_query : second_query, key_at(o, n, b, key)) : 0;
        }
    } else {
        bool odd = LANE % 2;
        Draws own = random_block(streams.dropout, streams.first_example + b, u32(odd ? second_query : first_query),
                                 channel(h, int(s)) / 4);
        u32 low = __shfl_xor_sync(FULL_WARP, odd ? own.word[0] : own.word[2], 1);
        u32 high = __shfl_xor_sync(FULL_WARP, odd ? own.word[1] : own.word[3], 1);
        words[0] = odd ? low : own.word[0], words[1] = odd ? high : own.word[1];
        words[2] = odd ? own.word[2] : low, words[3] = odd ? own.word[3] : high;
    }
    u32 kept = 0;
#pragma unroll
    for (u32 i = 0; i < 4; i++) kept |= u32(words[i] >= n.threshold) << i;
    return kept;
}

// The same for a fragment of the turned tile: bit 2 i + j says whether the weight of the thread's query j (of two neighbours)
// and key i (of two that lie eight apart) is kept. Four lanes have the four keys of a block of draws: each draws for one of
// the four pairs, and gives each other lane its word.
DEVICE u32 kept_four_turned(const Operands& o, const Sizes& n, const Streams& streams, u32 b, u32 h, int first_query,
                            int second_query, u32 s) {
    u32 kept = 0;
    if (HAS(o.key_position)) {
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            u32 key = s + i / 2 * 8;
            u32 bits = key < n.s ? dropout_bits(streams, b, h, i % 2 ? second_query : first_query, key_at(o, n, b, key)) : 0;
            kept |= u32(bits >= n.threshold) << i;
        }
        return kept;
    }
    u32 own = LANE / 4 % 4;
    Draws draws = random_block(streams.dropout, streams.first_example + b, u32(own & 1 ? second_query : first_query),
                               channel(h, int(s + (own & 2) * 4)) / 4);
#pragma unroll
    for (u32 apart = 0; apart < 4; apart++) {
        u32 other = own ^ apart;
        u32 low = other & 1 ? draws.word[1] : draws.word[0], high = other & 1 ? draws.word[3] : draws.word[2];
        u32 bits = __shfl_xor_sync(FULL_WARP, other & 2 ? high : low, apart * 4);
        kept |= u32(bits >= n.threshold) << other;
    }
    return kept;
}

// The score in units of log 2 from q·k, for a pair that is allowed.
DEVICE f32 score_of_two(const Operands& o, const Sizes& n, f32 beta, f32 scale, f32 dot, u32 b, u32 h, u32 t, u32 s,
                        int query) {
    if (PLAIN) return dot * scale;
    return fmaf(beta, dot, bias_of(o, n, b, h, t, s, query, key_at(o, n, b, s))) * LOG2_E;
}

// Two neighbouring numbers of a result.
DEVICE void store_pair(f32* at, f32 low, f32 high) { *(float2*)at = make_float2(low, high); }
DEVICE void store_pair(bf16* at, f32 low, f32 high) { *(u32*)at = round_bf16_pair(low, high); }
