//! Journeys with conversations: `regard generate --chat` and `regard chat`, by the template beside a small
//! committed model, and what people can get wrong with them.

use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder with the small Llama, a tokenizer of letters with three special tokens, and a chat template.
struct Model(PathBuf);

const TEMPLATE: &str = "{% for m in messages %}{% if m.role == 'system' %}{{ m.content }};\
                        {% elif m.role == 'user' %}<u>{{ m.content }}<e>{% else %}<a>{{ m.content }}<e>{% endif %}\
                        {% endfor %}{% if add_generation_prompt %}<a>{% endif %}";

impl Model {
    fn new() -> Model {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("regard-chat-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/goldens/parity/llama/model");
        for file in ["config.json", "model.safetensors"] {
            fs::copy(golden.join(file), path.join(file)).unwrap();
        }
        let model = Model(path);
        model.put("tokenizer.json", &tokenizer());
        model.put("chat_template.jinja", TEMPLATE);
        model.put("tokenizer_config.json", r#"{"eos_token": "<e>"}"#);
        model
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    fn name(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// 53 tokens, as many as the small Llama knows: three special ones, letters, signs.
fn tokenizer() -> String {
    let mut vocabulary = serde_json::Map::new();
    for (id, token) in ["<u>", "<a>", "<e>"].iter().enumerate() {
        vocabulary.insert((*token).into(), json!(id));
    }
    for letter in ('a'..='z').chain("ABCDEFGHIJKLMNOP .;?!:,-".chars()).take(50) {
        vocabulary.insert(letter.to_string(), json!(vocabulary.len()));
    }
    let added: Vec<Value> = ["<u>", "<a>", "<e>"]
        .iter()
        .enumerate()
        .map(|(id, content)| {
            json!({"id": id, "content": content, "special": true, "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false})
        })
        .collect();
    let page = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": null, "post_processor": null, "decoder": {"type": "Fuse"},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocabulary, "merges": []},
    });
    page.to_string()
}

fn regard(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_regard"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn pages(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The reply to a message is the continuation of what the template makes of it, up to the token that closes
/// a reply.
#[test]
fn a_message_is_answered_by_the_template() {
    let model = Model::new();
    let common = ["--greedy", "--max", "9", "--json"];
    let chat =
        regard(&[&["generate", model.name(), "--chat", "hi?", "--system", "be"], &common[..]].concat(), "");
    let chat = &pages(&chat)[0];
    let given: Vec<i64> =
        chat["prompt_ids"].as_array().unwrap().iter().map(|id| id.as_i64().unwrap()).collect();
    let shown: String = given.iter().map(|id| tokenizer_letter(*id)).collect();
    assert_eq!(shown, "be;<u>hi?<e><a>");
    let list = given.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let plain = regard(&["generate", model.name(), "--ids", &list, "--greedy", "--max", "9", "--json"], "");
    let plain = &pages(&plain)[0];
    // Plain ids have no end of their own.
    let until: Vec<&Value> =
        plain["ids"].as_array().unwrap().iter().take_while(|id| **id != json!(2)).collect();
    let replied: Vec<&Value> =
        chat["ids"].as_array().unwrap().iter().take_while(|id| **id != json!(2)).collect();
    assert_eq!(replied, until);
    let text =
        regard(&["generate", model.name(), "--chat", "hi?", "--system", "be", "--greedy", "--max", "9"], "");
    let text = String::from_utf8(text.stdout).unwrap();
    assert_eq!(text.trim_end_matches('\n'), chat["text"].as_str().unwrap(), "the reply alone is printed");
}

fn tokenizer_letter(id: i64) -> String {
    let page: Value = serde_json::from_str(&tokenizer()).unwrap();
    let vocabulary = page["model"]["vocab"].as_object().unwrap();
    vocabulary.iter().find(|(_, known)| known.as_i64() == Some(id)).unwrap().0.clone()
}

/// A conversation goes on from what was said; commands are no messages; what has no room is left out.
#[test]
fn a_conversation_goes_on_line_by_line() {
    let model = Model::new();
    let arguments = ["chat", model.name(), "--greedy", "--max", "3", "--json"];
    let output = regard(&arguments, "hi\n\n/system be\nyo\n/reset\nhi\n/nonsense\n");
    let turns = pages(&output);
    assert_eq!(turns.len(), 3);
    let tokens: Vec<i64> = turns.iter().map(|turn| turn["prompt_tokens"].as_i64().unwrap()).collect();
    let reply = turns[0]["reply"].as_str().unwrap().chars().count() as i64;
    // <u>hi<e><a>; then be; before, and <u>hi<e><a>reply<e><u>yo<e><a>; then be;<u>hi<e><a>
    assert_eq!(tokens, [5, 3 + 4 + 1 + reply + 1 + 5, 8]);
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        notes,
        "regard: the system is told so\nregard: what was said is forgotten\nregard: there is no command /nonsense; there are \
         /reset and /system TEXT\n"
    );
    let output = regard(&arguments, "abcdefg\nhijklmn\nopqrst\n");
    let turns = pages(&output);
    assert!(turns[2]["left_out"].as_i64().unwrap() >= 2, "{turns:?}");
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(notes.contains("messages are left out: the model has no room for them"), "{notes}");
    let plain = regard(&["chat", model.name(), "--greedy", "--max", "3"], "hi\n");
    assert_eq!(String::from_utf8_lossy(&plain.stdout).trim(), turns_reply(&model));
    // One that cannot fit does not end the conversation.
    let output = regard(&arguments, "abcdefghijklmnopqrstuvwxyz\nhi\n");
    assert_eq!(pages(&output).len(), 1);
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        notes.contains("the message has 29 tokens with what stands around it, and there is room for 20"),
        "{notes}"
    );
}

fn turns_reply(model: &Model) -> String {
    let output = regard(&["chat", model.name(), "--greedy", "--max", "3", "--json"], "hi\n");
    pages(&output)[0]["reply"].as_str().unwrap().to_owned()
}

#[test]
fn what_cannot_be_talked_to_is_refused() {
    let model = Model::new();
    let refused = |arguments: &[&str]| {
        let output = regard(arguments, "hi\n");
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    model.put("chat_template.jinja", "{{ raise_exception('no system here') }}");
    let message = refused(&["generate", model.name(), "--chat", "hi"]);
    assert!(message.contains("the chat template refuses the conversation: no system here"), "{message}");
    model.put(
        "chat_template.jinja",
        "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
    );
    let message = refused(&["generate", model.name(), "--chat", "hi"]);
    assert!(message.contains("the chat template does not come to an end"), "{message}");
    fs::remove_file(model.0.join("chat_template.jinja")).unwrap();
    for command in [vec!["chat", model.name()], vec!["generate", model.name(), "--chat", "hi"]] {
        let message = refused(&command);
        assert!(message.contains("there is no chat template beside "), "{message}");
    }
    assert!(refused(&["chat", model.name(), "--max", "0"]).contains("--max 0: nothing to do"));
    assert!(refused(&["generate", model.name(), "--prompt", "a", "--system", "b"]).contains("--chat"));
}

/// The small Llama learns to reply, by adapters alone: what is kept is small, what is exported is read by
/// every command, merged it answers the same, and what it did not learn from is not touched.
#[test]
fn a_model_learns_to_reply_by_adapters() {
    let model = Model::new();
    let pairs = [("hi", "yo"), ("ab", "ba"), ("cd", "dc"), ("hi", "yo"), ("ef", "fe"), ("ab", "ba")];
    let line = |(asked, said): &(&str, &str)| {
        json!({"messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": said}]})
            .to_string()
    };
    let text = pairs.iter().map(line).collect::<Vec<_>>().join("\n")
        + "\n{\"prompt\": \"hi\", \"completion\": \"yo\"}\n";
    model.put("chats.jsonl", &text);
    let recipe = format!(
        "task = \"language\"\n[from]\nmodel = {0:?}\n[data]\nkind = \"chats\"\ntrain = [{1:?}]\nevaluate = [{1:?}]\n\
         [adapt]\nrank = 4\nalpha = 8.0\ntarget = [\"attention.*\", \"feed_forward.down\"]\n\
         [train]\nsteps = 60\nbatch = 7\nlr = 0.03\ndropout = 0.0\nweight_decay = 0.0\nevaluate_every = 30\n",
        model.name(),
        model.0.join("chats.jsonl")
    );
    model.put("learn.toml", &recipe);
    let (path, run) = (model.0.join("learn.toml"), model.0.join("run"));
    let (path, run) = (path.to_str().unwrap(), run.to_str().unwrap());
    let output = regard(&["train", path, "--out", run], "");
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("only replies are learned, found by rendering up to each"), "{said}");
    assert!(said.contains("adapters of rank 4 on 10 weights"), "{said}");
    let result: Value =
        serde_json::from_str(&fs::read_to_string(Path::new(run).join("result.json")).unwrap()).unwrap();
    let loss = result["metrics"]["loss"].as_f64().unwrap();
    let counted = result["baselines"][0]["value"].as_f64().unwrap();
    assert!(loss < 0.2 && loss < counted, "{result}");
    // Adapters alone are exported and kept.
    let files = |folder: &str| -> Vec<String> {
        let all = fs::read_dir(Path::new(run).join(folder)).unwrap();
        all.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
    };
    assert!(files("model").contains(&"adapter_model.safetensors".into()), "{:?}", files("model"));
    assert!(!files("model").contains(&"model.safetensors".into()));
    let chat = |name: &str, extra: &[&str]| {
        let arguments = [&["generate", name, "--chat", "ab", "--greedy", "--max", "5"], extra].concat();
        let output = regard(&arguments, "");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(chat(run, &[]), "ba");
    assert_eq!(chat(run, &["--checkpoint", "last"]), "ba");
    assert_ne!(chat(model.name(), &[]), "ba");
    let (merged, adapter) = (model.0.join("merged"), model.0.join("adapter"));
    let (merged, adapter) = (merged.to_str().unwrap(), adapter.to_str().unwrap());
    assert!(regard(&["export", run, merged, "--merge"], "").status.success());
    assert!(regard(&["export", run, adapter], "").status.success());
    assert_eq!((chat(merged, &[]), chat(adapter, &[])), ("ba".into(), "ba".into()));
    let output = regard(&["export", model.name(), &format!("{merged}-2"), "--merge"], "");
    assert!(String::from_utf8_lossy(&output.stderr).contains("is no adapter; leave it out"));
    // What cannot be adapted is said before anything is made.
    for (from, to, expected) in
        [("attention.*", "attention.qery", "attention.q"), ("rank = 4", "rank = 0", "adapt.rank is 0")]
    {
        model.put("learn.toml", &recipe.replace(from, to));
        let output = regard(&["train", path, "--out", &format!("{run}-{}", to.len())], "");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(expected), "{to}: {said}");
    }
}
