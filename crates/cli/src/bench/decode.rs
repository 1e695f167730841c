//! A GPT that writes: a prompt into the caches, or one new token after another. The sizes are those of GPT-2
//! with 124 million parameters unless told otherwise.

use super::How;
use super::clock::{Bench, Feeds, time};
use super::models::GptSizes;
use anyhow::{Result, bail};
use clap::Args;
use regard::generate::Decoder;
use regard::models::Cached;
use regard::prelude::*;

#[derive(Args)]
#[command(mut_arg("layers", |a| a.default_value("12")), mut_arg("heads", |a| a.default_value("12")),
          mut_arg("width", |a| a.default_value("768")), mut_arg("vocab", |a| a.default_value("50257")))]
pub struct Decode {
    #[command(flatten)]
    sizes: GptSizes,
    /// Rows that are written at the same time
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// Positions that are in the caches already
    #[arg(long, default_value_t = 128)]
    past: usize,
    #[command(flatten)]
    how: How,
}

#[derive(Args)]
#[command(mut_arg("layers", |a| a.default_value("12")), mut_arg("heads", |a| a.default_value("12")),
          mut_arg("width", |a| a.default_value("768")), mut_arg("vocab", |a| a.default_value("50257")))]
pub struct Prefill {
    #[command(flatten)]
    sizes: GptSizes,
    /// Prompts
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// Positions of each
    #[arg(long, default_value_t = 512)]
    length: usize,
    #[command(flatten)]
    how: How,
}

/// One token for each row, at a later position every time.
pub fn decode(options: &Decode) -> Result<()> {
    let Decode { sizes, batch, past, how } = options;
    how.check()?;
    let (batch, past) = (*batch, *past);
    let capacity = past + how.repeat + 2;
    let (g, feeds) = record(sizes, batch, 1, capacity, how)?;
    let next = move |program: &mut Program, index: usize| {
        let position = (past + index) as i32;
        program.set_i32("position", &[batch, 1], &vec![position; batch])?;
        Ok(program.set_i32("lengths", &[batch], &vec![position + 1; batch])?)
    };
    let name = format!("decode gpt, {}, batch {batch}, past {past}", sizes.summary());
    time(Bench { name, graph: g, feeds, tokens: batch as u64, next: Some(&next) }, how)
}

/// A whole prompt for each row.
pub fn prefill(options: &Prefill) -> Result<()> {
    let Prefill { sizes, batch, length, how } = options;
    if *length == 0 {
        bail!("--length 0: a prompt has at least 1 position");
    }
    let (g, feeds) = record(sizes, *batch, *length, *length, how)?;
    let name = format!("prefill gpt, {}, {batch}x{length}", sizes.summary());
    time(Bench { name, graph: g, feeds, tokens: (batch * length) as u64, next: None }, how)
}

/// The scores of what follows `length` new positions.
fn record(
    sizes: &GptSizes,
    batch: usize,
    length: usize,
    capacity: usize,
    how: &How,
) -> Result<(Graph, Feeds)> {
    let gpt = sizes.gpt(capacity, 0.0, true)?;
    let mut g = Graph::inference();
    g.set_precision(how.precision.precision());
    let dims = [batch, length];
    let ids = g.input("ids", DType::I32, dims)?;
    let position = g.input("position", DType::I32, dims)?;
    let lengths = g.input("lengths", DType::I32, [batch])?;
    let scores = gpt.next(&mut g, ids, Cached::growing(position, lengths, capacity).into())?;
    g.output("scores", scores)?;
    let positions = (0..batch).flat_map(|_| 0..length as i32).collect();
    let feeds = Feeds::new()
        .below("ids", &dims, sizes.vocab)
        .integers("position", &dims, positions)
        .integers("lengths", &[batch], vec![length as i32; batch]);
    Ok((g, feeds))
}
