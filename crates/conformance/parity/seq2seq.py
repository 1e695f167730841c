"""Encoder-decoders: T5 as first published (ReLU, tied) and as v1.1 (gated GELU, untied), its encoder alone, mT5, umT5, and
the Transformer of 2017 on `torch.nn.Transformer`.
"""

import json

import torch
from safetensors.torch import save_file
from torch import nn
from transformers import (MT5Config, MT5ForConditionalGeneration, T5Config, T5EncoderModel, T5ForConditionalGeneration,
                          UMT5Config, UMT5ForConditionalGeneration)
from transformers.modeling_outputs import BaseModelOutput

from modules import Translator, sinusoids
from record import (GREEDY_TOKENS, IGNORED, Golden, agree, chosen, ids, pretrained_names, reads_alike, real_rows, right_mask,
                    spread, study, training, write_json)

LENGTHS = [17, 9, 4]
TARGET_LENGTHS = [13, 6, 9]


def t5_model(gated):
    config = T5Config(vocab_size=59, d_model=18, d_kv=5, d_ff=22, num_layers=2, num_heads=3,
                      relative_attention_num_buckets=8, relative_attention_max_distance=12, dropout_rate=0.0,
                      layer_norm_epsilon=1e-5, decoder_start_token_id=0, tie_word_embeddings=not gated,
                      feed_forward_proj="gated-gelu" if gated else "relu", attn_implementation="eager")
    model = T5ForConditionalGeneration(config)
    if gated:  # transformers ties at first and lets go only when a file holds both matrices
        model.lm_head.weight = nn.Parameter(torch.empty(59, 18))
        nn.init.normal_(model.lm_head.weight)
    return model


@torch.no_grad()
def t5_greedy(golden, model, source):
    """Six tokens with a cache for three padded sources, each step checked against a forward pass without one."""
    golden.put_all("greedy_right", source)
    memory = BaseModelOutput(last_hidden_state=model.encoder(**source).last_hidden_state)
    whole = step = torch.zeros(len(LENGTHS), 1, dtype=torch.long)
    cache, logits = None, []
    for _ in range(GREEDY_TOKENS):
        output = model(encoder_outputs=memory, attention_mask=source["attention_mask"], decoder_input_ids=step,
                       past_key_values=cache, use_cache=True)
        full = model(**source, decoder_input_ids=whole).logits[:, -1]
        agree("T5: cached decoding", output.logits[:, -1], full)
        cache, step = output.past_key_values, chosen(full)[:, None]
        logits.append(output.logits[:, -1])
        whole = torch.cat([whole, step], 1)
    golden.put("greedy_right.tokens", whole[:, 1:])
    golden.put("greedy_right.logits", torch.stack(logits, 1))


def mt5_model():
    """As transformers 5 saves it: `tie_word_embeddings: true`, no `scale_decoder_outputs`, and no scale."""
    return MT5ForConditionalGeneration(MT5Config(
        vocab_size=59, d_model=18, d_kv=5, d_ff=22, num_layers=2, num_heads=3, relative_attention_num_buckets=8,
        relative_attention_max_distance=12, dropout_rate=0.0, layer_norm_epsilon=1e-5, attn_implementation="eager"))


def t5_with(folder, build, seed):
    model, golden = spread(build(), seed), Golden()
    model.save_pretrained(folder / "model")
    stacks = {"encoder": (model.encoder.block, model.encoder.final_layer_norm),
              "decoder": (model.decoder.block, model.decoder.final_layer_norm)}

    study(golden, "one", model, {"input_ids": ids((1, 19), 59, seed + 1),
                                 "decoder_input_ids": ids((1, 16), 59, seed + 2)}, stacks)

    mask = right_mask(LENGTHS, 17)
    source = {"input_ids": ids((3, 17), 59, seed + 3, first=2) * mask, "attention_mask": mask}
    labels = ids((3, 13), 59, seed + 4).masked_fill(right_mask(TARGET_LENGTHS, 13) == 0, IGNORED)
    # What transformers makes of the labels by itself: shifted right behind the start token 0, ignored ones to 0.
    shifted_right = torch.cat([torch.zeros(3, 1, dtype=torch.long), labels[:, :-1]], 1)
    target = shifted_right.masked_fill(shifted_right == IGNORED, 0)
    right = {**source, "decoder_input_ids": target}
    logits = study(golden, "right", model, right, stacks, None, {"encoder": mask}).logits
    for row, length in enumerate(LENGTHS):
        with torch.no_grad():
            alone = model(input_ids=source["input_ids"][row:row + 1, :length],
                          decoder_input_ids=target[row:row + 1]).logits[0]
        agree("source padding", logits[row], alone)

    t5_greedy(golden, model, source)
    training(golden, build, model, {**right, "labels": labels}, labels, None, pretrained_names)
    golden.write(folder)

    # Published v1.1 and mT5 folders say it with `tie_word_embeddings` alone; both spellings must be read alike.
    older = json.loads((folder / "model" / "config.json").read_text())
    older["tie_word_embeddings"] = older.pop("scale_decoder_outputs", False)
    reads_alike(folder, model, older, right)


def t5(folder):
    t5_with(folder, lambda: t5_model(False), 6400)


def t5_gated(folder):
    t5_with(folder, lambda: t5_model(True), 6000)


def mt5(folder):
    t5_with(folder, mt5_model, 6900)


def umt5(folder):
    """A table of distances in every block; as transformers 5 saves it, tied and scaled."""
    config = UMT5Config(vocab_size=31, d_model=12, d_kv=5, d_ff=14, num_layers=2, num_decoder_layers=1, num_heads=2,
                        relative_attention_num_buckets=8, relative_attention_max_distance=12, dropout_rate=0.0,
                        layer_norm_epsilon=1e-5, decoder_start_token_id=0, attn_implementation="eager")
    model, golden = spread(UMT5ForConditionalGeneration(config), 6700), Golden()
    model.save_pretrained(folder / "model")
    stacks = {"encoder": (model.encoder.block, model.encoder.final_layer_norm),
              "decoder": (model.decoder.block, model.decoder.final_layer_norm)}
    study(golden, "one", model, {"input_ids": ids((1, 19), 31, 6701), "decoder_input_ids": ids((1, 16), 31, 6702)}, stacks)
    mask = right_mask(LENGTHS, 17)
    source = {"input_ids": ids((3, 17), 31, 6703, first=2) * mask, "attention_mask": mask}
    right = {**source, "decoder_input_ids": ids((3, 13), 31, 6704)}
    study(golden, "right", model, right, stacks, None, {"encoder": mask})
    t5_greedy(golden, model, source)
    golden.write(folder)


@torch.no_grad()
def t5_encoder(folder):
    """The encoder by itself has no logits: what it makes of a text is `last_hidden_state`."""
    config = t5_model(True).config
    model, golden = spread(T5EncoderModel(config), 6800), Golden()
    model.save_pretrained(folder / "model")
    mask = right_mask(LENGTHS, 17)
    sets = {"one": {"input_ids": ids((1, 19), 59, 6801)},
            "right": {"input_ids": ids((3, 17), 59, 6802, first=2) * mask, "attention_mask": mask}}
    for name, batch in sets.items():
        golden.put_all(name, batch)
        hidden = model(**batch).last_hidden_state
        golden.put(f"{name}.last_hidden_state", real_rows(hidden, batch.get("attention_mask")))
    golden.write(folder)


def transformer_with(folder, config, seed):
    model, golden = spread(Translator(config), seed), Golden()
    (folder / "model").mkdir(parents=True)
    write_json(folder / "model" / "config.json", config)
    save_file(model.state_dict(), folder / "model" / "model.safetensors", {"format": "pt"})
    inner = model.transformer
    stacks = {"encoder": (inner.encoder.layers, inner.encoder.norm),
              "decoder": (inner.decoder.layers, inner.decoder.norm)}
    vocabulary = config["vocab_size"]
    source_vocabulary = config.get("source_vocab_size", vocabulary)
    golden.put("positions", sinusoids(19, config["d_model"]).float())

    study(golden, "one", model, {"source": ids((1, 19), source_vocabulary, seed + 1),
                                 "target": ids((1, 12), vocabulary, seed + 2)}, stacks)
    mask = right_mask(LENGTHS, 17)
    target_mask = right_mask(TARGET_LENGTHS, 13)
    right = {"source": ids((3, 17), source_vocabulary, seed + 3) * mask, "source_mask": mask,
             "target": ids((3, 13), vocabulary, seed + 4) * target_mask}
    logits = study(golden, "right", model, right, stacks, None, {"encoder": mask}).logits
    for row, length in enumerate(LENGTHS):
        with torch.no_grad():
            alone = model(source=right["source"][row:row + 1, :length], target=right["target"][row:row + 1]).logits[0]
        agree("source padding", logits[row], alone)

    targets = ids((3, 13), vocabulary, seed + 5).masked_fill(target_mask == 0, IGNORED)
    training(golden, lambda: Translator(config), model, {**right, "targets": targets}, None)
    golden.write(folder)


def transformer(folder):
    transformer_with(folder, dict(model_type="transformer", d_model=20, nhead=4, num_encoder_layers=2,
                                  num_decoder_layers=2, dim_feedforward=36, source_vocab_size=37, vocab_size=31,
                                  shared=False), 7000)


def transformer_shared(folder):
    transformer_with(folder, dict(model_type="transformer", d_model=12, nhead=3, num_encoder_layers=2,
                                  num_decoder_layers=1, dim_feedforward=22, vocab_size=31, shared=True), 7100)
