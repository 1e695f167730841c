"""Makes small tokenizer.json files and what the Python package `tokenizers` says about them.

    .venv/bin/python crates/data/tests/tokenizers/goldens.py

Writes `<kind>.json` and `golden.json` beside this file; both are committed, so the tests need no Python. Training
`unigram` and `word_piece` gives another vocabulary each time: commit all that is written together.
"""
import json
from pathlib import Path
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = Path(__file__).parent
CORPUS = [
    "A cat sits on the mat, and the cat is fat.",
    "Attention is all you need; the weights sum to one.",
    "She said that the old lighthouse, abandoned for forty years, would be opened again in the spring.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.",
    "x = 3.14 * (r ** 2)  # the area of a circle",
] * 3
TEXTS = [
    "",
    " ",
    "the cat",
    "  two  spaces\tand a tab\n",
    "The lighthouse isn't open in 2024.",
    "naïve café, ÆØÅ, ﬁne",
    "日本語 and Ελληνικά 😀👍🏽",
    "the cat<eos>the mat",
    "#" * 40,
    "a\u0301 \u200b \ufeffend",
]


def byte_level_bpe():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=330, special_tokens=["<eos>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return t


def llama_bpe():
    """As Llama 3 splits: a regex with look-ahead, then bytes; a token begins each text."""
    t = Tokenizer(models.BPE())
    split = Regex(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(split, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=320, special_tokens=["<bos>", "<eos>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", t.token_to_id("<bos>"))])
    return t


def llama2_bpe():
    """As Llama 2 is converted from SentencePiece: a space in front, bytes where there is no piece, the space cut off again."""
    merges = [("t", "h"), ("th", "e"), ("▁", "the"), ("▁", "c"), ("a", "t"), ("▁c", "at"), ("▁", "m"), ("▁m", "at"), ("▁", "▁")]
    pieces = ["<unk>", "<s>", "<eos>"] + [f"<0x{b:02X}>" for b in range(256)] + sorted(set("▁the cat maopnis.,"))
    pieces += [a + b for a, b in merges]
    t = Tokenizer(models.BPE({p: i for i, p in enumerate(pieces)}, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.add_special_tokens(["<unk>", "<s>", "<eos>"])
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return t


def unigram():
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    t.train_from_iterator(CORPUS, trainers.UnigramTrainer(
        vocab_size=120, special_tokens=["<pad>", "<eos>", "<unk>"], unk_token="<unk>", show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="$A <eos>", special_tokens=[("<eos>", t.token_to_id("<eos>"))])
    return t


def word_piece():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(CORPUS, trainers.WordPieceTrainer(
        vocab_size=140, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "<eos>"], show_progress=False))
    t.post_processor = processors.BertProcessing(("[SEP]", t.token_to_id("[SEP]")), ("[CLS]", t.token_to_id("[CLS]")))
    # Both are ignored by us: a text is neither cut nor filled up.
    t.enable_truncation(4)
    t.enable_padding(length=12)
    return t


golden = {}
for make in [byte_level_bpe, llama_bpe, llama2_bpe, unigram, word_piece]:
    t = make()
    t.save(str(HERE / f"{make.__name__}.json"), pretty=False)
    t.no_truncation()
    t.no_padding()
    golden[make.__name__] = [
        {"text": text, "ids": (ids := t.encode(text).ids), "decoded": t.decode(ids, skip_special_tokens=True)} for text in TEXTS]
lines = [f' "{kind}": [\n' + ",\n".join("  " + json.dumps(case, ensure_ascii=False) for case in cases) + "\n ]"
         for kind, cases in golden.items()]
(HERE / "golden.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
