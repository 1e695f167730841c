// Sums of rows that share an index, in the order of their places and without atomic sums of floats.
//
// First the places of every index are listed in order, by counting: `walkers` warps share the places of a group, each with a
// table of how often it meets every index. What earlier walkers have met is added up, and then each walker puts its places
// where they belong, 32 at a time. Then threads sum the rows of up to BLOCK places, and where an index has more of them,
// these sums are added in their order.
//
// X and Y are the types in memory of rows and results; a thread has EACH numbers of a row, 8 or 1.

#include "prelude.cuh"

#define BLOCK 64u
#define KERNEL extern "C" __global__ void __launch_bounds__(256)
#define MINE (blockIdx.x * 256 + threadIdx.x)

struct Sort {
    u32 groups, count, size, walkers, length;
};

// ---- The places of every index, in order ----

// table[group][walker][index]: how often it occurs among the walker's places.
KERNEL count_places(u32* table, const i32* indices, Sort n, u64* fault, u32* stop) {
    u32 at = MINE;
    if (at >= n.groups * n.count) return;
    u32 group = at / n.count, walker = at % n.count / n.length;
    i32 index = indices[at];
    if (u32(index) < n.size) {
        atomicAdd(table + (u64(group) * n.walkers + walker) * n.size + index, 1u);
    } else {
        fault_at(fault, stop, at, index);
    }
}

// What a walker met becomes what the earlier ones met; starts[group][index] is what all of them did.
KERNEL add_walkers(u32* table, u32* starts, Sort n) {
    u32 key = MINE;
    if (key >= n.groups * n.size) return;
    u32* at = table + u64(key / n.size) * n.walkers * n.size + key % n.size;
    u32 sum = 0;
    for (u32 walker = 0; walker < n.walkers; walker++, at += n.size) {
        u32 own = *at;
        *at = sum;
        sum += own;
    }
    starts[key] = sum;
}

// Numbers become the sums of those before them, and starts[keys] that of all. One block.
extern "C" __global__ void __launch_bounds__(1024) add_starts(u32* starts, u32 keys) {
    __shared__ u32 room[32];
    u32 carry = 0, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (u32 first = 0; first < keys; first += 8 * 1024) {
        u32 own[8], sum = 0, begin = first + 8 * threadIdx.x;
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            own[i] = begin + i < keys ? starts[begin + i] : 0;
            sum += own[i];
        }
        u32 upto = sum;
#pragma unroll
        for (u32 distance = 1; distance < 32; distance *= 2) {
            u32 other = __shfl_up_sync(0xffffffffu, upto, distance);
            if (lane >= distance) upto += other;
        }
        __syncthreads();
        if (lane == 31) room[warp] = upto;
        __syncthreads();
        u32 before = carry + upto - sum, all = 0;
        for (u32 w = 0; w < 32; w++) {
            if (w < warp) before += room[w];
            all += room[w];
        }
        carry += all;
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            if (begin + i < keys) starts[begin + i] = before;
            before += own[i];
        }
    }
    if (threadIdx.x == 0) starts[keys] = carry;
}

// places[starts[group][index] + i]: the i-th place of an index, counted over all groups.
KERNEL list_places(u32* places, u32* table, const u32* starts, const i32* indices, Sort n) {
    u32 walker = MINE / 32, lane = threadIdx.x % 32;
    if (walker >= n.groups * n.walkers) return;
    u32 group = walker / n.walkers, begin = walker % n.walkers * n.length, end = min(begin + n.length, n.count);
    volatile u32* met = table + u64(walker) * n.size;
    for (u32 first = begin; first < end; first += 32) {
        u32 place = group * n.count + first + lane;
        u32 index = first + lane < end ? u32(indices[place]) : 0xffffffffu;
        bool there = index < n.size;
        u32 same = __match_any_sync(0xffffffffu, there ? index : 0xffffffffu);
        u32 rank = __popc(same & ((1u << lane) - 1)), before = 0;
        if (there && rank == 0) {
            before = met[index];
            met[index] = before + __popc(same);
        }
        before = __shfl_sync(0xffffffffu, before, __ffs(same) - 1);
        if (there) places[starts[group * n.size + index] + before + rank] = place;
        __syncwarp();
    }
}

// ---- The sums ----

struct Sums {
    // `outer` walks over the same list, or one where every group has a list of its own (`batched`); `places` in a list, and
    // how many rows a group has there; `keys` in all, and `size` of them in a group; units of EACH numbers in a row.
    u32 outer, places, count, keys, size, units, batched, slots;
};

#if EACH == 8
#define LOAD(at, x) load8(at, x)
#define STORE(at, x) store8(at, x)
#else
#define LOAD(at, x) (x[0] = load(at))
#define STORE(at, x) store(at, x[0])
#endif

// A thread's part of one index: which of its places it begins at, and where the index's own begin and end.
struct Part {
    u32 outer, key, at, begin, end;
    u64 unit;
};
DEVICE bool find(Part& part, const Sums& n, const u32* starts, const u32* places, const i32* indices) {
    u32 item = MINE, unit = item % n.units;
    part.at = item / n.units % n.places, part.outer = item / n.units / n.places;
    // Fewer places than there are, where an index was none.
    if (part.outer >= n.outer || part.at >= starts[n.keys]) return false;
    u32 place = places[part.at];
    part.key = (n.batched ? place / n.count * n.size : 0) + u32(indices[place]);
    part.begin = starts[part.key], part.end = starts[part.key + 1];
    part.unit = unit;
    return true;
}
DEVICE u64 result_at(const Part& part, const Sums& n) {
    return ((u64(part.outer) * n.keys + part.key) * n.units + part.unit) * EACH;
}
// Where the sum of the `i`-th block of an index with several blocks waits: an index with so many has at least as many slots
// from `begin` / 32 on before the next one's.
DEVICE u64 slot_at(const Part& part, const Sums& n, u32 i) {
    return ((u64(part.outer) * n.slots + part.begin / 32 + i) * n.units + part.unit) * EACH;
}

KERNEL sum_places(Y* y, f32* partial, const X* x, const i32* indices, const u32* starts, const u32* places, Sums n) {
    Part part;
    if (!find(part, n, starts, places, indices) || (part.at - part.begin) % BLOCK != 0) return;
    f32 sum[EACH], row[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) sum[i] = 0.0f;
    u32 end = min(part.at + BLOCK, part.end);
    for (u32 at = part.at; at < end; at++) {
        u64 from = n.batched ? places[at] : u64(part.outer) * n.count + places[at];
        LOAD(x + (from * n.units + part.unit) * EACH, row);
#pragma unroll
        for (int i = 0; i < EACH; i++) sum[i] += row[i];
    }
    if (part.end - part.begin <= BLOCK) {
        STORE(y + result_at(part, n), sum);
    } else {
        STORE(partial + slot_at(part, n, (part.at - part.begin) / BLOCK), sum);
    }
}

KERNEL join_places(Y* y, const f32* partial, const i32* indices, const u32* starts, const u32* places, Sums n) {
    Part part;
    if (!find(part, n, starts, places, indices) || part.at != part.begin || part.end - part.begin <= BLOCK) return;
    f32 sum[EACH], more[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) sum[i] = 0.0f;
    for (u32 block = 0; block * BLOCK < part.end - part.begin; block++) {
        LOAD(partial + slot_at(part, n, block), more);
#pragma unroll
        for (int i = 0; i < EACH; i++) sum[i] += more[i];
    }
    STORE(y + result_at(part, n), sum);
}
