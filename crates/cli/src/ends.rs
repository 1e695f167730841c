//! With which tokens texts begin and end, as a model's folder says: in generation_config.json, or else in config.json.

use anyhow::{Result, bail};
use regard::data::folder::read_json;
use regard::hub::Opened;
use serde_json::Value;

/// The tokens that end a text; llama2.c also ends where one begins.
pub fn stop(opened: &Opened) -> Result<Vec<i32>> {
    let mut ids = told(opened, "eos_token_id")?;
    if opened.folder().is_none() {
        ids.extend(number(&opened.config["bos_token_id"]));
    }
    Ok(ids)
}

/// The token with which an encoder-decoder begins to write: as given, or as the folder says.
pub fn start(opened: &Opened, given: Option<i32>) -> Result<i32> {
    if let Some(id) = given {
        return Ok(id);
    }
    for name in ["decoder_start_token_id", "bos_token_id"] {
        if let Some(id) = told(opened, name)?.first() {
            return Ok(*id);
        }
    }
    bail!(
        "{}: config.json does not say with which token an answer begins; add `decoder_start_token_id`, or give --start",
        opened.path.display()
    )
}

fn told(opened: &Opened, name: &str) -> Result<Vec<i32>> {
    let file = opened.path.join("generation_config.json");
    let own = if file.is_file() { read_json(&file)?[name].clone() } else { Value::Null };
    Ok(match if own.is_null() { &opened.config[name] } else { &own } {
        Value::Array(all) => all.iter().filter_map(number).collect(),
        one => number(one).into_iter().collect(),
    })
}

fn number(value: &Value) -> Option<i32> {
    value.as_i64().and_then(|id| i32::try_from(id).ok())
}
