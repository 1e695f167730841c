//! The front of Regard, a Transformer workbench.
//!
//! A model records a [`Graph`]; everything that Regard can say or do about it is a reader of that one graph:
//! shapes, gradients, memory, cost, reach, the exact answer and the fast one.
//!
//! For people at the keyboard, [`eval`] records and runs a small graph in one call:
//!
//! ```
//! use regard::prelude::*;
//!
//! // Three keys, one query: softmax weights by hand.
//! let weights = regard::eval(|g| {
//!     let scores = g.given(&[1, 3], &[0.0, 0.0, f64::ln(2.0)])?;
//!     g.softmax(scores)
//! })?;
//! assert_eq!(weights.data(), [0.25, 0.25, 0.5]);
//! # Ok::<(), regard::Error>(())
//! ```
//!
//! [`hub`] opens a model from a folder, [`data`] reads its tokenizer, [`models`] and [`layers`] are what it
//! is made of, and [`generate`] continues texts; the examples `04` to `06` show them at work. [`train`] is
//! the loop for any task, [`recipe`] makes one of a TOML file, [`inspect`] proves and looks: examples `07`
//! and `08`. What goes wrong in any room is an [`Error`].

#![forbid(unsafe_code)]

mod error;
mod eval;

pub use error::{Error, Result};
pub use eval::{Sheet, eval, eval_f32};
pub use regard_data as data;
pub use regard_device as device;
pub use regard_engine::{
    self as engine, Cpu, Cuda, Device, Feed, Memory, Numbers, Program, Store, check, reference,
};
pub use regard_evaluate as evaluate;
pub use regard_evidence as evidence;
pub use regard_generate as generate;
pub use regard_graph::{self as graph, Graph, Var, cost, describe, plan, reach};
pub use regard_hub as hub;
pub use regard_inspect as inspect;
pub use regard_layers as layers;
pub use regard_models as models;
pub use regard_ops::{self as ops, Array};
pub use regard_recipe as recipe;
pub use regard_runtime as runtime;
pub use regard_train as train;

/// Everything needed to record, run and keep: the graph, every op's recording methods, the layers, the
/// engines, stores in files.
pub mod prelude {
    pub use crate::eval::Sheet;
    pub use regard_engine::{AsDevice, Cpu, Cuda, Device, Feed, Program, Store};
    pub use regard_hub::StoreFiles;
    pub use regard_layers::{
        AbsoluteConfig, AbsolutePositions, AttentionConfig, AttentionLayer, Block, BlockConfig, Context,
        EmbeddingConfig, EmbeddingLayer, FeedForward, FeedForwardConfig, FeedForwardKind, KeySource,
        LinearConfig, LinearLayer, NormConfig, NormLayer, NormPlace, Parameters, RelativeConfig, Stack,
        StackConfig,
    };
    pub use regard_ops::Array;
    pub use regard_ops::prelude::*;
}
