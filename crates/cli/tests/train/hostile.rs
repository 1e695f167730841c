//! Names that are no text, files that are written and read at once, numbers that are none or beyond all
//! bounds: each is met with a sentence, nothing is lost, and nothing is left behind.

use super::scratch::{classify, language};
use std::fs;
use std::process::Output;
use std::time::{Duration, Instant};

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[cfg(unix)]
#[test]
fn a_path_need_not_be_text() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let scratch = classify("bytes");
    let name = OsStr::from_bytes(b"r\xff");
    let run = |arguments: &[&str], path: &OsStr| {
        let output = scratch.command(arguments).arg(path).arg("--json").output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("JSON")
    };
    let page = run(&["train", "tiny.toml", "train.epochs=1", "--out"], name);
    assert_eq!(page["run"], "r\u{fffd}");
    assert!(scratch.0.join(name).join("model/model.safetensors").is_file());
    fs::rename(scratch.0.join(name), scratch.path("run")).unwrap();
    assert_eq!(run(&["evaluate", "run", "--predictions"], name)["predictions"], "r\u{fffd}");
    fs::copy(scratch.path("train.tsv"), scratch.0.join(OsStr::from_bytes(b"t\xff.tsv"))).unwrap();
    run(&["data", "inspect"], OsStr::from_bytes(b"t\xff.tsv"));
    run(&["data", "generate"], OsStr::from_bytes(b"g\xff"));
    run(&["data", "learn", "train.tsv", "--kind", "characters", "--out"], OsStr::from_bytes(b"l\xff"));
    run(&["data", "batches", "tiny.toml", "--out"], OsStr::from_bytes(b"b\xff"));
    run(&["runs"], OsStr::new("."));
    // A model is named by text.
    let output = scratch.command(&["describe"]).arg(name).output().unwrap();
    assert!(stderr(&output).contains("invalid UTF-8"), "{}", stderr(&output));
}

#[test]
fn what_is_read_is_not_written_over() {
    let scratch = classify("over");
    scratch.printed(&["train", "tiny.toml", "train.epochs=1"]);
    let refused = |arguments: &[&str], expected: &str| {
        let message = scratch.refused(arguments);
        assert!(message.starts_with(&format!("regard: {expected}")), "{arguments:?}: {message}");
    };
    let before = fs::read(scratch.path("dev.tsv")).unwrap();
    let read = "is read by the same command; name another file";
    let model = "runs/tiny/model/model.safetensors";
    for data in [&["--data", "dev.tsv"][..], &[]] {
        let evaluate = [&["evaluate", "runs/tiny", "--predictions", "./dev.tsv", "--replace"], data].concat();
        refused(&evaluate, &format!("--predictions ./dev.tsv: {read}"));
    }
    refused(
        &["evaluate", "runs/tiny", "--predictions", model, "--replace"],
        &format!("--predictions {model}: {read}"),
    );
    refused(
        &["forward", "runs/tiny", "--text", "good", "--out", model, "--replace"],
        &format!("--out {model}: {read}"),
    );
    refused(
        &["data", "learn", "train.tsv", "--out", "train.tsv", "--replace"],
        &format!("--out train.tsv: {read}"),
    );
    refused(
        &["data", "batches", "tiny.toml", "--out", "dev.tsv", "--replace"],
        &format!("--out dev.tsv: {read}"),
    );
    refused(
        &["look", "runs/tiny", "--text", "good film", "--html", "x", "--png", "./x"],
        "--html and --png both name ./x; give each a file of its own",
    );
    assert!(fs::read(scratch.path("dev.tsv")).unwrap() == before && !scratch.path("x").exists());

    // What is there stays, unless it may go.
    scratch.write("there", "there");
    let there = "there: is there already; name another file, or add --replace";
    let commands: &[(&[&str], &str)] = &[
        (&["evaluate", "runs/tiny", "--predictions", "there"], "--predictions"),
        (&["forward", "runs/tiny", "--text", "good", "--out", "there"], "--out"),
        (&["data", "learn", "train.tsv", "--kind", "characters", "--out", "there"], "--out"),
        (&["data", "batches", "tiny.toml", "--out", "there"], "--out"),
        (&["look", "runs/tiny", "--text", "good film", "--html", "there"], "--html"),
        (&["look", "runs/tiny", "--text", "good film", "--png", "there"], "--png"),
    ];
    for (command, option) in commands {
        scratch.write("there", "there");
        refused(command, &format!("{option} {there}"));
        assert_eq!(fs::read(scratch.path("there")).unwrap(), b"there");
        scratch.printed(&[command, &["--replace"][..]].concat());
        assert_ne!(fs::read(scratch.path("there")).unwrap(), b"there");
    }
}

/// Numbers that are none, and numbers that no machine has room for, are refused at once, and no folder is
/// left behind.
#[test]
fn numbers_without_sense_or_bounds_are_refused_at_once() {
    let scratch = language("bounds");
    let most = i64::MAX.to_string();
    let began = Instant::now();
    for key in [
        "train.lr=nan",
        "train.lr=inf",
        "train.dropout=nan",
        "train.clip=nan",
        "train.weight_decay=nan",
        "train.label_smoothing=nan",
        "data.hold_out=nan",
        "model.std=nan",
    ] {
        let message = scratch.refused(&["train", "tiny.toml", key]);
        assert!(!scratch.path("runs").exists(), "{key} left something behind: {message}");
    }
    for key in [
        "train.batch",
        "train.micro_batch",
        "model.width",
        "model.heads",
        "model.hidden",
        "model.layers",
        "model.context",
        "model.vocabulary",
        "evaluate.beams",
        "tokenizer.kind=bpe tokenizer.vocabulary",
    ] {
        for number in [most.as_str(), "1000000000000", "4000000000", "1000000000"] {
            let given = format!("{key}={number}");
            let message = scratch
                .refused(&[&["train", "tiny.toml"], &given.split(' ').collect::<Vec<_>>()[..]].concat());
            assert!(
                message.lines().last().is_some_and(|line| line.starts_with("regard: ")),
                "{key}={number}: {message}"
            );
            assert!(!scratch.path("runs").exists(), "{key}={number} left something behind: {message}");
        }
    }
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

/// A tokenizer at which the package that reads it panics is an error in a sentence, and nothing else is
/// printed.
#[test]
fn a_tokenizer_that_breaks_its_reader_is_a_sentence() {
    let scratch = language("broken-tokenizer");
    scratch.page(&["train", "tiny.toml", "train.steps=2"]);
    // The template names a token of which the file says nothing.
    let template = r#"{"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}}], "pair": [{"Sequence": {"id": "A", "type_id": 0}},
        {"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": {}}"#;
    let model = r#"{"type": "WordLevel", "vocab": {"the": 0, "[UNK]": 1}, "unk_token": "[UNK]"}"#;
    let text = format!(
        r#"{{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {{"type": "Whitespace"}}, "post_processor": {template}, "decoder": null, "model": {model}}}"#
    );
    fs::write(scratch.path("runs/tiny/model/tokenizer.json"), text).unwrap();
    let message = scratch.refused(&["generate", "runs/tiny/model", "--prompt", "the", "--max", "2"]);
    assert!(message.contains("tokenizer"), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
}
