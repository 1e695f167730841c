//! Models, one file each, read top to bottom. A model touches no number: it records a graph.

#![forbid(unsafe_code)]

pub mod gpt;

pub use gpt::{Cached, Gpt, GptConfig};
