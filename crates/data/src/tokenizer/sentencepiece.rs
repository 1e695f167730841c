//! SentencePiece's `.model`: a protobuf with pieces and scores, of which two kinds are read, BPE and Unigram.
//! The package `tokenizers` computes both; here the file is read by hand, and turned into the description
//! that transformers makes of it. What stands around a text, and how ids are counted, the file does not say:
//! that is a matter of the model's tokenizer class.

use super::described::{Added, Description, LONGEST_PIECE, merges_by_score};
use crate::checkpoint::{JSON_LIMIT, read_small};
use crate::error::shown;
use crate::{Error, Result};
use serde_json::{Map, Value, json};
use std::path::Path;

/// What a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PieceKind {
    Normal,
    Unknown,
    Control,
    User,
    Unused,
    Byte,
}

struct Piece {
    text: String,
    score: f32,
    kind: PieceKind,
}

/// A model as the file has it.
pub(crate) struct PieceModel {
    pieces: Vec<Piece>,
    /// 1 Unigram, 2 BPE.
    method: u64,
    byte_fallback: bool,
    charsmap: Vec<u8>,
    dummy_prefix: bool,
    squeeze: bool,
}

/// How the model around a tokenizer counts its ids and begins and ends its texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// `<s>` before a text, as Llama has it.
    Begun,
    /// `</s>` after a text, and marks behind the pieces, as T5 has them.
    Ended {
        /// How many marks.
        marks: usize,
    },
    /// The ids of fairseq, as XLM-R has them: `<s>`, `<pad>`, `</s>` and `<unk>` in front, everything else
    /// one later, `<mask>` last.
    Fairseq,
}

/// Reads a file.
pub(crate) fn read(path: &Path) -> Result<PieceModel> {
    let bytes = read_small(path, JSON_LIMIT)?;
    let wrong = |what: &str| {
        Error::file(path, format!("is no SentencePiece model: {what}"), "copy or download it again")
    };
    let model = parse(&bytes).ok_or_else(|| wrong("its fields do not add up"))?;
    if model.pieces.is_empty() {
        return Err(wrong("it has no pieces"));
    }
    if !matches!(model.method, 1 | 2) {
        let what = "is a SentencePiece model of words or characters; read are Unigram and BPE";
        return Err(Error::file(path, what, "put the tokenizer.json of the model beside it"));
    }
    if let Some(long) = model.pieces.iter().find(|piece| piece.text.len() > LONGEST_PIECE) {
        return Err(wrong(&format!("the piece `{}` has more than {LONGEST_PIECE} bytes", shown(&long.text))));
    }
    Ok(model)
}

/// One field of a protobuf: its number and what it holds.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Four([u8; 4]),
}

/// The next field; none at the end, or where the bytes make no sense.
fn field<'a>(rest: &mut &'a [u8]) -> Option<(u64, Field<'a>)> {
    let tag = varint(rest)?;
    let value = match tag & 7 {
        0 => Field::Number(varint(rest)?),
        1 => {
            let (_, after) = rest.split_first_chunk::<8>()?;
            *rest = after;
            Field::Number(0)
        }
        2 => {
            let length = usize::try_from(varint(rest)?).ok()?;
            let (bytes, after) = rest.split_at_checked(length)?;
            *rest = after;
            Field::Bytes(bytes)
        }
        5 => {
            let (four, after) = rest.split_first_chunk::<4>()?;
            *rest = after;
            Field::Four(*four)
        }
        _ => return None,
    };
    Some((tag >> 3, value))
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for place in 0..10 {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 127).checked_shl(7 * place)?;
        if byte < 128 {
            return Some(number);
        }
    }
    None
}

fn parse(bytes: &[u8]) -> Option<PieceModel> {
    let mut model = PieceModel {
        pieces: Vec::new(),
        method: 1,
        byte_fallback: false,
        charsmap: Vec::new(),
        dummy_prefix: true,
        squeeze: true,
    };
    let mut rest = bytes;
    while !rest.is_empty() {
        match field(&mut rest)? {
            (1, Field::Bytes(piece)) => model.pieces.push(parse_piece(piece)?),
            (2, Field::Bytes(mut trainer)) => {
                while !trainer.is_empty() {
                    match field(&mut trainer)? {
                        (3, Field::Number(method)) => model.method = method,
                        (35, Field::Number(truth)) => model.byte_fallback = truth != 0,
                        _ => {}
                    }
                }
            }
            (3, Field::Bytes(mut normalizer)) => {
                while !normalizer.is_empty() {
                    match field(&mut normalizer)? {
                        (2, Field::Bytes(map)) => model.charsmap = map.to_vec(),
                        (3, Field::Number(truth)) => model.dummy_prefix = truth != 0,
                        (4, Field::Number(truth)) => model.squeeze = truth != 0,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Some(model)
}

fn parse_piece(mut bytes: &[u8]) -> Option<Piece> {
    let mut piece = Piece { text: String::new(), score: 0.0, kind: PieceKind::Normal };
    while !bytes.is_empty() {
        match field(&mut bytes)? {
            (1, Field::Bytes(text)) => piece.text = std::str::from_utf8(text).ok()?.to_owned(),
            (2, Field::Four(score)) => piece.score = f32::from_le_bytes(score),
            (3, Field::Number(kind)) => {
                piece.kind = match kind {
                    1 => PieceKind::Normal,
                    2 => PieceKind::Unknown,
                    3 => PieceKind::Control,
                    4 => PieceKind::User,
                    5 => PieceKind::Unused,
                    6 => PieceKind::Byte,
                    _ => return None,
                }
            }
            _ => {}
        }
    }
    piece.score.is_finite().then_some(piece)
}

impl PieceModel {
    /// Whether pieces are merged by their scores.
    pub fn is_bpe(&self) -> bool {
        self.method == 2
    }

    fn unknown(&self) -> Option<usize> {
        self.pieces.iter().position(|piece| piece.kind == PieceKind::Unknown)
    }

    fn id(&self, text: &str) -> Option<u32> {
        self.pieces.iter().position(|piece| piece.text == text).map(|id| id as u32)
    }

    fn added(&self) -> Vec<Added> {
        let own = (0u32..).zip(&self.pieces).filter(|(_, piece)| !piece.text.is_empty());
        own.filter(|(_, piece)| matches!(piece.kind, PieceKind::Control | PieceKind::User))
            .map(|(id, piece)| Added {
                special: piece.kind == PieceKind::Control,
                ..Added::special(id, &piece.text)
            })
            .collect()
    }

    /// What is done to a text first: the file's own map of characters, then, where it asks for it, spaces at
    /// the ends and several in a row are taken out.
    fn normalizer(&self, squeezed_later: bool) -> Value {
        let mut steps = Vec::new();
        if !self.charsmap.is_empty() {
            steps.push(json!({"type": "Precompiled", "precompiled_charsmap": base64(&self.charsmap)}));
        }
        if self.squeeze && !squeezed_later {
            steps.push(json!({"type": "Strip", "strip_left": true, "strip_right": true}));
            steps.push(json!({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}));
        }
        match steps.len() {
            0 => Value::Null,
            1 => steps.remove(0),
            _ => json!({"type": "Sequence", "normalizers": steps}),
        }
    }

    /// The description of a tokenizer in a style.
    pub fn described(&self, path: &Path, style: Style) -> Result<Description> {
        let named = |text: &str| -> Result<Vec<(String, u32)>> {
            match self.id(text) {
                Some(id) => Ok(vec![(text.to_owned(), id)]),
                None => {
                    let what = format!("has no piece `{text}`, which such a model puts around texts");
                    Err(Error::file(path, what, "put the tokenizer.json of the model beside it"))
                }
            }
        };
        match style {
            Style::Begun => {
                let mut whole = self.whole();
                whole.before = named("<s>")?;
                whole.between = whole.before.clone();
                Ok(whole)
            }
            Style::Ended { marks } => {
                let mut whole = self.whole();
                whole.after = named("</s>")?;
                let first = self.pieces.len() as u32;
                let own = self.id("<extra_id_0>").is_none();
                // The last mark comes first.
                whole.added.extend((0..marks as u32).filter(|_| own).map(|mark| {
                    Added::special(first + marks as u32 - 1 - mark, &format!("<extra_id_{mark}>"))
                }));
                for text in ["<unk>", "<pad>"] {
                    if let Some(id) =
                        self.id(text).filter(|id| !whole.added.iter().any(|added| added.id == *id))
                    {
                        whole.added.push(Added::special(id, text));
                    }
                }
                Ok(whole)
            }
            Style::Fairseq => self.like_fairseq(path),
        }
    }

    /// The description without anything around a text.
    fn whole(&self) -> Description {
        if self.is_bpe() {
            let mergeable = self.pieces.iter().filter(|piece| {
                !matches!(piece.kind, PieceKind::Unknown | PieceKind::Control | PieceKind::Byte)
            });
            let scored: Vec<(String, f32)> =
                mergeable.map(|piece| (piece.text.clone(), piece.score)).collect();
            let mut ids = Map::new();
            for (id, piece) in self.pieces.iter().enumerate() {
                ids.entry(piece.text.as_str()).or_insert(json!(id));
            }
            let unknown = self.unknown().map(|id| self.pieces[id].text.as_str());
            let around = (Vec::new(), Vec::new());
            let (ids, merges) = (Value::Object(ids), merges_by_score(&scored));
            let mut whole = merged(ids, merges, unknown, self.dummy_prefix, around.0, around.1, self.added());
            whole.model["byte_fallback"] = json!(self.byte_fallback);
            whole.normalizer = self.normalizer(false);
            if let Some(id) = self.unknown() {
                whole.added.push(Added::special(id as u32, &self.pieces[id].text));
            }
            return whole;
        }
        let scored = self.pieces.iter().map(|piece| json!([piece.text, piece.score])).collect();
        self.unigram(scored, self.unknown(), self.added())
    }

    fn unigram(&self, pieces: Vec<Value>, unknown: Option<usize>, added: Vec<Added>) -> Description {
        let scheme = if self.dummy_prefix { "always" } else { "never" };
        let space = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": true});
        Description {
            normalizer: self.normalizer(true),
            pre_tokenizer: json!({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, space]}),
            model: json!({"type": "Unigram", "unk_id": unknown, "vocab": pieces, "byte_fallback": self.byte_fallback}),
            decoder: space,
            before: Vec::new(),
            after: Vec::new(),
            between: Vec::new(),
            types: false,
            added,
        }
    }

    /// The ids of fairseq: four tokens in front instead of the file's first three.
    fn like_fairseq(&self, path: &Path) -> Result<Description> {
        let first: Vec<&str> = self.pieces.iter().take(3).map(|piece| piece.text.as_str()).collect();
        if self.is_bpe() || first != ["<unk>", "<s>", "</s>"] {
            let what = "is no SentencePiece model of XLM-R: its first pieces are not <unk>, <s> and </s>";
            return Err(Error::file(path, what, "put the tokenizer.json of the model beside it"));
        }
        let front = ["<s>", "<pad>", "</s>", "<unk>"];
        let mut pieces: Vec<Value> = front.iter().map(|text| json!([text, 0.0])).collect();
        pieces.extend(self.pieces.iter().skip(3).map(|piece| json!([piece.text, piece.score])));
        pieces.push(json!(["<mask>", 0.0]));
        let mask = Added { strips_left: true, ..Added::special(pieces.len() as u32 - 1, "<mask>") };
        let mut added: Vec<Added> = (0u32..).zip(front).map(|(id, text)| Added::special(id, text)).collect();
        added.push(mask);
        let mut whole = self.unigram(pieces, Some(3), added);
        whole.before = vec![("<s>".into(), 0)];
        whole.after = vec![("</s>".into(), 2)];
        whole.between = whole.after.clone();
        Ok(whole)
    }
}

/// BPE over pieces, as Llama reads it: spaces become `▁`, one is put in front, and characters without a piece
/// become those of their bytes.
pub(crate) fn merged(
    vocabulary: Value,
    merges: Vec<(String, String)>,
    unknown: Option<&str>,
    prefix: bool,
    before: Vec<(String, u32)>,
    after: Vec<(String, u32)>,
    added: Vec<Added>,
) -> Description {
    let scheme = if prefix { "first" } else { "never" };
    let mut steps = vec![
        json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if prefix {
        steps.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    Description {
        normalizer: Value::Null,
        pre_tokenizer: json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": false}),
        model: json!({
            "type": "BPE", "dropout": null, "unk_token": unknown, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
            "vocab": vocabulary, "merges": merges,
        }),
        decoder: json!({"type": "Sequence", "decoders": steps}),
        between: before.clone(),
        before,
        after,
        types: false,
        added,
    }
}

/// The letters that a description writes bytes with.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let mut all = [0; 3];
        all[..three.len()].copy_from_slice(three);
        let number = u32::from_be_bytes([0, all[0], all[1], all[2]]);
        for place in 0..4 {
            let letter = LETTERS[(number >> (18 - 6 * place) & 63) as usize] as char;
            text.push(if place <= three.len() { letter } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_for_bytes_are_those_of_everybody() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn numbers_have_seven_bits_to_a_byte() {
        assert_eq!(varint(&mut &[0xac, 0x02][..]), Some(300));
        assert_eq!(varint(&mut &[0x80][..]), None);
        assert_eq!(varint(&mut &[0xff; 11][..]), None);
    }
}
