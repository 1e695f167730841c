//! T5s: encoder-decoders that tell distances, in transformers' form, or in our own where that has no words
//! for them; and their encoders alone.

use super::{HEADS, HIDDEN, LAYERS, TIED, VOCABULARY, WIDTH, with_mechanisms};
use crate::family::{Dropout, Family, Form, Needs, Weights};
use crate::import::{self, Files, native};
use crate::keys::{Key, ModelKeys};
use crate::model::{Labels, Outputs, Promises, SentenceEncoder, SentencePooling, Task, no_loss};
use crate::{EncoderDecoder, Inputs, Mechanisms, Model, Positions, Reads, T5, T5Config, T5Encoder, Tokens};
use regard_graph::{Graph, Result, Var};
use regard_layers::{FeedForwardKind, Parameters};
use regard_ops::CrossEntropyOptions;
use serde_json::Value;
use std::sync::Arc;

impl Model for T5 {
    fn family(&self) -> &str {
        if self.config().mechanisms.are_the_family_s() { "t5" } else { native::T5 }
    }

    fn kind(&self) -> &str {
        "an encoder-decoder"
    }

    fn parameters(&self) -> &Parameters {
        T5::parameters(self)
    }

    fn reads(&self) -> Reads {
        let vocabulary = self.config().vocabulary;
        Reads::pair(Tokens::masked(vocabulary, None), Tokens::causal(vocabulary, None))
    }

    fn pass(&self, g: &mut Graph, inputs: &Inputs) -> Result<Outputs> {
        let (source, mask, ids) = (inputs.source()?, inputs.source_mask, inputs.ids()?);
        let memory = self.encode(g, source, mask)?;
        let hidden = self.hidden(g, memory, mask, ids)?;
        let logits = self.scores(g, hidden)?;
        Ok(vec![("logits", logits), ("hidden", hidden), ("memory", memory)])
    }

    fn task(&self) -> Option<Task> {
        Some(Task { name: "translate", labels: Labels::Next, choices: self.config().vocabulary })
    }

    fn loss(
        &self,
        g: &mut Graph,
        inputs: &Inputs,
        labels: Var,
        scale: Var,
        options: CrossEntropyOptions,
    ) -> Result<Var> {
        let tokens = [inputs.source()?, inputs.ids()?, labels];
        self.loss_with(g, tokens, inputs.source_mask, scale, options)
    }

    fn promises(&self) -> Promises {
        Promises { anywhere: true, ..Promises::ENCODER_DECODER }
    }

    fn with_dropout(&self, dropout: Dropout) -> Result<Arc<dyn Model>> {
        let config = *self.config();
        let mechanisms = config.mechanisms.with_dropout(dropout);
        Ok(Arc::new(T5::new(T5Config { dropout: dropout.activations, mechanisms, ..config })?))
    }

    fn config_to_json(&self) -> Result<Value> {
        Ok(match self.config().mechanisms.are_the_family_s() {
            true => import::t5::config_to_json(self.config()),
            false => native::t5_to_json(self.config()),
        })
    }

    fn files(&self, _: Option<&dyn Weights>) -> Files {
        match self.config().mechanisms.are_the_family_s() {
            true => Files {
                copies: &[
                    ("encoder.embed_tokens.weight", "shared.weight"),
                    ("decoder.embed_tokens.weight", "shared.weight"),
                    ("lm_head.weight", "shared.weight"),
                ],
                ..Files::new(import::t5::imports(self))
            },
            false => Files::new(native::imports(T5::parameters(self))),
        }
    }

    fn as_encoder_decoder(&self) -> Option<&dyn EncoderDecoder> {
        Some(self)
    }
}

impl Model for T5Encoder {
    fn family(&self) -> &str {
        "t5"
    }

    fn kind(&self) -> &str {
        "an encoder of text"
    }

    fn parameters(&self) -> &Parameters {
        T5Encoder::parameters(self)
    }

    fn reads(&self) -> Reads {
        Reads::text(Tokens::masked(self.config().vocabulary, None))
    }

    fn pass(&self, g: &mut Graph, inputs: &Inputs) -> Result<Outputs> {
        Ok(vec![("hidden", self.hidden(g, inputs.ids()?, inputs.mask)?)])
    }

    fn task(&self) -> Option<Task> {
        None
    }

    fn loss(&self, _: &mut Graph, _: &Inputs, _: Var, _: Var, _: CrossEntropyOptions) -> Result<Var> {
        Err(no_loss("t5", "None", "train an encoder-decoder"))
    }

    fn promises(&self) -> Promises {
        Promises { anywhere: true, ..Promises::ENCODER }
    }

    fn with_dropout(&self, dropout: Dropout) -> Result<Arc<dyn Model>> {
        let config = *self.config();
        let mechanisms = config.mechanisms.with_dropout(dropout);
        Ok(Arc::new(T5Encoder::new(T5Config { dropout: dropout.activations, mechanisms, ..config })?))
    }

    fn config_to_json(&self) -> Result<Value> {
        Ok(import::t5::encoder_config_to_json(self.config()))
    }

    fn files(&self, _: Option<&dyn Weights>) -> Files {
        Files {
            copies: &[("encoder.embed_tokens.weight", "shared.weight")],
            ..Files::new(import::t5::encoder_imports(self.config()))
        }
    }

    fn as_sentence_encoder(&self) -> Option<&dyn SentenceEncoder> {
        Some(self)
    }
}

impl SentenceEncoder for T5Encoder {
    fn sentence(&self, g: &mut Graph, inputs: &Inputs, pooling: SentencePooling) -> Result<Var> {
        T5Encoder::sentence(self, g, inputs.ids()?, inputs.mask, pooling)
    }

    fn width(&self) -> usize {
        self.config().width
    }
}

/// Encoder-decoders with relative positions.
#[derive(Clone, Copy, Debug)]
pub struct T5s;

impl Family for T5s {
    fn name(&self) -> &str {
        "t5"
    }

    fn about(&self) -> &str {
        "an encoder-decoder with relative positions"
    }

    fn forms(&self) -> Vec<Form> {
        vec![
            Form {
                model_type: "t5",
                architectures: &["T5ForConditionalGeneration", "T5WithLMHeadModel", "T5EncoderModel"],
            },
            Form { model_type: "mt5", architectures: &["MT5ForConditionalGeneration", "MT5EncoderModel"] },
            Form { model_type: "umt5", architectures: &["UMT5ForConditionalGeneration", "UMT5EncoderModel"] },
            Form { model_type: native::T5, architectures: &[] },
        ]
    }

    fn open(&self, model_type: &str, config: &Value, weights: &dyn Weights) -> Result<Arc<dyn Model>> {
        if model_type == native::T5 {
            return Ok(Arc::new(T5::new(native::t5_from_json(config)?)?));
        }
        let encoder = config["architectures"][0].as_str().is_some_and(|name| name.ends_with("EncoderModel"));
        let config = import::t5::config_from_json(config)?;
        if encoder {
            return Ok(Arc::new(T5Encoder::new(config)?));
        }
        // Older files hold the tied matrix once more under the head's name.
        let own = match weights.same("lm_head.weight", "shared.weight") {
            Some(same) => !same,
            // Where there are no files of its own form, what the config says.
            None if !weights.has("shared.weight") && !weights.has("lm_head.weight") => !config.tied,
            None => weights.has("lm_head.weight"),
        };
        Ok(Arc::new(T5::new(T5Config { tied: !own, ..config })?))
    }

    fn tasks(&self) -> &[&str] {
        &["translate"]
    }

    fn keys(&self) -> Vec<Key> {
        with_mechanisms(&[LAYERS, HEADS, WIDTH, HIDDEN, VOCABULARY, TIED], &["window"])
    }

    fn make(&self, keys: &ModelKeys, needs: &Needs) -> Result<Arc<dyn Model>> {
        let plain = T5Config::small();
        let own = Mechanisms::from_keys(keys)?;
        let width = keys.size("width").unwrap_or(256);
        let heads = keys.size("heads").unwrap_or(4);
        let layers = keys.size("layers").unwrap_or(3);
        let tied = keys.truth("tied").unwrap_or(true);
        // What T5's own config has words for is kept there.
        let (buckets, max_distance, positions) = match own.positions {
            Some(Positions::Buckets { buckets, max_distance }) => (buckets, max_distance, None),
            other => (plain.buckets, plain.max_distance, other),
        };
        let activation =
            own.activation.filter(|kind| !matches!(kind, FeedForwardKind::Relu | FeedForwardKind::GatedGelu));
        let config = T5Config {
            vocabulary: needs.vocabulary,
            width,
            heads,
            head_width: own.head_width.unwrap_or(width.checked_div(heads).unwrap_or(0)),
            hidden: keys.size("hidden").unwrap_or(4 * width),
            encoder_layers: layers,
            decoder_layers: layers,
            buckets,
            max_distance,
            gated: own.activation == Some(FeedForwardKind::GatedGelu),
            tied,
            scaled: tied,
            multilingual: false,
            own_tables: false,
            epsilon: own.epsilon.unwrap_or(plain.epsilon),
            dropout: needs.dropout.activations,
            mechanisms: Mechanisms { positions, activation, head_width: None, epsilon: None, ..own }
                .with_dropout(needs.dropout),
        };
        Ok(Arc::new(T5::new(config)?))
    }
}
