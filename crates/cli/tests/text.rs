//! Journeys with text: `regard embed` and `regard generate` on small committed models, on real ones where
//! they are, and with everything that a person can get wrong.

use regard::data::Checkpoint;
use serde_json::{Value, json};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

fn regard(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_regard")).args(arguments).output().expect("the command starts")
}

/// What a command that fails says, on the right stream, with the right status, without a backtrace.
fn refused(arguments: &[&str]) -> String {
    let output = regard(arguments);
    let message = String::from_utf8(output.stderr).expect("text");
    assert!(!message.contains("panicked"), "{arguments:?}: {message}");
    assert!(matches!(output.status.code(), Some(1 | 2)), "{arguments:?}: {:?} {message}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{arguments:?} printed although it failed");
    message
}

fn printed(arguments: &[&str]) -> String {
    let output = regard(arguments);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {message}");
    String::from_utf8(output.stdout).expect("text")
}

fn page(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(&[arguments, &["--json"]].concat())).expect("JSON")
}

fn goldens(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/goldens/parity").join(name)
}

/// The shared real data, if this checkout has them; says so if not.
fn shared(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = ["../../../shared/data/weights", "../../../../shared/data/weights"]
        .map(|up| root.join(up).join(name))
        .into_iter()
        .find(|path| path.exists());
    if found.is_none() {
        println!("skipped: ../shared/data/weights/{name} is not here");
    }
    found
}

fn numbers(file: &Path, tensor: &str) -> Vec<f32> {
    Checkpoint::open(file).unwrap().get(tensor).unwrap().f32s()
}

/// A folder of a test's own, removed when it ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("regard-text-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    /// A committed model, with this tokenizer beside it.
    fn model(name: &str, tokenizer: impl AsRef<[u8]>) -> Scratch {
        let scratch = Scratch::new();
        for file in fs::read_dir(goldens(name).join("model")).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), scratch.0.join(file.file_name())).unwrap();
        }
        scratch.put("tokenizer.json", tokenizer);
        scratch
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A tokenizer whose tokens are the letters and a space: as many ids as the small Llama knows, none of them
/// special.
fn letters() -> String {
    let signs = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let vocabulary: serde_json::Map<String, Value> =
        signs.chars().enumerate().map(|(id, c)| (c.to_string(), id.into())).collect();
    json!({
        "version": "1.0",
        "added_tokens": [],
        "decoder": { "type": "Fuse" },
        "model": { "type": "BPE", "vocab": vocabulary, "merges": [] },
    })
    .to_string()
}

/// The tokenizer of the examples: word pieces of one letter each, for the small BERT.
fn pieces() -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../regard/examples/letters.json")).unwrap()
}

#[test]
fn ids_are_continued_as_transformers_continues_them() {
    for name in ["gpt2", "llama"] {
        let golden = goldens(name).join("golden.safetensors");
        let ids =
            |tensor: &str| -> Vec<i64> { numbers(&golden, tensor).iter().map(|&id| id as i64).collect() };
        let prompt: Vec<String> = ids("greedy_one.prompt").iter().map(i64::to_string).collect();
        let model = goldens(name).join("model");
        let arguments =
            ["generate", model.to_str().unwrap(), "--ids", &prompt.join(","), "--greedy", "--max", "6"];
        let expected = ids("greedy_one.tokens");
        assert_eq!(page(&arguments)["ids"], json!(expected), "{name}");
        let words: Vec<String> = expected.iter().map(i64::to_string).collect();
        assert_eq!(printed(&arguments).trim_end(), words.join(" "));
    }
}

#[test]
fn text_is_continued_the_same_way_by_the_same_seed() {
    let model = Scratch::model("llama", letters());
    let with = |more: &[&str]| {
        page(
            &[&["generate", model.path(), "--prompt", "a cat", "--max", "12", "--top-p", "1"], more].concat(),
        )
    };
    let first = with(&["--seed", "1"]);
    let text = first["text"].as_str().unwrap();
    assert_eq!((&first["ended"], first["ids"].as_array().unwrap().len()), (&json!("max"), 12), "{first}");
    assert_eq!(first["prompt_ids"], json!([0, 26, 2, 0, 19]));
    assert_eq!(with(&["--seed", "1"])["text"], text);
    assert_eq!(with(&["--seed", "1", "--threads", "1", "--simd", "portable"])["ids"], first["ids"]);
    assert_ne!(with(&["--seed", "2"])["text"], text);
    assert_eq!(with(&["--top-k", "1"])["ids"], with(&["--greedy"])["ids"]);
    assert_eq!(with(&["--min-p", "1"])["ids"], with(&["--temperature", "0"])["ids"]);
    // Streamed, it is the same text, after the prompt.
    let arguments =
        ["generate", model.path(), "--prompt", "a cat", "--max", "12", "--top-p", "1", "--seed", "1"];
    assert_eq!(printed(&arguments), format!("a cat{text}\n"));
}

#[test]
fn weights_may_be_held_as_integers() {
    let model = Scratch::model("llama", letters());
    let with = |more: &[&str]| {
        let arguments = ["generate", model.path(), "--prompt", "a cat", "--max", "12", "--greedy"];
        page(&[&arguments, more].concat())
    };
    for kind in ["int8", "q8", "q4"] {
        let few = with(&["--weights", kind]);
        assert_eq!(few["ids"].as_array().unwrap().len(), 12);
        assert_eq!(with(&["--weights", kind, "--threads", "1", "--simd", "portable"])["ids"], few["ids"]);
    }
    assert_eq!(with(&["--weights", "f32"])["ids"], with(&[])["ids"]);
    let message = refused(&["generate", model.path(), "--prompt", "a", "--weights", "int4"]);
    assert!(message.contains("invalid value 'int4'") && message.contains("q8, q4"), "{message}");

    let model = Scratch::model("bert_masked", pieces());
    let vectors = |kind: &str| -> Vec<f64> {
        let page = page(&["embed", model.path(), "--text", "a cat", "--weights", kind]);
        page["vectors"][0].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
    };
    let exact = vectors("f32");
    for (kind, least) in [("bf16", 0.9999), ("int8", 0.999), ("q8", 0.999), ("q4", 0.97)] {
        let near = vectors(kind);
        let cosine: f64 = exact.iter().zip(&near).map(|(a, b)| a * b).sum();
        assert!(near != exact && cosine > least, "{kind}: {cosine}");
    }
}

#[test]
fn a_stop_text_ends_the_text_before_it() {
    let model = Scratch::model("llama", letters());
    let arguments = ["generate", model.path(), "--prompt", "a cat", "--max", "12", "--seed", "1"];
    let whole = page(&arguments)["text"].as_str().unwrap().to_owned();
    let all: Vec<char> = whole.chars().collect();
    let stop: String = all[5..8].iter().collect();
    let ended = page(&[&arguments[..], &["--stop", &stop, "--stop", "never there"]].concat());
    assert_eq!(ended["ended"], "stop text", "{ended}");
    assert_eq!(ended["text"], whole[..whole.find(&stop).unwrap()]);
    // The beginning of a stop text that does not come is printed after all.
    let half = format!("{}\u{1}", all[11]);
    assert_eq!(page(&[&arguments[..], &["--stop", &half]].concat())["text"], whole);
}

#[test]
fn a_text_goes_on_beyond_the_positions_and_says_so() {
    let model = Scratch::model("gpt2", letters());
    let arguments = ["generate", model.path(), "--prompt", "a cat sits", "--max", "40", "--greedy"];
    let output = regard(&arguments);
    assert!(output.status.success());
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "regard: the text is longer than the model's 19 positions: after 10 new tokens, and 2 times more, it went on \
         from the newest 9\n"
    );
    let long = page(&arguments);
    assert_eq!(long["ended"], "max");
    // The token after the last position needs none; then ten more are free each time.
    assert_eq!(long["reread"], json!([10, 21, 32]));
    let ids: Vec<String> = [&long["prompt_ids"], &long["ids"]]
        .iter()
        .flat_map(|ids| ids.as_array().unwrap())
        .map(Value::to_string)
        .collect();
    assert_eq!(ids.len(), 50);
    // What comes then is what follows the newest nine alone.
    let fresh = ids[11..20].join(",");
    let alone = page(&["generate", model.path(), "--ids", &fresh, "--max", "11", "--greedy"]);
    assert_eq!(alone["ids"].as_array().unwrap()[..], long["ids"].as_array().unwrap()[10..21]);
    assert_eq!(alone["reread"], json!([]));
    // A search ends there.
    let output = regard(&["generate", model.path(), "--prompt", "a cat sits", "--max", "40", "--beams", "2"]);
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "regard: the model's 19 positions are full, and a search ends there\n"
    );
}

/// The small GPT-2 knows 61 ids, the tokenizer 53: at this temperature all are about as likely.
#[test]
fn ids_beyond_the_tokenizer_do_not_end_the_text() {
    let model = Scratch::model("gpt2", letters());
    let hot =
        ["generate", model.path(), "--prompt", "a", "--temperature", "100", "--top-p", "1", "--max", "18"];
    let pages: Vec<Value> =
        ["1", "2", "3"].iter().map(|seed| page(&[&hot[..], &["--seed", seed]].concat())).collect();
    let beyond =
        |page: &Value| page["ids"].as_array().unwrap().iter().filter(|id| id.as_i64() > Some(52)).count();
    let marked = |page: &Value| page["text"].as_str().unwrap().matches('\u{fffd}').count();
    assert!(pages.iter().all(|page| beyond(page) == marked(page)), "{pages:?}");
    assert!(pages.iter().map(beyond).sum::<usize>() > 0, "{pages:?}");
}

#[test]
fn a_request_without_sense_is_refused() {
    let model = Scratch::model("gpt2", letters());
    let with = |more: &[&str]| refused(&[&["generate", model.path(), "--prompt", "a"], more].concat());
    for (options, expected) in [
        (["--temperature", "-1"], "sampling: temperature is -1; choose 0 for the likeliest, or more"),
        (["--temperature", "nan"], "sampling: temperature is NaN; choose 0 for the likeliest, or more"),
        (["--top-k", "0"], "sampling: top_k is 0; keep at least 1 token, or leave it out"),
        (["--top-p", "0"], "sampling: top_p is 0; choose more than 0 and at most 1"),
        (["--top-p", "-0.5"], "sampling: top_p is -0.5; choose more than 0 and at most 1"),
        (["--min-p", "2"], "sampling: min_p is 2; choose from 0 to 1"),
        (
            ["--repetition-penalty", "0"],
            "sampling: repetition_penalty is 0; choose 1 for none, more to punish repetition",
        ),
        (["--max", "0"], "--max 0: nothing to do; choose at least 1 new token"),
        (["--stop", ""], "--stop number 1 is empty, which every text ends with; give it letters"),
    ] {
        assert_eq!(with(&options), format!("regard: {expected}\n"));
    }
    assert!(with(&["--greedy", "--temperature", "1"]).contains("cannot be used with"));
    assert!(refused(&["generate", model.path()]).contains("--prompt <TEXT>"));
    let prompt = |text: &str| refused(&["generate", model.path(), "--prompt", text]);
    assert_eq!(
        prompt(""),
        "regard: prompt 1 is empty, and this model has no token that begins a text; give it a word to begin with\n"
    );
    assert_eq!(
        prompt("a text of too many letters"),
        "regard: the prompt has 26 tokens, the model has room for 19 and needs one for the answer; shorten it\n"
    );
    let message = refused(&["generate", model.path(), "--ids", "3,61"]);
    assert_eq!(
        message,
        "regard: prompt 0: it has the token 61, the vocabulary has 61; use the tokenizer of this model\n"
    );
    assert!(refused(&["generate", model.path(), "--ids", "3,x"]).contains("invalid value 'x'"));
}

#[test]
fn a_model_that_does_not_fit_is_refused() {
    let vit = goldens("vit/model");
    let vit = vit.to_str().unwrap();
    assert_eq!(
        refused(&["generate", vit, "--prompt", "a"]),
        format!("regard: {vit} is a model of images (vit); generate needs a decoder or an encoder-decoder\n")
    );
    assert_eq!(
        refused(&["embed", vit, "--text", "a"]),
        format!(
            "regard: {vit} is a model of images (vit); embed needs an encoder of text, such as a model of the BERT family\n"
        )
    );
    let bert = goldens("bert_masked/model");
    let message = refused(&["generate", bert.to_str().unwrap(), "--prompt", "a"]);
    assert!(message.contains("is an encoder of text (bert); generate needs a decoder"), "{message}");
    let gpt = goldens("gpt2/model");
    let message = refused(&["embed", gpt.to_str().unwrap(), "--text", "a"]);
    assert!(
        message.contains(
            "is a decoder (gpt2); embed needs an encoder of text, such as a model of the BERT family"
        ),
        "{message}"
    );

    for command in [["generate", "--prompt"], ["embed", "--text"]] {
        let message = refused(&[command[0], "no/such/folder", command[1], "a"]);
        assert!(message.contains("no folder is called `no/such/folder`"), "{message}");
        let empty = Scratch::new();
        let message = refused(&[command[0], empty.path(), command[1], "a"]);
        assert!(message.contains("is no model's folder"), "{message}");
    }
}

#[test]
fn a_model_without_its_tokenizer_is_refused() {
    for (command, text, name) in [("generate", "--prompt", "gpt2"), ("embed", "--text", "bert_masked")] {
        let bare = goldens(name).join("model");
        let message = refused(&[command, bare.to_str().unwrap(), text, "a"]);
        assert!(message.contains("no tokenizer here: looked for tokenizer.json"), "{message}");
        let damaged = Scratch::model(name, "{\"version\": ");
        let message = refused(&[command, damaged.path(), text, "a"]);
        assert!(
            message.contains("tokenizer.json:1:12: EOF while parsing a value; mend the JSON"),
            "{message}"
        );
        let many: serde_json::Map<String, Value> = [("a".to_owned(), json!(5000))].into_iter().collect();
        let foreign =
            json!({ "model": { "type": "WordLevel", "vocab": many, "unk_token": "a" } }).to_string();
        let foreign = Scratch::model(name, foreign);
        let message = refused(&[command, foreign.path(), text, "a"]);
        assert!(message.contains("the tokenizer gives the id 5000, the model knows 6"), "{message}");
    }
}

#[test]
fn texts_become_vectors() {
    let model = Scratch::model("bert_masked", pieces());
    let texts = ["embed", model.path(), "--text", "a cat", "--text", "a kitten, too", "--text", "a cat"];
    let all = page(&texts);
    assert_eq!(all["tokens"], json!([6, 13, 6]));
    let vector = |i: usize| all["vectors"][i].as_array().unwrap();
    let length: f64 = vector(1).iter().map(|x| x.as_f64().unwrap().powi(2)).sum();
    assert!(vector(1).len() == 24 && (length - 1.0).abs() < 1e-6, "{length}");
    // Neither company nor padding nor threads change a bit.
    let alone = page(&["embed", model.path(), "--text", "a cat", "--threads", "1", "--simd", "portable"]);
    assert_eq!(all["vectors"][0], alone["vectors"][0]);
    assert_eq!(all["vectors"][0], all["vectors"][2]);
    // More than one batch, from a file.
    let file = model.put("lines.txt", "a cat\n".repeat(40));
    let many = page(&["embed", model.path(), "--file", &file]);
    assert!((0..40).all(|i| many["vectors"][i] == alone["vectors"][0]));

    let line = printed(&["embed", model.path(), "--text", "a cat"]);
    assert_eq!(line.split_whitespace().count(), 24);
    let table = printed(&texts);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0], "          1      2      3");
    assert!(lines[1].starts_with("   1  1.000  0.") && lines[1].ends_with("  1.000  a cat"), "{table}");
    assert_eq!(lines.len(), 4);
}

#[test]
fn texts_that_cannot_be_embedded_are_refused() {
    let model = Scratch::model("bert_masked", pieces());
    let with = |more: &[&str]| refused(&[&["embed", model.path()], more].concat());
    assert_eq!(
        with(&[]),
        "regard: nothing to embed; give --text \"…\", once or more often, or --file with a text on each line\n"
    );
    assert_eq!(with(&["--text", "a", "--text", " "]), "regard: --text number 2 is empty; give it words\n");
    assert_eq!(
        with(&["--text", "more letters than positions"]),
        "regard: text 1 has 26 tokens, the model has room for 21; shorten it, or say --cut\n"
    );
    let cut = page(&["embed", model.path(), "--text", "more letters than positions", "--cut"]);
    assert_eq!(cut["tokens"], json!([21]));
    let message = with(&["--file", "no/such/file"]);
    assert!(message.starts_with("regard: --file no/such/file: No such file"), "{message}");
    let file = |bytes: &[u8]| with(&["--file", &model.put("lines.txt", bytes)]);
    assert!(file(b"").ends_with("lines.txt: is empty; write a text on each line\n"));
    assert!(file(b"a\n\nb\n").ends_with("lines.txt:2: the line is empty; remove it\n"));
    let long = [b"a\n".as_slice(), &vec![b'b'; (1 << 20) + 1]].concat();
    assert!(
        file(&long).ends_with(
            "lines.txt:2: the line has more than 1048576 bytes, the most of one text; divide it\n"
        )
    );
    assert!(file(b"a\n\xff\n").ends_with("lines.txt:2: not UTF-8; save it as such\n"));
    fs::create_dir(model.0.join("1_Pooling")).unwrap();
    model.put("1_Pooling/config.json", "{\"pooling_mode_mean_tokens\": false}");
    assert!(
        with(&["--text", "a"])
            .contains("the vector of a text is made of nothing; embed makes it of one or several of ")
    );
}

#[test]
fn sentences_are_embedded_as_sentence_transformers_does() {
    let Some(model) = shared("all-MiniLM-L6-v2") else { return };
    let file = goldens("minilm/sentences.txt");
    let all = page(&["embed", model.to_str().unwrap(), "--file", file.to_str().unwrap()]);
    let expected = numbers(&goldens("minilm/golden.safetensors"), "embeddings");
    let found = all["vectors"].as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap());
    let found: Vec<f64> = found.map(|x| x.as_f64().unwrap()).collect();
    assert_eq!((found.len(), expected.len()), (8 * 384, 8 * 384));
    let largest = found.iter().zip(&expected).map(|(a, &b)| (a - f64::from(b)).abs()).fold(0.0, f64::max);
    assert!(largest < 1e-5, "{largest}");
}

#[test]
fn a_story_is_told_as_transformers_tells_it() {
    let Some(model) = shared("stories260K/stories260K.bin") else { return };
    let folder = refused(&["generate", model.parent().unwrap().to_str().unwrap(), "--prompt", "a"]);
    let model = model.to_str().unwrap();
    assert!(folder.ends_with(&format!("for a model of llama2.c, name its file: {model}\n")), "{folder}");
    let golden = goldens("stories260k/golden.safetensors");
    let expected: Vec<i64> = numbers(&golden, "tokens").iter().map(|&id| id as i64).collect();
    let written = page(&["generate", model, "--prompt", "", "--greedy", "--max", "64"]);
    assert_eq!(written["prompt_ids"], json!([1]));
    assert_eq!(written["ids"], json!(expected[1..]));
    let story = fs::read_to_string(goldens("stories260k/story.txt")).unwrap();
    let text = printed(&["generate", model, "--prompt", "", "--greedy", "--max", "64"]);
    assert_eq!(text.trim_end(), story.trim_end());

    // Sampled, it is another story of the same world, and of words that the first ones know.
    let text = printed(&["generate", model, "--prompt", "Lily", "--temperature", "0.7", "--max", "150"]);
    assert!(text.starts_with("Lily") && text.contains(" the ") && text.contains(". "), "{text}");
}

/// A model that says nothing, slowly: llama2.c's file of zeros, whose likeliest token is always the first.
fn silent(scratch: &Scratch) -> String {
    let (c, f, v, t) = (32, 32, 259, 30_000);
    let mut model: Vec<u8> = [c, f, 2, 2, 2, v, t].iter().flat_map(|n: &i32| n.to_le_bytes()).collect();
    let layer = 2 * c + 4 * c * c + 3 * c * f;
    let count = v * c + 2 * layer + c + t * (c / 2);
    model.resize(28 + 4 * count as usize, 0);
    let mut tokenizer = 6i32.to_le_bytes().to_vec();
    let pieces = ["silent", "<s>", "</s>"].map(str::to_owned).into_iter();
    for piece in pieces.chain((0..256).map(|byte| format!("<0x{byte:02X}>"))) {
        tokenizer.extend([0f32.to_le_bytes(), (piece.len() as i32).to_le_bytes()].concat());
        tokenizer.extend(piece.bytes());
    }
    scratch.put("tok.bin", tokenizer);
    scratch.put("silent.bin", model)
}

fn spawn(model: &str, more: &[&str]) -> std::process::Child {
    let arguments = [&["generate", model, "--prompt", "so", "--greedy", "--max", "29000"], more].concat();
    let mut command = Command::new(env!("CARGO_BIN_EXE_regard"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn text_comes_as_it_is_made_and_whoever_stops_reading_ends_it() {
    let scratch = Scratch::new();
    let mut child = spawn(&silent(&scratch), &[]);
    let mut first = [0; 20];
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"sosilentsilentsilent");
    assert!(child.try_wait().unwrap().is_none(), "it is still talking");
    drop(out);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_text_with_a_whole_word_and_a_line() {
    let scratch = Scratch::new();
    let mut child = spawn(&silent(&scratch), &[]);
    let mut text = vec![0; 20];
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut text).unwrap();
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    out.read_to_end(&mut text).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output);
    let text = String::from_utf8(text).unwrap();
    let words = text.strip_prefix("so").and_then(|rest| rest.strip_suffix('\n')).unwrap();
    assert_eq!(words.replace("silent", ""), "");
    assert!(words.len() < 29_000 * "silent".len(), "it was not interrupted");
}

#[test]
fn texts_go_through_a_model_as_their_ids_do() {
    let model = Scratch::model("llama", letters());
    let (by_text, by_ids) = (model.0.join("text.safetensors"), model.0.join("ids.safetensors"));
    let (text_out, ids_out) = (by_text.to_str().unwrap(), by_ids.to_str().unwrap());
    printed(&["forward", model.path(), "--text", "abc b", "--text", "zz", "--out", text_out]);
    printed(&["forward", model.path(), "--ids", "0 1 2 26 1", "--ids", "25 25", "--out", ids_out]);
    let (text, ids) = (numbers(&by_text, "logits"), numbers(&by_ids, "logits"));
    assert!(text.len() == 2 * 5 * 53 && text == ids);

    let message = refused(&["forward", model.path(), "--text", "a", "--ids", "1", "--out", text_out]);
    assert!(message.contains("cannot be used with"), "{message}");
    let vit = goldens("vit").join("model");
    assert_eq!(
        refused(&["forward", vit.to_str().unwrap(), "--text", "a", "--out", text_out, "--replace"]),
        "regard: this is a model of images, and texts were given; give it pixels\n"
    );
    let bare = goldens("gpt2").join("model");
    let message =
        refused(&["forward", bare.to_str().unwrap(), "--text", "a", "--out", text_out, "--replace"]);
    assert!(message.contains("no tokenizer here: looked for tokenizer.json"), "{message}");
}
