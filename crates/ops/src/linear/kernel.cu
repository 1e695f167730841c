// What follows a product where the library has no epilogue for it, in one pass over the sums:
//   z = p * scale + bias,  y = activation(z) * derivative'(at) + residual
// Each part may be absent (null, or NONE). P, Y, Z (of z), D (of `at`) and R are the types in memory. y may lie over p or
// `at`: a thread reads all of its elements before it writes them.

#include "prelude.cuh"

#define NONE 0
#define RELU 1
#define GELU 2
#define GELU_TANH 3
#define SILU 4

DEVICE f32 activated(f32 z) {
    if (ACTIVATION == RELU) return relu(z);
    if (ACTIVATION == GELU) return gelu_erf(z);
    if (ACTIVATION == GELU_TANH) return gelu_tanh(z);
    if (ACTIVATION == SILU) return silu(z);
    return z;
}

// dy times the derivative at z.
DEVICE f32 backward(f32 z, f32 dy) {
    if (DERIVATIVE == RELU) return z > 0.0f ? dy : 0.0f;
    if (DERIVATIVE == GELU) {
        f32 density = 0.39894228040143268f * expf(-0.5f * z * z);
        return dy * (0.5f * (1.0f + erff(z * 0.70710678118654752f)) + z * density);
    }
    if (DERIVATIVE == GELU_TANH) {
        f32 t = tanhf(0.79788456080286536f * (z + 0.044715f * z * z * z));
        f32 slope = 0.79788456080286536f * (1.0f + 3.0f * 0.044715f * z * z);
        return dy * (0.5f * (1.0f + t) + 0.5f * z * (1.0f - t * t) * slope);
    }
    if (DERIVATIVE == SILU) {
        f32 s = sigmoid(z);
        return dy * s * (1.0f + z * (1.0f - s));
    }
    return dy;
}

struct Operands {
    Y* y;
    Z* z;
    const P* p;
    const f32* scale;  // one for each column, as the bias
    const f32* bias;
    const D* at;
    const R* residual;
};

DEVICE f32 before(const Operands& o, f32 p, u32 column) {
    if (o.scale) p *= o.scale[column];
    return o.bias ? p + o.bias[column] : p;
}

// Columns in multiples of eight, at aligned addresses: eight to a thread.
extern "C" __global__ void __launch_bounds__(256) finish_vectors(Operands o, u32 count, u32 width) {
    u32 first = (blockIdx.x * 256 + threadIdx.x) * 8;
    if (first >= count) return;
    u32 column = first % width;
    f32 z[8], y[8], at[8], residual[8];
    load8(o.p + first, z);
    if (DERIVATIVE != NONE) load8(o.at + first, at);
    if (o.residual) load8(o.residual + first, residual);
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
        z[i] = before(o, z[i], column + i);
        y[i] = activated(z[i]);
        if (DERIVATIVE != NONE) y[i] = backward(at[i], y[i]);
        if (o.residual) y[i] += residual[i];
    }
    if (o.z) store8(o.z + first, z);
    if (o.y) store8(o.y + first, y);
}

// Any width and address.
extern "C" __global__ void __launch_bounds__(256) finish(Operands o, u32 count, u32 width) {
    u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= count) return;
    f32 z = before(o, load(o.p + i), i % width);
    f32 y = activated(z);
    if (DERIVATIVE != NONE) y = backward(load(o.at + i), y);
    if (o.residual) y += load(o.residual + i);
    if (o.z) store(o.z + i, z);
    if (o.y) store(o.y + i, y);
}
