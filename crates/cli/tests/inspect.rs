//! Journeys of `regard prove`, `audit`, `look` and `cost`: on every family, with every slip of the finger,
//! and with a model that is wrong.

use regard_data::{Checkpoint, Data, Save, SaveOptions, save_folder};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs at the root of the repository, where the examples of `--help` are typed.
fn regard(arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Command::new(env!("CARGO_BIN_EXE_regard")).args(arguments).current_dir(root).output().expect("it starts")
}

fn printed(arguments: &[&str]) -> String {
    let output = regard(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn page(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(&[arguments, &["--json"]].concat())).expect("JSON")
}

/// What a command that fails says: one sentence, the right status, and nothing is printed.
fn refused(arguments: &[&str]) -> String {
    let output = regard(arguments);
    let message = String::from_utf8(output.stderr).expect("text");
    assert!(!message.contains("panicked"), "{arguments:?}: {message}");
    assert!(matches!(output.status.code(), Some(1 | 2)), "{arguments:?}: {:?} {message}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{arguments:?} printed although it failed");
    message
}

fn golden(case: &str) -> String {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/goldens/parity").join(case).join("model");
    path.to_str().expect("a path").into()
}

/// A folder that is removed in the end.
struct Own(PathBuf);

impl Own {
    fn new() -> Own {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("regard-inspect-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Own(path)
    }

    fn at(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().into()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

const FAMILIES: [&str; 8] =
    ["gpt2", "llama", "mingpt", "bert_masked", "bert_classify", "vit", "t5", "transformer"];

#[test]
fn the_examples_of_the_help_work_as_typed() {
    for command in ["prove", "audit", "look", "cost"] {
        let help = printed(&[command, "--help"]);
        let examples: Vec<&str> =
            help.lines().filter_map(|line| line.strip_prefix("Example:  regard ")).collect();
        assert!(!examples.is_empty(), "{command}");
        for example in examples {
            let mut words: Vec<&str> = Vec::new();
            for (i, quoted) in example.split('"').enumerate() {
                match i % 2 {
                    0 => words.extend(quoted.split_whitespace()),
                    _ => words.push(quoted),
                }
            }
            printed(&words);
        }
    }
}

#[test]
fn every_family_keeps_its_promises() {
    for case in FAMILIES {
        let proved = page(&["prove", &golden(case)]);
        assert_eq!(proved["holds"], true, "{case}: {proved}");
        let promised: Vec<&Value> =
            proved["proofs"].as_array().unwrap().iter().filter(|row| row["promised"] == true).collect();
        assert!(!promised.is_empty() && promised.iter().all(|row| row["verdict"] == "holds"), "{case}");
        for row in &promised {
            assert_eq!(row["not_followed"], Value::Array(Vec::new()), "{case}: {row}");
            assert!(row["judged"].as_u64() > Some(0) && row["judged"].as_u64() <= row["values"].as_u64());
        }
        let audited = page(&["audit", &golden(case)]);
        assert_eq!(audited["holds"], true, "{case}: {audited}");
        let checks = audited["checks"].as_array().unwrap();
        assert!(checks.iter().filter(|row| row["verdict"] == "holds").count() >= 5, "{case}: {audited}");
    }
    let decoder = page(&["prove", &golden("gpt2"), "--lengths", "7"]);
    assert_eq!((&decoder["look_ahead"], &decoder["lengths"]), (&0.into(), &vec![7].into()));
    let encoder = page(&["prove", &golden("bert_masked"), "--lengths", "7"]);
    assert_eq!(encoder["look_ahead"], 6, "an encoder needs all of its text");
    let causal = encoder["proofs"].as_array().unwrap().iter().find(|row| row["title"] == "causal").unwrap();
    assert_eq!((&causal["promised"], &causal["holds"]), (&false.into(), &false.into()));
    assert_eq!(causal["guilty"]["node"], "block.0.attention.attention");
    let text = printed(&["prove", &golden("t5"), "--lengths", "6"]);
    let words = ["encoder: sees both ways", "decoder: causal", "cross: sees the source", "Look-ahead 0"];
    for words in words.into_iter().chain(["at 6 positions; judged 65 of 65 values"]) {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn heads_are_seen_in_numbers_pictures_and_pages() {
    let own = Own::new();
    let (png, html) = (own.at("a.png"), own.at("a.html"));
    let ids = ["--ids", "1 2 3 1 2 3"];
    let seen = page(
        &[&["look", &golden("gpt2"), "--rows", "5", "--topk", "2", "--png", &png, "--html", &html], &ids[..]]
            .concat(),
    );
    let heads = seen["heads"].as_array().unwrap();
    assert!(!heads.is_empty());
    for head in heads {
        let rows = head["weights"].as_array().unwrap();
        assert_eq!(rows.len(), 6);
        for (t, row) in rows.iter().enumerate() {
            let row: Vec<f64> = row.as_array().unwrap().iter().map(|w| w.as_f64().unwrap()).collect();
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-5);
            assert!(row[t + 1..].iter().all(|&w| w == 0.0), "a decoder looks at nothing ahead");
        }
        assert_eq!(head["top"][0]["top"].as_array().unwrap().len(), 2);
        assert!(head["copy"].as_f64().is_some(), "the text repeats itself");
    }
    assert!(fs::read(&png).unwrap().starts_with(b"\x89PNG"));
    let html = fs::read_to_string(&html).unwrap();
    assert_eq!(html.matches("<svg ").count(), heads.len());
    assert_eq!(regard_picture::check::fault(&html), None);
    assert!(html.contains("width=device-width") && !html.contains("http"), "everything is inside");
    let text = printed(&["look", &golden("gpt2"), "--ids", "1 2 3", "--layer", "1", "--head", "0"]);
    assert!(text.contains("block.1.attention, head 0: rows ask") && text.contains("|██    |"), "{text}");
    let cross = page(&[
        "look",
        &golden("t5"),
        "--ids",
        "5 6 7 8",
        "--targets",
        "0 3",
        "--layer",
        "decoder.block.0.cross",
    ]);
    assert!(cross["heads"].as_array().unwrap().iter().all(|head| head["cross"] == true && head["keys"] == 4));
}

#[test]
fn a_head_says_what_it_said_in_another_text() {
    let ask = |from: &str| {
        page(&["look", &golden("gpt2"), "--ids", "1 2 3 4", "--patch", "block.0.head.1", "--from-ids", from])
    };
    let same = ask("1 2 3 4");
    assert_eq!((&same["patch"]["same"], &same["patch"]["divergence"]["mean"]), (&true.into(), &0.0.into()));
    let other = ask("4 3 2 1");
    assert_eq!(other["patch"]["same"], false);
    assert!(other["patch"]["divergence"]["mean"].as_f64().unwrap() > 1e-6, "{}", other["patch"]);
    assert_eq!(other["patch"]["heads"][0], "block.0.head.1");
    assert_eq!(other["without"], Value::Null);
    let text = printed(&[
        "look",
        &golden("t5"),
        "--ids",
        "5 6 7",
        "--patch",
        "decoder.block.0.cross.head.0",
        "--from-ids",
        "7 6 5",
    ]);
    assert!(text.contains("With decoder.block.0.cross.head.0 from \"7 6 5\""), "{text}");
}

#[test]
fn a_tap_is_what_it_was_in_another_text() {
    for tap in ["block.0.attention.value", "block.0.attention.pattern", "block.1.feed_forward.added"] {
        let ask = |from: &str| {
            page(&["look", &golden("gpt2"), "--ids", "1 2 3 4", "--patch", tap, "--from-ids", from])
        };
        let same = ask("1 2 3 4")["patch"]["divergence"]["mean"].as_f64().unwrap();
        assert!(same < 1e-9, "{tap}: {same}");
        let other = ask("4 3 2 1");
        assert!(other["patch"]["divergence"]["mean"].as_f64().unwrap() > 1e-6, "{}", other["patch"]);
        let without = page(&["look", &golden("gpt2"), "--ids", "1 2 3 4", "--without", tap]);
        assert_eq!(without["without"]["same"], false);
    }
}

#[test]
fn a_head_that_is_left_out_is_missed() {
    let changed = page(&["look", &golden("gpt2"), "--ids", "1 2 3 4", "--without", "block.0.head.1"]);
    let change = &changed["without"];
    assert!(change["divergence"]["last"].as_f64().unwrap() > 0.0, "{change}");
    assert_ne!(change["loss"]["before"], change["loss"]["after"]);
    assert_eq!(change["top"]["before"].as_array().unwrap().len(), 5);
    let plain = page(&[
        "look",
        &golden("bert_classify"),
        "--ids",
        "1 2 3 4",
        "--without",
        "block.0.attention.head.1",
    ]);
    assert!(plain["without"]["loss"].is_null(), "an encoder has no next token");
}

#[test]
fn costs_are_counted_and_measured() {
    let cost = page(&["cost", &golden("gpt2"), "--tokens", "12", "--batch", "2", "--measure"]);
    assert!(cost["predicted_ms"].as_f64().unwrap() > 0.0 && cost["measured_ms"].as_f64().unwrap() > 0.0);
    let sum = |list: &Value, what: &str| -> f64 {
        list.as_array().unwrap().iter().map(|part| part[what].as_f64().unwrap()).sum()
    };
    for what in ["multiply_adds", "bytes"] {
        assert_eq!(sum(&cost["parts"], what), sum(&cost["ops"], what), "{what} by part and by op");
    }
    let described = page(&["describe", &golden("gpt2"), "--tokens", "12", "--batch", "2"]);
    assert_eq!(sum(&cost["ops"], "multiply_adds"), described["cost"]["multiply_adds"].as_f64().unwrap());
    assert_eq!(cost["memory"]["total"], described["memory"]["total"]);
    // Width 24, hidden 96: projections are 4d² and the feed-forward part 8d², so attention passes them at 2d
    // and 6d keys.
    let config: Value =
        serde_json::from_str(&fs::read_to_string(format!("{}/config.json", golden("gpt2"))).unwrap())
            .unwrap();
    let width = config["n_embd"].as_f64().unwrap();
    assert_eq!(cost["crossovers"]["projections"].as_f64().unwrap(), 2.0 * width);
    let trained = page(&["cost", &golden("bert_masked"), "--tokens", "8", "--train"]);
    let described = page(&["describe", &golden("bert_masked"), "--tokens", "8"]);
    let pass = described["cost"]["multiply_adds"].as_f64().unwrap();
    assert!(sum(&trained["ops"], "multiply_adds") > 2.0 * pass, "backward is twice a pass");
}

#[test]
fn slips_are_met_with_a_sentence() {
    let (gpt, vit, bert, t5) = (golden("gpt2"), golden("vit"), golden("bert_masked"), golden("t5"));
    for command in ["prove", "audit", "look", "cost"] {
        let message = refused(&[command, "no/such/folder/here"]);
        assert!(message.contains("no/such/folder/here"), "{command}: {message}");
        assert!(refused(&[command, &gpt, "--lenghts", "3"]).contains("unexpected argument"), "{command}");
    }
    for (arguments, words) in [
        (vec!["prove", &gpt, "--lengths", "1"], "--lengths 1: choose between 2 and 19"),
        (vec!["prove", &gpt, "--lengths", "20"], "--lengths 20: choose between 2 and 19"),
        (vec!["prove", &gpt, "--lengths", "x"], "invalid value 'x'"),
        (vec!["prove", &vit, "--lengths", "5"], "--lengths: this is a model of images"),
        (vec!["audit", &gpt, "--ids", "1"], "the text has 1 tokens; give it at least 2"),
        (vec!["audit", &gpt, "--ids", "1 99"], "--ids: 99 is no token of this model, which knows 0 to 60"),
        (vec!["audit", &gpt, "--ids", "1 two"], "--ids: `two` is no id"),
        (vec!["audit", &gpt, "--text", "hello there"], "no tokenizer"),
        (vec!["audit", &vit, "--ids", "1 2"], "this is a model of images"),
        (vec!["look", &gpt], "nothing to look at: give --text, or --ids"),
        (vec!["look", &gpt, "--ids", "1 2", "--layer", "7"], "no attention is called `block.7`"),
        (
            vec!["look", &gpt, "--ids", "1 2", "--layer", "blok.0"],
            "no attention is called `blok.0`; there are `block.0.attention`",
        ),
        (vec!["look", &gpt, "--ids", "1 2", "--head", "9"], "--head 9: the heads are 0 to"),
        (
            vec!["look", &gpt, "--ids", "1 2", "--rows", "2"],
            "--rows: there is no position 2; they are 0 to 1",
        ),
        (
            vec!["look", &gpt, "--ids", "1 2", "--without", "block.0"],
            "no head or tap is called `block.0`; there are `embedding`, `block.0.attention.norm`",
        ),
        (
            vec!["look", &gpt, "--ids", "1 2", "--without", "block.0.head.9"],
            "`block.0.attention` has no head 9",
        ),
        (
            vec!["look", &gpt, "--ids", "1 2", "--patch", "block.0.head.1", "--from-ids", "1 2 3"],
            "--from-ids: 3 tokens, and the text looked at has 2; heads are taken position by position, so give a text of as \
             many tokens",
        ),
        (
            vec!["look", &gpt, "--ids", "1 2", "--patch", "block.0.head.1"],
            "--patch: what is taken comes from a run on another text; give it by --from-text or --from-ids",
        ),
        (
            vec!["look", &gpt, "--ids", "1 2", "--patch", "block.0.head.9", "--from-ids", "1 2"],
            "`block.0.attention` has no head 9",
        ),
        (vec!["look", &gpt, "--ids", "1 2", "--from-ids", "1 2"], "--patch <NAME>"),
        (
            vec!["look", &gpt, "--ids", "1 2", "--patch", "block.0.head.1", "--from-ids", "1 99"],
            "--from-ids: 99 is no token of this model",
        ),
        (vec!["look", &gpt, "--ids", "1 2", "--topk", "0"], "--topk 0: choose at least 1"),
        (
            vec!["look", &gpt, "--ids", "1 2", "--targets", "0"],
            "only an encoder-decoder has one; this is a decoder",
        ),
        (vec!["look", &gpt, "--ids", ""], "--ids: no token; give at least one"),
        (vec!["look", &t5, "--ids", "1 2", "--targets", "-4"], "--targets: -4 is no token of this model"),
        (vec!["look", &vit], "this is a model of images; give it --pixels FILE"),
        (vec!["look", &bert, "--pixels", "x.safetensors"], "--pixels: this is an encoder of text"),
        (vec!["look", &gpt, "--ids", "1 2", "--png", "no/such/place/a.png"], "no/such/place"),
        (vec!["cost", &gpt, "--tokens", "0"], "--tokens 0: choose between 1 and 19"),
        (vec!["cost", &gpt, "--tokens", "2000"], "--tokens 2000: choose between 1 and 19"),
        (vec!["cost", &gpt, "--batch", "0"], "--batch 0: an empty pass has no cost"),
        (vec!["cost", &vit, "--tokens", "4"], "--tokens: this is a model of images"),
    ] {
        let message = refused(&arguments);
        assert!(message.contains(words), "{arguments:?}: {message}");
    }
}

/// A model with a number that is none answers nonsense in all ways alike, and is not sound for that.
#[test]
fn numbers_that_are_none_are_named() {
    let own = Own::new();
    let from = PathBuf::from(golden("gpt2"));
    fs::copy(from.join("config.json"), own.0.join("config.json")).unwrap();
    let checkpoint = Checkpoint::open(&from).unwrap();
    let tensors: Vec<(String, Vec<usize>, Vec<f32>)> = checkpoint
        .tensors()
        .map(|tensor| {
            let mut numbers = tensor.f32s();
            if tensor.name == "transformer.h.1.mlp.c_fc.weight" {
                numbers[tensor.shape[1] + 2] = f32::NAN;
            }
            (tensor.name.into(), tensor.shape.to_vec(), numbers)
        })
        .collect();
    let saves: Vec<Save> =
        tensors.iter().map(|(name, shape, numbers)| Save { name, shape, data: Data::F32(numbers) }).collect();
    save_folder(&own.0, &saves, &SaveOptions::default()).unwrap();
    let path = own.0.to_str().unwrap();
    let weight = "`transformer.h.1.mlp.c_fc.weight` is NaN at [1, 2], the only number that is not finite";

    let audit = regard(&["audit", path]);
    let message = String::from_utf8(audit.stdout).unwrap();
    assert_eq!(audit.status.code(), Some(1), "{message}");
    let row = |title: &str| message.lines().find(|line| line.trim().starts_with(title)).unwrap().to_owned();
    assert!(row("finite weights").contains("BROKEN") && row("finite weights").contains(weight), "{message}");
    let values = row("finite values");
    assert!(
        values.contains("BROKEN") && values.contains("`block.1."),
        "the first place is in block 1: {values}"
    );

    let text = own.0.join("text.txt");
    fs::write(&text, "some words").unwrap();
    let out = own.0.join("out");
    let commands: [(&[&str], &str); 2] = [
        (&["describe", path, "--json"], "the model is not sound: "),
        (
            &["forward", path, "--ids", "1 2 3", "--out", out.to_str().unwrap(), "--json"],
            "what the model gave is not sound: ",
        ),
    ];
    for (command, beginning) in commands {
        let output = regard(command);
        let warned = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.success() && warned.starts_with(&format!("regard: WARNING: {beginning}`")),
            "{warned}"
        );
        let page: Value = serde_json::from_slice(&output.stdout).unwrap();
        let found = page["not_finite"].as_str().or(page["weights"]["not_finite"].as_str()).unwrap();
        assert!(found.contains("not finite"), "{found}");
    }
    // A sound one says nothing of it.
    assert_eq!(page(&["describe", &golden("gpt2")])["weights"]["not_finite"], Value::Null);
}
