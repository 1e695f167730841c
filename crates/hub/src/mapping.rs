//! A file that says what a model is and what its tensors are called, for weights that no family knows by
//! name: `names.toml` in their folder, or any file that is named. The model is described in the words of
//! recipes, and each of our parameters is given the name that it has in the file, with `*` for numbers of
//! blocks:
//!
//! ```toml
//! family = "vit"
//! task = "images"
//! image = [1, 28, 28]       # channels, height, width
//! classes = 10
//! prefix = "net."           # in front of every name of the file
//! ignore = ["net.steps"]    # what may be left over; `*` is one part of a dotted name
//!
//! [model]
//! layers = 2
//! width = 48
//! heads = 3
//! patch = 7
//!
//! [names]
//! "block.*.attention_norm.weight" = "layers.*.norm1.gain"
//! "block.*.attention.query.weight" = { from = "layers.*.qkv.weight", part = 0, of = 3 }
//! "block.*.feed_forward.up.weight" = { from = "layers.*.mlp.0.kernel", transposed = true }
//! "class_token" = { from = "cls", reshaped = true }
//! ```

use crate::{Error, Result};
use regard_models::import::{Import, Map};
use regard_models::{Family, Model, ModelKeys, Needs, Registry};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The longest file that is read.
const LONGEST: u64 = 4 << 20;

/// The usual name of such a file, beside the weights.
pub const NAMES: &str = "names.toml";

/// A file of names.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mapping {
    family: String,
    #[serde(default)]
    task: Option<String>,
    #[serde(default)]
    vocabulary: usize,
    #[serde(default)]
    classes: usize,
    #[serde(default)]
    image: Option<[usize; 3]>,
    #[serde(default)]
    longest: usize,
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    ignore: Vec<String>,
    #[serde(default)]
    model: BTreeMap<String, Value>,
    names: BTreeMap<String, Place>,
}

/// Where a parameter stands in the file.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Place {
    Name(String),
    Part(Part),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    from: String,
    #[serde(default)]
    transposed: bool,
    #[serde(default)]
    reshaped: bool,
    part: Option<usize>,
    of: Option<usize>,
}

impl Mapping {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Mapping> {
        let size =
            std::fs::metadata(path).map_err(|error| regard_data::Error::io("read", path, error))?.len();
        if size > LONGEST {
            let what = format!("has {size} bytes, over the limit of {LONGEST} for such a file");
            return Err(refused(path, what, "it cannot be a table of names"));
        }
        let text =
            std::fs::read_to_string(path).map_err(|error| regard_data::Error::io("read", path, error))?;
        Mapping::parse(path, &text)
    }

    /// Reads a text; `path` stands for where it is from in errors.
    pub fn parse(path: &Path, text: &str) -> Result<Mapping> {
        let mapping: Mapping = toml::from_str(text).map_err(|error| {
            let line =
                error.span().map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
            let what = format!("line {line}: {}", error.message().replace('\n', ", "));
            refused(
                path,
                what,
                "a table of names has `family`, [model] and [names]: see `regard forward --help`",
            )
        })?;
        for (ours, place) in &mapping.names {
            let Place::Part(part) = place else { continue };
            let whole = match (part.part, part.of) {
                (None, None) => continue,
                (Some(index), Some(parts)) if index < parts => !part.reshaped,
                _ => false,
            };
            if !whole {
                let what = format!("`{ours}` takes part {:?} of {:?}", part.part, part.of);
                return Err(refused(
                    path,
                    what,
                    "give `part` from 0 on and `of`, how many there are, and not `reshaped`",
                ));
            }
        }
        Ok(mapping)
    }

    /// The model that it describes.
    pub fn model(&self, path: &Path, registry: &Registry) -> Result<Arc<dyn Model>> {
        let family = registry.family(&self.family)?;
        let keys: ModelKeys = self.model.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        registry
            .check_keys(Some(family), &keys)
            .map_err(|fault| refused(path, fault.what.clone(), fault.advice.clone()))?;
        let task = self.task(path, family)?;
        let needs = Needs {
            task,
            vocabulary: self.vocabulary,
            classes: self.classes,
            image: self.image.unwrap_or([0; 3]),
            longest: self.longest,
            ..Needs::default()
        };
        Ok(family.make(&keys, &needs)?)
    }

    fn task<'a>(&'a self, path: &Path, family: &'a dyn Family) -> Result<&'a str> {
        let known = family.tasks();
        match (&self.task, known) {
            (Some(task), known) if known.contains(&task.as_str()) => Ok(task),
            (None, [only]) => Ok(only),
            (task, known) => {
                let what = match task {
                    Some(task) => format!("a model of the family `{}` has no task `{task}`", self.family),
                    None => format!("does not say which `task` the {} is for", self.family),
                };
                Err(refused(path, what, format!("give one of {}", known.join(", "))))
            }
        }
    }

    /// Where each parameter of a model stands. All that have no line are told at once.
    pub fn imports(&self, path: &Path, model: &dyn Model) -> Result<Vec<Import>> {
        let mut table = Vec::new();
        let mut missing = Vec::new();
        for declared in model.parameters().all() {
            let ours = declared.name.as_str();
            let line = match self.names.get(ours) {
                Some(place) => Some((place, Vec::new())),
                None => self.names.iter().find_map(|(pattern, place)| Some((place, stars(pattern, ours)?))),
            };
            let Some((place, numbers)) = line else {
                missing.push(format!("`{ours}` {:?}", declared.shape.bound()));
                continue;
            };
            let (from, map) = match place {
                Place::Name(from) => (from, Map::Same),
                Place::Part(part) => (&part.from, part.map()),
            };
            let theirs = filled(from, &numbers).ok_or_else(|| {
                let what = format!("`{from}` has other `*` than the name of ours that it stands for");
                refused(path, what, "put a `*` for each number of the name on the left, in the same order")
            })?;
            table.push(Import::new(ours, format!("{}{theirs}", self.prefix), map));
        }
        if missing.is_empty() {
            return Ok(table);
        }
        let more = missing.len().saturating_sub(12);
        missing.truncate(12);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let what = format!("[names] has no line for {}{more}", missing.join(", "));
        Err(refused(path, what, "say for each of these parameters what it is called in the file of weights"))
    }

    /// What may be left over in the file.
    pub fn ignored(&self) -> &[String] {
        &self.ignore
    }
}

impl Part {
    fn map(&self) -> Map {
        match (self.part.zip(self.of), self.transposed) {
            (Some((index, parts)), true) => Map::SplitTransposed { index, parts },
            (Some((index, parts)), false) => Map::Split { index, parts },
            (None, true) => Map::Transposed,
            (None, false) if self.reshaped => Map::Reshaped,
            (None, false) => Map::Same,
        }
    }
}

/// The numbers that the `*` of a pattern stand for, if this is a name of it.
fn stars<'a>(pattern: &str, name: &'a str) -> Option<Vec<&'a str>> {
    let (pattern, name): (Vec<&str>, Vec<&str>) = (pattern.split('.').collect(), name.split('.').collect());
    if pattern.len() != name.len() {
        return None;
    }
    let mut found = Vec::new();
    for (expected, part) in pattern.into_iter().zip(name) {
        match expected {
            "*" if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) => found.push(part),
            expected if expected == part => {}
            _ => return None,
        }
    }
    Some(found)
}

/// A name with numbers in place of its `*`; none if there are more or fewer.
fn filled(name: &str, numbers: &[&str]) -> Option<String> {
    let parts: Vec<&str> = name.split('*').collect();
    if parts.len() != numbers.len() + 1 {
        return None;
    }
    let mut whole = parts[0].to_owned();
    for (number, part) in numbers.iter().zip(&parts[1..]) {
        whole.push_str(number);
        whole.push_str(part);
    }
    Some(whole)
}

fn refused(path: &Path, what: impl Into<String>, advice: impl Into<String>) -> Error {
    Error::Refused { path: path.display().to_string(), what: what.into(), advice: advice.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_from_our_names_to_theirs() {
        assert_eq!(stars("block.*.norm.weight", "block.12.norm.weight"), Some(vec!["12"]));
        assert_eq!(stars("block.*.norm", "block.x.norm"), None);
        assert_eq!(stars("block.*", "block.1.norm"), None);
        assert_eq!(filled("h*.ln", &["3"]).as_deref(), Some("h3.ln"));
        assert_eq!(filled("h.ln", &["3"]), None);
        assert_eq!(filled("h.*.*", &["3"]), None);
    }
}
