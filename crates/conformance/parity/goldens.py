#!/usr/bin/env python3
"""Makes the parity goldens: small models with random weights, and what PyTorch and transformers say about them.

    goldens.py                    all cases, into crates/conformance/goldens/parity
    goldens.py gpt2 vit           only these
    goldens.py --check            makes all cases elsewhere and compares them with the committed ones, byte by byte

See README.md beside this file for what the goldens hold.
"""

import argparse
import filecmp
import os
import shutil
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # everything is made here or lies in a folder; nothing is ever fetched

import torch
import transformers

import bart
import berts
import decoders
import encoders
import pretrained
import seq2seq
import vision

COMMITTED = Path(__file__).resolve().parents[1] / "goldens" / "parity"

CASES = {
    "gpt2": decoders.gpt2,
    "llama": decoders.llama,
    "llama_tied": decoders.llama_tied,
    "llama_stretched": decoders.llama_stretched,
    "llama_linear": decoders.llama_linear,
    "llama_dynamic": decoders.llama_dynamic,
    "llama_yarn": decoders.llama_yarn,
    "mistral": decoders.mistral,
    "qwen2": decoders.qwen2,
    "qwen3": decoders.qwen3,
    "phi3": decoders.phi3,
    "gpt_neox": decoders.gpt_neox,
    "gpt_neox_in_turn": decoders.gpt_neox_in_turn,
    "gptj": decoders.gptj,
    "gemma": decoders.gemma,
    "gemma2": decoders.gemma2,
    "gemma3": decoders.gemma3,
    "olmo2": decoders.olmo2,
    "smollm3": decoders.smollm3,
    "granite": decoders.granite,
    "stablelm": decoders.stablelm,
    "stablelm_parallel": decoders.stablelm_parallel,
    "mingpt": decoders.mingpt,
    "perceiver": decoders.perceiver,
    "bert_masked": encoders.bert_masked,
    "bert_classify": encoders.bert_classify,
    **berts.CASES,
    "vit": encoders.vit,
    "vit_resized": encoders.vit_resized,
    "deit": vision.deit,
    "deit_taught": vision.deit_taught,
    "dinov2": vision.dinov2,
    "dinov2_gated": vision.dinov2_gated,
    "t5": seq2seq.t5,
    "t5_gated": seq2seq.t5_gated,
    "mt5": seq2seq.mt5,
    "umt5": seq2seq.umt5,
    "t5_encoder": seq2seq.t5_encoder,
    "bart": bart.bart,
    "mbart": bart.mbart,
    "marian": bart.marian,
    "marian_separate": bart.marian_separate,
    "transformer": seq2seq.transformer,
    "transformer_shared": seq2seq.transformer_shared,
    "stories260k": pretrained.stories260k,
    "minilm": pretrained.minilm,
}

WEIGHTS = {"stories260k": "stories260K", "minilm": "all-MiniLM-L6-v2"}


def quiet():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.backends.mha.set_fastpath_enabled(False)  # the fused path rounds differently and drops padded rows
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


def make(names, out):
    """Makes the cases, each whole or not at all; returns those that were made."""
    made = []
    for name in names:
        if name in WEIGHTS and pretrained.weights(WEIGHTS[name]) is None:
            print(f"{name}: skipped, no weights/{WEIGHTS[name]} (set REGARD_DATA to the folder of data)")
            continue
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / name
            CASES[name](folder)
            shutil.rmtree(out / name, ignore_errors=True)
            shutil.copytree(folder, out / name)
        size = sum(path.stat().st_size for path in (out / name).rglob("*") if path.is_file())
        print(f"{name}: {size / 1000:.0f} kB")
        made.append(name)
    return made


def files(folder):
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}


def differences(name, fresh):
    ours, theirs = COMMITTED / name, fresh / name
    for path in sorted(files(ours) | files(theirs)):
        if not (ours / path).is_file() or not (theirs / path).is_file():
            yield f"{name}/{path}: only on one side"
        elif not filecmp.cmp(ours / path, theirs / path, shallow=False):
            yield f"{name}/{path}: other bytes"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--out", type=Path, default=COMMITTED, help="folder to write to")
    parser.add_argument("--check", action="store_true", help="compare with the committed goldens instead of writing")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.cases if name not in CASES]
    if unknown:
        parser.error(f"no case is called {', '.join(unknown)}; there are {', '.join(CASES)}")
    names = arguments.cases or list(CASES)
    quiet()
    if not arguments.check:
        make(names, arguments.out)
        return 0
    with tempfile.TemporaryDirectory() as fresh:
        found = [line for name in make(names, Path(fresh)) for line in differences(name, Path(fresh))]
    print("\n".join(found) if found else "same bytes")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
