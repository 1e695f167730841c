"""Compares what Regard makes of real files with transformers: greedy text of SmolLM2 out of its GGUF file, logits of
rxnfp's BERTs out of their pickles. Prints a line each; exit code 1 if something differs. Started by `real_files check`.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, BertConfig, BertForMaskedLM, BertModel

folder = pathlib.Path(sys.argv[1])
regard = os.environ["REGARD"]
PROMPTS = ["The capital of France is", "def fibonacci(n):", "Once upon a time there was a little robot"]
failed = False


def judge(name, right, how):
    global failed
    failed |= not right
    print(f"{name}: {'the same' if right else 'DIFFERENT'}, {how}")


def run(*arguments):
    return subprocess.run([regard, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


model = AutoModelForCausalLM.from_pretrained(folder / "smollm2", gguf_file="q4_1.gguf", dtype=torch.float32).eval()
tokenizer = Tokenizer.from_file(str(folder / "smollm2/folder/tokenizer.json"))
for prompt in PROMPTS:
    ids = tokenizer.encode(prompt).ids
    with torch.no_grad():
        theirs = model.generate(torch.tensor([ids]), max_new_tokens=32, do_sample=False, pad_token_id=2)[0].tolist()
    ours = run("generate", folder / "smollm2/q4_1.gguf", "--ids", ",".join(map(str, ids)), "--max", 32, "--greedy")
    ours = [int(word) for word in ours.replace(",", " ").split()]
    # Theirs shows the token that ends a text, ours does not.
    theirs = [id for id in theirs[len(ids):] if id != model.config.eos_token_id]
    judge(f"SmolLM2 (Q4_1), {prompt!r}", ours == theirs, f"{len(theirs)} tokens")
    text = run("generate", folder / "smollm2/q4_1.gguf", "--prompt", prompt, "--max", 32, "--greedy").strip()
    judge("  as a text", text.endswith(tokenizer.decode(theirs).strip()), repr(text[:60]))
for name, kind in [("bert_pretrained", BertForMaskedLM), ("bert_ft", BertModel)]:
    config = BertConfig.from_pretrained(folder / "rxnfp" / name, attn_implementation="eager")
    peer = kind.from_pretrained(folder / "rxnfp" / name, config=config).eval()
    ids = torch.tensor([[12, 40, 7, 99, 300, 13]])
    with tempfile.TemporaryDirectory() as here, torch.no_grad():
        run("forward", folder / "rxnfp" / name, "--ids", " ".join(map(str, ids[0].tolist())), "--out", f"{here}/out.safetensors")
        ours = load_file(f"{here}/out.safetensors")
        theirs = peer(ids).logits[0] if kind is BertForMaskedLM else peer(ids).last_hidden_state[0]
        own = ours["logits" if kind is BertForMaskedLM else "hidden"][0]
        off = ((own - theirs).abs().max() / theirs.abs().max()).item()
    judge(f"rxnfp {name}", off < 1e-5, f"off by {off:.1e} of the largest number")
sys.exit(failed)
