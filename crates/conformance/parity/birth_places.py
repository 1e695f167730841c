"""The birth-place study in PyTorch, and its loss curve beside that of `regard train recipes/birth_places.toml`.

Two comparisons, both of the arm with learned positions, reading first, then questions:

* same start: Regard's initial weights and Regard's own batches (`regard data batches`), no dropout. Nothing is random any
  more, so the curves must agree step by step, to `--bound`. But at the study's rate of 6e-3 a difference in the last bit
  grows from step to step: a twin in PyTorch that starts from weights 1e-7 apart shows how far PyTorch drifts from itself,
  and Regard may have drifted ten times as far by then, no more.
* own randomness: weights, spans and dropout are drawn here as the assignment says. Several seeds on both sides: the means
  of each stretch of steps must lie within `--spreads` standard errors of each other. Early steps at 6e-3 are so rough
  (one seed leaps to a loss of 5.7 where another stays at 3.8) that two or three seeds do not show the spread.

Prints both tables and writes them as JSON; exits with 1 if the curves differ.

    .venv/bin/python crates/conformance/parity/birth_places.py --regard target/release/regard --data ../shared/data/a5
"""

import argparse
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

ROOT = pathlib.Path(__file__).resolve().parents[3]
LAYERS, HEADS, WIDTH, BLOCK, ROW = 4, 8, 256, 128, 127
PAD, MARK, IGNORED = 0, 1, -100
WARM_UP, FLOOR = 512 * 20, 0.1
DRIFT = 10.0


class Attention(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.dropout = dropout

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (part(x).view(batch, length, HEADS, -1).transpose(1, 2) for part in (self.query, self.key, self.value))
        scores = q @ k.transpose(-2, -1) / math.sqrt(WIDTH // HEADS)
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        weights = F.dropout(scores.masked_fill(later, -math.inf).softmax(-1), self.dropout)
        return self.output((weights @ v).transpose(1, 2).reshape(batch, length, WIDTH))


class Block(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention(dropout)
        self.feed_forward = nn.ModuleDict({"up": nn.Linear(WIDTH, 4 * WIDTH), "down": nn.Linear(4 * WIDTH, WIDTH)})
        self.dropout = dropout

    def forward(self, x):
        x = x + F.dropout(self.attention(self.attention_norm(x)), self.dropout)
        inner = self.feed_forward["down"](F.gelu(self.feed_forward["up"](self.feed_forward_norm(x))))
        return x + F.dropout(inner, self.dropout)


class Gpt(nn.Module):
    """The assignment's decoder, under Regard's names, so that its files load as they are."""

    def __init__(self, vocabulary, dropout):
        super().__init__()
        self.token_embedding = nn.Embedding(vocabulary, WIDTH)
        self.position_embedding = nn.Embedding(BLOCK, WIDTH)
        self.block = nn.ModuleList(Block(dropout) for _ in range(LAYERS))
        self.final_norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, vocabulary, bias=False)
        self.dropout = dropout
        for name, parameter in self.named_parameters():
            if name.endswith("bias") or name == "position_embedding.weight":
                nn.init.zeros_(parameter)
            elif "norm" not in name:
                nn.init.normal_(parameter, std=0.02)

    def loss(self, ids, targets):
        x = self.token_embedding(ids) + self.position_embedding(torch.arange(ids.shape[1]))
        x = F.dropout(x, self.dropout)
        for block in self.block:
            x = block(x)
        logits = self.head(self.final_norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten().long(), ignore_index=IGNORED)


def train(model, batches, rate, final_tokens):
    """AdamW as in the assignment: all but biases decay. The rate of a step is that of the tokens after it."""
    decay = [p for name, p in model.named_parameters() if not name.endswith("bias")]
    plain = [p for name, p in model.named_parameters() if name.endswith("bias")]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95), eps=1e-8)
    losses, tokens = [], 0
    for ids, targets in batches:
        tokens += ids.numel()
        if tokens < WARM_UP:
            factor = tokens / WARM_UP
        else:
            progress = min(1.0, (tokens - WARM_UP) / max(1, final_tokens - WARM_UP))
            factor = max(FLOOR, 0.5 * (1 + math.cos(math.pi * progress)))
        for group in optimizer.param_groups:
            group["lr"] = rate * factor
        loss = model.loss(ids, targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


class Study:
    """The files as numbers, and batches of them drawn as the assignment says."""

    def __init__(self, folder, limit):
        text = (folder / "wiki.txt").read_text(encoding="utf-8")
        characters = ["\u25a1", "\u2047"] + sorted(set(text))
        self.ids = {character: i for i, character in enumerate(characters)}
        self.lines = [self.encode(line) for line in text.split("\n") if line][:limit or None]
        rows = (folder / "birth_places_train.tsv").read_text(encoding="utf-8").splitlines()
        self.questions = [[self.encode(part) for part in row.split("\t")] for row in rows if row]

    def encode(self, text):
        return [self.ids[character] for character in text]

    def read(self, steps, batch, draw):
        def corrupted(line):
            length = min(draw.randint(4, BLOCK * 7 // 8), len(line))
            # Evenly from 1 to m, whose mean is a quarter of the length.
            masked = draw.randint(1, max(1, (length + draw.randint(0, 1) - 2) // 2))
            start = draw.randint(0, length - masked)
            prefix, hidden, suffix = line[:start], line[start:start + masked], line[start + masked:length]
            return prefix + [MARK] + suffix + [MARK] + hidden + [MARK], 0
        yield from self.batches(self.lines, steps, batch, corrupted)

    def answer(self, steps, batch):
        def joined(pair):
            question, place = pair
            return question + [MARK] + place + [MARK], len(question)
        yield from self.batches(self.questions, steps, batch, joined)

    @staticmethod
    def batches(examples, steps, batch, make):
        made = 0
        while True:
            for first in range(0, len(examples), batch):
                rows = [make(example) for example in examples[first:first + batch]]
                ids = torch.zeros(len(rows), ROW, dtype=torch.long)
                targets = torch.full((len(rows), ROW), IGNORED)
                for row, (text, silent) in enumerate(rows):
                    ids[row, :len(text) - 1] = torch.tensor(text[:-1])
                    targets[row, silent:len(text) - 1] = torch.tensor(text[1 + silent:])
                yield ids, targets
                made += 1
                if made == steps:
                    return


class Regard:
    """The command, on the recipe with the files' paths."""

    def __init__(self, command, data, scratch, given):
        self.command, self.scratch, self.given = str(command), scratch, given
        files = {"text": "wiki.txt", "train": "birth_places_train.tsv", "evaluate": "birth_dev.tsv",
                 "test": "birth_test_inputs.tsv"}
        self.recipe = [str(ROOT / "recipes/birth_places.toml"), "model.positions=learned", "train.precision=f32", "train.log_every=1",
                       "stage.pretrain.train.lr=6e-3", "stage.pretrain.train.warmup_tokens=10240"]  # as in the course
        self.recipe += [f"data.{key}={data / name}" for key, name in files.items()]
        self.recipe += [f"stage.pretrain.train.batch={given.batch}", f"stage.finetune.train.batch={given.question_batch}",
                        "stage.pretrain.data.limit=%d" % given.lines]

    def run(self, *arguments):
        done = subprocess.run([self.command, *arguments], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(arguments)}: {done.stderr}")

    def batches(self, stage, count):
        out = self.scratch / f"{stage}.safetensors"
        self.run("data", "batches", *self.recipe, "--stage", stage, "--count", str(count), "--out", str(out))
        tensors = load_file(out)
        return [(tensors[f"{i}.ids"].long(), tensors[f"{i}.targets"].long()) for i in range(count)]

    def train(self, name, *overrides):
        """Both stages; the losses of each."""
        run = self.scratch / name
        self.run("train", *self.recipe, "stage.finetune.train.evaluate_every=1000000", "evaluate.most=1", *overrides,
                 "--out", str(run))
        losses = []
        for stage in ("pretrain", "finetune"):
            lines = map(json.loads, (run / stage / "metrics.jsonl").read_text().splitlines())
            losses.append([line["loss"] for line in lines if "loss" in line])
        return losses

    def length(self, given):
        return [f"stage.pretrain.train.steps={given.steps}", f"stage.finetune.train.steps={given.question_steps}"]

    def initial(self):
        """The weights of the beginning: steps at a rate that f32 rounds away change nothing but zeros, and those to 1e-30."""
        still = [f"stage.{stage}.train.{key}" for stage in ("pretrain", "finetune") for key in ("steps=1", "lr=1e-30")]
        self.train("initial", *still, "train.dropout=0.0")
        return load_file(self.scratch / "initial/model/model.safetensors")


def final_tokens(epochs, examples):
    return epochs * examples * BLOCK


def same_start(regard, study, given):
    start = regard.initial()
    batches = regard.batches("pretrain", given.steps), regard.batches("finetune", given.question_steps)

    def curve(moved):
        model = Gpt(len(study.ids), 0.0)
        model.load_state_dict(start, strict=True)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1 + moved * torch.randn(parameter.shape))
        losses = train(model, batches[0], 6e-3, final_tokens(650, 2937))
        return losses + train(model, batches[1], 6e-4, final_tokens(200, 2000))

    torch.manual_seed(0)
    theirs, twin = curve(0.0), curve(1e-7)
    ours = sum(regard.train("same", *regard.length(given), "train.dropout=0.0"), [])
    parameters = sum(tensor.numel() for tensor in start.values())
    print(f"\nsame start, same batches, no dropout: {parameters} parameters, {len(ours)} steps")
    print(f"{'step':>5} {'Regard':>10} {'PyTorch':>10} {'difference':>11} {'twin':>9}")
    drift, agree = 0.0, True
    for i, (a, b, c) in enumerate(zip(ours, theirs, twin, strict=True)):
        drift = max(drift, abs(b - c))
        agree &= abs(a - b) <= max(given.bound, DRIFT * drift)
        if i < 3 or (i + 1) % 5 == 0:
            print(f"{i + 1:>5} {a:>10.5f} {b:>10.5f} {a - b:>11.1e} {b - c:>9.1e}")
    apart = [abs(a - b) for a, b in zip(ours, theirs)]
    print(f"largest difference {max(apart[:20]):.1e} in 20 steps, {max(apart):.1e} in all; of the twin {drift:.1e}")
    shown, theirs, twin = ([round(x, 6) for x in losses] for losses in (ours, theirs, twin))
    return {"parameters": parameters, "regard": shown, "torch": theirs, "twin": twin, "agree": agree,
            "largest_in_20_steps": max(apart[:20]), "largest": max(apart), "largest_of_twin": drift}


def mean_and_spread(numbers):
    mean = sum(numbers) / len(numbers)
    return mean, math.sqrt(sum((x - mean) ** 2 for x in numbers) / (len(numbers) - 1))


def own_randomness(regard, study, given):
    curves = []
    for seed in range(given.seeds):
        torch.manual_seed(seed)
        draw = random.Random(seed)
        model = Gpt(len(study.ids), 0.1)
        curve = train(model, study.read(given.steps, given.batch, draw), 6e-3, final_tokens(650, 2937))
        curve += train(model, study.answer(given.question_steps, given.question_batch), 6e-4,
                       final_tokens(200, 2000))
        curves.append(curve)
        print(f"PyTorch, seed {seed}: {curve[0]:.4f} ... {curve[given.steps - 1]:.4f} ... {curve[-1]:.4f}", file=sys.stderr)
    ours = [sum(regard.train(f"own{seed}", *regard.length(given), f"seed={seed}"), []) for seed in range(given.regard_seeds)]
    stretches = [(0, 1)] + [(a, min(a + 9, given.steps)) for a in range(1, given.steps, 9)]
    stretches += [(given.steps + a, given.steps + min(a + 3, given.question_steps))
                  for a in range(0, given.question_steps, 3)]
    print(f"\nown weights, spans and dropout of 0.1: {given.seeds} seeds in PyTorch, {given.regard_seeds} in Regard")
    print(f"{'steps':>9} {'Regard':>9} {'spread':>8} {'PyTorch':>9} {'spread':>8} {'apart':>7}")
    rows, agree = [], True
    for first, end in stretches:
        sides = [[sum(curve[first:end]) / (end - first) for curve in side] for side in (ours, curves)]
        (own, own_spread), (centre, spread) = map(mean_and_spread, sides)
        # A mean of n runs is uncertain by the spread over the root of n, on either side.
        apart = (own - centre) / math.sqrt(own_spread ** 2 / len(ours) + spread ** 2 / len(curves))
        agree &= abs(apart) <= given.spreads
        own_means, means = ([round(x, 6) for x in side] for side in sides)
        rows.append({"steps": [first + 1, end], "regard": own_means, "torch": means, "apart": round(apart, 3)})
        print(f"{first + 1:>4}-{end:<4} {own:>9.4f} {own_spread:>8.4f} {centre:>9.4f} {spread:>8.4f} {apart:>7.1f}")
    print(f"largest {max(abs(row['apart']) for row in rows):.1f} standard errors, bound {given.spreads}")
    return {"seeds": given.seeds, "regard_seeds": given.regard_seeds, "rows": rows, "bound": given.spreads, "agree": agree}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--regard", type=pathlib.Path, default=ROOT / "target/release/regard")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "../shared/data/a5")
    parser.add_argument("--only", choices=["same", "own"])
    parser.add_argument("--steps", type=int, default=46, help="of reading; an epoch of all lines has 23")
    parser.add_argument("--question-steps", type=int, default=9)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--question-batch", type=int, default=256)
    parser.add_argument("--lines", type=int, default=0, help="only the first so many; 0 for all")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--regard-seeds", type=int, default=8)
    parser.add_argument("--bound", type=float, default=1e-5)
    parser.add_argument("--spreads", type=float, default=4.0)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path)
    given = parser.parse_args()
    if given.threads:
        torch.set_num_threads(given.threads)
    study = Study(given.data, given.lines)
    sizes = {"lines": len(study.lines), "batch": given.batch, "question_batch": given.question_batch,
             "steps": given.steps, "question_steps": given.question_steps}
    page = {"torch": torch.__version__}
    with tempfile.TemporaryDirectory() as scratch:
        regard = Regard(given.regard.resolve(), given.data.resolve(), pathlib.Path(scratch), given)
        if given.only != "own":
            page["same_start"] = sizes | same_start(regard, study, given)
        if given.only != "same":
            page["own_randomness"] = sizes | own_randomness(regard, study, given)
    if given.out:
        given.out.write_text(json.dumps(page, indent=1) + "\n")
    return 0 if all(part["agree"] for part in page.values() if isinstance(part, dict)) else 1


if __name__ == "__main__":
    sys.exit(main())
