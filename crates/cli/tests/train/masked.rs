//! Masked tokens: a small BERT reads sentences in which one word tells another, and learns to fill it in.

use super::scratch::{Scratch, metric};
use std::fmt::Write as _;

const ANIMALS: [(&str, &str); 4] = [("cat", "slept"), ("dog", "barked"), ("bird", "sang"), ("fish", "swam")];

const RECIPE: &str = r#"
task = "masked"
[data]
train = ["animals.txt"]
hold_out = 0.1
[tokenizer]
kind = "wordpiece"
vocabulary = 200
[model]
family = "bert"
layers = 1
heads = 2
width = 32
context = 16
std = 0.1
[train]
epochs = 60
batch = 24
lr = 3e-3
warmup_steps = 30
dropout = 0.0
"#;

#[test]
fn a_mask_is_filled_from_the_words_around_it() {
    let scratch = Scratch::new("masked");
    let mut lines = String::new();
    for i in 0..144 {
        let ((animal, did), place) = (ANIMALS[i % 4], ["barn", "lake", "hill"][i / 4 % 3]);
        writeln!(lines, "the {animal} {did} by the {place}").unwrap();
    }
    scratch.write("animals.txt", lines);
    scratch.write("tiny.toml", RECIPE);
    let page = scratch.page(&["train", "tiny.toml"]);
    // Who knows no more than how frequent each word is has a loss of 2.2; the places alone cannot be told.
    let loss = metric(&page["result"], "loss");
    assert!(loss < 0.5, "{page}");
    let tokens = |text: &str| scratch.page(&["data", "tokenize", "runs/tiny", "--text", text]);
    let mut right = 0;
    for (animal, did) in ANIMALS {
        let text = format!("the {animal} [MASK] by the lake");
        let asked = tokens(&text);
        let at = asked["tokens"].as_array().unwrap().iter().position(|token| token == "[MASK]").unwrap();
        let wanted = tokens(did)["ids"][1].as_u64().unwrap() as usize;
        scratch.page(&["forward", "runs/tiny", "--text", &text, "--out", "out.safetensors", "--replace"]);
        let file = regard::data::Checkpoint::open(scratch.path("out.safetensors")).unwrap();
        let logits = file.get("logits").unwrap();
        let vocabulary = logits.shape[2];
        let scores = &logits.f32s()[at * vocabulary..(at + 1) * vocabulary];
        let best = (0..vocabulary).max_by(|&a, &b| scores[a].total_cmp(&scores[b]));
        right += usize::from(best == Some(wanted));
    }
    assert_eq!(right, 4, "of four masks; chance is one in dozens for each");
    let page = scratch.page(&["evaluate", "runs/tiny"]);
    assert!((metric(&page, "loss") - loss).abs() < 1e-6, "{page}");
}
