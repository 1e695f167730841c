"""Encoders: BERT with its masked-token head and with a classification head, and ViT on images that are not square."""

import torch
from transformers import (BertConfig, BertForMaskedLM, BertForSequenceClassification, ViTConfig,
                          ViTForImageClassification)

from record import (IGNORED, Golden, agree, autocast, ids, pretrained_names, right_mask, seeded, spread, study, training)

LENGTHS = [13, 8, 5]


def bert_config(**more):
    return BertConfig(vocab_size=67, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=38,
                      max_position_embeddings=21, type_vocab_size=2, layer_norm_eps=1e-5, hidden_dropout_prob=0.0,
                      attention_probs_dropout_prob=0.0, attn_implementation="eager", **more)


def bert_batches(seed):
    """One full-length sentence, and three padded ones. Token 0 is padding and stands only there: PyTorch gives the
    embedding of a padding token no gradient."""
    one = {"input_ids": ids((1, 21), 67, seed), "token_type_ids": (torch.arange(21) > 8).long()[None]}
    mask = right_mask(LENGTHS, 13)
    types = torch.stack([(torch.arange(13) >= split).long() for split in (6, 3, 4)]) * mask
    right = {"input_ids": ids((3, 13), 67, seed + 1) * mask, "attention_mask": mask, "token_type_ids": types}
    return one, right


def padding_is_inert(model, right, stacked):
    for row, length in enumerate(LENGTHS):
        with torch.no_grad():
            alone = model(input_ids=right["input_ids"][row:row + 1, :length],
                          token_type_ids=right["token_type_ids"][row:row + 1, :length]).logits[0]
        agree("padding", stacked[row, :length] if stacked.dim() == 3 else stacked[row], alone)


def bert_masked(folder):
    def build():
        return BertForMaskedLM(bert_config())
    model, golden = spread(build(), 4000), Golden()
    model.save_pretrained(folder / "model")
    stacks = {"hidden": (model.bert.encoder.layer, None)}
    one, right = bert_batches(4001)
    mask = right["attention_mask"]

    study(golden, "one", model, one, stacks)
    output = study(golden, "right", model, right, stacks, mask, {"hidden": mask})
    padding_is_inert(model, right, output.logits)

    asked = (torch.rand(mask.shape, generator=seeded(4003)) < 0.4) & (mask == 1)
    labels = ids(mask.shape, 67, 4004).masked_fill(~asked, IGNORED)
    training(golden, build, model, {**right, "labels": labels}, labels, mask, pretrained_names)
    golden.write(folder)
    autocast(folder, model, {**right, "labels": labels}, mask, pretrained_names)


def bert_classify(folder):
    def build():
        return BertForSequenceClassification(bert_config(num_labels=3))
    model, golden = spread(build(), 4100), Golden()
    model.save_pretrained(folder / "model")
    stacks = {"hidden": (model.bert.encoder.layer, None), "pooled": ([], model.bert.pooler)}
    one, right = bert_batches(4101)
    mask = right["attention_mask"]

    study(golden, "one", model, one, stacks)
    output = study(golden, "right", model, right, stacks, None, {"hidden": mask})
    padding_is_inert(model, right, output.logits)

    labels = torch.tensor([2, 0, 1])
    training(golden, build, model, {**right, "labels": labels}, labels, None, pretrained_names)
    golden.write(folder)
    autocast(folder, model, {**right, "labels": labels}, None, pretrained_names)


def vit(folder):
    # 10 x 14 pixels in patches of 2 x 2: a grid of 5 rows and 7 columns, so rows and columns cannot be exchanged.
    config = dict(image_size=[10, 14], patch_size=2, num_channels=3, hidden_size=21, num_hidden_layers=2,
                  num_attention_heads=3, intermediate_size=34, layer_norm_eps=1e-5, num_labels=7,
                  attn_implementation="eager")

    def build():
        return ViTForImageClassification(ViTConfig(**config))
    model, golden = spread(build(), 5000), Golden()
    model.save_pretrained(folder / "model")
    stacks = {"hidden": (model.vit.layers, model.vit.layernorm)}

    def images(count, seed):
        return {"pixel_values": torch.randn(count, 3, 10, 14, generator=seeded(seed))}
    study(golden, "one", model, images(1, 5001), stacks)
    batch = images(3, 5002)
    study(golden, "batch", model, batch, stacks)
    labels = torch.tensor([6, 1, 3])
    training(golden, build, model, {**batch, "labels": labels}, labels, None, pretrained_names)
    golden.write(folder)


@torch.no_grad()
def vit_resized(folder):
    """A ViT for 4 x 4 patches asked about images of 5 x 3 patches. Its positions are interpolated; transformers can do
    that from square grids only, so grids that are not square are asked of PyTorch itself."""
    config = ViTConfig(image_size=8, patch_size=2, num_channels=3, hidden_size=12, num_hidden_layers=1,
                       num_attention_heads=2, intermediate_size=18, layer_norm_eps=1e-5, num_labels=4,
                       attn_implementation="eager")
    model, golden = spread(ViTForImageClassification(config), 5100), Golden()
    model.save_pretrained(folder / "model")
    for name, height, width in (("tall", 10, 6), ("small", 4, 6), ("same", 8, 8)):
        pixels = torch.randn(2, 3, height, width, generator=seeded(5101))
        golden.put(f"{name}.pixel_values", pixels)
        golden.put(f"{name}.logits", model(pixel_values=pixels, interpolate_pos_encoding=True).logits)
    for rows, columns, new_rows, new_columns in ((2, 8, 4, 4), (5, 7, 7, 5), (1, 6, 3, 2), (3, 3, 7, 8)):
        table = torch.randn(rows * columns + 1, 3, generator=seeded(5102))
        grid = table[1:].reshape(1, rows, columns, 3).permute(0, 3, 1, 2)
        moved = torch.nn.functional.interpolate(grid, size=(new_rows, new_columns), mode="bicubic", align_corners=False)
        moved = torch.cat([table[:1], moved.permute(0, 2, 3, 1).reshape(-1, 3)])
        golden.put(f"table.{rows}x{columns}", table)
        golden.put(f"table.{rows}x{columns}.to.{new_rows}x{new_columns}", moved)
    golden.write(folder)
