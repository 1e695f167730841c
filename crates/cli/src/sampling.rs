//! How tokens are chosen: the options that `generate` and `chat` have in common.

use clap::Args;
use regard::generate::Sampling;

/// How tokens are chosen.
#[derive(Args, Clone, Copy)]
pub struct SamplingOptions {
    /// Below 1 keeps to what is likely, above 1 dares more; 0 is --greedy
    #[arg(long, value_name = "T", default_value_t = 1.0, allow_negative_numbers = true)]
    temperature: f64,
    /// Only the K likeliest tokens
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    /// Only the fewest tokens that have this much of the probability together
    #[arg(long, value_name = "P", default_value_t = 0.9, allow_negative_numbers = true)]
    top_p: f64,
    /// Only tokens with at least this part of the likeliest one's probability
    #[arg(long, value_name = "P", default_value_t = 0.0, allow_negative_numbers = true)]
    min_p: f64,
    /// More than 1 makes tokens that were there before less likely
    #[arg(long, value_name = "R", default_value_t = 1.0, allow_negative_numbers = true)]
    repetition_penalty: f64,
    /// The same seed gives the same text
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Always the likeliest token
    #[arg(long, conflicts_with = "temperature")]
    greedy: bool,
}

impl SamplingOptions {
    /// As the generator has it.
    pub fn sampling(&self) -> Sampling {
        Sampling {
            temperature: if self.greedy { 0.0 } else { self.temperature },
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            seed: self.seed,
        }
    }
}
