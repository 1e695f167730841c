//! Tokenizers: five small ones against the Python package `tokenizers`, the WordPiece of a real BERT, the
//! pieces of llama2.c, text as it streams, and files that are none.

use crate::scratch::Scratch;
use crate::{shared, text};
use regard_data::{Checkpoint, Tokenizer};
use serde_json::Value;
use std::path::{Path, PathBuf};

const KINDS: [&str; 5] = ["byte_level_bpe", "llama_bpe", "llama2_bpe", "unigram", "word_piece"];

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// What the Python package said: kind, then text, ids and the text of the ids.
fn golden() -> Vec<(&'static str, String, Vec<u32>, String)> {
    let file = std::fs::read(here("tests/tokenizers/golden.json")).unwrap();
    let all: Value = serde_json::from_slice(&file).unwrap();
    let mut cases = Vec::new();
    for kind in KINDS {
        for case in all[kind].as_array().unwrap() {
            let text = |name: &str| case[name].as_str().unwrap().to_owned();
            let ids = case["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
            cases.push((kind, text("text"), ids, text("decoded")));
        }
    }
    assert_eq!(cases.len(), 50);
    cases
}

fn open(kind: &str) -> Tokenizer {
    Tokenizer::open(here(&format!("tests/tokenizers/{kind}.json"))).unwrap()
}

#[test]
fn ids_and_texts_are_those_of_the_python_package() {
    for (kind, text, ids, decoded) in golden() {
        let tokenizer = open(kind);
        assert_eq!(tokenizer.encode(&text).unwrap(), ids, "{kind} {text:?}");
        assert_eq!(tokenizer.decode(&ids).unwrap(), decoded, "{kind} {text:?}");
    }
}

/// Piece by piece, from every place on, the stream says what the whole would; and it never says half a
/// character.
#[test]
fn a_stream_says_what_the_whole_says() {
    for (kind, text, ids, decoded) in golden() {
        let tokenizer = open(kind);
        let mut stream = tokenizer.stream(&[]);
        let mut message = String::new();
        for &id in &ids {
            let part = stream.push(id).unwrap();
            assert!(!part.contains('\u{fffd}'), "{kind} {text:?}: {part:?}");
            message += &part;
        }
        message += &stream.finish().unwrap();
        assert_eq!(message, decoded, "{kind} {text:?}");
    }
}

#[test]
fn a_stream_goes_on_after_a_prompt() {
    for kind in ["byte_level_bpe", "llama_bpe", "llama2_bpe"] {
        let tokenizer = open(kind);
        let ids = tokenizer.encode("the cat is at the mat, the café of the 😀").unwrap();
        let whole = tokenizer.decode(&ids).unwrap();
        for cut in 2..ids.len() {
            let prompt = tokenizer.decode(&ids[..cut]).unwrap();
            if prompt.ends_with('\u{fffd}') {
                continue;
            }
            let mut stream = tokenizer.stream(&ids[..cut]);
            let mut message = prompt.clone();
            ids[cut..].iter().for_each(|&id| message += &stream.push(id).unwrap());
            assert_eq!(message + &stream.finish().unwrap(), whole, "{kind} after {prompt:?}");
        }
    }
}

/// Half of a character that never becomes whole is let go after four tokens, and at the end.
#[test]
fn a_stream_does_not_wait_for_ever() {
    let tokenizer = open("byte_level_bpe");
    let ids = tokenizer.encode("😀").unwrap();
    assert_eq!(ids.len(), 4);
    let mut stream = tokenizer.stream(&[]);
    let mut message = String::new();
    for _ in 0..8 {
        message += &stream.push(ids[0]).unwrap();
    }
    assert_eq!(message, "\u{fffd}".repeat(8));
    assert_eq!(stream.push(ids[0]).unwrap(), "");
    assert_eq!(stream.finish().unwrap(), "\u{fffd}");
    assert_eq!(stream.finish().unwrap(), "");
}

#[test]
fn the_word_pieces_of_minilm_are_those_of_transformers() {
    let Some(path) = shared("weights/all-MiniLM-L6-v2/tokenizer.json") else { return };
    let tokenizer = Tokenizer::open(path).unwrap();
    let golden = here("../conformance/goldens/parity/minilm");
    let sentences = std::fs::read_to_string(golden.join("sentences.txt")).unwrap();
    let checkpoint = Checkpoint::open(golden.join("golden.safetensors")).unwrap();
    let (ids, mask) = (checkpoint.get("input_ids").unwrap(), checkpoint.get("attention_mask").unwrap());
    let width = ids.shape[1];
    // Ids are below 2²⁴, so that f32 holds them exactly.
    let (ids, mask) = (ids.f32s(), mask.f32s());
    assert_eq!((sentences.lines().count(), ids.len()), (8, 8 * width));
    for (row, sentence) in sentences.lines().enumerate() {
        let places = row * width..(row + 1) * width;
        let expected: Vec<u32> = places.filter(|&at| mask[at] != 0.0).map(|at| ids[at] as u32).collect();
        assert_eq!(tokenizer.encode(sentence).unwrap(), expected, "{sentence}");
    }
    assert_eq!(
        tokenizer.decode(&tokenizer.encode("A cat sits on the mat.").unwrap()).unwrap(),
        "a cat sits on the mat."
    );
}

#[test]
fn stories_make_a_round_trip() {
    let Some(path) = shared("weights/stories260K/stories260K.bin") else { return };
    let tokenizer = Tokenizer::of_model(&path, 512).unwrap();
    assert_eq!(tokenizer.vocabulary(), 512);
    let golden = here("../conformance/goldens/parity/stories260k");
    let tokens = Checkpoint::open(golden.join("golden.safetensors")).unwrap();
    let tokens: Vec<u32> = tokens.get("tokens").unwrap().f32s().iter().map(|&id| id as u32).collect();
    let story = std::fs::read_to_string(golden.join("story.txt")).unwrap();
    assert_eq!(tokenizer.decode(&tokens).unwrap().trim_end(), story.trim_end());
    // The model was trained on these pieces, so it writes as the tokenizer would.
    assert_eq!(tokenizer.encode(&tokenizer.decode(&tokens).unwrap()).unwrap(), tokens);
    for text in ["", "Once upon a time", "  two  spaces", "naïve café 😀\n\n", "<0x41> is not A", "\0"] {
        let ids = tokenizer.encode(text).unwrap();
        assert_eq!(tokenizer.decode(&ids).unwrap(), text);
        let mut stream = tokenizer.stream(&ids[..1]);
        let message: String = ids[1..].iter().map(|&id| stream.push(id).unwrap()).collect();
        assert_eq!(message, text);
    }
    // As long as a book, in no time.
    let book = story.repeat(2000);
    assert_eq!(tokenizer.decode(&tokenizer.encode(&book).unwrap()).unwrap(), book);
}

#[test]
fn bytes_are_bytes() {
    let tokenizer = Tokenizer::bytes();
    assert_eq!(tokenizer.encode("aé").unwrap(), [97, 195, 169]);
    assert_eq!(tokenizer.decode(&[97, 195, 169]).unwrap(), "aé");
    assert_eq!(tokenizer.decode(&[195]).unwrap(), "\u{fffd}");
    assert_eq!((tokenizer.vocabulary(), tokenizer.id("a"), tokenizer.id("ab")), (256, Some(97), None));
    let message = tokenizer.decode(&[256]).unwrap_err().to_string();
    assert_eq!(message, "no token has the id 256; there are 256; use the tokenizer that came with the model");
    assert!(tokenizer.stream(&[]).push(256).is_err());
}

#[test]
fn ids_that_do_not_fit_are_refused() {
    let tokenizer = open("byte_level_bpe");
    assert_eq!(tokenizer.id("<eos>"), Some(0));
    assert_eq!(
        tokenizer.encode_for("the cat", 60).unwrap_err().to_string(),
        "the tokenizer gives the id 257, the model knows 60 tokens; use the tokenizer that came with the model"
    );
    assert_eq!(tokenizer.encode_for("the cat", 330).unwrap().len(), 3);
    let message = tokenizer.decode(&[5000]).unwrap_err().to_string();
    assert_eq!(
        message,
        "no token has the id 5000; there are 330; use the tokenizer that came with the model"
    );
    assert_eq!(tokenizer.stream(&[]).push(5000).unwrap_err().to_string(), message);
    let message = Tokenizer::bytes().stream(&[]).push(256).unwrap_err().to_string();
    assert_eq!(message, "no token has the id 256; there are 256; use the tokenizer that came with the model");
}

#[test]
fn files_that_are_no_tokenizer_are_refused() {
    let scratch = Scratch::new();
    let refused = |bytes: &[u8]| text(Tokenizer::open(scratch.put("tokenizer.json", bytes)), &scratch);
    assert_eq!(refused(b""), "tokenizer.json: is empty; copy or download it again");
    assert_eq!(refused(b" \n"), "tokenizer.json: is empty; copy or download it again");
    assert_eq!(
        refused(b"{\"version\": \"1.0\", oops"),
        "tokenizer.json:1:20: key must be a string; mend the JSON or copy it again"
    );
    let message = refused(b"{\"hello\": 1}");
    assert!(message.starts_with("tokenizer.json: is JSON, but no tokenizer: "), "{message}");
    assert!(message.ends_with("; save it with the Python package `tokenizers` 0.23 or older"), "{message}");
    let message = refused(b"[1, 2]");
    assert!(message.starts_with("tokenizer.json: is JSON, but no tokenizer: "), "{message}");
    assert_eq!(
        refused(b"{\"a\": \"\xff\"}"),
        "tokenizer.json: is not UTF-8 from byte 7 on; copy or download it again"
    );
    let nothing = br#"{"model": {"type": "BPE", "vocab": {}, "merges": []}}"#;
    assert_eq!(refused(nothing), "tokenizer.json: knows no token; copy or download it again");
    let message = text(Tokenizer::open(scratch.join("nowhere.json")), &scratch);
    assert!(message.starts_with("cannot read nowhere.json: "), "{message}");

    // Cut anywhere, or with any byte turned over, a file is an error or another tokenizer, never a panic.
    let whole = std::fs::read(here("tests/tokenizers/llama2_bpe.json")).unwrap();
    for at in (0..whole.len()).step_by(97) {
        assert!(Tokenizer::open(scratch.put("tokenizer.json", &whole[..at])).is_err());
        let mut turned = whole.clone();
        turned[at] ^= 1;
        if let Ok(other) = Tokenizer::open(scratch.put("tokenizer.json", &turned)) {
            let _ = other.encode("the cat 😀").and_then(|ids| other.decode(&ids));
        }
    }
}

#[test]
fn a_tokenizer_is_found_beside_its_model() {
    let scratch = Scratch::new();
    let refused = |name: &str| text(Tokenizer::of_model(&scratch.join(name), 3), &scratch);
    let missing = "DIR: no tokenizer here: looked for tokenizer.json, tokenizer.model, vocab.json with merges.txt, \
                   vocab.txt, tokenizer.bin and tok*.bin; copy it from where the model came from: ids mean nothing without it";
    assert_eq!(refused("model.bin"), missing);
    assert_eq!(text(Tokenizer::of_model(scratch.path(), 3), &scratch), missing);
    // The longest piece, then score, length and bytes of each.
    let mut file = 1i32.to_le_bytes().to_vec();
    for piece in [b"?", b"<", b">"] {
        file.extend([0f32.to_le_bytes(), 1i32.to_le_bytes()].concat());
        file.extend(piece);
    }
    scratch.put("tok3.bin", &file);
    assert_eq!(Tokenizer::of_model(&scratch.join("model.bin"), 3).unwrap().vocabulary(), 3);
    scratch.put("tok4.bin", b"");
    assert_eq!(
        refused("model.bin"),
        "DIR: has 2 tokenizers of llama2.c and none is tokenizer.bin; rename the one of this model to tokenizer.bin"
    );
    scratch.put("tokenizer.bin", &file);
    assert_eq!(Tokenizer::of_model(scratch.path(), 3).unwrap().vocabulary(), 3);
    std::fs::copy(here("tests/tokenizers/unigram.json"), scratch.join("tokenizer.json")).unwrap();
    assert!(Tokenizer::of_model(scratch.path(), 3).unwrap().id("<eos>").is_some());
}
