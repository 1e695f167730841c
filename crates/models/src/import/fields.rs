//! The fields of a foreign `config.json`, with errors that name the field, what it holds and what is expected.

use regard_graph::{Error, Result};
use regard_layers::FeedForwardKind;
use serde_json::Value;

/// A `config.json` of one family.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    family: &'static str,
    json: &'a Value,
}

impl<'a> Fields<'a> {
    /// The fields of a config, whose `model_type` must be that of the family.
    pub fn new(family: &'static str, json: &'a Value) -> Result<Self> {
        let fields = Fields { family, json };
        match &json["model_type"] {
            Value::String(kind) if kind == family => Ok(fields),
            Value::Null => Err(fields.wrong("model_type", "not there", &format!("a config of \"{family}\""))),
            other => Err(fields.wrong("model_type", other, &format!("a config of \"{family}\""))),
        }
    }

    /// A field as it stands there; null if it does not.
    pub fn get(&self, name: &str) -> &'a Value {
        &self.json[name]
    }

    /// A whole number.
    pub fn size(&self, name: &str) -> Result<usize> {
        match &self.json[name] {
            Value::Null => Err(self.wrong(name, "not there", "a whole number")),
            value => self.whole(name, value),
        }
    }

    /// A whole number, or a default where the field is not there.
    pub fn size_or(&self, name: &str, default: usize) -> Result<usize> {
        match &self.json[name] {
            Value::Null => Ok(default),
            value => self.whole(name, value),
        }
    }

    /// A number, or a default where the field is not there.
    pub fn number_or(&self, name: &str, default: f64) -> Result<f32> {
        match &self.json[name] {
            Value::Null => Ok(default as f32),
            value => {
                value.as_f64().map(|number| number as f32).ok_or_else(|| self.wrong(name, value, "a number"))
            }
        }
    }

    /// True or false, or a default where the field is not there.
    pub fn truth_or(&self, name: &str, default: bool) -> Result<bool> {
        match &self.json[name] {
            Value::Null => Ok(default),
            value => value.as_bool().ok_or_else(|| self.wrong(name, value, "true or false")),
        }
    }

    /// One size for both axes, or a pair of them: height and width.
    pub fn pair_or(&self, name: &str, default: usize) -> Result<[usize; 2]> {
        match &self.json[name] {
            Value::Array(pair) if pair.len() == 2 => {
                Ok([self.whole(name, &pair[0])?, self.whole(name, &pair[1])?])
            }
            _ => Ok([self.size_or(name, default)?; 2]),
        }
    }

    /// How many classes there are: `id2label`, or `num_labels`; 2 where neither is there, as in transformers.
    pub fn classes(&self) -> Result<usize> {
        match &self.json["id2label"] {
            Value::Object(labels) => Ok(labels.len()),
            _ => self.size_or("num_labels", 2),
        }
    }

    /// The first of `architectures`, if there is one.
    pub fn architecture(&self) -> Option<&'a str> {
        self.json["architectures"][0].as_str()
    }

    /// `hidden_act`: what happens inside of the feed-forward parts.
    pub fn activation(&self) -> Result<FeedForwardKind> {
        match &self.json["hidden_act"] {
            Value::Null => Ok(FeedForwardKind::Gelu),
            Value::String(name) if name == "gelu" => Ok(FeedForwardKind::Gelu),
            Value::String(name)
                if ["gelu_new", "gelu_pytorch_tanh", "gelu_fast"].contains(&name.as_str()) =>
            {
                Ok(FeedForwardKind::GeluTanh)
            }
            Value::String(name) if name == "relu" => Ok(FeedForwardKind::Relu),
            other => Err(self.wrong(
                "hidden_act",
                other,
                "\"gelu\", \"gelu_new\", \"gelu_pytorch_tanh\" or \"relu\"",
            )),
        }
    }

    /// An error about a field: what it is, and what would be right.
    pub fn wrong(&self, name: &str, got: impl std::fmt::Display, expected: &str) -> Error {
        Error::invalid(self.family, format!("config.json: {name} is {got}"), format!("expected {expected}"))
    }

    fn whole(&self, name: &str, value: &Value) -> Result<usize> {
        let whole = value.as_u64().and_then(|number| usize::try_from(number).ok());
        whole.ok_or_else(|| self.wrong(name, value, "a whole number"))
    }
}

/// `hidden_act` of a kind of feed-forward part, where transformers has a name for it.
pub(super) fn activation_name(kind: FeedForwardKind) -> Result<&'static str> {
    match kind {
        FeedForwardKind::Gelu => Ok("gelu"),
        FeedForwardKind::GeluTanh => Ok("gelu_pytorch_tanh"),
        FeedForwardKind::Relu => Ok("relu"),
        FeedForwardKind::GatedSilu | FeedForwardKind::GatedGelu => Err(Error::invalid(
            "config.json",
            format!("{kind:?} feed-forward parts have no name there"),
            "use one of Gelu, GeluTanh, Relu",
        )),
    }
}

/// f32 as JSON writes the same number in few digits: 1e-12, not 9.999999960041972e-13.
pub(super) fn short(number: f32) -> Value {
    let text = format!("{number:e}");
    text.parse::<f64>().map_or(Value::Null, Value::from)
}
