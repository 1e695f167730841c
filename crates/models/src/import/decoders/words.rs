//! The words of a decoder's config.json as data: each names a key, the setting that it stands for and what
//! counts where it is absent. Reading and writing walk the same list.

use super::super::json::Fields;
use crate::gpt::GptConfig;
use crate::mechanisms::decimal;
use regard_graph::Result;
use regard_layers::FeedForwardKind;
use serde_json::{Map, Value};

/// One key of a config and the setting that it stands for.
pub enum Word {
    /// A size that must be there.
    Size(&'static str, fn(&mut GptConfig) -> &mut usize),
    /// A size that may be absent.
    SizeOr(&'static str, fn(&mut GptConfig) -> &mut usize, usize),
    /// A size that is null where there is none, and this where it is absent.
    MaybeSize(&'static str, fn(&mut GptConfig) -> &mut Option<usize>, Option<usize>),
    /// A number that may be absent.
    Number(&'static str, fn(&mut GptConfig) -> &mut f32, f32),
    /// A number that is null where there is none, and this where it is absent.
    MaybeNumber(&'static str, fn(&mut GptConfig) -> &mut Option<f32>, Option<f32>),
    /// A truth that may be absent.
    Truth(&'static str, fn(&mut GptConfig) -> &mut bool, bool),
    /// A truth that must be this where it is given.
    Must(&'static str, bool),
    /// What happens inside of the feed-forward parts, out of those known, the first where it is absent. A
    /// second meaning of the same kind is read, the first is written.
    Activation(&'static str, &'static [(&'static str, FeedForwardKind)]),
    /// What one key cannot say.
    Other {
        /// What it is about, in a sentence.
        what: &'static str,
        /// Reads it into a config whose other words have been read, as far as they stand before.
        read: fn(&Fields<'_>, &mut GptConfig) -> Result<()>,
        /// Writes it; false where the family has no words for it.
        write: fn(&GptConfig, &mut Map<String, Value>) -> bool,
    },
}

impl Word {
    /// What it is about, in a sentence.
    pub fn what(&self) -> &'static str {
        match self {
            Word::Activation(..) => "feed-forward part",
            Word::Other { what, .. } => what,
            _ => "settings",
        }
    }

    /// Takes the setting out of a config.
    pub fn read(&self, fields: &Fields<'_>, config: &mut GptConfig) -> Result<()> {
        match *self {
            Word::Size(key, of) => *of(config) = fields.size(key)?,
            Word::SizeOr(key, of, usual) => *of(config) = fields.size_or_none(key)?.unwrap_or(usual),
            Word::MaybeSize(key, of, usual) => {
                *of(config) = if fields.has(key) { fields.size_or_none(key)? } else { usual };
            }
            Word::Number(key, of, usual) => {
                *of(config) = fields.number(key)?.map_or(usual, |number| number as f32);
            }
            Word::MaybeNumber(key, of, usual) => {
                let given = fields.number(key)?.map(|number| number as f32);
                *of(config) = if fields.has(key) { given } else { usual };
            }
            Word::Truth(key, of, usual) => *of(config) = fields.truth(key)?.unwrap_or(usual),
            Word::Must(key, wanted) => fields.must_be(key, wanted)?,
            Word::Activation(key, known) => {
                let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
                let given = fields.text(key)?.unwrap_or(words[0]);
                let found = known.iter().find(|(word, _)| *word == given);
                config.feed_forward = found.ok_or_else(|| fields.unknown(key, given, &words))?.1;
            }
            Word::Other { read, .. } => read(fields, config)?,
        }
        Ok(())
    }

    /// Puts the setting into a config; false if the family has no words for it.
    pub fn write(&self, config: &GptConfig, out: &mut Map<String, Value>) -> bool {
        let config = &mut { *config };
        let (key, value): (&str, Value) = match *self {
            Word::Size(key, of) | Word::SizeOr(key, of, _) => (key, (*of(config)).into()),
            Word::MaybeSize(key, of, _) => (key, (*of(config)).into()),
            Word::Number(key, of, _) => (key, decimal(*of(config)).into()),
            Word::MaybeNumber(key, of, _) => (key, of(config).map(decimal).into()),
            Word::Truth(key, of, _) => (key, (*of(config)).into()),
            Word::Must(..) => return true,
            Word::Activation(key, known) => {
                let Some((word, _)) = known.iter().find(|(_, kind)| *kind == config.feed_forward) else {
                    return false;
                };
                (key, (*word).into())
            }
            Word::Other { write, .. } => return write(config, out),
        };
        out.insert(key.into(), value);
        true
    }
}
