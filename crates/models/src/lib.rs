//! Models, one file each, read top to bottom. A model touches no number: it records a graph.

#![forbid(unsafe_code)]

pub mod bert;
pub mod decoder;
pub mod gpt;
pub mod grid;
pub mod import;
mod presets;
pub mod vit;

pub use bert::{Bert, BertConfig, BertHead, BertText};
pub use decoder::{Cached, Decoder, Keys};
pub use gpt::{Gpt, GptConfig, Positions, View};
pub use vit::{Vit, VitConfig, VitHead, VitPooling};
