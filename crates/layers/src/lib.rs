//! Layers. Each has one silhouette: a config with documented fields, `new(config, &mut parameters)` that
//! rejects nonsense, and `forward(&self, g, …)` that records. A layer touches no number and keeps nothing
//! itself: caches are states of the graph.

#![forbid(unsafe_code)]

mod adapter;
mod attention;
mod block;
mod embedding;
mod feed_forward;
mod linear;
mod mask;
mod norm;
mod parameters;
mod positions;
pub mod taps;

pub use adapter::{Adapter, AdapterConfig, adapter_names, is_adapter};
pub use attention::{
    AttentionConfig, AttentionLayer, Biases, Cached, Context, HeadScale, KeySource, KeySourceConfig,
    NormSpan, QueryKeyNorm,
};
pub use block::{Block, BlockConfig, MOST_LAYERS, NormPlace, Stack, StackConfig};
pub use embedding::{EmbeddingConfig, EmbeddingLayer};
pub use feed_forward::{FeedForward, FeedForwardConfig, FeedForwardKind};
pub use linear::{LinearConfig, LinearLayer};
pub use mask::{AdditiveMask, IgnoreMask, KeepMask};
pub use norm::{NormConfig, NormKind, NormLayer};
pub use parameters::{Declared, Parameter, Parameters, State};
pub use positions::{
    AbsoluteConfig, AbsolutePositions, RelativeConfig, RelativePositions, alibi_slopes, sinusoids,
};
