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
//!
//! What the files of an encoder-decoder say about the texts that it writes is obeyed ([`Rules`]), or refused:
//! never passed over. How wide a search is, how it weighs lengths and how long a text may be, the caller
//! says.

use crate::{Error, Result};
use regard_data::Tokenizer;
use regard_data::folder::read_json;
use regard_data::tokenizer::Special;
use regard_generate::Rules;
use serde_json::Value;
use std::path::Path;

/// What the files beside a model say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The token with which an encoder-decoder begins to write.
    pub start: Option<i32>,
    /// The tokens that end a text; none if no file says.
    pub stop: Vec<i32>,
    /// What the texts of an encoder-decoder must begin and end with, and must not hold.
    pub rules: Rules,
}

/// What changes texts and is not done here, with the value that changes nothing.
const NOT_DONE: [(&str, f64); 10] = [
    ("encoder_no_repeat_ngram_size", 0.0),
    ("repetition_penalty", 1.0),
    ("encoder_repetition_penalty", 1.0),
    ("num_beam_groups", 1.0),
    ("diversity_penalty", 0.0),
    ("guidance_scale", 1.0),
    ("exponential_decay_length_penalty", f64::NAN),
    ("forced_decoder_ids", f64::NAN),
    ("begin_suppress_tokens", f64::NAN),
    ("sequence_bias", f64::NAN),
];

impl Written {
    /// Reads them. `path` is a model's folder, or a file of llama2.c; `config` its config. `pair`: of an
    /// encoder-decoder.
    pub fn read(path: &Path, config: &Value, pair: bool) -> Result<Written> {
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
        let rules = match pair {
            true => {
                // Where somebody decided about writing, what the config says of it does not count.
                let config_path = path.join("config.json");
                let (said_by, said) = match own.is_null() {
                    true => (config_path.as_path(), config),
                    false => (file.as_path(), &own),
                };
                rules(said_by, said)?
            }
            false => Rules::default(),
        };
        Ok(Written { start, stop, rules })
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

/// The rules that a file asks for.
fn rules(path: &Path, said: &Value) -> Result<Rules> {
    for (name, neutral) in NOT_DONE {
        let value = &said[name];
        let changes = match value {
            Value::Null => false,
            Value::Array(all) => !all.is_empty(),
            value => value.as_f64() != Some(neutral),
        };
        if changes {
            return Err(Error::File {
                path: path.display().to_string(),
                what: format!("`{name}` is {value}, which changes texts and is not done here"),
                advice: "take it out to write without it".into(),
            });
        }
    }
    let ids_of = |name: &str| ids(path, name, &said[name]);
    let size = |name: &str| match &said[name] {
        Value::Null => Ok(0),
        value => value
            .as_u64()
            .map(|size| size as usize)
            .ok_or_else(|| wrong(path, name, value, "a whole number that is not negative")),
    };
    let mut never: Vec<Vec<i32>> = ids_of("suppress_tokens")?.into_iter().map(|id| vec![id]).collect();
    let words = &said["bad_words_ids"];
    match words {
        Value::Null => {}
        Value::Array(all) => {
            for word in all {
                match ids(path, "bad_words_ids", word)? {
                    empty if empty.is_empty() => {
                        return Err(wrong(path, "bad_words_ids", words, "a list of lists of tokens"));
                    }
                    word => never.push(word),
                }
            }
        }
        _ => return Err(wrong(path, "bad_words_ids", words, "a list of lists of tokens")),
    }
    Ok(Rules {
        first: ids_of("forced_bos_token_id")?.first().copied(),
        last: ids_of("forced_eos_token_id")?,
        never,
        least: size("min_length")?,
        least_new: size("min_new_tokens")?,
        no_repeat: size("no_repeat_ngram_size")?,
    })
}

fn wrong(path: &Path, name: &str, value: &Value, expected: &str) -> Error {
    Error::File {
        path: path.display().to_string(),
        what: format!("`{name}` is {value}, expected {expected}"),
        advice: "mend it, or take it out".into(),
    }
}

/// The ids that a file has under a name.
fn ids(path: &Path, name: &str, value: &Value) -> Result<Vec<i32>> {
    let number = |value: &Value| value.as_i64().and_then(|id| i32::try_from(id).ok()).filter(|id| *id >= 0);
    let all = match value {
        Value::Null => Some(Vec::new()),
        Value::Array(all) => all.iter().map(number).collect(),
        one => number(one).map(|id| vec![id]),
    };
    all.ok_or_else(|| wrong(path, name, value, "the number of a token, or a list of such"))
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
