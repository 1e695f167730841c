"""Low-rank adapters of the real PEFT on the small models of the goldens: what it writes, what the model answers with
them, and the gradients of A and B. Writes `goldens/peft/<case>/`: the adapter as PEFT saves it, and `golden.safetensors`;
`crates/hub/tests/peft.rs` compares. Needs the package `peft` (0.21.2) beside those of `requirements.txt`.

    python crates/conformance/parity/adapters.py                     # makes them
    python crates/conformance/parity/adapters.py --ours CASE FOLDER  # PEFT reads what Regard wrote; exit code 0 if equal
"""

import json
import pathlib
import shutil
import sys

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

GOLDENS = pathlib.Path(__file__).resolve().parent.parent / "goldens"
CASES = {
    "llama": (AutoModelForCausalLM, dict(r=3, lora_alpha=7, target_modules=["q_proj", "v_proj", "down_proj"])),
    "bert_classify": (AutoModelForSequenceClassification,
                      dict(r=2, lora_alpha=5, use_rslora=True, target_modules=["query", "dense"],
                           exclude_modules=["pooler.dense"])),
    # One matrix for query, key and value, with rows and columns exchanged.
    "gpt2": (AutoModelForCausalLM, dict(r=2, lora_alpha=4, target_modules=["c_attn", "c_fc"], fan_in_fan_out=True)),
}


def base_of(name):
    return GOLDENS / "parity" / name / "model"


def batch(model):
    """Ids and targets of two texts."""
    generator = torch.Generator().manual_seed(5)
    ids = torch.randint(3, model.config.vocab_size, (2, 7), generator=generator)
    return ids


def answers(model, ids):
    """Logits and the loss, which is the mean over next tokens or classes."""
    logits = model(input_ids=ids).logits
    if logits.dim() == 3:
        return logits, torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    return logits, torch.nn.functional.cross_entropy(logits, torch.tensor([0, 2]))


def make(name):
    kind, settings = CASES[name]
    torch.manual_seed(3)
    model = get_peft_model(kind.from_pretrained(base_of(name), attn_implementation="eager"), LoraConfig(**settings))
    with torch.no_grad():
        for own, parameter in model.named_parameters():
            if "lora_B" in own:
                parameter.normal_(std=0.3)
    model.eval()
    ids = batch(model)
    logits, loss = answers(model, ids)
    loss.backward()
    golden = {"ids": ids, "logits": logits.detach(), "loss": loss.detach()}
    for own, parameter in model.named_parameters():
        if "lora_" in own:
            golden["gradient." + own.replace(".default", "")] = parameter.grad
    folder = GOLDENS / "peft" / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    page = json.loads((folder / "adapter_config.json").read_text())
    page["base_model_name_or_path"] = f"../../parity/{name}/model"
    (folder / "adapter_config.json").write_text(json.dumps(page, indent=1, sort_keys=True) + "\n")
    save_file({key: value.contiguous() for key, value in golden.items()}, folder / "golden.safetensors")
    print(name, sum(path.stat().st_size for path in folder.iterdir()), "bytes")


def ours(name, folder):
    kind, _ = CASES[name]
    golden = load_file(GOLDENS / "peft" / name / "golden.safetensors")
    base = kind.from_pretrained(base_of(name), attn_implementation="eager")
    model = PeftModel.from_pretrained(base, folder).eval()
    with torch.no_grad():
        logits, _ = answers(model, golden["ids"])
    largest = (logits - golden["logits"]).abs().max() / golden["logits"].abs().max()
    print(f"{name}: {largest:.2e} of the largest logit")
    return 0 if largest < 1e-5 else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--ours"]:
        sys.exit(ours(*sys.argv[2:4]))
    for one in CASES:
        make(one)
