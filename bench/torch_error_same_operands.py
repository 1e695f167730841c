"""How far PyTorch is from float64 on the hard operands that random programs meet, node by node, beside our CPU engine.

    cargo run --release -p regard-conformance --example nodes -- FOLDER f32 0 2999
    cargo run --release -p regard-conformance --example nodes -- FOLDER bf16 0 2999
    .venv/bin/python bench/torch_error_same_operands.py FOLDER
                                    writes crates/conformance/goldens/torch_error_same_operands.json

Sums that cancel, weights on one key, losses that vanish: what is left is mostly rounding, in any engine. How much,
is measured here on the very operands. Each node is run in PyTorch in its own precision and in f64, the difference
is divided by the scale of our specification's result, and the same is done for our engine's result.
"""

import argparse
import json
import math
import os
import sys
import tempfile
from pathlib import Path
from statistics import median

try:
    import torch
    import torch.nn.functional as F
    from safetensors.torch import load_file
except ImportError as error:
    sys.exit(f"torch_error_same_operands.py: cannot import ({error}); run bench/setup_venv and use .venv/bin/python")

OUT = Path(__file__).resolve().parent.parent / "crates" / "conformance" / "goldens" / "torch_error_same_operands.json"
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
# Rounding is luck: PyTorch's error is the largest over the operands themselves and this many neighbours of them, one
# unit in the last place away.
NEIGHBOURS = 4
WHAT = (
    "PyTorch's error = max|PyTorch in the precision - PyTorch in f64| / scale, the largest over the operands and "
    "neighbours one unit in the last place away; ours = max|CPU engine - specification| / scale; scale = the largest "
    "number of the specification's result, or how far it moves with half an ulp of the operands, if that is more. "
    "nodes: results with hard operands (condition of 10 or more, or over twice PyTorch's error on easy ones); over: those "
    "over it; over_otherwise: the same without a counterpart, or with noise of its own; ours, torch: the largest errors of those; ratio: ours by PyTorch's of the same result, for those over; "
    "not_run: results without a counterpart; stairs: [condition, PyTorch's largest error up to it]."
)
INTEGERS = {"targets", "ids", "indices", "index", "random", "position", "choice", "key_lengths", "key_mask", "explicit mask"}

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
    return list(torch.autograd.grad(y, leaves, dy, allow_unused=True))


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
        if kind == "hard" or kind == "straight-through" or kind.endswith("hard"):
            hard = torch.zeros_like(weights).scatter_(-1, scores.argmax(-1, keepdim=True), 1.0)
            weights = hard if kind == "hard" else hard + weights - weights.detach()
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
    y = F.batch_norm(x, None, None, o.get("scale"), o.get("shift"), True, eps=number(settings, "epsilon", 1e-5))
    return [y.reshape(o["x"].shape)]


def batch_norm_backward(settings, o):
    x, scale = leaf(o["x"].reshape(-1, o["x"].shape[-1])), leaf(o["scale"]) if "scale" in o else None
    y = F.batch_norm(x, None, None, scale, None, True, eps=1e-5)
    dy = o["dy"].reshape(x.shape)
    found = gradients(y, [x] + ([scale] if scale is not None else []), dy)
    return [found[0].reshape(o["x"].shape)] + found[1:] + [dy.sum(0)]


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


def embedding_backward(rows):
    def function(settings, o):
        width = o["dy"].shape[-1]
        table = torch.zeros(rows, width, dtype=o["dy"].dtype)
        return [table.index_add(0, o["ids"].long().reshape(-1), o["dy"].reshape(-1, width))]

    return function


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
    "add_position": lambda settings, o: [o["x"] + o["table"][: o["x"].shape[1]]],
    "add_position_backward": lambda settings, o: [o["dy"].sum(0)],
    "accumulate": lambda settings, o: [sum(o.values())],
    "adamw": optimizer("adamw"),
    "sgd": optimizer("sgd"),
}
for name, function in ACTIVATIONS.items():
    OPS.setdefault(name, lambda settings, o, function=function: [function(o["x"])])


def counterpart(node, wants):
    """PyTorch's function for a node; None where there is none."""
    settings, op = node["settings"], node["op"]
    if settings.get("mode") == "eval" or (op != "attention_backward" and "random" in node["operands"]):
        return None
    if op == "attention" and "kind" in settings:
        return None  # a choice is right or wrong
    if op == "sum_to":
        return lambda settings, o: [sum_to(wants[0].shape)(o["x"])]
    if op == "embedding_backward":
        return embedding_backward(wants[0].shape[0])
    return OPS.get(op)


def errors_of(node, operands, wants):
    """PyTorch's error for each result of a node; None where it has no counterpart."""
    function, dtype = counterpart(node, wants), DTYPES[node["precision"]]
    if function is None:
        return [None] * len(wants)
    worst = [None] * len(wants)
    for neighbour in range(1 + NEIGHBOURS):
        generator = torch.Generator().manual_seed(1000 * node["node"] + neighbour)
        given = {}
        for name, x in operands.items():
            x = x.double()
            if name not in INTEGERS and neighbour > 0:
                signs = torch.randint(2, x.shape, generator=generator) * 2 - 1
                x = x * (1 + signs * torch.finfo(dtype).eps)
            given[name] = x if name in INTEGERS else x.to(dtype).double()
        got = function(node["settings"], {n: x if n in INTEGERS else x.to(dtype) for n, x in given.items()})
        exact = function(node["settings"], given)
        for index in range(len(wants)):
            if index >= len(got) or got[index] is None:
                continue
            difference = torch.nan_to_num((got[index].double() - exact[index]).abs(), nan=0.0)
            scale = max(node["scales"][index], 1e-30)
            if "random" in node["operands"]:
                scale = max(scale, exact[index].abs().max().item())  # other noise, another result
            worst[index] = max(worst[index] or 0.0, difference.max().item() / scale)
    return worst


def stairs(points):
    """PyTorch's largest error up to each condition: only the steps."""
    steps = []
    for condition, error in sorted(points):
        if error > (steps[-1][1] if steps else 0.0):
            # Rounded down: the operands that it was measured on are among those that it is for.
            steps.append([shorten(condition * 0.995), shorten(error)])
    return steps


def shorten(x):
    return float(f"{x:.3g}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="what the example `nodes` wrote")
    parser.add_argument("--out", type=Path, default=OUT, help="file to write (default: the committed golden)")
    options = parser.parse_args()
    torch.set_num_threads(1)  # the tensors are small
    found = {}
    seeds = set()
    for program in DTYPES:
        lines, file = options.folder / f"{program}.jsonl", options.folder / f"{program}.safetensors"
        if not lines.is_file() or not file.is_file():
            sys.exit(f"torch_error_same_operands.py: {lines} or {file} is missing; run the example `nodes` first")
        tensors = load_file(file)
        for line in lines.read_text().splitlines():
            node = json.loads(line)
            seeds.add(node["seed"])
            operands = {name: tensors[f"{node['node']}.operand.{name}"] for name in node["operands"]}
            wants = [tensors[f"{node['node']}.want.{index}"] for index in range(len(node["errors"]))]
            errors = errors_of(node, operands, wants)
            place = found.setdefault(node["op"], {}).setdefault(node["precision"], [])
            place += zip(node["errors"], node["conditions"], node["over"], errors, [node] * len(errors))
    ops = {}
    for op, precisions in sorted(found.items()):
        for precision, results in sorted(precisions.items()):
            run = [(ours, condition, over, error, node) for ours, condition, over, error, node in results if error is not None]
            # With noise, PyTorch's result is another one: of the same kind, but no ratio.
            same = [result for result in run if "random" not in result[4]["operands"]]
            judged = [(ours, error, node) for ours, _, over, error, node in same if over]
            unseen = sum(result[2] for result in results) - len(judged)
            ratios = [ours / max(error, 1e-30) for ours, error, _ in judged]
            ops.setdefault(op, {})[precision] = {
                "nodes": len(results),
                "not_run": len(results) - len(run),
                "over": len(judged),
                "over_otherwise": unseen,
                "ours": shorten(max([ours for ours, _, _ in judged], default=0.0)),
                "torch": shorten(max([error for _, error, _ in judged], default=0.0)),
                "ratio": {"worst": shorten(max(ratios)), "median": shorten(median(ratios))} if ratios else None,
                "stairs": stairs([(condition, error) for _, condition, _, error, _ in run]),
            }
            row = ops[op][precision]
            print(f"{op:28} {precision:5} {row['nodes']:6} not run {row['not_run']:5} over {row['over']:5} "
                  f"ours {row['ours']:.2e} torch {row['torch']:.2e} ratio {row['ratio']}")
            for ratio, (ours, error, node) in sorted(zip(ratios, judged), key=lambda pair: -pair[0])[:3]:
                if ratio > 2:
                    print(f"      seed {node['seed']} {node['name']}: ours {ours:.2e}, PyTorch {error:.2e} {node['conditions']}")
    report = {
        "made_by": "bench/torch_error_same_operands.py",
        "what": WHAT,
        "torch": torch.__version__,
        "torch_cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "seeds": [min(seeds, default=0), max(seeds, default=0)],
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
