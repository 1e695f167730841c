//! From `[model]` to a model of its family. A key that the family does not have is refused rather than forgotten; what is
//! not given is as in the preset, or as in the family's smallest sensible model.

use crate::language::{
    ActivationRecipe, Family, Kind, MaskingRecipe, ModelRecipe, NormRecipe, PoolingRecipe, PositionsRecipe,
    TrainRecipe,
};
use crate::{Error, Result};
use regard_hub::{AnyModel, GptForm};
use regard_layers::{FeedForwardKind, NormKind};
use regard_models::{
    Bert, BertConfig, BertHead, Gpt, GptConfig, Perceiver, PerceiverConfig, PerceiverMasking, Positions, T5,
    T5Config, Transformer, TransformerConfig, Vit, VitConfig, VitHead, VitPooling, bert, vit,
};
use regard_ops::RotarySpec;

/// What the data says about a model.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Needs {
    /// Tokens of the vocabulary.
    pub vocabulary: usize,
    /// Classes, for a classifier.
    pub classes: usize,
    /// Channels, height and width of images.
    pub image: [usize; 3],
    /// The longest text, where the recipe gives no context.
    pub longest: usize,
}

/// A model made anew, with the dropout of training.
pub(super) fn made(kind: Kind, model: &ModelRecipe, train: &TrainRecipe, needs: Needs) -> Result<AnyModel> {
    fits(kind, model.family)?;
    known_keys(model)?;
    let vocabulary = match model.vocabulary {
        Some(given) if given < needs.vocabulary => {
            return Err(Error::invalid(
                format!("model.vocabulary is {given}, and the tokenizer has {} tokens", needs.vocabulary),
                "leave it out, or give as many at least",
            ));
        }
        given => given.unwrap_or(needs.vocabulary),
    };
    let attention_dropout = train.attention_dropout.unwrap_or(train.dropout);
    Ok(match model.family {
        Family::Gpt => {
            let preset = match &model.preset {
                Some(name) => GptConfig::preset(name)?,
                None => GptConfig::SMALL,
            };
            let config = GptConfig {
                layers: model.layers.unwrap_or(preset.layers),
                heads: model.heads.unwrap_or(preset.heads),
                groups: model.groups.or(preset.groups),
                width: model.width.unwrap_or(preset.width),
                hidden: model.hidden.or(preset.hidden),
                context: model.context.unwrap_or(preset.context),
                vocabulary,
                positions: model.positions.map_or(preset.positions, positions),
                window: model.window.or(preset.window),
                norm: model.norm.map_or(preset.norm, norm),
                feed_forward: model.activation.map_or(preset.feed_forward, activation),
                tied: model.tied.unwrap_or(preset.tied),
                dropout: train.dropout,
                attention_dropout: train.attention_dropout,
                std: model.std.unwrap_or(preset.std),
                ..preset
            };
            AnyModel::Gpt(Gpt::new(config)?, GptForm::Native)
        }
        Family::Perceiver => {
            let config = PerceiverConfig {
                layers: model.layers.unwrap_or(4),
                heads: model.heads.unwrap_or(8),
                width: model.width.unwrap_or(256),
                latents: model.latents.unwrap_or(64),
                context: model.context.unwrap_or(128),
                vocabulary,
                masking: model.masking.map_or(PerceiverMasking::Prefix, masking),
                dropout: train.dropout,
            };
            AnyModel::Perceiver(Box::new(Perceiver::new(config)?))
        }
        Family::Bert => {
            let preset = match &model.preset {
                Some(name) => BertConfig::preset(name)?,
                None => BertConfig { context: 128, ..bert::PRESETS[0].1 },
            };
            let width = model.width.unwrap_or(preset.width);
            let config = BertConfig {
                layers: model.layers.unwrap_or(preset.layers),
                heads: model.heads.unwrap_or(preset.heads),
                width,
                hidden: model.hidden.unwrap_or(4 * width),
                context: model.context.unwrap_or(preset.context),
                vocabulary,
                activation: model.activation.map_or(preset.activation, activation),
                dropout: train.dropout,
                attention_dropout,
                std: model.std.unwrap_or(preset.std),
                head: bert_head(kind, model, needs.classes),
                ..preset
            };
            AnyModel::Bert(Bert::new(config)?)
        }
        Family::Transformer => {
            let width = model.width.unwrap_or(256);
            let layers = model.layers.unwrap_or(3);
            let config = TransformerConfig {
                width,
                heads: model.heads.unwrap_or(4),
                hidden: model.hidden.unwrap_or(4 * width),
                encoder_layers: layers,
                decoder_layers: layers,
                context: model.context.unwrap_or(needs.longest),
                shared: model.tied.unwrap_or(true),
                dropout: train.dropout,
                ..TransformerConfig::base(vocabulary)
            };
            AnyModel::Transformer(Transformer::new(config)?)
        }
        Family::T5 => {
            let width = model.width.unwrap_or(256);
            let heads = model.heads.unwrap_or(4);
            let layers = model.layers.unwrap_or(3);
            let tied = model.tied.unwrap_or(true);
            let config = T5Config {
                vocabulary,
                width,
                heads,
                head_width: width.checked_div(heads).unwrap_or(0),
                hidden: model.hidden.unwrap_or(4 * width),
                encoder_layers: layers,
                decoder_layers: layers,
                gated: model.activation == Some(ActivationRecipe::GatedGelu),
                tied,
                scaled: tied,
                dropout: train.dropout,
                ..T5Config::small()
            };
            AnyModel::T5(T5::new(config)?)
        }
        Family::Vit => {
            let [channels, height, width_of_image] = needs.image;
            let preset = match &model.preset {
                Some(name) => VitConfig::preset(name)?,
                None => VitConfig {
                    layers: 4,
                    heads: 4,
                    width: 64,
                    hidden: 256,
                    patch: [4, 4],
                    ..vit::PRESETS[0].1
                },
            };
            let width = model.width.unwrap_or(preset.width);
            let config = VitConfig {
                image: [height, width_of_image],
                patch: model.patch.map_or(preset.patch, |side| [side, side]),
                channels,
                layers: model.layers.unwrap_or(preset.layers),
                heads: model.heads.unwrap_or(preset.heads),
                width,
                hidden: model.hidden.unwrap_or(4 * width),
                activation: model.activation.map_or(preset.activation, activation),
                pooling: match model.pooling {
                    Some(PoolingRecipe::Mean) => VitPooling::Mean,
                    _ => VitPooling::Class,
                },
                head: VitHead::Linear(needs.classes),
                dropout: train.dropout,
                attention_dropout,
                std: model.std.unwrap_or(preset.std),
                ..preset
            };
            let vit = AnyModel::Vit(Vit::new(config)?);
            // Said now, not when the trained model is to be written.
            vit.config_to_json()?;
            vit
        }
    })
}

/// The head of an encoder of text.
pub(super) fn bert_head(kind: Kind, model: &ModelRecipe, classes: usize) -> BertHead {
    match (kind, model.pooling) {
        (Kind::Masked, _) => BertHead::Masked,
        (_, Some(PoolingRecipe::Class)) => BertHead::Classes(classes),
        _ => BertHead::MeanClasses(classes),
    }
}

/// Refuses a task that a family cannot do.
fn fits(kind: Kind, family: Family) -> Result<()> {
    let (families, named): (&[Family], &str) = match kind {
        Kind::Language => (&[Family::Gpt, Family::Perceiver], "gpt or perceiver"),
        Kind::Classify | Kind::Masked => (&[Family::Bert], "bert"),
        Kind::Translate => (&[Family::Transformer, Family::T5], "transformer or t5"),
        Kind::Images => (&[Family::Vit], "vit"),
    };
    match families.contains(&family) {
        true => Ok(()),
        false => Err(Error::invalid(
            format!("the task `{}` with a model of the family `{}`", word(kind), word(family)),
            format!("give model.family = \"{named}\"", named = named.replace(" or ", "\" or \"")),
        )),
    }
}

/// A choice as recipes write it.
pub(super) fn word<T: serde::Serialize>(choice: T) -> String {
    serde_json::to_value(choice).ok().and_then(|value| value.as_str().map(str::to_string)).unwrap_or_default()
}

/// Refuses keys that the family does not have.
fn known_keys(model: &ModelRecipe) -> Result<()> {
    let known: &[&str] = match model.family {
        Family::Gpt => &[
            "preset",
            "layers",
            "heads",
            "groups",
            "width",
            "hidden",
            "context",
            "vocabulary",
            "positions",
            "window",
            "norm",
            "activation",
            "tied",
            "std",
        ],
        Family::Perceiver => &["layers", "heads", "width", "latents", "context", "vocabulary", "masking"],
        Family::Bert => &[
            "preset",
            "layers",
            "heads",
            "width",
            "hidden",
            "context",
            "vocabulary",
            "activation",
            "pooling",
            "std",
        ],
        Family::Transformer => &["layers", "heads", "width", "hidden", "context", "vocabulary", "tied"],
        Family::T5 => &["layers", "heads", "width", "hidden", "vocabulary", "activation", "tied"],
        Family::Vit => {
            &["preset", "layers", "heads", "width", "hidden", "activation", "pooling", "patch", "std"]
        }
    };
    match given_keys(model)?.iter().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => Err(Error::invalid(
            format!("a model of the family `{}` has no `{key}`", word(model.family)),
            format!("leave model.{key} out; it has {}", known.join(", ")),
        )),
    }
}

/// The keys of `[model]` that are given, but for the family.
pub(super) fn given_keys(model: &ModelRecipe) -> Result<Vec<String>> {
    let table = toml::Table::try_from(model)
        .map_err(|error| Error::invalid(format!("[model] has no TOML: {error}"), "check its numbers"))?;
    Ok(table.into_iter().map(|(key, _)| key).filter(|key| key != "family").collect())
}

fn positions(positions: PositionsRecipe) -> Positions {
    match positions {
        PositionsRecipe::None => Positions::None,
        PositionsRecipe::Learned => Positions::Learned,
        PositionsRecipe::Sinusoidal => Positions::Sinusoidal,
        PositionsRecipe::Rotary => Positions::Rotary(RotarySpec::default()),
        PositionsRecipe::Alibi => Positions::Alibi,
    }
}

fn norm(norm: NormRecipe) -> NormKind {
    match norm {
        NormRecipe::Layer => NormKind::Layer,
        NormRecipe::Rms => NormKind::Rms,
    }
}

fn activation(activation: ActivationRecipe) -> FeedForwardKind {
    match activation {
        ActivationRecipe::Relu => FeedForwardKind::Relu,
        ActivationRecipe::Gelu => FeedForwardKind::Gelu,
        ActivationRecipe::GeluTanh => FeedForwardKind::GeluTanh,
        ActivationRecipe::GatedSilu => FeedForwardKind::GatedSilu,
        ActivationRecipe::GatedGelu => FeedForwardKind::GatedGelu,
    }
}

fn masking(masking: MaskingRecipe) -> PerceiverMasking {
    match masking {
        MaskingRecipe::Prefix => PerceiverMasking::Prefix,
        MaskingRecipe::Chunk => PerceiverMasking::Chunk,
        MaskingRecipe::Corner => PerceiverMasking::Corner,
    }
}
