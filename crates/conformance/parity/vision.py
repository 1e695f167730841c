"""Descendants of ViT: DeiT with its class token alone and with what a teacher taught, DINOv2 with a plain and with a gated
feed-forward part, and at another size than that of its positions.
"""

import torch
from transformers import (DeiTConfig, DeiTForImageClassification, DeiTForImageClassificationWithTeacher, Dinov2Config,
                          Dinov2ForImageClassification)

from record import Golden, pretrained_names, seeded, spread, study, training

# 10 x 14 pixels in patches of 2 x 2: a grid of 5 rows and 7 columns, so rows and columns cannot be exchanged.
SIZES = dict(image_size=[10, 14], patch_size=2, num_channels=3, hidden_size=12, num_hidden_layers=2, num_attention_heads=3,
             layer_norm_eps=1e-5, num_labels=5, attn_implementation="eager")


def images(count, seed, height=10, width=14):
    return {"pixel_values": torch.randn(count, 3, height, width, generator=seeded(seed))}


def case(folder, build, seed, trains):
    model, golden = spread(build(), seed), Golden()
    model.save_pretrained(folder / "model")
    inner = model.base_model
    layers = inner.encoder.layer if hasattr(inner, "encoder") else inner.layers
    stacks = {"hidden": (layers, inner.layernorm)}
    study(golden, "one", model, images(1, seed + 1), stacks)
    batch = images(3, seed + 2)
    study(golden, "batch", model, batch, stacks)
    if trains:
        labels = torch.tensor([4, 1, 3])
        training(golden, build, model, {**batch, "labels": labels}, labels, None, pretrained_names)
    golden.write(folder)


def deit(folder):
    case(folder, lambda: DeiTForImageClassification(DeiTConfig(intermediate_size=18, **SIZES)), 5200, True)


def deit_taught(folder):
    case(folder, lambda: DeiTForImageClassificationWithTeacher(DeiTConfig(intermediate_size=18, qkv_bias=False, **SIZES)),
         5300, False)


def square(sizes):
    """DINOv2 interpolates its positions whenever an image is not square, even to the grid that they have; so images are."""
    return {**sizes, "image_size": 8}


def dinov2_with(folder, seed, trains, **more):
    def build():
        return Dinov2ForImageClassification(Dinov2Config(mlp_ratio=2, **{**square(SIZES), **more}))
    model, golden = spread(build(), seed), Golden()
    model.save_pretrained(folder / "model")
    stacks = {"hidden": (model.dinov2.encoder.layer, model.dinov2.layernorm)}
    study(golden, "one", model, images(1, seed + 1, 8, 8), stacks)
    study(golden, "batch", model, images(3, seed + 2, 8, 8), stacks)
    with torch.no_grad():
        for name, height, width in (("tall", 10, 6), ("small", 4, 4)):
            batch = images(2, seed + 3, height, width)
            golden.put(f"{name}.pixel_values", batch["pixel_values"])
            golden.put(f"{name}.logits", model(**batch).logits)
    if trains:  # without a mask token, which no gradient reaches
        labels = torch.tensor([4, 1, 3])
        training(golden, build, model, {**images(3, seed + 2, 8, 8), "labels": labels}, labels, None, pretrained_names)
    golden.write(folder)


def dinov2(folder):
    dinov2_with(folder, 5400, False, use_mask_token=True)


def dinov2_gated(folder):
    dinov2_with(folder, 5500, True, use_swiglu_ffn=True, use_mask_token=False, num_hidden_layers=1)
