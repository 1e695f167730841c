"""The peer's side of the figures: PyTorch matrix products and attention on the CPU.

One long-lived process; a request per line on stdin, a reply per line on stdout, both JSON, so that a
driver can interleave its rounds with ours:

  {"workload": "about"}
  {"workload": "matmul", "m": 256, "k": 256, "n": 256, "precision": "f32", "repeat": 50}
  {"workload": "attention", "batch": 1, "heads": 8, "width": 64, "length": 512,
   "causal": false, "backward": false, "precision": "bf16", "repeat": 20}

A timing reply has median_ms, best_ms, worst_ms, gflops; a failed request is answered with {"error": ...}.
The peer is shown at its best: outputs are preallocated where PyTorch allows it, freed memory stays in
the process, and attention is the faster of the fused kernel and plain softmax(QK^T)V.
"""

import argparse
import ctypes
import json
import math
import os
import statistics
import sys
import time


def keep_freed_memory():
    """Tells glibc to hold on to freed blocks. By default each large temporary is a fresh mapping whose
    pages fault in one by one, which costs PyTorch as much as the arithmetic (jemalloc helps likewise)."""
    M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
    try:
        mallopt = ctypes.CDLL(None).mallopt
        return all([mallopt(M_MMAP_MAX, 0), mallopt(M_TRIM_THRESHOLD, 2**31 - 1), mallopt(M_TOP_PAD, 64 << 20)])
    except (AttributeError, OSError):
        return False


def timed(run, repeat):
    """Milliseconds of `repeat` runs, after warming up for at least two runs and 50 ms."""
    warm_until = time.perf_counter() + 0.05
    run()
    run()
    while time.perf_counter() < warm_until:
        run()
    times = []
    for _ in range(repeat):
        start = time.perf_counter_ns()
        run()
        times.append((time.perf_counter_ns() - start) / 1e6)
    return times


def summary(times, flop):
    median = statistics.median(times)
    return {
        "median_ms": median,
        "best_ms": min(times),
        "worst_ms": max(times),
        "gflops": flop / (median * 1e6),
    }


class Peer:
    def __init__(self, torch):
        self.torch = torch
        self.dtypes = {"f32": torch.float32, "bf16": torch.bfloat16}

    def about(self, keeps_memory):
        torch = self.torch
        return {
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "capability": torch.backends.cpu.get_cpu_capability(),
            "mkl": torch.backends.mkl.is_available(),
            "onednn": torch.backends.mkldnn.is_available(),
            "allocator": "preloaded" if os.environ.get("LD_PRELOAD") else "glibc, freed memory kept" if keeps_memory else "system",
            "pid": os.getpid(),
        }

    def random(self, *shape, dtype):
        return self.torch.randn(*shape).to(dtype)

    def matmul(self, request):
        m, k, n = (positive(request, name) for name in ("m", "k", "n"))
        dtype = self.dtype(request)
        a, b = self.random(m, k, dtype=dtype), self.random(k, n, dtype=dtype)
        out = self.torch.empty(m, n, dtype=dtype)
        with self.torch.inference_mode():
            times = timed(lambda: self.torch.mm(a, b, out=out), positive(request, "repeat"))
        return summary(times, 2 * m * k * n)

    def attention(self, request):
        torch = self.torch
        b, h, d, t = (positive(request, name) for name in ("batch", "heads", "width", "length"))
        causal, backward = bool(request.get("causal", False)), bool(request.get("backward", False))
        dtype, repeat = self.dtype(request), positive(request, "repeat")

        def leaf():
            return self.random(b, h, t, d, dtype=dtype).requires_grad_(backward)

        q, k, v = leaf(), leaf(), leaf()
        out_gradient = self.random(b, h, t, d, dtype=dtype)
        mask = torch.full((t, t), -math.inf, dtype=dtype).triu(1)

        def fused():
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        def plain():
            query, key, value = ((q * d**-0.5).flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1))
            if causal:
                # The mask rides along as the addend of the product: one pass fewer over the scores.
                scores = torch.baddbmm(mask, query, key.transpose(1, 2))
            else:
                scores = torch.bmm(query, key.transpose(1, 2))
            weights = torch.softmax(scores, -1)
            return torch.bmm(weights, value).view(b, h, t, d)

        # Multiply-adds of the two products; backward is two and a half times forward, recomputation counted.
        flop = 4 * b * h * d * (t * (t + 1) / 2 if causal else t * t) * (3.5 if backward else 1)
        replies = {}
        for name, forward in (("fused", fused), ("plain", plain)):
            if backward:
                times = timed(lambda: torch.autograd.grad(forward(), (q, k, v), out_gradient), repeat)
            else:
                with torch.inference_mode():
                    times = timed(forward, repeat)
            replies[name] = summary(times, flop)
        winner = min(replies, key=lambda name: replies[name]["median_ms"])
        return {
            **replies[winner],
            "variant": winner,
            "fused_median_ms": replies["fused"]["median_ms"],
            "plain_median_ms": replies["plain"]["median_ms"],
        }

    def dtype(self, request):
        precision = request.get("precision", "f32")
        if precision not in self.dtypes:
            raise ValueError(f"precision is {precision!r}, expected one of {', '.join(self.dtypes)}")
        return self.dtypes[precision]


def positive(request, name):
    value = request.get(name, 1 if name == "batch" else None)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} is {value!r}, expected a positive whole number")
    return value


def main():
    parser = argparse.ArgumentParser(description="PyTorch timings over JSON lines (see the head of this file)")
    parser.add_argument("--threads", type=int, default=2)
    threads = parser.parse_args().threads
    # Read when the libraries load, so set before the import.
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)
    keeps_memory = keep_freed_memory()
    try:
        import torch
    except ImportError as error:
        sys.exit(f"peer.py: PyTorch cannot be imported ({error}); run bench/setup_venv and use .venv/bin/python")
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    peer = Peer(torch)
    workloads = {"about": lambda _: peer.about(keeps_memory), "matmul": peer.matmul, "attention": peer.attention}

    for line in sys.stdin:
        if not line.strip():
            continue
        try:
            request = json.loads(line)
            if not isinstance(request, dict) or request.get("workload") not in workloads:
                raise ValueError(f"expected an object whose workload is one of {', '.join(workloads)}")
            reply = workloads[request["workload"]](request)
        except (ValueError, RuntimeError) as error:
            reply = {"error": str(error)}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
