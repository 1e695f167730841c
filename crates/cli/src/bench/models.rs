//! The sizes of a GPT, as options.

use anyhow::Result;
use clap::Args;
use regard_models::{Gpt, GptConfig};

#[derive(Args, Clone)]
pub struct GptSizes {
    /// Blocks
    #[arg(long, default_value_t = 4)]
    pub layers: usize,
    /// Heads of each attention
    #[arg(long, default_value_t = 8)]
    pub heads: usize,
    /// Width of the residual stream
    #[arg(long, default_value_t = 256)]
    pub width: usize,
    /// Tokens that it knows
    #[arg(long, default_value_t = 256)]
    pub vocab: usize,
}

impl GptSizes {
    /// A GPT of these sizes: LayerNorm, GELU in its tanh form, learned positions, a tied head if asked for.
    pub fn gpt(&self, context: usize, dropout: f32, tied: bool) -> Result<Gpt> {
        let GptSizes { layers, heads, width, vocab: vocabulary } = *self;
        let config =
            GptConfig { layers, heads, width, vocabulary, context, dropout, tied, ..GptConfig::GPT2 };
        Ok(Gpt::new(config)?)
    }

    /// How the sizes read in a line.
    pub fn summary(&self) -> String {
        format!("{} layers, {} heads, width {}, vocab {}", self.layers, self.heads, self.width, self.vocab)
    }
}
