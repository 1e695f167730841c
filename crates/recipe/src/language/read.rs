//! From TOML to a [`Recipe`] and back. Types and names of keys are checked by the structs themselves; here an
//! error gets its file and line, and a name that is not known its nearest neighbour.

use super::{ModelRecipe, Recipe, TrainRecipe, overrides};
use crate::{Error, Result};
use regard_data::whole;
use regard_models::Registry;
use serde::de::DeserializeOwned;
use std::io::Write;
use std::path::Path;
use toml::{Table, Value};

/// The most examples that are run at once: more than any machine of today has use for.
const MOST_AT_ONCE: usize = 1 << 16;

/// The most beams of a search, as at the command line.
const MOST_BEAMS: usize = 256;

/// Names in a run's folder that no stage can have.
const TAKEN: [&str; 4] = [".", "..", "model", "checkpoints"];

impl Recipe {
    /// Reads a recipe; each override is `key=value`, such as `train.lr=1e-3`, `model.positions=rotary` or,
    /// for one stage, `stage.pretrain.train.epochs=2`, and goes through the same checks. A recipe without a
    /// name is called as its file. The registry says which families and keys there are.
    pub fn open(path: impl AsRef<Path>, overrides: &[String], registry: &Registry) -> Result<Recipe> {
        let path = path.as_ref();
        let text =
            std::fs::read_to_string(path).map_err(|error| regard_data::Error::io("read", path, error))?;
        let mut recipe = Recipe::parse(&text, &path.display().to_string(), overrides, registry)?;
        if recipe.name.is_empty() {
            recipe.name =
                path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        }
        Ok(recipe)
    }

    /// Reads a recipe from a text; `place` is what errors call it, `over` the overrides, as in
    /// [`Recipe::open`].
    pub fn parse(text: &str, place: &str, over: &[String], registry: &Registry) -> Result<Recipe> {
        // Once as it stands, so that mistakes have a line; then as a table, into which the overrides go.
        let own = checked::<Recipe>(text, place)?;
        check_model(&own.model, registry, |key| line_of(text, place, key))?;
        let mut table: Table = checked(text, place)?;
        for given in over {
            overrides::put(&mut table, given, registry)?;
        }
        let stages = resolve_stages(&mut table);
        let mut recipe: Recipe = table.try_into().map_err(|error: toml::de::Error| {
            Error::at(place, error.message(), "see the recipe and its overrides together")
        })?;
        for stage in stages {
            recipe.stage.push(stage.try_into().map_err(|error: toml::de::Error| {
                Error::at(place, error.message(), "see the recipe and its stages together")
            })?);
        }
        recipe.check(place)?;
        Ok(recipe)
    }

    /// The whole recipe, every key with its value, as TOML.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self)
            .map_err(|error| Error::invalid(format!("the recipe has no TOML: {error}"), "check its numbers"))
    }

    /// Writes it, whole or not at all.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let text = self.to_toml()?;
        Ok(whole::write(path.as_ref(), |file| file.write_all(text.as_bytes()))?)
    }

    /// The stages as recipes of their own, in order: itself, where there are none.
    pub fn stages(&self) -> Vec<Recipe> {
        if self.stage.is_empty() {
            return vec![self.clone()];
        }
        let one = |stage: &super::StageRecipe| Recipe {
            name: stage.name.clone(),
            data: stage.data.clone(),
            train: stage.train.clone(),
            evaluate: stage.evaluate.clone(),
            from: stage.from.clone(),
            stage: Vec::new(),
            ..self.clone()
        };
        self.stage.iter().map(one).collect()
    }

    /// What types cannot say. What it refuses here is refused before anything is read or made.
    pub(crate) fn check(&self, place: &str) -> Result<()> {
        let stages = self.stages();
        for (index, one) in stages.iter().enumerate() {
            let train = &one.train;
            let wrong = |what: String, advice: &str| {
                let place = match self.stage.is_empty() {
                    true => place.to_string(),
                    false => format!("{place}: stage {}", index + 1),
                };
                Err(Error::at(&place, what, advice))
            };
            if !self.stage.is_empty() && one.name.is_empty() {
                return wrong("it has no name".into(), "give it one: name = \"pretrain\"");
            }
            if one.name.contains(['/', '\\']) && !self.stage.is_empty() {
                let what = format!("it is called `{}`", one.name);
                return wrong(what, "leave slashes out: its folder is called by its name");
            }
            if TAKEN.contains(&one.name.as_str()) && !self.stage.is_empty() {
                let what = format!("it is called `{}`", one.name);
                return wrong(what, "choose another name: its folder is called by it, and that one is taken");
            }
            let finite = [
                ("train.clip", train.clip),
                ("train.weight_decay", train.weight_decay),
                ("train.momentum", train.momentum),
                ("train.epsilon", train.epsilon),
                ("train.betas", train.betas[0].min(train.betas[1])),
            ];
            if let Some((name, number)) =
                finite.iter().find(|(_, number)| !(number.is_finite() && *number >= 0.0))
            {
                return wrong(format!("{name} is {number}"), "give a number that is not negative");
            }
            let unit = [
                ("train.dropout", f64::from(train.dropout)),
                ("train.attention_dropout", f64::from(train.attention_dropout.unwrap_or(0.0))),
                ("train.hidden_dropout", f64::from(train.hidden_dropout.unwrap_or(0.0))),
                ("train.label_smoothing", f64::from(train.label_smoothing)),
                ("data.hold_out", one.data.hold_out),
            ];
            if let Some((name, number)) = unit.iter().find(|(_, number)| !(0.0..1.0).contains(number)) {
                return wrong(format!("{name} is {number}"), "give a number from 0 up to, not including, 1");
            }
            if one.evaluate.beams > MOST_BEAMS {
                let what = format!("evaluate.beams is {}", one.evaluate.beams);
                return wrong(what, "give at most 256: each beam has a row of the memory of a text");
            }
            // One model is trained through all stages, and dropout is part of it.
            let first = &stages[0].train;
            let dropouts =
                |train: &TrainRecipe| [Some(train.dropout), train.attention_dropout, train.hidden_dropout];
            if dropouts(train) != dropouts(first) {
                let what = "its dropout is another than that of the stage before".to_string();
                return wrong(what, "give train.dropout once, for all stages");
            }
            if train.batch == 0 || train.micro_batch == Some(0) {
                return wrong("a batch of 0 examples".into(), "give train.batch at least 1");
            }
            let batches = [
                ("train.batch", Some(train.micro_batch.unwrap_or(train.batch))),
                ("evaluate.batch", one.evaluate.batch),
            ];
            for (name, size) in batches {
                if let Some(size) = size.filter(|&size| size > MOST_AT_ONCE) {
                    let what = format!("{name} is {size} examples at once");
                    return wrong(
                        what,
                        &format!("give at most {MOST_AT_ONCE}, and the rest as micro-batches"),
                    );
                }
            }
            if let Some(micro) = train.micro_batch.filter(|micro| !train.batch.is_multiple_of(*micro)) {
                let what = format!("a batch of {} in micro-batches of {micro}", train.batch);
                return wrong(what, "choose a micro_batch that divides the batch");
            }
            if !(train.lr.is_finite() && train.lr >= 0.0) {
                return wrong(format!("train.lr is {}", train.lr), "give a number that is not negative");
            }
            let fractions = [("train.floor", train.floor), ("data.salient", one.data.salient)];
            if let Some((name, number)) = fractions.iter().find(|(_, number)| !(0.0..=1.0).contains(number)) {
                return wrong(format!("{name} is {number}"), "give a fraction from 0 to 1");
            }
            if train.warmup_steps > 0 && train.warmup_tokens > 0 {
                let what = "both train.warmup_steps and train.warmup_tokens".to_string();
                return wrong(what, "give one of them");
            }
            if train.steps == Some(0) || (train.epochs == 0 && train.steps.is_none()) {
                return wrong("a run of no steps".into(), "give train.epochs or train.steps at least 1");
            }
        }
        Ok(())
    }
}

/// Refuses a family that is not registered, and keys that no family has. `place` is where a key stands.
pub(super) fn check_model(
    model: &ModelRecipe,
    registry: &Registry,
    place: impl Fn(&str) -> String,
) -> Result<()> {
    if registry.family(&model.family).is_err() {
        let known: Vec<&str> = registry.families().map(|family| family.name()).collect();
        let what = format!("`{}` is not known here", model.family);
        return Err(Error::at(&place("family"), what, nearest(&model.family, &known, "known are")));
    }
    registry
        .check_keys(None, &model.keys())
        .map_err(|fault| Error::at(&place(&fault.key), fault.what, fault.advice))
}

/// Where a key of `[model]` stands in a text.
fn line_of(text: &str, place: &str, key: &str) -> String {
    let mut inside = false;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            inside = header.split(']').next().is_some_and(|name| name.trim() == "model");
            continue;
        }
        let name = line.split('=').next().unwrap_or_default().trim();
        if (inside && name == key) || name == format!("model.{key}") {
            return format!("{place}:{}", number + 1);
        }
    }
    place.to_string()
}

/// "did you mean …" where a name is near, or all of them.
fn nearest(name: &str, known: &[&str], all: &str) -> String {
    match regard_graph::nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("{all} {}", known.join(", ")),
    }
}

/// Takes the stages out, each completed with what the recipe's own tables say.
fn resolve_stages(table: &mut Table) -> Vec<Table> {
    let stages = match table.remove("stage") {
        Some(Value::Array(stages)) => stages,
        _ => return Vec::new(),
    };
    let complete = |stage: Value| {
        let mut whole = Table::new();
        for key in super::COMMON {
            if let Some(value) = table.get(key) {
                whole.insert(key.into(), value.clone());
            }
        }
        if let Value::Table(stage) = stage {
            overrides::merge(&mut whole, stage);
        }
        whole
    };
    stages.into_iter().map(complete).collect()
}

/// Reads TOML as a type; mistakes get a place and a nearest name.
pub(crate) fn checked<T: DeserializeOwned>(text: &str, place: &str) -> Result<T> {
    toml::from_str(text).map_err(|error| located(&error, text, place))
}

/// An error of the reader in our words.
fn located(error: &toml::de::Error, text: &str, place: &str) -> Error {
    let start = error.span().map_or(0, |span| span.start.min(text.len()));
    let line = text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count();
    let place = if text.contains('\n') { format!("{place}:{}", line + 1) } else { place.to_string() };
    let table = text
        .lines()
        .take(line + 1)
        .filter_map(|line| line.trim().strip_prefix('[').and_then(|rest| rest.split(']').next()))
        .last()
        .map(|name| format!("[{}]", name.trim_start_matches('[')));
    let message = error.message();
    if let Some((kind, name, known)) = unknown(message) {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let here = text.lines().nth(line).unwrap_or_default().trim();
        let heading =
            here.starts_with('[') && here.trim_matches(['[', ']']).rsplit('.').next() == Some(&name);
        let (what, all) = match kind {
            "field" if heading => (format!("there is no table [{name}]"), "keys and tables here are"),
            "field" => (
                format!(
                    "there is no key `{name}`{}",
                    table.map(|table| format!(" in {table}")).unwrap_or_default()
                ),
                "keys here are",
            ),
            _ => (format!("`{name}` is not known here"), "known are"),
        };
        return Error::at(&place, what, nearest(&name, &known, all));
    }
    let key = text.lines().nth(line).and_then(|line| line.split_once('=')).map(|(key, _)| key.trim());
    match (message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: ")), key) {
        (Some(rest), Some(key)) => {
            let (got, expected) = rest.split_once(", expected ").unwrap_or((rest, "another type"));
            let table = table.map(|table| format!(" in {table}")).unwrap_or_default();
            Error::at(
                &place,
                format!("`{key}`{table} is {}", plain(got)),
                format!("it should be {}", plain(expected)),
            )
        }
        _ => Error::at(&place, message.trim().replace('\n', ", "), "see the TOML format, https://toml.io"),
    }
}

/// The parts of "unknown field `x`, expected one of `a`, `b`".
fn unknown(message: &str) -> Option<(&str, String, Vec<String>)> {
    let rest = message.strip_prefix("unknown ")?;
    let (kind, rest) = rest.split_once(' ')?;
    let mut names = rest.split('`').skip(1).step_by(2).map(str::to_string);
    let name = names.next()?;
    Some((kind, name, names.collect()))
}

/// The words of the reader's types in plain ones.
fn plain(words: &str) -> String {
    let known = [
        ("string ", "the text "),
        ("integer ", "the whole number "),
        ("floating point ", "the number "),
        ("boolean ", ""),
    ];
    let whole = [
        ("usize", "a whole number that is not negative"),
        ("u64", "a whole number that is not negative"),
        ("f64", "a number"),
        ("f32", "a number"),
        ("a boolean", "true or false"),
        ("a string", "a text in quotes"),
        ("path string", "a path in quotes"),
        ("a sequence", "a list: [ … ]"),
        ("sequence", "a list"),
        ("map", "a table"),
    ];
    if let Some((_, ours)) = whole.iter().find(|(theirs, _)| *theirs == words) {
        return ours.to_string();
    }
    for (theirs, ours) in known {
        if let Some(rest) = words.strip_prefix(theirs) {
            return format!("{ours}{}", rest.replace('`', ""));
        }
    }
    words.to_string()
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
