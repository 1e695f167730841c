//! Tokenizers of folders without a `tokenizer.json`: `vocab.txt` (WordPiece), `vocab.json` with `merges.txt`
//! (byte-level BPE), and SentencePiece's `.model`. What the files leave open is decided by the tokenizer
//! class that `tokenizer_config.json` names, else by the `model_type` of `config.json`; a class that is not
//! known is refused by its name, for its ids would be wrong in ways that nobody sees.

use super::Tokenizer;
use super::described::{Added, Description, byte_level, byte_level_model};
use super::sentencepiece::{self, Style};
use crate::checkpoint::{JSON_LIMIT, read_small};
use crate::error::shown;
use crate::folder::read_json;
use crate::{Error, Result};
use serde_json::{Map, Value, json};
use std::path::Path;

/// The names of SentencePiece models.
const PIECES: [&str; 4] = ["tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "spm.model"];

/// How the pattern of Qwen cuts a text.
const QWEN: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The tokenizer of a folder's vocabulary files; none if it has none.
pub(super) fn open(folder: &Path) -> Result<Option<Tokenizer>> {
    let settings = Settings::read(folder)?;
    let is_there = |name: &str| folder.join(name).is_file();
    let (path, description) = if let Some(name) = PIECES.iter().find(|name| is_there(name)) {
        let path = folder.join(name);
        let description = pieces(&path, &settings)?;
        (path, description)
    } else if is_there("vocab.json") && is_there("merges.txt") {
        (folder.join("vocab.json"), words(folder, &settings)?)
    } else if is_there("vocab.txt") {
        let path = folder.join("vocab.txt");
        let description = word_pieces(&path, &settings)?;
        (path, description)
    } else {
        return Ok(None);
    };
    let tokenizer = description.build().map_err(|error| {
        Error::file(&path, format!("is no vocabulary that can be used: {error}"), "copy or download it again")
    })?;
    Ok(Some(tokenizer))
}

/// What the other files of the folder say.
struct Settings {
    config: Value,
    /// The class of the tokenizer, without `Fast`; else of the model.
    class: String,
}

impl Settings {
    fn read(folder: &Path) -> Result<Settings> {
        let read = |name: &str| match folder.join(name) {
            path if path.is_file() => read_json(&path),
            _ => Ok(Value::Null),
        };
        let mut config = read("tokenizer_config.json")?;
        if let (Value::Object(map), Value::Object(config)) = (read("special_tokens_map.json")?, &mut config) {
            for (name, token) in map {
                config.entry(name).or_insert(token);
            }
        }
        let model = read("config.json")?;
        let own = config["tokenizer_class"].as_str().map(|class| class.trim_end_matches("Fast"));
        let class = own.or(model["model_type"].as_str()).unwrap_or_default().to_owned();
        Ok(Settings { config, class })
    }

    /// A token that plays a part: a text, or an object with its text.
    fn token(&self, part: &str, usual: &str) -> String {
        let own = &self.config[part];
        own.as_str().or(own["content"].as_str()).unwrap_or(usual).to_owned()
    }

    fn truth(&self, name: &str) -> Option<bool> {
        self.config[name].as_bool()
    }

    fn refused(&self, path: &Path, kind: &str) -> Error {
        let what =
            format!("is {kind} of a tokenizer of the class `{}`, which is not known", shown(&self.class));
        Error::file(
            path,
            what,
            "put the tokenizer.json of the model beside it: transformers' `save_pretrained` writes one",
        )
    }

    /// Tokens that the settings give ids of their own.
    fn added(&self, into: &mut Vec<Added>) {
        for (id, token) in self.config["added_tokens_decoder"].as_object().into_iter().flatten() {
            if let (Ok(id), Some(text)) = (id.parse::<u32>(), token["content"].as_str()) {
                into.retain(|added| added.id != id);
                let special = token["special"].as_bool().unwrap_or(false);
                let strips_left = token["lstrip"].as_bool().unwrap_or(false);
                into.push(Added { id, text: text.to_owned(), special, strips_left });
            }
        }
    }
}

fn pieces(path: &Path, settings: &Settings) -> Result<Description> {
    let model = sentencepiece::read(path)?;
    let marks = settings.config["extra_ids"].as_u64().map_or(100, |marks| marks.min(1 << 16) as usize);
    let ended = Style::Ended { marks };
    let classes = [
        (Style::Begun, ["LlamaTokenizer", "llama", "mistral", "mixtral"]),
        (ended, ["T5Tokenizer", "t5", "mt5", "umt5"]),
        (Style::Fairseq, ["XLMRobertaTokenizer", "xlm-roberta", "", ""]),
    ];
    let class = settings.class.as_str();
    let style = match classes.iter().find(|(_, names)| !class.is_empty() && names.contains(&class)) {
        Some((style, _)) => *style,
        None if class.is_empty() && model.is_bpe() => Style::Begun,
        None if class.is_empty() => ended,
        None => return Err(settings.refused(path, "a SentencePiece model")),
    };
    let mut description = model.described(path, style)?;
    if style == Style::Begun && settings.truth("add_bos_token") == Some(false) {
        description.before.clear();
        description.between.clear();
    }
    settings.added(&mut description.added);
    Ok(description)
}

/// Byte-level BPE.
fn words(folder: &Path, settings: &Settings) -> Result<Description> {
    let path = folder.join("vocab.json");
    let vocabulary = read_json(&path)?;
    let merges = merges(&folder.join("merges.txt"))?;
    let id = |text: &str| vocabulary[text].as_u64().and_then(|id| u32::try_from(id).ok());
    const BARE: [&str; 5] = ["GPT2Tokenizer", "gpt2", "Qwen2Tokenizer", "qwen2", "qwen3"];
    const FRAMED: [&str; 4] = ["RobertaTokenizer", "BartTokenizer", "roberta", "bart"];
    let framed = match settings.class.as_str() {
        "" => id("<s>").is_some() && id("</s>").is_some(),
        class if FRAMED.contains(&class) => true,
        class if BARE.contains(&class) => false,
        _ => return Err(settings.refused(&path, "the vocabulary")),
    };
    let qwen = settings.class.to_lowercase().starts_with("qwen");
    let prefix = settings.truth("add_prefix_space").unwrap_or(false);
    let named = |part: &str, usual: &str| -> Result<(String, u32)> {
        let text = settings.token(part, usual);
        match id(&text) {
            Some(id) => Ok((text, id)),
            None => {
                let what = format!("has no `{}`, which such a model puts around texts", shown(&text));
                Err(Error::file(&path, what, "put the tokenizer.json of the model beside it"))
            }
        }
    };
    let usual: &[&str] = match framed {
        true => &["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        false => &["<|endoftext|>"],
    };
    let mut added: Vec<Added> = Vec::new();
    for text in usual {
        if let Some(id) = id(text) {
            added.push(Added { strips_left: *text == "<mask>", ..Added::special(id, text) });
        }
    }
    settings.added(&mut added);
    let (normalizer, pre_tokenizer) = match qwen {
        true => {
            let split =
                json!({"type": "Split", "pattern": {"Regex": QWEN}, "behavior": "Isolated", "invert": false});
            let steps = [split, byte_level(prefix, false)];
            (json!({"type": "NFC"}), json!({"type": "Sequence", "pretokenizers": steps}))
        }
        false => (Value::Null, byte_level(prefix, true)),
    };
    let (mut before, mut after) = (Vec::new(), Vec::new());
    if framed {
        before.push(named("cls_token", "<s>")?);
        after.push(named("sep_token", "</s>")?);
    } else if settings.truth("add_bos_token") == Some(true) {
        before.push(named("bos_token", "<|endoftext|>")?);
    }
    let decoder = byte_level(true, true);
    let model = byte_level_model(vocabulary, &merges, false);
    let between = after.clone();
    Ok(Description { normalizer, pre_tokenizer, model, decoder, before, after, between, types: false, added })
}

/// The lines of `merges.txt`, the first of which may be a version.
fn merges(path: &Path) -> Result<Vec<(String, String)>> {
    let text = lines(path)?;
    let mut merges = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.is_empty() || at == 0 && line.starts_with("#version") {
            continue;
        }
        match line.split_once(' ') {
            Some((left, right)) if !right.contains(' ') => merges.push((left.to_owned(), right.to_owned())),
            _ => {
                let what =
                    format!("line {} is `{}`, expected two tokens with a space between", at + 1, shown(line));
                return Err(Error::file(path, what, "copy or download it again"));
            }
        }
    }
    Ok(merges)
}

fn lines(path: &Path) -> Result<String> {
    let bytes = read_small(path, JSON_LIMIT)?;
    String::from_utf8(bytes).map_err(|error| {
        let what = format!("is not UTF-8 from byte {} on", error.utf8_error().valid_up_to());
        Error::file(path, what, "copy or download it again")
    })
}

/// WordPiece, as BERT reads it.
fn word_pieces(path: &Path, settings: &Settings) -> Result<Description> {
    let known =
        ["BertTokenizer", "bert", "DistilBertTokenizer", "distilbert", "ElectraTokenizer", "electra", ""];
    if !known.contains(&settings.class.as_str()) {
        return Err(settings.refused(path, "a list of word pieces"));
    }
    let text = lines(path)?;
    let mut vocabulary = Map::new();
    // Lines end with a line feed alone: a vocabulary may have other ends of lines as tokens.
    for (id, token) in text.strip_suffix('\n').unwrap_or(&text).split('\n').enumerate() {
        vocabulary.insert(token.strip_suffix('\r').unwrap_or(token).to_owned(), json!(id));
    }
    let id = |text: &str| vocabulary.get(text).and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
    let mut added = Vec::new();
    let mut part = |name: &str, usual: &str| -> Result<(String, u32)> {
        let text = settings.token(name, usual);
        match id(&text) {
            Some(id) => {
                added.push(Added::special(id, &text));
                Ok((text, id))
            }
            None => {
                let what = format!("has no `{}`, the {name} of such a model", shown(&text));
                Err(Error::file(path, what, "copy it again, with tokenizer_config.json"))
            }
        }
    };
    let unknown = part("unk_token", "[UNK]")?;
    let (before, after) = (vec![part("cls_token", "[CLS]")?], vec![part("sep_token", "[SEP]")?]);
    // Not every vocabulary has these two.
    let _ = (part("pad_token", "[PAD]"), part("mask_token", "[MASK]"));
    settings.added(&mut added);
    Ok(Description {
        normalizer: json!({
            "type": "BertNormalizer", "clean_text": true,
            "handle_chinese_chars": settings.truth("tokenize_chinese_chars").unwrap_or(true),
            "strip_accents": settings.truth("strip_accents"),
            "lowercase": settings.truth("do_lower_case").unwrap_or(true),
        }),
        pre_tokenizer: json!({"type": "BertPreTokenizer"}),
        model: json!({
            "type": "WordPiece", "unk_token": unknown.0, "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocabulary,
        }),
        decoder: json!({"type": "WordPiece", "prefix": "##", "cleanup": true}),
        before,
        after,
        between: Vec::new(),
        types: true,
        added,
    })
}
