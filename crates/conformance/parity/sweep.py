#!/usr/bin/env python3
"""Random models of every class that Regard opens, at odd sizes and with odd settings: right, refused with a reason, never wrong.

    .venv/bin/python crates/conformance/parity/sweep.py [--binary target/release/regard] [--trials 30] [--seed 0] [--only WORD]
                                                        [--out crates/conformance/parity/sweep.md]

Each trial draws sizes, changes up to two other settings of the config (activations, biases, norms, ties, windows, positions, anything
that is a truth, a word or a number there), has transformers make such a model with random weights, and saves it. `regard forward` then
either gives the same scores, or says why it does not open that folder. A setting that changes nothing must not be refused for being
there; one that changes numbers must be honoured or refused. The exit code is 1 if anything was wrong.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from safetensors.torch import load_file, save_file

ROOT = Path(__file__).resolve().parents[3]
BOUND = 1e-4  # of the largest score: weights are large and layers few, so that a wrong formula is off by far more
ACTIVATIONS = ["relu", "gelu", "gelu_new", "gelu_pytorch_tanh", "silu", "tanh", "quick_gelu"]
# Settings that are sizes, drawn below, or say nothing about the numbers of a pass.
SILENT = {
    "_name_or_path", "architectures", "bos_token_id", "chunk_size_feed_forward", "decoder_start_token_id", "dtype", "eos_token_id",
    "finetuning_task", "forced_bos_token_id", "forced_eos_token_id", "id2label", "initializer_factor", "initializer_range", "is_decoder",
    "is_encoder_decoder", "label2id", "model_type", "name_or_path", "output_attentions", "output_hidden_states", "pad_token_id",
    "problem_type", "return_dict", "sep_token_id", "torch_dtype", "transformers_version", "use_cache", "vocab_size", "layer_types",
    "cross_attention_hidden_size", "add_cross_attention", "tokenizer_class", "prefix", "num_labels", "out_features", "out_indices",
    "stage_names", "encoder_stride", "reshape_hidden_states", "apply_layernorm",
}


def decoder(rng, **more):
    heads = rng.choice([2, 4, 6])
    size = dict(num_hidden_layers=rng.choice([1, 2, 3]), num_attention_heads=heads, hidden_size=heads * rng.choice([4, 6, 8]),
                intermediate_size=rng.choice([10, 14, 22]), vocab_size=rng.choice([31, 53]), max_position_embeddings=rng.choice([17, 32]))
    return {**size, **more}


def grouped(rng, **more):
    size = decoder(rng, **more)
    groups = rng.choice([g for g in (1, 2, 3, 4, 6) if size["num_attention_heads"] % g == 0])
    return {**size, "num_key_value_heads": groups, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def encoder(rng, **more):
    return {**decoder(rng), "type_vocab_size": rng.choice([1, 2, 3]), "num_labels": rng.choice([1, 2, 5]), "pad_token_id": 0, **more}


def gpt2(rng):
    size = decoder(rng)
    return dict(n_layer=size["num_hidden_layers"], n_head=size["num_attention_heads"], n_embd=size["hidden_size"],
                n_inner=rng.choice([None, 14]), vocab_size=size["vocab_size"], n_positions=size["max_position_embeddings"],
                bos_token_id=1, eos_token_id=2)


def distilbert(rng):
    size = decoder(rng)
    return dict(n_layers=size["num_hidden_layers"], n_heads=size["num_attention_heads"], dim=size["hidden_size"],
                hidden_dim=size["intermediate_size"], vocab_size=size["vocab_size"],
                max_position_embeddings=size["max_position_embeddings"], num_labels=rng.choice([1, 2, 5]))


def t5(rng, **more):
    heads = rng.choice([2, 3])
    return dict(num_layers=rng.choice([1, 2]), num_decoder_layers=rng.choice([1, 2]), num_heads=heads, d_kv=rng.choice([4, 6]),
                d_model=rng.choice([12, 18]), d_ff=rng.choice([10, 22]), vocab_size=rng.choice([31, 53]),
                relative_attention_num_buckets=rng.choice([8, 12]), relative_attention_max_distance=rng.choice([12, 20]),
                decoder_start_token_id=0, **more)


def bart(rng):
    heads = rng.choice([2, 3])
    return dict(encoder_layers=rng.choice([1, 2]), decoder_layers=rng.choice([1, 2]), encoder_attention_heads=heads,
                decoder_attention_heads=heads, d_model=heads * rng.choice([4, 6]), encoder_ffn_dim=rng.choice([10, 22]),
                decoder_ffn_dim=rng.choice([10, 22]), vocab_size=rng.choice([31, 53]), max_position_embeddings=rng.choice([17, 32]),
                pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2)


def vision(rng, **more):
    heads, patch = rng.choice([2, 3]), rng.choice([2, 4])
    return dict(num_hidden_layers=rng.choice([1, 2]), num_attention_heads=heads, hidden_size=heads * rng.choice([4, 6]),
                intermediate_size=rng.choice([10, 22]), image_size=patch * rng.choice([2, 3]), patch_size=patch,
                num_channels=rng.choice([1, 3]), num_labels=rng.choice([2, 5]), **more)


def gemma(rng, **more):
    return grouped(rng, head_dim=rng.choice([4, 6, 8]), **more)


# Class of transformers, what draws its sizes.
CLASSES = {
    "GPT2LMHeadModel": gpt2,
    "LlamaForCausalLM": grouped,
    "MistralForCausalLM": grouped,
    "Qwen2ForCausalLM": grouped,
    "Qwen3ForCausalLM": lambda rng: grouped(rng, head_dim=rng.choice([4, 6])),
    "Gemma2ForCausalLM": gemma,
    "Gemma3ForCausalLM": gemma,
    "Phi3ForCausalLM": grouped,
    "GPTNeoXForCausalLM": decoder,
    "GPTJForCausalLM": lambda rng: {**gpt2(rng), "rotary_dim": rng.choice([2, 4])},
    "OPTForCausalLM": lambda rng: {**{k: v for k, v in decoder(rng).items() if k != "intermediate_size"}, "ffn_dim": 14},
    "Olmo2ForCausalLM": grouped,
    "SmolLM3ForCausalLM": grouped,
    "GraniteForCausalLM": grouped,
    "StableLmForCausalLM": grouped,
    "BertModel": encoder,
    "BertForMaskedLM": encoder,
    "BertForPreTraining": encoder,
    "BertForSequenceClassification": encoder,
    "BertForTokenClassification": encoder,
    "BertForQuestionAnswering": lambda rng: encoder(rng, num_labels=2),
    "RobertaModel": encoder,
    "RobertaForMaskedLM": encoder,
    "RobertaForSequenceClassification": encoder,
    "RobertaForTokenClassification": encoder,
    "XLMRobertaForMaskedLM": encoder,
    "XLMRobertaForSequenceClassification": encoder,
    "DistilBertModel": distilbert,
    "DistilBertForMaskedLM": distilbert,
    "DistilBertForSequenceClassification": distilbert,
    "MPNetForMaskedLM": encoder,
    "MPNetForSequenceClassification": encoder,
    "ElectraForMaskedLM": lambda rng: encoder(rng, embedding_size=rng.choice([6, 12])),
    "ElectraForSequenceClassification": lambda rng: encoder(rng, embedding_size=rng.choice([6, 12])),
    "AlbertForMaskedLM": lambda rng: encoder(rng, embedding_size=rng.choice([6, 12])),
    "ModernBertForMaskedLM": lambda rng: {k: v for k, v in encoder(rng).items() if k != "type_vocab_size"},
    "T5ForConditionalGeneration": t5,
    "MT5ForConditionalGeneration": t5,
    "UMT5ForConditionalGeneration": t5,
    "T5EncoderModel": t5,
    "BartForConditionalGeneration": bart,
    "MarianMTModel": bart,
    "ViTForImageClassification": vision,
    "ViTModel": vision,
    "DeiTForImageClassification": vision,
    "DeiTForImageClassificationWithTeacher": vision,
    "Dinov2ForImageClassification": lambda rng: {k: v for k, v in vision(rng).items() if k != "intermediate_size"},
}


def varied(rng, config):
    """A setting of the config and another value for it; none where nothing can be varied."""
    plain = config.to_dict()
    names = [name for name, value in plain.items() if name not in SILENT and isinstance(value, (bool, int, float, str)) and "token" not in name]
    if not names:
        return None
    name = rng.choice(sorted(names))
    value = plain[name]
    if isinstance(value, bool):
        return name, not value
    if isinstance(value, str):
        return (name, rng.choice(ACTIVATIONS)) if "act" in name or "feed_forward_proj" in name else None
    if isinstance(value, float):
        return name, value * rng.choice([0.5, 2.0, 4.0])
    return None  # sizes that hang together are drawn above


def make(kind, rng):
    """A model of a class with random weights, what was varied, or why transformers makes none."""
    cls = getattr(transformers, kind)
    drawn = CLASSES[kind](rng)
    base = cls.config_class(**drawn)
    changes = {}
    for _ in range(rng.choice([0, 1, 1, 2])):
        found = varied(rng, base)
        if found and found[0] not in drawn:
            changes[found[0]] = found[1]
    torch.manual_seed(rng.randrange(1 << 30))
    model = cls(cls.config_class(**{**drawn, **changes})).eval()
    with torch.no_grad():
        # What is not learned, such as Marian's sinusoids, is what it is.
        for name, parameter in ((name, one) for name, one in model.named_parameters() if one.requires_grad):
            mean = 1.0 if parameter.dim() == 1 and "norm" in name.lower() and name.endswith("weight") else 0.0
            parameter.copy_(mean + 0.3 * torch.randn_like(parameter))
    return model, changes


@torch.no_grad()
def expected(model, rng, folder):
    """What transformers says, and the options that ask Regard the same."""
    config, options = model.config, []
    kind = type(model).__name__
    if hasattr(config, "image_size"):
        pixels = torch.randn(2, config.num_channels, config.image_size, config.image_size)
        save_file({"pixel_values": pixels}, folder / "pixels.safetensors")
        return model(pixel_values=pixels), ["--pixels", str(folder / "pixels.safetensors")]
    longest = min(getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None) or 12, 12)
    length = rng.randrange(3, longest - 3)
    ids = [rng.randrange(4, config.vocab_size) for _ in range(length)]
    given = {"input_ids": torch.tensor([ids])}
    options = ["--ids", " ".join(map(str, ids))]
    if config.is_encoder_decoder and "Encoder" not in kind:
        start = config.decoder_start_token_id
        targets = [start] + [rng.randrange(4, config.vocab_size) for _ in range(rng.randrange(1, 4))]
        given["decoder_input_ids"] = torch.tensor([targets])
        options += ["--targets", " ".join(map(str, targets))]
    elif getattr(config, "type_vocab_size", 0) > 1 and "MPNet" not in kind and "oberta" not in kind.lower():
        types = [rng.randrange(config.type_vocab_size) for _ in ids]
        given["token_type_ids"] = torch.tensor([types])
        options += ["--types", " ".join(map(str, types))]
    return model(**given), options


NAMES = {
    "logits": ["logits"], "prediction_logits": ["logits"], "seq_relationship_logits": ["follows"], "start_logits": ["start"],
    "end_logits": ["end"], "last_hidden_state": ["hidden", "encoder"],
}


def judge(binary, kind, rng, folder):
    """One trial: `right`, or what was refused, or what was wrong."""
    try:
        model, changes = make(kind, rng)
        outputs, options = expected(model, rng, folder)
        model.save_pretrained(folder)
    except Exception as error:  # transformers itself does not have such a model
        return "none", f"{type(error).__name__}", {}
    out = folder / "out.safetensors"
    done = subprocess.run([binary, "forward", str(folder), *options, "--out", str(out)], capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        text = done.stderr.strip().replace(str(folder), "FOLDER").removeprefix("regard: ")
        return ("wrong" if "panicked" in text or not text else "refused"), text, changes
    found, compared = load_file(out), 0
    for theirs, ours in NAMES.items():
        wanted = outputs.get(theirs) if hasattr(outputs, "get") else None
        name = next((name for name in ours if name in found), None)
        if wanted is None or name is None:
            continue
        got, wanted = found[name].float().reshape(-1), wanted.float().reshape(-1)
        if got.shape != wanted.shape:
            return "wrong", f"{name}: {tuple(found[name].shape)} numbers, not {tuple(outputs[theirs].shape)}", changes
        error = float((got - wanted).abs().max() / wanted.abs().max().clamp_min(1e-9))
        if not error <= BOUND:
            return "wrong", f"{name} off by {error:.1e}", changes
        compared += 1
    return ("right", "", changes) if compared else ("wrong", f"nothing to compare among {sorted(found)}", changes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=ROOT / "target" / "release" / "regard")
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    binary = str(options.binary.resolve())
    counts, reasons, faults = defaultdict(Counter), defaultdict(Counter), []
    for kind in CLASSES:
        if options.only.lower() not in kind.lower():
            continue
        for trial in range(options.trials):
            rng = random.Random(f"{options.seed} {kind} {trial}")
            with tempfile.TemporaryDirectory() as folder:
                verdict, why, changes = judge(binary, kind, rng, Path(folder))
            counts[kind][verdict] += 1
            if verdict == "refused":
                reasons[kind][why] += 1
            if verdict == "wrong":
                faults.append(f"{kind}, trial {trial}, {changes or 'as usual'}: {why}")
                print(f"WRONG  {faults[-1]}", flush=True)
        line = counts[kind]
        print(f"{kind:40} right {line['right']:3} refused {line['refused']:3} wrong {line['wrong']:3} (none made {line['none']})", flush=True)
    total = sum(counts.values(), Counter())
    lines = [
        f"# Random models of {len(counts)} classes", "",
        f"transformers {transformers.__version__}, `sweep.py --trials {options.trials} --seed {options.seed}`: {total['right']} right, "
        f"{total['refused']} refused, {total['wrong']} wrong; {total['none']} that transformers itself does not make.", "",
        "| class | right | refused | wrong | reasons |", "|---|---|---|---|---|",
    ]
    for kind, line in counts.items():
        why = "; ".join(f"{text.split(chr(10))[0][:160]} ({n})" for text, n in reasons[kind].most_common(4)).replace("|", "\\|")
        lines.append(f"| {kind} | {line['right']} | {line['refused']} | {line['wrong']} | {why} |")
    if options.out:
        options.out.write_text("\n".join(lines) + "\n")
    print(lines[2])
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
