#!/usr/bin/env python3
"""PyTorch's attention at the shapes of `cuda_attention speed`: the flash backend, and cuDNN's where it is there.

Prints milliseconds and TFLOP/s of forward and backward, medians by events, so that both tables lie side by side.
"""
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

TOKENS = 16 * 1024
WARM = 3


def median_ms(work, times):
    marks = []
    for _ in range(WARM + times):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        marks.append((begin, end))
    torch.cuda.synchronize()
    taken = sorted(begin.elapsed_time(end) for begin, end in marks[WARM:])
    return taken[len(taken) // 2]


def one(backend, batch, heads, width, keys, causal):
    def drawn():
        return torch.randn(batch, heads, keys, width, device="cuda", dtype=torch.bfloat16)

    q, k, v = (drawn().requires_grad_() for _ in range(3))
    dy = drawn()
    times = 31 if keys <= 4096 else 11
    with sdpa_kernel(backend):
        with torch.no_grad():
            forward = median_ms(lambda: scaled_dot_product_attention(q, k, v, is_causal=causal), times)
        y = scaled_dot_product_attention(q, k, v, is_causal=causal)
        backward = median_ms(lambda: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True), times)
    flops = 4.0 * batch * heads * keys * keys * width * (0.5 if causal else 1.0)
    name = f"{batch} x {heads} heads x {width}, n {keys}{', causal' if causal else ''}"
    rates = flops / forward / 1e9, 2.5 * flops / backward / 1e9, 3.5 * flops / (forward + backward) / 1e9
    print(f"{name:<40} {forward:>10.3f} {rates[0]:>8.1f} {backward:>13.3f} {rates[1]:>8.1f} {rates[2]:>14.1f}", flush=True)


def main():
    if not torch.cuda.is_available():
        sys.exit("there is no card here")
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}")
    for name, backend in [("flash", SDPBackend.FLASH_ATTENTION), ("cuDNN", SDPBackend.CUDNN_ATTENTION)]:
        print(f"{name + ', bf16':<40} forward ms  TFLOP/s   backward ms  TFLOP/s   both TFLOP/s")
        try:
            for heads, width in [(32, 64), (16, 128)]:
                for causal in [False, True]:
                    for keys in [1024, 4096, 16384]:
                        one(backend, TOKENS // keys, heads, width, keys, causal)
            one(backend, 128, 8, 32, 128, True)
            one(backend, 32, 12, 64, 1024, True)
        except RuntimeError as error:
            print(f"{name}: {str(error).splitlines()[0]}")


if __name__ == "__main__":
    main()
