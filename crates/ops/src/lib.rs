//! The maths of Regard: one folder per operation.
//!
//! Each folder holds the op's contract (`mod.rs`: shapes, cost, reach, gradient), its f64 specification
//! (`reference.rs`), its fast version (`cpu.rs`) and its tests (`tests.rs`). Recording is an extension trait
//! for each op, so that `use regard_ops::prelude::*` makes `g.add(a, b)` read like maths, and a user's crate
//! can add an op of its own with nothing but [`Record::apply`].

mod array;
mod broadcast;
mod call;
mod differentiate;
mod kernels;
mod random;

mod attention;
mod attention_weights;
mod binary;
mod broadcast_to;
mod empty_rows;
mod fill;
mod scale;
mod sum_to;

pub use array::{Array, round_bf16};
pub use attention::{
    Attended, Attention, AttentionBackward, AttentionBias, AttentionKind, AttentionMask, AttentionOp,
    AttentionOps, AttentionScale, Window,
};
pub use attention_weights::{AttentionWeights, AttentionWeightsFound, AttentionWeightsOps, WeightsRequest};
pub use binary::{Arithmetic, Binary, BinaryOps};
pub use broadcast_to::{BroadcastOps, BroadcastTo};
pub use call::{CHUNK, CpuCall, Packed, Slot};
pub use differentiate::Differentiate;
pub use empty_rows::{EmptyRows, EmptyRowsOps};
pub use fill::{Fill, FillOps};
pub use kernels::{
    Fault, Kernels, Needs, Pack, PackLayout, Record, ReferenceCall, Request, check_float, kernels_of,
};
pub use random::{RANDOM_INPUT, RANDOM_LENGTH, RandomOps, random_numbers, stream_of};
pub use scale::{Scale, ScaleOps};
pub use sum_to::{SumTo, SumToOps};

/// Everything needed to record: the graph and the recording methods of every op.
pub mod prelude {
    pub use crate::{
        AttentionOps, AttentionWeightsOps, BinaryOps, BroadcastOps, Differentiate, EmptyRowsOps, FillOps,
        RandomOps, Record, ScaleOps, SumToOps,
    };
    pub use regard_graph::{DType, Fact, Graph, Init, Letter, Precision, Shape, Var, shape};
}
