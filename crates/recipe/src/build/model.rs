//! From `[model]` to a model: the family's own defaults, a preset, then what the recipe says. A key that the family does
//! not have is refused.

use crate::language::{
    ActivationRecipe, Family, Kind, MaskingRecipe, ModelRecipe, NormRecipe, PoolingRecipe, PositionsRecipe,
    Recipe,
};
use crate::{Error, Result};
use regard_hub::{AnyModel, GptForm};
use regard_layers::{FeedForwardKind, NormKind};
use regard_models::{
    Bert, BertConfig, BertHead, Gpt, GptConfig, Perceiver, PerceiverConfig, PerceiverMasking, Positions, T5,
    T5Config, Transformer, TransformerConfig, Vit, VitConfig, VitHead, VitPooling,
};
use regard_ops::RotarySpec;

/// What the data decides.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    /// How many tokens there are.
    pub vocabulary: usize,
    /// How many classes there are.
    pub classes: usize,
    /// Channels, height and width of the images.
    pub image: [usize; 3],
}

/// The keys that each family has besides those of all: layers, heads, width, hidden.
fn keys(family: Family) -> &'static [&'static str] {
    match family {
        Family::Gpt => &[
            "preset",
            "groups",
            "context",
            "vocabulary",
            "positions",
            "window",
            "norm",
            "activation",
            "tied",
            "std",
        ],
        Family::Perceiver => &["context", "vocabulary", "latents", "masking"],
        Family::Bert => &["preset", "context", "vocabulary", "activation", "pooling", "std"],
        Family::Transformer => &["context", "vocabulary"],
        Family::T5 => &["vocabulary", "tied"],
        Family::Vit => &["preset", "activation", "pooling", "patch", "std"],
    }
}

/// The keys that a recipe gives.
fn given(model: &ModelRecipe) -> Vec<&'static str> {
    let all = [
        ("preset", model.preset.is_some()),
        ("groups", model.groups.is_some()),
        ("context", model.context.is_some()),
        ("vocabulary", model.vocabulary.is_some()),
        ("positions", model.positions.is_some()),
        ("window", model.window.is_some()),
        ("norm", model.norm.is_some()),
        ("activation", model.activation.is_some()),
        ("tied", model.tied.is_some()),
        ("latents", model.latents.is_some()),
        ("masking", model.masking.is_some()),
        ("pooling", model.pooling.is_some()),
        ("patch", model.patch.is_some()),
        ("std", model.std.is_some()),
    ];
    all.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect()
}

/// The families that can learn a task.
fn families(task: Kind) -> &'static [Family] {
    match task {
        Kind::Language => &[Family::Gpt, Family::Perceiver],
        Kind::Classify | Kind::Masked => &[Family::Bert],
        Kind::Translate => &[Family::Transformer, Family::T5],
        Kind::Images => &[Family::Vit],
    }
}

/// Refuses a family that cannot learn the task, and keys that it does not have.
pub(crate) fn check(recipe: &Recipe) -> Result<()> {
    let family = recipe.model.family;
    if recipe.from.model.is_none() && !families(recipe.task).contains(&family) {
        return Err(Error::invalid(
            format!("a model of the family {family:?} does not learn the task {:?}", recipe.task),
            format!("set model.family to {:?}", families(recipe.task)).to_lowercase(),
        ));
    }
    match given(&recipe.model).into_iter().find(|key| !keys(family).contains(key)) {
        Some(key) if recipe.from.model.is_none() => Err(Error::invalid(
            format!("a model of the family {family:?} has no `{key}`"),
            format!(
                "leave model.{key} out; besides layers, heads, width and hidden it has {}",
                keys(family).join(", ")
            ),
        )),
        _ => Ok(()),
    }
}

/// A new model.
pub(crate) fn fresh(recipe: &Recipe, facts: Facts) -> Result<AnyModel> {
    let model = &recipe.model;
    let dropout = recipe.train.dropout;
    let attention = recipe.train.attention_dropout.unwrap_or(dropout);
    let vocabulary = model.vocabulary.unwrap_or(facts.vocabulary);
    if vocabulary < facts.vocabulary {
        return Err(Error::invalid(
            format!("model.vocabulary is {vocabulary}, the tokenizer has {} tokens", facts.vocabulary),
            "leave it out, or give at least as many",
        ));
    }
    let set = |slot: &mut usize, given: Option<usize>| {
        if let Some(given) = given {
            *slot = given;
        }
    };
    match model.family {
        Family::Gpt => {
            let mut config = match &model.preset {
                Some(preset) => GptConfig::preset(preset)?,
                None => GptConfig::SMALL,
            };
            set(&mut config.layers, model.layers);
            set(&mut config.heads, model.heads);
            set(&mut config.width, model.width);
            set(&mut config.context, model.context);
            config.groups = model.groups.or(config.groups);
            config.hidden = model.hidden.or(config.hidden);
            config.window = model.window.or(config.window);
            config.tied = model.tied.unwrap_or(config.tied);
            config.std = model.std.unwrap_or(config.std);
            config.vocabulary = vocabulary;
            config.positions = model.positions.map_or(config.positions, positions);
            config.norm = match model.norm {
                None => config.norm,
                Some(NormRecipe::Layer) => NormKind::Layer,
                Some(NormRecipe::Rms) => NormKind::Rms,
            };
            config.feed_forward = model.activation.map_or(config.feed_forward, activation);
            (config.dropout, config.attention_dropout) = (dropout, Some(attention));
            Ok(AnyModel::Gpt(Gpt::new(config)?, GptForm::Native))
        }
        Family::Perceiver => Ok(AnyModel::Perceiver(Box::new(Perceiver::new(PerceiverConfig {
            layers: model.layers.unwrap_or(4),
            heads: model.heads.unwrap_or(8),
            width: model.width.unwrap_or(256),
            latents: model.latents.unwrap_or(64),
            context: model.context.unwrap_or(128),
            vocabulary,
            masking: match model.masking {
                None | Some(MaskingRecipe::Prefix) => PerceiverMasking::Prefix,
                Some(MaskingRecipe::Chunk) => PerceiverMasking::Chunk,
                Some(MaskingRecipe::Corner) => PerceiverMasking::Corner,
            },
            dropout,
        })?))),
        Family::Bert => {
            let mut config = BertConfig::preset(model.preset.as_deref().unwrap_or("bert-tiny"))?;
            set(&mut config.layers, model.layers);
            set(&mut config.heads, model.heads);
            set(&mut config.width, model.width);
            set(&mut config.context, model.context);
            config.hidden = model.hidden.unwrap_or(4 * config.width);
            config.vocabulary = vocabulary;
            config.activation = model.activation.map_or(config.activation, activation);
            config.std = model.std.unwrap_or(config.std);
            (config.dropout, config.attention_dropout) = (dropout, attention);
            config.head = bert_head(recipe, facts.classes);
            Ok(AnyModel::Bert(Bert::new(config)?))
        }
        Family::Transformer => {
            let base = TransformerConfig::base(vocabulary);
            let width = model.width.unwrap_or(256);
            let layers = model.layers.unwrap_or(3);
            Ok(AnyModel::Transformer(Transformer::new(TransformerConfig {
                width,
                heads: model.heads.unwrap_or(8),
                hidden: model.hidden.unwrap_or(4 * width),
                encoder_layers: layers,
                decoder_layers: layers,
                context: model.context.unwrap_or(128),
                dropout,
                ..base
            })?))
        }
        Family::T5 => {
            let base = T5Config::small();
            let width = model.width.unwrap_or(256);
            let heads = model.heads.unwrap_or(8);
            let layers = model.layers.unwrap_or(3);
            Ok(AnyModel::T5(T5::new(T5Config {
                vocabulary,
                width,
                heads,
                head_width: width / heads.max(1),
                hidden: model.hidden.unwrap_or(4 * width),
                encoder_layers: layers,
                decoder_layers: layers,
                tied: model.tied.unwrap_or(base.tied),
                dropout,
                ..base
            })?))
        }
        Family::Vit => {
            let mut config = VitConfig::preset(model.preset.as_deref().unwrap_or("vit-tiny-16"))?;
            let [channels, height, width] = facts.image;
            (config.channels, config.image) = (channels, [height, width]);
            set(&mut config.layers, model.layers);
            set(&mut config.heads, model.heads);
            set(&mut config.width, model.width);
            config.hidden = model.hidden.unwrap_or(4 * config.width);
            if let Some(patch) = model.patch {
                config.patch = [patch, patch];
            }
            config.activation = model.activation.map_or(config.activation, activation);
            config.std = model.std.unwrap_or(config.std);
            config.pooling = match model.pooling {
                None | Some(PoolingRecipe::Class) => VitPooling::Class,
                Some(PoolingRecipe::Mean) => VitPooling::Mean,
            };
            config.head = VitHead::Linear(facts.classes);
            (config.dropout, config.attention_dropout) = (dropout, attention);
            Ok(AnyModel::Vit(Vit::new(config)?))
        }
    }
}

/// What stands on a BERT for a task.
pub(crate) fn bert_head(recipe: &Recipe, classes: usize) -> BertHead {
    match (recipe.task, recipe.model.pooling) {
        (Kind::Masked, _) => BertHead::Masked,
        (_, Some(PoolingRecipe::Mean)) => BertHead::MeanClasses(classes),
        _ => BertHead::Classes(classes),
    }
}

fn positions(words: PositionsRecipe) -> Positions {
    match words {
        PositionsRecipe::None => Positions::None,
        PositionsRecipe::Learned => Positions::Learned,
        PositionsRecipe::Sinusoidal => Positions::Sinusoidal,
        PositionsRecipe::Rotary => Positions::Rotary(RotarySpec::default()),
        PositionsRecipe::Alibi => Positions::Alibi,
    }
}

fn activation(word: ActivationRecipe) -> FeedForwardKind {
    match word {
        ActivationRecipe::Relu => FeedForwardKind::Relu,
        ActivationRecipe::Gelu => FeedForwardKind::Gelu,
        ActivationRecipe::GeluTanh => FeedForwardKind::GeluTanh,
        ActivationRecipe::GatedSilu => FeedForwardKind::GatedSilu,
        ActivationRecipe::GatedGelu => FeedForwardKind::GatedGelu,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_another_family_is_refused() {
        let text = |toml: &str| check(&Recipe::parse(toml, "x", &[]).unwrap()).unwrap_err().to_string();
        assert_eq!(
            text("[model]\nlatents = 3\n"),
            "a model of the family Gpt has no `latents`; leave model.latents out; besides layers, heads, width and \
             hidden it has preset, groups, context, vocabulary, positions, window, norm, activation, tied, std"
        );
        assert_eq!(
            text("task = \"images\"\n"),
            "a model of the family Gpt does not learn the task Images; set model.family to [vit]"
        );
    }

    #[test]
    fn every_family_can_be_made() {
        let facts = Facts { vocabulary: 20, classes: 3, image: [1, 8, 8] };
        for (family, task, more) in [
            ("gpt", "language", "positions = \"rotary\"\ncontext = 16"),
            ("perceiver", "language", "context = 16\nlatents = 4"),
            ("bert", "classify", "pooling = \"mean\""),
            ("bert", "masked", ""),
            ("transformer", "translate", "context = 16"),
            ("t5", "translate", ""),
            ("vit", "images", "patch = 4"),
        ] {
            let toml = format!(
                "task = \"{task}\"\n[model]\nfamily = \"{family}\"\nlayers = 2\nheads = 2\nwidth = 8\n{more}\n"
            );
            let recipe = Recipe::parse(&toml, "x", &[]).unwrap();
            check(&recipe).unwrap();
            let model = fresh(&recipe, facts).unwrap();
            assert!(model.parameters().count() > 100, "{family}");
        }
        let small = Recipe::parse("[model]\nvocabulary = 3\n", "x", &[]).unwrap();
        assert_eq!(
            fresh(&small, facts).unwrap_err().to_string(),
            "model.vocabulary is 3, the tokenizer has 20 tokens; leave it out, or give at least as many"
        );
    }
}
