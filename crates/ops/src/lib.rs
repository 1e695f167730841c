//! The maths of Regard: one folder per operation.
//!
//! Each folder holds the op's contract (`mod.rs`: shapes, cost, reach, gradient), its f64 specification
//! (`reference.rs`), its fast version (`cpu.rs`) and its tests (`tests.rs`). Recording is an extension trait
//! for each op, so that `use regard_ops::prelude::*` makes `g.add(a, b)` read like maths, and a user's crate
//! can add an op of its own with nothing but [`Record::apply`].

mod array;
mod broadcast;
mod call;
mod cpu_runs;
mod differentiate;
mod kernels;
mod random;

mod binary;
mod broadcast_to;
mod cast;
mod concat;
mod dropout;
mod fill;
mod gated;
mod reshape;
mod scale;
mod slice;
mod softmax;
mod split;
mod stop_gradient;
mod sum_to;
mod transpose;
mod unary;

pub use array::{Array, round_bf16};
pub use binary::{Arithmetic, Binary, BinaryOps};
pub use broadcast_to::{BroadcastOps, BroadcastTo};
pub use call::{CHUNK, CpuCall, Packed, Slot};
pub use cast::{Cast, CastOps};
pub use concat::{Concat, ConcatOps};
pub use differentiate::Differentiate;
pub use dropout::{Dropout, DropoutOps};
pub use fill::{Fill, FillOps};
pub use gated::{Gate, Gated, GatedBackward, GatedOps};
pub use kernels::{
    Fault, Kernels, Needs, Pack, PackLayout, Record, ReferenceCall, Request, check_float, kernels_of,
};
pub use random::{RANDOM_INPUT, RANDOM_LENGTH, RandomOps, random_numbers, stream_of};
pub use reshape::{Reshape, ReshapeOps};
pub use scale::{Scale, ScaleOps};
pub use slice::{PadSlice, Slice, SliceOps, Start};
pub use softmax::{Softmax, SoftmaxBackward, SoftmaxOps};
pub use split::{Split, SplitOps};
pub use stop_gradient::{StopGradient, StopGradientOps};
pub use sum_to::{ReduceOps, SumTo, SumToOps};
pub use transpose::{Transpose, TransposeOps};
pub use unary::{Function, Unary, UnaryBackward, UnaryOps};

/// Everything needed to record: the graph and the recording methods of every op.
pub mod prelude {
    pub use crate::{
        BinaryOps, BroadcastOps, CastOps, ConcatOps, Differentiate, DropoutOps, FillOps, GatedOps, RandomOps,
        Record, ReduceOps, ReshapeOps, ScaleOps, SliceOps, SoftmaxOps, SplitOps, StopGradientOps, SumToOps,
        TransposeOps, UnaryOps,
    };
    pub use regard_graph::{DType, Fact, Graph, Init, Letter, Precision, Shape, Var, shape};
}
