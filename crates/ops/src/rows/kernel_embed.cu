// Rows of a table by id, rounded where the result is bf16: y[n] = table[ids[n]]. Y is the type of the result in memory. An id
// that is none is told, and zeros stand where its row would.

#include "prelude.cuh"

// EACH numbers to a thread, 8 or 1.
extern "C" __global__ void __launch_bounds__(256)
embed(Y* y, const f32* table, const i32* ids, u32 count, u32 rows, u32 width, u64* fault, u32* stop) {
    u32 item = blockIdx.x * 256 + threadIdx.x, units = width / EACH;
    if (item >= count * units) return;
    u32 n = item / units, unit = item % units;
    i32 id = ids[n];
    bool there = u32(id) < rows;
    if (!there) fault_at(fault, stop, n, id);
    const f32* from = table + u64(there ? id : 0) * width + unit * EACH;
#if EACH == 8
    f32 x[8];
#pragma unroll
    for (int i = 0; i < 8; i++) x[i] = 0.0f;
    if (there) load8(from, x);
    store8(y + u64(item) * 8, x);
#else
    store(y + item, there ? *from : 0.0f);
#endif
}
