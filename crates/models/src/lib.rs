//! Models, one file each, read top to bottom. A model touches no number: it records a graph. [`Model`] is
//! what every other room knows of it, a [`Family`] how it is opened and made, and the [`Registry`] the one
//! list of families.

#![forbid(unsafe_code)]

pub mod bert;
pub mod decoder;
pub mod decoding;
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
pub mod t5;
pub mod transformer;
pub mod vit;

pub use bert::{Bert, BertConfig, BertHead, BertText};
pub use decoder::{Cached, Caches, Decoder, Keys, Known};
pub use decoding::{Decoding, EncoderDecoder};
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
pub use transformer::{Transformer, TransformerConfig};
pub use vit::{Vit, VitConfig, VitHead, VitPooling};
