//! Tokenizers that are described by lists instead of a `tokenizer.json`: a vocabulary with merges or scores,
//! and which tokens are special. From these the description is made that the package `tokenizers` reads, part
//! for part as transformers makes it from the same files.

use super::{Kind, Tokenizer, guarded};
use serde_json::{Value, json};
use std::collections::HashMap;

/// A token that is found in a text before anything else is done to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Added {
    pub id: u32,
    pub text: String,
    /// Special ones are not shown when ids become a text.
    pub special: bool,
    /// Takes up the space before it, as `<mask>` does.
    pub strips_left: bool,
}

impl Added {
    pub fn special(id: u32, text: &str) -> Added {
        Added { id, text: text.into(), special: true, strips_left: false }
    }
}

/// The parts of a description.
pub(crate) struct Description {
    pub normalizer: Value,
    pub pre_tokenizer: Value,
    pub model: Value,
    pub decoder: Value,
    /// Tokens before and after a text, with their ids.
    pub before: Vec<(String, u32)>,
    pub after: Vec<(String, u32)>,
    /// Tokens between two texts in one row, behind those after the first.
    pub between: Vec<(String, u32)>,
    /// Whether the second text of a pair has the type 1, as BERT reads it.
    pub types: bool,
    pub added: Vec<Added>,
}

impl Description {
    /// The tokenizer, if the package accepts it.
    pub fn build(mut self) -> Result<Tokenizer, String> {
        self.added.sort_by_key(|added| added.id);
        let added: Vec<Value> = (self.added.iter())
            .map(|added| {
                json!({"id": added.id, "content": added.text, "special": added.special, "normalized": false,
                       "single_word": false, "lstrip": added.strips_left, "rstrip": false})
            })
            .collect();
        let all = json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
            "normalizer": self.normalizer, "pre_tokenizer": self.pre_tokenizer,
            "post_processor": self.frame(), "decoder": self.decoder, "model": self.model,
        });
        let text = all.to_string();
        let inner = guarded(|| tokenizers::Tokenizer::from_bytes(text.as_bytes()))?;
        match inner.get_vocab_size(true) {
            0 => Err("it knows no token".into()),
            _ => Ok(Tokenizer { kind: Kind::HuggingFace(Box::new(inner)) }),
        }
    }

    /// What is put around a text.
    fn frame(&self) -> Value {
        if self.before.is_empty() && self.after.is_empty() {
            return Value::Null;
        }
        let tokens = |tokens: &[(String, u32)], kind: u32| -> Vec<Value> {
            tokens.iter().map(|(text, _)| json!({"SpecialToken": {"id": text, "type_id": kind}})).collect()
        };
        let text = |name: &str, kind: u32| vec![json!({"Sequence": {"id": name, "type_id": kind}})];
        let second = u32::from(self.types);
        let one = [tokens(&self.before, 0), text("A", 0), tokens(&self.after, 0)].concat();
        let between = tokens(&self.between, 0);
        let two = [one.clone(), between, text("B", second), tokens(&self.after, second)].concat();
        let named: HashMap<&str, Value> = (self.before.iter().chain(&self.after))
            .map(|(text, id)| (text.as_str(), json!({"id": text, "ids": [id], "tokens": [text]})))
            .collect();
        json!({"type": "TemplateProcessing", "single": one, "pair": two, "special_tokens": named})
    }
}

/// Byte-level BPE, as in GPT-2.
pub(crate) fn byte_level_model(vocabulary: Value, merges: &[(String, String)], ignore_merges: bool) -> Value {
    json!({
        "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "",
        "end_of_word_suffix": "", "fuse_unk": false, "byte_fallback": false, "ignore_merges": ignore_merges,
        "vocab": vocabulary, "merges": merges,
    })
}

/// The step that turns a text into letters for bytes; with the pattern of GPT-2, or after another one.
pub(crate) fn byte_level(prefix_space: bool, own_pattern: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": prefix_space, "trim_offsets": true, "use_regex": own_pattern})
}

/// Pieces of SentencePiece that are merged by their scores, best first: what pairs give which piece, as the
/// package wants to know it. Among equals, shorter parts go first, then smaller ids.
pub(crate) fn merges_by_score(pieces: &[(String, f32)]) -> Vec<(String, String)> {
    let ids: HashMap<&str, usize> =
        pieces.iter().enumerate().map(|(id, (text, _))| (text.as_str(), id)).collect();
    let mut merges: Vec<(f32, usize, usize, usize, &str, &str)> = Vec::new();
    for (id, (text, score)) in pieces.iter().enumerate() {
        for (at, _) in text.char_indices().skip(1) {
            let (left, right) = text.split_at(at);
            if ids.contains_key(left) && ids.contains_key(right) {
                merges.push((*score, id, left.chars().count(), right.chars().count(), left, right));
            }
        }
    }
    merges.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2, a.3).cmp(&(b.1, b.2, b.3))));
    merges.into_iter().map(|(.., left, right)| (left.to_owned(), right.to_owned())).collect()
}

/// The longest piece whose merges are looked for: longer ones would take time that grows with their square.
pub(crate) const LONGEST_PIECE: usize = 512;
