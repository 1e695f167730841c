"""What `apply_chat_template` of transformers makes of conversations, by templates in the prompt formats of well-known
models (`chat_templates/*.jinja`): texts with and without the beginning of a reply, and what the template marks as the
model's own. Writes `goldens/chat_templates.json`, which `crates/runtime/tests/chat_templates.rs` compares.

    .venv/bin/python crates/conformance/parity/chat_templates.py
"""

import datetime
import json
import pathlib

from transformers.utils import chat_template_utils

HERE = pathlib.Path(__file__).resolve().parent
NOW = 1_735_689_600  # 1 January 2025


class Fixed(datetime.datetime):
    """A clock that stands still."""

    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc)


chat_template_utils.datetime = Fixed

TOKENS = {
    "llama3": {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"},
    "mistral": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
    "qwen25": {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
    "qwen3": {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
    "gemma": {"bos_token": "<bos>", "eos_token": "<eos>"},
    "phi3": {"bos_token": "<s>", "eos_token": "<|endoftext|>"},
    "smollm2": {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"},
    "zephyr": {"bos_token": "<s>", "eos_token": "</s>"},
    "chatml": {"eos_token": "<|im_end|>"},
    "python_words": {"bos_token": "<s>"},
}


def said(*contents, system=None):
    """A conversation in which user and assistant take turns."""
    turns = [{"role": "user" if at % 2 == 0 else "assistant", "content": text} for at, text in enumerate(contents)]
    return ([{"role": "system", "content": system}] if system else []) + turns


CONVERSATIONS = [
    said("Hello!"),
    said("  What is 2 + 2?\n", "It is 4. ", "And “é”, <b>&amp;</b>?", system="Be brief."),
    said("a", "<think>\nhm,\nso\n</think>\n\nb", "c", "<think>x</think>d"),
    said("Hello there", "Hi", "x\ty\n\nz 'quoted' \"twice\" \\ {{ braces }} {% tag %}", "done"),
    [{"role": "user", "content": "weather?"},
     {"role": "assistant", "content": "", "tool_calls": [
         {"type": "function", "function": {"name": "weather", "arguments": {"place": "Zürich", "days": 2}}}]},
     {"role": "tool", "content": "sun"}, {"role": "tool", "content": "rain"},
     {"role": "assistant", "content": "Sun, then rain."}],
    [{"role": "user", "content": [{"type": "text", "text": " parts "}, {"type": "image"}]}],
    [{"role": "assistant", "content": "I begin."}, {"role": "user", "content": "Do you?"}],
    [{"role": "system", "content": "only this"}],
]


def rendered(template, tokens, messages, reply):
    """The text and what is marked in it, or that the template refused."""
    compiled = chat_template_utils._compile_jinja_template(template)
    try:
        text, marked = chat_template_utils._render_with_assistant_indices(
            compiled, messages, None, None, reply, **tokens)
    except Exception as error:  # whatever a template raises is a refusal
        return {"refused": str(error)}
    # Places as bytes of UTF-8.
    place = lambda at: len(text[:at].encode())
    return {"text": text, "marked": [[place(a), place(b)] for a, b in marked]}


def main():
    cases = []
    for name, tokens in TOKENS.items():
        template = (HERE / "chat_templates" / f"{name}.jinja").read_text()
        for messages in CONVERSATIONS:
            for reply in (False, True):
                # As text: a template may print keys, in their order.
                case = {"template": name, "messages": json.dumps(messages, ensure_ascii=False), "reply": reply}
                cases.append(case | rendered(template, tokens, messages, reply))
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    path = HERE.parent / "goldens" / "chat_templates.json"
    path.write_text(f'{{"now": {NOW}, "tokens": {json.dumps(TOKENS)},\n"cases": [\n{lines}\n]}}\n')
    refused = sum("refused" in case for case in cases)
    print(f"{len(cases)} cases, {refused} of them refused, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
