//! What a setting of a GGUF file can be.

use crate::error::shown;

/// A setting. Whole numbers of all widths are one kind, and so are floats.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Int(i64),
    /// A float.
    Float(f64),
    /// A truth.
    Bool(bool),
    /// A text.
    Text(String),
    /// Whole numbers.
    Ints(Vec<i64>),
    /// Floats.
    Floats(Vec<f32>),
    /// Truths.
    Bools(Vec<bool>),
    /// Texts.
    Texts(Vec<String>),
}

impl Value {
    /// The whole number that it is.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(n) => Some(*n),
            _ => None,
        }
    }

    /// The number that it is.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Value::Float(x) => Some(*x),
            Value::Int(n) => Some(*n as f64),
            _ => None,
        }
    }

    /// The truth that it is.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    /// The text that it is.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The texts that it is.
    pub fn as_texts(&self) -> Option<&[String]> {
        match self {
            Value::Texts(texts) => Some(texts),
            _ => None,
        }
    }

    /// The whole numbers that it is.
    pub fn as_ints(&self) -> Option<&[i64]> {
        match self {
            Value::Ints(numbers) => Some(numbers),
            _ => None,
        }
    }

    /// The floats that it is.
    pub fn as_floats(&self) -> Option<&[f32]> {
        match self {
            Value::Floats(numbers) => Some(numbers),
            _ => None,
        }
    }

    /// What it is, for a sentence.
    pub(crate) fn kind(&self) -> String {
        match self {
            Value::Int(n) => n.to_string(),
            Value::Float(x) => x.to_string(),
            Value::Bool(truth) => truth.to_string(),
            Value::Text(text) => format!("the text `{}`", shown(text)),
            Value::Ints(list) => format!("a list of {} whole numbers", list.len()),
            Value::Floats(list) => format!("a list of {} numbers", list.len()),
            Value::Bools(list) => format!("a list of {} truths", list.len()),
            Value::Texts(list) => format!("a list of {} texts", list.len()),
        }
    }
}
