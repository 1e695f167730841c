//! A conversation that goes on: what was said so far, and as much of it as a model has room for. Where it has
//! no more, the oldest exchanges are left out; what the system was told stays.

use super::message::Message;
use super::template::ChatTemplate;
use crate::{Error, Result};

/// A conversation that goes on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chat {
    system: Option<String>,
    turns: Vec<Message>,
}

/// A prompt that fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fitted {
    /// The text up to the reply.
    pub text: String,
    /// How many messages were left out, the oldest.
    pub left_out: usize,
}

impl Chat {
    /// A new one, with what the system is told.
    pub fn new(system: Option<String>) -> Chat {
        Chat { system, turns: Vec::new() }
    }

    /// Tells the system something else; what was said stays.
    pub fn set_system(&mut self, system: Option<String>) {
        self.system = system;
    }

    /// Forgets what was said.
    pub fn reset(&mut self) {
        self.turns.clear();
    }

    /// The person says something.
    pub fn ask(&mut self, text: &str) {
        self.turns.push(Message::new("user", text));
    }

    /// The model has said something.
    pub fn reply(&mut self, text: &str) {
        self.turns.push(Message::new("assistant", text));
    }

    /// Takes the last message back, if there is one.
    pub fn take_back(&mut self) {
        self.turns.pop();
    }

    /// All messages, the system's first.
    pub fn messages(&self) -> Vec<Message> {
        self.system
            .iter()
            .map(|text| Message::new("system", text))
            .chain(self.turns.iter().cloned())
            .collect()
    }

    /// The prompt for the next reply, in at most `room` tokens, which `count` counts. The oldest exchanges
    /// are left out where it is longer, never the newest message. Each left out is left out for good.
    pub fn prompt(
        &mut self,
        template: &ChatTemplate,
        room: Option<usize>,
        count: &mut dyn FnMut(&str) -> Result<usize>,
    ) -> Result<Fitted> {
        let mut left_out = 0;
        loop {
            let text = template.render(&self.messages(), true)?.text;
            let Some(room) = room else { return Ok(Fitted { text, left_out }) };
            let tokens = count(&text)?;
            if tokens <= room {
                return Ok(Fitted { text, left_out });
            }
            // A question goes with its answer: what is left begins with a question again.
            let question = |message: &Message| message.role() == "user";
            let next = self.turns.iter().skip(1).position(question).map(|at| at + 1);
            let Some(next) = next else {
                return Err(Error::invalid(
                    format!(
                        "the message has {tokens} tokens with what stands around it, and there is room for {room}"
                    ),
                    "say it in fewer words, or leave more room for it with fewer new tokens",
                ));
            };
            self.turns.drain(..next);
            left_out += next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template() -> ChatTemplate {
        ChatTemplate::new("{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}a:", [], "t")
            .unwrap()
    }

    #[test]
    fn the_oldest_exchanges_are_left_out() {
        let mut chat = Chat::new(Some("be brief".into()));
        for turn in 0..3 {
            chat.ask(&format!("q{turn}"));
            chat.reply(&format!("r{turn}"));
        }
        chat.ask("q3");
        let mut letters = |text: &str| Ok(text.len());
        let all = chat.prompt(&template(), Some(100), &mut letters).unwrap();
        assert_eq!(all.text, "s:be brief;u:q0;a:r0;u:q1;a:r1;u:q2;a:r2;u:q3;a:");
        assert_eq!(all.left_out, 0);
        let some = chat.prompt(&template(), Some(34), &mut letters).unwrap();
        assert_eq!((some.text.as_str(), some.left_out), ("s:be brief;u:q2;a:r2;u:q3;a:", 4));
        let message = chat.prompt(&template(), Some(10), &mut letters).unwrap_err().to_string();
        assert_eq!(
            message,
            "the message has 18 tokens with what stands around it, and there is room for 10; say it in fewer words, or \
             leave more room for it with fewer new tokens"
        );
        chat.take_back();
        chat.reset();
        chat.set_system(None);
        assert_eq!(chat, Chat::default());
    }
}
