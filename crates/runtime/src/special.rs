//! With which tokens a model's texts begin and end: one rule for all that open a folder. Each question is
//! answered by the first that knows:
//!
//! 1. `generation_config.json`, what somebody decided about writing with this model,
//! 2. `config.json`, what the model was made with,
//! 3. the special tokens of the tokenizer, by their usual names.
//!
//! A text ends with any `eos_token_id`, of which there may be several; by the tokenizer, with the one that
//! ends a text or, for an encoder-decoder, separates two. An encoder-decoder begins with its
//! `decoder_start_token_id`, or else its `bos_token_id`; by the tokenizer, with the token that begins a text,
//! stands for its class, or pads. Texts of llama2.c end where another begins, too. What stands in a file is a
//! number or a list of them; anything else is refused.

use crate::{Error, Result};
use regard_data::Tokenizer;
use regard_data::folder::read_json;
use regard_data::tokenizer::Special;
use serde_json::Value;
use std::path::Path;

/// What the files beside a model say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The token with which an encoder-decoder begins to write.
    pub start: Option<i32>,
    /// The tokens that end a text; none if no file says.
    pub stop: Vec<i32>,
}

impl Written {
    /// Reads them. `path` is a model's folder, or a file of llama2.c; `config` its config.
    pub fn read(path: &Path, config: &Value) -> Result<Written> {
        let file = path.join("generation_config.json");
        let own = if file.is_file() { read_json(&file)? } else { Value::Null };
        let ids_of = |name: &str| -> Result<Vec<i32>> {
            match &own[name] {
                Value::Null => ids(&path.join("config.json"), name, &config[name]),
                value => ids(&file, name, value),
            }
        };
        let mut stop = ids_of("eos_token_id")?;
        let begin = ids_of("bos_token_id")?;
        // Of llama2.c: a GGUF file says by itself what ends a text.
        if path.is_file() && path.extension().is_none_or(|ending| ending != "gguf") {
            stop.extend(&begin);
        }
        let start = ids_of("decoder_start_token_id")?.first().or(begin.first()).copied();
        Ok(Written { start, stop })
    }
}

/// The token with which a translation begins, by the tokenizer alone.
pub fn start_of(tokenizer: &Tokenizer) -> Option<u32> {
    first(tokenizer, &[Special::Begin, Special::Class, Special::Pad])
}

/// The token with which a text ends, by the tokenizer alone. `pair`: of an encoder-decoder.
pub fn stop_of(tokenizer: &Tokenizer, pair: bool) -> Option<u32> {
    first(tokenizer, if pair { &[Special::End, Special::Separator] } else { &[Special::End] })
}

fn first(tokenizer: &Tokenizer, parts: &[Special]) -> Option<u32> {
    parts.iter().find_map(|part| tokenizer.special(*part))
}

/// The ids that a file has under a name.
fn ids(path: &Path, name: &str, value: &Value) -> Result<Vec<i32>> {
    let number = |value: &Value| value.as_i64().and_then(|id| i32::try_from(id).ok()).filter(|id| *id >= 0);
    let all = match value {
        Value::Null => Some(Vec::new()),
        Value::Array(all) => all.iter().map(number).collect(),
        one => number(one).map(|id| vec![id]),
    };
    all.ok_or_else(|| Error::File {
        path: path.display().to_string(),
        what: format!("`{name}` is {value}, expected the number of a token, or a list of such"),
        advice: "mend it, or take it out".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_no_token_is_refused() {
        let text =
            |value: Value| ids(Path::new("config.json"), "eos_token_id", &value).unwrap_err().to_string();
        for (value, shown) in [(json!("</s>"), "\"</s>\""), (json!(-1), "-1"), (json!([1, 2.5]), "[1,2.5]")] {
            assert_eq!(
                text(value),
                format!(
                    "config.json: `eos_token_id` is {shown}, expected the number of a token, or a list of such; mend it, \
                     or take it out"
                )
            );
        }
        assert_eq!(ids(Path::new(""), "x", &Value::Null).unwrap(), Vec::<i32>::new());
        assert_eq!(ids(Path::new(""), "x", &json!([3, 1])).unwrap(), [3, 1]);
    }
}
