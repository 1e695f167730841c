//! A training step of a GPT: forward, backward, AdamW.

use super::How;
use super::clock::{Bench, Feeds, time};
use super::models::GptSizes;
use anyhow::Result;
use clap::{Args, ValueEnum};
use regard::ops::{AdamW, RANDOM_INPUT, RANDOM_LENGTH, random_numbers};
use regard::prelude::*;

#[derive(Args)]
pub struct Train {
    /// What is trained
    #[arg(long, value_enum, default_value_t = Model::Gpt)]
    model: Model,
    #[command(flatten)]
    sizes: GptSizes,
    /// Positions of each example
    #[arg(long, default_value_t = 128)]
    block: usize,
    /// Examples
    #[arg(long, default_value_t = 32)]
    batch: usize,
    /// Probability with which activations and attention weights are dropped
    #[arg(long, default_value_t = 0.0)]
    dropout: f32,
    /// Clip gradients to this global norm
    #[arg(long, value_name = "NORM")]
    clip: Option<f64>,
    #[command(flatten)]
    how: How,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Model {
    /// A decoder
    Gpt,
}

/// Records the step and times it.
pub fn run(options: &Train) -> Result<()> {
    let Train { model: Model::Gpt, sizes, block, batch, dropout, clip, how } = options;
    how.check_has_weights("a training step")?;
    let gpt = sizes.gpt(*block, *dropout, false)?;
    let mut g = Graph::new();
    g.set_precision(how.precision.precision());
    let dims = [*batch, *block];
    let ids = g.input("ids", DType::I32, dims)?;
    let targets = g.input("targets", DType::I32, dims)?;
    let scale = g.input("scale", DType::F32, shape![])?;
    let rate = g.input("rate", DType::F32, shape![])?;
    let step = g.input("step", DType::I32, shape![])?;
    let loss = gpt.loss(&mut g, ids, targets, scale)?;
    g.output("loss", loss)?;
    let parameters = g.parameters();
    let gradients = g.gradient(loss, &parameters)?;
    let factor = clip.map(|most| g.clip_norm(&gradients, most)).transpose()?.map(|(_, factor)| factor);
    let pairs: Vec<(Var, Var)> = parameters.into_iter().zip(gradients).collect();
    g.adamw_step(&pairs, &AdamW::default(), rate, step, factor)?;
    let tokens = batch * block;
    let mut feeds = Feeds::new()
        .below("ids", &dims, sizes.vocab)
        .below("targets", &dims, sizes.vocab)
        .number("scale", 1.0 / tokens.max(1) as f32)
        .number("rate", 1e-4)
        .integers("step", &[], vec![1]);
    if *dropout > 0.0 {
        feeds = feeds.integers(RANDOM_INPUT, &[RANDOM_LENGTH], random_numbers(1, 1, 0).to_vec());
    }
    let dropped = *dropout > 0.0;
    let next = move |program: &mut Program, index: usize| {
        program.set_i32("step", &[], &[index as i32 + 1])?;
        if dropped {
            program.set_i32(RANDOM_INPUT, &[RANDOM_LENGTH], &random_numbers(1, index as u64 + 1, 0))?;
        }
        Ok(())
    };
    let name = format!("train gpt, {}, {batch}x{block}, dropout {dropout}", sizes.summary());
    time(Bench { name, graph: g, feeds, tokens: tokens as u64, next: Some(&next) }, how)
}
