//! A chat template: messages to the text that a model was trained on, as `apply_chat_template` of
//! transformers renders them. A template is a program of a stranger's: it has so many instructions, may print
//! so much, and no value in it grows past a limit.

use super::bound::{Guarded, guarded};
use super::guarded as gave_up;
use super::message::Message;
use super::python::{self, BEGIN, END, RAISED};
use super::python_text::printed;
use crate::{Error, Result};
use minijinja::{Environment, ErrorKind, UndefinedBehavior, Value};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The largest value that a template may make, in bytes.
pub const MOST_OF_A_VALUE: usize = 4 << 20;
/// The most that it may print.
pub const MOST_OUTPUT: usize = 16 << 20;
/// The longest template.
const MOST_SOURCE: usize = 1 << 20;
/// What all instructions together may write where nobody counts: text of the template, caught in a variable.
const MOST_TEXT: usize = 256 << 20;
/// The most instructions.
const MOST_STEPS: u64 = 2_000_000;
/// How deep macros may call each other.
const MOST_CALLS: usize = 250;

/// A chat template with the special tokens that it may name.
#[derive(Clone)]
pub struct ChatTemplate {
    environment: Arc<Environment<'static>>,
    source: Arc<str>,
    tokens: BTreeMap<String, String>,
    origin: String,
    has_marks: bool,
    now: Arc<AtomicI64>,
}

impl std::fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatTemplate").field("origin", &self.origin).field("tokens", &self.tokens).finish()
    }
}

/// What a template made of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The text.
    pub text: String,
    /// What the template itself marks as written by the model (`{% generation %}`), as bytes of the text.
    pub marked: Vec<Range<usize>>,
}

impl ChatTemplate {
    /// Compiles a template. `origin` is where it stands, for errors; `tokens` are texts by their names, such
    /// as `bos_token`.
    pub fn new(
        source: &str,
        tokens: impl IntoIterator<Item = (String, String)>,
        origin: impl Into<String>,
    ) -> Result<ChatTemplate> {
        let origin = origin.into();
        if source.len() > MOST_SOURCE {
            let what = format!("the chat template has {} bytes, more than {MOST_SOURCE}", source.len());
            return Err(refused(&origin, what));
        }
        let own: Arc<str> = source.into();
        let Guarded { source, longest_text, has_marks } = guarded(source)
            .map_err(|what| refused(&origin, format!("the chat template is refused: {what}")))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
        let now = Arc::new(AtomicI64::new(now));
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_recursion_limit(MOST_CALLS);
        let steps = (MOST_TEXT / longest_text.max(1)) as u64;
        environment.set_fuel(Some(steps.min(MOST_STEPS)));
        python::furnish(&mut environment, now.clone());
        let added = gave_up::guarded(|| environment.add_template_owned("chat", source));
        let given_up = || refused(&origin, "the package `minijinja` gave up on the chat template".into());
        added.ok_or_else(given_up)?.map_err(|error| {
            refused(&origin, format!("the chat template cannot be read: {}", words(&error)))
        })?;
        let tokens = tokens.into_iter().collect();
        Ok(ChatTemplate { environment: Arc::new(environment), source: own, tokens, origin, has_marks, now })
    }

    /// The same with another time for templates that write the date, as seconds since 1970 in UTC.
    pub fn at(self, seconds: i64) -> ChatTemplate {
        self.now.store(seconds, Ordering::Relaxed);
        self
    }

    /// The text of a special token by its name, such as `eos_token`.
    pub fn token(&self, name: &str) -> Option<&str> {
        self.tokens.get(name).map(String::as_str)
    }

    /// The template as it was given.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// All special tokens that it knows, by their names.
    pub fn tokens(&self) -> impl Iterator<Item = (&str, &str)> {
        self.tokens.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// Whether the template itself marks what the model wrote.
    pub fn has_marks(&self) -> bool {
        self.has_marks
    }

    /// Where it stands.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The text of a conversation; with the beginning of a reply behind it where one is asked for.
    pub fn render(&self, messages: &[Message], reply: bool) -> Result<Rendered> {
        if messages.is_empty() {
            return Err(Error::invalid("the conversation has no message", "give at least one"));
        }
        let signs = |message: &Message| {
            printed(message.value(), MOST_OUTPUT).is_ok_and(|text| text.contains([BEGIN, END]))
        };
        if let Some(at) = messages.iter().position(signs).filter(|_| self.has_marks) {
            return Err(Error::invalid(
                format!("message {} has U+FDD0 or U+FDD1, which are no characters", at + 1),
                "take them out",
            ));
        }
        let messages: Value = messages.iter().map(|message| message.value().clone()).collect();
        let mut context: BTreeMap<&str, Value> =
            self.tokens.iter().map(|(name, text)| (name.as_str(), Value::from(text))).collect();
        context.insert("messages", messages);
        context.insert("add_generation_prompt", Value::from(reply));
        context.insert("tools", Value::from(()));
        context.insert("documents", Value::from(()));
        let template = self.environment.get_template("chat").map_err(|error| self.failed(&error))?;
        let mut out = Limited(Vec::new());
        let rendered = gave_up::guarded(|| template.render_captured_to(context, &mut out).map(|_| ()));
        let given_up =
            || refused(&self.origin, "the package `minijinja` gave up on the chat template".into());
        rendered.ok_or_else(given_up)?.map_err(|error| self.failed(&error))?;
        let text = String::from_utf8(out.0)
            .map_err(|_| refused(&self.origin, "the chat template writes what is no text".into()))?;
        self.unmarked(&text)
    }

    /// Takes the marks out of a text.
    fn unmarked(&self, text: &str) -> Result<Rendered> {
        if !self.has_marks {
            return Ok(Rendered { text: text.to_owned(), marked: Vec::new() });
        }
        let mut rendered = Rendered { text: String::with_capacity(text.len()), marked: Vec::new() };
        let mut open = None;
        for letter in text.chars() {
            let at = rendered.text.len();
            match (letter, open) {
                (BEGIN, None) => open = Some(at),
                (END, Some(from)) => {
                    rendered.marked.push(from..at);
                    open = None;
                }
                (BEGIN | END, _) => {
                    let what = "the `generation` tags of the chat template stand in each other".into();
                    return Err(refused(&self.origin, what));
                }
                _ => rendered.text.push(letter),
            }
        }
        Ok(rendered)
    }

    fn failed(&self, error: &minijinja::Error) -> Error {
        let words = words(error);
        let (what, advice) = match words.split_once(RAISED) {
            Some((_, raised)) => {
                (format!("the chat template refuses the conversation: {raised}"), "change its messages")
            }
            None if error.kind() == ErrorKind::OutOfFuel => (
                "the chat template does not come to an end: it has used up its instructions".into(),
                "take the template that came with the model",
            ),
            None => (
                format!("the chat template fails: {words}"),
                "check the messages, or take the template that came with the model",
            ),
        };
        Error::File { path: self.origin.clone(), what, advice: advice.into() }
    }
}

/// What an error says, its causes included, and the line.
fn words(error: &minijinja::Error) -> String {
    let mut innermost = error;
    let mut next = std::error::Error::source(error);
    while let Some(inner) = next {
        if let Some(inner) = inner.downcast_ref::<minijinja::Error>() {
            innermost = inner;
        } else {
            return inner.to_string();
        }
        next = inner.source();
    }
    let text = innermost.detail().map_or_else(|| innermost.kind().to_string(), str::to_owned);
    match (error.line(), text.starts_with(RAISED)) {
        (Some(line), false) => format!("{text} (line {line})"),
        _ => text,
    }
}

fn refused(origin: &str, what: String) -> Error {
    Error::File { path: origin.to_owned(), what, advice: "take the template that came with the model".into() }
}

/// What is written, up to the limit.
struct Limited(Vec<u8>);

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MOST_OUTPUT {
            return Err(io::Error::other(format!("it prints more than {MOST_OUTPUT} bytes")));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(source: &str) -> ChatTemplate {
        ChatTemplate::new(source, [("bos_token".to_owned(), "<s>".to_owned())], "t.jinja").unwrap()
    }

    fn rendered(source: &str) -> String {
        template(source).render(&[Message::new("user", "hi")], true).unwrap().text
    }

    fn failure(source: &str) -> String {
        template(source).render(&[Message::new("user", "hi")], true).unwrap_err().to_string()
    }

    #[test]
    fn a_template_has_what_transformers_gives_it() {
        let source = "{{ bos_token }}{% for m in messages %}[{{ m['role'] | upper }}] {{ m.content.strip() }}\n{% endfor %}\n\
                      {%- if add_generation_prompt %}[BOT]{% endif %}{{ tools is none }}{{ missing }}";
        assert_eq!(rendered(source), "<s>[USER] hi\n[BOT]True");
        assert_eq!(
            rendered("{{ None }} {{ [true, 'a', 1.5] }} {{ messages[0] | tojson }}"),
            "None [True, 'a', 1.5] {\"role\": \"user\", \"content\": \"hi\"}"
        );
        assert_eq!(
            rendered(
                "{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}"
            ),
            "02"
        );
        let source = "{%- set ns = namespace(n=0) -%}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}";
        assert_eq!(rendered(source), "1");
        assert_eq!(
            template("{{ strftime_now('%d %b %Y') }}")
                .at(1_735_689_600)
                .render(&[Message::new("user", "x")], false)
                .unwrap()
                .text,
            "01 Jan 2025"
        );
        assert_eq!(
            rendered("{{ 'a-b'.split('-')[-1] ~ ', '.join(['x', 'y']) }}{{ 'x\ny' | indent(2) }}"),
            "bx, yx\n  y"
        );
        assert_eq!(
            rendered("{{ 'x' is sequence }}{{ messages[0] is iterable }}{{ 3 is iterable }}"),
            "TrueTrueFalse"
        );
    }

    #[test]
    fn what_the_model_wrote_is_marked() {
        let source = "{% for m in messages %}<{% if m.role == 'assistant' %}{% generation %}{{ m.content }}|{% endgeneration %}{% else %}{{ m.content }}{% endif %}>{% endfor %}";
        let messages = [
            Message::new("user", "é"),
            Message::new("assistant", "ab"),
            Message::new("user", "c"),
            Message::new("assistant", "d"),
        ];
        let rendered = template(source).render(&messages, false).unwrap();
        assert_eq!(rendered.text, "<é><ab|><c><d|>");
        let parts: Vec<&str> = rendered.marked.iter().map(|part| &rendered.text[part.clone()]).collect();
        assert_eq!(parts, ["ab|", "d|"]);
        let message =
            template(source).render(&[Message::new("user", "\u{fdd0}")], false).unwrap_err().to_string();
        assert_eq!(message, "message 1 has U+FDD0 or U+FDD1, which are no characters; take them out");
    }

    #[test]
    fn templates_that_loop_or_grow_come_to_an_end() {
        let fuel = "t.jinja: the chat template does not come to an end: it has used up its instructions; take the template \
                    that came with the model";
        let nested = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
        assert_eq!(failure(nested), fuel);
        let value = "a value has more than 4194304 bytes";
        for source in [
            format!("{{% set a = 'x' %}}{}", "{% set a = a ~ a %}".repeat(60)),
            format!("{{% set a = 'x' %}}{}", "{% set a = a + a %}".repeat(60)),
            "{% set ns = namespace(a='x') %}{% for i in range(60) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}"
                .into(),
            "{% macro f(a, n) %}{% if n %}{{ f(a ~ a, n - 1) }}{% endif %}{% endmacro %}{{ f('x', 60) }}"
                .into(),
            "{% for a in ['x'] recursive %}{{ loop([a ~ a]) }}{% endfor %}".into(),
            format!(
                "{{% with a0 = 'x' %}}{}",
                (0..60).map(|i| format!("{{% with a{} = a{i} ~ a{i} %}}", i + 1)).collect::<String>()
                    + &"{% endwith %}".repeat(61)
            ),
            "{% set a = 'x' * 1000000 %}{{ a.replace('x', a) }}".into(),
            "{% set a = 'x' * 1000000 %}{{ a | replace('x', a) }}".into(),
            "{% set a = ['x' * 1000000] * 100 %}{{ a | join }}".into(),
            "{{ (['x' * 5000000] * 100) | string }}".into(),
        ] {
            let message = failure(&source);
            assert!(
                message.contains(value) || message.contains("a value holds more than"),
                "{source}: {message}"
            );
        }
        let caught =
            "{% set a = 'x' * 4000000 %}{% set b %}{% for i in range(99) %}{{ a }}{% endfor %}{% endset %}";
        assert!(failure(caught).contains("it prints more than 16777216 bytes"), "{}", failure(caught));
        let deep = "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}";
        assert!(failure(deep).contains("the chat template fails: "), "{}", failure(deep));
        let lists = format!("{{% set a = [] %}}{}{{{{ a }}}}", "{% set a = [a, a] %}".repeat(60));
        assert!(failure(&lists).contains("a value holds more than"), "{}", failure(&lists));
    }

    #[test]
    fn what_is_wrong_with_a_template_is_said() {
        let wrong = |source: &str| ChatTemplate::new(source, [], "t.jinja").unwrap_err().to_string();
        let message = wrong("{% for %}");
        assert!(message.starts_with("t.jinja: the chat template cannot be read: unexpected "), "{message}");
        assert!(
            wrong(&"x".repeat((1 << 20) + 1))
                .contains("the chat template has 1048577 bytes, more than 1048576")
        );
        assert_eq!(
            failure("{{ raise_exception('Roles must alternate') }}"),
            "t.jinja: the chat template refuses the conversation: Roles must alternate; change its messages"
        );
        assert_eq!(
            failure("\n{{ missing.attribute }}"),
            "t.jinja: the chat template fails: undefined value (line 2); check the messages, or take the template that came \
             with the model"
        );
        assert_eq!(
            failure("{{ ''[::-1] }}"),
            "t.jinja: the package `minijinja` gave up on the chat template; take the template that came with the model"
        );
        assert!(failure("{{ strftime_now('%Q') }}").contains("strftime_now does not know `%Q`"));
        assert!(failure("{{ missing | tojson }}").contains("what is undefined has no JSON"));
        assert_eq!(
            template("x").render(&[], true).unwrap_err().to_string(),
            "the conversation has no message; give at least one"
        );
    }
}
