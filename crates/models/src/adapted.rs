//! A model with low-rank adapters on some of its linear layers: the same model of its family, whose weights
//! stay as they are while the adapters learn. No family knows of it: adapters hang on the weights.

use crate::family::{Dropout, Needs, Weights};
use crate::import::Files;
use crate::inputs::{Inputs, Reads};
use crate::keys::ModelKeys;
use crate::model::{Model, Outputs, Promises, SentenceEncoder, Task};
use crate::{Decoder, EncoderDecoder};
use regard_graph::{Error, Graph, Result, Var};
use regard_layers::{AdapterConfig, Parameters};
use regard_ops::CrossEntropyOptions;
use serde_json::Value;
use std::sync::Arc;

/// Which weights are adapted, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Adaptation {
    /// r.
    pub rank: usize,
    /// What the adapters' part is multiplied by, times the rank, or its root.
    pub alpha: f32,
    /// Whether alpha is divided by the root of the rank instead of the rank.
    pub by_root: bool,
    /// Dropout of what adapters read.
    pub dropout: f32,
    /// The weights, by their names.
    pub weights: Vec<String>,
}

impl Adaptation {
    /// What the adapters' part is multiplied by.
    pub fn scale(&self) -> f32 {
        let rank = self.rank.max(1) as f32;
        self.alpha / if self.by_root { rank.sqrt() } else { rank }
    }

    /// The weights of linear layers that patterns name: a pattern fits a layer whose dotted name ends with it
    /// (`attention.query`), with `*` for anything. Each has to fit one at least.
    pub fn weights_of(parameters: &Parameters, patterns: &[String]) -> Result<Vec<String>> {
        let layers: Vec<&str> =
            parameters.linear_weights().map(|name| name.strip_suffix(".weight").unwrap_or(name)).collect();
        let mut found = vec![false; layers.len()];
        for pattern in patterns {
            let mut any = false;
            for (layer, found) in layers.iter().zip(&mut found) {
                if fits(pattern, layer) {
                    (*found, any) = (true, true);
                }
            }
            if !any {
                return Err(Error::unknown("linear layer", pattern, layers.iter().copied()));
            }
        }
        let chosen = layers.iter().zip(found).filter(|(_, found)| *found);
        Ok(chosen.map(|(layer, _)| format!("{layer}.weight")).collect())
    }

    /// What is adapted where a recipe does not say: queries and values of all attention, as LoRA's authors
    /// did.
    pub fn usual(parameters: &Parameters) -> Result<Vec<String>> {
        Adaptation::weights_of(parameters, &["attention.query".into(), "attention.value".into()])
    }
}

/// Whether a layer's dotted name, or the end of it, fits a pattern.
fn fits(pattern: &str, layer: &str) -> bool {
    let mut parts = pattern.split('*');
    let last = parts.next_back().unwrap_or_default();
    let Some(mut rest) = layer.strip_suffix(last) else { return false };
    let is_whole = |rest: &str| rest.is_empty() || rest.ends_with('.');
    if !pattern.contains('*') {
        return is_whole(rest);
    }
    let parts: Vec<&str> = parts.collect();
    for (at, part) in parts.iter().enumerate().rev() {
        let Some(place) = rest.rfind(part) else { return false };
        rest = &rest[..place];
        if at == 0 && !part.is_empty() && !is_whole(rest) {
            return false;
        }
    }
    true
}

/// A model with adapters.
#[derive(Debug)]
pub struct Adapted {
    inner: Arc<dyn Model>,
    parameters: Parameters,
    adaptation: Adaptation,
}

impl Adapted {
    /// The same model with adapters, which read with their own dropout.
    pub fn new(model: &dyn Model, dropout: Dropout, adaptation: Adaptation) -> Result<Adapted> {
        // A copy of its own: adapters change the layers that own the weights.
        let inner = model.with_dropout(dropout)?;
        let config =
            AdapterConfig { rank: adaptation.rank, scale: adaptation.scale(), dropout: adaptation.dropout };
        let parameters = inner.parameters().adapted(&adaptation.weights, config)?;
        Ok(Adapted { inner, parameters, adaptation })
    }
}

impl Model for Adapted {
    fn family(&self) -> &str {
        self.inner.family()
    }

    fn kind(&self) -> &str {
        self.inner.kind()
    }

    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn reads(&self) -> Reads {
        self.inner.reads()
    }

    fn pass(&self, g: &mut Graph, inputs: &Inputs) -> Result<Outputs> {
        self.inner.pass(g, inputs)
    }

    fn task(&self) -> Option<Task> {
        self.inner.task()
    }

    fn loss(
        &self,
        g: &mut Graph,
        inputs: &Inputs,
        labels: Var,
        scale: Var,
        options: CrossEntropyOptions,
    ) -> Result<Var> {
        self.inner.loss(g, inputs, labels, scale, options)
    }

    fn promises(&self) -> Promises {
        self.inner.promises()
    }

    fn with_dropout(&self, dropout: Dropout) -> Result<Arc<dyn Model>> {
        let own = if dropout == Dropout::NONE { 0.0 } else { self.adaptation.dropout };
        let adaptation = Adaptation { dropout: own, ..self.adaptation.clone() };
        Ok(Arc::new(Adapted::new(&*self.inner, dropout, adaptation)?))
    }

    fn config_to_json(&self) -> Result<Value> {
        self.inner.config_to_json()
    }

    /// Where the weights of the model itself stand; adapters have a file of their own.
    fn files(&self, weights: Option<&dyn Weights>) -> Files {
        self.inner.files(weights)
    }

    fn for_task(&self, keys: &ModelKeys, needs: &Needs) -> Result<Arc<dyn Model>> {
        let inner = self.inner.for_task(keys, needs)?;
        Ok(Arc::new(Adapted::new(&*inner, needs.dropout, self.adaptation.clone())?))
    }

    fn as_decoder(&self) -> Option<&dyn Decoder> {
        self.inner.as_decoder()
    }

    fn as_encoder_decoder(&self) -> Option<&dyn EncoderDecoder> {
        self.inner.as_encoder_decoder()
    }

    fn as_sentence_encoder(&self) -> Option<&dyn SentenceEncoder> {
        self.inner.as_sentence_encoder()
    }

    fn adaptation(&self) -> Option<&Adaptation> {
        Some(&self.adaptation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Gpt, GptConfig};

    fn gpt() -> Gpt {
        Gpt::new(GptConfig { layers: 2, heads: 2, width: 8, vocabulary: 5, context: 4, ..GptConfig::SMALL })
            .unwrap()
    }

    fn adaptation(rank: usize, weights: &[&str]) -> Adaptation {
        let weights = weights.iter().map(ToString::to_string).collect();
        Adaptation { rank, alpha: 8.0, by_root: false, dropout: 0.0, weights }
    }

    #[test]
    fn patterns_fit_the_ends_of_names() {
        for (pattern, layer, expected) in [
            ("attention.query", "block.0.attention.query", true),
            ("query", "block.0.attention.query", true),
            ("uery", "block.0.attention.query", false),
            ("attention.*", "block.0.attention.query", true),
            ("attention.*", "block.0.cross_attention.query", false),
            ("block.1.*", "block.1.attention.query", true),
            ("block.1.*", "block.11.attention.query", false),
            ("*", "head", true),
            ("*.query", "block.0.attention.query", true),
            ("", "head", false),
        ] {
            assert_eq!(fits(pattern, layer), expected, "{pattern} {layer}");
        }
    }

    #[test]
    fn adapters_are_declared_beside_what_they_adapt() {
        let gpt = gpt();
        let weights = Adaptation::usual(gpt.parameters()).unwrap();
        assert_eq!(weights[0], "block.0.attention.query.weight");
        assert_eq!(weights.len(), 4);
        let adapted =
            Adapted::new(&gpt, Dropout::NONE, Adaptation { weights, ..adaptation(2, &[]) }).unwrap();
        let names: Vec<&str> = adapted.parameters().declared().map(|own| own.name.as_str()).collect();
        assert_eq!(names.len(), gpt.parameters().declared().count() + 8);
        assert!(names.contains(&"block.1.attention.value.adapter.up"), "{names:?}");
        assert_eq!(adaptation(4, &[]).scale(), 2.0);
        assert_eq!(Adaptation { by_root: true, ..adaptation(4, &[]) }.scale(), 4.0);
        // The model itself stays as it was.
        assert!(gpt.adaptation().is_none());
        assert!((&adapted as &dyn Model).without_dropout().is_ok());
    }

    #[test]
    fn what_cannot_be_adapted_is_refused() {
        let gpt = gpt();
        let message =
            Adaptation::weights_of(gpt.parameters(), &["attention.qery".into()]).unwrap_err().to_string();
        assert!(message.contains("no linear layer is called `attention.qery`"), "{message}");
        let message = Adaptation::usual(&Parameters::new()).unwrap_err().to_string();
        assert!(message.contains("no linear layer is called `attention.query`"), "{message}");
        let message = Adapted::new(&gpt, Dropout::NONE, adaptation(0, &["block.0.attention.query.weight"]))
            .unwrap_err()
            .to_string();
        assert_eq!(
            message,
            "adapter: a rank of 0, a scale of 8 and a dropout of 0; give a rank of at least 1, a finite scale and a dropout \
             from 0 to below 1"
        );
        let message = Adapted::new(&gpt, Dropout::NONE, adaptation(2, &["token_embedding.weight"]))
            .unwrap_err()
            .to_string();
        assert!(message.contains("is not the weight of a linear layer"), "{message}");
    }
}
