//! Journeys with encoder-decoders and with beams: `regard translate`, `regard generate` on a T5 and a
//! Transformer, against what transformers says about the same weights, and with everything that a person can
//! get wrong.

use regard::data::Checkpoint;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};

fn regard(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_regard")).args(arguments).output().expect("the command starts")
}

/// What a command that fails says, on the right stream, with the right status, without a backtrace.
fn refused(arguments: &[&str]) -> String {
    let output = regard(arguments);
    let message = String::from_utf8(output.stderr).expect("text");
    assert!(!message.contains("panicked"), "{arguments:?}: {message}");
    assert!(matches!(output.status.code(), Some(1 | 2)), "{arguments:?}: {:?} {message}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{arguments:?} printed although it failed");
    message
}

fn printed(arguments: &[&str]) -> String {
    let output = regard(arguments);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {message}");
    String::from_utf8(output.stdout).expect("text")
}

fn page(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(&[arguments, &["--json"]].concat())).expect("JSON")
}

fn goldens(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/goldens/parity").join(name)
}

fn joined(ids: &Value) -> String {
    let ids: Vec<String> = ids.as_array().unwrap().iter().map(Value::to_string).collect();
    ids.join(",")
}

/// A committed model with files of one's own, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn model(name: &str) -> Scratch {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("regard-translate-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        for file in fs::read_dir(goldens(name).join("model")).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), path.join(file.file_name())).unwrap();
        }
        Scratch(path)
    }

    /// Writes a file into it, and gives its path.
    fn put(&self, name: &str, text: &str) -> String {
        fs::write(self.0.join(name), text).unwrap();
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A tokenizer whose tokens are these signs, with ids from 0.
fn signs(signs: &str) -> String {
    let vocabulary: serde_json::Map<String, Value> =
        signs.chars().enumerate().map(|(id, c)| (c.to_string(), id.into())).collect();
    json!({
        "version": "1.0",
        "added_tokens": [],
        "decoder": { "type": "Fuse" },
        "model": { "type": "BPE", "vocab": vocabulary, "merges": [] },
    })
    .to_string()
}

const SMALL: &str = "abcdefghijklmnopqrstuvwxyz .,";
const GREEK: &str = "αβγδεζηθικλμνξοπρστυφχψωάέ ή;";

#[test]
fn sources_are_answered_as_transformers_answers_them() {
    for name in ["t5", "t5_gated"] {
        let golden = Checkpoint::open(goldens(name).join("golden.safetensors")).unwrap();
        let numbers = |tensor: &str| golden.get(tensor).unwrap().f32s();
        let (sources, mask) = (numbers("greedy_right.input_ids"), numbers("greedy_right.attention_mask"));
        let tokens = numbers("greedy_right.tokens");
        let width = sources.len() / 3;
        for row in 0..3 {
            let own = (0..width).filter(|at| mask[row * width + at] != 0.0);
            let ids: Vec<String> = own.map(|at| (sources[row * width + at] as i64).to_string()).collect();
            let model = goldens(name).join("model");
            let page = page(&[
                "generate",
                model.to_str().unwrap(),
                "--ids",
                &ids.join(","),
                "--greedy",
                "--max",
                "6",
            ]);
            let expected: Vec<i64> = tokens[row * 6..][..6].iter().map(|&id| id as i64).collect();
            assert_eq!(page["ids"], json!(expected), "{name}, row {row}");
        }
    }
}

#[test]
fn beams_are_those_of_transformers() {
    let golden: Value = serde_json::from_str(&fs::read_to_string(goldens("beams.json")).unwrap()).unwrap();
    let free = golden["cases"].as_array().unwrap().iter().filter(|case| case["stop"] == json!([]));
    let mut seen = 0;
    for case in free {
        let model = goldens(case["model"].as_str().unwrap()).join("model");
        for (ids, wanted) in case["rows"].as_array().unwrap().iter().zip(case["beams"].as_array().unwrap()) {
            let (ids, most) = (joined(ids), case["most"].to_string());
            let (width, penalty) = (case["width"].to_string(), case["length_penalty"].to_string());
            let arguments = ["generate", model.to_str().unwrap(), "--ids", &ids, "--max", &most];
            let arguments = [&arguments[..], &["--beams", &width, "--length-penalty", &penalty]].concat();
            let page = page(&arguments);
            let found = page["beams"].as_array().unwrap();
            for (found, wanted) in found.iter().zip(wanted.as_array().unwrap()) {
                assert_eq!(found["ids"], wanted["ids"]);
                let [found, wanted] = [found, wanted].map(|beam| beam["score"].as_f64().unwrap());
                assert!((found - wanted).abs() < 1e-5, "{found} {wanted}");
            }
            assert_eq!((&page["ids"], found.len()), (&wanted[0]["ids"], 5));
            let words = joined(&wanted[0]["ids"]).replace(',', " ");
            assert_eq!(printed(&arguments).trim_end(), words);
            seen += 1;
        }
    }
    assert_eq!(seen, 15);
}

#[test]
fn lines_are_translated_in_order_whatever_the_batch() {
    let model = Scratch::model("t5");
    model.put("tokenizer.json", &signs(SMALL));
    let lines = ["a house by the sea", "", "yes", "the river is long, and cold.", "no"];
    let file = model.put("lines.txt", &(lines.join("\n") + "\n"));
    let arguments = ["translate", model.path(), "--file", &file, "--max", "9"];
    let first = printed(&arguments);
    let out: Vec<&str> = first.split('\n').collect();
    assert_eq!((out.len(), out[1], out[5]), (6, "", ""), "{first}");
    for more in [["--batch", "1"], ["--batch", "2"], ["--threads", "1"]] {
        assert_eq!(printed(&[&arguments[..], &more].concat()), first, "{more:?}");
    }
    let all = page(&arguments);
    let all = all["translations"].as_array().unwrap();
    assert_eq!(all.len(), 5);
    for (at, (line, page_of)) in lines.iter().zip(all).enumerate() {
        assert_eq!((&page_of["source"], &page_of["text"]), (&json!(line), &json!(out[at])));
        if line.is_empty() {
            assert_eq!((&page_of["ids"], &page_of["score"]), (&json!([]), &Value::Null));
            continue;
        }
        let alone = page(&["generate", model.path(), "--prompt", line, "--max", "9", "--beams", "4"]);
        assert_eq!((&alone["ids"], &alone["ended"]), (&page_of["ids"], &page_of["ended"]));
        assert_eq!(alone["beams"][0]["score"], page_of["score"]);
    }
    // What is answered is printed by itself, without what was asked.
    let alone = ["generate", model.path(), "--prompt", lines[0], "--max", "9", "--beams", "4"];
    assert_eq!(printed(&alone), format!("{}\n", out[0]));
    // One beam is greedy.
    let greedy = page(&["generate", model.path(), "--prompt", lines[0], "--max", "9", "--greedy"]);
    let one = page(&["translate", model.path(), "--text", lines[0], "--max", "9", "--beams", "1"]);
    assert_eq!(one["translations"][0]["ids"], greedy["ids"]);
    assert_eq!(one["translations"][0]["text"], greedy["text"]);
    let blank = model.put("blank.txt", "\n\n");
    assert_eq!(printed(&["translate", model.path(), "--file", &blank]), "\n\n");
}

#[test]
fn a_marian_translates_by_the_rules_of_its_folder() {
    let letters: String = ('a'..='z').chain('A'..='O').collect();
    let written = fs::read_to_string(goldens("marian").join("written.json")).unwrap();
    let case = &serde_json::from_str::<Value>(&written).unwrap()[0];
    let model = Scratch::model("marian");
    model.put("tokenizer.json", &signs(&letters));
    let mut rules = case["rules"].clone();
    rules["decoder_start_token_id"] = case["start"].clone();
    model.put("generation_config.json", &rules.to_string());
    for row in case["rows"].as_array().unwrap() {
        let ids = row["source"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as usize);
        let text: String = ids.map(|id| letters.chars().nth(id).unwrap()).collect();
        let page = page(&["translate", model.path(), "--text", &text, "--max", "9", "--beams", "3"]);
        assert_eq!(page["translations"][0]["ids"], row["3"], "{text}");
    }
}

#[test]
fn source_and_target_may_have_tokenizers_of_their_own() {
    let model = Scratch::model("transformer");
    model.put("tokenizer.json", &signs(SMALL));
    let arguments =
        ["translate", model.path(), "--text", "a house", "--text", "sea", "--start", "2", "--max", "8"];
    let same = page(&arguments);
    model.put("target_tokenizer.json", &signs(GREEK));
    let own = page(&arguments);
    for (same, own) in
        same["translations"].as_array().unwrap().iter().zip(own["translations"].as_array().unwrap())
    {
        assert_eq!(same["ids"], own["ids"]);
        let ids = own["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as usize);
        // The model writes two tokens that the tokenizer does not know.
        let text: String = ids.map(|id| GREEK.chars().nth(id).unwrap_or('\u{fffd}')).collect();
        assert_eq!(own["text"], text);
    }
    model.put("target_tokenizer.json", &signs(&(SMALL.to_owned() + "ABC")));
    assert_eq!(
        refused(&arguments),
        "regard: the tokenizer of the target knows 32 tokens, the model writes 31; put the right one beside the model \
         as target_tokenizer.json\n"
    );
}

#[test]
fn what_cannot_be_translated_is_refused() {
    let model = Scratch::model("transformer");
    model.put("tokenizer.json", &signs(SMALL));
    let with = |more: &[&str]| refused(&[&["translate", model.path()], more].concat());
    assert_eq!(
        with(&["--text", "a"]),
        format!(
            "regard: {}: config.json does not say with which token an answer begins; add `decoder_start_token_id`, or \
             give --start\n",
            model.path()
        )
    );
    assert_eq!(
        with(&[]),
        "regard: nothing to translate; give --text \"…\", once or more often, or --file with a text on each line\n"
    );
    assert_eq!(with(&["--text", "a", "--text", " "]), "regard: --text number 2 is empty; give it words\n");
    assert_eq!(
        with(&["--text", "a", "--start", "31"]),
        "regard: prompt 0: it has the token 31, the vocabulary has 31; use the tokenizer of this model\n"
    );
    assert_eq!(
        with(&["--text", "a", "--max", "0"]),
        "regard: --max 0: nothing to do; choose at least 1 new token\n"
    );
    assert_eq!(
        with(&["--text", "a", "--length-penalty", "nan"]),
        "regard: beams: the length penalty is NaN; choose 0 for none, 1 for the mean over tokens\n"
    );
    for (option, range) in [("--beams", "1..=256"), ("--batch", "1..=1024")] {
        let message = with(&["--text", "a", option, "0"]);
        assert!(message.contains(&format!("0 is not in {range}")), "{message}");
    }
    let missing = model.0.join("none.txt");
    let message = with(&["--file", missing.to_str().unwrap()]);
    assert!(message.starts_with(&format!("regard: --file {}", missing.display())), "{message}");
    let empty = model.put("empty.txt", "");
    assert_eq!(
        with(&["--file", &empty]),
        format!("regard: --file {empty}: is empty; write a text on each line\n")
    );
    model.put("config.json", &{
        let text = fs::read_to_string(model.0.join("config.json")).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        config["context"] = json!(8);
        config.to_string()
    });
    assert_eq!(
        with(&["--text", "sea", "--text", "a long house", "--start", "1"]),
        "regard: text 2 has 12 tokens, the model has room for 8; split it\n"
    );
    assert_eq!(
        refused(&["generate", model.path(), "--prompt", "a long house", "--start", "1"]),
        "regard: the prompt has 12 tokens, the model has room for 8; shorten it\n"
    );
    let gpt = goldens("gpt2/model");
    let gpt = gpt.to_str().unwrap();
    assert_eq!(
        refused(&["translate", gpt, "--text", "a"]),
        format!("regard: {gpt} is a decoder (gpt2); translate needs an encoder-decoder\n")
    );
}

#[test]
fn beams_without_sense_are_refused() {
    let gpt = goldens("gpt2/model");
    let with =
        |more: &[&str]| refused(&[&["generate", gpt.to_str().unwrap(), "--ids", "3,4"], more].concat());
    assert!(with(&["--beams", "0"]).contains("0 is not in 1..=256"));
    assert!(with(&["--length-penalty", "1"]).contains("--beams <K>"));
    for other in [&["--greedy"][..], &["--temperature", "1"], &["--top-k", "3"], &["--seed", "3"]] {
        let message = with(&[&["--beams", "3"], other].concat());
        assert!(message.contains("cannot be used with"), "{message}");
    }
    assert_eq!(
        with(&["--beams", "3", "--length-penalty", "inf"]),
        "regard: beams: the length penalty is inf; choose 0 for none, 1 for the mean over tokens\n"
    );
    assert_eq!(
        with(&["--start", "1"]),
        "regard: --start is for encoder-decoders; a decoder begins with the prompt\n"
    );
}
