"""How far PyTorch itself is from float64, per kind of operation, in f32 and bf16, forward and gradients.

    .venv/bin/python bench/torch_error.py          writes crates/conformance/goldens/torch_error.json

The figures are a yardstick for our own engines: an f32 or bf16 kernel of ours that is as close to the f64
reference as PyTorch is to its own f64 is as good as people are used to. Inputs are rounded to the judged
precision before either side sees them, so only the arithmetic and the rounding of the results are counted.
"""

import argparse
import json
import math
import os
import platform
import sys
import tempfile
import zlib
from pathlib import Path

try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    sys.exit(f"torch_error.py: PyTorch cannot be imported ({error}); run bench/setup_venv and use .venv/bin/python")

SMALL = (1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 32, 64)
LARGE = (128, 256, 384, 512)
PRECISIONS = {"f32": torch.float32, "bf16": torch.bfloat16}
OUT = Path(__file__).resolve().parent.parent / "crates" / "conformance" / "goldens" / "torch_error.json"

MEASURE = (
    "err = max|got - want| / max(max|want|, 1e-30) per tensor, want from the same PyTorch code in float64 on inputs "
    "already rounded to the precision; got is in the precision (its output rounding counts). Each figure is the "
    "maximum over draws, results (forward) or differentiable inputs (gradient, for a random normal cotangent); "
    "gradient is null where the kind has none."
)
SHAPES = (
    "dims from {1,2,3,5,7,8,13,16,17,31,32,64}, in a third of the draws one dim (the summed one where there is one) "
    "from {128,256,384,512}; normal(0,1) inputs. Kept out because the exact gradient is zero or cancels to almost "
    "nothing there, so that a relative error says nothing: fewer than 5 values per layer_norm or batch_norm group, "
    "fewer than 3 per rms_norm row, fewer than 3 keys in attention, fewer than 2 classes. log takes |x| + 0.1, "
    "div a denominator of at least 0.1."
)


class Draw:
    """Random shapes and inputs of one draw. `large` asks for one large dim, where the kind wants it."""

    def __init__(self, seed, large):
        self.generator = torch.Generator().manual_seed(seed)
        self.large = large

    def pick(self, choices):
        return choices[torch.randint(len(choices), (), generator=self.generator).item()]

    def dim(self, least=1):
        return self.pick([d for d in SMALL if d >= least])

    def long(self, least=1):
        """The dim that grows in a large draw: the summed one where there is one."""
        return self.pick(LARGE) if self.large else self.dim(least)

    def normal(self, *shape):
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64)

    def integers(self, below, *shape):
        return torch.randint(below, shape, generator=self.generator)

    def away_from_zero(self, *shape):
        x = self.normal(*shape)
        return torch.where(x < 0, x - 0.1, x + 0.1)


# A kind is a function from a Draw to a list of (function, inputs): the function takes the inputs, rounded to some
# precision, and returns one result or several. Integers, masks and shapes are bound in the closure.


def linear(activation=None):
    def kind(draw):
        m, k, n = draw.dim(), draw.long(), draw.dim()
        inputs = [draw.normal(m, k), draw.normal(n, k), draw.normal(n)]
        return [(lambda x, w, b: activation(F.linear(x, w, b)) if activation else F.linear(x, w, b), inputs)]

    return kind


def matmul(draw):
    b, m, k, n = draw.pick((1, 2, 3, 5)), draw.dim(), draw.long(), draw.dim()
    return [(torch.matmul, [draw.normal(b, m, k), draw.normal(b, k, n)])]


def attention(draw):
    b, h = draw.pick((1, 2)), draw.pick((1, 2, 3))
    t, s, d = draw.dim(3), draw.long(3), draw.dim()
    mask = draw.normal(b, 1, t, s) > 0
    mask[..., :2] = True  # two keys at least: a row with one has no gradient, a row with none no value
    q, k, v = draw.normal(b, h, t, d), draw.normal(b, h, s, d), draw.normal(b, h, s, d)
    square = draw.normal(b, h, s, d)
    sdpa = F.scaled_dot_product_attention
    return [
        (sdpa, [q, k, v]),
        (lambda q, k, v: sdpa(q, k, v, attn_mask=mask), [q, k, v]),
        (lambda q, k, v: sdpa(q, k, v, is_causal=True), [square, k, v]),
    ]


# B T S H G D E of the tests of the op itself (crates/ops/src/attention/tests_cases.rs).
ATTENTION_SIZES = ((2, 5, 7, 4, 2, 3, 5), (1, 1, 13, 3, 3, 7, 1), (3, 17, 2, 2, 1, 1, 2), (1, 3, 1, 1, 1, 5, 3), (2, 7, 5, 6, 3, 2, 4))


def attention_learned(draw):
    """What scores are made with and learned: a scale for each head, slopes and tables by distance. Their gradients are
    sums over all pairs, in which those of each row cancel."""
    b, t, s, h, g, d, e = draw.pick(ATTENTION_SIZES)
    q, k, v = draw.normal(b, h, t, d), draw.normal(b, g, s, d), draw.normal(b, g, s, e)
    distance = torch.arange(s)[None, :] - torch.arange(t)[:, None]
    causal = torch.where(distance > 0, -math.inf, 0.0)

    def attend(q, k, v, scale, bias):
        k, v = k.repeat_interleave(h // g, 1), v.repeat_interleave(h // g, 1)
        return F.scaled_dot_product_attention(q * scale[:, None, None], k, v, attn_mask=bias, scale=1.0)

    def scales(q, k, v, scale):
        return attend(q, k, v, scale, causal.to(q.dtype).expand(b, h, t, s))

    def slopes(q, k, v, slopes):
        bias = -slopes[:, None, None] * distance.abs().to(q.dtype)
        return attend(q, k, v, torch.full((h,), d**-0.5, dtype=q.dtype), bias.expand(b, h, t, s))

    def table(q, k, v, table):
        bias = table[distance.clamp(-2, 2) + 2].permute(2, 0, 1)
        return attend(q, k, v, torch.full((h,), d**-0.5, dtype=q.dtype), bias.expand(b, h, t, s))

    return [(scales, [q, k, v, draw.normal(h)]), (slopes, [q, k, v, draw.normal(h)]), (table, [q, k, v, draw.normal(5, h)])]


def layer_norm(draw):
    m, c = draw.dim(), draw.long(5)
    return [(lambda x, w, b: F.layer_norm(x, (c,), w, b, 1e-5), [draw.normal(m, c), draw.normal(c), draw.normal(c)])]


def rms_norm(draw):
    m, c = draw.dim(), draw.long(3)
    return [(lambda x, w: F.rms_norm(x, (c,), w, 1e-6), [draw.normal(m, c), draw.normal(c)])]


def batch_norm(draw):
    n, c, size = draw.long(5), draw.dim(), draw.pick((1, 2, 3, 5))
    mean, variance = draw.normal(c), draw.normal(c).abs() + 0.5

    def train(x, w, b):
        return F.batch_norm(x, None, None, w, b, training=True, eps=1e-5)

    def evaluate(x, w, b, mean, variance):
        return F.batch_norm(x, mean.detach(), variance.detach(), w, b, training=False, eps=1e-5)

    inputs = [draw.normal(n, c, size, size), draw.normal(c), draw.normal(c)]
    return [(train, inputs), (evaluate, inputs + [mean, variance])]


def embedding(draw):
    vocabulary, c = draw.dim(), draw.dim()
    ids = draw.integers(vocabulary, draw.pick((1, 2, 3)), draw.long())
    return [(lambda table: F.embedding(ids, table), [draw.normal(vocabulary, c)])]


def rotate(x, cosine, sine):
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    return x * cosine + turned * sine


def rotary(draw):
    """Angles and tables computed as `transformers` does: in f32 (f64 on the other side), then cast."""
    b, t, h, d = draw.pick((1, 2)), draw.long(), draw.pick((1, 2, 3)), draw.pick((2, 8, 16, 32, 64))

    def function(x):
        real = torch.float64 if x.dtype == torch.float64 else torch.float32
        frequency = 1.0 / (10000.0 ** (torch.arange(0, d, 2, dtype=torch.int64).to(real) / d))
        angle = torch.outer(torch.arange(t).to(real), frequency)
        angle = torch.cat((angle, angle), -1)[:, None, :]
        return rotate(x, angle.cos().to(x.dtype), angle.sin().to(x.dtype))

    return [(function, [draw.normal(b, t, h, d)])]


def rotary_given_tables(draw):
    """The same with cosines and sines as given (rounded) inputs: the turning alone, without the angles."""
    b, t, h, d = draw.pick((1, 2)), draw.long(), draw.pick((1, 2, 3)), draw.pick((2, 8, 16, 32, 64))
    angle = draw.normal(t, 1, d // 2) * math.pi
    angle = torch.cat((angle, angle), -1)

    def function(x, cosine, sine):
        return rotate(x, cosine.detach(), sine.detach())

    return [(function, [draw.normal(b, t, h, d), angle.cos(), angle.sin()])]


def elementwise(function, *makers):
    def kind(draw):
        shape = (draw.dim(), draw.long())
        return [(function, [make(draw, shape) for make in makers])]

    return kind


def normal(draw, shape):
    return draw.normal(*shape)


def positive(draw, shape):
    return draw.away_from_zero(*shape).abs()


def denominator(draw, shape):
    return draw.away_from_zero(*shape)


def cross_entropy(draw):
    m, classes = draw.dim(), draw.long(2)
    target = draw.integers(classes, m)
    return [(lambda x: F.cross_entropy(x, target), [draw.normal(m, classes)])]


def reduction(function):
    def kind(draw):
        shape = [draw.dim(), draw.dim(), draw.dim()]
        axis = draw.pick((0, 1, 2))
        shape[axis] = draw.long()
        return [(lambda x: function(x, axis), [draw.normal(*shape)])]

    return kind


def movement(draw):
    m, n, k = draw.dim(), draw.dim(2), draw.long()
    cut = n // 2

    def function(x, y):
        joined = torch.cat((x, y), 1)[:, cut:, :]
        return joined.transpose(0, 2).reshape(-1, m)

    return [(function, [draw.normal(m, n, k), draw.normal(m, n, k)])]


def patches(draw):
    b, c, size, kernel = draw.pick((1, 2)), draw.pick((1, 2, 3)), draw.dim(5), draw.pick((2, 3, 5))
    stride = draw.pick((1, 2))
    x = draw.normal(b, c, size, size)
    return [
        (lambda x: F.unfold(x, kernel, stride=kernel), [x]),
        (lambda x: F.unfold(x, kernel, stride=stride, padding=kernel // 2), [x]),  # overlapping: gradients add up
    ]


def adamw(draw):
    m, n, step = draw.dim(), draw.long(), draw.pick((1, 2, 10, 1000))
    rate, decay = draw.pick((1e-3, 1e-1)), draw.pick((0.0, 0.1))
    first, second = draw.normal(m, n), draw.normal(m, n) ** 2

    def function(p, g, first, second):
        p = p.detach().clone()
        p.grad = g.detach()
        optimizer = torch.optim.AdamW([p], lr=rate, betas=(0.9, 0.95), eps=1e-8, weight_decay=decay)
        if step > 1:
            moments = {"exp_avg": first.detach().clone(), "exp_avg_sq": second.detach().clone()}
            optimizer.state[p] = {"step": torch.tensor(float(step - 1)), **moments}
        optimizer.step()
        return p

    return [(function, [draw.normal(m, n), draw.normal(m, n), first, second])]


def sgd(draw):
    m, n = draw.dim(), draw.long()
    rate, decay = draw.pick((1e-3, 1e-1)), draw.pick((0.0, 0.1))

    def function(p, g, buffer):
        p = p.detach().clone()
        p.grad = g.detach().clone()
        optimizer = torch.optim.SGD([p], lr=rate, momentum=0.9, weight_decay=decay)
        optimizer.state[p] = {"momentum_buffer": buffer.detach().clone()}
        optimizer.step()
        return p

    return [(function, [draw.normal(m, n), draw.normal(m, n), draw.normal(m, n)])]


def clip_norm(draw):
    limit = draw.pick((0.1, 1.0))
    gradients = [draw.normal(draw.dim(), draw.long()) for _ in range(draw.pick((1, 3, 5)))]

    def function(*gradients):
        holders = [torch.zeros_like(g) for g in gradients]
        for holder, gradient in zip(holders, gradients):
            holder.grad = gradient.detach().clone()
        norm = torch.nn.utils.clip_grad_norm_(holders, limit)
        return [norm] + [holder.grad for holder in holders]

    return [(function, gradients)]


def gelu_tanh(x):
    return F.gelu(x, approximate="tanh")


KINDS = {
    "linear": linear(),
    "linear_gelu": linear(F.gelu),
    "linear_gelu_tanh": linear(gelu_tanh),
    "linear_silu": linear(F.silu),
    "linear_relu": linear(F.relu),
    "matmul": matmul,
    "attention": attention,
    "attention_learned": attention_learned,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "batch_norm": batch_norm,
    "embedding": embedding,
    "rotary": rotary,
    "rotary_given_tables": rotary_given_tables,
    "gelu": elementwise(F.gelu, normal),
    "gelu_tanh": elementwise(gelu_tanh, normal),
    "silu": elementwise(F.silu, normal),
    "relu": elementwise(F.relu, normal),
    "tanh": elementwise(torch.tanh, normal),
    "sigmoid": elementwise(torch.sigmoid, normal),
    "exp": elementwise(torch.exp, normal),
    "log": elementwise(torch.log, positive),
    "gated": elementwise(lambda a, b: F.silu(a) * b, normal, normal),
    "add": elementwise(torch.add, normal, normal),
    "mul": elementwise(torch.mul, normal, normal),
    "div": elementwise(torch.div, normal, denominator),
    "softmax": elementwise(lambda x: F.softmax(x, -1), normal),
    "log_softmax": elementwise(lambda x: F.log_softmax(x, -1), normal),
    "cross_entropy": cross_entropy,
    "reduce_sum": reduction(torch.sum),
    "reduce_mean": reduction(torch.mean),
    "movement": movement,
    "patches": patches,
    "adamw": adamw,
    "sgd": sgd,
    "clip_norm": clip_norm,
}


def evaluate(function, inputs, cotangent_seed, dtype, wide):
    """Results and input gradients with inputs rounded to `dtype`, computed in it or, when `wide`, in f64."""
    compute = torch.float64 if wide else dtype
    leaves = [x.to(dtype).to(compute).requires_grad_() for x in inputs]
    results = function(*leaves)
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    if any(not wide and r.dtype != dtype for r in results):
        raise TypeError(f"a result is {[r.dtype for r in results]}, expected {dtype}")
    if not any(r.requires_grad for r in results):
        return results, None
    generator = torch.Generator().manual_seed(cotangent_seed)
    cotangents = [
        torch.randn(r.shape, generator=generator, dtype=torch.float64).to(dtype).to(compute) for r in results
    ]
    gradients = torch.autograd.grad(results, leaves, cotangents, allow_unused=True)
    return results, [g for g in gradients if g is not None]


def error(got, want):
    if not (torch.isfinite(got).all() and torch.isfinite(want).all()):
        raise ArithmeticError("a value is not finite")
    if want.numel() == 0:
        return 0.0
    return ((got.double() - want).abs().max() / want.abs().max().clamp_min(1e-30)).item()


def measure(name, kind, draws, seed, dtype):
    forward, gradient = 0.0, None
    for index in range(draws):
        # Keyed by name and index, so that a new kind leaves the others' draws as they were.
        draw_seed = zlib.crc32(f"{seed}/{name}/{index}".encode())
        for function, inputs in kind(Draw(draw_seed, large=index % 3 == 2)):
            got, got_gradients = evaluate(function, inputs, draw_seed + 1, dtype, wide=False)
            want, want_gradients = evaluate(function, inputs, draw_seed + 1, dtype, wide=True)
            forward = max([forward] + [error(g, w) for g, w in zip(got, want, strict=True)])
            if got_gradients is not None:
                errors = [error(g, w) for g, w in zip(got_gradients, want_gradients, strict=True)]
                gradient = max([gradient or 0.0] + errors)
    return {"forward": shorten(forward), "gradient": gradient if gradient is None else shorten(gradient)}


def shorten(x):
    return float(f"{x:.3g}")


def show(x):
    return f"{'none':8}" if x is None else f"{x:.2e}"


def cpu():
    wanted = ("avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16", "amx_tile", "asimd", "bf16", "sve")
    model, flags = platform.machine(), set()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                model = value.strip()
            if key.strip() in ("flags", "Features"):
                flags = set(value.split())
    except OSError:
        pass
    return {"model": model, "features": [f for f in wanted if f in flags]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=OUT, help="file to write (default: the committed golden)")
    parser.add_argument("--draws", type=int, default=21, help="draws per kind (default 21)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    folder = options.out.parent
    # Only the goldens' own folder is made: a crate's folder without its manifest would stop cargo.
    if not folder.is_dir() and not folder.parent.is_dir():
        sys.exit(f"torch_error.py: there is no {folder.parent} to write into; choose another file with --out")
    torch.set_num_threads(2)

    kinds = {}
    for name, kind in KINDS.items():
        kinds[name] = {p: measure(name, kind, options.draws, options.seed, d) for p, d in PRECISIONS.items()}
        print(f"{name:20}", *(f"{p} {show(e['forward'])} {show(e['gradient'])}  " for p, e in kinds[name].items()))
    report = {
        "made_by": "bench/torch_error.py",
        "measure": MEASURE,
        "shapes": SHAPES,
        "torch": torch.__version__,
        "torch_cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "cpu": cpu(),
        "draws": options.draws,
        "seed": options.seed,
        "kinds": kinds,
    }
    # Written whole or not at all.
    folder.mkdir(exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
        json.dump(report, file, indent=1, sort_keys=True)
        file.write("\n")
    os.chmod(file.name, 0o644)
    os.replace(file.name, options.out)


if __name__ == "__main__":
    main()
