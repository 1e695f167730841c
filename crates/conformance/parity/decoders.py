"""Decoders: GPT-2, Llama in several forms (grouped heads and a head of its own; tied with a head width of its own;
stretched rotary frequencies of each kind), the families that are Llama with some settings of their own, minGPT's GPT,
and a Perceiver.
"""

import json

import torch
import transformers
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from modules import MinGpt, Perceiver
from record import (GREEDY_TOKENS, IGNORED, Golden, agree, autocast, chosen, ids, left_mask, positions_of, pretrained_names,
                    reads_alike, right_mask, shifted, spread, study, training, write_json)

LENGTHS = [11, 7, 4]


@torch.no_grad()
def greedy(golden, name, model, prompt, mask=None):
    """Six tokens with a cache, each step checked against a forward pass without one."""
    golden.put(f"{name}.prompt", prompt)
    if mask is not None:
        golden.put(f"{name}.attention_mask", mask)
    cache, step, whole, tokens, logits = None, prompt, prompt, [], []
    seen = torch.ones_like(prompt) if mask is None else mask
    for _ in range(GREEDY_TOKENS):
        positions = positions_of(seen)
        output = model(input_ids=step, attention_mask=seen, position_ids=positions[:, -step.shape[1]:],
                       past_key_values=cache, use_cache=True)
        full = model(input_ids=whole, attention_mask=seen, position_ids=positions).logits[:, -1]
        agree(f"{name}: cached decoding", output.logits[:, -1], full)
        cache, step = output.past_key_values, chosen(output.logits[:, -1])[:, None]
        tokens.append(step)
        logits.append(output.logits[:, -1])
        whole = torch.cat([whole, step], 1)
        seen = torch.cat([seen, torch.ones_like(step)], 1)
    golden.put(f"{name}.tokens", torch.cat(tokens, 1))
    golden.put(f"{name}.logits", torch.stack(logits, 1))


def decoder(folder, build, stack_of, vocabulary, context, seed, left=True, tuned=lambda model: model):
    """All the measurements of one decoder from transformers, those with padding on the left if asked. `tuned` may change
    the random weights."""
    model, golden = tuned(spread(build(), seed)), Golden()
    model.save_pretrained(folder / "model")
    stacks = {"hidden": stack_of(model)}

    study(golden, "one", model, {"input_ids": ids((1, context), vocabulary, seed + 1)}, stacks)

    width = LENGTHS[0]
    tokens, mask = ids((3, width), vocabulary, seed + 2), right_mask(LENGTHS, width)
    right = {"input_ids": tokens, "attention_mask": mask}
    right_logits = study(golden, "right", model, right, stacks, mask, {"hidden": mask}).logits

    greedy(golden, "greedy_one", model, ids((1, 7), vocabulary, seed + 3))
    if left:
        before = left_mask(LENGTHS, width)
        moved = torch.stack([row.roll(width - length) for row, length in zip(tokens, LENGTHS)])
        batch = {"input_ids": moved, "attention_mask": before, "position_ids": positions_of(before)}
        left_logits = study(golden, "left", model, batch, {}, before).logits
        greedy(golden, "greedy_left", model, ids((3, 7), vocabulary, seed + 4), left_mask([7, 3, 5], 7))

    for row, length in enumerate(LENGTHS):
        with torch.no_grad():
            alone = model(input_ids=tokens[row:row + 1, :length]).logits[0]
        agree("right padding", right_logits[row, :length], alone)
        if left:
            agree("left padding", left_logits[row, width - length:], alone)

    labels = tokens.masked_fill(mask == 0, IGNORED)
    training(golden, build, model, {**right, "labels": labels}, shifted(labels), mask, pretrained_names)
    golden.write(folder)
    return model, {**right, "labels": labels}, mask


def gpt2(folder):
    config = dict(vocab_size=61, n_positions=19, n_embd=24, n_layer=2, n_head=3, n_inner=50, resid_pdrop=0.0,
                  embd_pdrop=0.0, attn_pdrop=0.0, summary_first_dropout=0.0, bos_token_id=60, eos_token_id=60)
    model, batch, mask = decoder(
        folder, lambda: GPT2LMHeadModel(GPT2Config(**config, attn_implementation="eager")),
        lambda model: (model.transformer.h, model.transformer.ln_f), 61, 19, 1000)
    autocast(folder, model, batch, mask, pretrained_names)


def llama_with(folder, config, seed, left=False):
    context = min(23, config["max_position_embeddings"])
    model, _, _ = decoder(
        folder, lambda: LlamaForCausalLM(LlamaConfig(**config, attn_implementation="eager")),
        lambda model: (model.model.layers, model.model.norm), config["vocab_size"], context, seed, left)
    # Most published folders predate `rope_parameters`; both spellings must be read alike.
    older = json.loads((folder / "model" / "config.json").read_text())
    rope = older.pop("rope_parameters")
    older["rope_theta"] = rope.pop("rope_theta")
    older["rope_scaling"] = rope if rope["rope_type"] != "default" else None
    reads_alike(folder, model, older, {"input_ids": ids((1, context), config["vocab_size"], seed + 1)})


def llama(folder):
    llama_with(folder, dict(
        vocab_size=53, hidden_size=36, intermediate_size=22, num_hidden_layers=2, num_attention_heads=6,
        num_key_value_heads=2, max_position_embeddings=23, rms_norm_eps=1e-3, tie_word_embeddings=False,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0}), 2000, left=True)


def llama_tied(folder):
    llama_with(folder, dict(
        vocab_size=53, hidden_size=20, intermediate_size=14, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, head_dim=6, max_position_embeddings=23, rms_norm_eps=1e-5, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}), 2100)


def llama_stretched(folder):
    # Wavelengths 6, 35, 199 and 1117 against bounds of 16 and 64: kept, blended, slowed, slowed.
    llama_with(folder, dict(
        vocab_size=53, hidden_size=16, intermediate_size=14, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=512, rms_norm_eps=1e-5, tie_word_embeddings=True,
        rope_parameters={"rope_type": "llama3", "rope_theta": 1000.0, "factor": 8.0, "low_freq_factor": 1.0,
                         "high_freq_factor": 4.0, "original_max_position_embeddings": 64}), 2200)


def older_of(folder, rename):
    """The config as published folders spell it: no `rope_parameters`, and what `rename` does beyond that."""
    older = json.loads((folder / "model" / "config.json").read_text())
    rope = older.pop("rope_parameters", {"rope_theta": None})
    if "full_attention" in rope:
        older["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = rope["full_attention"]
    older["rope_theta"] = rope.pop("rope_theta")
    older["rope_scaling"] = rope if rope.get("rope_type", "default") != "default" else None
    rename(older, rope)
    return older


def without_types(older, rope):
    older.pop("layer_types")


def family(folder, name, config, seed, context=23, stack=lambda model: (model.model.layers, model.model.norm),
           rename=lambda older, rope: None, tuned=lambda model: model):
    """One of the families of transformers whose config is `<name>Config` and whose class `<name>ForCausalLM`, in both
    spellings of its config."""
    settings = getattr(transformers, name.replace("Gemma3", "Gemma3Text") + "Config")
    build = lambda: getattr(transformers, name + "ForCausalLM")(settings(**config, attn_implementation="eager"))
    vocabulary = config["vocab_size"]
    model, _, _ = decoder(folder, build, stack, vocabulary, context, seed, left=False, tuned=tuned)
    reads_alike(folder, model, older_of(folder, rename), {"input_ids": ids((1, context), vocabulary, seed + 1)})


def small(**own):
    """Sizes that most of the families share: two layers of three heads, one key/value head, heads wider than their
    share."""
    return dict(vocab_size=41, hidden_size=12, intermediate_size=10, num_hidden_layers=2, num_attention_heads=3,
                num_key_value_heads=1, max_position_embeddings=64) | own


def llama_linear(folder):
    family(folder, "Llama", small(
        head_dim=6, rope_parameters={"rope_type": "linear", "rope_theta": 100.0, "factor": 4.0}), 2300)


def llama_dynamic(folder):
    family(folder, "Llama", small(
        head_dim=6, rope_parameters={"rope_type": "dynamic", "rope_theta": 100.0, "factor": 4.0}), 2400)


def llama_yarn(folder):
    # 16 positions of training and a base of 100: pair 0 keeps its pace, the last is slowed all the way.
    family(folder, "Llama", small(
        head_dim=8, rope_parameters={"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "beta_fast": 2.0,
                                     "beta_slow": 0.5, "original_max_position_embeddings": 16}), 2500)


def mistral(folder):
    family(folder, "Mistral", small(head_dim=6, sliding_window=5), 2600)


def qwen2(folder):
    family(folder, "Qwen2", small(num_hidden_layers=3, use_sliding_window=True, sliding_window=5,
                                  max_window_layers=1),
           2700, rename=without_types)


def qwen3(folder):
    family(folder, "Qwen3", small(head_dim=6, tie_word_embeddings=True), 2800, rename=without_types)


def phi3(folder):
    # Three quarters of a head of eight channels turn; queries, keys and values of unequal sizes in one tensor.
    family(folder, "Phi3", small(hidden_size=24, num_hidden_layers=1, sliding_window=5, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                                 rope_parameters={"rope_type": "default", "rope_theta": 100.0,
                                                  "partial_rotary_factor": 0.75}), 3200,
           rename=lambda older, rope: older.update(partial_rotary_factor=rope["partial_rotary_factor"]))


def neox_words(older, rope):
    older.update(rotary_emb_base=older.pop("rope_theta"), rotary_pct=rope["partial_rotary_factor"])


def gpt_neox(folder):
    config = small(hidden_size=24, rope_parameters={"rope_type": "default", "rope_theta": 100.0,
                                                    "partial_rotary_factor": 0.25})
    config.pop("num_key_value_heads")
    family(folder, "GPTNeoX", config | dict(num_hidden_layers=1), 3300, rename=neox_words,
           stack=lambda model: (model.gpt_neox.layers, model.gpt_neox.final_layer_norm))


def gpt_neox_in_turn(folder):
    config = small(num_attention_heads=2, hidden_act="gelu_new", use_parallel_residual=False, attention_bias=False,
                   tie_word_embeddings=True, rope_parameters={"rope_type": "linear", "rope_theta": 100.0,
                                                              "partial_rotary_factor": 1.0, "factor": 2.0})
    config.pop("num_key_value_heads")
    family(folder, "GPTNeoX", config, 3400, rename=neox_words,
           stack=lambda model: (model.gpt_neox.layers, model.gpt_neox.final_layer_norm))


def gptj(folder):
    family(folder, "GPTJ", dict(vocab_size=41, n_embd=24, n_layer=1, n_head=3, n_inner=10, n_positions=64, rotary_dim=4,
                                bos_token_id=1, eos_token_id=2), 3500,
           stack=lambda model: (model.transformer.h, model.transformer.ln_f))


@torch.no_grad()
def about_zero(model):
    """Gemma's norms hold what their weights are above one."""
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1 and name.endswith("norm.weight"):
            parameter.sub_(1)
    return model


def gemma(folder):
    family(folder, "Gemma", small(head_dim=6), 3600, rename=lambda older, rope: older.update(hidden_act="gelu"),
           tuned=about_zero)


def gemma2(folder):
    # Caps near the scores, so that they are felt.
    family(folder, "Gemma2", small(head_dim=6, query_pre_attn_scalar=5, sliding_window=5, num_hidden_layers=3,
                                   attn_logit_softcapping=1.5, final_logit_softcapping=2.5), 3700,
           rename=without_types, tuned=about_zero)


def gemma3(folder):
    def words(older, rope):
        older.pop("layer_types")
        older["sliding_window_pattern"] = 3
    family(folder, "Gemma3", small(head_dim=6, query_pre_attn_scalar=5, sliding_window=5, num_hidden_layers=3,
                                   layer_types=["sliding_attention", "sliding_attention", "full_attention"],
                                   rope_parameters={
                                       "full_attention": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 8.0},
                                       "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}), 3800,
           rename=words, tuned=about_zero)


def olmo2(folder):
    family(folder, "Olmo2", small(), 3900)


def smollm3(folder):
    family(folder, "SmolLM3", small(num_hidden_layers=3, no_rope_layer_interval=2, use_sliding_window=True,
                                    sliding_window=5, pad_token_id=0, bos_token_id=1, eos_token_id=2), 4000,
           rename=lambda older, rope: (older.pop("layer_types"), older.pop("no_rope_layers")))


def granite(folder):
    family(folder, "Granite", small(embedding_multiplier=3.0, residual_multiplier=0.22, attention_multiplier=0.3,
                                    logits_scaling=4.0), 4100)


def stablelm(folder):
    family(folder, "StableLm", small(hidden_size=24, num_hidden_layers=1, use_qkv_bias=True,
                                     rope_parameters={"rope_type": "default", "rope_theta": 100.0,
                                                      "partial_rotary_factor": 0.25}), 4200,
           rename=lambda older, rope: older.update(partial_rotary_factor=rope["partial_rotary_factor"]))


def stablelm_parallel(folder):
    family(folder, "StableLm", small(hidden_size=24, num_hidden_layers=1, use_parallel_residual=True,
                                     rope_parameters={"rope_type": "default", "rope_theta": 100.0,
                                                      "partial_rotary_factor": 0.5}), 4300,
           rename=lambda older, rope: older.update(partial_rotary_factor=rope["partial_rotary_factor"]))


def mingpt(folder):
    config = dict(model_type="mingpt", vocab_size=47, block_size=17, n_layer=2, n_head=3, n_embd=18)
    model, golden = spread(MinGpt(config), 3000), Golden()
    (folder / "model").mkdir(parents=True)
    write_json(folder / "model" / "config.json", config)
    save_file(model.state_dict(), folder / "model" / "model.safetensors", {"format": "pt"})
    stacks = {"hidden": (model.transformer.h, model.transformer.ln_f)}

    study(golden, "one", model, {"input_ids": ids((1, 17), 47, 3001)}, stacks)
    tokens = ids((3, 11), 47, 3002)
    mask = right_mask(LENGTHS, 11)
    study(golden, "right", model, {"input_ids": tokens}, stacks, mask, {"hidden": mask})
    golden.put("right.attention_mask", mask)

    prompt = ids((1, 7), 47, 3003)
    golden.put("greedy_one.prompt", prompt)
    logits = []
    with torch.no_grad():
        for _ in range(GREEDY_TOKENS):
            logits.append(model(prompt).logits[:, -1])
            prompt = torch.cat([prompt, chosen(logits[-1])[:, None]], 1)
    golden.put("greedy_one.tokens", prompt[:, 7:])
    golden.put("greedy_one.logits", torch.stack(logits, 1))

    targets = shifted(tokens.masked_fill(mask == 0, IGNORED))
    training(golden, lambda: MinGpt(config), model, {"input_ids": tokens, "targets": targets}, None, mask)
    golden.put("train.attention_mask", mask)
    golden.write(folder)


def perceiver(folder):
    """One set of weights under all four maskings, then training with the usual one. 14 positions in chunks of 3: the last
    chunk is not full."""
    config = dict(model_type="perceiver", layers=4, heads=3, width=18, latents=5, context=14, vocabulary=37,
                  masking="prefix")
    model, golden = spread(Perceiver(config), 3100), Golden()
    (folder / "model").mkdir(parents=True)
    write_json(folder / "model" / "config.json", config)
    save_file(model.state_dict(), folder / "model" / "model.safetensors", {"format": "pt"})
    for number, masking in enumerate(("open", "prefix", "chunk", "corner")):
        other = Perceiver({**config, "masking": masking}).eval()
        other.load_state_dict(model.state_dict())
        tokens = ids((2, 14 if masking != "chunk" else 10), 37, 3101 + number)
        golden.put(f"{masking}.input_ids", tokens)
        with torch.no_grad():
            golden.put(f"{masking}.logits", other(tokens).logits)
    tokens, mask = ids((3, 11), 37, 3110), right_mask(LENGTHS, 11)
    targets = shifted(tokens.masked_fill(mask == 0, IGNORED))
    training(golden, lambda: Perceiver(config), model, {"input_ids": tokens, "targets": targets}, None)
    golden.write(folder)
