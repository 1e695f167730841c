//! Ten thousand random strings, from all of Unicode, through three tokenizers: ids and texts are those of the
//! Python package. `tests/tokenizers/many.py` made the tokenizers and the answers.

use crate::noise::Noise;
use regard_data::Tokenizer;
use regard_data::tokenizer::Training;
use std::path::{Path, PathBuf};

const STRINGS: usize = 10_000;

const WORDS: &str = "the cat sits on mat and is fat attention all you need weights sum to one old lighthouse opened \
again spring naïve café Zwölf Boxkämpfer jagen Viktor über großen Deich Où était élève déjà Δεν υπάρχει τίποτα мы были \
здесь вчера שלום עולם مرحبا بالعالم नमस्ते दुनिया 日本語 東京都 漢字 かな カナ 한국어 세계 สวัสดี 😀 👍🏽 2024 3.14 don't it's we'll";

const SPACES: [u32; 16] = [
    0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x20, 0x85, 0xa0, 0x1680, 0x2003, 0x200b, 0x2028, 0x2029, 0x202f, 0x3000,
    0xfeff,
];

const RANGES: [(u32, u32); 25] = [
    (0x20, 0x7e),
    (0x00, 0x1f),
    (0x7f, 0x9f),
    (0xa0, 0x24f),
    (0x300, 0x36f),
    (0x370, 0x52f),
    (0x590, 0x6ff),
    (0x900, 0xdff),
    (0xe00, 0xeff),
    (0x1100, 0x11ff),
    (0x1e00, 0x1fff),
    (0x2000, 0x206f),
    (0x20d0, 0x20ff),
    (0x3040, 0x30ff),
    (0x4e00, 0x9fff),
    (0xac00, 0xd7a3),
    (0xe000, 0xf8ff),
    (0xfb00, 0xfdff),
    (0xfe00, 0xfe0f),
    (0xff00, 0xffef),
    (0x1d400, 0x1d7ff),
    (0x1f300, 0x1faff),
    (0x20000, 0x2a6df),
    (0xe0000, 0xe007f),
    (0x00, 0x10ffff),
];

/// The sentences that the tokenizers were trained on.
pub fn sentences(count: u64) -> Vec<String> {
    let words: Vec<&str> = WORDS.split(' ').collect();
    let one = |number| {
        let mut noise = Noise(1_000_000 + number);
        let length = 3 + noise.below(10);
        let chosen: Vec<&str> = (0..length).map(|_| words[noise.below(words.len())]).collect();
        chosen.join(" ") + &",.;!?"[noise.below(5)..][..1]
    };
    (0..count).map(one).collect()
}

fn string(number: u64, words: &[&str]) -> String {
    let mut noise = Noise(number);
    let mut out = String::new();
    for _ in 0..noise.below(24) {
        let choice = noise.below(RANGES.len() + 12);
        if choice < RANGES.len() {
            let (first, last) = RANGES[choice];
            let code = first + noise.below((last - first + 1) as usize) as u32;
            out.push(char::from_u32(code).unwrap_or('\u{fffd}'));
        } else if choice < RANGES.len() + 8 {
            out += words[noise.below(words.len())];
        } else {
            out.extend(char::from_u32(SPACES[noise.below(SPACES.len())]));
        }
    }
    out
}

/// The lower half of FNV-1a of 64 bits.
fn fnv(bytes: impl IntoIterator<Item = u8>) -> u32 {
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, step) as u32
}

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tokenizers").join(name)
}

#[test]
fn ids_of_ten_thousand_strings_are_those_of_the_python_package() {
    let golden = std::fs::read(here("many.bin")).unwrap();
    assert_eq!(golden.len(), 3 * STRINGS * 8);
    let number = |at: usize| u32::from_le_bytes(golden[4 * at..][..4].try_into().unwrap());
    let words: Vec<&str> = WORDS.split(' ').collect();
    let strings: Vec<String> = (0..STRINGS as u64).map(|i| string(i, &words)).collect();
    assert!(strings.iter().any(String::is_empty));
    for (kind, name) in ["bpe", "word_piece", "unigram"].into_iter().enumerate() {
        let tokenizer = Tokenizer::open(here(&format!("many_{name}.json"))).unwrap();
        let mut wrong = Vec::new();
        for (i, text) in strings.iter().enumerate() {
            let at = 2 * (kind * STRINGS + i);
            let ids = tokenizer.encode(text).unwrap();
            let decoded = tokenizer.decode(&ids).unwrap();
            let hashes = (fnv(ids.iter().flat_map(|id| id.to_le_bytes())), fnv(decoded.bytes()));
            if hashes != (number(at), number(at + 1)) {
                wrong.push((i, text, ids));
            }
        }
        assert!(wrong.is_empty(), "{name}: {} of {STRINGS} differ, first {:?}", wrong.len(), wrong[0]);
    }
}

/// The merges of BPE depend on no chance, there or here: training gives the same file.
#[test]
fn bpe_is_learned_as_in_the_python_package() {
    let ours = Tokenizer::train(&Training::bpe(500), sentences(400)).unwrap();
    let theirs = Tokenizer::open(here("many_bpe.json")).unwrap();
    assert_eq!(ours.vocabulary(), theirs.vocabulary());
    for id in 0..500 {
        assert_eq!(ours.token_of(id), theirs.token_of(id), "{id}");
    }
    let words: Vec<&str> = WORDS.split(' ').collect();
    for text in (0..500).map(|i| string(i, &words)) {
        assert_eq!(ours.encode(&text).unwrap(), theirs.encode(&text).unwrap(), "{text:?}");
        assert_eq!(ours.decode(&ours.encode_bare(&text).unwrap()).unwrap(), text);
    }
}
