#!/usr/bin/env python3
"""Checks that a model folder written by Regard is one that transformers reads as the model it came from.

    both_ways.py FOLDER GOLDEN_DIR

FOLDER holds config.json and model.safetensors; GOLDEN_DIR is a folder of crates/conformance/goldens/parity. The model
is loaded with `from_pretrained` (minGPT and the 2017 Transformer: by the modules beside this script), must use every
tensor of the file and lack none, and must give the golden's logits. Exit code 0 if so, 1 if not, 2 if it cannot be
asked.
"""

import inspect
import json
import os
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from safetensors.torch import load_file

import berts
from goldens import quiet
from modules import MODULES

BOUND = 1e-5  # of the largest logit; the weights are the same, so only the order of float32 sums may differ
OUTPUTS = {"logits", "start", "end", "follows", "last_hidden_state", "hidden", "encoder", "decoder", "pooled"}
SETS = ("one", "right", "left", "batch")


class Refused(Exception):
    """The folder is not the model of the golden."""


def load(folder, wanted):
    """The model of the folder, of the class that the golden was made with."""
    config = json.loads((folder / "config.json").read_text())
    kind = wanted["model_type"]
    if config.get("model_type") != kind:
        raise Refused(f"config.json says model_type {config.get('model_type')!r}, the golden {kind!r}")
    if kind in MODULES:
        model, tensors = MODULES[kind](config), load_file(folder / "model.safetensors")
        report = model.load_state_dict(tensors, strict=False)
        buffers = {name for name, _ in model.named_buffers()}  # minGPT's masks need not be there
        faults = {"missing_keys": set(report.missing_keys) - buffers, "unexpected_keys": set(report.unexpected_keys)}
    else:
        architecture = wanted["architectures"][0]
        if config.get("architectures") != [architecture]:
            raise Refused(f"config.json says architectures {config.get('architectures')}, not [{architecture!r}]")
        model, faults = getattr(transformers, architecture).from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    found = [f"{what}: {', '.join(map(str, sorted(names)))}" for what, names in faults.items() if names]
    if found:
        raise Refused("; ".join(found))
    return model.eval()


def together(scores):
    """The scores of a head in one tensor: those of the two ends of an answer side by side."""
    if "start" in scores:
        return torch.stack([scores["start"], scores["end"]], -1)
    return scores["logits"]


@torch.no_grad()
def compare(model, golden):
    """One line per set of inputs; raises at the first set whose logits differ."""
    takes = inspect.signature(model.forward).parameters
    for name in SETS:
        tensors = {key.removeprefix(name + "."): value for key, value in golden.items() if key.startswith(name + ".")}
        if not tensors:
            continue
        batch = {key: value for key, value in tensors.items() if key.split(".")[0] not in OUTPUTS and key in takes}
        output = model(**batch)
        if "last_hidden_state" in tensors:  # an encoder by itself has no scores
            wanted, logits = tensors["last_hidden_state"], output["last_hidden_state"]
        else:
            wanted, logits = together(tensors), together(berts.scores(output))
        if logits.shape != wanted.shape:
            raise Refused(f"{name}: logits are {list(logits.shape)}, the golden's {list(wanted.shape)}")
        mask = tensors.get("attention_mask")
        if mask is not None and mask.shape == logits.shape[:2] and "decoder_input_ids" not in batch:
            logits = berts.kept_rows(logits, mask)
        apart = float((logits - wanted).abs().max() / wanted.abs().max())
        if not apart <= BOUND:
            raise Refused(f"{name}: logits are {apart:.1e} of the largest apart, allowed is {BOUND:.0e}")
        yield f"{name}: " + ("same bits" if torch.equal(logits, wanted) else f"{apart:.1e} of the largest logit apart")


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder, golden = map(Path, arguments)
    needed = [folder / "config.json", folder / "model.safetensors", golden / "golden.safetensors",
              golden / "model" / "config.json"]
    absent = [str(path) for path in needed if not path.is_file()]
    if absent:
        print(f"both_ways: no {', '.join(absent)}", file=sys.stderr)
        return 2
    quiet()
    try:
        model = load(folder, json.loads((golden / "model" / "config.json").read_text()))
        for line in compare(model, load_file(golden / "golden.safetensors")):
            print(line)
    except (Refused, OSError, ValueError, RuntimeError, KeyError) as fault:
        print(f"both_ways: {folder}: {fault}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
