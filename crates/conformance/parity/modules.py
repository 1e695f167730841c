"""Models that transformers does not have, as short PyTorch modules: minGPT's GPT, the Transformer of 2017 around
`torch.nn.Transformer`, llama2.c's Llama, and a Perceiver as a language model. Parameter names are those of the originals;
the Perceiver, which is ours, has our own.
"""

import math
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional as F

from record import IGNORED


def cross_entropy(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)


class MinGptAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, context = config["n_embd"], config["block_size"]
        self.heads = config["n_head"]
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        # minGPT keeps its mask as a buffer, so its checkpoints hold it: an importer has to pass over it.
        self.register_buffer("bias", torch.tril(torch.ones(context, context)).view(1, 1, context, context))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
                   for part in self.c_attn(x).split(width, dim=2))
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        scores = scores.masked_fill(self.bias[:, :, :length, :length] == 0, float("-inf"))
        return self.c_proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width))


class MinGptBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config["n_embd"]
        self.ln_1 = nn.LayerNorm(width)
        self.attn = MinGptAttention(config)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)})

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp.c_proj(F.gelu(self.mlp.c_fc(self.ln_2(x)), approximate="tanh"))


class MinGpt(nn.Module):
    """karpathy/minGPT: learned positions, pre-norm, tanh GELU, a head of its own without bias."""

    def __init__(self, config):
        super().__init__()
        width = config["n_embd"]
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(config["vocab_size"], width),
            "wpe": nn.Embedding(config["block_size"], width),
            "h": nn.ModuleList(MinGptBlock(config) for _ in range(config["n_layer"])),
            "ln_f": nn.LayerNorm(width),
        })
        self.lm_head = nn.Linear(width, config["vocab_size"], bias=False)

    def forward(self, input_ids, targets=None):
        x = self.transformer.wte(input_ids) + self.transformer.wpe(torch.arange(input_ids.shape[1]))
        for block in self.transformer.h:
            x = block(x)
        logits = self.lm_head(self.transformer.ln_f(x))
        return SimpleNamespace(logits=logits, loss=None if targets is None else cross_entropy(logits, targets))


def sinusoids(length, width):
    """Positions of "Attention Is All You Need": sine in even channels, cosine in odd ones. Made in float64, since
    float32 angles would be the largest error of the whole model."""
    angle = torch.arange(length, dtype=torch.float64)[:, None] * torch.exp(
        torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10000.0) / width))
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


class Translator(nn.Module):
    """The Transformer of 2017: post-norm, ReLU, sinusoids added to embeddings times sqrt(width). `shared` is the
    paper's form (one matrix for both embeddings and the output, no norm after the stacks); otherwise it is what
    `torch.nn.Transformer` makes by itself (a norm after each stack) with three matrices and an output bias."""

    def __init__(self, config):
        super().__init__()
        width, heads, hidden, shared = config["d_model"], config["nhead"], config["dim_feedforward"], config["shared"]
        layers = config["num_encoder_layers"], config["num_decoder_layers"]
        self.width, self.shared = width, shared
        settings = dict(dim_feedforward=hidden, dropout=0.0, activation="relu", batch_first=True, norm_first=False)
        if shared:
            self.embedding = nn.Embedding(config["vocab_size"], width)
            self.transformer = nn.Transformer(
                width, heads, batch_first=True,
                custom_encoder=nn.TransformerEncoder(nn.TransformerEncoderLayer(width, heads, **settings), layers[0],
                                                     enable_nested_tensor=False),
                custom_decoder=nn.TransformerDecoder(nn.TransformerDecoderLayer(width, heads, **settings), layers[1]))
        else:
            self.source_embedding = nn.Embedding(config["source_vocab_size"], width)
            self.target_embedding = nn.Embedding(config["vocab_size"], width)
            self.transformer = nn.Transformer(width, heads, *layers, **settings)
            self.output = nn.Linear(width, config["vocab_size"])

    def embed(self, table, tokens):
        return table(tokens) * math.sqrt(self.width) + sinusoids(tokens.shape[1], self.width).to(table.weight.dtype)

    def forward(self, source, target, source_mask=None, targets=None):
        source_table, target_table = ((self.embedding,) * 2 if self.shared
                                      else (self.source_embedding, self.target_embedding))
        length = target.shape[1]
        future = torch.ones(length, length, dtype=torch.bool).triu(1)  # true = may not attend, in torch
        padding = None if source_mask is None else source_mask == 0
        x = self.transformer(self.embed(source_table, source), self.embed(target_table, target), tgt_mask=future,
                             src_key_padding_mask=padding, memory_key_padding_mask=padding)
        logits = F.linear(x, self.embedding.weight) if self.shared else self.output(x)
        return SimpleNamespace(logits=logits, loss=None if targets is None else cross_entropy(logits, targets))


class PerceiverAttention(nn.Module):
    """`x` asks `source`. `allowed` [T S]: true = may attend; a row that may attend to nothing gets nothing."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x, source, allowed):
        def split(y):
            return y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q, k, v = split(self.query(x)), split(self.key(source)), split(self.value(source))
        some = allowed.any(-1, keepdim=True)
        scores = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).masked_fill(~allowed & some, float("-inf"))
        mixed = (scores.softmax(-1) * some) @ v
        return self.output(mixed.transpose(1, 2).flatten(2))


class PerceiverPart(nn.Module):
    """Attention and a feed-forward part, each behind a norm of what asks and added to it. Without a source of its own it
    is a block: what is asked is what asks, normed."""

    def __init__(self, width, heads):
        super().__init__()
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = PerceiverAttention(width, heads)
        self.feed_forward = nn.ModuleDict({"up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width)})

    def forward(self, x, source, allowed):
        read = self.attention_norm(x)
        x = x + self.attention(read, read if source is None else source, allowed)
        return x + self.feed_forward.down(F.gelu(self.feed_forward.up(self.feed_forward_norm(x))))


class Perceiver(nn.Module):
    """Learned latents ask the embedded text (down), blocks work on the latents, the text asks the latents (up)."""

    def __init__(self, config):
        super().__init__()
        width, heads = config["width"], config["heads"]
        self.config = config
        self.token_embedding = nn.Embedding(config["vocabulary"], width)
        self.position_embedding = nn.Embedding(config["context"], width)
        self.latents = nn.Parameter(torch.zeros(config["latents"], width))
        self.down, self.up = PerceiverPart(width, heads), PerceiverPart(width, heads)
        self.stack = nn.ModuleDict({
            "block": nn.ModuleList(PerceiverPart(width, heads) for _ in range(config["layers"] - 2))})
        self.final_norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, config["vocabulary"], bias=False)

    def masks(self, length):
        """Who sees whom: latents tokens [M T], latents latents [M M], tokens latents [T M]."""
        latents, masking = self.config["latents"], self.config["masking"]
        chunk = -(-self.config["context"] // latents)
        t, i = torch.arange(length), torch.arange(latents)
        past = i[:, None] >= i[None, :]
        ended = (i[None, :] + 1) * chunk <= t[:, None] + 1
        if masking == "open":
            return [torch.ones(shape, dtype=torch.bool) for shape in ((latents, length), (latents,) * 2, (length, latents))]
        if masking == "prefix":
            return t[None, :] < (i[:, None] + 1) * chunk, past, ended
        if masking == "chunk":
            return t[None, :] // chunk == i[:, None], past, ended
        return t[None, :] <= i[:, None], past, i[None, :] <= t[:, None]  # corner

    def forward(self, input_ids, targets=None):
        down, among, up = self.masks(input_ids.shape[1])
        x = self.token_embedding(input_ids) + self.position_embedding(torch.arange(input_ids.shape[1]))
        z = self.down(self.latents.expand(len(x), -1, -1), x, down)
        for block in self.stack.block:
            z = block(z, None, among)
        logits = self.head(self.final_norm(self.up(x, z, up)))
        return SimpleNamespace(logits=logits, loss=None if targets is None else cross_entropy(logits, targets))


MODULES = {"mingpt": MinGpt, "transformer": Translator, "perceiver": Perceiver}
