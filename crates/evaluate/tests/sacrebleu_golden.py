"""Writes goldens/sacrebleu.json: 200 random cases with sacrebleu's BLEU and chrF, corpus and sentences.

Run with:  pip install sacrebleu==2.6.0 && python crates/evaluate/tests/sacrebleu_golden.py
"""

import json
import logging
import pathlib
import random

import sacrebleu
from sacrebleu.metrics import BLEU, CHRF

logging.disable(logging.WARNING)  # about sentence scores without effective order
DRAW = random.Random(2026)
WORDS = """the a of and cat dog house river mountain Paris It's don't well-known e.g. U.S. naïve Straße Ωmega Привет
мир 你好 世界 こんにちは مرحبا émigré 🙂 👍🏽 1 2 7 12 1990-91 1,234.5 3.14 10% $5 €20 5, .5 -3 7-up a-b &quot; &amp; &lt;b&gt;
&amp;lt; <skipped> [x] {y} (z) "q" 'r' `s` ~ ^ _ | \\ / @me #tag *a+b=c* ... , . ; : ! ? « » „ “ ” – — … ' - ١٢٣ ½ ² №5 I İ ẞ Σας""".split()
SPACES = [" "] * 30 + ["  ", "\t", "\u00a0", "\u3000", "\u200b", "\x1f", "-\n", "\n", "\x85"]


def line(least, most):
    text = ""
    for _ in range(DRAW.randint(least, most)):
        text += DRAW.choice(WORDS) + (DRAW.choice(SPACES) if DRAW.random() < 0.9 else "")
    return text


def near(text):
    """The line with some words dropped, doubled or replaced."""
    words = text.split(" ")
    changed = []
    for word in words:
        luck = DRAW.random()
        if luck < 0.08:
            continue
        changed.append(DRAW.choice(WORDS) if luck < 0.2 else word)
        if luck > 0.95:
            changed.append(word)
    return " ".join(changed)


def case():
    segments = DRAW.choice([1, 1, 2, 3, 5])
    counts = DRAW.choice([1, 1, 2, 3])
    lengths = DRAW.choice([(0, 3), (1, 6), (4, 14), (8, 20)])
    hypotheses, references = [], []
    for _ in range(segments):
        first = line(*lengths)
        own = [first] + [near(first) if DRAW.random() < 0.6 else line(*lengths) for _ in range(counts - 1)]
        luck = DRAW.random()
        hypotheses.append("" if luck < 0.06 else first if luck < 0.15 else near(first) if luck < 0.9 else line(*lengths))
        references.append(own)
    settings = {
        "tokenize": DRAW.choice(["13a", "13a", "13a", "intl", "char", "none"]),
        "smooth_method": DRAW.choice(["exp", "exp", "floor", "add-k", "none"]),
        "lowercase": DRAW.random() < 0.2,
        "word_order": DRAW.choice([0, 2]),
        "whitespace": DRAW.random() < 0.2,
    }
    by_number = [list(column) for column in zip(*references)]
    bleu = BLEU(tokenize=settings["tokenize"], smooth_method=settings["smooth_method"], lowercase=settings["lowercase"])
    single = BLEU(
        tokenize=settings["tokenize"],
        smooth_method=settings["smooth_method"],
        lowercase=settings["lowercase"],
        effective_order=True,
    )
    chrf = CHRF(
        word_order=settings["word_order"], whitespace=settings["whitespace"], lowercase=settings["lowercase"]
    )
    whole = bleu.corpus_score(hypotheses, by_number)
    return {
        "hypotheses": hypotheses,
        "references": references,
        **settings,
        "bleu": whole.score,
        "precisions": whole.precisions,
        "bp": whole.bp,
        "lengths": [whole.sys_len, whole.ref_len],
        "text": whole.format(width=2),
        "bleu_signature": str(bleu.get_signature()),
        "sentence_bleu": [single.sentence_score(h, r).score for h, r in zip(hypotheses, references)],
        "chrf": chrf.corpus_score(hypotheses, by_number).score,
        "chrf_name": chrf.corpus_score(hypotheses, by_number).name,
        "chrf_signature": str(chrf.get_signature()),
        "sentence_chrf": [chrf.sentence_score(h, r).score for h, r in zip(hypotheses, references)],
    }


if __name__ == "__main__":
    cases = [case() for _ in range(200)]
    path = pathlib.Path(__file__).parent / "goldens" / "sacrebleu.json"
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"version": "%s", "cases": [\n' % sacrebleu.__version__)
        file.write(",\n".join(json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in cases))
        file.write("\n]}\n")
