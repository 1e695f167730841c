//! The option that says how the weights of a model are held, shared by commands that only read it.

use clap::{Args, ValueEnum};
use regard::ops::Weights;

/// How the weights of products are held while a model runs.
#[derive(Args, Clone, Copy, Debug)]
pub struct WeightPrecision {
    /// How weights are held: q8 is a quarter of the bytes of f32 and the fastest for many tokens at a time,
    /// q4 less still
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Kind::F32)]
    weights: Kind,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// As they are
    F32,
    /// Rounded to bf16, as is what they are multiplied by
    Bf16,
    /// 8-bit integers with a scale for each 32 inputs (as GGUF's Q8_0), times activations of the same kind
    Q8,
    /// 4-bit integers with a scale and a least number for each 32 inputs (as GGUF's Q4_1), times activations
    /// of 8 bits
    Q4,
    /// 8-bit integers with a scale for each output, times activations as they are
    Int8,
}

impl WeightPrecision {
    /// As stores have it.
    pub fn weights(self) -> Weights {
        match self.weights {
            Kind::F32 => Weights::Full,
            Kind::Bf16 => Weights::Bf16,
            Kind::Q8 => Weights::Q8,
            Kind::Q4 => Weights::Q4,
            Kind::Int8 => Weights::Int8,
        }
    }
}
