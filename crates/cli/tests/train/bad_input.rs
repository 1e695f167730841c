//! Everything that a person can get wrong on the way to a trained model is met with a sentence that says what
//! to do, and nothing is left behind.

use super::scratch::{CLASSIFY, classify, language, sentences};

/// Arguments of `regard train` in a folder of examples, and how what it says begins.
const REFUSED: &[(&[&str], &str)] = &[
    (&["tiny.toml", "data.train=empty.txt"], "empty.txt: is empty; copy or download it again"),
    (
        &["tiny.toml", "data.train=one.txt"],
        "a text of 2 characters cannot be divided by data.hold_out = 0.1; give a longer text, or files to examine \
         with: data.evaluate=my.txt",
    ),
    (&["tiny.toml", "data.train=latin.txt"], "latin.txt:1: is not UTF-8: byte 3 of the line is 0xef"),
    (&["tiny.toml", "data.train=txt.text"], "cannot open txt.text: No such file"),
    (&["tiny.toml", "data.train=[]"], "data.train names no file; give the training files"),
    (
        &["tiny.toml", "model.wdith=8"],
        "model.wdith=8: there is no key `wdith` in [model]; did you mean `width`?",
    ),
    (&["empty.toml"], "data.train names no file; give the training files"),
    (&["none.toml"], "cannot read none.toml: No such file"),
    (&["."], "cannot read .: Is a directory"),
    (&["text.txt"], "text.txt:1: "),
    (&["classes.toml", "data.train=empty.txt"], "empty.txt: is empty; copy or download it again"),
    (&["classes.toml", "data.train=single.tsv"], "single.tsv: column `1`: all labels are `kind`"),
    (&["classes.toml", "data.train=latin.tsv"], "latin.tsv:2: is not UTF-8: byte 3 of the line is 0xef"),
    (
        &[
            "classes.toml",
            "data.train=two.tsv",
            "data.columns=[\"sentence\", \"label\"]",
            "data.evaluate=strange.tsv",
        ],
        "strange.tsv",
    ),
    (&["tiny.toml", "data.pad_to=8"], "data.pad_to is 8, and the data are no biographies; leave it out"),
    (
        &["tiny.toml", "data.kind=biographies", "data.train=[]", "data.hold_out=0.0", "data.pad_to=17"],
        "data.pad_to is 17, and the model has room for 16 tokens; give it at most as many",
    ),
    (
        &["tiny.toml", "stage.a.train.steps=1"],
        "stage.a.train.steps=1: this recipe has no stages; leave the stage out",
    ),
    (&["typo.toml"], "typo.toml:2: there is no key `learning` in [train]; "),
    (
        &["tiny.toml", "model.patch=2"],
        "a model of the family `gpt` has no `patch`; leave model.patch out; it has ",
    ),
    (
        &["tiny.toml", "model.family=vit"],
        "the task `language` with a model of the family `vit`; give model.family = \"gpt\"",
    ),
    (
        &["tiny.toml", "data.kind=pairs"],
        "the task `language` with data of the kind `pairs`; give data.kind = \"text\" or \"biographies\"",
    ),
    (&["tiny.toml", "model.width=15"], "gpt: a width of 15 cannot be shared by 2 heads"),
    (&["tiny.toml", "model.vocabulary=3"], "model.vocabulary is 3, and the tokenizer has "),
    (
        &["tiny.toml", "tokenizer.kind=file"],
        "tokenizer.kind is file, and no file is named; give tokenizer.path",
    ),
    (
        &["tiny.toml", "tokenizer.lowercase=true"],
        "tokenizer.lowercase is true, and the kind is not wordpiece; ",
    ),
    (&["classes.toml", "data.train=column.tsv"], "column.tsv:2: has 1 columns, expected 2 as in line 1; "),
    (
        &["classes.toml", "data.train=same.tsv"],
        "same.tsv: column `1`: all labels are `kind`, expected at least two",
    ),
    (
        &["classes.toml", "data.train=two.tsv", "data.columns=[\"text\", \"label\"]"],
        "no column is called `text`; two.tsv has `sentence`, `label`",
    ),
    (
        &["classes.toml", "data.train=two.tsv", "data.columns=[\"text\"]"],
        "data.columns has 1 names; give two",
    ),
    (
        &["classes.toml", "data.train=two.tsv"],
        "two.tsv:1: is a header, it seems: `sentence` and `label`; name its columns: data.columns = [\"sentence\", \
         \"label\"]; if it is an example after all, write a header above it and name that",
    ),
    (
        &["classes.toml", "data.train=graded.csv"],
        "graded.csv:1: is a header, it seems: `phrase` and `grade`; name its columns",
    ),
    (
        &["classes.toml", "data.train=named.jsonl"],
        "named.jsonl: its cells have names and no order, and which of `kind`, `words` is the text and which its class \
         is not said; name them: data.columns = [\"text\", \"label\"]",
    ),
    (
        &[
            "classes.toml",
            "data.train=two.tsv",
            "data.columns=[\"sentence\", \"label\"]",
            "from.model=nowhere",
        ],
        "no model is called `nowhere`; ",
    ),
    (&["tiny.toml", "--out", "text.txt/run"], "cannot make text.txt/run: Not a directory"),
];

#[test]
fn what_cannot_be_trained_is_said_before_anything_is_written() {
    let scratch = language("nonsense");
    scratch.write("empty.txt", "");
    scratch.write("one.txt", "a\n");
    scratch.write("latin.txt", b"na\xefve\n");
    scratch.write("column.tsv", "good\tkind\nbad\n");
    scratch.write("same.tsv", "good\tkind\nbetter\tkind\n");
    scratch.write("two.tsv", "sentence\tlabel\ngood\tkind\nbad\tharsh\n");
    scratch.write("classes.toml", CLASSIFY.replace("evaluate = [\"dev.tsv\"]\nhold_out = 0.2\n", ""));
    scratch.write("typo.toml", "[train]\nlearning = 1\n");
    scratch.write("empty.toml", "");
    scratch.write("strange.tsv", "odd\tstrange\n");
    scratch.write("latin.tsv", b"good\tkind\nna\xefve\tharsh\n");
    scratch.write("single.tsv", "good\tkind\n");
    scratch.write("graded.csv", "phrase,grade\ngood,1\nbad,0\nfine,1\n");
    scratch.write(
        "named.jsonl",
        "{\"kind\": \"a\", \"words\": \"good\"}\n{\"kind\": \"b\", \"words\": \"bad\"}\n",
    );
    for (arguments, expected) in REFUSED {
        let message = scratch.refused(&[&["train"], *arguments].concat());
        assert!(message.starts_with(&format!("regard: {expected}")), "{arguments:?}: {message}");
        assert!(!scratch.path("runs").exists(), "{arguments:?} left something behind");
    }
    let message = scratch.refused(&["train", "--resume", "runs/none"]);
    assert!(message.contains("runs/none: there is no such folder; name the folder of a run"), "{message}");
    let message = scratch.refused(&["evaluate", "runs/none"]);
    assert!(message.starts_with("regard: "), "{message}");
    // Texts that are too long are cut, and that is said.
    scratch.write("long.tsv", format!("{}\tkind\nbad\tharsh\n", "very ".repeat(40)));
    let output = scratch.regard(&["train", "classes.toml", "data.train=long.tsv", "train.epochs=1"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{message}");
    assert!(message.contains("1 texts are longer than the model has room for, and are cut"), "{message}");
    let message = scratch.refused(&["evaluate", "runs/classes"]);
    assert_eq!(
        message,
        "regard: the recipe of this run has no data to examine with; give --data with files\n"
    );
}

/// Rows of JSON have no order of their own: whichever cell stands first, the text is the text.
#[test]
fn texts_and_classes_are_told_by_their_names() {
    let scratch = classify("named");
    for (name, text, label) in
        [("first", "text", "label"), ("second", "utterance", "intent"), ("third", "z", "a")]
    {
        let rows = sentences(0, 60);
        let rows = rows.lines().map(|line| {
            let (sentence, class) = line.split_once('\t').unwrap();
            format!("{{\"{label}\": \"{class}\", \"{text}\": \"{sentence}\", \"id\": 7}}\n")
        });
        scratch.write(&format!("{name}.jsonl"), rows.collect::<String>());
        let (train, columns) =
            (format!("data.train={name}.jsonl"), format!("data.columns=[\"{text}\", \"{label}\"]"));
        let mut arguments =
            vec!["train", "tiny.toml", &train, "data.evaluate=[]", "train.epochs=1", "--out", name];
        if name == "third" {
            arguments.push(&columns);
        }
        scratch.printed(&arguments);
        let config = std::fs::read_to_string(scratch.path(name).join("model/config.json")).unwrap();
        let config: serde_json::Value = serde_json::from_str(&config).unwrap();
        assert_eq!(config["id2label"], serde_json::json!({"0": "harsh", "1": "kind"}), "{name}");
    }
}

#[test]
fn a_run_that_cannot_be_used_says_why() {
    let scratch = classify("unused");
    scratch.page(&["train", "tiny.toml", "train.epochs=1"]);
    scratch.write("strange.tsv", "the film was odd\tstrange\n");
    let message = scratch.refused(&["evaluate", "runs/tiny", "--data", "strange.tsv"]);
    assert!(
        message.starts_with("regard: strange.tsv:1: no label of the training set is called `strange`"),
        "{message}"
    );
    let message = scratch.refused(&["train", "tiny.toml"]);
    assert!(message.starts_with("regard: runs/tiny has a run already; go on with it by "), "{message}");
    // Without its exported model a run is not one that could be looked into, and every command says the same.
    std::fs::remove_file(scratch.path("runs/tiny/model/model.safetensors")).unwrap();
    let commands: &[&[&str]] = &[
        &["forward", "runs/tiny", "--text", "good", "--out", "out.safetensors"],
        &["export", "runs/tiny", "elsewhere"],
        &["describe", "runs/tiny"],
        &["audit", "runs/tiny", "--text", "good"],
        &["prove", "runs/tiny"],
        &["cost", "runs/tiny"],
        &["look", "runs/tiny", "--text", "good"],
        &["classify", "runs/tiny", "--text", "good"],
    ];
    for command in commands {
        let message = scratch.refused(command);
        assert_eq!(
            message,
            "regard: runs/tiny is a run without a trained model yet; let it come to its end: regard train --resume \
             runs/tiny; or take the weights that it has: --checkpoint last\n",
            "{command:?}"
        );
    }
    // Its tokenizer is there from the first step on.
    assert!(scratch.printed(&["data", "tokenize", "runs/tiny", "--text", "good"]).contains("known ones"));
    let message = scratch.refused(&["data", "tokenize", "runs/none", "--text", "good"]);
    assert!(message.starts_with("regard: no model is called `runs/none`; "), "{message}");
    let batches =
        |more: &[&str]| scratch.refused(&[&["data", "batches", "tiny.toml", "--out", "b.st"], more].concat());
    assert_eq!(batches(&["--count", "0"]), "regard: --count 0: nothing to write; choose at least 1\n");
    let message = batches(&["--stage", "pretrain"]);
    assert!(message.starts_with("regard: no stage is called `pretrain`"), "{message}");
}
