//! The fields of a foreign config.json, with errors that name the field, what stands there and what was
//! expected.

use regard_graph::{Error, Result};
use serde_json::{Map, Value};

/// The fields of a config.
#[derive(Clone, Copy)]
pub struct Fields<'a> {
    family: &'a str,
    fields: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// The fields of this family's config; another `model_type` is refused.
    pub fn new(family: &'a str, config: &'a Value) -> Result<Self> {
        let Some(fields) = config.as_object() else {
            return Err(Error::invalid(family, "the config is no JSON object", "give the whole config.json"));
        };
        let fields = Fields { family, fields };
        match fields.text("model_type")? {
            Some(kind) if kind != family => Err(fields.wrong(
                format!("the config is one of model_type `{kind}`"),
                format!("give one of model_type `{family}`, or import it as what it is"),
            )),
            _ => Ok(fields),
        }
    }

    /// The fields of an object inside of this one, if there is one.
    pub fn inner(&self, name: &'a str) -> Result<Option<Fields<'a>>> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Object(fields)) => Ok(Some(Fields { family: self.family, fields })),
            Some(other) => Err(self.unfit(name, other, "an object")),
        }
    }

    /// An error about this config.
    pub fn wrong(&self, what: impl Into<String>, advice: impl Into<String>) -> Error {
        Error::invalid(self.family, what, advice)
    }

    /// An error about a text that is none of those known.
    pub fn unknown(&self, name: &str, text: &str, known: &[&str]) -> Error {
        let known: Vec<String> = known.iter().map(|known| format!("`{known}`")).collect();
        self.wrong(format!("`{name}` is `{text}`"), format!("what can be imported is {}", known.join(", ")))
    }

    /// A size that must be there.
    pub fn size(&self, name: &str) -> Result<usize> {
        self.size_or_none(name)?.ok_or_else(|| {
            self.wrong(format!("the config has no `{name}`"), "give the whole config.json of the model")
        })
    }

    /// A size that may be absent or null.
    pub fn size_or_none(&self, name: &str) -> Result<Option<usize>> {
        self.read(name, "a whole number", |value| value.as_u64().map(|size| size as usize))
    }

    /// A number that may be absent or null.
    pub fn number(&self, name: &str) -> Result<Option<f64>> {
        self.read(name, "a number", Value::as_f64)
    }

    /// A truth that may be absent or null.
    pub fn truth(&self, name: &str) -> Result<Option<bool>> {
        self.read(name, "true or false", Value::as_bool)
    }

    /// A text that may be absent or null.
    pub fn text(&self, name: &str) -> Result<Option<&'a str>> {
        self.read(name, "a text", Value::as_str)
    }

    /// Texts that may be absent or null.
    pub(crate) fn texts(&self, name: &str) -> Result<Option<Vec<&'a str>>> {
        let texts =
            |value: &'a Value| value.as_array()?.iter().map(Value::as_str).collect::<Option<Vec<_>>>();
        self.read(name, "a list of texts", texts)
    }

    /// Sizes that may be absent or null.
    pub(crate) fn sizes(&self, name: &str) -> Result<Option<Vec<usize>>> {
        let sizes = |value: &'a Value| {
            value.as_array()?.iter().map(|size| size.as_u64().map(|size| size as usize)).collect()
        };
        self.read(name, "a list of whole numbers", sizes)
    }

    /// Whether a name stands there, be it with a null.
    pub fn has(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    /// Whether a name stands there with more than a null.
    pub fn given(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &'a str> {
        self.fields.keys().map(String::as_str)
    }

    /// Refuses a setting other than the one that we have; absent means this one.
    pub fn must_be(&self, name: &str, wanted: bool) -> Result<()> {
        match self.truth(name)? {
            Some(other) if other != wanted => Err(self.wrong(
                format!("`{name}` is {other}"),
                format!("only models with `{name}` {wanted} can be imported"),
            )),
            _ => Ok(()),
        }
    }

    fn read<T>(
        &self,
        name: &str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => read(value).map(Some).ok_or_else(|| self.unfit(name, value, expected)),
        }
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    fn unfit(&self, name: &str, value: &Value, expected: &str) -> Error {
        self.wrong(format!("`{name}` is {value}"), format!("it should be {expected}"))
    }
}
