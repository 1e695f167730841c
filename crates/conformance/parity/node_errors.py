"""How far PyTorch is from float64 on the nodes of random programs: the bounds of agreement are made of it.

    cargo run --release -p regard-conformance --example nodes -- FOLDER f32 1000000 1001999
    cargo run --release -p regard-conformance --example nodes -- FOLDER bf16 1000000 1001999
    .venv/bin/python crates/conformance/parity/node_errors.py FOLDER        writes ../goldens/node_errors.json

Each node is run in PyTorch in its own precision and in float64, on the operands that the program gave it. What is kept
for each op, kind, result and precision is the error that 99 of 100 nodes stay below. Nodes whose operands determine the
result badly (it moves HARD times further than they when they are rounded) are no part of it: the tests judge those by how
far the float64 specification itself moves. What our own engines are off by is neither known here nor asked. The seeds
are others than those of the tests, which begin at 0.
"""

import argparse
import json
import math
import os
import sys
import tempfile
from pathlib import Path

try:
    import torch
    import torch.nn.functional as F
    from safetensors import safe_open
except ImportError as error:
    sys.exit(f"node_errors.py: cannot import ({error}); run crates/conformance/parity/setup and use .venv/bin/python")

OUT = Path(__file__).resolve().parent.parent / "goldens" / "node_errors.json"
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
QUANTILE = 0.99
HARD = 10.0
WHAT = (
    "error: the 0.99 quantile of max|PyTorch in the precision - PyTorch in f64| / max|PyTorch in f64| over `nodes` nodes "
    "whose result moves at most 10 times further than their operands when those are rounded; `hard` nodes move further "
    "and are left out."
)
# Operands that are counts, choices and bits: they are not rounded.
WHOLE = {"targets", "ids", "indices", "random", "position", "choice", "key_lengths", "key_mask", "explicit mask", "step"}

ACTIVATIONS = {
    "none": lambda x: x,
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelutanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "square": torch.square,
    "abs": torch.abs,
    "recip": torch.reciprocal,
}
# Functions whose derivative PyTorch, too, takes from the result.
FROM_RESULT = {
    "relu": lambda dy, y: torch.ops.aten.threshold_backward(dy, y, 0),
    "tanh": torch.ops.aten.tanh_backward,
    "sigmoid": torch.ops.aten.sigmoid_backward,
    "exp": lambda dy, y: dy * y,
    "sqrt": lambda dy, y: dy / (2 * y),
    "recip": lambda dy, y: -dy * y * y,
}


def number(settings, name, otherwise=None):
    return float(settings[name]) if name in settings else otherwise


def gradients(y, leaves, dy):
    """Zeros where nothing arrives, as at the scores of hard attention."""
    return list(torch.autograd.grad(y, leaves, dy, allow_unused=True, materialize_grads=True))


def leaf(x):
    return x.detach().clone().requires_grad_()


def buckets(distance, rows, bidirectional, farthest):
    """T5's bucket of each distance (key minus query)."""
    found = torch.zeros_like(distance)
    if bidirectional:
        rows //= 2
        found = (distance > 0).long() * rows
        distance = distance.abs()
    else:
        distance = (-distance).clamp_min(0)
    exact = rows // 2
    far = torch.log(distance.clamp_min(1).double() / exact) / math.log(farthest / exact) * (rows - exact)
    far = (exact + far.long()).clamp_max(rows - 1)
    return found + torch.where(distance < exact, distance, far)


def attend(settings, o, leaves):
    """y and log-sum-exp as PyTorch users write them: a dense mask and bias, then scaled_dot_product_attention."""
    q, k, v = (leaves[name].transpose(1, 2) for name in ("query", "key", "value"))  # B H T D
    b, h, t, d = q.shape
    s, share = k.shape[2], h // k.shape[1]
    k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
    distance = torch.arange(s)[None, :] - torch.arange(t)[:, None]
    allowed = torch.ones(b, 1, t, s, dtype=torch.bool)
    if "causal" in settings:
        allowed = allowed & (distance <= 0)
    if "window" in settings:
        before, after = (int(part.split()[0]) for part in settings["window"].split(","))
        allowed = allowed & (distance >= -before) & (distance <= after)
    if "key_lengths" in o:
        allowed = allowed & (torch.arange(s) < o["key_lengths"].long()[:, None])[:, None, None, :]
    if "key_mask" in o:
        allowed = allowed & (o["key_mask"] != 0)[:, None, None, :]
    if "explicit mask" in o:
        allowed = allowed & (o["explicit mask"] != 0)
    kind = settings.get("bias", "")
    bias = None
    if kind.startswith("buckets"):
        table = leaves["bias table"]
        rows = buckets(distance, table.shape[0], "both ways" in kind, int(kind.split()[-1]))
        bias = table[rows].permute(2, 0, 1)[None]
    elif kind == "clipped table":
        table = leaves["bias table"]
        reach = table.shape[0] // 2
        bias = table[distance.clamp(-reach, reach) + reach].permute(2, 0, 1)[None]
    elif kind == "alibi":
        bias = -leaves["slopes"][None, :, None, None] * distance.abs().to(q.dtype)
    elif kind == "dense":
        bias = leaves["bias"]
    scale = number(settings, "scale", 1 / math.sqrt(d))
    if "scale" in leaves:
        q, scale = q * leaves["scale"][None, :, None, None], 1.0
    # Rows without a key are zero here and not a number there: they get a key, and their result is dropped.
    empty = ~allowed.any(-1, keepdim=True)
    low = torch.zeros(allowed.shape, dtype=q.dtype).masked_fill(~(allowed | empty), -math.inf)
    full = low if bias is None else low + bias
    full = full.expand(b, h, t, s)
    scores = (q @ k.transpose(-1, -2)) * scale + full
    kind, dropout = settings.get("kind", ""), number(settings, "dropout", 0.0)
    # Noise is drawn by streams of our own; here it is other noise of the same distribution.
    generator = torch.Generator().manual_seed(1)
    if kind.startswith("gumbel"):
        uniform = torch.rand(scores.shape, generator=generator, dtype=torch.float64).clamp(1e-6, 1 - 1e-6)
        noise = (-torch.log(-torch.log(uniform))).to(torch.bfloat16).to(q.dtype)
        scores = (scores + noise) / float(kind.split()[2].rstrip(","))
    lse = torch.logsumexp(scores, -1)
    if kind or dropout:
        weights = scores.softmax(-1)
        if "choice" in o:
            # The choice is given: which of two keys of the same score is chosen, is no error of rounding.
            place = o["choice"].long().clamp_min(0).transpose(1, 2)[..., None]
            hard = torch.zeros_like(weights).scatter_(-1, place, 1.0)
            weights = hard if kind == "hard" else hard + (weights - weights.detach())
        if dropout:
            kept = torch.rand(scores.shape, generator=generator, dtype=torch.float64) >= dropout
            weights = weights * kept.to(q.dtype) / (1 - dropout)
        y = weights @ v
    else:
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=full, scale=scale)
    y = torch.where(empty, torch.zeros_like(y), y)
    lse = torch.where(empty[..., 0].expand(lse.shape), torch.full_like(lse, -math.inf), lse)
    return y.transpose(1, 2), lse.transpose(1, 2)


def attention_leaves(o):
    return {name: leaf(o[name]) for name in ("query", "key", "value", "scale", "bias table", "slopes", "bias") if name in o}


def attention(settings, o):
    y, lse = attend(settings, o, attention_leaves(o))
    return [y, lse, None]


def attention_backward(settings, o):
    leaves = attention_leaves(o)
    y, lse = attend(settings, o, leaves)
    total = (y * o["dy"]).sum()
    if "dlse" in o:
        total = total + (torch.where(lse.isinf(), torch.zeros_like(lse), lse) * o["dlse"]).sum()
    return gradients(total, list(leaves.values()), None)


def sum_to(shape):
    def function(x):
        axes = [axis for axis, size in enumerate(shape) if x.shape[axis + x.dim() - len(shape)] != size]
        axes = [axis + x.dim() - len(shape) for axis in axes] + list(range(x.dim() - len(shape)))
        return (x.sum(axes) if axes else x).reshape(shape)

    return function


def cross_entropy(settings, o):
    logits = o["logits"].reshape(-1, o["logits"].shape[-1])
    loss = F.cross_entropy(
        logits, o["targets"].long().reshape(-1), reduction="none", ignore_index=int(settings["ignore_index"]),
        label_smoothing=number(settings, "label_smoothing"),
    )
    return [loss.reshape(o["targets"].shape), torch.logsumexp(logits, -1).reshape(o["targets"].shape)]


def cross_entropy_backward(settings, o):
    logits = leaf(o["logits"])
    loss = cross_entropy(settings, {**o, "logits": logits})[0]
    return gradients(loss, [logits], o["dloss"].to(loss.dtype))


def linear_cross_entropy(settings, o):
    leaves = [leaf(o[name]) for name in ("x", "weight", "bias") if name in o]
    logits = F.linear(*leaves)
    rows = cross_entropy(settings, {**o, "logits": logits})[0]
    loss = rows.sum() * o["scale"]
    return [loss, rows] + gradients(loss, leaves, None)


def norm(settings, o, kind, x):
    """y and the statistics."""
    if kind == "layer":
        return list(torch.native_layer_norm(x, x.shape[-1:], o.get("scale"), o.get("shift"), number(settings, "epsilon", 1e-5)))
    epsilon = number(settings, "epsilon", 1e-6)
    y = F.rms_norm(x, x.shape[-1:], o.get("scale"), epsilon)
    return [y, torch.rsqrt(x.square().mean(-1) + epsilon)]


def norm_forward(kind):
    def function(settings, o):
        if "residual" not in o:
            return norm(settings, o, kind, o["x"])
        h = o["x"] + o["residual"]
        y, *statistics = norm(settings, o, kind, h)
        return [y, h, *statistics]

    return function


def norm_backward(kind):
    def function(settings, o):
        h, scale = leaf(o["h"]), leaf(o["scale"]) if "scale" in o else None
        y = norm(settings, {"scale": scale} if scale is not None else {}, kind, h)[0]
        found = gradients(y, [h] + ([scale] if scale is not None else []), o["dy"])
        if "stream" in o:
            found[0] = found[0] + o["stream"]
        rows = o["dy"].reshape(-1, o["dy"].shape[-1])
        return found + [rows.sum(0)]

    return function


def batch_norm(settings, o):
    x = o["x"].reshape(-1, o["x"].shape[-1])
    momentum, epsilon = number(settings, "momentum"), number(settings, "epsilon", 1e-5)
    mean, variance = o["running_mean"].clone(), o["running_variance"].clone()
    y = F.batch_norm(x, mean, variance, o.get("scale"), o.get("shift"), True, momentum, epsilon)
    own = x.var(0, correction=0)
    return [y.reshape(o["x"].shape), x.mean(0), torch.rsqrt(own + epsilon), mean, variance]


def batch_norm_backward(settings, o):
    x, scale = leaf(o["x"].reshape(-1, o["x"].shape[-1])), leaf(o["scale"]) if "scale" in o else None
    y = F.batch_norm(x, None, None, scale, None, True, eps=1e-5)
    dy = o["dy"].reshape(x.shape)
    found = gradients(y, [x] + ([scale] if scale is not None else []), dy)
    return [found[0].reshape(o["x"].shape)] + found[1:] + [dy.sum(0)]


def rotary(settings, o):
    """With cosines and sines made in f64 and rounded to the dtype, as models keep them."""
    x, width = o["x"], int(settings["width"])
    position = o["position"].double() if "position" in o else torch.arange(x.shape[1]).double()[None]
    frequency = float(settings["base"]) ** (-torch.arange(0, width, 2).double() / width)
    angle = (position[..., None] * frequency)[:, :, None, :]
    cosine, sine = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    if settings.get("inverse") == "true":
        sine = -sine
    turning, rest = x[..., :width], x[..., width:]
    if settings.get("pairing") == "interleaved":
        a, b = turning[..., 0::2], turning[..., 1::2]
        turned = torch.stack((a * cosine - b * sine, b * cosine + a * sine), -1).flatten(-2)
    else:
        a, b = turning.chunk(2, -1)
        turned = torch.cat((a * cosine - b * sine, b * cosine + a * sine), -1)
    return [torch.cat((turned, rest), -1)]


def clip_norm(settings, o):
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(x) for x in o.values()]))
    return [norm, (float(settings["most"]) / (norm + 1e-6)).clamp(max=1.0)]


def unary_backward(settings, o):
    function = settings["function"]
    if "y" in o:
        return [FROM_RESULT[function](o["dy"], o["y"])]
    x = leaf(o["x"])
    return gradients(ACTIVATIONS[function](x), [x], o["dy"])


def gated(settings, o):
    return [ACTIVATIONS[settings["gate"]](o["a"]) * o["b"]]


def gated_backward(settings, o):
    leaves = {"a": leaf(o["a"]), "b": leaf(o["b"])}
    return gradients(gated(settings, leaves)[0], list(leaves.values()), o["dy"])


def activation_backward(settings, o):
    z = leaf(o["z"])
    return gradients(ACTIVATIONS[settings["activation"].lower()](z), [z], o["dy"])


def linear(settings, o):
    weight = o["weight"] if settings["layout"] == "OutIn" else o["weight"].T
    z = F.linear(o["x"], weight, o.get("bias"))
    if "derivative" in settings:
        return activation_backward({"activation": settings["derivative"]}, {"z": o["z"], "dy": z})
    y = ACTIVATIONS[settings["activation"].lower()](z)
    return [y + o["residual"] if "residual" in o else y, z]


def weight_gradient(settings, o):
    left, right = o["left"].reshape(-1, o["left"].shape[-1]), o["right"].reshape(-1, o["right"].shape[-1])
    return [left.T @ right, left.sum(0)]


def matmul(settings, o):
    a = o["a"].transpose(-1, -2) if settings["transpose_a"] == "true" else o["a"]
    b = o["b"].transpose(-1, -2) if settings["transpose_b"] == "true" else o["b"]
    return [a @ b * number(settings, "scale")]


def softmax_backward(log):
    backward = torch.ops.aten._log_softmax_backward_data if log else torch.ops.aten._softmax_backward_data
    return lambda settings, o: [backward(o["dy"], o["y"], -1, o["y"].dtype) * number(settings, "beta")]


def rows_added(ids, rows):
    """The backward of picking rows: those of dy are added to the rows that they were picked from."""

    def function(settings, o):
        dy, index = o["dy"], o[ids].long() if ids in o else torch.arange(o["dy"].shape[1]).expand(o["dy"].shape[:-1])
        table = torch.zeros(int(settings[rows]), dy.shape[-1], dtype=dy.dtype)
        return [table.index_add(0, index.reshape(-1), dy.reshape(-1, dy.shape[-1]))]

    return function


def add_position(settings, o):
    rows = o["position"].long() if "position" in o else torch.arange(o["x"].shape[1])
    return [o["x"] + o["table"][rows]]


def scatter_add(settings, o):
    axis, shape = int(settings["axis"]), list(o["x"].shape)
    shape[axis] = int(settings["size"])
    return [torch.zeros(shape, dtype=o["x"].dtype).index_add(axis, o["indices"].long().reshape(-1), o["x"])]


def optimizer(name):
    """The step of torch.optim; what is written back are parameter and moments, in our order."""

    def function(settings, o):
        p = o["param"].detach().clone()
        scale = o["scale"] if "scale" in o else torch.ones((), dtype=p.dtype)
        p.grad = (o["gradient"] * scale).detach()
        rate, decay = float(o["lr"]), number(settings, "weight_decay", 0.0)
        if name == "adamw":
            betas = (number(settings, "beta1"), number(settings, "beta2"))
            made = torch.optim.AdamW([p], lr=rate, betas=betas, eps=number(settings, "epsilon"), weight_decay=decay)
            moments = {"exp_avg": o["m"].clone(), "exp_avg_sq": o["v"].clone()}
            made.state[p] = {"step": torch.tensor(float(o["step"]) - 1), **moments}
            made.step()
            return [p, moments["exp_avg"], moments["exp_avg_sq"]]
        momentum = number(settings, "momentum", 0.0)
        made = torch.optim.SGD(
            [p], lr=rate, momentum=momentum, weight_decay=decay, nesterov=settings.get("nesterov") == "true"
        )
        if momentum:
            made.state[p] = {"momentum_buffer": o["momentum"].clone()}
        made.step()
        return [p] + ([made.state[p]["momentum_buffer"]] if momentum else [])

    return function


OPS = {
    "attention": attention,
    "attention_backward": attention_backward,
    "cross_entropy": cross_entropy,
    "cross_entropy_backward": cross_entropy_backward,
    "linear_cross_entropy": linear_cross_entropy,
    "layer_norm": norm_forward("layer"),
    "rms_norm": norm_forward("rms"),
    "layer_norm_backward": norm_backward("layer"),
    "rms_norm_backward": norm_backward("rms"),
    "batch_norm": batch_norm,
    "batch_norm_backward": batch_norm_backward,
    "unary_backward": unary_backward,
    "gated": gated,
    "gated_backward": gated_backward,
    "linear_activation_backward": activation_backward,
    "linear": linear,
    "weight_gradient": weight_gradient,
    "matmul": matmul,
    "softmax": lambda settings, o: [F.softmax(o["x"] * number(settings, "beta"), -1)],
    "log_softmax": lambda settings, o: [F.log_softmax(o["x"] * number(settings, "beta"), -1)],
    "softmax_backward": softmax_backward(log=False),
    "log_softmax_backward": softmax_backward(log=True),
    "add": lambda settings, o: [o["a"] + o["b"]],
    "sub": lambda settings, o: [o["a"] - o["b"]],
    "mul": lambda settings, o: [o["a"] * o["b"]],
    "div": lambda settings, o: [o["a"] / o["b"]],
    "add_position": add_position,
    "add_position_backward": rows_added("position", "rows"),
    "embedding_backward": rows_added("ids", "rows"),
    "scatter_add": scatter_add,
    "accumulate": lambda settings, o: [sum(o.values())],
    "scale": lambda settings, o: [o["x"] * number(settings, "scale") + number(settings, "shift")],
    "rotary": rotary,
    "clip_norm": clip_norm,
    "adamw": optimizer("adamw"),
    "sgd": optimizer("sgd"),
}
for name, function in ACTIVATIONS.items():
    OPS.setdefault(name, lambda settings, o, function=function: [function(o["x"])])


def counterpart(node, wants):
    """PyTorch's function for a node."""
    settings, op = node["settings"], node["op"]
    if op == "sum_to":
        return lambda settings, o: [sum_to(wants[0].shape)(o["x"])]
    if op == "mean_to":
        return lambda settings, o: [sum_to(wants[0].shape)(o["x"]) / (o["x"].numel() // max(wants[0].numel(), 1))]
    if op == "broadcast_to":
        return lambda settings, o: [(o["x"] / (wants[0].numel() // o["x"].numel())).expand(wants[0].shape)]
    if op == "dropout":
        return lambda settings, o: [o["x"] * (wants[0] != 0) / (1 - number(settings, "probability"))]
    if op not in OPS:
        sys.exit(f"node_errors.py: there is no counterpart of `{op}` ({settings}); add it to OPS")
    return OPS[op]


def found(node, given, wants, dtype):
    """What PyTorch gives, in f64 however it was computed."""
    o = {name: x if name.split("#")[0] in WHOLE else x.to(dtype) for name, x in given.items()}
    results = counterpart(node, wants)(node["settings"], o)
    results = [None if result is None else result.detach().double() for result in results]
    # Statistics keep an axis of size 1 there.
    alike = [x is not None and index < len(wants) and x.numel() == wants[index].numel() for index, x in enumerate(results)]
    return [x.reshape(wants[index].shape) if same else x for index, (x, same) in enumerate(zip(results, alike))]


def most(x):
    """The largest finite magnitude; infinities stand for rows without keys, and are on both sides."""
    finite = x[x.isfinite()].abs()
    return finite.max().item() if finite.numel() else 0.0


def conditions(node, given, wants, exact):
    """How many times further than its operands each result moves when they are rounded. Where there is noise, ours is
    of other streams, so that it is seen here."""
    largest = [max(result["largest"], 1e-30) for result in node["results"]]
    moved = [[result["moved"], result["moved_bf16"]] for result in node["results"]]
    if "random" in node["operands"] and node["op"] != "dropout":
        largest = [1e-30 if x is None else max(most(x), 1e-30) for x in exact]
        moved = [[0.0, 0.0] for _ in exact]
        steps = [(0, 2.0**-24, None)] + ([(1, 2.0**-9, ("value", "dy"))] if node["precision"] == "bf16" else [])
        for place, step, names in steps:
            for draw in range(4):
                generator = torch.Generator().manual_seed(draw)
                other = {}
                for name, x in given.items():
                    signs = torch.randint(2, x.shape, generator=generator) * 2 - 1
                    moves = name not in WHOLE and (names is None or name in names)
                    other[name] = x * (1 + signs * step) if moves else x
                for index, x in enumerate(found(node, other, wants, torch.float64)):
                    if x is not None:
                        moved[index][place] = max(moved[index][place], most(x - exact[index]))
    return [max(far / 2.0**-24, wide / 2.0**-9) / size for (far, wide), size in zip(moved, largest)]


def nodes_of(folder, program):
    """The nodes that the example wrote: what is said of each, its operands and results."""
    lines, file = folder / f"{program}.jsonl", folder / f"{program}.safetensors"
    if not lines.is_file() or not file.is_file():
        sys.exit(f"node_errors.py: {lines} or {file} is missing; run the example `nodes` first")
    with safe_open(file, "pt") as tensors:
        for line in lines.open():
            node = json.loads(line)
            given = {}
            for index, name in enumerate(node["operands"]):
                operand = tensors.get_tensor(f"{node['node']}.operand.{index}").double()
                given[f"{name}#{index}" if name in given else name] = operand
            wants = [tensors.get_tensor(f"{node['node']}.want.{index}") for index in range(len(node["results"]))]
            yield node, given, wants


def quantile(errors):
    """The error that 99 of 100 stay below or at."""
    ordered = sorted(errors)
    return ordered[min(len(ordered) - 1, math.ceil(QUANTILE * len(ordered)) - 1)] if ordered else 0.0


def measure(node, given, wants, table):
    dtype = DTYPES[node["precision"]]
    kind = node["settings"].get("kind", "")
    if node["op"] == "attention" and (kind.endswith("hard") or kind == "straight-through"):
        given["choice"] = wants[2]
    # Both sides start from what the precision holds.
    given = {name: x if name.split("#")[0] in WHOLE else x.to(dtype).double() for name, x in given.items()}
    got, exact = found(node, given, wants, dtype), found(node, given, wants, torch.float64)
    hardness = conditions(node, given, wants, exact)
    for index, result in enumerate(node["results"]):
        if index >= len(got) or got[index] is None or not got[index].numel():
            continue
        if got[index].shape != wants[index].shape:
            theirs, ours = list(got[index].shape), list(wants[index].shape)
            sys.exit(f"node_errors.py: result {result['name']} of {node} is {theirs}, ours {ours}")
        place = table.setdefault(node["key"], {}).setdefault(result["name"], {}).setdefault(node["precision"], [[], 0])
        difference, largest = most(got[index] - exact[index]), most(exact[index])
        if hardness[index] > HARD:
            place[1] += 1
        elif largest > 0:
            place[0].append(difference / largest)


def shorten(x):
    return float(f"{x:.3g}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="what the example `nodes` wrote")
    parser.add_argument("--out", type=Path, default=OUT, help="file to write (default: the committed golden)")
    options = parser.parse_args()
    torch.set_num_threads(1)  # the tensors are small
    table, seeds = {}, set()
    for program in DTYPES:
        for node, given, wants in nodes_of(options.folder, program):
            seeds.add(node["seed"])
            measure(node, given, wants, table)
    ops = {}
    for key, results in table.items():
        for result, precisions in results.items():
            for precision, (errors, hard) in precisions.items():
                row = {"error": shorten(quantile(errors)), "hard": hard, "nodes": len(errors)}
                ops.setdefault(key, {}).setdefault(result, {})[precision] = row
                print(f"{key:36} {result:14} {precision:5} {row['error']:.2e} of {row['nodes']}, hard {hard}")
    report = {
        "made_by": "crates/conformance/parity/node_errors.py",
        "what": WHAT,
        "torch": torch.__version__,
        "torch_cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "seeds": [min(seeds), max(seeds)],
        "ops": ops,
    }
    # Written whole or not at all.
    with tempfile.NamedTemporaryFile("w", dir=options.out.parent, delete=False) as file:
        json.dump(report, file, indent=1, sort_keys=True)
        file.write("\n")
    os.chmod(file.name, 0o644)
    os.replace(file.name, options.out)


if __name__ == "__main__":
    main()
