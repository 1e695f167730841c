//! How each model of this library enters the registry: what it answers to [`crate::Model`], how its folders
//! are opened, and how a recipe makes one. A new family is one such file, its `mod` line here, and its line
//! in [`crate::Registry::standard`].

pub mod bert;
pub mod gpt;
pub mod perceiver;
pub mod t5;
pub mod transformer;
pub mod vit;

use crate::keys::{Expected, Key};
use crate::mechanisms;

const PRESET: Key = Key::new("preset", Expected::Text, "a known size to begin with");
const LAYERS: Key =
    Key::new("layers", Expected::Size, "how many blocks; of an encoder-decoder, in each stack");
const HEADS: Key = Key::new("heads", Expected::Size, "heads of each attention");
const WIDTH: Key = Key::new("width", Expected::Size, "the width of the residual stream");
const HIDDEN: Key = Key::new("hidden", Expected::Size, "the hidden width of the feed-forward parts");
const CONTEXT: Key = Key::new("context", Expected::Size, "the most positions");
const VOCABULARY: Key = Key::new("vocabulary", Expected::Size, "how many tokens there are");
const TIED: Key = Key::new("tied", Expected::Truth, "whether the head is the table of the embedding");
const STD: Key = Key::new("std", Expected::Number, "standard deviation of the weights at the beginning");
const POOLING: Key = Key::new("pooling", Expected::Word(&["class", "mean"]), "what a classifier reads");

/// A family's own keys, and those of the mechanisms of its blocks but for those that it has no use for.
fn with_mechanisms(own: &[Key], but: &[&str]) -> Vec<Key> {
    let shared = mechanisms::recipe_keys().filter(|key| !but.contains(&key.name));
    own.iter().cloned().chain(shared).collect()
}
