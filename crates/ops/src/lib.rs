//! The maths of Regard: one folder per operation.
//!
//! Each folder holds the op's contract (`mod.rs`: shapes, cost, reach, gradient), its f64 specification
//! (`reference.rs`), its fast version (`cpu.rs`) and its tests (`tests.rs`). Recording is an extension trait
//! for each op, so that `use regard_ops::prelude::*` makes `g.add(a, b)` read like maths, and a user's crate
//! can add an op of its own with nothing but [`Record::apply`].

mod array;
mod broadcast;
#[allow(unsafe_code)] // hands out operands and results in the arena
mod call;
mod cpu_product;
mod differentiate;
mod kernels;
mod random;

mod add_position;
mod argmax;
mod batch_norm;
mod binary;
mod broadcast_to;
mod cache_write;
mod cross_entropy;
mod embedding;
mod fill;
mod gather;
mod linear;
mod linear_cross_entropy;
mod matmul;
mod norm;
mod patches;
mod rotary;
mod rows;
mod scale;
mod sum_to;

pub use add_position::{AddPosition, AddPositionBackward, AddPositionOps};
pub use argmax::{Argmax, ArgmaxOps};
pub use array::{Array, round_bf16};
pub use batch_norm::{BatchNorm, BatchNormBackward, BatchNormMode, BatchNormOps, BatchNormSpec, BatchNormed};
pub use binary::{Arithmetic, Binary, BinaryOps};
pub use broadcast_to::{BroadcastOps, BroadcastTo};
pub use cache_write::{CacheWrite, CacheWriteOps};
pub use call::{CHUNK, CpuCall, Packed, Slot};
pub use cross_entropy::{
    CrossEntropy, CrossEntropyBackward, CrossEntropyOps, CrossEntropyOptions, IGNORE_INDEX,
};
pub use differentiate::Differentiate;
pub use embedding::{Embedding, EmbeddingBackward, EmbeddingOps};
pub use fill::{Fill, FillOps};
pub use gather::{Gather, GatherOps, ScatterAdd};
pub use kernels::{
    Fault, Kernels, Needs, Pack, PackLayout, Record, ReferenceCall, Request, check_dtype, check_float,
    kernels_of,
};
pub use linear::{Linear, LinearActivationBackward, LinearOps, LinearOptions, WeightGradient, WeightLayout};
pub use linear_cross_entropy::{LinearCrossEntropy, LinearCrossEntropyOps, TokenLoss};
pub use matmul::{Matmul, MatmulOps, MatmulOptions};
pub use norm::{Norm, NormBackward, NormKind, NormOps, NormSpec, Normed};
pub use patches::{JoinPatches, Patches, PatchesOps};
pub use random::{RANDOM_INPUT, RANDOM_LENGTH, RandomOps, random_numbers, stream_of};
pub use regard_device::Activation;
pub use rotary::{Pairing, Rotary, RotaryOps, RotarySpec};
pub use scale::{Scale, ScaleOps};
pub use sum_to::{SumTo, SumToOps};

/// Everything needed to record: the graph and the recording methods of every op.
pub mod prelude {
    pub use crate::{
        AddPositionOps, ArgmaxOps, BatchNormOps, BatchNormSpec, BinaryOps, BroadcastOps, CacheWriteOps,
        CrossEntropyOps, Differentiate, EmbeddingOps, FillOps, GatherOps, LinearCrossEntropyOps, LinearOps,
        MatmulOps, NormOps, NormSpec, PatchesOps, RandomOps, Record, RotaryOps, RotarySpec, ScaleOps,
        SumToOps,
    };
    pub use regard_graph::{DType, Fact, Graph, Init, Letter, Precision, Shape, Var, shape};
}
