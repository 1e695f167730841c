//! Every kind of task is trained, examined and used; stages follow each other.

use super::scratch::{CLASSIFY, Scratch, classify, language, metric};
use std::fmt::Write as _;
use std::fs;

/// What is read less often is learned all the same.
#[test]
fn lines_of_metrics_are_as_far_apart_as_asked_for() {
    let scratch = language("seldom");
    scratch.page(&["train", "tiny.toml", "--out", "runs/each"]);
    scratch.page(&["train", "tiny.toml", "train.log_every=4", "--out", "runs/fourth"]);
    let weights = |run: &str| fs::read(scratch.path(run).join("model/model.safetensors")).unwrap();
    assert!(weights("runs/each") == weights("runs/fourth"), "the same bits");
    let steps = |run: &str| -> Vec<u64> {
        let lines = fs::read_to_string(scratch.path(run).join("metrics.jsonl")).unwrap();
        let lines = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines
            .filter(|line| line["learning_rate"].is_number())
            .map(|line| line["step"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(steps("runs/each"), (1..=30).collect::<Vec<_>>());
    assert_eq!(steps("runs/fourth"), [4, 8, 12, 16, 20, 24, 28]);
}

#[test]
fn a_language_model_is_trained_examined_and_used() {
    let scratch = language("language");
    let page = scratch.page(&["train", "tiny.toml"]);
    assert_eq!((page["end"].as_str(), page["steps"].as_u64()), (Some("complete"), Some(30)));
    scratch.page(&["train", "tiny.toml", "--out", "runs/again"]);
    let again = scratch.printed(&["train", "--resume", "runs/again"]);
    assert!(again.contains("nothing was left to train: the run has its 30 steps\n"), "{again}");
    let more = scratch.printed(&["train", "--resume", "runs/again", "train.steps=32"]);
    assert!(more.contains("trained 2 more steps in ") && more.contains(" s, 32 in all\n"), "{more}");
    let result = &page["result"];
    let loss = metric(result, "loss");
    assert!((metric(result, "perplexity") - loss.exp()).abs() < 1e-6);
    assert!(loss < 2.5, "{loss}: nothing was learned of 15 letters");
    assert_eq!(result["baselines"][0]["metric"], "loss");
    for name in ["recipe.toml", "metrics.jsonl", "report.html", "result.json", "model/tokenizer.json"] {
        assert!(scratch.path("runs/tiny").join(name).is_file(), "{name}");
    }
    let report = fs::read_to_string(scratch.path("runs/tiny/report.html")).unwrap();
    assert!(
        report.contains("<h2>The examination at the end</h2>") && report.contains("Step 30,"),
        "{report}"
    );
    assert_eq!(regard_picture::check::fault(&report), None);
    // The exported weights are those that were examined.
    let again = scratch.page(&["evaluate", "runs/tiny"]);
    assert!((metric(&again, "loss") - loss).abs() < 1e-6, "{again}");
    assert_eq!(again["examined"], result["examined"]);
    let other = scratch.page(&["evaluate", "runs/tiny/model", "--data", "text.txt"]);
    assert!(metric(&other, "loss").is_finite());
    let pass = scratch.page(&["forward", "runs/tiny", "--text", "the cat", "--out", "out.safetensors"]);
    assert_eq!(pass["tensors"]["hidden"], serde_json::json!([1, 7, 16]));
    scratch.printed(&["export", "runs/tiny", "half", "--dtype", "bf16"]);
    // What transformers has a form for is written in it.
    assert!(scratch.printed(&["describe", "half"]).starts_with("gpt2, "));
    let tokens = scratch.page(&["data", "tokenize", "runs/tiny", "--text", "the cat"]);
    assert_eq!(tokens["ids"].as_array().unwrap().len(), 7, "{tokens}");
    let batches = ["data", "batches", "tiny.toml", "--count", "3", "--out", "batches.safetensors"];
    let page = scratch.page(&batches);
    assert_eq!((page["batches"].as_u64(), page["tokens"].as_u64()), (Some(3), Some(3 * 8 * 16)), "{page}");
    let file = regard::data::Checkpoint::open(scratch.path("batches.safetensors")).unwrap();
    assert_eq!(file.get("2.ids").unwrap().shape, [8, 16]);
    let text = scratch.printed(&["generate", "runs/tiny", "--prompt", "the ", "--max", "5"]);
    assert!(text.starts_with("the "), "{text}");
    assert!(scratch.printed(&["describe", "runs/tiny"]).starts_with("regard-gpt, "));

    // A complete run says so again, and does not begin anew.
    let before = fs::read(scratch.path("runs/tiny/model/model.safetensors")).unwrap();
    let page = scratch.page(&["train", "--resume", "runs/tiny"]);
    assert_eq!(page["steps"].as_u64(), Some(30));
    assert!(fs::read(scratch.path("runs/tiny/model/model.safetensors")).unwrap() == before);
    // It may be made longer, but nothing else about it may change.
    let page = scratch.page(&["train", "--resume", "runs/tiny", "train.steps=40"]);
    assert_eq!(page["steps"].as_u64(), Some(40));
    let message = scratch.refused(&["train", "--resume", "runs/tiny", "train.lr=0.5"]);
    assert!(
        message
            .contains("the settings have changed since this run began: learning_rate was `0.01`, is `0.5`"),
        "{message}"
    );
    let message = scratch.refused(&["train", "--resume", "runs/tiny", "model.positions=rotary"]);
    assert!(message.contains("the settings have changed since this run began: model was "), "{message}");
    scratch.write("text.txt", "the cat sat on the log and the dog sat on the mat.\n".repeat(40));
    let message = scratch.refused(&["train", "--resume", "runs/tiny"]);
    assert!(message.contains("data was `1836 tokens, fingerprint "), "{message}");
    let message = scratch.refused(&["train", "tiny.toml"]);
    assert_eq!(
        message,
        "regard: runs/tiny has a run already; go on with it by `regard train --resume runs/tiny`, or name another folder \
         with --out\n"
    );
}

#[test]
fn a_classifier_of_texts_is_trained_examined_and_used() {
    let scratch = classify("classify");
    let output = scratch.regard(&["train", "tiny.toml"]);
    let message = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for part in [
        "examined with 20 texts:",
        "beside it: accuracy 50.00 % by the most frequent class",
        "by bag of words, logistic regression",
        "answer \\ predicted",
        "report: runs/tiny/report.html",
        "try:    regard classify runs/tiny --text",
    ] {
        assert!(message.contains(part), "no {part} in {message}");
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
    let message = scratch.printed(&["classify", "runs/tiny", "--file", "lines.txt", "--top", "1"]);
    assert!(message.starts_with("kind ") && message.contains("\nharsh "), "{message}");

    let long = "good ".repeat(40);
    let message = scratch.refused(&["classify", "runs/tiny", "--text", &long]);
    assert_eq!(
        message,
        "regard: text 1 has 42 tokens, the model has room for 16; shorten it, or say --cut\n"
    );
    assert!(scratch.printed(&["classify", "runs/tiny", "--cut", "--text", &long]).starts_with("kind "));
    let message = scratch.refused(&["classify", "runs/tiny", "--image", "a.png"]);
    assert_eq!(message, "regard: runs/tiny classifies texts; give --text or --file\n");
    let message = scratch.refused(&["classify", "runs/tiny"]);
    assert!(message.starts_with("regard: nothing to classify; give --text"), "{message}");

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
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && message.contains(" is given, and so is from.model"), "{message}");
    let short = CLASSIFY.replace("layers = 1\nheads = 2\nwidth = 16\ncontext = 16\n", "");
    scratch.write("three.toml", short + "[from]\nmodel = \"runs/tiny\"\nfreeze = [\"token_embedding*\"]\n");
    let output = scratch.regard(&["train", "three.toml", "data.train=three.tsv", "data.evaluate=three.tsv"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{message}");
    assert!(message.contains(" tensors loaded from runs/tiny/model"), "{message}");
    assert!(message.contains("new: head.weight, head.bias"), "{message}");
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
    let message =
        scratch.printed(&["translate", "runs/tiny", "--text", "eins zwei drei vier", "--max", "12"]);
    assert!(message.starts_with("one"), "{message}");
    let message = scratch.refused(&["evaluate", "runs/tiny", "--data", "a.de"]);
    assert!(
        message.contains("1 files of sources and 0 of targets; give each source file its target"),
        "{message}"
    );
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
    let picture =
        |i: usize| -> Vec<u8> {
            (0..SIDE * SIDE)
                .map(|at| {
                    if (at / 32 == 0) == i.is_multiple_of(2) { 200 + (i % 50) as u8 } else { (i % 40) as u8 }
                })
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
    let message = scratch.refused(&["classify", "runs/tiny", "--text", "no picture"]);
    assert_eq!(message, "regard: runs/tiny classifies images; give --image\n");
    scratch.write("broken.png", "not a picture");
    let message = scratch.refused(&["classify", "runs/tiny", "--image", "broken.png"]);
    assert!(message.starts_with("regard: broken.png: cannot be decoded: "), "{message}");
    // transformers' ViT has no pooling by the mean: such a model is written in our own words, and opens
    // again.
    scratch.printed(&["train", "tiny.toml", "model.pooling=mean", "train.steps=2", "--out", "runs/mean"]);
    let config = std::fs::read_to_string(scratch.path("runs/mean/model/config.json")).unwrap();
    assert!(config.contains("\"regard-vit\""), "{config}");
    scratch.printed(&["describe", "runs/mean"]);
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
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{message}");
    assert!(message.contains("stage 1 of 2: read") && message.contains("stage 2 of 2: answer"), "{message}");
    let message = String::from_utf8(output.stdout).unwrap();
    assert!(message.contains("  exact ") && message.contains("by always "), "{message}");
    assert!(message.contains("report: runs/tiny/answer/report.html"), "{message}");
    for (stage, examined) in [("read", false), ("answer", true)] {
        let report = fs::read_to_string(scratch.path("runs/tiny").join(stage).join("report.html")).unwrap();
        assert_eq!(report.contains("The examination at the end"), examined, "{stage}");
    }
    assert!(message.contains("predictions: runs/tiny/predictions.txt"), "{message}");
    assert!(message.contains("try:    regard ask runs/tiny "), "{message}");
    let answers = fs::read_to_string(scratch.path("runs/tiny/predictions.txt")).unwrap();
    // Of 260 people one in ten is asked about without an answer being known.
    assert_eq!(answers.lines().count(), 26, "{answers}");
    for name in ["read/checkpoints/last.safetensors", "answer/metrics.jsonl", "model/config.json"] {
        assert!(scratch.path("runs/tiny").join(name).is_file(), "{name}");
    }
    let page = scratch.page(&["evaluate", "runs/tiny"]);
    assert!(page["metrics"]["exact"].is_number(), "{page}");
    let page = scratch.page(&["runs", "runs/tiny"]);
    let names: Vec<&str> =
        page["runs"].as_array().unwrap().iter().filter_map(|run| run["run"].as_str()).collect();
    assert_eq!(names, ["runs/tiny/read", "runs/tiny/answer"]);
    // Nothing was withheld to choose an epoch with, and dev is examined once.
    assert!(page["runs"][1]["best"].is_null(), "{page}");
    // An override reaches into one stage, and one that reaches nothing is refused.
    let short =
        ["train", "tiny.toml", "stage.answer.train.steps=3", "data.hold_out=0.2", "--out", "runs/short"];
    assert_eq!(scratch.page(&short)["steps"].as_u64(), Some(3));
    // Of the questions to learn from, some were withheld now.
    let page = scratch.page(&["runs", "runs/short"]);
    assert!(page["runs"][1]["best"]["metrics"]["exact"].is_number(), "{page}");
    let message =
        scratch.refused(&["train", "tiny.toml", "stage.anwser.train.steps=3", "--out", "runs/typo"]);
    assert_eq!(
        message,
        "regard: stage.anwser.train.steps=3: no stage is called `anwser`; did you mean `answer`?\n"
    );
    // What was done is not done again.
    let before = fs::read(scratch.path("runs/tiny/read/metrics.jsonl")).unwrap();
    scratch.page(&["train", "--resume", "runs/tiny"]);
    assert!(fs::read(scratch.path("runs/tiny/read/metrics.jsonl")).unwrap() == before);
}

#[test]
fn the_study_runs_on_files() {
    let scratch = Scratch::new("study");
    scratch.printed(&["data", "generate", "people", "--people", "250"]);
    let files = ["--text", "people/text.txt", "--train", "people/train.tsv", "--dev", "people/dev.tsv"];
    let more = ["--test", "people/test_inputs.tsv", "--arms", "alone", "--finetune-epochs", "1"];
    let message = scratch.printed(&[&["study"], &files[..], &more].concat());
    assert!(message.contains("no pretraining") && message.contains("always “"), "{message}");
    assert!(message.contains("predictions: runs/study/alone/predictions.txt"), "{message}");
    assert!(message.ends_with("report: runs/study/report.html\n"), "{message}");
    let lines = |name: &str| fs::read_to_string(scratch.path(name)).unwrap().lines().count();
    assert_eq!(lines("runs/study/alone/predictions.txt"), lines("people/test_inputs.tsv"));
    let page = fs::read_to_string(scratch.path("runs/study/report.html")).unwrap();
    assert!(page.contains("answers are wrong"), "the wrong answers can be browsed");
}
