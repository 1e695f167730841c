//! BERTs and their descendants: encoders of text, in transformers' form, or in our own where that has no
//! words for them.

use super::{CONTEXT, HEADS, HIDDEN, LAYERS, POOLING, PRESET, STD, VOCABULARY, WIDTH, with_mechanisms};
use crate::family::{Dropout, Family, Form, Needs, Weights};
use crate::import::{self, Files, native};
use crate::keys::{Key, ModelKeys};
use crate::model::{
    Labels, Outputs, Promises, SentenceEncoder, SentencePooling, Task, no_loss, refused_task,
};
use crate::{
    Bert, BertConfig, BertHead, BertText, BertVariant, Inputs, Mechanisms, Model, Reads, Tokens,
    bert::PRESETS,
};
use regard_graph::{Graph, Result, Var};
use regard_layers::Parameters;
use regard_ops::CrossEntropyOptions;
use regard_ops::prelude::*;
use serde_json::Value;
use std::sync::Arc;

/// Whether transformers has no form for it.
fn is_native(config: &BertConfig) -> bool {
    import::bert::departs(config).is_some()
}

/// One of the scores of each position: B T L -> B T.
fn column(g: &mut Graph, scores: Var, at: usize) -> Result<Var> {
    let [b, t, _] = g.dims(scores, "B T L")?;
    let one = g.slice(scores, 2, at, 1)?;
    g.reshape(one, shape![b, t])
}

fn text(inputs: &Inputs) -> Result<BertText> {
    Ok(BertText { ids: inputs.ids()?, token_types: inputs.types, key_mask: inputs.mask })
}

impl Model for Bert {
    fn family(&self) -> &str {
        let config = self.config();
        if is_native(config) { native::BERT } else { import::bert::model_type(config.variant.family) }
    }

    fn kind(&self) -> &str {
        "an encoder of text"
    }

    fn parameters(&self) -> &Parameters {
        Bert::parameters(self)
    }

    fn reads(&self) -> Reads {
        let BertConfig { vocabulary, context, token_types, variant, .. } = *self.config();
        let types = Some(token_types).filter(|&types| types > 0);
        Reads::text(Tokens { types, filler: variant.padding, ..Tokens::masked(vocabulary, Some(context)) })
    }

    fn pass(&self, g: &mut Graph, inputs: &Inputs) -> Result<Outputs> {
        let text = text(inputs)?;
        let hidden = self.hidden(g, &text)?;
        let mut outputs = Vec::new();
        match self.config().head {
            BertHead::None => {}
            BertHead::Pooler => outputs.push(("pooled", self.pooled_of(g, hidden)?)),
            BertHead::Pretraining => {
                outputs.push(("logits", self.logits_of(g, &text, hidden)?));
                outputs.push(("follows", self.follows_of(g, hidden)?));
            }
            BertHead::Span => {
                let ends = self.logits_of(g, &text, hidden)?; // B T 2
                outputs.push(("start", column(g, ends, 0)?));
                outputs.push(("end", column(g, ends, 1)?));
            }
            BertHead::Replaced => {
                let scores = self.logits_of(g, &text, hidden)?; // B T 1
                outputs.push(("logits", column(g, scores, 0)?));
            }
            _ => outputs.push(("logits", self.logits_of(g, &text, hidden)?)),
        }
        outputs.push(("hidden", hidden));
        Ok(outputs)
    }

    fn task(&self) -> Option<Task> {
        let (name, labels, choices) = match self.config().head {
            BertHead::None | BertHead::Pooler | BertHead::Pretraining => return None,
            BertHead::Span | BertHead::Replaced => return None,
            BertHead::Masked => ("masked", Labels::Position, self.config().vocabulary),
            BertHead::Classes(classes) | BertHead::MeanClasses(classes) => {
                ("classify", Labels::Example, classes)
            }
            BertHead::Labels(labels) => ("label", Labels::Position, labels),
        };
        Some(Task { name, labels, choices })
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
            return Err(no_loss("bert", self.config().head, "choose the task `classify` or `masked`"));
        }
        self.loss_with(g, &text(inputs)?, labels, scale, options)
    }

    fn promises(&self) -> Promises {
        Promises::ENCODER
    }

    fn with_dropout(&self, dropout: Dropout) -> Result<Arc<dyn Model>> {
        Ok(Arc::new(Bert::new(dropped(*self.config(), dropout))?))
    }

    fn config_to_json(&self) -> Result<Value> {
        match is_native(self.config()) {
            true => Ok(native::bert_to_json(self.config())),
            false => import::bert::config_to_json(self.config()),
        }
    }

    fn files(&self, weights: Option<&dyn Weights>) -> Files {
        match is_native(self.config()) {
            true => Files::new(native::imports(Bert::parameters(self))),
            false => import::bert::files(self.config(), weights),
        }
    }

    fn departs(&self) -> Option<String> {
        import::bert::departs(self.config())
    }

    fn for_task(&self, keys: &ModelKeys, needs: &Needs) -> Result<Arc<dyn Model>> {
        keys.none_but(&["pooling", "context"])?;
        let head = match (self.config().head, needs.task) {
            // The head that it has, if nothing else is asked for.
            (BertHead::Classes(own), "classify") if own == needs.classes && !keys.has("pooling") => {
                BertHead::Classes(own)
            }
            (_, "classify" | "masked") => head(keys, needs),
            _ => return Err(refused_task("bert", needs.task)),
        };
        Ok(Arc::new(Bert::new(BertConfig { head, ..dropped(*self.config(), needs.dropout) })?))
    }

    fn as_sentence_encoder(&self) -> Option<&dyn SentenceEncoder> {
        Some(self)
    }
}

impl SentenceEncoder for Bert {
    fn sentence(&self, g: &mut Graph, inputs: &Inputs, pooling: SentencePooling) -> Result<Var> {
        self.sentence_by(g, &text(inputs)?, pooling)
    }

    fn width(&self) -> usize {
        self.config().width
    }
}

fn dropped(config: BertConfig, dropout: Dropout) -> BertConfig {
    let mechanisms = Mechanisms { hidden_dropout: dropout.hidden, ..config.mechanisms };
    let variant = BertVariant { head_dropout: None, ..config.variant };
    let attention_dropout = dropout.attention();
    BertConfig { dropout: dropout.activations, attention_dropout, mechanisms, variant, ..config }
}

/// The head that a task needs.
fn head(keys: &ModelKeys, needs: &Needs) -> BertHead {
    match (needs.task, keys.text("pooling")) {
        ("masked", _) => BertHead::Masked,
        (_, Some("class")) => BertHead::Classes(needs.classes),
        _ => BertHead::MeanClasses(needs.classes),
    }
}

/// Encoders of text.
#[derive(Clone, Copy, Debug)]
pub struct Berts;

impl Family for Berts {
    fn name(&self) -> &str {
        "bert"
    }

    fn about(&self) -> &str {
        "an encoder of text"
    }

    fn forms(&self) -> Vec<Form> {
        let mut forms = import::bert::forms();
        forms.push(Form { model_type: native::BERT, architectures: &[] });
        forms
    }

    fn open(&self, model_type: &str, config: &Value, weights: &dyn Weights) -> Result<Arc<dyn Model>> {
        let mut config = match model_type {
            native::BERT => native::bert_from_json(config)?,
            _ => import::bert::with_labels_of(import::bert::config_from_json(config)?, config, weights)?,
        };
        if model_type != native::BERT
            && config.head == BertHead::Pooler
            && !import::bert::has_pooler(&config, weights)
        {
            config.head = BertHead::None;
        }
        Ok(Arc::new(Bert::new(config)?))
    }

    fn tasks(&self) -> &[&str] {
        &["classify", "masked"]
    }

    fn keys(&self) -> Vec<Key> {
        let own = [PRESET, LAYERS, HEADS, WIDTH, HIDDEN, CONTEXT, VOCABULARY, POOLING, STD];
        with_mechanisms(&own, &["window"])
    }

    fn presets(&self) -> Vec<&str> {
        PRESETS.iter().map(|(name, _)| *name).collect()
    }

    fn make(&self, keys: &ModelKeys, needs: &Needs) -> Result<Arc<dyn Model>> {
        let preset = match keys.text("preset") {
            Some(name) => BertConfig::preset(name)?,
            None => BertConfig { context: 128, ..PRESETS[0].1 },
        };
        let own = Mechanisms::from_keys(keys)?;
        let width = keys.size("width").unwrap_or(preset.width);
        // What BERT's own config has words for is kept there.
        let plain = own.activation.filter(|kind| !kind.is_gated());
        let config = BertConfig {
            layers: keys.size("layers").unwrap_or(preset.layers),
            heads: keys.size("heads").unwrap_or(preset.heads),
            width,
            hidden: keys.size("hidden").unwrap_or(4 * width),
            context: keys.size("context").unwrap_or(preset.context),
            vocabulary: needs.vocabulary,
            activation: plain.unwrap_or(preset.activation),
            epsilon: own.epsilon.unwrap_or(preset.epsilon),
            std: keys.number("std").unwrap_or(preset.std),
            head: head(keys, needs),
            mechanisms: Mechanisms {
                activation: own.activation.filter(|kind| kind.is_gated()),
                epsilon: None,
                ..own
            },
            ..preset
        };
        Ok(Arc::new(Bert::new(dropped(config, needs.dropout))?))
    }
}
