//! transformers' decoders as data: for each family the words of its config.json, the names of its tensors and
//! what all of its models have. One reader and one writer walk these tables ([`Dialect`]); a new family is a
//! table in [`families`] or [`elders`].
//!
//! What is written is read back before anybody gets it: a model that a family has no words for is refused
//! with the setting that would be lost, whatever the setting is.

pub mod elders;
pub mod families;
mod layers;
mod rope;
mod words;

use super::json::Fields;
use super::{Files, Import, Map};
use crate::gpt::{Gpt, GptConfig};
use crate::positions::Positions;
use crate::variants::OtherLayers;
use regard_graph::{Error, Result};
use regard_ops::RotarySpec;
use serde_json::{Value, json};
pub(crate) use words::Word;

/// A family of decoders as transformers has it.
pub struct Dialect {
    /// `model_type`.
    pub model_type: &'static str,
    /// The class that has the head.
    pub architecture: &'static str,
    /// What all of its models have.
    pub usual: GptConfig,
    /// What its config says, in the order in which it is read.
    pub words: &'static [&'static [Word]],
    /// What its tensors are called.
    pub names: Names,
}

/// What the tensors of a family are called, without `.weight` and `.bias`.
pub struct Names {
    /// What stands before the number of a layer.
    pub layers: &'static str,
    /// Ours and theirs, outside of the layers.
    pub outside: &'static [(&'static str, &'static str)],
    /// Ours, theirs and which part of theirs is ours, inside of a layer.
    pub parts: &'static [(&'static str, &'static str, Part)],
    /// Tensors that are no parameters.
    pub ignored: &'static [&'static str],
    /// The head that tied files may hold once more, and the table that counts.
    pub tied: &'static [(&'static str, &'static str)],
}

/// Which part of a tensor is ours.
#[derive(Clone, Copy)]
pub enum Part {
    /// All of it.
    Whole,
    /// These rows: period, first and how many of each period.
    Rows(fn(&GptConfig) -> [usize; 3]),
}

impl Dialect {
    /// The settings that a config.json describes.
    pub fn config_from_json(&self, config: &Value) -> Result<GptConfig> {
        let config = self.read(config)?;
        Gpt::new(config).map(|_| config)
    }

    fn read(&self, config: &Value) -> Result<GptConfig> {
        let fields = Fields::new(self.model_type, config)?;
        let mut config = self.usual;
        self.words.iter().flat_map(|words| *words).try_for_each(|word| word.read(&fields, &mut config))?;
        Ok(config)
    }

    /// The config.json that transformers reads as this model; an error if the family has no words for it.
    pub fn config_to_json(&self, config: &GptConfig) -> Result<Value> {
        let refuse = |what: &str| {
            let what = format!("a model of this family cannot have the {what} of this one");
            Err(Error::invalid(self.model_type, what, "export it as another family"))
        };
        let mut written = json!({
            "model_type": self.model_type,
            "architectures": [self.architecture],
            "dtype": "float32",
        });
        let Value::Object(out) = &mut written else { return refuse("settings") };
        for word in self.words.iter().flat_map(|words| *words) {
            if !word.write(config, out) {
                return refuse(word.what());
            }
        }
        match differing(config, &self.read(&written)?) {
            Some(what) => refuse(what),
            None => Ok(written),
        }
    }

    /// Where each parameter stands in its files.
    pub fn files(&self, gpt: &Gpt) -> Files {
        let Names { layers, outside, parts, ignored, tied } = self.names;
        let config = gpt.config();
        let imports = gpt.parameters().all().filter_map(|declared| {
            let (part, kind) = declared.name.rsplit_once('.')?;
            let inner = part.strip_prefix("block.").and_then(|rest| rest.split_once('.'));
            let Some((layer, part)) = inner else {
                let (_, theirs) = outside.iter().find(|(ours, _)| *ours == part)?;
                return Some(Import::new(&declared.name, format!("{theirs}.{kind}"), Map::Same));
            };
            let (_, theirs, which) = parts.iter().find(|(ours, ..)| *ours == part)?;
            let map = match which {
                Part::Whole => Map::Same,
                Part::Rows(rows) => {
                    let [period, from, count] = rows(config);
                    Map::Rows { period, from, count }
                }
            };
            Some(Import::new(&declared.name, format!("{layers}.{layer}.{theirs}.{kind}"), map))
        });
        Files { ignored, copies: if config.tied { tied } else { &[] }, ..Files::new(imports.collect()) }
    }
}

/// The first setting in which two models differ, if any does: not in how it is said, but in what it comes to.
fn differing(one: &GptConfig, other: &GptConfig) -> Option<&'static str> {
    let (a, b) = (settled(one), settled(other));
    let same = [
        ("positions", a.positions == b.positions),
        ("window", a.window == b.window),
        ("layers of another kind", a.others == b.others),
        ("place of norms", a.place == b.place),
        ("norm", a.norm == b.norm && a.epsilon == b.epsilon),
        ("feed-forward part", a.feed_forward == b.feed_forward),
        ("norm of queries and keys", a.query_key_norm == b.query_key_norm),
        ("kind of attention", a.attention == b.attention),
        ("scale", a.scale == b.scale),
        ("sizes", (a.heads, a.groups, a.head_width, a.hidden) == (b.heads, b.groups, b.head_width, b.hidden)),
        ("biases", (a.attention_bias, a.output_bias) == (b.attention_bias, b.output_bias)),
        ("biases", (a.feed_forward_bias, a.head_bias) == (b.feed_forward_bias, b.head_bias)),
        ("tied head", a.tied == b.tied),
        ("multipliers", a.multipliers == b.multipliers),
        ("soft caps", a.caps == b.caps),
        (
            "dropout",
            (a.dropout, a.attention_dropout, a.hidden_dropout)
                == (b.dropout, b.attention_dropout, b.hidden_dropout),
        ),
        ("settings", a == b),
    ];
    same.into_iter().find(|(_, same)| !same).map(|(name, _)| name)
}

/// The same settings with everything said that may be left out.
fn settled(config: &GptConfig) -> GptConfig {
    let width = Some(config.head_width());
    let turned = |spec: RotarySpec| RotarySpec { width: spec.width.or(width), ..spec };
    GptConfig {
        groups: Some(config.groups()),
        head_width: width,
        hidden: Some(config.hidden()),
        positions: match config.positions {
            Positions::Rotary(spec) => Positions::Rotary(turned(spec)),
            other => other,
        },
        others: config.others.map(|others| OtherLayers { rotary: others.rotary.map(turned), ..others }),
        output_bias: Some(config.output_bias.unwrap_or(config.attention_bias)),
        attention_dropout: Some(config.attention_dropout.unwrap_or(config.dropout)),
        hidden_dropout: Some(config.hidden_dropout.unwrap_or(0.0)),
        ..*config
    }
}
