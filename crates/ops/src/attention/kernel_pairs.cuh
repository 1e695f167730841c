// Everything that is said about one pair of query and key: which pairs are allowed, the bias, the noise, what is dropped.
// Every kernel of attention asks these functions, as every CPU kernel asks `mask.rs`, `bias.rs` and `random.rs`.
//
// Few choices are made when a kernel is compiled, since each of them doubles what there is to compile: Q, K and V, the types
// in memory; BIAS, one of BIAS_*; KIND, one of KIND_*; DROPOUT; ROUND, whether operands are rounded to bf16; CAPPED, whether scores
// have a soft cap; and PLAIN, that
// there are no masks but by position and by length, no positions but indices, no bias, and a constant scale above 0. The
// others are asked for at run time, by addresses that are null where there is nothing: HAS says it, for a whole launch.

#include "prelude.cuh"


#define BIAS_NONE 0
#define BIAS_DISTANCE 1
#define BIAS_ALIBI 2
#define BIAS_DENSE 3

#define KIND_SOFT 0
#define KIND_HARD 1
#define KIND_STRAIGHT 2
#define KIND_GUMBEL 3
#define KIND_GUMBEL_HARD 4
#define CHOOSES (KIND == KIND_HARD || KIND == KIND_STRAIGHT || KIND == KIND_GUMBEL_HARD)
#define NOISY (KIND == KIND_GUMBEL || KIND == KIND_GUMBEL_HARD)

#define HAS(at) (!PLAIN && (at) != nullptr)

// Addresses, laid out as `cuda_arguments.rs` does. What there is none of is null.
struct Operands {
    const Q* query;             // [B T H D]
    const K* key;               // [B S G D], or [R S G D] with key_row
    const V* value;             // [B S G E]
    const f32* scale;           // [H]
    const int* key_lengths;     // [B]
    const u8* key_mask;         // [B S]
    const u8* pair_mask;        // [B|1 H|1 T S]
    const int* query_position;  // [B T]
    const int* key_position;    // [B S]
    const int* key_row;         // [B S]
    const f32* bias;            // a table [N H], slopes [H] or [B|1 H|1 T S]
    const int* random;          // seed, step (two words each), the first example's index
    f32* by_distance;           // [H 2R+1]: the bias of distances from -R to R, made by `lay_out_table`
    u32* rows_of_table;         // [2R+1]: the row of the table that a distance has
    u64* fault;                 // where a key_row that is no row is left, with its place b * S + s
    u32* stop;
};

struct Sizes {
    u32 b, t, s, h, g, d, e, rows;
    u32 mask_per_batch, mask_per_head, bias_per_batch, bias_per_head;
    u32 before, after;              // how far a query may look, by position; all ones is everywhere
    u32 radius, table_rows, ways;   // of a table: R, N; ways: 0 clipped, 1 buckets back, 2 buckets both ways
    u32 threshold;                  // a weight whose draw is below this is dropped
    u32 dropout_low, dropout_high;  // the hashes of the streams' names
    u32 noise_low, noise_high;
};

struct Factors {
    f32 beta, temperature, growth, span, cap;
};

// ---- Which pairs are allowed ----

DEVICE int query_at(const Operands& o, const Sizes& n, u32 b, u32 t) {
    return HAS(o.query_position) ? o.query_position[u64(b) * n.t + t] : int(t);
}
DEVICE int key_at(const Operands& o, const Sizes& n, u32 b, u32 s) {
    return HAS(o.key_position) ? o.key_position[u64(b) * n.s + s] : int(s);
}

// The positions that a query may attend to, both ends included.
struct Range {
    int low, high;
};
DEVICE Range range_of(const Sizes& n, int at) {
    Range range = {int(0x80000000), 0x7fffffff};
    i64 low = i64(at) - i64(n.before), high = i64(at) + i64(n.after);
    if (low > range.low) range.low = int(low);
    if (high < range.high) range.high = int(high);
    return range;
}

// Where an example's keys end.
DEVICE u32 key_end(const Operands& o, const Sizes& n, u32 b) {
    if (!o.key_lengths) return n.s;
    int length = o.key_lengths[b];
    return length < 0 ? 0 : min(u32(length), n.s);
}

// Whether a key exists for any query. One whose row is none is told, and left out.
DEVICE bool key_exists(const Operands& o, const Sizes& n, u32 b, u32 s, u32 end) {
    if (s >= end) return false;
    if (HAS(o.key_mask) && o.key_mask[u64(b) * n.s + s] == 0) return false;
    if (HAS(o.key_row) && u32(o.key_row[u64(b) * n.s + s]) >= n.rows) {
        fault_at(o.fault, o.stop, b * n.s + s, o.key_row[u64(b) * n.s + s]);
        return false;
    }
    return true;
}

// The row of the key/value batch that a key which exists comes from.
DEVICE u32 source_row(const Operands& o, const Sizes& n, u32 b, u32 s) {
    return HAS(o.key_row) ? u32(o.key_row[u64(b) * n.s + s]) : b;
}

// The first key's place in an operand with a number for each pair.
DEVICE u64 pair_row(const Sizes& n, u32 per_batch, u32 per_head, u32 b, u32 h, u32 t) {
    u64 head = u64(per_batch ? b : 0) * (per_head ? n.h : 1) + (per_head ? h : 0);
    return (head * n.t + t) * n.s;
}
DEVICE bool pair_allowed(const Operands& o, const Sizes& n, u32 b, u32 h, u32 t, u32 s) {
    return !HAS(o.pair_mask) || o.pair_mask[pair_row(n, n.mask_per_batch, n.mask_per_head, b, h, t) + s] != 0;
}

// ---- Bias ----

DEVICE u64 away(int query, int key) {
    i64 distance = i64(key) - i64(query);
    return u64(distance < 0 ? -distance : distance);
}
// A distance's place among those from -R to R.
DEVICE u32 distance_index(const Sizes& n, int query, int key) {
    i64 distance = i64(key) - i64(query), most = n.radius;
    return u32((distance < -most ? -most : distance > most ? most : distance) + most);
}
DEVICE f32 bias_of(const Operands& o, const Sizes& n, u32 b, u32 h, u32 t, u32 s, int query, int key) {
    if (BIAS == BIAS_DISTANCE) return o.by_distance[u64(h) * (2 * n.radius + 1) + distance_index(n, query, key)];
    if (BIAS == BIAS_ALIBI) return -o.bias[h] * f32(away(query, key));
    if (BIAS == BIAS_DENSE) return o.bias[pair_row(n, n.bias_per_batch, n.bias_per_head, b, h, t) + s];
    return 0.0f;
}

// ---- Random numbers ----

struct Streams {
    Random dropout, noise;
    u32 first_example;
};
DEVICE Streams streams_of(const Operands& o, const Sizes& n) {
    Streams streams = {};
    if (DROPOUT || NOISY) {
        u64 seed = u64(u32(o.random[0])) | u64(u32(o.random[1])) << 32;
        u64 step = u64(u32(o.random[2])) | u64(u32(o.random[3])) << 32;
        streams.dropout = random_stream(seed, step, u64(n.dropout_low) | u64(n.dropout_high) << 32);
        streams.noise = random_stream(seed, step, u64(n.noise_low) | u64(n.noise_high) << 32);
        streams.first_example = u32(o.random[4]);
    }
    return streams;
}
DEVICE u32 channel(u32 h, int key) { return h << 22 | (u32(key) & 0x3fffffu); }

// The draw that decides whether a weight is dropped. Called, not inlined: kernels that ask often draw blocks themselves.
static __device__ __noinline__ u32 dropout_bits_at(Random random, u32 example, u32 query, u32 at) {
    Draws draws = random_block(random, example, query, at / 4);
    u32 low = at & 1 ? draws.word[1] : draws.word[0], high = at & 1 ? draws.word[3] : draws.word[2];
    return at & 2 ? high : low;
}
DEVICE u32 dropout_bits(const Streams& streams, u32 b, u32 h, int query, int key) {
    return dropout_bits_at(streams.dropout, streams.first_example + b, u32(query), channel(h, key));
}
DEVICE bool is_kept(const Sizes& n, const Streams& streams, u32 b, u32 h, int query, int key) {
    return !DROPOUT || dropout_bits(streams, b, h, query, key) >= n.threshold;
}
// Gumbel's noise, in f64 as the CPU draws it. Called, not inlined: it is long, and kernels ask for it at many places.
static __device__ __noinline__ f32 noise_at(Random random, u32 example, u32 query, u32 at) {
    Draws draws = random_block(random, example, query, at / 2);
    u64 bits = at & 1 ? u64(draws.word[3]) << 32 | draws.word[2] : u64(draws.word[1]) << 32 | draws.word[0];
    double unit = (double(bits >> 12) + 0.5) * (1.0 / 4503599627370496.0);
    return f32(-log(-log(unit)));
}
DEVICE f32 noise_of(const Streams& streams, u32 b, u32 h, int query, int key) {
    return noise_at(streams.noise, streams.first_example + b, u32(query), channel(h, key));
}

// ---- Scores ----

DEVICE f32 beta_of(const Operands& o, const Factors& x, u32 h) { return HAS(o.scale) ? o.scale[h] : x.beta; }

// The final score from q·k.
DEVICE f32 score_of(const Operands& o, const Sizes& n, const Factors& x, const Streams& streams, f32 beta, f32 dot, u32 b,
                    u32 h, u32 t, u32 s, int query, int key) {
    f32 bias = bias_of(o, n, b, h, t, s, query, key);
    f32 score = CAPPED ? fmaf(x.cap, tanhf(beta * dot / x.cap), bias) : fmaf(beta, dot, bias);
    if (NOISY) score = (score + noise_of(streams, b, h, query, key)) / x.temperature;
    return score;
}

// How fast a score still grows with beta times q·k: 1, or less where it nears its cap.
DEVICE f32 slope_of(const Factors& x, f32 beta, f32 dot) {
    if (!CAPPED) return 1.0f;
    f32 within = tanhf(beta * dot / x.cap);
    return (1.0f - within) * (1.0f + within);
}

// An operand of a product: rounded to bf16 where the precision is bf16.
DEVICE f32 rounded(f32 value) { return ROUND ? __uint_as_float(u32(round_bf16(value)) << 16) : value; }
template <class T> DEVICE f32 operand(const T* at) { return rounded(load(at)); }
