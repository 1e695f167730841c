"""Real weights: llama2.c's stories260K, read by a short model of its own, and all-MiniLM-L6-v2 by transformers. The
weights are not part of this repository; only what they answer is kept.
"""

import os
import re
import struct
from pathlib import Path

import numpy
import torch
from tokenizers import Tokenizer
from transformers import BertModel

from record import Golden, chosen

TOKENS = 64

SENTENCES = [
    "A cat sits on the mat.",
    "A kitten rests on the rug.",
    "The stock market fell sharply on Monday.",
    "Where was Marie Curie born?",
    "Attention is all you need.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.",
    "x = 3.14 * (r ** 2)  # the area of a circle",
    "She said that the old lighthouse, abandoned for more than forty years, would be opened to visitors again in the "
    "spring, once its stairs had been repaired.",
]


def weights(name):
    """Folder of one set of weights, or nothing where they are not at hand."""
    root = Path(__file__).resolve().parents[3]
    data = Path(os.environ.get("REGARD_DATA", root.parent / "shared" / "data"))
    folder = data / "weights" / name
    return folder if folder.is_dir() else None


def read_llama2c(path):
    """llama2.c's first format: seven integers, then float32 tensors one after the other."""
    data = path.read_bytes()
    width, hidden, layers, heads, groups, vocabulary, context = struct.unpack("7i", data[:28])
    if vocabulary < 0:
        raise ValueError("a model with a head of its own; this reader knows the tied form only")
    numbers, at = torch.from_numpy(numpy.frombuffer(data, dtype="<f4", offset=28).copy()), 0
    head = width // heads

    def take(*shape):
        nonlocal at
        count = int(numpy.prod(shape))
        at += count
        return numbers[at - count:at].view(*shape)

    model = {"embedding": take(vocabulary, width), "attention_norm": take(layers, width),
             "query": take(layers, heads * head, width), "key": take(layers, groups * head, width),
             "value": take(layers, groups * head, width), "output": take(layers, width, heads * head),
             "feed_norm": take(layers, width), "gate": take(layers, hidden, width),
             "down": take(layers, width, hidden), "up": take(layers, hidden, width), "final_norm": take(width)}
    take(2, context, head // 2)  # tables of cosines and sines, which we make ourselves
    if at != len(numbers):
        raise ValueError(f"{path.name} holds {len(numbers)} numbers, the header speaks of {at}")
    return model, (layers, heads, groups, head)


def rms_norm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight


def rotate(x):
    """Rotary positions on neighbouring channels (llama2.c), not on halves (transformers). x: T H D."""
    length, _, width = x.shape
    angle = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(0, width, 2) / width)
    turn = torch.polar(torch.ones_like(angle), angle)[:, None]
    return torch.view_as_real(torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * turn).flatten(-2)


def llama2c_logits(model, sizes, tokens):
    layers, heads, groups, head = sizes
    x, length = model["embedding"][tokens], len(tokens)
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    for layer in range(layers):
        y = rms_norm(x, model["attention_norm"][layer])
        q = rotate((y @ model["query"][layer].T).view(length, heads, head))
        k = rotate((y @ model["key"][layer].T).view(length, groups, head)).repeat_interleave(heads // groups, 1)
        v = (y @ model["value"][layer].T).view(length, groups, head).repeat_interleave(heads // groups, 1)
        scores = torch.einsum("thd,shd->hts", q, k) / head ** 0.5
        pattern = scores.masked_fill(future, float("-inf")).softmax(-1)
        x = x + torch.einsum("hts,shd->thd", pattern, v).reshape(length, -1) @ model["output"][layer].T
        y = rms_norm(x, model["feed_norm"][layer])
        gate = torch.nn.functional.silu(y @ model["gate"][layer].T)
        x = x + (gate * (y @ model["up"][layer].T)) @ model["down"][layer].T
    return rms_norm(x, model["final_norm"]) @ model["embedding"].T


def pieces(path, count):
    """Texts of the tokens in llama2.c's tokenizer file: the longest length, then score, length, bytes for each. A
    piece such as <0x0A> stands for that byte."""
    data, at, texts = path.read_bytes(), 4, []
    for _ in range(count):
        length = struct.unpack_from("i", data, at + 4)[0]
        text = data[at + 8:at + 8 + length]
        byte = re.fullmatch(rb"<0x([0-9A-F]{2})>", text)
        texts.append(bytes([int(byte[1], 16)]) if byte else text)
        at += 8 + length
    return texts


@torch.no_grad()
def stories260k(folder):
    source = weights("stories260K")
    model, sizes = read_llama2c(source / "stories260K.bin")
    tokens, steps, golden = [1], [], Golden()
    for _ in range(TOKENS):
        steps.append(llama2c_logits(model, sizes, torch.tensor(tokens))[-1])
        tokens.append(int(chosen(steps[-1])))
    if 1 in tokens[1:]:
        raise ValueError("the story ended early")
    golden.put("tokens", torch.tensor(tokens))
    golden.put("best_logit", torch.stack([step.max() for step in steps]))
    golden.put("first_logits", steps[0])
    golden.put("last_logits", steps[-1])
    golden.write(folder)
    texts = pieces(source / "tok512.bin", model["embedding"].shape[0])
    # The first piece after BOS loses its leading space, as in llama2.c.
    story = b"".join(texts[token] for token in tokens[1:]).removeprefix(b" ")
    (folder / "story.txt").write_bytes(story + b"\n")


@torch.no_grad()
def minilm(folder):
    source = weights("all-MiniLM-L6-v2")
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")
    encoded = tokenizer.encode_batch(SENTENCES)
    batch = {"input_ids": torch.tensor([each.ids for each in encoded]),
             "attention_mask": torch.tensor([each.attention_mask for each in encoded])}
    model, report = BertModel.from_pretrained(source, variant="fp16", dtype=torch.float32,
                                              attn_implementation="eager", output_loading_info=True)
    if report["missing_keys"] or report["mismatched_keys"]:
        raise ValueError(f"MiniLM was not loaded whole: {report}")
    hidden = model.eval()(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None].float()
    mean = (hidden * mask).sum(1) / mask.sum(1)
    golden = Golden()
    for name, value in batch.items():
        golden.put(name, value)
    golden.put("embeddings", torch.nn.functional.normalize(mean, dim=1))
    golden.write(folder)
    (folder / "sentences.txt").write_text("".join(sentence + "\n" for sentence in SENTENCES))
