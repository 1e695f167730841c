// Rows moved by index. An index that is none is told, and zeros stand where its row would.

#include "prelude.cuh"

#define KERNEL extern "C" __global__ void __launch_bounds__(256)

struct Sizes {
    u32 outer, count, size, units, batched;
};

// The row that a thread reads from and its unit there; false where there is none to write, or none to read.
DEVICE bool find(const Sizes& n, const i32* indices, u64* fault, u32* stop, u32 item, u64& from) {
    u32 unit = item % n.units, m = item / n.units % n.count, o = item / n.units / n.count;
    u32 place = n.batched ? o * n.count + m : m;
    i32 index = indices[place];
    from = (u64(o) * n.size + u32(index)) * n.units + unit;
    if (u32(index) < n.size) return true;
    fault_at(fault, stop, place, index);
    return false;
}

// y[o][m] = x[o][indices[m]], in units of UNIT: whatever the numbers are, bytes are moved.
KERNEL gather(UNIT* y, const UNIT* x, const i32* indices, Sizes n, u64* fault, u32* stop) {
    u32 item = blockIdx.x * 256 + threadIdx.x;
    if (item >= n.outer * n.count * n.units) return;
    u64 from;
    UNIT moved = {};
    if (find(n, indices, fault, stop, item, from)) moved = x[from];
    y[item] = moved;
}
