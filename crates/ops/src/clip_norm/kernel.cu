// The norm of all gradients in two passes, one launch for many gradients: every block sums the squares of BLOCK elements of
// one of them in f64, and one block adds these sums. What is added in which order depends on sizes alone.

#include "prelude.cuh"

#define THREADS 256

// Its elements, and the first block of the launch that has some of them; the highest bit of the count says bf16.
struct Gradient {
    const void* at;
    u32 count, first;
};
struct Gradients {
    Gradient all[GRADIENTS];
};

DEVICE f64 sum_of_block(f64 own) {
    __shared__ f64 room[THREADS];
    room[threadIdx.x] = own;
    __syncthreads();
#pragma unroll
    for (int distance = THREADS / 2; distance > 0; distance /= 2) {
        if (threadIdx.x < distance) room[threadIdx.x] += room[threadIdx.x + distance];
        __syncthreads();
    }
    return room[0];
}

// A thread's elements are four neighbours out of every 1024, whether it can load them at once or not.
template <class X> DEVICE f64 squares(const X* x, u32 begin, u32 end) {
    f64 sum = 0.0;
    for (u32 i = begin + threadIdx.x * 4; i < end; i += THREADS * 4) {
        f32 own[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        if (i + 4 <= end && (u64)(x + i) % (4 * sizeof(X)) == 0) {
            load4(x + i, own);
        } else {
#pragma unroll
            for (u32 j = 0; j < 4; j++) own[j] = i + j < end ? load(x + i + j) : 0.0f;
        }
#pragma unroll
        for (int j = 0; j < 4; j++) sum = fma(f64(own[j]), f64(own[j]), sum);
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS)
sum_squares(f64* sums, const __grid_constant__ Gradients gradients, u32 many) {
    u32 low = 0, high = many;  // the last whose first block is not after this one
    while (high - low > 1) {
        u32 middle = (low + high) / 2;
        if (gradients.all[middle].first <= blockIdx.x) low = middle;
        else high = middle;
    }
    const Gradient own = gradients.all[low];
    u32 count = own.count & 0x7fffffffu, begin = (blockIdx.x - own.first) * BLOCK;
    u32 end = min(count - begin, u32(BLOCK)) + begin;
    f64 sum = own.count >> 31 ? squares((const bf16*)own.at, begin, end) : squares((const f32*)own.at, begin, end);
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// The norm, and the factor that clips it: not a number where the norm is not finite.
extern "C" __global__ void __launch_bounds__(THREADS)
clip(f32* norm, f32* factor, const f64* sums, u32 blocks, f64 most, f64 epsilon) {
    f64 own = 0.0;
    for (u32 i = threadIdx.x; i < blocks; i += THREADS) own += sums[i];
    f64 found = sqrt(sum_of_block(own));
    if (threadIdx.x > 0) return;
    bool finite = found < __longlong_as_double(0x7ff0000000000000ll);
    f64 wanted = most / (found + epsilon);
    if (norm) *norm = f32(found);
    if (factor) *factor = !finite ? __int_as_float(0x7fffffff) : wanted > 1.0 ? 1.0f : f32(wanted);
}
