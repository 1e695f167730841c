//! Transformers of 2017: encoder-decoders, in the words of PyTorch's `nn.Transformer`, or in our own where
//! that has none; BART, mBART and Marian in those of transformers.

use super::{CONTEXT, HEADS, HIDDEN, LAYERS, TIED, VOCABULARY, WIDTH, with_mechanisms};
use crate::family::{Dropout, Family, Form, Needs, Weights};
use crate::import::{self, Files, native};
use crate::keys::{Key, ModelKeys};
use crate::model::{Labels, Outputs, Promises, Task};
use crate::{EncoderDecoder, Inputs, Kin, Mechanisms, Model, Reads, Tokens, Transformer, TransformerConfig};
use regard_graph::{Graph, Result, Var};
use regard_layers::Parameters;
use regard_ops::CrossEntropyOptions;
use serde_json::Value;
use std::sync::Arc;

/// The positions of a config that does not say: they are sinusoids, computed to any length.
const SINUSOIDS: usize = 1024;

impl Model for Transformer {
    fn family(&self) -> &str {
        match self.config().descent {
            Some(descent) => import::bart::model_type(descent.kin),
            None if self.config().mechanisms.are_the_family_s() => "transformer",
            None => native::TRANSFORMER,
        }
    }

    fn kind(&self) -> &str {
        "an encoder-decoder"
    }

    fn parameters(&self) -> &Parameters {
        Transformer::parameters(self)
    }

    fn reads(&self) -> Reads {
        let TransformerConfig { source_vocabulary, vocabulary, context, .. } = *self.config();
        Reads::pair(
            Tokens::masked(source_vocabulary, Some(context)),
            Tokens::causal(vocabulary, Some(context)),
        )
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
        Transformer::loss(self, g, tokens, inputs.source_mask, scale, options)
    }

    fn promises(&self) -> Promises {
        // Distances are the same wherever a text stands; places in a table are not.
        Promises { anywhere: !self.config().positions().end(), ..Promises::ENCODER_DECODER }
    }

    fn with_dropout(&self, dropout: Dropout) -> Result<Arc<dyn Model>> {
        let config = *self.config();
        let mechanisms = config.mechanisms.with_dropout(dropout);
        let config = TransformerConfig { dropout: dropout.activations, mechanisms, ..config };
        Ok(Arc::new(Transformer::new(config)?))
    }

    fn config_to_json(&self) -> Result<Value> {
        if let Some(descent) = &self.config().descent {
            return Ok(import::bart::config_to_json(self.config(), descent));
        }
        if !self.config().mechanisms.are_the_family_s() {
            return Ok(native::transformer_to_json(self.config()));
        }
        let mut config = import::transformer::config_to_json(self.config());
        config["context"] = self.config().context.into();
        Ok(config)
    }

    fn files(&self, weights: Option<&dyn Weights>) -> Files {
        if let Some(descent) = self.config().descent {
            return Files {
                imports: import::bart::imports(self, descent.kin, weights),
                ignored: match descent.kin {
                    Kin::Marian => &import::bart::IGNORED,
                    Kin::Bart | Kin::MBart => &import::bart::IGNORED[4..],
                },
                copies: &import::bart::COPIES,
                unread: Vec::new(),
            };
        }
        Files::new(match self.config().mechanisms.are_the_family_s() {
            true => import::transformer::imports(self),
            false => native::imports(Transformer::parameters(self)),
        })
    }

    fn as_encoder_decoder(&self) -> Option<&dyn EncoderDecoder> {
        Some(self)
    }
}

/// The encoder-decoders of 2017.
#[derive(Clone, Copy, Debug)]
pub struct Transformers;

impl Family for Transformers {
    fn name(&self) -> &str {
        "transformer"
    }

    fn about(&self) -> &str {
        "the encoder-decoder of 2017, and BART, mBART and Marian"
    }

    fn forms(&self) -> Vec<Form> {
        let own = [
            Form { model_type: "transformer", architectures: &["Transformer"] },
            Form { model_type: native::TRANSFORMER, architectures: &[] },
        ];
        let descendants =
            import::bart::KIN.map(|(model_type, _, architectures)| Form { model_type, architectures });
        own.into_iter().chain(descendants).collect()
    }

    fn open(&self, model_type: &str, config: &Value, weights: &dyn Weights) -> Result<Arc<dyn Model>> {
        let config = match model_type {
            native::TRANSFORMER => native::transformer_from_json(config)?,
            "bart" | "mbart" | "marian" => {
                let mut config = import::bart::config_from_json(config)?;
                // Files without a bias of scores, such as those of a bare model, mean zeros.
                if let (Some(descent), Some(_)) = (&mut config.descent, weights.count()) {
                    descent.logits_bias = weights.has("final_logits_bias");
                }
                config
            }
            _ => {
                let context = config["context"].as_u64().map_or(SINUSOIDS, |most| most as usize);
                import::transformer::config_from_json(config, context)?
            }
        };
        Ok(Arc::new(Transformer::new(config)?))
    }

    fn tasks(&self) -> &[&str] {
        &["translate"]
    }

    fn keys(&self) -> Vec<Key> {
        with_mechanisms(&[LAYERS, HEADS, WIDTH, HIDDEN, CONTEXT, VOCABULARY, TIED], &["window"])
    }

    fn make(&self, keys: &ModelKeys, needs: &Needs) -> Result<Arc<dyn Model>> {
        let width = keys.size("width").unwrap_or(256);
        let layers = keys.size("layers").unwrap_or(3);
        let config = TransformerConfig {
            width,
            heads: keys.size("heads").unwrap_or(4),
            hidden: keys.size("hidden").unwrap_or(4 * width),
            encoder_layers: layers,
            decoder_layers: layers,
            context: keys.size("context").unwrap_or(needs.longest),
            shared: keys.truth("tied").unwrap_or(true),
            dropout: needs.dropout.activations,
            mechanisms: Mechanisms::from_keys(keys)?.with_dropout(needs.dropout),
            ..TransformerConfig::base(needs.vocabulary)
        };
        Ok(Arc::new(Transformer::new(config)?))
    }
}
