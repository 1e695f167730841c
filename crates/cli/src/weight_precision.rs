//! The option that says how the weights of a model are held, shared by commands that only read it.

use clap::{Args, ValueEnum};
use regard::ops::Weights;

/// How the weights of products are held while a model runs.
#[derive(Args, Clone, Copy, Debug)]
pub struct WeightPrecision {
    /// How weights are held: int8 is a quarter of the bytes, and fast where few tokens at a time are computed
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Kind::F32)]
    weights: Kind,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// As they are
    F32,
    /// Rounded to bf16, as is what they are multiplied by
    Bf16,
    /// Rounded to 8-bit integers with a scale for each output
    Int8,
}

impl WeightPrecision {
    /// As stores have it.
    pub fn weights(self) -> Weights {
        match self.weights {
            Kind::F32 => Weights::Full,
            Kind::Bf16 => Weights::Bf16,
            Kind::Int8 => Weights::Int8,
        }
    }
}
