//! The encoder of a T5 by itself, as `T5EncoderModel` keeps it: texts to hidden states, and to vectors that
//! can be compared. Letters: B batch, T positions, C width.

use crate::model::SentencePooling;
use crate::t5::{T5Config, encode};
use regard_graph::{Dim, Error, Graph, Result, Var};
use regard_layers::{EmbeddingConfig, EmbeddingLayer, Parameters, Stack};
use regard_ops::NormSpec;
use regard_ops::prelude::*;

/// The encoder of a T5. What its settings say of a decoder and of a head does not count. All methods record.
/// Parameters: `token_embedding`, `encoder`.
#[derive(Clone, Debug)]
pub struct T5Encoder {
    config: T5Config,
    parameters: Parameters,
    embedding: EmbeddingLayer,
    encoder: Stack,
}

impl T5Encoder {
    /// A model of these sizes, if they make sense.
    pub fn new(config: T5Config) -> Result<Self> {
        config.check()?;
        if !config.mechanisms.are_the_family_s() {
            return Err(Error::invalid(
                "t5",
                "an encoder by itself with mechanisms that T5 does not have",
                "make an encoder-decoder of them",
            ));
        }
        let mut parameters = Parameters::new();
        let p = &mut parameters;
        let table = EmbeddingConfig { tokens: config.vocabulary, width: config.width, std: 1.0 };
        let embedding = p.under("token_embedding", |p| EmbeddingLayer::new(table, p))?;
        let encoder = p.under("encoder", |p| config.declare(false, p))?;
        Ok(T5Encoder { config, parameters, embedding, encoder })
    }

    /// Its sizes.
    pub fn config(&self) -> &T5Config {
        &self.config
    }

    /// What it learns.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The hidden states after the last norm: B T -> B T C. `mask` is bool [B T], true where there is a
    /// token.
    pub fn hidden(&self, g: &mut Graph, ids: Var, mask: Option<Var>) -> Result<Var> {
        encode(g, (&self.embedding, &self.encoder), ids, mask, self.config.dropout)
    }

    /// A vector of length 1 for each text: B T -> B C.
    pub(crate) fn sentence(
        &self,
        g: &mut Graph,
        ids: Var,
        mask: Option<Var>,
        pooling: SentencePooling,
    ) -> Result<Var> {
        let x = self.hidden(g, ids, mask)?;
        g.scope("sentence", |g| {
            let [b, t, c] = g.dims(x, "B T C")?;
            let one = match (pooling, mask) {
                (SentencePooling::First, _) => {
                    let first = g.slice(x, 1, 0, 1)?;
                    g.reshape(first, shape![b, c])?
                }
                (SentencePooling::Mean, None) => g.mean(x, &[1])?,
                (SentencePooling::Mean, Some(mask)) => {
                    let mask = g.reshape(mask, shape![&b, &t, Dim::from(1)])?;
                    // Chosen, not multiplied: whatever stands at padding stays out.
                    let x = g.cast(x, DType::F32)?;
                    let nothing = g.fill(DType::F32, shape![c], 0.0)?;
                    let kept = g.select(mask, x, nothing)?;
                    let sum = g.sum(kept, &[1])?; // B C
                    let counted = g.cast(mask, DType::F32)?;
                    let count = g.sum(counted, &[1])?; // B 1
                    let count = g.shift(count, 1e-9)?; // changes no count but 0
                    g.div(sum, count)?
                }
            };
            // x / √(mean x² + ε), then over √C: at length 1, and 0 for 0.
            let unit = g.rms_norm(one, None, NormSpec { epsilon: 1e-24, output: Some(DType::F32) })?;
            g.scale(unit, 1.0 / (self.config.width as f32).sqrt())
        })
    }
}
