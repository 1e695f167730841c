"""Beam search of transformers on the tiny models: writes goldens/parity/beams.json.

    python crates/conformance/parity/beam_golden.py

Weights are random, so that no token ends a sequence by itself: tokens that the search likes are declared to be ends.
"""

import json
import pathlib
from collections import Counter

import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent.parent / "goldens" / "parity"
CLASSES = {
    "t5": "T5ForConditionalGeneration",
    "t5_gated": "T5ForConditionalGeneration",
    "gpt2": "GPT2LMHeadModel",
    "bart": "BartForConditionalGeneration",
    "marian": "MarianMTModel",
}
MOST = 9
# Width, length penalty, early stopping, how many tokens end a sequence.
SETTINGS = [
    (2, 1.0, True, 1),
    (2, 1.0, False, 1),
    (3, 0.0, "never", 1),
    (3, 0.6, True, 2),
    (4, 1.0, False, 2),
    (4, 2.0, "never", 1),
    (4, -0.5, False, 1),
    (5, 0.6, False, 0),
    (5, 1.5, True, 2),
]


def prompts_of(model):
    """Three rows of different lengths."""
    draw = torch.Generator().manual_seed(7)
    return [torch.randint(2, model.config.vocab_size, (length,), generator=draw).tolist() for length in (7, 3, 5)]


def search(model, row, width, penalty, early, ends):
    with torch.no_grad():
        answer = model.generate(
            torch.tensor([row]),
            attention_mask=torch.ones(1, len(row), dtype=torch.long),
            num_beams=width,
            num_return_sequences=width,
            length_penalty=penalty,
            early_stopping=early,
            max_new_tokens=MOST,
            do_sample=False,
            eos_token_id=ends or None,
            pad_token_id=0,
            return_dict_in_generate=True,
            output_scores=True,
        )
    begin = 1 if model.config.is_encoder_decoder else len(row)
    found = []
    for ids, score in zip(answer.sequences[:, begin:].tolist(), answer.sequences_scores.tolist()):
        length = next((at for at, id in enumerate(ids) if id in ends), MOST)
        found.append({"ids": ids[:length], "stopped": length < len(ids) and ids[length] in ends, "score": score})
    return found


def main():
    torch.set_num_threads(1)
    cases = []
    for name, kind in CLASSES.items():
        model = getattr(transformers, kind).from_pretrained(HERE / name / "model").eval()
        # The folder may bring settings of its own for generation; none of them shall speak here.
        model.generation_config = transformers.GenerationConfig(
            decoder_start_token_id=getattr(model.config, "decoder_start_token_id", None)
        )
        rows = prompts_of(model)
        free = [beam["ids"] for row in rows for beam in search(model, row, 5, 1.0, False, [])]
        liked = [id for id, _ in Counter(id for ids in free for id in ids[2:]).most_common() if id != 0]
        for width, penalty, early, count in SETTINGS:
            ends = liked[1 : 1 + count]
            beams = [search(model, row, width, penalty, early, ends) for row in rows]
            cases.append(
                {
                    "model": name,
                    "rows": rows,
                    "width": width,
                    "length_penalty": penalty,
                    "early_stopping": early,
                    "stop": ends,
                    "most": MOST,
                    "beams": beams,
                }
            )
    with open(HERE / "beams.json", "w") as file:
        file.write('{"transformers": "%s", "cases": [\n' % transformers.__version__)
        file.write(",\n".join(json.dumps(case, separators=(",", ":")) for case in cases))
        file.write("\n]}\n")


if __name__ == "__main__":
    main()
