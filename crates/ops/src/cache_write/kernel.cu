// Writes into a cache: cache[row[b], slot[b, t]] = new[b, t]. A row or slot outside of the cache, or one that is given
// twice, is told, and nothing is written. C and N are the types of the cache and of what is new in memory.

#include "prelude.cuh"

struct Sizes {
    u32 rows, slots, count, length, width, wide;
};

// What is told first: rows, then slots, then what is given twice; of each the first.
#define ROW 0u
#define SLOT 1u
#define TWICE 2u
DEVICE void tell(u64* fault, u32* stop, u32 kind, u32 place, i32 number) {
    fault_at(fault, stop, kind << 30 | place, number);
}

// Where the i-th of what is new goes, counted in slots of all rows; -1 where that is outside.
DEVICE i32 place_of(u32 i, const i32* slot, const i32* row, const Sizes& z) {
    i32 r = row ? row[i / z.length] : i32(i / z.length), s = slot[i];
    return u32(r) < z.rows && u32(s) < z.slots ? i32(r * z.slots + s) : -1;
}
DEVICE void tell_outside(u32 i, const i32* slot, const i32* row, u64* fault, u32* stop, const Sizes& z) {
    i32 r = row ? row[i / z.length] : i32(i / z.length);
    if (u32(r) >= z.rows) tell(fault, stop, ROW, i / z.length, r);
    if (u32(slot[i]) >= z.slots) tell(fault, stop, SLOT, i, slot[i]);
}

DEVICE void write_one(C* cache, const N* news, i32 place, u32 i, u32 column, const Sizes& z) {
    cache += u64(place) * z.width + column, news += u64(i) * z.width + column;
    if (z.wide) {
        f32 values[8];
        load8(news, values);
        store8(cache, values);
    } else {
        store(cache, load(news));
    }
}

// Up to 256 positions: every block looks at all of them, so that all blocks come to the same end.
extern "C" __global__ void __launch_bounds__(256)
write_few(C* cache, const N* news, const i32* slot, const i32* row, u64* fault, u32* stop, Sizes z) {
    __shared__ i32 places[256];
    u32 own = threadIdx.x;
    bool wrong = false;
    i32 place = own < z.count ? place_of(own, slot, row, z) : -1;
    places[own] = place;
    __syncthreads();
    if (own < z.count && place < 0) {
        tell_outside(own, slot, row, fault, stop, z);
        wrong = true;
    }
    for (u32 i = 0; i < own && own < z.count && place >= 0 && !wrong; i++) {
        if (places[i] == place) {
            tell(fault, stop, TWICE, own, place);
            wrong = true;
        }
    }
    if (__syncthreads_or(wrong) || stopped(stop)) return;
    if (z.width == 0) return;
    u32 groups = z.wide ? z.width / 8 : z.width;
    u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i / groups < z.count) write_one(cache, news, places[i / groups], i / groups, i % groups * (z.wide ? 8 : 1), z);
}

// Many positions: each claims its place, the first of all has it; then those that did not get theirs are told; then all
// are written.
extern "C" __global__ void __launch_bounds__(256)
claim(u32* owner, const i32* slot, const i32* row, u64* fault, u32* stop, Sizes z) {
    u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= z.count) return;
    i32 place = place_of(i, slot, row, z);
    if (place < 0) tell_outside(i, slot, row, fault, stop, z);
    else atomicMin(owner + place, i);
}
extern "C" __global__ void __launch_bounds__(256)
check_owners(const u32* owner, const i32* slot, const i32* row, u64* fault, u32* stop, Sizes z) {
    u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= z.count) return;
    i32 place = place_of(i, slot, row, z);
    if (place >= 0 && owner[place] != i) tell(fault, stop, TWICE, i, place);
}
extern "C" __global__ void __launch_bounds__(256)
write_many(C* cache, const N* news, const i32* slot, const i32* row, const u32* stop, Sizes z) {
    if (stopped(stop)) return;
    u32 groups = z.wide ? z.width / 8 : z.width;
    u32 at = blockIdx.x * 256 + threadIdx.x;
    u32 i = at / groups;
    if (i >= z.count) return;
    i32 place = place_of(i, slot, row, z);
    if (place >= 0) write_one(cache, news, place, i, at % groups * (z.wide ? 8 : 1), z);
}
