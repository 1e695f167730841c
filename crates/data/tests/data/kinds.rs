//! Tokenizers out of vocabulary files: 10,000 random texts have the ids that transformers gives them, by a
//! hash (`crates/conformance/parity/tokenizer_kinds.py` makes files and hashes); and files that are broken.

use crate::scratch::Scratch;
use crate::text;
use regard_data::{Tokenizer, gguf};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

fn kinds() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tokenizers/kinds")
}

/// The words of the script, in its order.
const WORDS: &str = "the of and to in a is that for it was on with as be by at from or an Transformer attention weights are sums \
                     over keys values queries Zürich café naïve Ångström 12 345 2026 don't we'll I'm (see) [1] x_y a/b ... !? -- \
                     \"quoted\" größer ΑΒΓ привет мир 你好 世界 東京 안녕 नमस्ते 😀 e\u{301} ﬁne Ｆｕｌｌ ½ ™";

/// splitmix64, and the texts of the script.
struct Generator(u64);

impl Generator {
    fn next(&mut self, below: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ z >> 31) % u64::from(below)) as u32
    }

    fn character(&mut self) -> char {
        const ODD: [u32; 12] =
            [0x300, 0x301, 0x308, 0x200B, 0x2009, 0xFF21, 0xFB01, 0x0A, 0x09, 0x0D, 0xA0, 0x3000];
        let code = match self.next(16) {
            0..5 => 97 + self.next(26),
            5 => 65 + self.next(26),
            6 | 7 => 32,
            8 => 48 + self.next(10),
            9 => 33 + self.next(15),
            10 => 0xA0 + self.next(0x160),
            11 => ODD[self.next(12) as usize],
            12 => 0x4E00 + self.next(0x5000),
            13 => 0x1F600 + self.next(0x50),
            14 => 0x370 + self.next(0x800),
            _ => match self.next(0x11_0000 - 0x800) {
                low @ 0..0xD800 => low,
                high => high + 0x800,
            },
        };
        char::from_u32(code).expect("no surrogate")
    }

    fn text(&mut self, words: &[&str]) -> String {
        let mut text = String::new();
        for _ in 0..self.next(12) {
            match self.next(3) {
                0 => text.push_str(words[self.next(words.len() as u32) as usize]),
                _ => (0..self.next(6)).for_each(|_| text.push(self.character())),
            }
            if self.next(2) == 0 {
                text.push(' ');
            }
        }
        text
    }
}

#[test]
fn ten_thousand_texts_have_the_ids_of_transformers() {
    let hashes = std::fs::read(kinds().join("hashes.json")).unwrap();
    let hashes: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&hashes).unwrap();
    assert_eq!(hashes.len(), 9);
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let mut wrong = Vec::new();
    for (kind, expected) in &hashes {
        let tokenizer = Tokenizer::of_model(&kinds().join(kind), 0).unwrap();
        let (mut generator, mut all) = (Generator(19), Sha256::new());
        for _ in 0..10_000 {
            let ids = tokenizer.encode(&generator.text(&words)).unwrap();
            ids.iter().chain([&u32::MAX]).for_each(|id| all.update(id.to_le_bytes()));
        }
        let hash: String = all.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        if Some(hash.as_str()) != expected.as_str() {
            wrong.push(kind);
        }
    }
    assert!(wrong.is_empty(), "other ids than transformers': {wrong:?}");
}

#[test]
fn a_tokenizer_in_a_gguf_file_gives_the_same_ids() {
    let scratch = Scratch::new();
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    for kind in ["gpt2", "qwen2", "llama"] {
        let tokenizer = Tokenizer::of_model(&kinds().join(kind), 0).unwrap();
        let mut settings = gguf::tokenizer::settings(&tokenizer).unwrap();
        settings.push(("tokenizer.ggml.bos_token_id".into(), gguf::Value::Int(1)));
        let path = scratch.join("model.gguf");
        gguf::write::save(&path, &settings, &[], Default::default()).unwrap();
        let again = Tokenizer::of_model(&path, 0).unwrap();
        assert_eq!(again.vocabulary(), tokenizer.vocabulary());
        let mut generator = Generator(23);
        for _ in 0..1000 {
            let text = generator.text(&words);
            let ids = tokenizer.encode(&text).unwrap();
            assert_eq!(again.encode(&text).unwrap(), ids, "{kind}: {text:?}");
            assert_eq!(again.decode(&ids).unwrap(), tokenizer.decode(&ids).unwrap(), "{kind}: {text:?}");
        }
    }
    let unigram = Tokenizer::of_model(&kinds().join("t5"), 0).unwrap();
    assert_eq!(gguf::tokenizer::settings(&unigram).unwrap_err(), "GGUF knows BPE alone");
}

#[test]
fn texts_come_back() {
    for (kind, given, back) in [
        ("llama", "the attention  of Zürich", "the attention  of Zürich"),
        ("t5", "the attention of Zürich", "the attention of Zürich"),
        ("bert", "The attention of the values", "the attention of the values"),
        ("gpt2", "the  attention of 世界 😀", "the  attention of 世界 😀"),
    ] {
        let tokenizer = Tokenizer::of_model(&kinds().join(kind), 0).unwrap();
        assert_eq!(tokenizer.decode(&tokenizer.encode(given).unwrap()).unwrap(), back, "{kind}");
    }
    let t5 = Tokenizer::of_model(&kinds().join("t5"), 0).unwrap();
    let (first, last) = (t5.id("<extra_id_0>").unwrap(), t5.id("<extra_id_99>").unwrap());
    assert_eq!((first, first - last), (289, 99), "the last mark comes first");
}

#[test]
fn files_that_say_too_little_or_nonsense_are_refused() {
    let scratch = Scratch::new();
    let refused = || text(Tokenizer::of_model(scratch.path(), 5), &scratch);
    scratch.put("vocab.txt", "[UNK]\n[CLS]\nthe\n");
    assert_eq!(
        refused(),
        "vocab.txt: has no `[SEP]`, the sep_token of such a model; copy it again, with tokenizer_config.json"
    );
    scratch.put("vocab.txt", "[UNK]\n[CLS]\n[SEP]\nthe\n");
    assert_eq!(Tokenizer::of_model(scratch.path(), 4).unwrap().encode("The").unwrap(), [1, 3, 2]);
    scratch.put("tokenizer_config.json", r#"{"tokenizer_class": "SmilesTokenizer"}"#);
    assert_eq!(
        refused(),
        "vocab.txt: is a list of word pieces of a tokenizer of the class `SmilesTokenizer`, which is not known; put the \
         tokenizer.json of the model beside it: transformers' `save_pretrained` writes one"
    );
    scratch.put("vocab.txt", b"[UNK]\n\xff");
    scratch.put("tokenizer_config.json", "{}");
    assert_eq!(refused(), "vocab.txt: is not UTF-8 from byte 6 on; copy or download it again");
    scratch.put("vocab.json", r#"{"a": 0, "b": 1, "ab": 2}"#);
    scratch.put("merges.txt", "#version: 0.2\na b\n");
    let tokenizer = Tokenizer::of_model(scratch.path(), 3).unwrap();
    assert_eq!(tokenizer.encode("abba").unwrap(), [2, 1, 0]);
    scratch.put("merges.txt", "a b c\n");
    assert_eq!(
        refused(),
        "merges.txt: line 1 is `a b c`, expected two tokens with a space between; copy or download it again"
    );
    scratch.put("merges.txt", "a c\n");
    assert!(refused().starts_with("vocab.json: is no vocabulary that can be used: "), "{}", refused());
    scratch.put("tokenizer.model", "no protobuf");
    assert_eq!(
        refused(),
        "tokenizer.model: is no SentencePiece model: its fields do not add up; copy or download it again"
    );
    scratch.put("tokenizer.model", "");
    assert!(refused().contains("it has no pieces"));
    let whole = std::fs::read(kinds().join("llama/tokenizer.model")).unwrap();
    for length in (0..whole.len()).step_by(7) {
        scratch.put("tokenizer.model", &whole[..length]);
        let _ = Tokenizer::of_model(scratch.path(), 5);
    }
    for at in (0..whole.len()).step_by(5) {
        let mut changed = whole.clone();
        changed[at] ^= 0x81;
        scratch.put("tokenizer.model", &changed);
        if let Ok(tokenizer) = Tokenizer::of_model(scratch.path(), 5) {
            let _ = tokenizer.encode("the sums é over");
        }
    }
}
