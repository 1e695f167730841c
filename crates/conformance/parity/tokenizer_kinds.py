"""Small tokenizers of every kind of vocabulary files, and a hash of what transformers makes of 10,000 random texts by each:
crates/data/tests/tokenizers/kinds/. The Rust test (crates/data/tests/data/kinds.rs) makes the same texts by the same
generator. Needs `pip install sentencepiece protobuf` beside requirements.txt.

    .venv/bin/python crates/conformance/parity/tokenizer_kinds.py
"""

import hashlib
import json
import pathlib
import shutil
import struct

import sentencepiece
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    BertTokenizer, GPT2Tokenizer, LlamaTokenizer, Qwen2Tokenizer, RobertaTokenizer, T5Tokenizer, XLMRobertaTokenizer,
)

ROOT = pathlib.Path(__file__).parents[3] / "crates/data/tests/tokenizers/kinds"
TEXTS = 10_000
WORDS = """the of and to in a is that for it was on with as be by at from or an Transformer attention weights are sums
over keys values queries Zürich café naïve Ångström 12 345 2026 don't we'll I'm (see) [1] x_y a/b ... !? -- "quoted"
größer ΑΒΓ привет мир 你好 世界 東京 안녕 नमस्ते 😀 e\u0301 ﬁne Ｆｕｌｌ ½ ™""".split()


class Generator:
    """splitmix64, as the Rust test has it."""

    def __init__(self, seed):
        self.state = seed

    def next(self, below):
        self.state = (self.state + 0x9E3779B97F4A7C15) % 2**64
        z = self.state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return (z ^ z >> 31) % below

    def character(self):
        kind = self.next(16)
        if kind < 5:
            return chr(97 + self.next(26))
        if kind < 6:
            return chr(65 + self.next(26))
        if kind < 8:
            return " "
        if kind < 9:
            return chr(48 + self.next(10))
        if kind < 10:
            return chr(33 + self.next(15))
        if kind < 11:
            return chr(0xA0 + self.next(0x160))
        if kind < 12:
            return chr([0x300, 0x301, 0x308, 0x200B, 0x2009, 0xFF21, 0xFB01, 0x0A, 0x09, 0x0D, 0xA0, 0x3000][self.next(12)])
        if kind < 13:
            return chr(0x4E00 + self.next(0x5000))
        if kind < 14:
            return chr(0x1F600 + self.next(0x50))
        if kind < 15:
            return chr(0x370 + self.next(0x800))
        # Any character but a surrogate.
        code = self.next(0x110000 - 0x800)
        return chr(code if code < 0xD800 else code + 0x800)

    def text(self):
        parts = []
        for _ in range(self.next(12)):
            if self.next(3) == 0:
                parts.append(WORDS[self.next(len(WORDS))])
            else:
                parts.append("".join(self.character() for _ in range(self.next(6))))
            if self.next(2) == 0:
                parts.append(" ")
        return "".join(parts)


def digest(tokenizer):
    generator, all = Generator(19), hashlib.sha256()
    for _ in range(TEXTS):
        ids = tokenizer(generator.text())["input_ids"]
        all.update(struct.pack(f"<{len(ids) + 1}I", *ids, 0xFFFFFFFF))
    return all.hexdigest()


def corpus():
    generator = Generator(3)
    lines = []
    for _ in range(3000):
        words = [WORDS[generator.next(len(WORDS))] for _ in range(3 + generator.next(9))]
        lines.append(" ".join(words))
    return lines


def pieces(folder, name, kind, size, **more):
    """A SentencePiece model; of characters only a few are normalised, for the usual map has 240 kB."""
    rules = folder / "rules.tsv"
    rules.write_text("FF21\t41\nFB01\t66 69\nA0\t20\n3000\t20\n9\t20\nA\t20\nD\t20\n65 301\tE9\n200B\t\n")
    text = folder / "corpus.txt"
    text.write_text("\n".join(corpus()))
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(folder / "m"), model_type=kind, vocab_size=size, minloglevel=2,
        **({"normalization_rule_tsv": str(rules)} if more.pop("normalised", True) else {"normalization_rule_name": "identity"}),
        **more)
    (folder / "m.model").rename(folder / name)
    for other in ["m.vocab", "rules.tsv", "corpus.txt"]:
        (folder / other).unlink()


def put(folder, name, value):
    (folder / name).write_text(json.dumps(value) + "\n")


def make(folder, kind):
    if kind == "llama":
        pieces(folder, "tokenizer.model", "bpe", 500, normalised=False, byte_fallback=True, add_dummy_prefix=True,
               remove_extra_whitespaces=False, character_coverage=0.98, split_digits=True)
        put(folder, "tokenizer_config.json", {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True})
        return LlamaTokenizer.from_pretrained(folder)
    if kind == "t5":
        pieces(folder, "spiece.model", "unigram", 190, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, character_coverage=0.99)
        put(folder, "tokenizer_config.json", {"tokenizer_class": "T5Tokenizer"})
        return T5Tokenizer.from_pretrained(folder)
    if kind == "xlm_roberta":
        pieces(folder, "sentencepiece.bpe.model", "unigram", 190, character_coverage=0.99)
        put(folder, "tokenizer_config.json", {"tokenizer_class": "XLMRobertaTokenizer"})
        return XLMRobertaTokenizer.from_pretrained(folder)
    if kind.startswith("bert"):
        own = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        own.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        lines = corpus() if kind == "bert_cased" else [line.lower() for line in corpus()]
        own.train_from_iterator(lines, trainers.WordPieceTrainer(vocab_size=300, special_tokens=specials, show_progress=False))
        order = sorted(own.get_vocab().items(), key=lambda pair: pair[1])
        (folder / "vocab.txt").write_text("".join(f"{token}\n" for token, _ in order))
        settings = {
            "bert": {"do_lower_case": True},
            "bert_cased": {"do_lower_case": False, "tokenize_chinese_chars": False},
            "bert_accents": {"do_lower_case": True, "strip_accents": False},
        }[kind]
        put(folder, "tokenizer_config.json", {"tokenizer_class": "BertTokenizer", **settings})
        return BertTokenizer.from_pretrained(folder)
    own = Tokenizer(models.BPE())
    own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    specials = {"roberta": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]}.get(kind, ["<|endoftext|>"])
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=specials, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    own.train_from_iterator(corpus(), trainer)
    own.model.save(str(folder))
    classes = {"gpt2": GPT2Tokenizer, "roberta": RobertaTokenizer, "qwen2": Qwen2Tokenizer}
    put(folder, "tokenizer_config.json", {"tokenizer_class": classes[kind].__name__})
    return classes[kind].from_pretrained(folder)


def main():
    shutil.rmtree(ROOT, ignore_errors=True)
    hashes = {}
    for kind in ["llama", "t5", "xlm_roberta", "bert", "bert_cased", "bert_accents", "gpt2", "roberta", "qwen2"]:
        folder = ROOT / kind
        folder.mkdir(parents=True)
        hashes[kind] = digest(make(folder, kind))
        print(kind, hashes[kind])
    put(ROOT, "hashes.json", hashes)


if __name__ == "__main__":
    main()
