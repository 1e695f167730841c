//! Characters as tokens: reserved ones first, then the distinct characters of a text, sorted. So ids are
//! known from the text alone, and a reserved character that stands in a text is that token.

use super::Special;
use crate::error::shown;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};

/// Characters that stand in front of the vocabulary, in the order of these fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserved {
    /// Fills up short texts.
    pub pad: Option<char>,
    /// Stands for what was taken out of a text.
    pub mask: Option<char>,
    /// Stands for characters that are not in the vocabulary. Without it, such a character is an error.
    pub unknown: Option<char>,
}

impl Reserved {
    /// Those of the birth-place study: `□` (U+25A1) is 0 and pads, `⁇` (U+2047) is 1 and masks.
    pub fn study() -> Reserved {
        Reserved { pad: Some('\u{25a1}'), mask: Some('\u{2047}'), unknown: None }
    }

    fn in_order(&self) -> impl Iterator<Item = char> {
        [self.pad, self.mask, self.unknown].into_iter().flatten()
    }
}

/// The characters, and where each is.
#[derive(Clone, Debug)]
pub(super) struct Characters {
    pub reserved: Reserved,
    /// By id. As text, to be lent.
    tokens: Vec<String>,
    ids: HashMap<char, u32>,
}

impl Characters {
    /// The characters of some texts.
    pub fn of<S: AsRef<str>>(texts: impl IntoIterator<Item = S>, reserved: Reserved) -> Result<Characters> {
        let mut distinct = BTreeSet::new();
        texts.into_iter().for_each(|text| distinct.extend(text.as_ref().chars()));
        if distinct.is_empty() {
            return Err(Error::invalid(
                "the text has no characters to make a vocabulary of",
                "give a text that is not empty",
            ));
        }
        let front: BTreeSet<char> = reserved.in_order().collect();
        Characters::new(reserved, distinct.into_iter().filter(|c| !front.contains(c)))
    }

    /// The characters after the reserved ones, in the order of their ids. One that occurs twice is an error.
    pub fn new(reserved: Reserved, rest: impl IntoIterator<Item = char>) -> Result<Characters> {
        let (mut tokens, mut ids) = (Vec::new(), HashMap::new());
        for c in reserved.in_order().chain(rest) {
            if ids.insert(c, tokens.len() as u32).is_some() {
                return Err(Error::invalid(
                    format!("the character {} has two ids", named(c)),
                    "each may occur once, the reserved ones included",
                ));
            }
            tokens.push(c.to_string());
        }
        Ok(Characters { reserved, tokens, ids })
    }

    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// The characters after the reserved ones, as one text.
    pub fn rest(&self) -> String {
        self.tokens[self.reserved.in_order().count()..].concat()
    }

    pub fn id(&self, token: &str) -> Option<u32> {
        let mut chars = token.chars();
        match (chars.next(), chars.next()) {
            (Some(c), None) => self.ids.get(&c).copied(),
            _ => None,
        }
    }

    pub fn token(&self, id: u32) -> Option<&str> {
        self.tokens.get(id as usize).map(String::as_str)
    }

    pub fn special(&self, special: Special) -> Option<u32> {
        let c = match special {
            Special::Pad => self.reserved.pad,
            Special::Mask => self.reserved.mask,
            Special::Unknown => self.reserved.unknown,
            Special::Class | Special::Separator | Special::Begin | Special::End => None,
        };
        c.and_then(|c| self.ids.get(&c).copied())
    }

    /// What an id prints as: nothing for the one that pads and the one that masks.
    pub fn printed(&self, id: u32) -> &str {
        match [self.special(Special::Pad), self.special(Special::Mask)].contains(&Some(id)) {
            true => "",
            false => &self.tokens[id as usize],
        }
    }

    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let unknown = self.special(Special::Unknown);
        let one = |(place, c): (usize, char)| match self.ids.get(&c).copied().or(unknown) {
            Some(id) => Ok(id),
            None => Err(Error::invalid(
                format!(
                    "character {} of the text is {}, which is not among the {} that the tokenizer knows",
                    place + 1,
                    named(c),
                    self.len()
                ),
                "leave it out, build the vocabulary from a text that has it, or reserve an unknown character",
            )),
        };
        text.chars().enumerate().map(one).collect()
    }
}

/// A character as errors show it.
fn named(c: char) -> String {
    format!("`{}` (U+{:04X})", shown(&c.to_string()), u32::from(c))
}
