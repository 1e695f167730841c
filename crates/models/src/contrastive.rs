//! An encoder that learns by comparison: of two texts that belong together, each batch shows many pairs, and
//! the vector of the first is to be nearest to that of its own second among all seconds (InfoNCE,
//! arXiv:1807.03748; in-batch negatives). It reads the first texts as `ids` and the second as `source`.

use crate::family::{Dropout, Weights};
use crate::import::Files;
use crate::inputs::{Inputs, Reads};
use crate::model::{Labels, Model, Outputs, Promises, SentenceEncoder, SentencePooling, Task};
use regard_graph::{DType, Error, Graph, Result, Var};
use regard_layers::Parameters;
use regard_ops::prelude::*;
use regard_ops::{CrossEntropyOptions, MatmulOptions};
use serde_json::Value;
use std::sync::Arc;

/// An encoder of texts with the loss of comparison.
#[derive(Debug)]
pub struct Contrastive {
    inner: Arc<dyn Model>,
    pooling: SentencePooling,
    temperature: f32,
}

impl Contrastive {
    /// The model has to make vectors of texts. Cosines are divided by the temperature.
    pub fn new(inner: Arc<dyn Model>, pooling: SentencePooling, temperature: f32) -> Result<Contrastive> {
        if inner.as_sentence_encoder().is_none() || inner.reads().source.is_some() {
            return Err(Error::invalid(
                inner.family(),
                format!("{} does not make vectors of texts", inner.kind()),
                "start from an encoder of text, such as BERT",
            ));
        }
        if !(temperature.is_finite() && temperature > 0.0) {
            return Err(Error::invalid(
                "contrastive",
                format!("a temperature of {temperature}"),
                "give a number above 0, such as 0.05",
            ));
        }
        Ok(Contrastive { inner, pooling, temperature })
    }

    /// The encoder itself.
    pub fn inner(&self) -> &Arc<dyn Model> {
        &self.inner
    }

    /// How it makes one vector of a text.
    pub fn pooling(&self) -> SentencePooling {
        self.pooling
    }

    fn sentence(&self, g: &mut Graph, inputs: &Inputs) -> Result<Var> {
        match self.inner.as_sentence_encoder() {
            Some(encoder) => encoder.sentence(g, inputs, self.pooling),
            None => unreachable!("a model without vectors is refused when this is made"),
        }
    }
}

impl Model for Contrastive {
    fn family(&self) -> &str {
        self.inner.family()
    }

    fn kind(&self) -> &str {
        self.inner.kind()
    }

    fn parameters(&self) -> &Parameters {
        self.inner.parameters()
    }

    fn reads(&self) -> Reads {
        let own = self.inner.reads();
        Reads { source: own.ids, ..own }
    }

    /// The vectors of the first texts.
    fn pass(&self, g: &mut Graph, inputs: &Inputs) -> Result<Outputs> {
        let own = Inputs { source: None, source_mask: None, ..*inputs };
        Ok(vec![("sentence", self.sentence(g, &own)?)])
    }

    fn task(&self) -> Option<Task> {
        Some(Task { name: "contrast", labels: Labels::Example, choices: 0 })
    }

    /// The label of each pair is its own place in the batch.
    fn loss(
        &self,
        g: &mut Graph,
        inputs: &Inputs,
        labels: Var,
        scale: Var,
        options: CrossEntropyOptions,
    ) -> Result<Var> {
        let first = Inputs { source: None, source_mask: None, ..*inputs };
        let second = Inputs { ids: inputs.source, mask: inputs.source_mask, ..Inputs::default() };
        let first = self.sentence(g, &first)?; // B T -> B C
        // The same parts once more, under names of their own.
        let second = g.scope("second", |g| self.sentence(g, &second))?; // B S -> B C
        let compared = MatmulOptions {
            transpose_b: true,
            scale: 1.0 / self.temperature,
            output: Some(DType::F32),
            ..Default::default()
        };
        let scores = g.matmul(first, second, compared)?; // B C, B C -> B B
        let losses = g.cross_entropy(scores, labels, options)?;
        let sum = g.sum(losses, &[0])?;
        g.mul(sum, scale)
    }

    fn promises(&self) -> Promises {
        self.inner.promises()
    }

    fn with_dropout(&self, dropout: Dropout) -> Result<Arc<dyn Model>> {
        let inner = self.inner.with_dropout(dropout)?;
        Ok(Arc::new(Contrastive::new(inner, self.pooling, self.temperature)?))
    }

    fn config_to_json(&self) -> Result<Value> {
        self.inner.config_to_json()
    }

    fn files(&self, weights: Option<&dyn Weights>) -> Files {
        self.inner.files(weights)
    }

    fn as_sentence_encoder(&self) -> Option<&dyn SentenceEncoder> {
        self.inner.as_sentence_encoder()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bert, BertConfig, BertHead, Gpt, GptConfig, bert};

    #[test]
    fn what_makes_no_vectors_is_refused() {
        let gpt =
            Gpt::new(GptConfig { layers: 1, heads: 2, width: 8, vocabulary: 5, ..GptConfig::SMALL }).unwrap();
        let message = Contrastive::new(Arc::new(gpt), SentencePooling::Mean, 0.05).unwrap_err().to_string();
        assert!(
            message.ends_with("does not make vectors of texts; start from an encoder of text, such as BERT"),
            "{message}"
        );
        let head = BertHead::Masked;
        let small = BertConfig {
            layers: 1,
            heads: 2,
            width: 8,
            hidden: 8,
            vocabulary: 7,
            head,
            ..bert::PRESETS[0].1
        };
        let bert = Arc::new(Bert::new(small).unwrap());
        assert_eq!(
            Contrastive::new(bert, SentencePooling::Mean, 0.0).unwrap_err().to_string(),
            "contrastive: a temperature of 0; give a number above 0, such as 0.05"
        );
    }
}
