//! What the folder of an encoder-decoder says about the texts that it writes: obeyed as transformers obeys it
//! (`written.json` of the goldens), or refused.

use crate::{LETTERS, Scratch, goldens, refused, session, tokenizer};
use regard_runtime::{Translating, Which};
use serde_json::{Value, json};
use std::fs;
use std::ops::ControlFlow;

fn numbers(value: &Value) -> Vec<i32> {
    value.as_array().unwrap().iter().map(|id| id.as_i64().unwrap() as i32).collect()
}

#[test]
fn texts_are_written_by_the_rules_of_their_folder() {
    let signs = |count: usize| LETTERS.chars().take(count).collect::<String>();
    for (name, reads, writes) in
        [("bart", 37, 37), ("mbart", 47, 47), ("marian", 41, 41), ("marian_separate", 41, 33)]
    {
        let file = goldens(name).parent().unwrap().join("written.json");
        let cases: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        for case in cases.as_array().unwrap() {
            let model = Scratch::model(name, &signs(reads));
            if reads != writes {
                model.put("target_tokenizer.json", &tokenizer(&signs(writes), &[]));
            }
            let mut rules = case["rules"].clone();
            rules["decoder_start_token_id"] = case["start"].clone();
            model.put("generation_config.json", &rules.to_string());
            let rows = case["rows"].as_array().unwrap();
            let text = |row: &Value| -> String {
                numbers(&row["source"]).iter().map(|&id| LETTERS.chars().nth(id as usize).unwrap()).collect()
            };
            let texts: Vec<String> = rows.iter().map(text).collect();
            for beams in [1, 3] {
                let how = Translating {
                    beams,
                    most: case["most"].as_u64().unwrap() as usize,
                    length_penalty: rules["length_penalty"].as_f64().unwrap_or(1.0),
                    ..Translating::default()
                };
                let found = session(model.path())
                    .translate(&texts, how, None, &mut |_, _| ControlFlow::Continue(()))
                    .unwrap();
                for (row, found) in rows.iter().zip(&found) {
                    let ids = &found.beam.as_ref().unwrap().ids;
                    assert_eq!(*ids, numbers(&row[beams.to_string()]), "{name}, {beams} wide: {rules} {row}");
                }
            }
        }
    }
}

#[test]
fn tokenizers_that_cannot_be_read_are_named() {
    let model = Scratch::model("marian", LETTERS);
    fs::remove_file(model.0.join("tokenizer.json")).unwrap();
    model.put("source.spm", "");
    let texts = ["a".to_string()];
    let mut own = session(model.path());
    let message = own.translate(&texts, Translating::default(), None, &mut |_, _| ControlFlow::Continue(()));
    assert_eq!(
        message.unwrap_err().to_string().replace(model.path(), "HERE"),
        "HERE: its tokenizer is kept as Marian keeps it, in source.spm, target.spm and vocab.json, which are not read \
         here; put a tokenizer.json of the same tokens there, or give ids: regard generate --ids"
    );
}

#[test]
fn what_is_not_done_is_refused_and_what_is_no_rule_is_named() {
    let model = Scratch::model("bart", LETTERS);
    let text = |settings: Value| {
        model.put("generation_config.json", &settings.to_string());
        refused(model.path(), Which::default()).replace(model.path(), "HERE")
    };
    assert_eq!(
        text(json!({ "encoder_no_repeat_ngram_size": 3 })),
        "HERE/generation_config.json: `encoder_no_repeat_ngram_size` is 3, which changes texts and is not done here; take \
         it out to write without it"
    );
    assert!(
        text(json!({ "begin_suppress_tokens": [7] }))
            .contains("`begin_suppress_tokens` is [7], which changes")
    );
    assert_eq!(
        text(json!({ "bad_words_ids": [[3], []] })),
        "HERE/generation_config.json: `bad_words_ids` is [[3],[]], expected a list of lists of tokens; mend it, or take it \
         out"
    );
    assert_eq!(
        text(json!({ "min_length": -1 })),
        "HERE/generation_config.json: `min_length` is -1, expected a whole number that is not negative; mend it, or take \
         it out"
    );
    // What changes nothing is no matter.
    let neutral = json!({ "repetition_penalty": 1.0, "num_beam_groups": 1, "begin_suppress_tokens": [] });
    model.put("generation_config.json", &neutral.to_string());
    session(model.path());
}
