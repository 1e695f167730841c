//! Models, one file each, read top to bottom. A model touches no number: it records a graph.

#![forbid(unsafe_code)]

pub mod decoder;
pub mod gpt;
pub mod import;
mod presets;

pub use decoder::{Cached, Decoder, Keys};
pub use gpt::{Gpt, GptConfig, Positions, View};
