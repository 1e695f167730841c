//! Which dictionary of a pickle is the state_dict: the one at the top, or, where a training run kept more
//! than its weights, the one inside under a usual name.

use super::machine::{Program, Value};
use crate::error::listed;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// What training loops call the weights among what else they keep, the most telling first.
const USUAL: [&str; 6] = ["state_dict", "model_state_dict", "model_state", "model", "module", "net"];

/// The tensors of a file by name: their numbers in [`Program::tensors`].
pub(super) type Found<'a> = BTreeMap<&'a str, usize>;

/// Finds the state_dict.
pub(super) fn find<'a>(path: &Path, program: &Program<'a>) -> Result<Found<'a>> {
    let top = match program.result {
        Some(Value::Dict(top)) => top,
        ref other => {
            let kind = match other {
                Some(Value::Tensor(_)) => "one tensor without a name",
                Some(Value::List(_) | Value::Tuple(_)) => "a list",
                _ => "no dictionary",
            };
            let advice = "save the weights by their names: `torch.save(model.state_dict(), path)`";
            return Err(Error::file(path, format!("holds {kind}, and a state_dict was expected"), advice));
        }
    };
    let own = tensors(program, top);
    if !own.is_empty() {
        return Ok(own);
    }
    let mut inner: Vec<(&str, Found)> = Vec::new();
    for (key, value) in program.pairs(top) {
        if let (Some(name), Value::Dict(dict)) = (program.text(key), value) {
            let found = tensors(program, *dict);
            if !found.is_empty() {
                inner.push((name, found));
            }
        }
    }
    let usual = USUAL.iter().find_map(|usual| inner.iter().position(|(name, _)| name == usual));
    match (usual, inner.len()) {
        (Some(at), _) => Ok(inner.swap_remove(at).1),
        (None, 1) => Ok(inner.remove(0).1),
        (None, 0) => {
            let keys: Vec<&str> = program.pairs(top).filter_map(|(key, _)| program.text(key)).collect();
            let holds = if keys.is_empty() { "nothing".into() } else { listed(&keys) };
            let what = format!("has no tensors by name: it holds {holds}");
            Err(Error::file(path, what, "save `model.state_dict()`"))
        }
        (None, _) => {
            let names: Vec<&str> = inner.iter().map(|(name, _)| *name).collect();
            let what = format!("holds several dictionaries of tensors: {}", listed(&names));
            Err(Error::file(path, what, "save the one to read by itself, or as `state_dict`"))
        }
    }
}

/// The tensors of a dictionary; of two under one name the last, as in Python. A wrapper for several devices
/// puts `module.` in front of every name, which is taken off.
fn tensors<'a>(program: &Program<'a>, dict: usize) -> Found<'a> {
    let mut found = Found::new();
    for (key, value) in program.pairs(dict) {
        if let (Some(name), Value::Tensor(tensor)) = (program.text(key), value) {
            found.insert(name, *tensor);
        }
    }
    let wrapped = !found.is_empty() && found.keys().all(|name| name.starts_with("module."));
    match wrapped {
        true => found.into_iter().map(|(name, tensor)| (&name["module.".len()..], tensor)).collect(),
        false => found,
    }
}
