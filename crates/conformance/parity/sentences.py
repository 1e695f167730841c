#!/usr/bin/env python3
"""Makes the goldens of sentence-transformers' folders: small random encoders with the modules that follow them, as the
package itself writes them, and the vectors that it gives.

    sentences.py                  all cases, into crates/conformance/goldens/sentences
    sentences.py FOLDER CASE      reads a folder that Regard exported, and compares its vectors with the case's

Needs `sentence-transformers` 6 beside what requirements.txt lists.
"""

import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, MPNetConfig, MPNetModel, PreTrainedTokenizerFast

from goldens import quiet
from record import spread

COMMITTED = Path(__file__).resolve().parents[1] / "goldens" / "sentences"
WORDS = "a the cat kitten dog sat on mat ran far away find : query passage".split()
TEXTS = ["a cat sat on the mat", "the kitten ran", "far", "a dog ran far away on the mat on a mat"]
BOUND = 1e-5  # of the largest number


def tokenizer(cls, sep, pad, limit):
    """Words, between a token that begins and one that ends a text; unknown ones are the last token."""
    names = [cls, pad, sep, "[UNK]", *WORDS]
    inner = Tokenizer(models.WordLevel({word: index for index, word in enumerate(names)}, unk_token="[UNK]"))
    inner.normalizer = normalizers.Lowercase()
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}", pair=f"{cls} $A {sep} $B {sep}", special_tokens=[(cls, 0), (sep, 2)])
    return PreTrainedTokenizerFast(tokenizer_object=inner, cls_token=cls, sep_token=sep, pad_token=pad,
                                   unk_token="[UNK]", model_max_length=limit)


SIZES = dict(vocab_size=4 + len(WORDS), hidden_size=12, num_hidden_layers=1, num_attention_heads=2, intermediate_size=10,
             max_position_embeddings=20, pad_token_id=1, attn_implementation="eager")


def case(folder, model, seed, names, limit, modules, **prompts):
    shutil.rmtree(folder, ignore_errors=True)
    spread(model, seed).save_pretrained(folder / "base")
    tokenizer(*names, limit).save_pretrained(folder / "base")
    first = Transformer(str(folder / "base"))
    whole = SentenceTransformer(modules=[first, *modules], device="cpu", **prompts).eval()
    for index, module in enumerate(modules):
        if isinstance(module, Dense):
            spread(module, seed + 1 + index)
    whole.save(str(folder / "model"), create_model_card=False)
    shutil.rmtree(folder / "base")
    whole = SentenceTransformer(str(folder / "model"), device="cpu")
    vectors = {"vectors": whole.encode(TEXTS, convert_to_tensor=True)}
    for name in prompts.get("prompts", {}):
        vectors[f"vectors.{name}"] = whole.encode(TEXTS, prompt_name=name, convert_to_tensor=True)
    save_file(vectors, folder / "golden.safetensors")
    (folder / "texts.json").write_text(json.dumps(TEXTS, indent=1) + "\n")
    print(folder.name, {name: list(value.shape) for name, value in vectors.items()})


def make():
    bert = ("[CLS]", "[SEP]", "[PAD]")
    # Every way to pool, side by side, and nothing behind it: these vectors have any length.
    case(COMMITTED / "pooled", BertModel(BertConfig(**SIZES), add_pooling_layer=False), 7000, bert, 18,
         [Pooling(12, ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"))])
    # Layers behind the pooling; prompts, one of them by default, whose tokens are not pooled; texts that are cut.
    case(COMMITTED / "dense", MPNetModel(MPNetConfig(**SIZES), add_pooling_layer=False), 7100, ("<s>", "</s>", "<pad>"), 9,
         [Pooling(12, ("mean", "cls"), include_prompt=False), Dense(24, 7, activation_function=torch.nn.Tanh()), Normalize(),
          Dense(7, 5, bias=False, activation_function=torch.nn.Identity())],
         prompts={"query": "query : ", "passage": "find the passage : "}, default_prompt_name="query")


def compare(folder, name):
    wanted = load_file(COMMITTED / name / "golden.safetensors")["vectors"]
    found = SentenceTransformer(folder, device="cpu").encode(TEXTS, convert_to_tensor=True)
    apart = float((found - wanted).abs().max() / wanted.abs().max())
    print(f"{name}: {apart:.1e} of the largest number apart")
    return 0 if found.shape == wanted.shape and apart <= BOUND else 1


if __name__ == "__main__":
    quiet()
    sys.exit(compare(*sys.argv[1:]) if len(sys.argv) == 3 else make())
