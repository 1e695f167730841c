//! Models, one file each, read top to bottom. A model touches no number: it records a graph.

#![forbid(unsafe_code)]

pub mod bert;
pub mod decoder;
pub mod decoding;
pub mod gpt;
pub mod grid;
pub mod import;
pub mod perceiver;
mod presets;
pub mod t5;
pub mod transformer;
pub mod vit;

pub use bert::{Bert, BertConfig, BertHead, BertText};
pub use decoder::{Cached, Caches, Decoder, Keys, Known};
pub use decoding::{Decoding, EncoderDecoder};
pub use gpt::{Gpt, GptConfig, Positions, View};
pub use perceiver::{Perceiver, PerceiverConfig, PerceiverMasking};
pub use t5::{T5, T5Config};
pub use transformer::{Transformer, TransformerConfig};
pub use vit::{Vit, VitConfig, VitHead, VitPooling};
