//! What the numbers of a value are. The f64 of the reference engine is not a dtype of the graph: the
//! reference computes every value in f64, whatever its dtype, and rounds only in its *rounded* mode.

use std::fmt;

/// The type of a value's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// 32-bit float: parameters, optimizer state, the residual stream.
    F32,
    /// 16-bit brain float: activations between ops where the precision allows it.
    BF16,
    /// 32-bit signed integer: ids, positions, lengths.
    I32,
    /// One byte, 0 or 1. In masks, true means *may attend*.
    Bool,
}

impl DType {
    /// Bytes of one element in memory.
    pub fn bytes(self) -> usize {
        match self {
            DType::F32 | DType::I32 => 4,
            DType::BF16 => 2,
            DType::Bool => 1,
        }
    }

    /// True for the dtypes that can carry a gradient.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::BF16)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DType::F32 => "f32",
            DType::BF16 => "bf16",
            DType::I32 => "i32",
            DType::Bool => "bool",
        })
    }
}

/// How products and attention compute: the precision of a program, chosen when it is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// f32 operands, f32 accumulation.
    #[default]
    F32,
    /// Operands rounded to bf16, f32 accumulation; softmax, norms and the residual stream stay f32.
    Bf16,
}

impl Precision {
    /// The dtype of activations that only feed products of this precision.
    pub fn activation(self) -> DType {
        match self {
            Precision::F32 => DType::F32,
            Precision::Bf16 => DType::BF16,
        }
    }
}
