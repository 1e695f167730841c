//! The maths of Regard: one folder per operation.
//!
//! Each folder holds the op's contract (`mod.rs`: shapes, cost, reach, gradient) and its tests (`tests.rs`).
//! Its f64 specification (`Kernels::reference`), its fast version (`Kernels::cpu`) and what a card is given
//! to do (`Kernels::cuda`) stand in `mod.rs` where they are a few lines, in `reference.rs`, `cpu.rs` and
//! `cuda.rs` where they are more, with the CUDA source beside them (`kernel.cu`); what only the backward pass
//! needs, in files of that name. Recording is an extension trait for each op, so that `use
//! regard_ops::prelude::*` makes `g.add(a, b)` read like maths, and a user's crate can add an op of its own
//! with nothing but [`Record::apply`].

mod array;
mod broadcast;
#[allow(unsafe_code)] // hands out operands and results in the arena
mod call;
mod counted;
mod cpu_product;
mod cpu_runs;
mod cuda;
mod differentiate;
mod join;
mod kernels;
mod lent;
mod random;

mod accumulate;
mod adamw;
mod add_integers;
mod add_position;
mod assign;
mod attention;
mod attention_weights;
mod batch_norm;
mod binary;
mod broadcast_to;
mod cache_write;
mod cast;
mod clip_norm;
mod compare;
mod concat;
mod cross_entropy;
mod dropout;
mod embedding;
mod empty_rows;
mod fill;
mod gated;
mod gather;
mod linear;
mod linear_cross_entropy;
mod matmul;
mod norm;
mod patches;
mod quantised_linear;
mod reduce_max;
mod reshape;
mod rotary;
mod rows;
mod scale;
mod select;
mod sgd;
mod slice;
mod softmax;
mod split;
mod steps;
mod stop_gradient;
mod sum_to;
mod transpose;
mod unary;

pub use accumulate::{Accumulate, AccumulateOps};
pub use adamw::{AdamW, AdamWOps, AdamWStep};
pub use add_integers::{AddIntegers, IntegerOps};
pub use add_position::{AddPosition, AddPositionBackward, AddPositionOps};
pub use array::{Array, round_bf16};
pub use assign::{Assign, AssignOps};
pub use attention::{
    Attended, Attention, AttentionBackward, AttentionBias, AttentionKind, AttentionMask, AttentionOp,
    AttentionOps, AttentionScale, Window,
};
pub use attention_weights::{AttentionWeights, AttentionWeightsFound, AttentionWeightsOps, WeightsRequest};
pub use batch_norm::{BatchNorm, BatchNormBackward, BatchNormMode, BatchNormOps, BatchNormSpec, BatchNormed};
pub use binary::{Arithmetic, Binary, BinaryOps};
pub use broadcast_to::{BroadcastOps, BroadcastTo};
pub use cache_write::{CacheWrite, CacheWriteOps};
pub use call::{CHUNK, CpuCall, Number, Packed, Part, Slot};
pub use cast::{Cast, CastOps};
pub use clip_norm::{ClipNorm, ClipNormOps};
pub use compare::{Compare, CompareOps, Comparison};
pub use concat::{Concat, ConcatOps};
pub use cross_entropy::{
    CrossEntropy, CrossEntropyBackward, CrossEntropyOps, CrossEntropyOptions, IGNORE_INDEX,
};
pub use cuda::table::share_launches;
pub use cuda::{
    CudaCall, CudaList, CudaProduct, CudaWork, FaultSentence, NotYet, check_cuda_sizes, cuda_type,
};
pub use differentiate::Differentiate;
pub use dropout::{Dropout, DropoutOps};
pub use embedding::{Embedding, EmbeddingBackward, EmbeddingOps};
pub use empty_rows::{EmptyRows, EmptyRowsOps};
pub use fill::{Fill, FillOps};
pub use gated::{Gate, Gated, GatedBackward, GatedOps};
pub use gather::{Gather, GatherOps, ScatterAdd};
pub use join::{join, joined};
pub use kernels::{
    CopyKind, Fault, Kernels, Needs, Pack, Record, ReferenceCall, Request, check_dtype, check_float,
    kernels_of,
};
pub use lent::Lent;
pub use linear::{
    Activation, Linear, LinearActivationBackward, LinearOps, LinearOptions, WeightGradient, WeightLayout,
};
pub use linear_cross_entropy::{LinearCrossEntropy, LinearCrossEntropyOps, TokenLoss};
pub use matmul::{Matmul, MatmulOps, MatmulOptions};
pub use norm::{Norm, NormBackward, NormKind, NormOps, NormSpec, Normed};
pub use patches::{JoinPatches, Patches, PatchesOps};
pub use quantised_linear::{QuantisedLinear, QuantisedLinearOps, Rounding, Weights, with_weights};
pub use random::{RANDOM_INPUT, RANDOM_LENGTH, RandomOps, random_numbers, stream_of};
pub use reduce_max::{ReduceMax, ReduceMaxBackward, ReduceMaxOps};
pub use reshape::{Reshape, ReshapeOps};
pub use rotary::{Pairing, Rotary, RotaryOps, RotarySpec, Stretch};
pub use scale::{Scale, ScaleOps};
pub use select::{Select, SelectOps};
pub use sgd::{Sgd, SgdOps, SgdStep};
pub use slice::{PadSlice, Slice, SliceOps, Start};
pub use softmax::{Softmax, SoftmaxBackward, SoftmaxOps};
pub use split::{Split, SplitOps};
pub use steps::{Optimizer, StepGroup, StepOps};
pub use stop_gradient::{StopGradient, StopGradientOps};
pub use sum_to::{ReduceOps, SumTo, SumToOps};
pub use transpose::{Transpose, TransposeOps};
pub use unary::{Function, Unary, UnaryBackward, UnaryOps};

/// Everything needed to record: the graph and the recording methods of every op.
pub mod prelude {
    pub use crate::{
        AccumulateOps, AdamWOps, AddPositionOps, AssignOps, AttentionOps, AttentionWeightsOps, BatchNormOps,
        BatchNormSpec, BinaryOps, BroadcastOps, CacheWriteOps, CastOps, ClipNormOps, CompareOps, ConcatOps,
        CrossEntropyOps, Differentiate, DropoutOps, EmbeddingOps, EmptyRowsOps, FillOps, GatedOps, GatherOps,
        IntegerOps, LinearCrossEntropyOps, LinearOps, MatmulOps, NormOps, NormSpec, PatchesOps,
        QuantisedLinearOps, RandomOps, Record, ReduceMaxOps, ReduceOps, ReshapeOps, RotaryOps, RotarySpec,
        ScaleOps, SelectOps, SgdOps, SliceOps, SoftmaxOps, SplitOps, StepOps, StopGradientOps, SumToOps,
        TransposeOps, UnaryOps,
    };
    pub use regard_graph::{DType, Fact, Graph, Init, Letter, Precision, Shape, Var, shape};
}
