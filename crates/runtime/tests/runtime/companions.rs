//! What lies beside a model: start and stop tokens where files disagree, classes, tokenizers, the scale of
//! pixels.

use crate::{SMALL, Scratch, refused, session, tokenizer};
use regard_runtime::Which;
use serde_json::{Value, json};

fn start_and_stop(scratch: &Scratch) -> (i32, Vec<i32>) {
    let session = session(scratch.path());
    let companions = session.companions();
    (companions.start(None).unwrap(), companions.stop())
}

/// The rule for start and stop tokens, on folders where the files disagree.
#[test]
fn the_first_file_that_knows_decides_where_texts_begin_and_end() {
    let t5 = Scratch::model("t5", SMALL);
    let nothing = json!({"eos_token_id": null, "bos_token_id": null, "decoder_start_token_id": null});
    t5.config(nothing.clone());

    // Nobody knows, not even the tokenizer.
    let opened = session(t5.path());
    let message = opened.companions().start(None).unwrap_err().to_string();
    assert!(
        message.ends_with(
            "config.json does not say with which token an answer begins; add `decoder_start_token_id`, or give --start"
        ),
        "{message}"
    );
    assert_eq!(opened.companions().stop(), [0; 0]);
    assert_eq!(opened.companions().start(Some(5)).unwrap(), 5, "what is given goes before all");

    // The tokenizer alone: </s> ends, <pad> begins for want of anything better.
    let first = SMALL.chars().count() as i32;
    t5.put("tokenizer.json", &tokenizer(&SMALL[..20], &["<pad>", "</s>"]));
    assert_eq!(start_and_stop(&t5), (20, vec![21]));
    t5.put("tokenizer.json", &tokenizer(&SMALL[..20], &["<pad>", "<s>", "[SEP]"]));
    assert_eq!(start_and_stop(&t5), (21, vec![22]));
    assert!(first > 22);

    // config.json goes before the tokenizer; generation_config.json before both, question by question.
    t5.config(json!({"eos_token_id": 7, "decoder_start_token_id": 8, "bos_token_id": 9}));
    assert_eq!(start_and_stop(&t5), (8, vec![7]));
    t5.put("generation_config.json", &json!({"eos_token_id": [3, 4]}).to_string());
    assert_eq!(start_and_stop(&t5), (8, vec![3, 4]));
    t5.put("generation_config.json", &json!({"decoder_start_token_id": 6, "eos_token_id": null}).to_string());
    assert_eq!(start_and_stop(&t5), (6, vec![7]));
    // A token that begins a decoder's text, wherever it stands, goes before one that begins any text.
    t5.put("generation_config.json", &json!({"bos_token_id": 2}).to_string());
    assert_eq!(start_and_stop(&t5), (8, vec![7]));
    t5.config(json!({"decoder_start_token_id": null}));
    assert_eq!(start_and_stop(&t5), (2, vec![7]));

    t5.put("generation_config.json", &json!({"eos_token_id": "</s>"}).to_string());
    let message = refused(t5.path(), Which::Exported);
    assert!(message.ends_with("`eos_token_id` is \"</s>\", expected the number of a token, or a list of such; mend it, or take it out"), "{message}");
}

#[test]
fn a_decoder_ends_with_its_own_end_and_nothing_else() {
    let gpt = Scratch::model("gpt2", SMALL);
    gpt.config(json!({"eos_token_id": null, "bos_token_id": null}));
    gpt.put("tokenizer.json", &tokenizer(&SMALL[..20], &["[SEP]", "<|endoftext|>"]));
    assert_eq!(session(gpt.path()).companions().stop(), [21]);
    // What separates two texts ends none.
    gpt.put("tokenizer.json", &tokenizer(&SMALL[..20], &["[SEP]"]));
    assert_eq!(session(gpt.path()).companions().stop(), [0; 0]);
}

#[test]
fn the_target_may_have_a_tokenizer_of_its_own() {
    let t5 = Scratch::model("t5", SMALL);
    let text = |ids: &[i32]| session(t5.path()).companions().decode(ids).unwrap();
    assert_eq!(text(&[2, 0, 19]), "cat");
    t5.put("target_tokenizer.json", &tokenizer("αβγδ", &[]));
    assert_eq!(text(&[2, 0]), "γα");
    // An id that only rounds up the model's size.
    assert_eq!(text(&[2, 20]), "γ\u{fffd}");
    let many: String = (0..99).map(|at| char::from_u32(0x4e00 + at).unwrap()).collect();
    t5.put("target_tokenizer.json", &tokenizer(&many, &[]));
    let message = session(t5.path()).companions().decode(&[1]).unwrap_err().to_string();
    assert!(
        message.starts_with("the tokenizer of the target knows 99 tokens, the model writes "),
        "{message}"
    );
}

#[test]
fn classes_have_names_or_numbers() {
    let bert = Scratch::model("bert_classify", SMALL);
    bert.config(json!({"id2label": {"0": "bad", "1": "good", "2": "odd"}, "label2id": Value::Null}));
    let opened = session(bert.path());
    assert_eq!(
        (opened.companions().class_name(1), opened.companions().class_name(7)),
        ("good".into(), "7".into())
    );
    bert.config(json!({"id2label": {"0": "bad", "2": "odd", "5": "good"}}));
    assert_eq!(session(bert.path()).companions().class_name(0), "0", "names with holes are none");
}

#[test]
fn pixels_are_scaled_as_the_folder_says() {
    let vit = Scratch::model("vit", SMALL);
    let scale = || session(vit.path()).companions().pixels.clone().unwrap();
    let usual = scale();
    assert!(usual.mean.iter().chain(&usual.std).all(|x| *x == 0.5));
    let channels = usual.mean.len();
    vit.put("preprocessor_config.json", &json!({"image_mean": vec![0.25; channels]}).to_string());
    assert_eq!((scale().mean, scale().std), (vec![0.25; channels], usual.std));
    vit.put("preprocessor_config.json", &json!({"image_mean": vec![0.25; channels + 1]}).to_string());
    let message = refused(vit.path(), Which::Exported);
    assert!(message.contains("expected a number for each of the"), "{message}");
}
