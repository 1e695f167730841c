"""The loss of comparison (in-batch negatives, cosines over a temperature) of PyTorch on the small BERT of the goldens:
mean pooling, length 1, cross-entropy of each pair against all seconds of the batch. Writes
`goldens/contrast.safetensors`: both sides, the loss, and gradients of some weights; `crates/hub/tests/hub/contrast.rs`
compares.

    .venv/bin/python crates/conformance/parity/contrast.py
"""

import pathlib

import torch
from safetensors.torch import save_file
from transformers import BertForMaskedLM

GOLDENS = pathlib.Path(__file__).resolve().parent.parent / "goldens"
TEMPERATURE = 0.05
WEIGHTS = ["bert.embeddings.position_embeddings.weight", "bert.encoder.layer.0.attention.self.query.weight",
           "bert.encoder.layer.1.output.dense.weight", "bert.encoder.layer.1.output.LayerNorm.bias"]


def side(generator, length, vocabulary):
    """Three texts of different lengths, padded with 0 on the right."""
    ids = torch.randint(5, vocabulary, (3, length), generator=generator)
    mask = torch.arange(length)[None] < torch.tensor([length, length - 2, length - 3])[:, None]
    return ids * mask, mask


def vectors(model, ids, mask):
    hidden = model(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    weights = mask[..., None].float()
    return torch.nn.functional.normalize((hidden * weights).sum(1) / weights.sum(1), dim=-1)


def main():
    model = BertForMaskedLM.from_pretrained(GOLDENS / "parity/bert_masked/model", attn_implementation="eager").eval()
    generator = torch.Generator().manual_seed(11)
    ids, mask = side(generator, 6, model.config.vocab_size)
    source, source_mask = side(generator, 9, model.config.vocab_size)
    scores = vectors(model.bert, ids, mask) @ vectors(model.bert, source, source_mask).T / TEMPERATURE
    loss = torch.nn.functional.cross_entropy(scores, torch.arange(3))
    loss.backward()
    golden = {"ids": ids, "mask": mask, "source": source, "source_mask": source_mask, "loss": loss.detach()}
    named = dict(model.named_parameters())
    golden |= {f"gradient.{name}": named[name].grad.contiguous() for name in WEIGHTS}
    save_file(golden, GOLDENS / "contrast.safetensors")
    print("loss", loss.item(), (GOLDENS / "contrast.safetensors").stat().st_size, "bytes")


if __name__ == "__main__":
    main()
