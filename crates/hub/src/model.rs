//! A model of any family, chosen by its `config.json`: the one place that knows all of them by name.

use regard_data::Checkpoint;
use regard_graph::{Error, Result};
use regard_layers::Parameters;
use regard_models::import::{self, Import, Map, native};
use regard_models::{
    Bert, BertConfig, BertHead, EncoderDecoder, Gpt, GptConfig, Perceiver, PerceiverConfig, T5, T5Config,
    Transformer, TransformerConfig, Vit, VitConfig,
};
use serde_json::Value;

/// The families that can be opened: `model_type`, and the `architectures` that belong to it.
pub const FAMILIES: [(&str, &[&str]); 11] = [
    (
        "bert",
        &["BertModel", "BertForMaskedLM", "BertForSequenceClassification", "BertForTokenClassification"],
    ),
    ("gpt2", &["GPT2LMHeadModel", "GPT2Model"]),
    ("llama", &["LlamaForCausalLM"]),
    ("mingpt", &["GPT"]),
    ("mt5", &["MT5ForConditionalGeneration"]),
    (native::BERT, &[]),
    (native::GPT, &[]),
    (native::PERCEIVER, &[]),
    ("t5", &["T5ForConditionalGeneration", "T5WithLMHeadModel"]),
    ("transformer", &["Transformer"]),
    ("vit", &["ViTModel", "ViTForImageClassification"]),
];

/// The positions of a 2017 Transformer whose config does not say: they are sinusoids, computed to any length.
const SINUSOIDS: usize = 1024;

/// A model of some family.
#[derive(Clone, Debug)]
pub enum AnyModel {
    /// A decoder: GPT-2, minGPT or Llama.
    Gpt(Gpt, GptForm),
    /// A decoder with latents.
    Perceiver(Box<Perceiver>),
    /// An encoder of text.
    Bert(Bert),
    /// An encoder of images.
    Vit(Vit),
    /// An encoder-decoder with relative positions.
    T5(T5),
    /// The encoder-decoder of 2017.
    Transformer(Transformer),
}

/// Whose names and layouts a decoder's files have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GptForm {
    /// transformers' GPT-2.
    Gpt2,
    /// karpathy's minGPT.
    MinGpt,
    /// transformers' Llama.
    Llama,
    /// Our own.
    Native,
}

impl AnyModel {
    /// How many tokens its texts are made of; none for a model of images.
    pub fn vocabulary(&self) -> Option<usize> {
        match self {
            AnyModel::Gpt(gpt, _) => Some(gpt.config().vocabulary),
            AnyModel::Perceiver(model) => Some(model.config().vocabulary),
            AnyModel::Bert(bert) => Some(bert.config().vocabulary),
            AnyModel::Vit(_) => None,
            AnyModel::T5(t5) => Some(t5.config().vocabulary),
            AnyModel::Transformer(transformer) => Some(transformer.config().source_vocabulary),
        }
    }

    /// The model that a `config.json` speaks of, with the dropout that it was trained with. Where a config leaves open
    /// what the weights decide (a head of its own, a pooler), the checkpoint does.
    pub fn from_config(config: &Value, checkpoint: &Checkpoint) -> Result<AnyModel> {
        let has = |name: &str| checkpoint.find(name).is_some();
        let gpt = |config: GptConfig, form| Ok(AnyModel::Gpt(Gpt::new(config)?, form));
        match family(config)? {
            "gpt2" => gpt(import::gpt2::config_from_json(config)?, GptForm::Gpt2),
            "mingpt" => gpt(import::mingpt::config_from_json(config)?, GptForm::MinGpt),
            native::GPT => gpt(native::gpt_from_json(config)?, GptForm::Native),
            native::PERCEIVER => {
                Ok(AnyModel::Perceiver(Box::new(Perceiver::new(native::perceiver_from_json(config)?)?)))
            }
            native::BERT => Ok(AnyModel::Bert(Bert::new(native::bert_from_json(config)?)?)),
            "llama" => gpt(import::llama::config_from_json(config)?, GptForm::Llama),
            "bert" => {
                let mut config = import::bert::config_from_json(config)?;
                if config.head == BertHead::Pooler && !has("pooler.dense.weight") {
                    config.head = BertHead::None;
                }
                Ok(AnyModel::Bert(Bert::new(config)?))
            }
            "vit" => Ok(AnyModel::Vit(Vit::new(import::vit::config_from_json(config)?)?)),
            "t5" | "mt5" => {
                let config = import::t5::config_from_json(config)?;
                // Older files hold the tied matrix once more under the head's name.
                let own = match (checkpoint.find("lm_head.weight"), checkpoint.find("shared.weight")) {
                    (Some(head), Some(shared)) => head.bytes != shared.bytes || head.dtype != shared.dtype,
                    (Some(_), None) => true,
                    _ => false,
                };
                Ok(AnyModel::T5(T5::new(T5Config { tied: !own, ..config })?))
            }
            _ => {
                let context = config["context"].as_u64().map_or(SINUSOIDS, |most| most as usize);
                let config = import::transformer::config_from_json(config, context)?;
                Ok(AnyModel::Transformer(Transformer::new(config)?))
            }
        }
    }

    /// What it offers to those that write with it, if it is one that reads a source.
    pub fn encoder_decoder(&self) -> Option<&dyn EncoderDecoder> {
        match self {
            AnyModel::T5(model) => Some(model),
            AnyModel::Transformer(model) => Some(model),
            AnyModel::Gpt(..) | AnyModel::Perceiver(_) | AnyModel::Bert(_) | AnyModel::Vit(_) => None,
        }
    }

    /// The same model without dropout: for everything but training.
    pub fn without_dropout(&self) -> Result<AnyModel> {
        Ok(match self {
            AnyModel::Gpt(gpt, form) => {
                let config = GptConfig { dropout: 0.0, attention_dropout: None, ..*gpt.config() };
                AnyModel::Gpt(Gpt::new(config)?, *form)
            }
            AnyModel::Perceiver(model) => {
                let config = PerceiverConfig { dropout: 0.0, ..*model.config() };
                AnyModel::Perceiver(Box::new(Perceiver::new(config)?))
            }
            AnyModel::Bert(bert) => {
                let config = BertConfig { dropout: 0.0, attention_dropout: 0.0, ..*bert.config() };
                AnyModel::Bert(Bert::new(config)?)
            }
            AnyModel::Vit(vit) => {
                let config = VitConfig { dropout: 0.0, attention_dropout: 0.0, ..*vit.config() };
                AnyModel::Vit(Vit::new(config)?)
            }
            AnyModel::T5(t5) => AnyModel::T5(T5::new(T5Config { dropout: 0.0, ..*t5.config() })?),
            AnyModel::Transformer(model) => AnyModel::Transformer(Transformer::new(TransformerConfig {
                dropout: 0.0,
                ..*model.config()
            })?),
        })
    }

    /// Its family, as `model_type` names it.
    pub fn family(&self) -> &'static str {
        match self {
            AnyModel::Gpt(_, GptForm::Gpt2) => "gpt2",
            AnyModel::Gpt(_, GptForm::MinGpt) => "mingpt",
            AnyModel::Gpt(_, GptForm::Llama) => "llama",
            AnyModel::Gpt(_, GptForm::Native) => native::GPT,
            AnyModel::Perceiver(_) => native::PERCEIVER,
            AnyModel::Bert(bert) if is_native(bert) => native::BERT,
            AnyModel::Bert(_) => "bert",
            AnyModel::Vit(_) => "vit",
            AnyModel::T5(_) => "t5",
            AnyModel::Transformer(_) => "transformer",
        }
    }

    /// What it learns.
    pub fn parameters(&self) -> &Parameters {
        match self {
            AnyModel::Gpt(gpt, _) => gpt.parameters(),
            AnyModel::Perceiver(model) => model.parameters(),
            AnyModel::Bert(bert) => bert.parameters(),
            AnyModel::Vit(vit) => vit.parameters(),
            AnyModel::T5(t5) => t5.parameters(),
            AnyModel::Transformer(model) => model.parameters(),
        }
    }

    /// The most positions of a text; none for images and for relative positions, which have no end.
    pub fn context(&self) -> Option<usize> {
        match self {
            AnyModel::Gpt(gpt, _) => Some(gpt.config().context),
            AnyModel::Perceiver(model) => Some(model.config().context),
            AnyModel::Bert(bert) => Some(bert.config().context),
            AnyModel::Transformer(model) => Some(model.config().context),
            AnyModel::Vit(_) | AnyModel::T5(_) => None,
        }
    }

    /// The `config.json` that its family's own software reads.
    pub fn config_to_json(&self) -> Result<Value> {
        match self {
            AnyModel::Gpt(gpt, GptForm::Gpt2) => import::gpt2::config_to_json(gpt.config()),
            AnyModel::Gpt(gpt, GptForm::MinGpt) => mingpt_config(gpt.config()),
            AnyModel::Gpt(gpt, GptForm::Llama) => import::llama::config_to_json(gpt.config()),
            AnyModel::Gpt(gpt, GptForm::Native) => Ok(native::gpt_to_json(gpt.config())),
            AnyModel::Perceiver(model) => Ok(native::perceiver_to_json(model.config())),
            AnyModel::Bert(bert) => match bert.config().head {
                BertHead::MeanClasses(classes) => Ok(native::bert_to_json(bert.config(), classes)),
                _ => import::bert::config_to_json(bert.config()),
            },
            AnyModel::Vit(vit) => import::vit::config_to_json(vit.config()),
            AnyModel::T5(t5) => Ok(import::t5::config_to_json(t5.config())),
            AnyModel::Transformer(model) => {
                let mut config = import::transformer::config_to_json(model.config());
                config["context"] = model.config().context.into();
                Ok(config)
            }
        }
    }

    /// Where each parameter stands in the files of its family. Some files of GPT-2 hold the bare model, whose names
    /// have no prefix: that is seen in the checkpoint; without one, the prefix is there.
    pub fn imports(&self, checkpoint: Option<&Checkpoint>) -> Vec<Import> {
        match self {
            AnyModel::Gpt(gpt, GptForm::Gpt2) => {
                let bare = checkpoint.is_some_and(|file| file.find("wte.weight").is_some());
                import::gpt2::imports(gpt.config(), if bare { "" } else { "transformer." })
            }
            AnyModel::Gpt(gpt, GptForm::MinGpt) => import::mingpt::imports(gpt.config()),
            AnyModel::Gpt(gpt, GptForm::Llama) => import::llama::imports(gpt.config()),
            AnyModel::Gpt(_, GptForm::Native) | AnyModel::Perceiver(_) => native::imports(self.parameters()),
            AnyModel::Bert(bert) if is_native(bert) => native::imports(bert.parameters()),
            AnyModel::Bert(bert) => import::bert::imports(bert.config()),
            AnyModel::Vit(vit) => import::vit::imports(vit.config()),
            AnyModel::T5(t5) => import::t5::imports(t5),
            AnyModel::Transformer(model) => import::transformer::imports(model),
        }
    }

    /// What files of the family may hold besides parameters: masks, counters and a part that we have no use for.
    pub(crate) fn ignored(&self) -> &'static [&'static str] {
        match self {
            AnyModel::Gpt(_, GptForm::Native) | AnyModel::Perceiver(_) => &[],
            AnyModel::Gpt(_, GptForm::Llama) => &["model.layers.*.self_attn.rotary_emb.inv_freq"],
            AnyModel::Gpt(..) => &[
                "transformer.h.*.attn.bias",
                "transformer.h.*.attn.masked_bias",
                "h.*.attn.bias",
                "h.*.attn.masked_bias",
            ],
            AnyModel::Bert(_) => &["embeddings.position_ids", "bert.embeddings.position_ids"],
            // The pooler of a bare ViT leads nowhere.
            AnyModel::Vit(_) => &["pooler.dense.weight", "pooler.dense.bias"],
            AnyModel::T5(_) | AnyModel::Transformer(_) => &[],
        }
    }

    /// Tied matrices that some files hold twice: the other name, and the one that counts.
    pub(crate) fn copies(&self) -> &'static [(&'static str, &'static str)] {
        match self {
            AnyModel::Gpt(_, GptForm::Native) | AnyModel::Perceiver(_) => &[],
            AnyModel::Gpt(gpt, _) if !gpt.config().tied => &[],
            AnyModel::Gpt(_, GptForm::Llama) => &[("lm_head.weight", "model.embed_tokens.weight")],
            AnyModel::Gpt(..) => {
                &[("lm_head.weight", "transformer.wte.weight"), ("lm_head.weight", "wte.weight")]
            }
            AnyModel::Bert(_) => &[
                ("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
                ("cls.predictions.decoder.bias", "cls.predictions.bias"),
            ],
            AnyModel::T5(_) => &[
                ("encoder.embed_tokens.weight", "shared.weight"),
                ("decoder.embed_tokens.weight", "shared.weight"),
                ("lm_head.weight", "shared.weight"),
            ],
            AnyModel::Vit(_) | AnyModel::Transformer(_) => &[],
        }
    }

    /// The shape of theirs where it cannot be seen from ours.
    pub(crate) fn foreign_shape(&self, import: &Import, ours: &[usize]) -> Vec<usize> {
        match (self, &import.map, import.ours.as_str()) {
            (AnyModel::Vit(vit), Map::Reshaped, "patch_embedding.weight") => {
                let VitConfig { width, channels, patch: [p, q], .. } = *vit.config();
                vec![width, channels, p, q]
            }
            // The class token and the positions stand in a batch of one.
            (AnyModel::Vit(_), Map::Reshaped, "class_token") => [&[1, 1], ours].concat(),
            (AnyModel::Vit(_), Map::Reshaped, _) => [&[1], ours].concat(),
            _ => ours.to_vec(),
        }
    }
}

/// Whether transformers has no form for it.
fn is_native(bert: &Bert) -> bool {
    matches!(bert.config().head, BertHead::MeanClasses(_))
}

/// The family of a config: its `model_type`, or that of its architecture.
fn family(config: &Value) -> Result<&'static str> {
    let kind = config["model_type"].as_str();
    let architecture = config["architectures"][0].as_str();
    let by_architecture = architecture
        .and_then(|name| FAMILIES.iter().find(|(_, known)| known.contains(&name)).map(|(family, _)| *family));
    let Some(kind) = kind else {
        return by_architecture.ok_or_else(|| {
            let what = match architecture {
                Some(name) => format!("config.json has no `model_type`, and its architecture is `{name}`"),
                None => "config.json names neither a `model_type` nor `architectures`".into(),
            };
            Error::invalid("hub", what, format!("known are {}", known()))
        });
    };
    let Some((family, architectures)) = FAMILIES.iter().find(|(family, _)| *family == kind) else {
        let what = format!("models of model_type `{kind}` are not known");
        return Err(Error::invalid("hub", what, format!("known are {}", known())));
    };
    match architecture {
        Some(name) if by_architecture != Some(*family) => Err(Error::invalid(
            "hub",
            format!("config.json says model_type `{kind}`, but architecture `{name}`"),
            format!("one of this family is {}", architectures.join(", ")),
        )),
        _ => Ok(family),
    }
}

/// All families, in a sentence.
fn known() -> String {
    FAMILIES.map(|(family, _)| family).join(", ")
}

/// minGPT's own words for its settings; an error for what it has none for.
fn mingpt_config(config: &GptConfig) -> Result<Value> {
    let words = serde_json::json!({
        "model_type": "mingpt",
        "n_layer": config.layers,
        "n_head": config.heads,
        "n_embd": config.width,
        "block_size": config.context,
        "vocab_size": config.vocabulary,
        "embd_pdrop": decimal(config.dropout),
        "resid_pdrop": decimal(config.dropout),
        "attn_pdrop": decimal(config.attention_dropout.unwrap_or(config.dropout)),
    });
    let read = import::mingpt::config_from_json(&words)?;
    let same = GptConfig { hidden: Some(read.hidden()), attention_dropout: None, ..read };
    let ours = GptConfig { hidden: Some(config.hidden()), attention_dropout: None, ..*config };
    if same != ours {
        return Err(Error::invalid(
            "mingpt",
            "minGPT has no words for some of these settings",
            "save it as another family",
        ));
    }
    Ok(words)
}

/// The shortest decimal that reads as this f32: 0.1, not 0.10000000149.
fn decimal(x: f32) -> f64 {
    x.to_string().parse().unwrap_or(f64::from(x))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_family_is_found_by_either_name() {
        assert_eq!(family(&json!({"model_type": "t5"})).unwrap(), "t5");
        assert_eq!(family(&json!({"architectures": ["ViTModel"]})).unwrap(), "vit");
        let text = |config: Value| family(&config).unwrap_err().to_string();
        let known = "known are bert, gpt2, llama, mingpt, mt5, regard-bert, regard-gpt, regard-perceiver, t5, transformer, vit";
        assert_eq!(
            text(json!({"model_type": "mamba"})),
            format!("hub: models of model_type `mamba` are not known; {known}")
        );
        assert_eq!(
            text(json!({"hidden_size": 3})),
            format!("hub: config.json names neither a `model_type` nor `architectures`; {known}")
        );
        assert_eq!(
            text(json!({"architectures": ["MambaModel"]})),
            format!("hub: config.json has no `model_type`, and its architecture is `MambaModel`; {known}")
        );
        assert_eq!(
            text(json!({"model_type": "llama", "architectures": ["BertModel"]})),
            "hub: config.json says model_type `llama`, but architecture `BertModel`; one of this family is \
             LlamaForCausalLM"
        );
    }

    #[test]
    fn dropout_can_be_left_out() {
        let config = BertConfig { layers: 1, heads: 1, width: 4, ..regard_models::bert::PRESETS[0].1 };
        let AnyModel::Bert(bert) = AnyModel::Bert(Bert::new(config).unwrap()).without_dropout().unwrap()
        else {
            panic!("another family")
        };
        assert_eq!(*bert.config(), BertConfig { dropout: 0.0, attention_dropout: 0.0, ..config });
    }
}
