//! Conversations to learn from: JSON lines with `messages`, or with `prompt` and `completion`; or invented
//! ones, small tasks on made-up words, where no file is given. A template makes texts of them and says what
//! of each the model is to say.

use crate::{Error, Result};
use regard_data::dataset::{Cut, TextRows};
use regard_runtime::{ChatTemplate, Marked, Message, Replies};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The template of models that are made anew and whose recipe names none.
const PLAIN: &str = "{% for message in messages %}{{ message.role }}: {{ message.content }}
{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}";

/// The template of a recipe: the file that it names, or that of the model that it starts from, or a plain
/// one.
pub(super) fn template(named: Option<&Path>, from: Option<&Path>) -> Result<ChatTemplate> {
    let beside = from.map(ChatTemplate::beside).transpose()?.flatten();
    match (named, beside, from) {
        (Some(path), beside, _) => {
            let source =
                std::fs::read_to_string(path).map_err(|error| regard_data::Error::io("read", path, error))?;
            let tokens = beside.iter().flat_map(ChatTemplate::tokens);
            let tokens = tokens.map(|(name, text)| (name.to_owned(), text.to_owned())).collect::<Vec<_>>();
            Ok(ChatTemplate::new(&source, tokens, path.display().to_string())?)
        }
        (None, Some(template), _) => Ok(template),
        (None, None, Some(folder)) => Err(Error::invalid(
            format!("there is no chat template beside {}", folder.display()),
            "put its chat_template.jinja there, or name one: data.template",
        )),
        (None, None, None) => Ok(ChatTemplate::new(PLAIN, [], "the plain chat template")?),
    }
}

/// One line of a file.
#[derive(Deserialize)]
struct Line {
    messages: Option<Vec<Message>>,
    prompt: Option<Said>,
    completion: Option<Said>,
}

/// A text, or messages.
#[derive(Deserialize)]
#[serde(untagged)]
enum Said {
    Text(String),
    Messages(Vec<Message>),
}

impl Said {
    fn messages(self, role: &str) -> Vec<Message> {
        match self {
            Said::Text(text) => vec![Message::new(role, &text)],
            Said::Messages(messages) => messages,
        }
    }
}

/// The conversations of files, rendered.
pub(super) fn read(files: &[PathBuf], template: &ChatTemplate) -> Result<(Vec<Replies>, Marked)> {
    let (mut all, mut how) = (Vec::new(), Marked::Prefixes);
    for path in files {
        let rows = TextRows::open(path, Cut::Lines)?;
        for (at, row) in rows.iter().enumerate() {
            let row = row?;
            if row.trim().is_empty() {
                continue;
            }
            let place = format!("{}:{}", path.display(), at + 1);
            let line: Line = serde_json::from_str(&row).map_err(|error| {
                let advice = "give {\"messages\": [{\"role\": …, \"content\": …}]}";
                Error::at(&place, format!("no conversation: {error}"), advice)
            })?;
            let messages = match (line.messages, line.prompt, line.completion) {
                (Some(messages), _, _) => messages,
                (None, Some(prompt), Some(completion)) => {
                    let mut messages = prompt.messages("user");
                    messages.extend(completion.messages("assistant"));
                    messages
                }
                _ => {
                    let advice = "give each line `messages`, or `prompt` and `completion`";
                    return Err(Error::at(&place, "the line has no conversation", advice));
                }
            };
            let (texts, found) = template
                .replies(&messages)
                .map_err(|error| Error::at(&place, error.to_string(), "mend the line, or leave it out"))?;
            how = found;
            all.extend(texts);
        }
    }
    Ok((all, how))
}

/// Invented conversations: a word to be said backwards, in capitals, or twice.
pub(super) fn invented(count: usize, seed: u64, template: &ChatTemplate) -> Result<(Vec<Replies>, Marked)> {
    let (mut all, mut how) = (Vec::new(), Marked::Prefixes);
    for number in 0..count as u64 {
        let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number.wrapping_mul(0xd134_2543_de82_ef95);
        let mut draw = Draw(mixed);
        let mut messages = Vec::new();
        for _ in 0..1 + draw.below(2) {
            let length = 2 + draw.below(2);
            let word: String = (0..length).map(|_| SYLLABLES[draw.below(SYLLABLES.len())]).collect();
            let (asked, said) = match draw.below(3) {
                0 => (format!("Say {word} backwards."), word.chars().rev().collect()),
                1 => (format!("Say {word} in capitals."), word.to_uppercase()),
                _ => (format!("Say {word} twice."), format!("{word} {word}")),
            };
            messages.push(Message::new("user", &asked));
            messages.push(Message::new("assistant", &said));
        }
        let (texts, found) = template.replies(&messages)?;
        how = found;
        all.extend(texts);
    }
    Ok((all, how))
}

const SYLLABLES: [&str; 12] = ["ba", "ko", "ri", "mu", "te", "sal", "dor", "fi", "ne", "pul", "gra", "zo"];

/// SplitMix64.
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % most.max(1) as u64) as usize
    }
}
