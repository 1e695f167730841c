//! Folders of tests, in which the real command runs, and the recipes and data of a few lines that they begin
//! with.

use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder of a test's own, removed when it ends; commands run in it.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("regard-train-{name}-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.0.join(name), text).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_regard"));
        command.args(arguments).current_dir(&self.0);
        command
    }

    pub fn regard(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the command starts")
    }

    /// What a command that succeeds prints.
    pub fn printed(&self, arguments: &[&str]) -> String {
        let output = self.regard(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    pub fn page(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.printed(&[arguments, &["--json"]].concat())).expect("JSON")
    }

    /// What a command that fails says: on the right stream, with the right status, without a backtrace.
    pub fn refused(&self, arguments: &[&str]) -> String {
        let output = self.regard(arguments);
        let message = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {message}");
        assert!(!message.contains("panicked"), "{arguments:?}: {message}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{arguments:?} printed although it failed");
        message
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A decoder of a few thousand numbers.
pub const LANGUAGE: &str = r#"
task = "language"
[data]
train = ["text.txt"]
hold_out = 0.1
[model]
layers = 1
heads = 2
width = 16
context = 16
[train]
steps = 30
batch = 8
lr = 1e-2
dropout = 0.1
evaluate_every = 10
schedule = "constant"
"#;

/// A classifier of the same size.
pub const CLASSIFY: &str = r#"
task = "classify"
[data]
kind = "classes"
train = ["train.tsv"]
evaluate = ["dev.tsv"]
hold_out = 0.2
[tokenizer]
kind = "wordpiece"
vocabulary = 120
[model]
family = "bert"
layers = 1
heads = 2
width = 16
context = 16
[train]
epochs = 12
batch = 8
lr = 1e-2
dropout = 0.0
"#;

/// Such a recipe with its text.
pub fn language(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    scratch.write("text.txt", "the cat sat on the mat and the dog sat on the log.\n".repeat(40));
    scratch.write("tiny.toml", LANGUAGE);
    scratch
}

/// The same in two stages of a few steps, each of which is saved.
pub fn stages(name: &str) -> Scratch {
    let scratch = language(name);
    let short =
        LANGUAGE.replace("steps = 30", "steps = 2").replace("evaluate_every = 10", "evaluate_every = 1");
    let stages = "[[stage]]\nname = \"first\"\n[[stage]]\nname = \"second\"\n[stage.train]\nsteps = 1\n";
    scratch.write("tiny.toml", short + stages);
    scratch
}

/// Sentences whose class is told by one word.
pub fn sentences(first: usize, count: usize) -> String {
    let things = ["film", "play", "book", "song", "meal"];
    let mut lines = String::new();
    for i in first..first + count {
        let (word, class) = if i % 2 == 0 { ("good", "kind") } else { ("bad", "harsh") };
        writeln!(lines, "the {} was {word} {}\t{class}", things[i % 5], "indeed ".repeat(i % 3).trim())
            .unwrap();
    }
    lines
}

/// The same with its sentences.
pub fn classify(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    scratch.write("train.tsv", sentences(0, 60));
    scratch.write("dev.tsv", sentences(3, 20));
    scratch.write("tiny.toml", CLASSIFY);
    scratch
}

/// A metric of an examination.
pub fn metric(page: &Value, name: &str) -> f64 {
    page["metrics"][name].as_f64().unwrap_or_else(|| panic!("no {name} in {page}"))
}
