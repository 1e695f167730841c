//! Where a model's chat template lies: `chat_template.jinja` beside it, or else `chat_template` in
//! `tokenizer_config.json`, as one text or as a list of named ones, of which `default` is taken. The special
//! tokens come from `tokenizer_config.json`, and what it does not have from `special_tokens_map.json`.

use super::template::ChatTemplate;
use crate::{Error, Result};
use regard_data::folder::read_json;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// The longest file that is read.
const MOST: u64 = 4 << 20;

impl ChatTemplate {
    /// The template beside a model, if there is one. `folder` is the model's.
    pub fn beside(folder: &Path) -> Result<Option<ChatTemplate>> {
        let [file, config, map] = ["chat_template.jinja", "tokenizer_config.json", "special_tokens_map.json"]
            .map(|name| folder.join(name));
        let read = |path: &Path| if path.is_file() { read_json(path) } else { Ok(Value::Null) };
        let settings = read(&config)?;
        let mut tokens = BTreeMap::new();
        for part in [&settings, &read(&map)?] {
            for (name, value) in part.as_object().into_iter().flatten() {
                let text = value.as_str().or_else(|| value["content"].as_str());
                if let (true, Some(text)) = (name.ends_with("_token"), text) {
                    tokens.entry(name.clone()).or_insert_with(|| text.to_owned());
                }
            }
        }
        if file.is_file() {
            return ChatTemplate::new(&read_text(&file)?, tokens, file.display().to_string()).map(Some);
        }
        let wrong = |what: String| Error::File {
            path: config.display().to_string(),
            what,
            advice: "take the file that came with the model".into(),
        };
        let source = match &settings["chat_template"] {
            Value::Null => return Ok(None),
            Value::String(text) => text.clone(),
            Value::Array(all) => {
                let named = |template: &&Map<String, Value>| {
                    template.get("name").and_then(Value::as_str) == Some("default")
                };
                let default = all.iter().filter_map(Value::as_object).find(named);
                match default.and_then(|template| template.get("template")).and_then(Value::as_str) {
                    Some(text) => text.to_owned(),
                    None => return Err(wrong("of its chat templates none is called `default`".into())),
                }
            }
            other => {
                let kind = if other.is_object() { "an object" } else { "no text" };
                return Err(wrong(format!(
                    "`chat_template` is {kind}, expected a text, or a list of named ones"
                )));
            }
        };
        ChatTemplate::new(&source, tokens, config.display().to_string()).map(Some)
    }
}

fn read_text(path: &Path) -> Result<String> {
    let failed = |error| regard_data::Error::io("read", path, error);
    let length = std::fs::metadata(path).map_err(failed)?.len();
    if length > MOST {
        return Err(Error::File {
            path: path.display().to_string(),
            what: format!("has {length} bytes, more than any chat template"),
            advice: "take the file that came with the model".into(),
        });
    }
    Ok(std::fs::read_to_string(path).map_err(failed)?)
}
