//! ViTs: encoders of images, in transformers' form, or in our own where that has no words for them; DeiT and
//! DINOv2 in transformers' form alone.

use super::{HEADS, HIDDEN, LAYERS, POOLING, PRESET, STD, WIDTH, with_mechanisms};
use crate::family::{Dropout, Family, Form, Needs, Weights};
use crate::import::{self, Files, native};
use crate::keys::{Expected, Key, ModelKeys};
use crate::model::{Labels, Outputs, Promises, Task, no_loss, refused_task};
use crate::vit::PRESETS;
use crate::{Inputs, Mechanisms, Model, Pixels, Reads, Vit, VitConfig, VitForm, VitHead, VitPooling};
use regard_graph::{Error, Graph, Result, Var};
use regard_layers::Parameters;
use regard_ops::CrossEntropyOptions;
use serde_json::Value;
use std::sync::Arc;

/// Whether it is kept in our own form: a plain ViT that transformers has no words for.
fn is_native(config: &VitConfig) -> bool {
    if config.form != VitForm::Plain {
        return false;
    }
    !config.positions
        || config.pooling != VitPooling::Class
        || matches!(config.head, VitHead::Mlp { .. })
        || config.activation.is_gated()
        || !config.mechanisms.are_the_family_s()
}

impl Model for Vit {
    fn family(&self) -> &str {
        if is_native(self.config()) { native::VIT } else { import::vit::model_type(self.config().form) }
    }

    fn kind(&self) -> &str {
        "a model of images"
    }

    fn parameters(&self) -> &Parameters {
        Vit::parameters(self)
    }

    fn reads(&self) -> Reads {
        let VitConfig { channels, image: [height, width], .. } = *self.config();
        Reads::images(Pixels { channels, height, width })
    }

    fn pass(&self, g: &mut Graph, inputs: &Inputs) -> Result<Outputs> {
        let hidden = self.hidden(g, inputs.pixels()?)?;
        let mut outputs = Vec::new();
        match self.config().head {
            VitHead::None => {}
            VitHead::Pooler(_) => outputs.extend(self.pooler_of(g, hidden)?.map(|pooled| ("pooled", pooled))),
            _ => outputs.push(("logits", self.logits_of(g, hidden)?)),
        }
        outputs.push(("hidden", hidden));
        Ok(outputs)
    }

    fn task(&self) -> Option<Task> {
        let choices = match self.config().head {
            VitHead::None | VitHead::Pooler(_) => return None,
            VitHead::Linear(classes) | VitHead::Taught(classes) | VitHead::Mlp { classes, .. } => classes,
        };
        Some(Task { name: "images", labels: Labels::Example, choices })
    }

    fn loss(
        &self,
        g: &mut Graph,
        inputs: &Inputs,
        labels: Var,
        scale: Var,
        options: CrossEntropyOptions,
    ) -> Result<Var> {
        if self.task().is_none() {
            return Err(no_loss("vit", self.config().head, "choose the task `images`"));
        }
        self.loss_with(g, inputs.pixels()?, labels, scale, options)
    }

    fn promises(&self) -> Promises {
        Promises::ENCODER
    }

    fn with_dropout(&self, dropout: Dropout) -> Result<Arc<dyn Model>> {
        Ok(Arc::new(Vit::new(dropped(*self.config(), dropout))?))
    }

    fn config_to_json(&self) -> Result<Value> {
        match is_native(self.config()) {
            true => Ok(native::vit_to_json(self.config())),
            false => import::vit::config_to_json(self.config()),
        }
    }

    fn files(&self, _: Option<&dyn Weights>) -> Files {
        match is_native(self.config()) {
            true => Files::new(native::imports(Vit::parameters(self))),
            false => {
                let ignored = match self.config().form {
                    VitForm::Dinov2 { .. } => &import::vit::IGNORED[..],
                    VitForm::Plain | VitForm::Deit => &[],
                };
                Files { ignored, ..Files::new(import::vit::imports(self.config())) }
            }
        }
    }

    fn for_images(&self, image: [usize; 2]) -> Result<Option<Arc<dyn Model>>> {
        let VitForm::Dinov2 { scale, .. } = self.config().form else { return Ok(None) };
        let form = VitForm::Dinov2 { scale, learned: Some(self.config().learned_grid()) };
        Ok(Some(Arc::new(Vit::new(VitConfig { image, form, ..*self.config() })?)))
    }

    fn for_task(&self, keys: &ModelKeys, needs: &Needs) -> Result<Arc<dyn Model>> {
        keys.none_but(&["pooling", "context"])?;
        if needs.task != "images" {
            return Err(refused_task("vit", needs.task));
        }
        let VitConfig { channels, image: [height, width], .. } = *self.config();
        let own = [channels, height, width];
        if own != needs.image {
            return Err(Error::invalid(
                "vit",
                format!(
                    "the images are {:?} (channels, height, width), the model takes {own:?}",
                    needs.image
                ),
                "start from a model of the same sizes",
            ));
        }
        let own = match self.config().form {
            VitForm::Dinov2 { .. } => VitPooling::ClassAndMean,
            VitForm::Plain | VitForm::Deit => self.config().pooling,
        };
        let pooling = keys.word("pooling", &native::POOLINGS)?.unwrap_or(own);
        let head = VitHead::Linear(needs.classes);
        Ok(Arc::new(Vit::new(VitConfig { pooling, head, ..dropped(*self.config(), needs.dropout) })?))
    }
}

fn dropped(config: VitConfig, dropout: Dropout) -> VitConfig {
    let mechanisms = Mechanisms { hidden_dropout: dropout.hidden, ..config.mechanisms };
    VitConfig { dropout: dropout.activations, attention_dropout: dropout.attention(), mechanisms, ..config }
}

/// Encoders of images.
#[derive(Clone, Copy, Debug)]
pub struct Vits;

impl Family for Vits {
    fn name(&self) -> &str {
        "vit"
    }

    fn about(&self) -> &str {
        "an encoder of images"
    }

    fn forms(&self) -> Vec<Form> {
        let theirs = ["vit", "deit", "dinov2"]
            .map(|model_type| Form { model_type, architectures: import::vit::architectures(model_type) });
        theirs.into_iter().chain([Form { model_type: native::VIT, architectures: &[] }]).collect()
    }

    fn open(&self, model_type: &str, config: &Value, weights: &dyn Weights) -> Result<Arc<dyn Model>> {
        let mut config = match model_type {
            native::VIT => native::vit_from_json(config)?,
            _ => import::vit::config_from_json(config)?,
        };
        // A bare model may have been made without a pooler: no word of its config says so.
        let foreign = model_type != native::VIT && matches!(config.head, VitHead::Pooler(_));
        if foreign && !weights.has("pooler.dense.weight") {
            config.head = VitHead::None;
        }
        Ok(Arc::new(Vit::new(config)?))
    }

    fn tasks(&self) -> &[&str] {
        &["images"]
    }

    fn keys(&self) -> Vec<Key> {
        let patch = Key::new("patch", Expected::Size, "the side of a patch");
        with_mechanisms(&[PRESET, LAYERS, HEADS, WIDTH, HIDDEN, POOLING, patch, STD], &["window"])
    }

    fn presets(&self) -> Vec<&str> {
        PRESETS.iter().map(|(name, _)| *name).collect()
    }

    fn make(&self, keys: &ModelKeys, needs: &Needs) -> Result<Arc<dyn Model>> {
        let preset = match keys.text("preset") {
            Some(name) => VitConfig::preset(name)?,
            None => VitConfig { layers: 4, heads: 4, width: 64, hidden: 256, patch: [4, 4], ..PRESETS[0].1 },
        };
        let own = Mechanisms::from_keys(keys)?;
        let [channels, height, across] = needs.image;
        let width = keys.size("width").unwrap_or(preset.width);
        let config = VitConfig {
            image: [height, across],
            patch: keys.size("patch").map_or(preset.patch, |side| [side, side]),
            channels,
            layers: keys.size("layers").unwrap_or(preset.layers),
            heads: keys.size("heads").unwrap_or(preset.heads),
            width,
            hidden: keys.size("hidden").unwrap_or(4 * width),
            activation: own.activation.unwrap_or(preset.activation),
            epsilon: own.epsilon.unwrap_or(preset.epsilon),
            pooling: keys.word("pooling", &native::POOLINGS)?.unwrap_or(VitPooling::Class),
            head: VitHead::Linear(needs.classes),
            std: keys.number("std").unwrap_or(preset.std),
            mechanisms: Mechanisms { activation: None, epsilon: None, ..own },
            ..preset
        };
        Ok(Arc::new(Vit::new(dropped(config, needs.dropout))?))
    }
}
