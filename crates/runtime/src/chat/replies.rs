//! Which part of a rendered conversation the model wrote: what it learns from when it learns to reply. By the
//! template's own marks where it has them; else by rendering the conversation up to each reply, with and
//! without it. Where the beginning of a conversation is rendered otherwise once it goes on (templates that
//! drop earlier thoughts), each reply is a text of its own, as the model will meet it.

use super::message::Message;
use super::template::ChatTemplate;
use crate::{Error, Result};
use std::fmt;
use std::ops::Range;

/// A text and the parts of it that the model wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replies {
    /// The text.
    pub text: String,
    /// What the model wrote, as bytes of the text, in order.
    pub parts: Vec<Range<usize>>,
}

/// How the parts were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marked {
    /// By the template's `generation` tags.
    Tags,
    /// By rendering up to each reply.
    Prefixes,
    /// The same, with a text for each reply.
    Apart,
}

impl fmt::Display for Marked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Marked::Tags => "marked by the template",
            Marked::Prefixes => "found by rendering up to each",
            Marked::Apart => "found by rendering up to each, one text for each",
        })
    }
}

impl ChatTemplate {
    /// The texts of a conversation with the model's parts: one text, or one for each reply.
    pub fn replies(&self, messages: &[Message]) -> Result<(Vec<Replies>, Marked)> {
        if !messages.iter().any(Message::is_reply) {
            return Err(Error::invalid(
                "the conversation has no reply: no message of `assistant`",
                "give at least one, or leave it out",
            ));
        }
        let whole = self.render(messages, false)?;
        if self.has_marks() {
            if whole.marked.is_empty() {
                return Err(Error::File {
                    path: self.origin().to_owned(),
                    what: "the chat template marks no reply of the conversation".into(),
                    advice: "take the template that came with the model".into(),
                });
            }
            return Ok((vec![Replies { text: whole.text, parts: whole.marked }], Marked::Tags));
        }
        let mut apart = Vec::new();
        for (at, _) in messages.iter().enumerate().filter(|(_, message)| message.is_reply()) {
            let before = match at {
                0 => String::new(),
                _ => self.render(&messages[..at], true)?.text,
            };
            let text = self.render(&messages[..=at], false)?.text;
            if !text.starts_with(&before) || text.len() == before.len() {
                return Err(Error::File {
                    path: self.origin().to_owned(),
                    what: format!(
                        "the chat template renders the conversation up to message {} not as the beginning of \
                         what it renders with it, so that nobody knows what of it is the reply",
                        at + 1
                    ),
                    advice: "put {% generation %} and {% endgeneration %} around it in the template".into(),
                });
            }
            let reply = before.len()..text.len();
            apart.push(Replies { parts: std::iter::once(reply).collect(), text });
        }
        if apart.iter().all(|one| whole.text.starts_with(&one.text)) {
            let parts = apart.into_iter().flat_map(|one| one.parts).collect();
            return Ok((vec![Replies { text: whole.text, parts }], Marked::Prefixes));
        }
        Ok((apart, Marked::Apart))
    }

    /// The text with which the template ends a reply, as far as it is the same for all: `<|im_end|>` of many.
    pub fn end_of_reply(&self) -> Option<String> {
        let after = self.after_reply()?;
        Some(after.trim_start().to_owned()).filter(|after| !after.is_empty())
    }

    /// The same with the white space before it.
    pub fn after_reply(&self) -> Option<String> {
        const SAID: &str = "q7-x-93-reply";
        let messages = [Message::new("user", "q"), Message::new("assistant", SAID)];
        let text = self.render(&messages, false).ok()?.text;
        let (_, after) = text.rsplit_once(SAID)?;
        Some(after.to_owned()).filter(|after| !after.is_empty())
    }
}
