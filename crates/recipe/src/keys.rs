//! Every key of recipes, read off the structures that read them: what it takes, what it is where nothing is
//! said, and what it means. So the list cannot tell of a key that is not there, nor leave one out.

use crate::language::Recipe;
use schemars::schema_for;
use serde_json::{Map, Value};

/// A key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipeKey {
    /// The table that it stands in: `data`; empty for keys before all tables.
    pub table: String,
    /// Its name there.
    pub name: String,
    /// What it takes: `a number`, `"adamw" or "sgd"`.
    pub takes: String,
    /// Its value where nothing is said, as TOML; none if it is simply not there.
    pub otherwise: Option<String>,
    /// What it means.
    pub meaning: String,
    /// Its words and what each means, where it takes one of several.
    pub words: Vec<(String, String)>,
}

/// The tables of a recipe, in the order in which one writes them.
const TABLES: [&str; 7] = ["model", "tokenizer", "data", "train", "evaluate", "from", "adapt"];

/// All keys but those of `[model]`, which are its family's, table by table. What a stage has are the same
/// keys in tables of its own.
pub fn recipe_keys() -> Vec<RecipeKey> {
    let schema = schema_for!(Recipe).to_value();
    let reader = Reader { definitions: schema["$defs"].as_object().cloned().unwrap_or_default() };
    let own = schema["properties"].as_object().cloned().unwrap_or_default();
    let is_table = |name: &str| TABLES.contains(&name);
    let mut keys = Vec::new();
    for (name, property) in own.iter().filter(|(name, _)| !is_table(name)) {
        keys.push(reader.key("", name, property));
    }
    let others =
        own.keys().map(String::as_str).filter(|name| !is_table(name) && reader.is_struct(&own[*name]));
    for table in TABLES.into_iter().chain(others.collect::<Vec<_>>()) {
        let Some(property) = own.get(table) else { continue };
        let properties = reader.resolved(property)["properties"].as_object().cloned().unwrap_or_default();
        keys.extend(properties.iter().map(|(name, property)| reader.key(table, name, property)));
    }
    keys.retain(|key| !key.table.is_empty() || !own.get(&key.name).is_some_and(|own| reader.is_struct(own)));
    keys
}

struct Reader {
    definitions: Map<String, Value>,
}

impl Reader {
    fn key(&self, table: &str, name: &str, property: &Value) -> RecipeKey {
        let words = self.words(property);
        let takes = match words.is_empty() {
            true => self.takes(property),
            false => any_of(words.iter().map(|(word, _)| format!("\"{word}\""))),
        };
        let otherwise = property.get("default").filter(|value| !value.is_null()).and_then(toml_of);
        let meaning = property["description"].as_str().unwrap_or_default().replace('\n', " ");
        RecipeKey { table: table.into(), name: name.into(), takes, otherwise, meaning, words }
    }

    /// What a reference stands for; of something that may be missing, what it is where it is there.
    fn resolved<'a>(&'a self, property: &'a Value) -> &'a Value {
        if let Some(name) = property["$ref"].as_str().and_then(|at| at.strip_prefix("#/$defs/")) {
            return self.definitions.get(name).unwrap_or(property);
        }
        let choices = property["anyOf"].as_array();
        let there = choices.and_then(|all| all.iter().find(|one| one["type"] != "null"));
        there.map_or(property, |there| self.resolved(there))
    }

    fn is_struct(&self, property: &Value) -> bool {
        self.resolved(property).get("properties").is_some()
    }

    /// The words of a choice, with what each means.
    fn words(&self, property: &Value) -> Vec<(String, String)> {
        let found = self.resolved(property);
        let described = found["oneOf"].as_array().into_iter().flatten().filter_map(|one| {
            let meaning = one["description"].as_str().unwrap_or_default().replace('\n', " ");
            Some((one["const"].as_str()?.to_string(), meaning))
        });
        let plain = found["enum"].as_array().into_iter().flatten();
        let plain = plain.filter_map(|one| Some((one.as_str()?.to_string(), String::new())));
        described.chain(plain).collect()
    }

    fn takes(&self, property: &Value) -> String {
        let found = self.resolved(property);
        let kind = match &found["type"] {
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
            kind => kind.as_str(),
        };
        match kind {
            Some("string") => "a text".into(),
            Some("integer") => "a whole number".into(),
            Some("number") => "a number".into(),
            Some("boolean") => "true or false".into(),
            Some("array") => match (found["items"].is_object(), found["maxItems"].as_u64()) {
                (true, None) if self.is_struct(&found["items"]) => "tables".into(),
                (true, None) => format!("a list: {} each", self.takes(&found["items"])),
                (true, Some(count)) => format!("a list of {count}: {} each", self.takes(&found["items"])),
                (false, _) => "a list".into(),
            },
            _ => "a value".into(),
        }
    }
}

/// A, b or c.
fn any_of(words: impl Iterator<Item = String>) -> String {
    let mut words: Vec<String> = words.collect();
    match words.pop() {
        Some(last) if !words.is_empty() => format!("{} or {last}", words.join(", ")),
        last => last.unwrap_or_default(),
    }
}

/// A value as one writes it; none for an empty list or text, which says nothing.
fn toml_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => (!text.is_empty()).then(|| format!("\"{text}\"")),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().filter_map(toml_of).collect();
            (!items.is_empty()).then(|| format!("[{}]", items.join(", ")))
        }
        // 0.1 as f32 has more digits as f64 than anybody wrote.
        Value::Number(number) if number.is_f64() => {
            let number = number.as_f64()?;
            let short = format!("{:?}", number as f32);
            let same = short.parse::<f64>().is_ok_and(|short| (short - number).abs() <= number.abs() * 1e-7);
            Some(if same { short } else { format!("{number:?}") })
        }
        Value::Object(_) => None,
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(table: &str, name: &str) -> RecipeKey {
        let found = recipe_keys().into_iter().find(|key| key.table == table && key.name == name);
        found.unwrap_or_else(|| panic!("no {table}.{name}"))
    }

    #[test]
    fn keys_say_what_they_take_and_mean() {
        let shown = |table, name| {
            let RecipeKey { takes, otherwise, meaning, .. } = key(table, name);
            (takes, otherwise.unwrap_or_default(), meaning)
        };
        let text = |takes: &str, otherwise: &str, meaning: &str| {
            (takes.to_string(), otherwise.to_string(), meaning.to_string())
        };
        assert_eq!(shown("train", "lr"), text("a number", "0.001", "The highest learning rate."));
        assert_eq!(
            shown("train", "dropout"),
            text("a number", "0.1", "Probability with which activations are dropped.")
        );
        assert_eq!(shown("train", "betas").0, "a list of 2: a number each");
        assert_eq!(shown("train", "betas").1, "[0.9, 0.95]");
        assert_eq!(shown("train", "groups").0, "tables");
        assert_eq!(shown("train", "optimizer").0, "\"adamw\" or \"sgd\"");
        assert_eq!(shown("data", "train").0, "a list: a text each");
        assert_eq!(shown("data", "pad_to").0, "a whole number");
        assert_eq!(shown("", "seed").0, "a whole number");
        assert_eq!(shown("from", "model").1, "");
        let words = key("tokenizer", "kind").words;
        assert_eq!(words[1], ("bytes".to_string(), "One for each byte.".to_string()));
    }

    #[test]
    fn every_key_has_a_meaning_and_every_table_is_there() {
        let keys = recipe_keys();
        for key in &keys {
            assert!(key.meaning.ends_with('.') && key.takes != "a value", "{key:?}");
            assert!(key.words.iter().all(|(_, meaning)| meaning.ends_with('.')), "{key:?}");
        }
        for table in TABLES {
            assert!(keys.iter().any(|key| key.table == table), "{table}");
        }
        assert!(keys.iter().all(|key| !key.table.is_empty() || !TABLES.contains(&key.name.as_str())));
    }
}
