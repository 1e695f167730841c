//! Journeys with data: files are made, looked into and cut into tokens; runs are listed and compared.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn regard(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_regard")).args(arguments).output().expect("the command starts")
}

fn printed(arguments: &[&str]) -> String {
    let output = regard(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn page(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(&[arguments, &["--json"]].concat())).expect("JSON")
}

fn refused(arguments: &[&str]) -> String {
    let output = regard(arguments);
    let message = String::from_utf8(output.stderr).expect("text");
    assert!(!output.status.success() && !message.contains("panicked"), "{arguments:?}: {message}");
    assert!(output.stdout.is_empty(), "{arguments:?} printed although it failed");
    message
}

/// A folder of a test's own, removed when it ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("regard-data-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn at(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a plain path").into()
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.at(name);
        fs::create_dir_all(Path::new(&path).parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

#[test]
fn biographies_are_made_looked_into_and_cut() {
    let scratch = Scratch::new("biographies");
    let folder = scratch.at("people");
    let made = page(&["data", "generate", &folder, "--people", "400", "--places", "30"]);
    assert_eq!(made["people"], 400);
    let share = made["most_frequent_answer"].as_f64().unwrap();
    assert!((0.04..=0.06).contains(&share), "{share}");
    let again = refused(&["data", "generate", &folder]);
    assert!(again.contains("is not empty; choose another folder, or add --replace"), "{again}");

    let (text, train) = (scratch.at("people/text.txt"), scratch.at("people/train.tsv"));
    let seen = page(&["data", "inspect", &text]);
    assert_eq!((&seen["kind"], &seen["lines"]), (&"text".into(), &1600.into()));
    assert!(seen["line_length"]["most"].as_u64().unwrap() < 200);
    let seen = page(&["data", "inspect", &train]);
    assert_eq!((&seen["kind"], seen["columns"].as_array().unwrap().len()), (&"table".into(), 2));
    let places = seen["columns"][1]["values"].as_object().unwrap();
    assert!((25..=30).contains(&places.len()), "{}", places.len());

    let file = scratch.at("tokenizer.json");
    for kind in ["bpe", "word-piece", "unigram", "characters"] {
        let learned = page(&[
            "data",
            "learn",
            &text,
            "--kind",
            kind,
            "--vocabulary",
            "400",
            "--out",
            &file,
            "--replace",
        ]);
        assert!(learned["vocabulary"].as_u64().unwrap() > 20, "{kind}: {learned}");
        let cut = page(&["data", "tokenize", &file, "--text", "Where was", "--bare"]);
        let ids = cut["ids"].as_array().unwrap().len();
        assert_eq!(ids, cut["tokens"].as_array().unwrap().len());
        assert_eq!(cut["decoded"].as_str().unwrap().trim().to_lowercase(), "where was", "{kind}");
        if kind == "characters" {
            assert_eq!(ids, 9);
        }
    }
    let there = refused(&["data", "learn", &text, "--out", &file]);
    assert!(there.contains("is there already; name another file, or add --replace"), "{there}");
    assert!(
        printed(&["data", "tokenize", "bytes", "--text", "hé"]).contains("they give the text back exactly")
    );
}

#[test]
fn what_cannot_be_read_is_named() {
    let scratch = Scratch::new("nonsense");
    let none = refused(&["data", "inspect", &scratch.at("none.txt")]);
    assert!(none.contains("none.txt"), "{none}");
    let empty = scratch.write("empty.txt", "");
    let message = refused(&["data", "inspect", &empty]);
    assert!(message.contains("empty.txt") && message.contains("empty"), "{message}");
    let ragged = scratch.write("ragged.tsv", "a\tb\nc\n");
    let message = refused(&["data", "inspect", &ragged]);
    assert!(message.contains("ragged.tsv:2: has 1 columns, expected 2"), "{message}");
    let idx = scratch.write("t10k-images-idx3-ubyte", "x");
    let message = refused(&["data", "inspect", &idx]);
    assert!(message.contains("give the idx file of images, then the one of labels"), "{message}");
    let message = refused(&["data", "learn", &empty, "--out", &scratch.at("t.json")]);
    assert!(message.contains("empty.txt"), "{message}");
    assert!(!Path::new(&scratch.at("t.json")).exists());
}

#[test]
fn runs_are_listed_and_compared() {
    let scratch = Scratch::new("runs");
    let step = |step: u64, loss: f64| {
        format!(
            "{{\"step\":{step},\"epoch\":0,\"loss\":{loss},\"learning_rate\":0.1,\"gradient_norm\":1.0,\
             \"tokens\":{},\"tokens_per_second\":5.0}}\n",
            step * 10
        )
    };
    let evaluation =
        "{\"step\":2,\"epoch\":0,\"evaluation\":{\"loss\":1.5,\"accuracy\":0.75},\"best\":true}\n";
    scratch.write("runs/a/recipe.toml", "[train]\nlr = 0.1\nbatch = 4\n");
    scratch.write("runs/a/metrics.jsonl", &[&step(1, 3.0), &step(2, 2.0), evaluation].concat());
    scratch.write("runs/b/recipe.toml", "[train]\nlr = 0.2\nbatch = 4\n");
    scratch.write("runs/b/metrics.jsonl", &step(1, 2.5));
    fs::create_dir_all(scratch.at("runs/other")).unwrap();
    let seen = page(&["runs", &scratch.at("runs")]);
    let runs = seen["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    assert_eq!((&runs[0]["steps"], &runs[0]["best"]["metrics"]["accuracy"]), (&2.into(), &0.75.into()));
    assert_eq!(seen["differences"], serde_json::json!([{"key": "train.lr", "values": ["0.1", "0.2"]}]));
    let text = printed(&["runs", &scratch.at("runs")]);
    assert!(
        text.contains("step 2: loss 1.5000, accuracy 0.7500") && text.contains("train.lr: 0.1 | 0.2"),
        "{text}"
    );
    let none = refused(&["runs", &scratch.at("runs/other")]);
    assert!(none.contains("holds no runs; `regard train` makes one"), "{none}");
    let none = refused(&["runs", &scratch.at("nowhere")]);
    assert!(
        none.contains("is no folder; `regard train` makes one; give a run, or a folder in which runs lie"),
        "{none}"
    );
}

#[test]
fn recipes_are_begun_checked_and_compared() {
    let scratch = Scratch::new("recipes");
    let text = scratch.write("my.txt", &"a line of text about nothing much\n".repeat(40));
    let file = scratch.at("mine.toml");
    printed(&["recipe", "new", &file]);
    let again = refused(&["recipe", "new", &file]);
    assert!(again.contains("mine.toml is there already; name another file"), "{again}");
    let wrong = refused(&["recipe", "new", &scratch.at("other.toml"), "--task", "clasify"]);
    assert!(wrong.contains("choose one of language, classify, masked, translate, images"), "{wrong}");

    let missing = refused(&["recipe", "check", &file]);
    assert!(missing.contains("my.txt"), "{missing}");
    let over = format!("data.train={text}");
    let plan = printed(&["recipe", "check", &file, &over, "model.width=32", "model.context=16"]);
    assert!(plan.contains("This can be trained:  regard train"), "{plan}");
    let typo = refused(&["recipe", "check", &file, &over, "train.epoch=2"]);
    assert!(typo.contains("epochs"), "{typo}");

    let keys = page(&["recipe", "keys", "train"]);
    let rate = keys["keys"].as_array().unwrap().iter().find(|key| key["name"] == "lr").unwrap();
    assert_eq!((&rate["takes"], &rate["otherwise"]), (&"a number".into(), &"0.001".into()));
    let help = printed(&["help", "recipe"]);
    assert!(help.contains("regard recipe check") && help.contains("The highest learning rate."), "{help}");
    let nothing = refused(&["recipe", "keys", "zzz"]);
    assert!(nothing.contains("no key of recipes has `zzz` in its name"), "{nothing}");

    let other =
        scratch.write("other.toml", &fs::read_to_string(&file).unwrap().replace("epochs = 5", "epochs = 7"));
    assert_eq!(printed(&["recipe", "diff", &file, &other]), "train.epochs: 5 | 7\n");
    assert_eq!(printed(&["recipe", "diff", &file, &file]), "They say the same.\n");
    let gone = refused(&["recipe", "diff", &file, &scratch.at("gone.toml")]);
    assert!(gone.contains("gone.toml cannot be read"), "{gone}");
}
