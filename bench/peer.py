"""The peer's side of the figures: PyTorch on the CPU.

One long-lived process; a request per line on stdin, a reply per line on stdout, both JSON, so that a
driver can interleave its rounds with ours:

  {"workload": "about"}
  {"workload": "matmul", "m": 256, "k": 256, "n": 256, "precision": "f32", "repeat": 50}
  {"workload": "attention", "batch": 1, "heads": 8, "width": 64, "length": 512,
   "causal": false, "window": null, "backward": false, "precision": "bf16", "repeat": 20}
  {"workload": "train", "layers": 4, "heads": 8, "width": 256, "vocab": 256, "block": 128, "batch": 32, "dropout": 0.0, …}
  {"workload": "decode", …, "batch": 1, "past": 128} · {"workload": "prefill", …, "batch": 1, "length": 512}
  {"workload": "forward", "model": "bert", …, "batch": 8, "length": 128, "padded": true} · {"model": "vit", "image": 224, …}

A timing reply has median_ms, best_ms, worst_ms, gflops; a failed request is answered with {"error": ...}.
The peer is shown at its best: outputs are preallocated where PyTorch allows it, freed memory stays in
the process, and attention is the faster of the fused kernel and plain softmax(QK^T)V. Whole models run in each of their
modes (eager and compiled, fused and plain attention) the first time; the fastest is the one that is timed from then on.
"""

import argparse
import ctypes
import json
import math
import os
import resource
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
        self.model_dtypes = {**self.dtypes, "int8": torch.bfloat16}
        self.baseline = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        self.chosen = {}

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
        if request.get("weight_gradient"):
            # C[K N] = A[M K]ᵀ · B[M N], from operands as they lie in memory after a forward pass.
            a, b = self.random(m, k, dtype=dtype).t(), self.random(m, n, dtype=dtype)
        else:
            a, b = self.random(m, k, dtype=dtype), self.random(k, n, dtype=dtype)
        out = self.torch.empty(a.shape[0], n, dtype=dtype)
        with self.torch.inference_mode():
            times = timed(lambda: self.torch.mm(a, b, out=out), positive(request, "repeat"))
        return summary(times, 2 * m * k * n)

    def attention(self, request):
        torch = self.torch
        b, h, d, t = (positive(request, name) for name in ("batch", "heads", "width", "length"))
        causal, backward = bool(request.get("causal", False)), bool(request.get("backward", False))
        window = request.get("window")
        dtype, repeat = self.dtype(request), positive(request, "repeat")

        def leaf():
            return self.random(b, h, t, d, dtype=dtype).requires_grad_(backward)

        q, k, v = leaf(), leaf(), leaf()
        out_gradient = self.random(b, h, t, d, dtype=dtype)
        mask = torch.full((t, t), -math.inf, dtype=dtype).triu(1)
        if window:
            mask += torch.full((t, t), -math.inf, dtype=dtype).tril(-window)

        def fused():
            if window:
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
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
        pairs = sum(min(i + 1, window or t) for i in range(t)) if causal else t * t
        flop = 4 * b * h * d * pairs * (3.5 if backward else 1)
        replies = {}
        # Plain attention needs the whole matrix of weights several times over: not where that would not fit.
        ways = (("fused", fused), ("plain", plain)) if b * h * t * t <= 2**28 else (("fused", fused),)
        for name, forward in ways:
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
            **{f"{name}_median_ms": reply["median_ms"] for name, reply in replies.items()},
        }

    # ---- whole models -------------------------------------------------------------------------------------

    def train(self, request):
        torch = self.torch
        batch, block, vocab = (positive(request, name) for name in ("batch", "block", "vocab"))
        ids, targets = (torch.randint(vocab, (batch, block)) for _ in range(2))
        autocast = self.dtype(request) == torch.bfloat16

        def step(compiled, plain):
            model = self.gpt(request, block, plain, float(request.get("dropout", 0.0)), tied=False).train()
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
            loss = torch.compile(model.loss) if compiled else model.loss

            def run():
                with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                    value = loss(ids, targets)
                value.backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)

            return run

        return self.fastest(request, step, tokens=batch * block)

    def decode(self, request):
        import peer_models

        torch = self.torch
        batch, past, repeat = (positive(request, name) for name in ("batch", "past", "repeat"))
        dtype = self.dtype(request, self.model_dtypes)
        vocab, length = positive(request, "vocab"), past + 4 * repeat + 64

        def step(compiled, plain):
            model = self.gpt(request, length, plain, 0.0, tied=True).eval().to(dtype)
            if request.get("precision") == "int8":
                peer_models.quantise(model)
            heads, width = request["heads"], request["width"]
            caches = [[torch.zeros(batch, heads, length, width // heads, dtype=dtype) for _ in range(2)]
                      for _ in range(request["layers"])]
            forward = torch.compile(model, dynamic=True) if compiled else model
            ids, at = torch.randint(vocab, (batch, 1)), [past]

            def run():
                with torch.inference_mode():
                    forward(ids, at[0], caches, True)
                at[0] = past if at[0] + 1 >= length else at[0] + 1

            return run

        return self.fastest(request, step, tokens=batch, plain=(False,))

    def prefill(self, request):
        import peer_models

        torch = self.torch
        batch, length, vocab = (positive(request, name) for name in ("batch", "length", "vocab"))
        dtype = self.dtype(request, self.model_dtypes)
        ids = torch.randint(vocab, (batch, length))

        def step(compiled, plain):
            model = self.gpt(request, length, plain, 0.0, tied=True).eval().to(dtype)
            if request.get("precision") == "int8":
                peer_models.quantise(model)
            heads, width = request["heads"], request["width"]
            caches = [[torch.zeros(batch, heads, length, width // heads, dtype=dtype) for _ in range(2)]
                      for _ in range(request["layers"])]
            forward = torch.compile(model) if compiled else model

            def run():
                with torch.inference_mode():
                    forward(ids, 0, caches, True)

            return run

        return self.fastest(request, step, tokens=batch * length)

    def forward(self, request):
        import peer_models

        torch = self.torch
        batch, model, dtype = positive(request, "batch"), request.get("model"), self.dtype(request)
        if model not in ("gpt", "bert", "vit"):
            raise ValueError(f"model is {model!r}, expected gpt, bert or vit")
        sizes = [positive(request, name) for name in ("layers", "heads", "width")]
        if model == "vit":
            image, patch = positive(request, "image"), positive(request, "patch")
            inputs, tokens = (torch.randn(batch, 3, image, image).to(dtype),), batch
        else:
            length, vocab = positive(request, "length"), positive(request, "vocab")
            ids, tokens = torch.randint(vocab, (batch, length)), batch * length
            inputs = (ids,)
            if model == "bert":
                mask = None
                if request.get("padded"):
                    # The same lengths as on our side.
                    lengths = [length - (row * 7919 + 13) % (length // 2 + 1) for row in range(batch)]
                    mask = (torch.arange(length) < torch.tensor(lengths)[:, None])[:, None, None, :]
                    tokens = sum(lengths)
                inputs = (ids, mask)

        def step(compiled, plain):
            if model == "vit":
                net = peer_models.Vit(*sizes, image, patch, plain)
            elif model == "bert":
                net = peer_models.Bert(*sizes, vocab, max(length, 512), plain)
            else:
                net = self.gpt(request, length, plain, 0.0, tied=True)
            net = net.eval().to(dtype)
            call = torch.compile(net) if compiled else net

            def run():
                with torch.inference_mode():
                    call(*inputs)

            return run

        return self.fastest(request, step, tokens=tokens)

    def gpt(self, request, length, plain, dropout, tied):
        import peer_models

        sizes = [positive(request, name) for name in ("layers", "heads", "width", "vocab")]
        return peer_models.Gpt(*sizes, length, dropout, plain, tied)

    def fastest(self, request, step, tokens, plain=(False, True)):
        """Times a workload in its fastest mode, which is found the first time that it is asked for."""
        repeat = positive(request, "repeat")
        key = json.dumps({name: value for name, value in request.items() if name != "repeat"}, sort_keys=True)
        if key not in self.chosen:
            tried, best = {}, None
            for compiled in (False, True):
                for unfused in plain:
                    name = f"{'compiled' if compiled else 'eager'} {'plain' if unfused else 'fused'}"
                    if request.get("mode") not in (None, name):
                        continue
                    self.torch.manual_seed(1)
                    try:
                        run = step(compiled, unfused)
                        tried[name] = statistics.median(timed(run, min(repeat, 3)))
                    except Exception as error:  # a mode that this machine cannot compile is not the fastest
                        tried[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:120] if str(error) else ''}"
                        continue
                    if best is None or tried[name] < tried[best[0]]:
                        best = (name, run)
            if best is None:
                raise ValueError(f"no mode of PyTorch runs this: {tried}")
            self.chosen[key] = (*best, tried)
        name, run, tried = self.chosen[key]
        times = timed(run, repeat)
        reply = {**summary(times, 0), "variant": name, "modes": tried}
        reply["tokens_per_second"] = tokens * 1e3 / reply["median_ms"]
        reply["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        reply["peak_above_baseline"] = reply["peak_bytes"] - self.baseline
        return reply

    def dtype(self, request, known=None):
        precision, known = request.get("precision", "f32"), known or self.dtypes
        if precision not in known:
            raise ValueError(f"precision is {precision!r}, expected one of {', '.join(known)}")
        return known[precision]


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
    workloads = {"about": lambda _: peer.about(keeps_memory), "matmul": peer.matmul, "attention": peer.attention,
                 "train": peer.train, "decode": peer.decode, "prefill": peer.prefill, "forward": peer.forward}

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
