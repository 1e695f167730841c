//! A family of models: how its folders are recognised and opened, and how a recipe makes one. A family
//! registers in a [`crate::Registry`]; nothing else knows it by name.

use crate::Model;
use crate::keys::{Key, ModelKeys};
use regard_graph::Result;
use serde_json::Value;
use std::sync::Arc;

/// A family.
pub trait Family: Send + Sync {
    /// What recipes call it: `gpt`.
    fn name(&self) -> &str;

    /// What it is, in a few words.
    fn about(&self) -> &str;

    /// The folders that it opens.
    fn forms(&self) -> Vec<Form>;

    /// The model that a `config.json` speaks of, with the dropout that it was trained with. `model_type` is
    /// one of those of its forms. Where a config leaves open what the weights decide (a head of its own, a
    /// pooler), they do.
    fn open(&self, model_type: &str, config: &Value, weights: &dyn Weights) -> Result<Arc<dyn Model>>;

    /// The tasks that a recipe may ask for.
    fn tasks(&self) -> &[&str];

    /// Its keys in `[model]`.
    fn keys(&self) -> Vec<Key>;

    /// A model made anew out of a recipe's `[model]`, whose keys were checked, and of what the data needs;
    /// with the dropout of training.
    fn make(&self, keys: &ModelKeys, needs: &Needs) -> Result<Arc<dyn Model>>;

    /// Known sizes that a recipe may begin with.
    fn presets(&self) -> Vec<&str> {
        Vec::new()
    }
}

/// How folders of a family are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// `model_type` of `config.json`.
    pub model_type: &'static str,
    /// The `architectures` that belong to it.
    pub architectures: &'static [&'static str],
}

/// What is known of a checkpoint before it is read.
pub trait Weights {
    /// Whether it has a tensor of this name.
    fn has(&self, name: &str) -> bool;

    /// Whether two tensors hold the same bytes; none if one of them is not there.
    fn same(&self, one: &str, other: &str) -> Option<bool>;

    /// How many tensors there are, where there is a checkpoint.
    fn count(&self) -> Option<usize>;

    /// The sizes of a tensor, where they are known.
    fn shape(&self, _name: &str) -> Option<Vec<usize>> {
        None
    }
}

/// A checkpoint without a tensor: what a model is opened with that has no weights yet.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoWeights;

impl Weights for NoWeights {
    fn has(&self, _: &str) -> bool {
        false
    }

    fn same(&self, _: &str, _: &str) -> Option<bool> {
        None
    }

    fn count(&self) -> Option<usize> {
        None
    }
}

/// Probabilities with which numbers are dropped in training.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Dropout {
    /// Embeddings and what each part adds to the stream.
    pub activations: f32,
    /// Attention weights; as `activations` if not given.
    pub attention: Option<f32>,
    /// Hidden activations of the feed-forward parts; as the family has it if not given.
    pub hidden: Option<f32>,
}

impl Dropout {
    /// None at all.
    pub const NONE: Dropout = Dropout { activations: 0.0, attention: None, hidden: None };

    /// That of attention weights.
    pub fn attention(&self) -> f32 {
        self.attention.unwrap_or(self.activations)
    }
}

/// What a model is to be made for: what is learned, and what the data says about it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Needs<'a> {
    /// What is learned, as recipes name it.
    pub task: &'a str,
    /// Tokens of the vocabulary.
    pub vocabulary: usize,
    /// Classes, for a classifier.
    pub classes: usize,
    /// Channels, height and width of images.
    pub image: [usize; 3],
    /// The longest text, where the recipe gives no context.
    pub longest: usize,
    /// The dropout of training.
    pub dropout: Dropout,
}
