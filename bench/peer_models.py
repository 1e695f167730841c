"""The peer's models: GPT, BERT and ViT as one would write them for speed in PyTorch, with the sizes, the initial
values and the policy of precision of ours. Attention is fused (scaled_dot_product_attention) or plain."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width, heads, causal, plain, dropout, length):
        super().__init__()
        self.heads, self.causal, self.plain, self.dropout = heads, causal, plain, dropout
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        if plain and causal:
            self.register_buffer("mask", torch.full((length, length), -math.inf).triu(1), persistent=False)

    def forward(self, x, key_mask=None, cache=None):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        causal = self.causal
        if cache is not None:
            keys, values, past = cache
            keys[:, :, past:past + t] = k
            values[:, :, past:past + t] = v
            k, v = keys[:, :, :past + t], values[:, :, :past + t]
            causal = causal and t > 1
        dropout = self.dropout if self.training else 0.0
        if self.plain:
            scores = q @ k.transpose(-1, -2) * (c // self.heads) ** -0.5
            if causal:
                scores = scores + self.mask[:t, :t].to(scores.dtype)
            if key_mask is not None:
                scores = scores.masked_fill(~key_mask, -math.inf)
            y = F.dropout(torch.softmax(scores, -1), dropout) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=key_mask, is_causal=causal, dropout_p=dropout)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Int8Linear(nn.Module):
    """bf16 activations times 8-bit weights with a scale for each output: PyTorch's own product of this kind."""

    def __init__(self, linear):
        super().__init__()
        weight = linear.weight.float()
        scale = weight.abs().amax(1, keepdim=True).clamp(min=1e-30) / 127
        self.register_buffer("weight", (weight / scale).round().to(torch.int8))
        self.register_buffer("scale", scale.squeeze(1).to(torch.bfloat16))
        self.bias = linear.bias

    def forward(self, x):
        y = torch.ops.aten._weight_int8pack_mm(x.flatten(0, -2), self.weight, self.scale).unflatten(0, x.shape[:-1])
        return y if self.bias is None else y + self.bias


def quantise(model):
    """Replaces every Linear of a model by its 8-bit form, in place."""
    for name, child in list(model.named_children()):
        if isinstance(child, nn.Linear):
            setattr(model, name, Int8Linear(child))
        else:
            quantise(child)


class Block(nn.Module):
    def __init__(self, width, heads, causal, plain, dropout, length, gelu="tanh", post=False):
        super().__init__()
        self.attention = Attention(width, heads, causal, plain, dropout, length)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout, self.gelu, self.post = nn.Dropout(dropout), gelu, post

    def feed_forward(self, x):
        return self.dropout(self.down(F.gelu(self.up(x), approximate=self.gelu)))

    def forward(self, x, key_mask=None, cache=None):
        if self.post:
            x = self.norm1(x + self.dropout(self.attention(x, key_mask)))
            return self.norm2(x + self.feed_forward(x))
        x = x + self.dropout(self.attention(self.norm1(x), key_mask, cache))
        return x + self.feed_forward(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, layers, heads, width, vocab, length, dropout=0.0, plain=False, tied=False):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, True, plain, dropout, length) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)
        self.dropout = nn.Dropout(dropout)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, ids, past=0, caches=None, last=False):
        x = self.tokens(ids) + self.positions(torch.arange(past, past + ids.shape[1]))
        x = self.dropout(x)
        for index, block in enumerate(self.blocks):
            x = block(x, cache=None if caches is None else (*caches[index], past))
        return self.head(self.norm(x[:, -1:] if last else x))

    def loss(self, ids, targets):
        return F.cross_entropy(self(ids).float().flatten(0, 1), targets.flatten())


class Bert(nn.Module):
    def __init__(self, layers, heads, width, vocab, length, plain=False):
        super().__init__()
        self.tokens, self.positions, self.types = (nn.Embedding(n, width) for n in (vocab, length, 2))
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.ModuleList(
            Block(width, heads, False, plain, 0.0, length, "none", post=True) for _ in range(layers))

    def forward(self, ids, key_mask):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1])) + self.types.weight[0]
        x = self.norm(x)
        for block in self.blocks:
            x = block(x, key_mask)
        return x


class Vit(nn.Module):
    def __init__(self, layers, heads, width, image, patch, plain=False, classes=1000):
        super().__init__()
        count = (image // patch) ** 2 + 1
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first, self.positions = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.zeros(1, count, width))
        self.blocks = nn.ModuleList(Block(width, heads, False, plain, 0.0, count, "none") for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[:, 0]))
