//! The examples of `--help` work as they are typed at the root of the repository. Here its folders are linked
//! into a scratch, so that nothing is written there, and small runs stand for the trained ones that some of
//! them begin with.

use super::scratch::{Scratch, classify};
use std::os::unix::fs::symlink;
use std::path::Path;

/// Commands whose examples begin with a run or with files of the repository; those that take minutes have
/// tests of their own.
const COMMANDS: [&[&str]; 23] = [
    &["data"],
    &["data", "generate"],
    &["data", "inspect"],
    &["data", "learn"],
    &["data", "tokenize"],
    &["data", "batches"],
    &["describe"],
    &["forward"],
    &["import"],
    &["export"],
    &["prove"],
    &["audit"],
    &["look"],
    &["cost"],
    &["generate"],
    &["translate"],
    &["embed"],
    &["evaluate"],
    &["classify"],
    &["runs"],
    &["train"],
    &["index"],
    &["trace"],
];

/// The words of a line as a shell splits them.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (i, part) in line.split('"').enumerate() {
        match i % 2 {
            0 => words.extend(part.split_whitespace().map(String::from)),
            _ => words.push(part.into()),
        }
    }
    words
}

/// The examples in a help text: the line that says so, and those that begin with the command below it.
fn examples(help: &str) -> Vec<String> {
    let from = help.lines().skip_while(|line| !line.starts_with("Example"));
    let named = from.filter_map(|line| line.split_once("  regard ").map(|(_, rest)| rest.to_string()));
    named.collect()
}

fn small(scratch: &Scratch) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    for name in ["crates", "recipes", "README.md"] {
        symlink(root.join(name), scratch.path(name)).unwrap();
    }
    scratch.page(&["train", "tiny.toml", "train.epochs=1", "--out", "runs/sentiment"]);
    scratch.write("text.txt", "ROMEO: the cat sat on the mat.\n".repeat(40));
    let language = "[data]\ntrain = [\"text.txt\"]\n[model]\nlayers = 1\nheads = 2\nwidth = 16\ncontext = 16\n\
                    [train]\nsteps = 2\nbatch = 4\n";
    scratch.write("language.toml", language);
    for run in ["runs/shakespeare", "runs/first", "runs/second"] {
        scratch.page(&["train", "language.toml", "--out", run]);
    }
    scratch.write("a.de", "Ein Hund läuft durch das Gras.\nEine Katze sitzt.\n".repeat(8));
    scratch.write("a.en", "A dog runs through the grass.\nA cat sits.\n".repeat(8));
    let translate = "task = \"translate\"\n[data]\nkind = \"pairs\"\ntrain = [\"a.de\"]\ntrain_target = [\"a.en\"]\n\
                     [tokenizer]\nkind = \"bpe\"\nvocabulary = 300\n[model]\nfamily = \"transformer\"\nlayers = 1\n\
                     heads = 2\nwidth = 16\n[train]\nsteps = 2\nbatch = 4\n";
    scratch.write("translate.toml", translate);
    scratch.page(&["train", "translate.toml", "--out", "runs/translate"]);
}

#[test]
fn the_examples_of_the_help_work_as_typed() {
    let scratch = classify("examples");
    small(&scratch);
    for command in COMMANDS {
        let examples = examples(&scratch.printed(&[command, &["--help"]].concat()));
        assert!(!examples.is_empty(), "{command:?} has no example");
        for example in examples {
            let mut words = words(&example);
            // A model that talks is made in tests/chat.rs.
            if words.iter().any(|word| word == "--chat") {
                continue;
            }
            // The real study belongs to a card.
            if words.get(1).is_some_and(|word| word.starts_with("studies/")) {
                continue;
            }
            if words[0] == "train" {
                // Of the real sizes it would take a minute; a run that is to be resumed is there already.
                match words[1].as_str() {
                    "--resume" => {}
                    "recipes/birth_places.toml" => continue,
                    _ => words.extend(
                        ["model.width=16", "train.steps=2", "--out", "runs/readme"].map(String::from),
                    ),
                }
            }
            scratch.printed(&words.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }
}
