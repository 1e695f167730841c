//! How the folder of a sentence-transformer wants its texts turned into vectors: which modules follow one
//! another (`modules.json`), how hidden states become one (`1_Pooling/config.json`), which layers follow
//! (`2_Dense`), how much of a text is read (`sentence_bert_config.json`, or the tokenizer's own limit) and
//! what stands before each (`config_sentence_transformers.json`). What is done otherwise there than here is
//! refused. A folder without these files is embedded by the mean at length 1.

use crate::{Error, Result};
use regard_data::Checkpoint;
use regard_data::folder::{read_json, read_json_list};
use regard_models::SentencePooling;
use regard_models::sentence::{Dense, DenseActivation, Pooling, SentenceHead, SentenceStep};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What a folder says about its vectors.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SentenceForm {
    /// How hidden states become a vector.
    pub head: SentenceHead,
    /// The numbers of its layers, by the names of their parameters.
    pub weights: Vec<(String, Vec<f32>)>,
    /// The most tokens of a text that are read, if the files say so.
    pub most: Option<usize>,
    /// Whether texts are read in small letters.
    pub lower: bool,
    /// What stands before each text.
    pub prompt: String,
    /// Whether the tokens of the prompt are pooled, too.
    pub pools_prompt: bool,
}

/// Which prompt stands before each text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prompt<'a> {
    /// The folder's own, if it has one.
    #[default]
    Default,
    /// The one that the folder has under this name.
    Named(&'a str),
}

/// How the folder of an encoder wants the hidden states of a text to become one vector, for one that learns;
/// by the mean if it does not say. Other poolings, several at once and layers behind them are refused.
pub fn sentence_pooling(folder: &Path) -> Result<SentencePooling> {
    let head = SentenceForm::read(folder, Prompt::Default)?.head;
    match head.poolings.as_slice() {
        [Pooling::Mean] if head.dense().next().is_none() => Ok(SentencePooling::Mean),
        [Pooling::First] if head.dense().next().is_none() => Ok(SentencePooling::First),
        _ => Err(refused(
            folder,
            "the vector of a text is not the mean of its states alone, nor its first state alone",
            "vectors that learn are one of these: start from another encoder",
        )),
    }
}

/// The modes of pooling and how older files name them, in the order in which those join several.
const MODES: [(&str, &str, Pooling); 6] = [
    ("cls", "pooling_mode_cls_token", Pooling::First),
    ("max", "pooling_mode_max_tokens", Pooling::Max),
    ("mean", "pooling_mode_mean_tokens", Pooling::Mean),
    ("mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", Pooling::RootMean),
    ("weightedmean", "pooling_mode_weightedmean_tokens", Pooling::WeightedMean),
    ("lasttoken", "pooling_mode_lasttoken", Pooling::Last),
];

/// What may follow a dense layer.
const ACTIVATIONS: [(&str, DenseActivation); 6] = [
    ("Identity", DenseActivation::Identity),
    ("Tanh", DenseActivation::Tanh),
    ("ReLU", DenseActivation::Relu),
    ("GELU", DenseActivation::Gelu),
    ("SiLU", DenseActivation::Silu),
    ("Sigmoid", DenseActivation::Sigmoid),
];

/// The vectors of the states, by the name that modules call them.
const VECTOR: &str = "sentence_embedding";

impl SentenceForm {
    /// Reads what lies in a model's folder.
    pub fn read(folder: &Path, prompt: Prompt<'_>) -> Result<SentenceForm> {
        let modules = Modules::read(folder)?;
        let has_modules = modules.is_some();
        let modules = match modules {
            Some(modules) => modules,
            None => Modules::without_list(folder)?,
        };
        let bert = optional(&folder.join("sentence_bert_config.json"))?;
        refuse_tasks(&folder.join("sentence_bert_config.json"), &bert)?;
        let limit = || -> Result<Value> {
            Ok(optional(&folder.join("tokenizer_config.json"))?["model_max_length"].clone())
        };
        let most = match &bert["max_seq_length"] {
            Value::Null if has_modules => limit()?,
            own => own.clone(),
        };
        // Tokenizers without a limit of their own write 1e30.
        let most = most.as_u64().and_then(|most| usize::try_from(most).ok()).filter(|&most| most > 0);
        let Modules { head, weights, pools_prompt } = modules;
        let lower = bert["do_lower_case"] == true;
        Ok(SentenceForm { head, weights, most, lower, prompt: prompt_of(folder, prompt)?, pools_prompt })
    }

    /// A text as the model reads it.
    pub fn text(&self, text: &str) -> String {
        self.cased(format!("{}{text}", self.prompt))
    }

    /// The prompt alone, where its tokens are read and not pooled.
    pub fn unpooled(&self) -> Option<String> {
        (!self.pools_prompt && !self.prompt.is_empty()).then(|| self.cased(self.prompt.clone()))
    }

    fn cased(&self, text: String) -> String {
        if self.lower { text.to_lowercase() } else { text }
    }
}

/// What the modules of a folder come to.
struct Modules {
    head: SentenceHead,
    weights: Vec<(String, Vec<f32>)>,
    pools_prompt: bool,
}

impl Modules {
    /// A folder without a list of modules: its pooling, if that is there, at length 1.
    fn without_list(folder: &Path) -> Result<Modules> {
        let file = folder.join("1_Pooling/config.json");
        let (poolings, pools_prompt) = match file.is_file() {
            true => read_pooling(&file)?,
            false => (vec![Pooling::Mean], true),
        };
        let head = SentenceHead { poolings, ..SentenceHead::default() };
        Ok(Modules { head, weights: Vec::new(), pools_prompt })
    }

    /// What `modules.json` lists; none without one.
    fn read(folder: &Path) -> Result<Option<Modules>> {
        let path = folder.join("modules.json");
        if !path.is_file() {
            return Ok(None);
        }
        let mut found: Option<Modules> = None;
        for (at, module) in read_json_list(&path)?.iter().enumerate() {
            let kind = module["type"].as_str().unwrap_or_default();
            let place = module["path"].as_str().unwrap_or_default();
            // Newer versions name the same classes by longer paths.
            match (at, kind.rsplit('.').next().unwrap_or_default(), &mut found) {
                (0, "Transformer", None) if place.is_empty() => {}
                (1, "Pooling", None) if is_plain(place) => {
                    let file = named(&folder.join(place).join("config.json"))?;
                    let (poolings, pools_prompt) = read_pooling(&file)?;
                    let head = SentenceHead { poolings, skipped: 0, steps: Vec::new() };
                    found = Some(Modules { head, weights: Vec::new(), pools_prompt });
                }
                (_, "Dense", Some(modules)) if is_plain(place) => {
                    modules.add_dense(&folder.join(place), place)?;
                }
                (_, "Normalize", Some(modules)) => {
                    if is_plain(place) {
                        refuse_other_vectors(&folder.join(place).join("config.json"))?;
                    }
                    modules.head.steps.push(SentenceStep::Normalize);
                }
                // It drops numbers in training alone.
                (_, "Dropout", Some(_)) => {}
                _ => {
                    return Err(refused(
                        &path,
                        format!("module {at} is `{kind}` at `{place}`, which embed has not"),
                        "take a model of Transformer and Pooling, then any of Dense, Normalize and Dropout",
                    ));
                }
            }
        }
        match found {
            Some(modules) => Ok(Some(modules)),
            None => Err(refused(&path, "names no Pooling", "take a model of Transformer and Pooling")),
        }
    }

    /// A layer and its numbers.
    fn add_dense(&mut self, folder: &Path, place: &str) -> Result<()> {
        let path = named(&folder.join("config.json"))?;
        refuse_other_vectors(&path)?;
        let file = read_json(&path)?;
        let size = |key: &str| {
            let size = file[key].as_u64().and_then(|size| usize::try_from(size).ok());
            size.filter(|&size| size > 0).ok_or_else(|| {
                refused(&path, format!("`{key}` is {}", file[key]), "it should be a whole number above 0")
            })
        };
        if file["use_residual"] == true {
            return Err(refused(
                &path,
                "`use_residual` is true, and embed has no layer that adds its input to its output",
                "take a model without",
            ));
        }
        let activation = match &file["activation_function"] {
            Value::Null => DenseActivation::Tanh,
            other => {
                let name = other.as_str().and_then(|name| name.strip_prefix("torch.nn.modules."));
                let name = name.and_then(|name| name.rsplit('.').next()).unwrap_or_default();
                let known = ACTIVATIONS.iter().find(|(known, _)| *known == name);
                known.map(|(_, activation)| *activation).ok_or_else(|| {
                    let names = ACTIVATIONS.map(|(known, _)| known).join(", ");
                    let advice = format!("embed has those of torch.nn.modules that are called {names}");
                    refused(&path, format!("`activation_function` is {other}"), advice)
                })?
            }
        };
        let (inputs, outputs) = (size("in_features")?, size("out_features")?);
        let bias = file["bias"].as_bool().unwrap_or(true);
        let name = format!("sentence.{place}");
        let checkpoint = Checkpoint::open(folder)?;
        for (part, shape) in [("weight", vec![outputs, inputs]), ("bias", vec![outputs])] {
            if part == "bias" && !bias {
                continue;
            }
            let tensor = checkpoint.get(&format!("linear.{part}"))?;
            if tensor.shape != shape {
                let what = format!("`linear.{part}` of its weights is {:?}, not {shape:?}", tensor.shape);
                return Err(refused(&path, what, "take the weights that belong to it"));
            }
            self.weights.push((format!("{name}.{part}"), tensor.f32s()));
        }
        let dense = Dense { name, inputs, outputs, bias, activation };
        self.head.steps.push(SentenceStep::Dense(dense));
        Ok(())
    }
}

/// A folder directly inside.
fn is_plain(place: &str) -> bool {
    !place.is_empty() && !place.starts_with('.') && !place.contains(['/', '\\'])
}

/// A file that `modules.json` speaks of.
fn named(file: &Path) -> Result<PathBuf> {
    match file.is_file() {
        true => Ok(file.to_path_buf()),
        false => Err(refused(
            file,
            "modules.json names this file, and it is not there",
            "copy it from where the model came from: it says how the vectors of tokens become one",
        )),
    }
}

/// A module that works on something else than the vector of the text.
fn refuse_other_vectors(path: &Path) -> Result<()> {
    let file = optional(path)?;
    for key in ["module_input_name", "module_output_name"] {
        match &file[key] {
            Value::Null => {}
            Value::String(name) if name == VECTOR => {}
            other => {
                let what = format!("`{key}` is {other}, and embed has nothing but \"{VECTOR}\" there");
                return Err(refused(path, what, "take a model with one vector for each text"));
            }
        }
    }
    Ok(())
}

/// A transformer that gives something else than hidden states, or reads texts in another way.
fn refuse_tasks(path: &Path, file: &Value) -> Result<()> {
    let kept = [("transformer_task", "feature-extraction"), ("module_output_name", "token_embeddings")];
    for (key, usual) in kept {
        if !file[key].is_null() && file[key] != usual {
            let what = format!("`{key}` is {}, and embed knows \"{usual}\" alone", file[key]);
            return Err(refused(path, what, "take a model that gives the states of its tokens"));
        }
    }
    let text = &file["modality_config"]["text"];
    for (key, usual) in [("method", "forward"), ("method_output_name", "last_hidden_state")] {
        if !text[key].is_null() && text[key] != usual {
            let what = format!("`{key}` of texts is {}, and embed knows \"{usual}\" alone", text[key]);
            return Err(refused(path, what, "take a model that gives the states of its tokens"));
        }
    }
    for key in ["processing_kwargs", "query_length", "document_length", "query_expansion"] {
        let is_empty = file[key].as_object().is_some_and(serde_json::Map::is_empty);
        if !file[key].is_null() && file[key] != false && !is_empty {
            let what = format!("`{key}` is {}, which embed does not do", file[key]);
            return Err(refused(path, what, "take a model without"));
        }
    }
    Ok(())
}

/// The poolings that a file describes, and whether a prompt takes part in them.
fn read_pooling(path: &Path) -> Result<(Vec<Pooling>, bool)> {
    let file = read_json(path)?;
    let modes: Vec<&str> = match &file["pooling_mode"] {
        Value::String(one) => vec![one.as_str()],
        Value::Array(several) => several.iter().map(|mode| mode.as_str().unwrap_or("?")).collect(),
        Value::Null => {
            let set = MODES.iter().filter(|(_, older, _)| file[*older] == true);
            let set: Vec<&str> = set.map(|(mode, _, _)| *mode).collect();
            // Where nothing is said, it is the mean; where that is denied, nothing.
            let mean = set.is_empty() && file["pooling_mode_mean_tokens"] != false;
            if mean { vec!["mean"] } else { set }
        }
        _ => vec!["?"],
    };
    let pooling =
        |mode: &&str| MODES.iter().find(|(known, _, _)| known == mode).map(|(_, _, pooling)| *pooling);
    let poolings: Option<Vec<Pooling>> = modes.iter().map(pooling).collect();
    match poolings.filter(|poolings| !poolings.is_empty()) {
        Some(poolings) => Ok((poolings, file["include_prompt"].as_bool().unwrap_or(true))),
        None => {
            let known = MODES.map(|(mode, _, _)| mode).join(", ");
            Err(refused(
                path,
                match modes.is_empty() {
                    true => "the vector of a text is made of nothing".into(),
                    false => format!("the vector of a text is made of {}", file["pooling_mode"]),
                },
                format!("embed makes it of one or several of {known}"),
            ))
        }
    }
}

/// What stands before each text: as asked, or where nobody asks for anything else.
fn prompt_of(folder: &Path, prompt: Prompt<'_>) -> Result<String> {
    let path = folder.join("config_sentence_transformers.json");
    let file = optional(&path)?;
    let name = match prompt {
        Prompt::Named(name) => name,
        Prompt::Default => match file["default_prompt_name"].as_str() {
            Some(name) => name,
            None => return Ok(String::new()),
        },
    };
    let known = file["prompts"].as_object();
    match (known.and_then(|prompts| prompts.get(name)?.as_str()), prompt) {
        (Some(prompt), _) => Ok(prompt.to_owned()),
        (None, Prompt::Default) => Err(refused(
            &path,
            format!("`default_prompt_name` is \"{name}\", and `prompts` has no text of that name"),
            "copy the file from where the model came from",
        )),
        (None, Prompt::Named(_)) => {
            let names: Vec<&str> =
                known.into_iter().flat_map(|prompts| prompts.keys().map(String::as_str)).collect();
            let advice = match names.is_empty() {
                true => "this model has none; leave the name out".to_owned(),
                false => format!("there are {}", names.join(", ")),
            };
            Err(refused(&path, format!("no prompt is called \"{name}\""), advice))
        }
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
            message.contains(
                "the vector of a text is not the mean of its states alone, nor its first state alone"
            ),
            "{message}"
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
