//! Perceivers: decoders with latents. They keep nothing from run to run, and their files are our own.

use super::{CONTEXT, HEADS, LAYERS, VOCABULARY, WIDTH, with_mechanisms};
use crate::family::{Dropout, Family, Form, Needs, Weights};
use crate::import::native;
use crate::keys::{Expected, Key, ModelKeys};
use crate::mechanisms::names;
use crate::model::{Labels, Outputs, Promises, Task};
use crate::{
    Decoder, Inputs, Mechanisms, Model, Perceiver, PerceiverConfig, PerceiverMasking, Reads, Tokens,
};
use regard_graph::{Graph, Result, Var};
use regard_layers::Parameters;
use regard_ops::CrossEntropyOptions;
use serde_json::Value;
use std::sync::Arc;

impl Model for Perceiver {
    fn family(&self) -> &str {
        native::PERCEIVER
    }

    fn kind(&self) -> &str {
        "a decoder"
    }

    fn parameters(&self) -> &Parameters {
        Perceiver::parameters(self)
    }

    fn reads(&self) -> Reads {
        Reads::text(Tokens::causal(self.config().vocabulary, Some(self.config().context)))
    }

    fn pass(&self, g: &mut Graph, inputs: &Inputs) -> Result<Outputs> {
        let hidden = self.hidden(g, inputs.ids()?)?;
        let logits = self.scores(g, hidden)?;
        Ok(vec![("logits", logits), ("hidden", hidden)])
    }

    fn task(&self) -> Option<Task> {
        Some(Task { name: "language", labels: Labels::Next, choices: self.config().vocabulary })
    }

    fn loss(
        &self,
        g: &mut Graph,
        inputs: &Inputs,
        labels: Var,
        scale: Var,
        options: CrossEntropyOptions,
    ) -> Result<Var> {
        self.loss_with(g, inputs.ids()?, labels, scale, options)
    }

    fn promises(&self) -> Promises {
        // Latents that are open to all tokens see what comes later, and padding, for which there is no mask.
        let kept = self.config().masking != PerceiverMasking::Open;
        Promises { causal: kept, padding: kept, ..Promises::DECODER }
    }

    fn with_dropout(&self, dropout: Dropout) -> Result<Arc<dyn Model>> {
        let config = *self.config();
        let mechanisms = config.mechanisms.with_dropout(dropout);
        Ok(Arc::new(Perceiver::new(PerceiverConfig { dropout: dropout.activations, mechanisms, ..config })?))
    }

    fn config_to_json(&self) -> Result<Value> {
        Ok(native::perceiver_to_json(self.config()))
    }

    fn as_decoder(&self) -> Option<&dyn Decoder> {
        // With open masks a token sees what follows it.
        (self.config().masking != PerceiverMasking::Open).then_some(self)
    }
}

/// Decoders with latents.
#[derive(Clone, Copy, Debug)]
pub struct Perceivers;

const MASKINGS: [&str; 5] = names(&native::MASKINGS);

impl Family for Perceivers {
    fn name(&self) -> &str {
        "perceiver"
    }

    fn about(&self) -> &str {
        "a decoder with latents"
    }

    fn forms(&self) -> Vec<Form> {
        vec![Form { model_type: native::PERCEIVER, architectures: &[] }]
    }

    fn open(&self, _: &str, config: &Value, _: &dyn Weights) -> Result<Arc<dyn Model>> {
        Ok(Arc::new(Perceiver::new(native::perceiver_from_json(config)?)?))
    }

    fn tasks(&self) -> &[&str] {
        &["language"]
    }

    fn keys(&self) -> Vec<Key> {
        let latents = Key::new("latents", Expected::Size, "how many latents there are");
        let masking = Key::new("masking", Expected::Word(&MASKINGS), "who sees whom");
        with_mechanisms(&[LAYERS, HEADS, WIDTH, latents, CONTEXT, VOCABULARY, masking], &[])
    }

    fn make(&self, keys: &ModelKeys, needs: &Needs) -> Result<Arc<dyn Model>> {
        let usual = PerceiverConfig::new(needs.vocabulary);
        Ok(Arc::new(Perceiver::new(PerceiverConfig {
            layers: keys.size("layers").unwrap_or(usual.layers),
            heads: keys.size("heads").unwrap_or(usual.heads),
            width: keys.size("width").unwrap_or(usual.width),
            latents: keys.size("latents").unwrap_or(usual.latents),
            context: keys.size("context").unwrap_or(usual.context),
            vocabulary: needs.vocabulary,
            masking: keys.word("masking", &native::MASKINGS)?.unwrap_or(usual.masking),
            dropout: needs.dropout.activations,
            mechanisms: Mechanisms::from_keys(keys)?.with_dropout(needs.dropout),
        })?))
    }
}
