//! Models, one file each, read top to bottom. A model touches no number: it records a graph.

#![forbid(unsafe_code)]

pub mod decoding;
pub mod gpt;
pub mod import;
pub mod perceiver;
pub mod t5;
pub mod transformer;

pub use decoding::Decoding;
pub use gpt::{Cached, Gpt, GptConfig};
pub use perceiver::{Perceiver, PerceiverConfig, PerceiverMasking};
pub use t5::{T5, T5Config};
pub use transformer::{Transformer, TransformerConfig};
