//! Models at a terminal: described, run, imported and exported, and every slip on the way met with a sentence
//! that helps.

use regard_data::Checkpoint;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs at the root of the repository, where the examples of `--help` are typed.
fn regard(arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Command::new(env!("CARGO_BIN_EXE_regard"))
        .args(arguments)
        .current_dir(root)
        .output()
        .expect("the command starts")
}

fn printed(arguments: &[&str]) -> String {
    let output = regard(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let text = printed(&[arguments, &["--json"]].concat());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// What a command that fails says: one sentence on the right stream, with the right status, and nothing is
/// printed.
fn refused(arguments: &[&str]) -> String {
    let output = regard(arguments);
    let message = String::from_utf8(output.stderr).expect("text");
    assert!(!message.contains("panicked"), "{arguments:?}: {message}");
    assert!(matches!(output.status.code(), Some(1 | 2)), "{arguments:?}: {:?} {message}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{arguments:?} printed although it failed");
    message
}

fn golden(case: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/goldens/parity").join(case);
    path.canonicalize().unwrap().join("model").to_str().unwrap().into()
}

/// A folder that is removed in the end.
struct Own(PathBuf);

impl Own {
    fn new(name: &str) -> Own {
        let path = std::env::temp_dir().join(format!("regard-models-{}-{name}", std::process::id()));
        fs::remove_dir_all(&path).ok();
        fs::create_dir_all(&path).unwrap();
        Own(path.canonicalize().unwrap())
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

/// A small model of llama2.c, its weights counted up; the sign of the vocabulary says that the head is the
/// embedding.
fn llama2c(path: &str) {
    let [dim, hidden, layers, heads, kv, vocab, length] = [8i32, 12, 2, 4, 2, 11, 6];
    let kv_dim = dim / heads * kv;
    let layer = 2 * dim + 2 * dim * dim + 2 * kv_dim * dim + 3 * hidden * dim;
    let count = vocab * dim + layers * layer + dim + 2 * length * (dim / heads / 2);
    let mut bytes: Vec<u8> =
        [dim, hidden, layers, heads, kv, vocab, length].iter().flat_map(|size| size.to_le_bytes()).collect();
    bytes.extend((0..count).flat_map(|i| (((i * 7) % 23) as f32 / 23.0 - 0.4).to_le_bytes()));
    fs::write(path, bytes).unwrap();
}

#[test]
fn the_examples_of_the_help_work_as_typed() {
    let own = Own::new("examples");
    for command in ["describe", "forward", "import", "export"] {
        let help = printed(&[command, "--help"]);
        let example = help.lines().find_map(|line| line.strip_prefix("Example:  regard ")).unwrap();
        // As a shell splits it; what is written, or lies elsewhere, goes to a folder of its own.
        let mut words: Vec<String> = Vec::new();
        for (i, quoted) in example.split('"').enumerate() {
            match i % 2 {
                0 => words.extend(quoted.split_whitespace().map(String::from)),
                _ => words.push(quoted.into()),
            }
        }
        for word in &mut words {
            if ["out.safetensors", "llama-f16", "gpt2-bf16"].contains(&word.as_str()) {
                *word = own.at(word);
            }
        }
        printed(&words.iter().map(String::as_str).collect::<Vec<_>>());
    }
    assert_eq!(Checkpoint::open(own.at("out.safetensors")).unwrap().len(), 4);
    let f16 = Checkpoint::open(own.at("llama-f16")).unwrap();
    assert!(f16.tensors().all(|tensor| tensor.dtype == regard_data::DType::F16));
    let bf16 = Checkpoint::open(own.at("gpt2-bf16")).unwrap();
    assert!(bf16.tensors().all(|tensor| tensor.dtype == regard_data::DType::BF16));
}

#[test]
fn every_family_is_described() {
    for (case, family, parameters) in [
        ("gpt2", "gpt2", 11908),
        ("llama", "llama", 15660),
        ("mingpt", "mingpt", 10278),
        ("bert_masked", "bert", 11687),
        ("bert_classify", "bert", 11647),
        ("vit", "vit", 8076),
        ("t5", "t5", 10974),
        ("transformer", "transformer", 18555),
    ] {
        let page = json(&["describe", &golden(case)]);
        assert_eq!((&page["family"], &page["parameters"]["total"]), (&family.into(), &parameters.into()));
        let by_part = page["parameters"]["by_part"].as_object().unwrap();
        assert_eq!(by_part.values().map(|count| count.as_u64().unwrap()).sum::<u64>(), parameters, "{case}");
        assert_eq!(page["memory"]["parameters"], 4 * parameters, "{case}");
        let parts = ["parameters", "packed", "arena", "inputs_and_outputs", "constants", "threads"];
        let sum: u64 = parts.iter().map(|part| page["memory"][part].as_u64().unwrap()).sum();
        assert_eq!(page["memory"]["total"], sum, "{case}");
        assert!(page["taps"].as_array().unwrap().iter().any(|tap| tap.as_str().unwrap().ends_with("stream")));
        let text = printed(&["describe", &golden(case)]);
        for part in ["Settings", "Parameters by part", "One pass, 1 ", "taps: ", "Its cost", "Its memory"] {
            assert!(text.contains(part), "{case}: no {part} in {text}");
        }
    }
}

#[test]
fn taps_have_the_same_names_in_every_family() {
    for (case, blocks) in [
        ("gpt2", &["block.1"][..]),
        ("llama", &["block.1"]),
        ("bert_masked", &["block.1"]),
        ("vit", &["block.1"]),
        ("t5", &["encoder.block.1", "decoder.block.1"]),
        ("transformer", &["encoder.block.1", "decoder.block.1"]),
    ] {
        let page = json(&["describe", &golden(case), "--taps"]);
        let taps = page["taps"].as_array().unwrap();
        let text = printed(&["describe", &golden(case), "--taps"]);
        assert_eq!(text.lines().count(), taps.len());
        for block in blocks {
            let cross =
                if block.starts_with("decoder") { &["attention", "cross"][..] } else { &["attention"] };
            let own = ["norm", "query", "key", "value", "pattern", "mixed", "added"];
            let mut names: Vec<String> =
                cross.iter().flat_map(|part| own.map(|name| format!("{block}.{part}.{name}"))).collect();
            names.extend(["norm", "hidden", "added"].map(|name| format!("{block}.feed_forward.{name}")));
            names.push(format!("{block}.stream"));
            for name in names {
                let tap = taps.iter().find(|tap| tap["name"] == name.as_str());
                let tap = tap.unwrap_or_else(|| panic!("{case} has no tap {name}"));
                assert!(!tap["about"].as_str().unwrap().is_empty());
                assert_eq!(tap["on_request"], name.ends_with("pattern"));
                assert!(tap["shape"].as_array().unwrap().len() >= 3, "{tap}");
                assert!(text.contains(&name));
            }
        }
    }
}

#[test]
fn the_cost_of_a_pass_grows_with_it() {
    let macs = |more: &[&str]| {
        let page = json(&[&["describe", &golden("gpt2")], more].concat());
        page["cost"]["by_op"]["linear"]["multiply_adds"].as_u64().unwrap()
    };
    // Per position: 2 blocks of 4 C² + 2 C F, and the head C V; C 24, F 50, V 61.
    let one = 2 * (4 * 24 * 24 + 2 * 24 * 50) + 24 * 61;
    assert_eq!(macs(&["--tokens", "1"]), one);
    assert_eq!(macs(&["--tokens", "7", "--batch", "3"]), 21 * one);
    assert_eq!(macs(&[]), 19 * one, "all positions that the model has");
}

#[test]
fn a_description_of_nonsense_is_refused() {
    let text = golden("gpt2");
    assert_eq!(
        refused(&["describe", &text, "--batch", "0"]),
        "regard: --batch 0: an empty pass has no cost; choose at least 1\n"
    );
    for tokens in ["0", "20"] {
        assert_eq!(
            refused(&["describe", &text, "--tokens", tokens]),
            format!(
                "regard: --tokens {tokens}: choose between 1 and 19, which is all that this model has room for\n"
            )
        );
    }
    let message = refused(&["describe", &golden("vit"), "--tokens", "3"]);
    assert!(message.starts_with("regard: --tokens: this is a model of images"), "{message}");
    let huge = usize::MAX.to_string();
    for number in ["1000000000", "1099511627776", &huge] {
        for command in [["describe", &text, "--batch"], ["describe", &golden("t5"), "--tokens"]] {
            let message = refused(&[&command[..], &[number]].concat());
            let reasons =
                ["out of memory", "more bytes than can be addressed", "more than any machine holds"];
            assert!(reasons.iter().any(|reason| message.contains(reason)), "{command:?} {number}: {message}");
        }
    }
}

#[test]
fn what_is_no_model_is_refused_by_every_command() {
    let own = Own::new("none");
    let (file, empty, out) = (own.at("notes.txt"), own.at("empty"), own.at("out"));
    fs::write(&file, "no model").unwrap();
    fs::create_dir(&empty).unwrap();
    let commands: [&dyn Fn(&str) -> String; 4] = [
        &|model| refused(&["describe", model]),
        &|model| refused(&["forward", model, "--ids", "1", "--out", &out, "--replace"]),
        &|model| refused(&["import", model, &out]),
        &|model| refused(&["export", model, &out]),
    ];
    for command in commands {
        let message = command(&own.at("absent"));
        assert!(message.starts_with("regard: no folder is called `/"), "{message}");
        assert!(message.ends_with("a name like `organisation/name` from a local cache\n"), "{message}");
        let message = command("no-such/model");
        assert!(
            message.starts_with("regard: no model is called `no-such/model`; looked for a folder"),
            "{message}"
        );
        assert_eq!(
            command(&file),
            format!("regard: {file}: is a file, not a model's folder; name the folder that it lies in\n")
        );
        let message = command(&empty);
        assert!(
            message.starts_with(&format!("regard: {empty}: is no model's folder: looked for")),
            "{message}"
        );
        assert_eq!(message.matches("is no model's folder").count(), 1, "said once: {message}");
        assert!(!Path::new(&out).exists(), "nothing is written");
    }
}

#[test]
fn a_pass_writes_what_was_asked_for() {
    let own = Own::new("pass");
    let out = own.at("out.safetensors");
    let page = json(&[
        "forward",
        &golden("gpt2"),
        "--ids",
        "1 2 3",
        "--ids",
        "4,5",
        "--tap",
        "block.1.stream",
        "--tap",
        "block.0.attention.pattern",
        "--tap",
        "block.0.attention.added",
        "--replace",
        "--out",
        &out,
    ]);
    assert_eq!(page["tensors"]["logits"], serde_json::json!([2, 3, 61]));
    let file = Checkpoint::open(&out).unwrap();
    let taps = ["block.0.attention.added", "block.0.attention.pattern", "block.1.stream"];
    assert_eq!(file.names().collect::<Vec<_>>(), [&taps[..], &["hidden", "logits", "mask"]].concat());
    let pattern = file.get("block.0.attention.pattern").unwrap().f32s();
    assert!(pattern.chunks(3).all(|row| (row.iter().sum::<f32>() - 1.0).abs() < 1e-5), "{pattern:?}");
    assert_eq!(file.get("mask").unwrap().bytes, [1, 1, 1, 1, 1, 0]);
    let both = file.get("logits").unwrap().f32s();
    // The second row alone has the same scores: padding reaches nobody.
    printed(&["forward", &golden("gpt2"), "--ids", "4 5", "--out", &out, "--replace"]);
    assert_eq!(Checkpoint::open(&out).unwrap().get("logits").unwrap().f32s(), both[3 * 61..5 * 61]);

    let more = ["--ids", "5 6", "--targets", "0 3 4", "--out", &out, "--replace"];
    printed(&[&["forward", &golden("t5")][..], &more].concat());
    let file = Checkpoint::open(&out).unwrap();
    assert_eq!(file.get("logits").unwrap().shape, [1, 3, 59]);
    assert_eq!(file.get("memory").unwrap().shape, [1, 2, 18]);
    printed(&[
        "forward",
        &golden("bert_classify"),
        "--ids",
        "5 6",
        "--types",
        "0 1",
        "--out",
        &out,
        "--replace",
    ]);
    assert_eq!(Checkpoint::open(&out).unwrap().get("logits").unwrap().shape, [1, 3]);
}

#[test]
fn images_go_through_a_vision_model() {
    let own = Own::new("images");
    let (out, pixels) = (own.at("out.safetensors"), own.at("pixels.safetensors"));
    let answers = Checkpoint::open(Path::new(&golden("vit")).with_file_name("golden.safetensors")).unwrap();
    let image = answers.get("batch.pixel_values").unwrap().f32s();
    let one = regard_data::Save { name: "any", shape: &[3, 3, 10, 14], data: regard_data::Data::F32(&image) };
    regard_data::save_file(&pixels, &[one], &Default::default()).unwrap();
    printed(&["forward", &golden("vit"), "--pixels", &pixels, "--out", &out, "--replace"]);
    let scores = Checkpoint::open(&out).unwrap().get("logits").unwrap().f32s();
    let wanted = answers.get("batch.logits").unwrap().f32s();
    let largest = wanted.iter().fold(0f32, |most, x| most.max(x.abs()));
    assert!(scores.iter().zip(&wanted).all(|(x, y)| (x - y).abs() <= 1e-4 * largest));

    let vit = golden("vit");
    assert_eq!(
        refused(&["forward", &golden("gpt2"), "--pixels", &pixels, "--out", &out, "--replace"]),
        "regard: this is a model of text, and pixels were given; give it ids\n"
    );
    assert_eq!(
        refused(&["forward", &vit, "--ids", "1", "--out", &out, "--replace"]),
        "regard: this is a model of images, and ids were given; give it pixels\n"
    );
    let message = refused(&["forward", &vit, "--pixels", &pixels, "--ids", "1", "--out", &out, "--replace"]);
    assert!(message.contains("'--pixels <FILE>' cannot be used with '--ids <IDS>'"), "{message}");
    let weights = format!("{}/model.safetensors", golden("gpt2"));
    let message = refused(&["forward", &vit, "--pixels", &weights, "--out", &out, "--replace"]);
    assert!(message.contains("no floats called `pixel_values` here; it holds transformer.h.0."), "{message}");
    let message =
        refused(&["forward", &vit, "--pixels", &own.at("absent.safetensors"), "--out", &out, "--replace"]);
    assert!(message.starts_with("regard: cannot ") && message.contains("absent.safetensors"), "{message}");
}

#[test]
fn a_pass_of_nonsense_is_refused() {
    let own = Own::new("nonsense");
    let out = own.at("out.safetensors");
    let (gpt, long) = (golden("gpt2"), "1 ".repeat(20));
    for (more, expected) in [
        (&["--ids", "1 61"][..], "row 1 of the ids has 61 at position 1; this model knows 0 to 60"),
        (&["--ids", "-3"], "row 1 of the ids has -3 at position 0; this model knows 0 to 60"),
        (&["--ids", ""], "row 1 of the ids is empty; give each row at least one"),
        (&["--ids", "1", "--ids", " , "], "row 2 of the ids is empty; give each row at least one"),
        (&["--ids", &long], "row 1 of the ids has 20 positions; this model has room for 19: cut the text"),
        (
            &["--ids", "1", "--tap", "block.0.steam"],
            "no output or tap is called `block.0.steam`; did you mean `block.0.stream`?",
        ),
        (&["--ids", "1", "--targets", "0"], "--targets: only an encoder-decoder has them; leave them out"),
        (
            &[],
            "nothing to run: give --text or --ids \"1 2 3\" to a model of text, --pixels FILE to a model of images",
        ),
    ] {
        let message = refused(&[&["forward", &gpt, "--out", &out, "--replace"], more].concat());
        assert_eq!(message, format!("regard: {expected}\n"));
    }
    for word in ["x", "1.5", "99999999999"] {
        let message = refused(&["forward", &gpt, "--ids", word, "--out", &out, "--replace"]);
        assert!(
            message.starts_with(&format!("regard: --ids: `{word}` is no id; give whole numbers")),
            "{message}"
        );
    }
    let message = refused(&["forward", &gpt, "--ids", "1"]);
    assert!(message.contains("--out <FILE>"), "{message}");
    let message = refused(&["forward", &gpt, "--ids", "1", "--out", &own.at("no/such/out")]);
    assert!(message.starts_with("regard: cannot write ") && message.contains("check the path"), "{message}");
    assert_eq!(message.matches("No such file").count(), 1, "said once: {message}");
    let folder = own.at("");
    let message = refused(&["forward", &gpt, "--ids", "1", "--out", &folder]);
    assert!(message.contains("is a folder; name a file to write"), "{message}");
    assert!(!Path::new(&out).exists(), "nothing is written");
}

#[test]
fn a_model_of_llama2c_becomes_a_folder() {
    let own = Own::new("llama2c");
    let (bin, folder, out) = (own.at("model.bin"), own.at("model"), own.at("out.safetensors"));
    llama2c(&bin);
    let page = json(&["import", &bin, &folder]);
    assert_eq!((&page["family"], &page["dtype"]), (&"llama".into(), &"F32".into()));
    let ids = ["--ids", "1 10 3 4", "--out", &out, "--replace"];
    let scores = |model: &str| {
        printed(&[&["forward", model], &ids[..]].concat());
        Checkpoint::open(&out).unwrap().get("logits").unwrap().f32s()
    };
    assert_eq!(scores(&bin), scores(&folder), "the same model, bit for bit");
    assert_eq!(json(&["describe", &folder])["config"]["model_type"], "llama");
    fs::write(own.at("short.bin"), &fs::read(&bin).unwrap()[..400]).unwrap();
    let message = refused(&["import", &own.at("short.bin"), &own.at("other")]);
    assert!(message.contains("it is cut short or no model of llama2.c"), "{message}");
}

#[test]
fn an_export_keeps_what_it_is_not_told_to_change() {
    let own = Own::new("export");
    let (halves, back) = (own.at("halves"), own.at("back"));
    let page = json(&["export", &golden("llama"), &halves, "--dtype", "f16", "--shard-bytes", "10000"]);
    let files = page["files"].as_array().unwrap().len();
    assert!(files > 3, "{page}");
    assert!(Path::new(&halves).join("model.safetensors.index.json").is_file());
    assert!(Path::new(&halves).join("generation_config.json").is_file());
    // Without --dtype, halves stay halves, and the bytes are the same wherever they lie.
    let again = json(&["export", &halves, &back]);
    assert_eq!((&again["dtype"], &again["checksum"]), (&"F16".into(), &page["checksum"]));
    assert!(Path::new(&back).join("model.safetensors").is_file());
    // An import makes f32 of them.
    assert_eq!(json(&["import", &halves, &own.at("whole")])["dtype"], "F32");
}

#[test]
fn nothing_is_written_over_by_accident() {
    let own = Own::new("over");
    let (gpt, taken, fresh) = (golden("gpt2"), own.at("taken"), own.at("fresh"));
    fs::create_dir(&taken).unwrap();
    fs::write(own.at("taken/notes.txt"), "mine").unwrap();
    for command in ["import", "export"] {
        assert_eq!(
            refused(&[command, &gpt, &taken]),
            format!(
                "regard: {taken}: is not empty; name a new folder, or add --replace to write over what is there\n"
            )
        );
        printed(&[command, &gpt, &taken, "--replace"]);
        assert_eq!(fs::read_to_string(own.at("taken/notes.txt")).unwrap(), "mine");
        assert_eq!(
            refused(&[command, &taken, &taken, "--replace"]),
            format!("regard: {taken}: is where the model lies; name another folder\n")
        );
        let file = own.at("taken/notes.txt");
        assert_eq!(
            refused(&[command, &gpt, &file]),
            format!("regard: {file}: is a file; name a folder to write\n")
        );
        let message = refused(&[command, &gpt, &format!("{file}/inside")]);
        assert!(
            message.starts_with("regard: cannot make ") && message.contains("is a file, not a folder"),
            "{message}"
        );
    }
    let zero = refused(&["export", &gpt, &fresh, "--shard-bytes", "0"]);
    assert_eq!(zero, "regard: --shard-bytes 0: no tensor fits into no bytes; choose at least 1\n");
    let message = refused(&["export", &gpt, &fresh, "--dtype", "int8"]);
    assert!(message.contains("invalid value 'int8'") && message.contains("f32, f16, bf16"), "{message}");
    assert!(!Path::new(&fresh).exists());
}

#[test]
fn heads_that_are_not_read_are_said_and_what_nobody_knows_is_passed_over_when_asked() {
    let own = Own::new("heads");
    let from = PathBuf::from(golden("bert_pretraining"));
    let config = fs::read_to_string(from.join("config.json")).unwrap();
    fs::write(own.at("config.json"), config.replace("BertForPreTraining", "BertForMaskedLM")).unwrap();
    fs::copy(from.join("model.safetensors"), own.at("model.safetensors")).unwrap();
    let folder = own.0.to_str().unwrap();
    let output = regard(&["export", folder, &own.at("out")]);
    let (told, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("4 tensors are no part of this model and were not read: bert.pooler.dense.bias"),
        "{said}"
    );
    assert!(!told.contains("no parameters: "), "{told}");
    // Of a model of BERT's own family alone, a BERT's heads are nobody's.
    fs::write(own.at("config.json"), config.replace("BertForPreTraining", "BertForTokenClassification"))
        .unwrap();
    let message = refused(&["describe", folder]);
    assert!(
        message.contains("missing from the checkpoint") && message.contains("classifier.weight"),
        "{message}"
    );
    let message = refused(&["describe", &golden("bert_labels"), "--ignore", "cls.*"]);
    assert!(message.contains("`cls.*` is to be passed over, and no tensor has such a name"), "{message}");
}

#[test]
fn a_sentence_transformer_is_asked_with_a_prompt_of_its_own() {
    let model = "crates/conformance/goldens/sentences/dense/model";
    let embed = ["embed", model, "--text", "a cat sat", "--text", "the kitten ran"];
    let page = |prompt: &[&str]| json(&[&embed, prompt].concat());
    let (usual, query, passage) =
        (page(&[]), page(&["--prompt-name", "query"]), page(&["--prompt-name", "passage"]));
    assert_eq!(usual["vectors"], query["vectors"]);
    assert_ne!(usual["vectors"], passage["vectors"]);
    let own = usual["cosines"][0][0].as_f64().unwrap();
    assert!((own - 1.0).abs() < 1e-9, "{own}: the vectors of this model have any length");
    let message = refused(&[&embed[..], &["--prompt-name", "search"]].concat());
    assert!(
        message.contains("no prompt is called \"search\"; there are document, passage, query"),
        "{message}"
    );
}
