//! Chat templates in the prompt formats of eight well-known models, and one that calls all that templates of
//! the field call, render as `apply_chat_template` of transformers renders them: what it wrote is in
//! `goldens/chat_templates.json`, made by `parity/chat_templates.py`.

use regard_data::Tokenizer;
use regard_runtime::{ChatTemplate, Companions, Marked, Message};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

fn conformance() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance")
}

fn golden() -> Value {
    let text = fs::read_to_string(conformance().join("goldens/chat_templates.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn template(page: &Value, name: &str) -> ChatTemplate {
    let path = conformance().join(format!("parity/chat_templates/{name}.jinja"));
    let tokens = page["tokens"][name].as_object().unwrap();
    let tokens = tokens.iter().map(|(name, text)| (name.clone(), text.as_str().unwrap().to_owned()));
    let source = fs::read_to_string(path).unwrap();
    ChatTemplate::new(&source, tokens, name).unwrap().at(page["now"].as_i64().unwrap())
}

#[test]
fn templates_render_as_those_of_transformers() {
    let page = golden();
    let mut names: Vec<&str> = Vec::new();
    for case in page["cases"].as_array().unwrap() {
        let messages = Message::list(case["messages"].as_str().unwrap()).unwrap();
        let name = case["template"].as_str().unwrap();
        names.push(name);
        let ours = template(&page, name).render(&messages, case["reply"].as_bool().unwrap());
        match (ours, case["text"].as_str()) {
            (Ok(ours), Some(theirs)) => {
                assert_eq!(ours.text, theirs, "{name}: {messages:?}");
                let marked: Vec<Vec<usize>> = case["marked"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|part| serde_json::from_value(part.clone()).unwrap())
                    .collect();
                let ours: Vec<Vec<usize>> =
                    ours.marked.iter().map(|part| vec![part.start, part.end]).collect();
                assert_eq!(ours, marked, "{name}: {messages:?}");
            }
            (Err(error), None) => {
                let raised = case["refused"].as_str().unwrap();
                let error = error.to_string();
                // What a template raises is quoted; what Python cannot do has words of its own there.
                let quoted = raised.contains("roles must alternate");
                assert_eq!(error.contains(raised), quoted, "{name}: {error}");
            }
            (ours, theirs) => panic!("{name}: {messages:?}: ours {ours:?}, theirs {theirs:?}"),
        }
    }
    names.dedup();
    assert_eq!(names.len(), 10);
}

#[test]
fn replies_are_found_by_marks_or_by_rendering() {
    let page = golden();
    let said = |turns: &[&str]| -> Vec<Message> {
        let role = |at: usize| if at.is_multiple_of(2) { "user" } else { "assistant" };
        turns.iter().enumerate().map(|(at, text)| Message::new(role(at), text)).collect()
    };
    let conversation = said(&["one", "two", "three", "four"]);
    for (name, marked, expected) in [
        ("chatml", Marked::Tags, ["two<|im_end|>", "four<|im_end|>"]),
        ("smollm2", Marked::Prefixes, ["two<|im_end|>\n", "four<|im_end|>\n"]),
        ("llama3", Marked::Prefixes, ["two<|eot_id|>", "four<|eot_id|>"]),
        ("mistral", Marked::Prefixes, [" two</s>", " four</s>"]),
        ("gemma", Marked::Prefixes, ["two<end_of_turn>\n", "four<end_of_turn>\n"]),
        ("zephyr", Marked::Prefixes, ["two</s>\n", "four</s>\n"]),
        // Earlier thoughts are left out once the conversation goes on.
        (
            "qwen3",
            Marked::Apart,
            ["<think>\n\n</think>\n\ntwo<|im_end|>\n", "<think>\n\n</think>\n\nfour<|im_end|>\n"],
        ),
    ] {
        let (texts, how) = template(&page, name).replies(&conversation).unwrap();
        let parts: Vec<&str> =
            texts.iter().flat_map(|one| one.parts.iter().map(|part| &one.text[part.clone()])).collect();
        assert_eq!((how, parts.as_slice()), (marked, expected.as_slice()), "{name}");
        assert_eq!(texts.len(), if how == Marked::Apart { 2 } else { 1 });
    }
    let message = template(&page, "smollm2").replies(&said(&["alone"])).unwrap_err().to_string();
    assert_eq!(
        message,
        "the conversation has no reply: no message of `assistant`; give at least one, or leave it out"
    );
    let ends =
        ["llama3", "phi3", "gemma", "zephyr"].map(|name| template(&page, name).end_of_reply().unwrap());
    assert_eq!(ends, ["<|eot_id|>", "<|end|>\n<|endoftext|>", "<end_of_turn>\n", "</s>\n"]);
}

#[test]
fn a_template_is_found_beside_its_model() {
    let folder = std::env::temp_dir().join(format!("regard-chat-template-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let put = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    assert!(ChatTemplate::beside(&folder).unwrap().is_none());
    put(
        "tokenizer_config.json",
        r#"{"bos_token": {"content": "<s>"}, "eos_token": null, "chat_template": "{{ bos_token }}{{ eos_token }}!"}"#,
    );
    put("special_tokens_map.json", r#"{"bos_token": "<no>", "eos_token": "</s>"}"#);
    let rendered = || {
        let template = ChatTemplate::beside(&folder).unwrap().unwrap();
        template.render(&[Message::new("user", "x")], true).unwrap().text
    };
    assert_eq!(rendered(), "<s></s>!");
    put(
        "tokenizer_config.json",
        r#"{"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]}"#,
    );
    assert_eq!(rendered(), "d");
    put("chat_template.jinja", "own");
    assert_eq!(rendered(), "own");
    fs::remove_file(folder.join("chat_template.jinja")).unwrap();
    for (text, expected) in [
        (
            r#"{"chat_template": [{"name": "rag", "template": "t"}]}"#,
            "of its chat templates none is called `default`",
        ),
        (r#"{"chat_template": 3}"#, "`chat_template` is no text, expected a text, or a list of named ones"),
    ] {
        put("tokenizer_config.json", text);
        let message = ChatTemplate::beside(&folder).unwrap_err().to_string();
        assert!(message.contains(expected) && message.contains("tokenizer_config.json: "), "{message}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_model_without_a_template_is_not_talked_to() {
    let companions = Companions::made(Some(Tokenizer::bytes()));
    let expected = "there is no chat template beside the model: it was not made to be talked to; put chat_template.jinja or \
                    tokenizer_config.json of a model for conversations there, or give a plain text: regard generate --prompt";
    assert_eq!(companions.chat_template().unwrap_err().to_string(), expected);
    assert_eq!(companions.end_of_reply().unwrap_err().to_string(), expected);
    let none = Companions::made(None);
    assert_eq!(
        none.encode_rendered("x").unwrap_err().to_string(),
        "there is no tokenizer beside the model; put its tokenizer.json there"
    );
    assert_eq!(companions.encode_rendered("ab").unwrap(), [97, 98]);
}
