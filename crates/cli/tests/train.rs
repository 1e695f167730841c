//! Journeys from a recipe to an answer, with data of a few lines: every kind of task is trained, examined and used; a run
//! is interrupted and resumed; and everything that a person can get wrong is met with a sentence that says what to do.

use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A folder of a test's own, removed when it ends; commands run in it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("regard-train-{name}-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.0.join(name), text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_regard"));
        command.args(arguments).current_dir(&self.0);
        command
    }

    fn regard(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the command starts")
    }

    /// What a command that succeeds prints.
    fn said(&self, arguments: &[&str]) -> String {
        let output = self.regard(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    fn page(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.said(&[arguments, &["--json"]].concat())).expect("JSON")
    }

    /// What a command that fails says: on the right stream, with the right status, without a backtrace.
    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.regard(arguments);
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{arguments:?} printed although it failed");
        said
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const LANGUAGE: &str = r#"
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

const CLASSIFY: &str = r#"
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

fn language(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    scratch.write("text.txt", "the cat sat on the mat and the dog sat on the log.\n".repeat(40));
    scratch.write("tiny.toml", LANGUAGE);
    scratch
}

/// Sentences whose class is told by one word.
fn sentences(first: usize, count: usize) -> String {
    let things = ["film", "play", "book", "song", "meal"];
    let mut lines = String::new();
    for i in first..first + count {
        let (word, class) = if i % 2 == 0 { ("good", "kind") } else { ("bad", "harsh") };
        writeln!(lines, "the {} was {word} {}\t{class}", things[i % 5], "indeed ".repeat(i % 3).trim())
            .unwrap();
    }
    lines
}

fn classify(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    scratch.write("train.tsv", sentences(0, 60));
    scratch.write("dev.tsv", sentences(3, 20));
    scratch.write("tiny.toml", CLASSIFY);
    scratch
}

fn metric(page: &Value, name: &str) -> f64 {
    page["metrics"][name].as_f64().unwrap_or_else(|| panic!("no {name} in {page}"))
}

#[test]
fn a_language_model_is_trained_examined_and_used() {
    let scratch = language("language");
    let page = scratch.page(&["train", "tiny.toml"]);
    assert_eq!((page["end"].as_str(), page["steps"].as_u64()), (Some("complete"), Some(30)));
    let result = &page["result"];
    let loss = metric(result, "loss");
    assert!((metric(result, "perplexity") - loss.exp()).abs() < 1e-6);
    assert!(loss < 2.5, "{loss}: nothing was learned of 15 letters");
    assert_eq!(result["baselines"][0]["metric"], "loss");
    for name in ["recipe.toml", "metrics.jsonl", "report.html", "result.json", "model/tokenizer.json"] {
        assert!(scratch.path("runs/tiny").join(name).is_file(), "{name}");
    }
    // The exported weights are those that were examined.
    let again = scratch.page(&["evaluate", "runs/tiny"]);
    assert!((metric(&again, "loss") - loss).abs() < 1e-6, "{again}");
    assert_eq!(again["examined"], result["examined"]);
    let other = scratch.page(&["evaluate", "runs/tiny/model", "--data", "text.txt"]);
    assert!(metric(&other, "loss").is_finite());
    let text = scratch.said(&["generate", "runs/tiny", "--prompt", "the ", "--max", "5"]);
    assert!(text.starts_with("the "), "{text}");
    assert!(scratch.said(&["describe", "runs/tiny"]).starts_with("regard-gpt, "));

    // A complete run says so again, and does not begin anew.
    let before = fs::read(scratch.path("runs/tiny/model/model.safetensors")).unwrap();
    let page = scratch.page(&["train", "--resume", "runs/tiny"]);
    assert_eq!(page["steps"].as_u64(), Some(30));
    assert!(fs::read(scratch.path("runs/tiny/model/model.safetensors")).unwrap() == before);
    // It may be made longer, but nothing else about it may change.
    let page = scratch.page(&["train", "--resume", "runs/tiny", "train.steps=40"]);
    assert_eq!(page["steps"].as_u64(), Some(40));
    let said = scratch.refused(&["train", "--resume", "runs/tiny", "train.lr=0.5"]);
    assert!(
        said.contains("the settings have changed since this run began: learning_rate was `0.01`, is `0.5`"),
        "{said}"
    );
    let said = scratch.refused(&["train", "--resume", "runs/tiny", "model.positions=rotary"]);
    assert!(said.contains("the settings have changed since this run began: model was "), "{said}");
    scratch.write("text.txt", "the cat sat on the log and the dog sat on the mat.\n".repeat(40));
    let said = scratch.refused(&["train", "--resume", "runs/tiny"]);
    assert!(said.contains("data was `1836 tokens, fingerprint "), "{said}");
    let said = scratch.refused(&["train", "tiny.toml"]);
    assert_eq!(
        said,
        "regard: runs/tiny has a run already; go on with it by `regard train --resume runs/tiny`, or name another folder \
         with --out\n"
    );
}

#[test]
fn a_classifier_of_texts_is_trained_examined_and_used() {
    let scratch = classify("classify");
    let output = scratch.regard(&["train", "tiny.toml"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for part in [
        "examined with 20 texts:",
        "beside it: accuracy 50.00 % by the most frequent class",
        "by bag of words, logistic regression",
        "answer \\ predicted",
        "report: runs/tiny/report.html",
        "try:    regard classify runs/tiny --text",
    ] {
        assert!(said.contains(part), "no {part} in {said}");
    }
    let page = scratch.page(&["evaluate", "runs/tiny", "--predictions", "answers.tsv"]);
    assert!(metric(&page, "accuracy") >= 0.9, "{page}");
    assert_eq!(page["confusion"]["names"], serde_json::json!(["harsh", "kind"]));
    let answers = fs::read_to_string(scratch.path("answers.tsv")).unwrap();
    assert_eq!(answers.lines().count(), 21);
    assert_eq!(answers.lines().next(), Some("given\tright\tsaid\tprobability"));
    let page = scratch.page(&["classify", "runs/tiny", "--text", "the book was bad"]);
    assert_eq!(page["results"][0]["classes"][0]["label"], "harsh", "{page}");
    let sum: f64 = page["results"][0]["classes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["probability"].as_f64().unwrap())
        .sum();
    assert!((sum - 1.0).abs() < 1e-6);
    scratch.write("lines.txt", "the song was good\nthe meal was bad\n");
    let said = scratch.said(&["classify", "runs/tiny", "--file", "lines.txt", "--top", "1"]);
    assert!(said.starts_with("kind ") && said.contains("\nharsh "), "{said}");

    let long = "good ".repeat(40);
    let said = scratch.refused(&["classify", "runs/tiny", "--text", &long]);
    assert_eq!(said, "regard: text 1 has more tokens than the 16 of the model; shorten it, or say --cut\n");
    assert!(scratch.said(&["classify", "runs/tiny", "--cut", "--text", &long]).starts_with("kind "));
    let said = scratch.refused(&["classify", "runs/tiny", "--image", "a.png"]);
    assert_eq!(said, "regard: runs/tiny classifies texts; give --text or --file\n");
    let said = scratch.refused(&["classify", "runs/tiny"]);
    assert!(said.starts_with("regard: nothing to classify; give --text"), "{said}");
    scratch.write("strange.tsv", "the film was odd\tstrange\n");
    let said = scratch.refused(&["evaluate", "runs/tiny", "--data", "strange.tsv"]);
    assert!(
        said.starts_with("regard: strange.tsv:1: no label of the training set is called `strange`"),
        "{said}"
    );

    // Another task with other classes begins with these weights and a new head.
    scratch.write("three.tsv", "a good film\t0\na bad film\t1\na film\t2\n".repeat(4));
    let output = scratch.regard(&[
        "train",
        "tiny.toml",
        "from.model=runs/tiny",
        "data.train=three.tsv",
        "data.evaluate=three.tsv",
        "--out",
        "runs/three",
    ]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && told.contains(" is given, and so is from.model"), "{told}");
    let short = CLASSIFY.replace("layers = 1\nheads = 2\nwidth = 16\ncontext = 16\n", "");
    scratch.write("three.toml", short + "[from]\nmodel = \"runs/tiny\"\nfreeze = [\"token_embedding*\"]\n");
    let output = scratch.regard(&["train", "three.toml", "data.train=three.tsv", "data.evaluate=three.tsv"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{told}");
    assert!(told.contains(" tensors loaded from runs/tiny/model"), "{told}");
    assert!(told.contains("new: head.weight, head.bias"), "{told}");
    let weights = |run: &str| {
        let file = regard::data::Checkpoint::open(scratch.path(run).join("model")).unwrap();
        file.get("token_embedding.weight").unwrap().f32s()
    };
    assert_eq!(weights("runs/three"), weights("runs/tiny"), "what is frozen stays");
}

#[test]
fn a_translator_is_trained_examined_and_used() {
    let scratch = Scratch::new("translate");
    let words = [("eins", "one"), ("zwei", "two"), ("drei", "three"), ("vier", "four"), ("acht", "eight")];
    let (mut source, mut target) = (String::new(), String::new());
    for i in 0..300usize {
        // 625 rows of four words, in an order without a pattern.
        let row = i * 389 % 625;
        let chosen = [row % 5, row / 5 % 5, row / 25 % 5, row / 125];
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
        vocabulary = 300
        [model]
        family = "transformer"
        layers = 1
        heads = 2
        width = 32
        [train]
        epochs = 20
        batch = 32
        batch_tokens = 160
        lr = 5e-3
        warmup_steps = 20
        dropout = 0.0
        label_smoothing = 0.1
        evaluate_every = 200
        [evaluate]
        beams = 2
        most = 12
        "#,
    );
    let page = scratch.page(&["train", "tiny.toml"]);
    let bleu = metric(&page["result"], "bleu");
    assert!(bleu > 50.0, "{page}");
    assert!(page["result"]["signature"].as_str().unwrap().contains("tok:13a"), "{page}");
    let again = scratch.page(&["evaluate", "runs/tiny"]);
    assert!((metric(&again, "bleu") - bleu).abs() < 1e-9, "{again}");
    let other =
        scratch.page(&["evaluate", "runs/tiny", "--data", "a.de", "--target", "a.en", "--beams", "1"]);
    assert!(metric(&other, "bleu") > 50.0, "{other}");
    let said = scratch.said(&["translate", "runs/tiny", "--text", "eins zwei drei vier", "--max", "12"]);
    assert!(said.starts_with("one"), "{said}");
    let said = scratch.refused(&["evaluate", "runs/tiny", "--data", "a.de"]);
    assert!(said.contains("1 files of sources and 0 of targets; give each source file its target"), "{said}");
}

/// A grey PNG file with its bytes stored as they are.
fn png(side: usize, pixels: &[u8]) -> Vec<u8> {
    fn crc(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0u32, |crc, &byte| {
            (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
        })
    }
    let rows: Vec<u8> = pixels.chunks(side).flat_map(|row| [&[0], row].concat()).collect();
    let (a, b) = rows.iter().fold((1u32, 0u32), |(a, b), &byte| {
        let a = (a + u32::from(byte)) % 65521;
        (a, (b + a) % 65521)
    });
    let length = rows.len() as u16;
    let stored = [&[0x78, 1, 1][..], &length.to_le_bytes(), &(!length).to_le_bytes(), &rows];
    let data = [&stored.concat()[..], &(b << 16 | a).to_be_bytes()].concat();
    let size = (side as u32).to_be_bytes();
    let header = [&size[..], &size, &[8, 0, 0, 0, 0]].concat();
    let chunk = |name: &[u8], data: &[u8]| {
        let body = [name, data].concat();
        [&(data.len() as u32).to_be_bytes()[..], &body, &crc(&body).to_be_bytes()].concat()
    };
    let chunks = [chunk(b"IHDR", &header), chunk(b"IDAT", &data), chunk(b"IEND", &[])];
    [&b"\x89PNG\r\n\x1a\n"[..], &chunks.concat()].concat()
}

#[test]
fn a_classifier_of_images_is_trained_examined_and_used() {
    const SIDE: usize = 8;
    let scratch = Scratch::new("images");
    // The upper or the lower half is bright.
    let picture = |i: usize| -> Vec<u8> {
        (0..SIDE * SIDE)
            .map(|at| if (at / 32 == 0) == (i % 2 == 0) { 200 + (i % 50) as u8 } else { (i % 40) as u8 })
            .collect()
    };
    fs::create_dir_all(scratch.path("digits")).unwrap();
    for (half, count) in [("train", 60usize), ("t10k", 20)] {
        let sizes = [count as u32, SIDE as u32, SIDE as u32].map(u32::to_be_bytes).concat();
        let pixels: Vec<u8> = (0..count).flat_map(picture).collect();
        scratch.write(
            &format!("digits/{half}-images-idx3-ubyte"),
            [&[0, 0, 8, 3][..], &sizes, &pixels].concat(),
        );
        let classes: Vec<u8> = (0..count).map(|i| (i % 2) as u8).collect();
        let head = [&[0, 0, 8, 1][..], &(count as u32).to_be_bytes(), &classes].concat();
        scratch.write(&format!("digits/{half}-labels-idx1-ubyte"), head);
    }
    scratch.write(
        "tiny.toml",
        r#"
        task = "images"
        [data]
        kind = "mnist"
        train = ["digits"]
        shift = 1
        [model]
        family = "vit"
        layers = 1
        heads = 2
        width = 16
        patch = 4
        [train]
        epochs = 10
        batch = 10
        lr = 1e-2
        dropout = 0.0
        "#,
    );
    let page = scratch.page(&["train", "tiny.toml"]);
    assert_eq!(metric(&page["result"], "accuracy"), 1.0, "{page}");
    assert_eq!(page["result"]["examined"], "20 images");
    assert_eq!(scratch.page(&["evaluate", "runs/tiny"])["metrics"], page["result"]["metrics"]);
    scratch.write("upper.png", png(SIDE, &picture(0)));
    scratch.write("lower.png", png(SIDE, &picture(1)));
    let page = scratch.page(&["classify", "runs/tiny", "--image", "upper.png", "--image", "lower.png"]);
    assert_eq!(page["results"][0]["classes"][0]["label"], "0", "{page}");
    assert_eq!(page["results"][1]["classes"][0]["label"], "1", "{page}");
    let said = scratch.refused(&["classify", "runs/tiny", "--text", "no picture"]);
    assert_eq!(said, "regard: runs/tiny classifies images; give --image\n");
    scratch.write("broken.png", "not a picture");
    let said = scratch.refused(&["classify", "runs/tiny", "--image", "broken.png"]);
    assert!(said.starts_with("regard: broken.png: cannot be decoded: "), "{said}");
    let said = scratch.refused(&["train", "tiny.toml", "model.pooling=mean", "--out", "runs/mean"]);
    assert!(said.contains("transformers' ViT has no pooling by the mean"), "{said}");
}

#[test]
fn stages_follow_each_other() {
    let scratch = Scratch::new("stages");
    scratch.write(
        "tiny.toml",
        r#"
        task = "language"
        [data]
        kind = "biographies"
        people = 260
        [model]
        layers = 1
        heads = 2
        width = 16
        context = 128
        [train]
        batch = 8
        epochs = 1
        [evaluate]
        most = 8
        [[stage]]
        name = "read"
        [stage.data]
        form = "spans"
        [[stage]]
        name = "answer"
        [stage.train]
        epochs = 2
        "#,
    );
    let output = scratch.regard(&["train", "tiny.toml"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{told}");
    assert!(told.contains("stage 1 of 2: read") && told.contains("stage 2 of 2: answer"), "{told}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("  exact ") && said.contains("by always "), "{said}");
    assert!(said.contains("report: runs/tiny/answer/report.html"), "{said}");
    for name in ["read/checkpoints/last.safetensors", "answer/metrics.jsonl", "model/config.json"] {
        assert!(scratch.path("runs/tiny").join(name).is_file(), "{name}");
    }
    let page = scratch.page(&["evaluate", "runs/tiny"]);
    assert!(page["metrics"]["exact"].is_number(), "{page}");
    // What was done is not done again.
    let before = fs::read(scratch.path("runs/tiny/read/metrics.jsonl")).unwrap();
    scratch.page(&["train", "--resume", "runs/tiny"]);
    assert!(fs::read(scratch.path("runs/tiny/read/metrics.jsonl")).unwrap() == before);
}

fn started(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts")
}

/// Waits until a run has written some lines of metrics.
fn wait_for_steps(metrics: &Path, child: &mut Child) {
    let began = Instant::now();
    while fs::read_to_string(metrics).map_or(0, |text| text.lines().count()) < 5 {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        assert!(began.elapsed() < Duration::from_secs(120), "it does not get on");
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_interrupted_run_ends_as_if_nothing_had_been() {
    let scratch = language("interrupt");
    let long = ["train.steps=1500", "train.evaluate_every=400"];
    scratch.page(&[&["train", "tiny.toml", "--out", "runs/whole"][..], &long].concat());
    let mut child =
        started(scratch.command(&[&["train", "tiny.toml", "--out", "runs/parts"][..], &long].concat()));
    wait_for_steps(&scratch.path("runs/parts/metrics.jsonl"), &mut child);
    // While it runs, nobody else may train there.
    let said = scratch.refused(&["train", "--resume", "runs/parts"]);
    assert!(said.contains("another process is training in it; wait until it ends"), "{said}");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.starts_with("interrupted after step "), "{said}");
    assert!(said.ends_with(", and saved; go on with:\n  regard train --resume runs/parts\n"), "{said}");
    let told = scratch.refused(&["generate", "runs/parts", "--prompt", "a"]);
    assert!(
        told.contains(
            "runs/parts is a run without a trained model yet; let it come to its end: regard train --resume"
        ),
        "{told}"
    );
    let page = scratch.page(&["train", "--resume", "runs/parts"]);
    assert_eq!(page["steps"].as_u64(), Some(1500));
    let weights = |run: &str| fs::read(scratch.path(run).join("model/model.safetensors")).unwrap();
    assert!(weights("runs/parts") == weights("runs/whole"), "the same bits");
}

#[test]
fn a_full_disk_and_a_damaged_checkpoint_lose_nothing() {
    let scratch = language("full");
    scratch.page(&["train", "tiny.toml"]);
    let last = scratch.path("runs/tiny/checkpoints/last.safetensors");
    let before = fs::read(&last).unwrap();
    // Files may not grow past 16 KiB: a write beyond that is an error, as on a full disk.
    let script = format!(
        "trap '' XFSZ; ulimit -f 16; exec '{}' train --resume runs/tiny train.steps=60",
        env!("CARGO_BIN_EXE_regard")
    );
    let output = Command::new("bash").args(["-c", &script]).current_dir(&scratch.0).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("step 40 was not saved: cannot write "), "{told}");
    assert!(told.contains("(of step 30) is unharmed: make room or mend the folder, then resume"), "{told}");
    assert!(fs::read(&last).unwrap() == before);

    let mut damaged = before.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    fs::write(&last, &damaged).unwrap();
    let said = scratch.refused(&["train", "--resume", "runs/tiny"]);
    assert!(said.contains("it cannot be resumed from: "), "{said}");
    assert!(
        said.contains("best.safetensors is of the best step: copy it over this one to go on from there"),
        "{said}"
    );
    assert!(fs::read(&last).unwrap() == damaged, "nothing is repaired behind anybody's back");
    fs::copy(scratch.path("runs/tiny/checkpoints/best.safetensors"), &last).unwrap();
    scratch.page(&["train", "--resume", "runs/tiny", "train.steps=60"]);
}

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
    let cases: &[(&[&str], &str)] = &[
        (&["tiny.toml", "data.train=empty.txt"], "empty.txt: is empty; copy or download it again"),
        (
            &["tiny.toml", "data.train=one.txt"],
            "a text of 2 characters cannot be divided by data.hold_out = 0.1; give a longer text, or files to examine \
             with: data.evaluate=my.txt",
        ),
        (&["tiny.toml", "data.train=latin.txt"], "latin.txt:1: is not UTF-8: byte 3 of the line is 0xef"),
        (&["tiny.toml", "data.train=txt.text"], "cannot open txt.text: No such file"),
        (&["tiny.toml", "data.train=[]"], "data.train names no file; give the training files"),
        (&["tiny.toml", "model.wdith=8"], "model.wdith=8: there is no key `wdith`; did you mean `width`?"),
        (&["typo.toml"], "typo.toml:2: there is no key `learning` in [train]; "),
        (
            &["tiny.toml", "model.patch=2"],
            "a model of the family `gpt` has no `patch`; leave model.patch out; it has ",
        ),
        (
            &["tiny.toml", "model.family=vit"],
            "the task `language` with a model of the family `vit`; give model.family = \"gpt\" or \"perceiver\"",
        ),
        (
            &["tiny.toml", "data.kind=pairs"],
            "the task `language` with data of the kind `pairs`; give data.kind = \"text\" or \"biographies\"",
        ),
        (&["tiny.toml", "model.width=15"], "gpt: a width of 15 cannot be shared by 2 heads"),
        (&["tiny.toml", "model.vocabulary=3"], "model.vocabulary is 3, and the tokenizer has "),
        (&["tiny.toml", "train.label_smoothing=0.1"], "label smoothing of 0.1 for a decoder; "),
        (
            &["tiny.toml", "tokenizer.kind=file"],
            "tokenizer.kind is file, and no file is named; give tokenizer.path",
        ),
        (
            &["tiny.toml", "tokenizer.lowercase=true"],
            "tokenizer.lowercase is true, and the kind is not wordpiece; ",
        ),
        (
            &["classes.toml", "data.train=column.tsv"],
            "column.tsv:2: has 1 columns, expected 2 as in line 1; ",
        ),
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
        (&["classes.toml", "data.train=two.tsv", "from.model=nowhere"], "no model is called `nowhere`; "),
        (&["tiny.toml", "--out", "text.txt/run"], "cannot make text.txt/run: Not a directory"),
    ];
    for (arguments, expected) in cases {
        let said = scratch.refused(&[&["train"], *arguments].concat());
        assert!(said.starts_with(&format!("regard: {expected}")), "{arguments:?}: {said}");
        assert!(!scratch.path("runs").exists(), "{arguments:?} left something behind");
    }
    let said = scratch.refused(&["train", "--resume", "runs/none"]);
    assert!(said.contains("runs/none: it has no recipe.toml; name the folder of a run"), "{said}");
    let said = scratch.refused(&["evaluate", "runs/none"]);
    assert!(said.starts_with("regard: "), "{said}");
    // Texts that are too long are cut, and that is said.
    scratch.write("long.tsv", format!("{}\tkind\nbad\tharsh\n", "very ".repeat(40)));
    let output = scratch.regard(&["train", "classes.toml", "data.train=long.tsv", "train.epochs=1"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{told}");
    assert!(told.contains("1 texts are longer than the model has room for, and are cut"), "{told}");
    let said = scratch.refused(&["evaluate", "runs/classes"]);
    assert_eq!(said, "regard: the recipe of this run has no data to examine with; give --data with files\n");
}
