//! One message of a conversation: an object with a role, a content, and whatever else a template may read
//! (`tool_calls`, `reasoning_content`). Keys keep the order of the file, for templates that print them.

use crate::{Error, Result};
use minijinja::Value;

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Message(Value);

impl<'de> serde::Deserialize<'de> for Message {
    /// An object with a role; keys keep their order.
    fn deserialize<D: serde::Deserializer<'de>>(source: D) -> std::result::Result<Message, D::Error> {
        let value = Value::deserialize(source)?;
        Message::checked(value, 0).map_err(|_| serde::de::Error::custom("a message without a `role`"))
    }
}

impl Message {
    /// A plain one.
    pub fn new(role: &str, content: &str) -> Message {
        let fields = [("role", Value::from(role)), ("content", Value::from(content))];
        Message(fields.into_iter().collect())
    }

    /// A list of messages, as JSON has them: `[{"role": "user", "content": "…"}]`.
    pub fn list(json: &str) -> Result<Vec<Message>> {
        let advice = "give [{\"role\": \"user\", \"content\": \"…\"}, …]";
        let values: Vec<Value> = serde_json::from_str(json)
            .map_err(|error| Error::invalid(format!("the messages are no list in JSON: {error}"), advice))?;
        values.into_iter().enumerate().map(|(at, value)| Message::checked(value, at)).collect()
    }

    /// Refuses what no template could read.
    pub fn checked(value: Value, at: usize) -> Result<Message> {
        let has_role = value.get_attr("role").is_ok_and(|role| role.as_str().is_some());
        if !has_role {
            return Err(Error::invalid(
                format!("message {} has no `role`", at + 1),
                "give each message one, such as system, user or assistant",
            ));
        }
        Ok(Message(value))
    }

    /// Who speaks.
    pub fn role(&self) -> String {
        self.0.get_attr("role").ok().and_then(|role| role.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// What is said, where it is plain text.
    pub fn content(&self) -> Option<String> {
        self.0.get_attr("content").ok().and_then(|content| content.as_str().map(str::to_owned))
    }

    /// Whether the model said it.
    pub fn is_reply(&self) -> bool {
        self.0.get_attr("role").is_ok_and(|role| role.as_str() == Some("assistant"))
    }

    /// As templates see it.
    pub(super) fn value(&self) -> &Value {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_stands() {
        let all = Message::list(r#"[{"role": "assistant", "z": 1, "content": "é", "a": 2}]"#).unwrap();
        assert_eq!((all[0].role().as_str(), all[0].content().as_deref()), ("assistant", Some("é")));
        assert!(all[0].is_reply());
        let keys: Vec<String> = all[0].value().try_iter().unwrap().map(|key| key.to_string()).collect();
        assert_eq!(keys, ["role", "z", "content", "a"], "the order of the file");
        assert_eq!(Message::new("user", "x").value().get_attr("content").unwrap().as_str(), Some("x"));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let message = Message::list("{}").unwrap_err().to_string();
        assert!(message.starts_with("the messages are no list in JSON: "), "{message}");
        assert_eq!(
            Message::list(r#"[{"role": "user"}, {"content": "x"}]"#).unwrap_err().to_string(),
            "message 2 has no `role`; give each message one, such as system, user or assistant"
        );
        assert_eq!(
            Message::checked(Value::from(3), 0).unwrap_err().to_string(),
            "message 1 has no `role`; give each message one, such as system, user or assistant"
        );
    }
}
