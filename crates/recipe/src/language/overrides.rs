//! Overrides: `train.lr=1e-3` into the tables of a recipe, `stage.pretrain.train.epochs=2` into those of one
//! stage. They go through the same checks as the recipe itself, and one that would change nothing is refused
//! rather than forgotten.

use super::read::{check_model, checked};
use super::{ModelRecipe, Recipe, StageRecipe};
use crate::{Error, Result};
use regard_models::Registry;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

/// Puts one override into a recipe.
pub(super) fn put(table: &mut Table, given: &str, registry: &Registry) -> Result<()> {
    let Some((key, value)) = given.split_once('=') else {
        return Err(Error::at(given, "this override has no `=`", "write it as key=value: train.lr=1e-3"));
    };
    let (key, value) = (key.trim(), value.trim());
    let plain =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
    if !key.split('.').all(plain) {
        return Err(Error::at(given, format!("`{key}` is no key"), "write keys as in train.lr"));
    }
    match key.strip_prefix("stage.") {
        Some(rest) => {
            let (name, key) = rest.split_once('.').ok_or_else(|| {
                Error::at(
                    given,
                    format!("`{key}` names no key of a stage"),
                    "write it as in stage.NAME.train.lr=1e-3",
                )
            })?;
            // The stage first: in stage.train.lr=1 its name is missing, not a key.
            let own = stage(table, name, key, given)?;
            merge(own, parsed::<StageRecipe>(key, value, given)?);
        }
        None => {
            let over = parsed::<Recipe>(key, value, given)?;
            if let Some(model) = over.get("model") {
                let model: ModelRecipe = model
                    .clone()
                    .try_into()
                    .map_err(|error: toml::de::Error| Error::at(given, error.message(), "see [model]"))?;
                check_model(&model, registry, |_| given.to_string())?;
            }
            has_effect(table, key, given)?;
            merge(table, over);
        }
    }
    Ok(())
}

/// What the second says goes before what the first does.
pub(super) fn merge(table: &mut Table, over: Table) {
    for (key, value) in over {
        match (table.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => merge(below, above),
            (_, value) => {
                table.insert(key, value);
            }
        }
    }
}

/// A key and its value as a table. A value that is no TOML is taken as text, so that words need no quotes.
fn parsed<T: DeserializeOwned>(key: &str, value: &str, given: &str) -> Result<Table> {
    let document = format!("{key} = {value}");
    let text = match document.parse::<Table>() {
        Ok(_) if !value.contains('\n') => document,
        _ => format!("{key} = {}", Value::String(value.to_string())),
    };
    // A list of one needs no brackets: data.train=my.txt
    match checked::<T>(&text, given) {
        Ok(_) => checked(&text, given),
        Err(error) => {
            let listed = match text.split_once('=') {
                Some((key, value)) => format!("{key}= [{}]", value.trim()),
                None => return Err(error),
            };
            match checked::<T>(&listed, given) {
                Ok(_) => checked(&listed, given),
                Err(_) => Err(error),
            }
        }
    }
}

/// The stage of a name.
fn stage<'t>(table: &'t mut Table, name: &str, key: &str, given: &str) -> Result<&'t mut Table> {
    let names: Vec<String> =
        stages(table).filter_map(|stage| stage.get("name")?.as_str()).map(str::to_string).collect();
    if names.is_empty() {
        let what = "this recipe has no stages";
        return Err(Error::at(given, what, format!("leave the stage out: {key}=…")));
    }
    let unknown = || {
        let advice = regard_graph::offer("stage", name, names.iter().map(String::as_str));
        Error::at(given, format!("no stage is called `{name}`"), advice)
    };
    let all = table.get_mut("stage").and_then(Value::as_array_mut);
    let own = all.into_iter().flatten().filter_map(Value::as_table_mut);
    own.into_iter().find(|stage| stage.get("name").and_then(Value::as_str) == Some(name)).ok_or_else(unknown)
}

/// Refuses to override what every stage says for itself.
fn has_effect(table: &Table, key: &str, given: &str) -> Result<()> {
    let sets = |stage: &Table| {
        let mut path = key.split('.');
        let first = path.next().and_then(|part| stage.get(part));
        path.try_fold(first, |value, part| Some(value?.as_table()?.get(part))).flatten().is_some()
    };
    let common = super::COMMON.iter().any(|table| key.starts_with(&format!("{table}.")));
    if !common || stages(table).next().is_none() || !stages(table).all(sets) {
        return Ok(());
    }
    let name = stages(table).find_map(|stage| stage.get("name")?.as_str()).unwrap_or("NAME");
    let value = given.split_once('=').map_or("", |(_, value)| value.trim());
    let what = format!("every stage has a `{key}` of its own, so this changes nothing");
    Err(Error::at(given, what, format!("name the stage: stage.{name}.{key}={value}")))
}

fn stages(table: &Table) -> impl Iterator<Item = &Table> {
    table.get("stage").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table)
}
