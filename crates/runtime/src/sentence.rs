//! How the folder of a sentence-transformer wants its texts turned into vectors: which modules follow one
//! another (`modules.json`), how hidden states become one (`1_Pooling/config.json`), how much of a text is
//! read (`sentence_bert_config.json`, or the tokenizer's own limit) and what stands before each
//! (`config_sentence_transformers.json`). What is done otherwise there than here is refused. A folder without
//! these files is embedded by the mean.

use crate::{Error, Result};
use regard_data::folder::{read_json, read_json_list};
use regard_models::SentencePooling;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What a folder says about its vectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SentenceForm {
    /// How hidden states become one.
    pub pooling: SentencePooling,
    /// The most tokens of a text that are read, if the files say so.
    pub most: Option<usize>,
    /// Whether texts are read in small letters.
    pub lower: bool,
    /// What stands before each text.
    pub prompt: String,
}

/// How the folder of an encoder wants the hidden states of a text to become one vector; by the mean if it
/// does not say.
pub fn sentence_pooling(folder: &Path) -> Result<SentencePooling> {
    Ok(SentenceForm::read(folder)?.pooling)
}

/// The modes of pooling and how older files name them.
const MODES: [(&str, &str); 6] = [
    ("cls", "pooling_mode_cls_token"),
    ("mean", "pooling_mode_mean_tokens"),
    ("max", "pooling_mode_max_tokens"),
    ("mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens"),
    ("weightedmean", "pooling_mode_weightedmean_tokens"),
    ("lasttoken", "pooling_mode_lasttoken"),
];

impl SentenceForm {
    /// Reads what lies in a model's folder.
    pub fn read(folder: &Path) -> Result<SentenceForm> {
        let known = modules(folder)?;
        let (pooling, with_prompt) = match &known {
            Some(pooling) => read_pooling(pooling)?,
            None => match folder.join("1_Pooling/config.json") {
                file if file.is_file() => read_pooling(&file)?,
                _ => (SentencePooling::Mean, true),
            },
        };
        let bert = optional(&folder.join("sentence_bert_config.json"))?;
        let limit = || -> Result<Value> {
            Ok(optional(&folder.join("tokenizer_config.json"))?["model_max_length"].clone())
        };
        let most = match (&bert["max_seq_length"], &known) {
            (Value::Null, Some(_)) => limit()?,
            (own, _) => own.clone(),
        };
        let prompt = prompt(folder)?;
        if !prompt.is_empty() && !with_prompt {
            return Err(refused(
                &folder.join("config_sentence_transformers.json"),
                "a prompt stands before each text and is left out of its vector, which embed does not do",
                "take `default_prompt_name` out and give texts without it, or take another model",
            ));
        }
        // Tokenizers without a limit of their own write 1e30.
        let most = most.as_u64().and_then(|most| usize::try_from(most).ok()).filter(|&most| most > 0);
        Ok(SentenceForm { pooling, most, lower: bert["do_lower_case"] == true, prompt })
    }

    /// A text as the model reads it.
    pub fn text(&self, text: &str) -> String {
        let text = format!("{}{text}", self.prompt);
        if self.lower { text.to_lowercase() } else { text }
    }
}

/// The file that describes the pooling of a folder with `modules.json`; none without one.
fn modules(folder: &Path) -> Result<Option<PathBuf>> {
    let path = folder.join("modules.json");
    if !path.is_file() {
        return Ok(None);
    }
    let modules = read_json_list(&path)?;
    let mut pooling = None;
    for (at, module) in modules.iter().enumerate() {
        let kind = module["type"].as_str().unwrap_or_default();
        let place = module["path"].as_str().unwrap_or_default();
        // Newer versions name the same classes by longer paths.
        match (at, kind.rsplit('.').next().unwrap_or_default(), place) {
            (0, "Transformer", "") => {}
            (1, "Pooling", place) if is_plain(place) => {
                pooling = Some(folder.join(place).join("config.json"))
            }
            (2, "Normalize", _) => {}
            _ => {
                return Err(refused(
                    &path,
                    format!("module {at} is `{kind}` at `{place}`, which embed has not"),
                    "take a model of Transformer, Pooling and perhaps Normalize, in this order",
                ));
            }
        }
    }
    match pooling {
        Some(file) if file.is_file() => Ok(Some(file)),
        Some(file) => Err(refused(
            &file,
            "modules.json names this file, and it is not there",
            "copy it from where the model came from: it says how the vectors of tokens become one",
        )),
        None => Err(refused(&path, "names no Pooling", "take a model of Transformer and Pooling")),
    }
}

/// A folder directly inside.
fn is_plain(place: &str) -> bool {
    !place.is_empty() && !place.starts_with('.') && !place.contains(['/', '\\'])
}

/// The pooling that a file describes, and whether a prompt takes part in it.
fn read_pooling(path: &Path) -> Result<(SentencePooling, bool)> {
    let file = read_json(path)?;
    let modes: Vec<&str> = match &file["pooling_mode"] {
        Value::String(one) => vec![one.as_str()],
        Value::Array(several) => several.iter().map(|mode| mode.as_str().unwrap_or("?")).collect(),
        // The mean counts where nothing is said of it.
        Value::Null => {
            let is_set = |name: &str| file[name].as_bool().unwrap_or(name == "pooling_mode_mean_tokens");
            MODES.iter().filter(|(_, name)| is_set(name)).map(|(mode, _)| *mode).collect()
        }
        _ => vec!["?"],
    };
    let pooling = match modes.as_slice() {
        [one] if one.eq_ignore_ascii_case("mean") => SentencePooling::Mean,
        [one] if one.eq_ignore_ascii_case("cls") => SentencePooling::First,
        other => {
            let named = if other.is_empty() { "nothing".into() } else { other.join(" and ") };
            return Err(refused(
                path,
                format!("the vector of a text is made of {named}; embed makes it of mean or cls alone"),
                "take a model that was trained for one of them",
            ));
        }
    };
    Ok((pooling, file["include_prompt"].as_bool().unwrap_or(true)))
}

/// What stands before each text where nobody asks for anything else.
fn prompt(folder: &Path) -> Result<String> {
    let path = folder.join("config_sentence_transformers.json");
    let file = optional(&path)?;
    let Some(name) = file["default_prompt_name"].as_str() else { return Ok(String::new()) };
    match file["prompts"][name].as_str() {
        Some(prompt) => Ok(prompt.to_owned()),
        None => Err(refused(
            &path,
            format!("`default_prompt_name` is \"{name}\", and `prompts` has no text of that name"),
            "copy the file from where the model came from",
        )),
    }
}

/// A file that need not be there.
fn optional(path: &Path) -> Result<Value> {
    if path.is_file() { Ok(read_json(path)?) } else { Ok(Value::Null) }
}

fn refused(path: &Path, what: impl Into<String>, advice: impl Into<String>) -> Error {
    Error::File { path: path.display().to_string(), what: what.into(), advice: advice.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_read_otherwise_is_refused() {
        let folder = std::env::temp_dir().join(format!("regard-pooling-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("1_Pooling")).unwrap();
        assert_eq!(sentence_pooling(&folder).unwrap(), SentencePooling::Mean);
        let put = |text: &str| std::fs::write(folder.join("1_Pooling/config.json"), text).unwrap();
        put(r#"{"pooling_mode": "cls"}"#);
        assert_eq!(sentence_pooling(&folder).unwrap(), SentencePooling::First);
        put(r#"{"pooling_mode": "max"}"#);
        let message = sentence_pooling(&folder).unwrap_err().to_string();
        assert!(
            message.contains("the vector of a text is made of max; embed makes it of mean or cls alone"),
            "{message}"
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
