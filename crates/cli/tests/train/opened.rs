//! What a name leads to: runs that are finished, runs that are not, their checkpoints, models, and what is
//! not there; and that `translate` and `evaluate` end alike.

use super::scratch::{Scratch, classify, language, metric};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;

#[test]
fn a_run_is_opened_at_its_best_at_its_last_and_unfinished() {
    let scratch = language("opened");
    scratch.page(&["train", "tiny.toml"]);
    let loss = |more: &[&str]| metric(&scratch.page(&[&["evaluate", "runs/tiny"], more].concat()), "loss");
    // What was exported is the best.
    let best = loss(&[]);
    assert_eq!(loss(&["--checkpoint", "best"]), best);
    let last = loss(&["--checkpoint", "last"]);
    assert!(last.is_finite());

    // As if it had not come to its end: what was exported is not there.
    fs::remove_file(scratch.path("runs/tiny/model/model.safetensors")).unwrap();
    let message = scratch.refused(&["generate", "runs/tiny", "--prompt", "the"]);
    assert_eq!(
        message,
        "regard: runs/tiny is a run without a trained model yet; let it come to its end: regard train --resume runs/tiny; \
         or take the weights that it has: --checkpoint last\n"
    );
    assert_eq!((loss(&["--checkpoint", "best"]), loss(&["--checkpoint", "last"])), (best, last));
    for which in ["best", "last"] {
        let text = scratch.printed(&[
            "generate",
            "runs/tiny",
            "--prompt",
            "the ",
            "--max",
            "5",
            "--checkpoint",
            which,
        ]);
        assert!(text.starts_with("the "), "{text}");
        let page = scratch.page(&[
            "forward",
            "runs/tiny",
            "--text",
            "the",
            "--out",
            "x.safetensors",
            "--replace",
            "--checkpoint",
            which,
        ]);
        assert_eq!(page["family"], "regard-gpt");
        for command in ["describe", "prove", "audit", "cost"] {
            let message = scratch.printed(&[command, "runs/tiny", "--checkpoint", which]);
            assert!(message.contains("regard-gpt") || command == "cost", "{command}: {message}");
        }
        scratch.printed(&["export", "runs/tiny", which, "--checkpoint", which]);
        let exported = scratch.page(&["evaluate", which, "--data", "text.txt", "--batch", "8"]);
        let own = scratch.page(&[
            "evaluate",
            "runs/tiny",
            "--data",
            "text.txt",
            "--batch",
            "8",
            "--checkpoint",
            which,
        ]);
        assert_eq!(metric(&exported, "loss"), metric(&own, "loss"));
    }
    let message = scratch.refused(&["generate", "best", "--prompt", "the", "--checkpoint", "best"]);
    assert_eq!(
        message,
        "regard: best is no run, and its best checkpoint was asked for; leave the checkpoint out, or name the folder of a \
         run\n"
    );
    // Without a checkpoint, too.
    fs::remove_dir_all(scratch.path("runs/tiny/checkpoints")).unwrap();
    let message = scratch.refused(&["generate", "runs/tiny", "--prompt", "the", "--checkpoint", "last"]);
    assert_eq!(
        message,
        "regard: runs/tiny is a run without a checkpoint yet; let it go on: regard train --resume runs/tiny\n"
    );
}

#[test]
fn every_command_takes_a_run_and_a_model_and_says_what_is_not_there() {
    let text = language("commands");
    text.page(&["train", "tiny.toml"]);
    let classes = classify("commands-classify");
    classes.page(&["train", "tiny.toml"]);
    let cases: [(&Scratch, &[&str]); 6] = [
        (&text, &["generate", "--prompt", "the ", "--max", "3"]),
        (&text, &["forward", "--text", "the", "--out", "out.safetensors", "--replace"]),
        (&text, &["evaluate", "--data", "text.txt", "--batch", "8"]),
        (&classes, &["classify", "--text", "the film was good"]),
        (&classes, &["embed", "--text", "the film was good"]),
        (&classes, &["evaluate", "--data", "dev.tsv", "--batch", "8"]),
    ];
    for (scratch, command) in cases {
        let on = |model: &'static str| [&command[..1], &[model], &command[1..]].concat();
        let (mut run, mut model) = (scratch.page(&on("runs/tiny")), scratch.page(&on("runs/tiny/model")));
        for page in [&mut run, &mut model] {
            page["tokens_per_second"] = Value::Null;
        }
        assert_eq!(run, model, "{command:?}");
        let message = scratch.refused(&on("runs/tinny"));
        assert!(message.contains("no model is called `runs/tinny`"), "{command:?}: {message}");
    }
    // Those that cannot: what it is, and what is needed.
    for (command, needs) in [
        (["translate", "--text"], "translate needs an encoder-decoder"),
        (["classify", "--text"], "classify needs a classifier"),
        (["embed", "--text"], "embed needs an encoder of text"),
    ] {
        let message = text.refused(&[command[0], "runs/tiny", command[1], "a"]);
        assert!(message.contains(&format!("runs/tiny is a decoder (regard-gpt); {needs}")), "{message}");
    }
    let message = classes.refused(&["ask", "runs/tiny", "Where?"]);
    assert!(message.contains("is an encoder of text (regard-bert); ask needs a decoder"), "{message}");
    for command in [["translate", "--text"], ["ask", "--max"]] {
        let message = text.refused(
            &[command[0], "runs/tinny", command[1], "1", "x"][..if command[0] == "ask" { 5 } else { 4 }],
        );
        assert!(message.contains("no model is called `runs/tinny`"), "{message}");
    }
}

/// One folder, one end: what evaluate examines is what translate writes, whatever the files beside the model
/// say.
#[test]
fn translate_and_evaluate_end_alike() {
    let scratch = Scratch::new("ends");
    let words = [("eins", "one"), ("zwei", "two"), ("drei", "three")];
    let (mut source, mut target) = (String::new(), String::new());
    for i in 0..120usize {
        let chosen = [i % 3, i / 3 % 3, i / 9 % 3];
        let side = |pick: fn(&(&'static str, &'static str)) -> &'static str| {
            chosen.iter().map(|&word| pick(&words[word])).collect::<Vec<_>>().join(" ")
        };
        writeln!(source, "{}", side(|pair| pair.0)).unwrap();
        writeln!(target, "{}", side(|pair| pair.1)).unwrap();
    }
    scratch.write("a.de", &source);
    scratch.write("a.en", &target);
    scratch.write(
        "tiny.toml",
        r#"
        task = "translate"
        [data]
        kind = "pairs"
        train = ["a.de"]
        train_target = ["a.en"]
        hold_out = 0.1
        [tokenizer]
        kind = "bpe"
        vocabulary = 280
        [model]
        family = "transformer"
        layers = 1
        heads = 2
        width = 16
        [train]
        steps = 120
        batch = 16
        lr = 5e-3
        dropout = 0.0
        [evaluate]
        beams = 2
        most = 12
        "#,
    );
    scratch.page(&["train", "tiny.toml"]);
    let both = || -> Vec<String> {
        scratch.page(&[
            "evaluate",
            "runs/tiny",
            "--data",
            "a.de",
            "--target",
            "a.en",
            "--predictions",
            "said.tsv",
            "--replace",
        ]);
        let message = fs::read_to_string(scratch.path("said.tsv")).unwrap();
        let examined: Vec<String> =
            message.lines().skip(1).map(|line| line.split('\t').nth(2).unwrap().to_string()).collect();
        let page = scratch.page(&["translate", "runs/tiny", "--file", "a.de", "--beams", "2", "--max", "12"]);
        let written = page["translations"].as_array().unwrap().iter();
        let written: Vec<String> =
            written.map(|one| one["text"].as_str().unwrap().trim().replace(['\n', '\t'], " ")).collect();
        assert_eq!(examined, written);
        written
    };
    let before = both();
    let tokens =
        scratch.page(&["translate", "runs/tiny", "--text", "eins zwei drei", "--beams", "2", "--max", "12"]);
    let ids = tokens["translations"][0]["ids"].as_array().unwrap().clone();
    assert!(ids.len() > 2, "{tokens}");
    // A file that says otherwise, with several ends: the second token that was written is one of them now.
    let config: Value =
        serde_json::from_str(&fs::read_to_string(scratch.path("runs/tiny/model/config.json")).unwrap())
            .unwrap();
    let stop_tokens = json!({"eos_token_id": [config["eos_token_id"], ids[1]]});
    scratch.write("runs/tiny/model/generation_config.json", stop_tokens.to_string());
    let after = both();
    assert_ne!(before, after, "texts end earlier now");
}
