//! Tokens with a part to play: which id pads, masks, begins, ends. Files do not say it, so it is told by the
//! names that the field gives to such tokens.

use super::{Kind, Tokenizer};
use crate::{Error, Result};
use std::fmt;

/// The part that a token plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Special {
    /// Fills up short texts.
    Pad,
    /// Stands for what was taken out of a text.
    Mask,
    /// Stands before a text and is where a classifier looks.
    Class,
    /// Stands after a text, or between two.
    Separator,
    /// Stands for what has no token.
    Unknown,
    /// Begins a text.
    Begin,
    /// Ends a text.
    End,
}

impl Special {
    /// The usual names, the most telling first.
    fn names(self) -> &'static [&'static str] {
        match self {
            Special::Pad => &["[PAD]", "<pad>", "<|pad|>", "<|padding|>", "<|finetune_right_pad_id|>"],
            Special::Mask => &["[MASK]", "<mask>", "<|mask|>"],
            Special::Class => &["[CLS]", "<cls>"],
            Special::Separator => &["[SEP]", "<sep>"],
            Special::Unknown => &["[UNK]", "<unk>", "<|unk|>"],
            Special::Begin => {
                &["<s>", "<bos>", "[BOS]", "<|begin_of_text|>", "<|startoftext|>", "<|endoftext|>"]
            }
            Special::End => &["</s>", "<eos>", "[EOS]", "<|end_of_text|>", "<|endoftext|>"],
        }
    }
}

impl fmt::Display for Special {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Special::Pad => "pads",
            Special::Mask => "masks",
            Special::Class => "stands for the class",
            Special::Separator => "separates",
            Special::Unknown => "stands for the unknown",
            Special::Begin => "begins a text",
            Special::End => "ends a text",
        })
    }
}

impl Tokenizer {
    /// The id of the token that plays this part, if there is one.
    pub fn special(&self, special: Special) -> Option<u32> {
        match &self.kind {
            Kind::HuggingFace(inner) => special.names().iter().find_map(|name| inner.token_to_id(name)),
            Kind::Pieces(pieces) => pieces.special(special),
            Kind::Characters(characters) => characters.special(special),
            Kind::Bytes => None,
        }
    }

    /// The id of the token that plays this part, for a task that cannot do without.
    pub fn needed(&self, special: Special) -> Result<u32> {
        self.special(special).ok_or_else(|| {
            let advice = match &self.kind {
                Kind::HuggingFace(_) => {
                    format!("give it one of {} when it is trained", special.names().join(", "))
                }
                Kind::Characters(_) => "reserve a character for it, or train a tokenizer that has one".into(),
                Kind::Pieces(_) | Kind::Bytes => "use a tokenizer that has one".into(),
            };
            Error::invalid(format!("the tokenizer has no token that {special}"), advice)
        })
    }
}
