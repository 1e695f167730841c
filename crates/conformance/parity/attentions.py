"""The attention weights of transformers' eager attention, layer by layer, for the committed tiny models and, where its weights
are at hand, for MiniLM. `regard look` is held against them.

Run:  python attentions.py [FOLDER OF all-MiniLM-L6-v2]
Writes ../goldens/attentions/<model>.safetensors: `ids`, `mask`, `attention.<layer>` [B H T S]; of T5 also `targets`,
`decoder.<layer>` and `cross.<layer>`.
"""

import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import (AutoConfig, BertForMaskedLM, BertModel, GPT2LMHeadModel, T5ForConditionalGeneration)

GOLDENS = Path(__file__).resolve().parent.parent / "goldens"


def drawn(shape, vocabulary, seed):
    return torch.randint(1, vocabulary, shape, generator=torch.Generator().manual_seed(seed))


def write(name, tensors):
    target = GOLDENS / "attentions"
    target.mkdir(exist_ok=True)
    save_file({key: value.contiguous() for key, value in tensors.items()}, target / f"{name}.safetensors")


def layers(prefix, attentions):
    return {f"{prefix}.{layer}": weights for layer, weights in enumerate(attentions)}


def look(name, model, ids, mask):
    with torch.no_grad():
        output = model.eval()(input_ids=ids, attention_mask=mask, output_attentions=True)
    write(name, {"ids": ids, "mask": mask, **layers("attention", output.attentions)})


def main():
    def tiny(kind, name):
        return kind.from_pretrained(GOLDENS / "parity" / name / "model", attn_implementation="eager")

    mask = torch.ones(2, 13, dtype=torch.long)
    look("gpt2", tiny(GPT2LMHeadModel, "gpt2"), drawn((2, 13), 53, 1), mask)
    padded = mask.clone()
    padded[1, 8:] = 0
    look("bert_masked", tiny(BertForMaskedLM, "bert_masked"), drawn((2, 13), 67, 2), padded)
    pair = tiny(T5ForConditionalGeneration, "t5").eval()
    ids, targets = drawn((2, 13), pair.config.vocab_size, 3), drawn((2, 7), pair.config.vocab_size, 4)
    with torch.no_grad():
        output = pair(input_ids=ids, attention_mask=padded, decoder_input_ids=targets, output_attentions=True)
    write("t5", {"ids": ids, "mask": padded, "targets": targets, **layers("attention", output.encoder_attentions),
                 **layers("decoder", output.decoder_attentions), **layers("cross", output.cross_attentions)})
    if len(sys.argv) > 1:
        folder = Path(sys.argv[1])
        config = AutoConfig.from_pretrained(folder, attn_implementation="eager")
        model = BertModel(config).eval()
        weights = load_file(folder / "model.fp16.safetensors")
        weights = {name.removeprefix("bert."): value.float() for name, value in weights.items()}
        missing, _ = model.load_state_dict(weights, strict=False)
        assert not [name for name in missing if "position_ids" not in name and "pooler" not in name], missing
        ids = torch.tensor([[101, 1996, 4937, 2008, 1996, 3899, 13303, 2938, 2006, 1996, 13523, 1012, 102]])
        look("minilm", model, ids, torch.ones_like(ids))


main()
