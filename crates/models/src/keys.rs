//! The keys of a recipe's `[model]`: which ones a family has and what each may be, and those that were given.
//! A key that the family does not have, or a value of another kind, is refused with what there is instead.

use regard_graph::{Error, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// A key that a family has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// What it is called.
    pub name: &'static str,
    /// What it may be.
    pub expected: Expected,
    /// What it means.
    pub about: &'static str,
}

/// What a key may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A whole number that is not negative.
    Size,
    /// A number.
    Number,
    /// True or false.
    Truth,
    /// Any text, such as the name of a preset.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A number, or one of these words.
    NumberOrWord(&'static [&'static str]),
}

impl Key {
    /// A key.
    pub const fn new(name: &'static str, expected: Expected, about: &'static str) -> Key {
        Key { name, expected, about }
    }
}

/// What is wrong with a key: for who knows in which file and line it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFault {
    /// The key.
    pub key: String,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub advice: String,
}

impl fmt::Display for KeyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.advice)
    }
}

impl std::error::Error for KeyFault {}

/// ModelKeys with their values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelKeys(BTreeMap<String, Value>);

impl FromIterator<(String, Value)> for ModelKeys {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(keys: I) -> ModelKeys {
        ModelKeys(keys.into_iter().collect())
    }
}

impl ModelKeys {
    /// None.
    pub fn new() -> ModelKeys {
        ModelKeys::default()
    }

    /// The same with one more: `ModelKeys::new().with("layers", 2)`.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> ModelKeys {
        self.0.insert(name.into(), value.into());
        self
    }

    /// All names that are given.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Whether it is given.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The values by name, as JSON.
    pub fn to_json(&self) -> Value {
        Value::Object(self.0.clone().into_iter().collect())
    }

    /// A size, if it is given.
    pub fn size(&self, name: &str) -> Option<usize> {
        self.0.get(name).and_then(Value::as_u64).map(|size| size as usize)
    }

    /// A number, if it is given.
    pub fn number(&self, name: &str) -> Option<f32> {
        self.0.get(name).and_then(Value::as_f64).map(|number| number as f32)
    }

    /// A truth, if it is given.
    pub fn truth(&self, name: &str) -> Option<bool> {
        self.0.get(name).and_then(Value::as_bool)
    }

    /// A text, if it is given.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    /// The meaning of a word, if it is given, out of those that are known.
    pub fn word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<Option<T>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let known = words.iter().find(|(word, _)| *word == text);
        known.map(|(_, value)| Some(*value)).ok_or_else(|| {
            Error::unknown(&format!("choice of `{name}`"), text, words.iter().map(|(word, _)| *word))
        })
    }

    /// Refuses all but these: for a model whose weights decide the rest.
    pub fn none_but(&self, allowed: &[&str]) -> Result<()> {
        match self.names().find(|name| !allowed.contains(name)) {
            None => Ok(()),
            Some(name) => Err(Error::invalid(
                "model",
                format!("model.{name} is given, and so is from.model, whose weights decide it"),
                format!("leave model.{name} out, or from.model"),
            )),
        }
    }

    /// Compares what is given with what a family has. A key that is known `elsewhere` is no slip of the pen.
    pub fn check(
        &self,
        family: &str,
        known: &[Key],
        elsewhere: &dyn Fn(&str) -> bool,
    ) -> Result<(), KeyFault> {
        for (name, value) in &self.0 {
            // Of several families together, one may take what another does not.
            let faults: Vec<_> =
                known.iter().filter(|key| key.name == name).map(|key| misfit(value, key.expected)).collect();
            if faults.is_empty() {
                return Err(unknown(name, family, known, elsewhere(name)));
            }
            if let Some(Some((what, advice))) = faults.into_iter().min_by_key(Option::is_some) {
                let what = what.unwrap_or_else(|| format!("`{name}` in [model] is {}", shown(value)));
                return Err(KeyFault { key: name.clone(), what, advice });
            }
        }
        Ok(())
    }
}

/// That a family has no such key, with the nearest that it has.
fn unknown(name: &str, family: &str, known: &[Key], elsewhere: bool) -> KeyFault {
    let names = || known.iter().map(|key| key.name);
    let nearest = Error::unknown("key", name, names()).to_string();
    let (what, advice) = match nearest.rsplit_once("; ") {
        Some((_, advice)) if !elsewhere && advice.starts_with("did you mean") => {
            (format!("there is no key `{name}` in [model]"), advice.to_string())
        }
        _ => (
            format!("a model of the family `{family}` has no `{name}`"),
            format!("leave model.{name} out; it has {}", names().collect::<Vec<_>>().join(", ")),
        ),
    };
    KeyFault { key: name.into(), what, advice }
}

/// Why a value is not what is expected: what is wrong, if that is more than its kind, and what it should be.
fn misfit(value: &Value, expected: Expected) -> Option<(Option<String>, String)> {
    let listed = |words: &[&str]| words.join(", ");
    let plain = |fits: bool, advice: &str| (!fits).then(|| (None, advice.to_string()));
    match (expected, value) {
        (Expected::Size, value) => {
            plain(value.as_u64().is_some(), "it should be a whole number that is not negative")
        }
        (Expected::Number, value) => plain(value.is_number(), "it should be a number"),
        (Expected::Truth, value) => plain(value.is_boolean(), "it should be true or false"),
        (Expected::Text, value) => plain(value.is_string(), "it should be a text in quotes"),
        (Expected::Word(words) | Expected::NumberOrWord(words), Value::String(text)) => {
            let fault = || {
                let near = Error::unknown("word", text, words.iter().copied()).to_string();
                let advice = match near.rsplit_once("; ") {
                    Some((_, advice)) if advice.starts_with("did you mean") => advice.to_string(),
                    _ => format!("known are {}", listed(words)),
                };
                (Some(format!("`{text}` is not known here")), advice)
            };
            (!words.contains(&text.as_str())).then(fault)
        }
        (Expected::Word(words), _) => Some((None, format!("it should be one of {}", listed(words)))),
        (Expected::NumberOrWord(words), value) => {
            plain(value.is_number(), &format!("it should be a number, or one of {}", listed(words)))
        }
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("the text \"{text}\""),
        Value::Number(number) if number.is_f64() => format!("the number {number}"),
        Value::Number(number) => format!("the whole number {number}"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [Key; 4] = [
        Key::new("layers", Expected::Size, "blocks"),
        Key::new("tied", Expected::Truth, "one table"),
        Key::new("norm", Expected::Word(&["layer", "rms"]), "which norm"),
        Key::new("scale", Expected::NumberOrWord(&["learned"]), "β"),
    ];

    #[test]
    fn what_fits_is_read() {
        let keys =
            ModelKeys::new().with("layers", 3).with("tied", true).with("norm", "rms").with("scale", 0.5);
        keys.check("gpt", &KNOWN, &|key| key == "latents").unwrap();
        assert_eq!((keys.size("layers"), keys.truth("tied")), (Some(3), Some(true)));
        assert_eq!(keys.word("norm", &[("layer", 1), ("rms", 2)]).unwrap(), Some(2));
        assert_eq!((keys.number("scale"), keys.size("width")), (Some(0.5), None));
        ModelKeys::new().with("scale", "learned").check("gpt", &KNOWN, &|key| key == "latents").unwrap();
        ModelKeys::new().with("scale", 2).check("gpt", &KNOWN, &|key| key == "latents").unwrap();
    }

    #[test]
    fn what_does_not_fit_is_named_with_what_there_is() {
        let text =
            |keys: ModelKeys| keys.check("gpt", &KNOWN, &|key| key == "latents").unwrap_err().to_string();
        assert_eq!(
            text(ModelKeys::new().with("layer", 3)),
            "there is no key `layer` in [model]; did you mean `layers`?"
        );
        assert_eq!(
            text(ModelKeys::new().with("latents", 3)),
            "a model of the family `gpt` has no `latents`; leave model.latents out; it has layers, tied, norm, scale"
        );
        assert_eq!(
            text(ModelKeys::new().with("layers", "two")),
            "`layers` in [model] is the text \"two\"; it should be a whole number that is not negative"
        );
        assert_eq!(
            text(ModelKeys::new().with("layers", -1)),
            "`layers` in [model] is the whole number -1; it should be a whole number that is not negative"
        );
        assert_eq!(
            text(ModelKeys::new().with("tied", 1)),
            "`tied` in [model] is the whole number 1; it should be true or false"
        );
        assert_eq!(
            text(ModelKeys::new().with("norm", "rns")),
            "`rns` is not known here; did you mean `rms`?"
        );
        assert_eq!(
            text(ModelKeys::new().with("norm", "group")),
            "`group` is not known here; known are layer, rms"
        );
        assert_eq!(
            text(ModelKeys::new().with("scale", true)),
            "`scale` in [model] is true; it should be a number, or one of learned"
        );
        assert_eq!(
            ModelKeys::new()
                .with("norm", "group")
                .word("norm", &[("layer", 1), ("rms", 2)])
                .unwrap_err()
                .to_string(),
            "no choice of `norm` is called `group`; there are `layer`, `rms`"
        );
        assert_eq!(
            ModelKeys::new().with("layers", 3).none_but(&["pooling"]).unwrap_err().to_string(),
            "model: model.layers is given, and so is from.model, whose weights decide it; leave model.layers out, or \
             from.model"
        );
    }
}
