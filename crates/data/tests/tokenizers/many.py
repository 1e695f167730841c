"""Makes three tokenizers from generated text and what the Python package `tokenizers` says about 10,000 random strings.

    .venv/bin/python crates/data/tests/tokenizers/many.py

Writes `many_<kind>.json`, and `many.bin`: for each kind and string, 32 bits of a hash of the ids and 32 of the text that
these give. `tests/data/many.rs` makes the same strings. Training WordPiece and Unigram gives another vocabulary each
time: commit all that is written together.
"""
import struct
from pathlib import Path
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = Path(__file__).parent
STRINGS = 10_000
LOW = (1 << 64) - 1
WORDS = (
    "the cat sits on mat and is fat attention all you need weights sum to one old lighthouse opened again spring naïve café "
    "Zwölf Boxkämpfer jagen Viktor über großen Deich Où était élève déjà Δεν υπάρχει τίποτα мы были здесь вчера שלום עולם "
    "مرحبا بالعالم नमस्ते दुनिया 日本語 東京都 漢字 かな カナ 한국어 세계 สวัสดี 😀 👍🏽 2024 3.14 don't it's we'll"
).split()
SPACES = [0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x20, 0x85, 0xA0, 0x1680, 0x2003, 0x200B, 0x2028, 0x2029, 0x202F, 0x3000, 0xFEFF]
# First and last of the ranges that strings are drawn from; the last one is all of Unicode.
RANGES = [
    (0x20, 0x7E), (0x00, 0x1F), (0x7F, 0x9F), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x52F), (0x590, 0x6FF), (0x900, 0xDFF),
    (0xE00, 0xEFF), (0x1100, 0x11FF), (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x20D0, 0x20FF), (0x3040, 0x30FF), (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3), (0xE000, 0xF8FF), (0xFB00, 0xFDFF), (0xFE00, 0xFE0F), (0xFF00, 0xFFEF), (0x1D400, 0x1D7FF),
    (0x1F300, 0x1FAFF), (0x20000, 0x2A6DF), (0xE0000, 0xE007F), (0x00, 0x10FFFF),
]


class Noise:
    """SplitMix64."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state + 0x9E3779B97F4A7C15) & LOW
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & LOW
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & LOW
        return (z ^ (z >> 31)) % n


def sentence(number):
    noise = Noise(1_000_000 + number)
    return " ".join(WORDS[noise.below(len(WORDS))] for _ in range(3 + noise.below(10))) + ",.;!?"[noise.below(5)]


def string(number):
    noise = Noise(number)
    out = []
    for _ in range(noise.below(24)):
        choice = noise.below(len(RANGES) + 12)
        if choice < len(RANGES):
            first, last = RANGES[choice]
            code = first + noise.below(last - first + 1)
            # Surrogates are no characters.
            out.append(chr(0xFFFD if 0xD800 <= code <= 0xDFFF else code))
        elif choice < len(RANGES) + 8:
            out.append(WORDS[noise.below(len(WORDS))])
        else:
            out.append(chr(SPACES[noise.below(len(SPACES))]))
    return "".join(out)


def bpe(corpus):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=500, special_tokens=["<pad>", "<s>", "</s>", "<mask>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    return t


def word_piece(corpus):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(corpus, trainers.WordPieceTrainer(
        vocab_size=400, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    t.post_processor = processors.BertProcessing(("[SEP]", t.token_to_id("[SEP]")), ("[CLS]", t.token_to_id("[CLS]")))
    return t


def unigram(corpus):
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(r"\s+"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    t.train_from_iterator(corpus, trainers.UnigramTrainer(
        vocab_size=400, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", t.token_to_id("</s>"))])
    return t


def fnv(data):
    """The lower half of FNV-1a of 64 bits."""
    h = 0xCBF29CE484222325
    for byte in data:
        h = ((h ^ byte) * 0x100000001B3) & LOW
    return h & 0xFFFFFFFF


corpus = [sentence(i) for i in range(400)]
strings = [string(i) for i in range(STRINGS)]
golden = bytearray()
for make in [bpe, word_piece, unigram]:
    t = make(corpus)
    t.save(str(HERE / f"many_{make.__name__}.json"), pretty=False)
    for text in strings:
        ids = t.encode(text).ids
        decoded = t.decode(ids, skip_special_tokens=True)
        golden += struct.pack("<II", fnv(struct.pack(f"<{len(ids)}I", *ids)), fnv(decoded.encode()))
(HERE / "many.bin").write_bytes(golden)
