//! The tokenizer that a GGUF file holds: byte-level BPE with its merges (`gpt2`), or SentencePiece's pieces
//! with scores (`llama`). How a text is cut into words before, the file says by a name; names that are not
//! known are refused, for ids would be wrong in ways that nobody sees.

use super::{File, Value};
use crate::error::shown;
use crate::tokenizer::described::{
    Added, Description, LONGEST_PIECE, byte_level, byte_level_model, merges_by_score,
};
use crate::{Error, Result, Tokenizer};
use serde_json::{Map, Value as Json, json};
use std::path::Path;

/// The rule of Qwen2, and of those that took it over.
const QWEN: &str = "qwen2";

/// What the format calls byte-level BPE, and SentencePiece.
const BYTES: &str = "gpt2";
const PIECES: &str = "llama";

/// What a token is, by the number that the format has for it.
const UNKNOWN: i64 = 2;
const CONTROL: i64 = 3;
const USER: i64 = 4;

const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The tokenizer of a file.
pub fn open(path: impl AsRef<Path>) -> Result<Tokenizer> {
    of(&File::open(path)?)
}

/// The tokenizer of a file that is open.
pub fn of(file: &File) -> Result<Tokenizer> {
    let Some(model) = file.text("tokenizer.ggml.model")? else {
        return Err(Error::NoTokenizer { path: crate::error::shown_path(&file.path) });
    };
    let vocabulary = Vocabulary::read(file)?;
    let description = match model {
        BYTES => words(file, &vocabulary)?,
        PIECES => pieces(file, &vocabulary)?,
        other => {
            let what =
                format!("has a tokenizer of the kind `{}`; known are {BYTES} and {PIECES}", shown(other));
            return Err(Error::file(&file.path, what, "put the tokenizer.json of the model beside it"));
        }
    };
    description.build().map_err(|error| {
        Error::file(
            &file.path,
            format!("has a tokenizer that cannot be used: {error}"),
            "copy or download it again",
        )
    })
}

/// The lists that every tokenizer has.
struct Vocabulary<'a> {
    tokens: &'a [String],
    kinds: Option<&'a [i64]>,
}

impl<'a> Vocabulary<'a> {
    fn read(file: &'a File) -> Result<Vocabulary<'a>> {
        let wrong = |what: String| Err(Error::file(&file.path, what, "copy or download it again"));
        let Some(tokens) = file.get("tokenizer.ggml.tokens").and_then(Value::as_texts) else {
            return wrong("has no list `tokenizer.ggml.tokens`".into());
        };
        let kinds = file.get("tokenizer.ggml.token_type").and_then(Value::as_ints);
        if kinds.is_some_and(|kinds| kinds.len() != tokens.len()) {
            return wrong(format!("has {} tokens and not as many kinds of them", tokens.len()));
        }
        Ok(Vocabulary { tokens, kinds })
    }

    fn kind(&self, id: usize) -> i64 {
        self.kinds.map_or(1, |kinds| kinds[id])
    }

    /// Ids by text; of two tokens with the same text the first counts.
    fn ids(&self) -> Json {
        let mut ids = Map::new();
        for (id, token) in self.tokens.iter().enumerate() {
            ids.entry(token.as_str()).or_insert(json!(id));
        }
        Json::Object(ids)
    }

    fn added(&self) -> Vec<Added> {
        let own = (0u32..)
            .zip(self.tokens)
            .filter(|(id, text)| [CONTROL, USER].contains(&self.kind(*id as usize)) && !text.is_empty());
        own.map(|(id, text)| Added { special: self.kind(id as usize) == CONTROL, ..Added::special(id, text) })
            .collect()
    }

    /// The token under a key, if the file asks for it around texts.
    fn around(&self, file: &File, add: &str, id: &str, usual: bool) -> Result<Vec<(String, u32)>> {
        if !file.truth(&format!("tokenizer.ggml.{add}"))?.unwrap_or(usual) {
            return Ok(Vec::new());
        }
        let Some(id) = file.size(&format!("tokenizer.ggml.{id}"))? else { return Ok(Vec::new()) };
        match self.tokens.get(id) {
            Some(text) => Ok(vec![(text.clone(), id as u32)]),
            None => {
                let what = format!("puts the token {id} around texts and has {} tokens", self.tokens.len());
                Err(Error::file(&file.path, what, "copy or download it again"))
            }
        }
    }
}

/// Byte-level BPE.
fn words(file: &File, vocabulary: &Vocabulary) -> Result<Description> {
    let split = |pattern: &str| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
    let sequence = |steps: &[Json]| json!({"type": "Sequence", "pretokenizers": steps});
    let digits = json!({"type": "Digits", "individual_digits": true});
    let (mut normalizer, mut whole_words) = (Json::Null, false);
    let name = file.text("tokenizer.ggml.pre")?.unwrap_or("gpt-2");
    let pre_tokenizer = match name {
        "gpt-2" | BYTES | "phi-2" | "jina-es" | "jina-de" | "roberta-bpe" => byte_level(false, true),
        "smollm" | "starcoder" | "refact" | "command-r" | "codeshell" => {
            sequence(&[digits, byte_level(false, true)])
        }
        "llama-bpe" | "llama3" | "llama-v3" => {
            whole_words = true;
            sequence(&[split(LLAMA3), byte_level(false, false)])
        }
        "deepseek-r1-qwen" | QWEN => {
            normalizer = json!({"type": "NFC"});
            sequence(&[split(QWEN2), byte_level(false, false)])
        }
        other => {
            let what = format!("cuts texts into words by the rule `{}`, which is not known", shown(other));
            return Err(Error::file(&file.path, what, "put the tokenizer.json of the model beside it"));
        }
    };
    let lines = file.get("tokenizer.ggml.merges").and_then(Value::as_texts).unwrap_or(&[]);
    let mut merges = Vec::with_capacity(lines.len());
    for (at, line) in lines.iter().enumerate() {
        let Some((left, right)) = line.split_once(' ').filter(|(_, right)| !right.contains(' ')) else {
            let what = format!("merge {at} is `{}`, expected two tokens", shown(line));
            return Err(Error::file(&file.path, what, "copy or download it again"));
        };
        merges.push((left.to_owned(), right.to_owned()));
    }
    Ok(Description {
        normalizer,
        pre_tokenizer,
        model: byte_level_model(vocabulary.ids(), &merges, whole_words),
        decoder: byte_level(true, true),
        before: vocabulary.around(file, "add_bos_token", "bos_token_id", name.starts_with("llama"))?,
        after: vocabulary.around(file, "add_eos_token", "eos_token_id", false)?,
        between: Vec::new(),
        types: false,
        added: vocabulary.added(),
    })
}

/// Pieces with scores.
fn pieces(file: &File, vocabulary: &Vocabulary) -> Result<Description> {
    let scores = file.get("tokenizer.ggml.scores").and_then(Value::as_floats).unwrap_or(&[]);
    if scores.len() != vocabulary.tokens.len()
        || vocabulary.tokens.iter().any(|text| text.len() > LONGEST_PIECE)
    {
        let what =
            format!("has {} pieces and {} scores, or overlong pieces", vocabulary.tokens.len(), scores.len());
        return Err(Error::file(&file.path, what, "copy or download it again"));
    }
    let plain = |id: usize| ![UNKNOWN, CONTROL].contains(&vocabulary.kind(id));
    let scored: Vec<(String, f32)> = vocabulary
        .tokens
        .iter()
        .zip(scores)
        .enumerate()
        .filter(|(id, _)| plain(*id))
        .map(|(_, (t, s))| (t.clone(), *s))
        .collect();
    let unknown = (0..vocabulary.tokens.len()).find(|&id| vocabulary.kind(id) == UNKNOWN);
    let prefix = file.truth("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
    Ok(crate::tokenizer::sentencepiece::merged(
        vocabulary.ids(),
        merges_by_score(&scored),
        unknown.map(|id| vocabulary.tokens[id].as_str()),
        prefix,
        vocabulary.around(file, "add_bos_token", "bos_token_id", true)?,
        vocabulary.around(file, "add_eos_token", "eos_token_id", false)?,
        vocabulary.added(),
    ))
}

/// What a GGUF file says of a tokenizer; none, with the reason, where the format has no words for it.
pub fn settings(tokenizer: &Tokenizer) -> Result<Vec<(String, Value)>, String> {
    let Some(text) = tokenizer.to_json() else { return Err("it is none of Hugging Face's".into()) };
    let all: Json = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let model = &all["model"];
    let vocabulary = model["vocab"].as_object().filter(|_| model["type"] == "BPE");
    let vocabulary = vocabulary.ok_or("GGUF knows BPE alone")?;
    let mut tokens: Vec<Option<String>> = vec![None; tokenizer.vocabulary().max(vocabulary.len())];
    let mut kinds = vec![1; tokens.len()];
    let mut put = |id: &Json, text: &str, kind: i64| -> Result<(), String> {
        let id = id.as_u64().and_then(|id| usize::try_from(id).ok()).filter(|&id| id < tokens.len());
        let id = id.ok_or("its ids are not in a row")?;
        tokens[id] = Some(text.to_owned());
        kinds[id] = kind;
        Ok(())
    };
    let pieces = model["byte_fallback"] == true;
    for (text, id) in vocabulary {
        let byte = pieces && text.len() == 6 && text.starts_with("<0x") && text.ends_with('>');
        put(id, text, if byte { BYTE } else { 1 })?;
    }
    for added in all["added_tokens"].as_array().into_iter().flatten() {
        let kind = match added["special"] == true {
            true if pieces && added["content"] == model["unk_token"] => UNKNOWN,
            true => CONTROL,
            false => USER,
        };
        put(&added["id"], added["content"].as_str().unwrap_or_default(), kind)?;
    }
    let tokens: Option<Vec<String>> = tokens.into_iter().collect();
    let tokens = tokens.ok_or("its ids are not in a row")?;
    let merges: Vec<String> = (model["merges"].as_array().into_iter().flatten())
        .map(|merge| match merge {
            Json::Array(pair) => pair.iter().filter_map(Json::as_str).collect::<Vec<_>>().join(" "),
            text => text.as_str().unwrap_or_default().to_owned(),
        })
        .collect();
    let own = |key: &str, value: Value| (format!("tokenizer.ggml.{key}"), value);
    let mut settings = Vec::new();
    if pieces {
        // Readers merge by the scores of pieces: the sooner a piece is merged, the more it is worth.
        let mut scores = vec![0f32; tokens.len()];
        for (rank, merge) in merges.iter().enumerate().rev() {
            let whole: String = merge.split(' ').collect();
            if let Some(id) = vocabulary.get(&whole).and_then(Json::as_u64) {
                scores[id as usize] = -(rank as f32) - 1.0;
            }
        }
        settings.push(own("model", Value::Text(PIECES.into())));
        settings.push(own("pre", Value::Text("default".into())));
        settings.push(own("scores", Value::Floats(scores)));
        let scheme = all["pre_tokenizer"]["prepend_scheme"].as_str();
        settings.push(own("add_space_prefix", Value::Bool(scheme.is_none_or(|scheme| scheme != "never"))));
    } else {
        settings.push(own("model", Value::Text(BYTES.into())));
        settings.push(own("pre", Value::Text(rule(&all)?.into())));
        settings.push(own("merges", Value::Texts(merges)));
    }
    settings.push(own("tokens", Value::Texts(tokens)));
    settings.push(own("token_type", Value::Ints(kinds)));
    let first = &all["post_processor"]["single"][0]["SpecialToken"];
    settings.push(own("add_bos_token", Value::Bool(!first.is_null())));
    Ok(settings)
}

const BYTE: i64 = 6;

/// The name of the rule by which a tokenizer cuts texts into words.
fn rule(all: &Json) -> Result<&'static str, String> {
    let pre = &all["pre_tokenizer"];
    let steps: Vec<&Json> = match pre["pretokenizers"].as_array() {
        Some(steps) => steps.iter().collect(),
        None => vec![pre],
    };
    let bytes = |step: &Json, own: bool| {
        step["type"] == "ByteLevel" && step["add_prefix_space"] == false && step["use_regex"] != !own
    };
    let pattern = |step: &Json| step["pattern"]["Regex"].as_str().map(str::to_owned);
    let plain = all["normalizer"].is_null();
    match steps.as_slice() {
        [one] if plain && bytes(one, true) => Ok("gpt-2"),
        [one, two]
            if plain && one["type"] == "Digits" && one["individual_digits"] == true && bytes(two, true) =>
        {
            Ok("smollm")
        }
        [one, two] if plain && pattern(one).as_deref() == Some(LLAMA3) && bytes(two, false) => {
            Ok("llama-bpe")
        }
        [one, two]
            if all["normalizer"]["type"] == "NFC"
                && pattern(one).as_deref() == Some(QWEN2)
                && bytes(two, false) =>
        {
            Ok(QWEN)
        }
        _ => Err("it cuts texts into words by a rule that GGUF has no name for".into()),
    }
}
