//! Models, one file each, read top to bottom. A model touches no number: it records a graph. [`Model`] is
//! what every other room knows of it, a [`Family`] how it is opened and made, and the [`Registry`] the one
//! list of families.

#![forbid(unsafe_code)]

mod adapted;
pub mod bert;
mod contrastive;
pub mod decoder;
pub mod decoding;
pub mod descent;
pub mod families;
pub mod family;
pub mod gpt;
pub mod grid;
pub mod import;
pub mod inputs;
pub mod keys;
pub mod mechanisms;
pub mod model;
pub mod perceiver;
mod positions;
mod presets;
mod recognise;
mod registry;
pub mod sentence;
pub mod t5;
pub mod t5_encoder;
pub mod transformer;
mod variants;
pub mod vit;

pub use adapted::{Adaptation, Adapted};
pub use bert::{Bert, BertConfig, BertFamily, BertHead, BertText, BertVariant};
pub use contrastive::Contrastive;
pub use decoder::{Cached, Caches, Decoder, Keys, Known};
pub use decoding::{Decoding, EncoderDecoder};
pub use descent::{Descent, Kin};
pub use families::gpt::GptForm;
pub use family::{Dropout, Family, Form, Needs, NoWeights, Weights};
pub use gpt::{Gpt, GptConfig, View};
pub use inputs::{Inputs, Pixels, Reads, Sizes, Tokens};
pub use keys::{Expected, Key, KeyFault, ModelKeys};
pub use mechanisms::Mechanisms;
pub use model::{Labels, Model, Outputs, Promises, SentenceEncoder, SentencePooling, Task};
pub use perceiver::{Perceiver, PerceiverConfig, PerceiverMasking};
pub use positions::Positions;
pub use recognise::recognise;
pub use registry::Registry;
pub use t5::{T5, T5Config};
pub use t5_encoder::T5Encoder;
pub use transformer::{Transformer, TransformerConfig};
pub use variants::{LayerSet, Multipliers, OtherLayers, SoftCaps};
pub use vit::{Vit, VitConfig, VitForm, VitHead, VitPooling};
