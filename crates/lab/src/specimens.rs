//! Small specimens of the library's models, with random parameters, and ways to run them: whole, in chunks
//! through caches.

use crate::compute::array;
use regard::device::Level;
use regard::layers::FeedForwardKind;
use regard::models::{Bert, BertConfig, BertHead, Cached, Gpt, GptConfig, Positions, T5, T5Config};
use regard::prelude::*;
use regard::{Array, Result};

/// Tokens of every specimen.
pub const VOCABULARY: usize = 24;

/// A decoder of two layers. Weights are large, so that what it says differs from token to token.
pub fn gpt(positions: Positions) -> Result<Gpt> {
    Ok(Gpt::new(GptConfig {
        layers: 2,
        heads: 4,
        width: 16,
        context: 64,
        vocabulary: VOCABULARY,
        positions,
        dropout: 0.0,
        std: 0.4,
        ..GptConfig::SMALL
    })?)
}

/// An encoder of two layers.
pub fn bert() -> Result<Bert> {
    Ok(Bert::new(BertConfig {
        layers: 2,
        heads: 4,
        width: 16,
        hidden: 32,
        context: 16,
        vocabulary: VOCABULARY,
        token_types: 2,
        activation: FeedForwardKind::Gelu,
        epsilon: 1e-12,
        dropout: 0.0,
        attention_dropout: 0.0,
        std: 0.4,
        head: BertHead::None,
        mechanisms: Default::default(),
        variant: Default::default(),
    })?)
}

/// An encoder-decoder of two layers each.
pub fn t5() -> Result<T5> {
    Ok(T5::new(T5Config {
        vocabulary: VOCABULARY,
        width: 16,
        heads: 4,
        head_width: 4,
        hidden: 32,
        encoder_layers: 2,
        decoder_layers: 2,
        buckets: 8,
        max_distance: 16,
        dropout: 0.0,
        ..T5Config::small()
    })?)
}

/// Ids as an array of rows.
pub fn rows(rows: &[&[i32]]) -> Result<Array> {
    let length = rows.first().map_or(0, |row| row.len());
    array(&[rows.len(), length], &rows.concat().iter().map(|&id| f64::from(id)).collect::<Vec<f64>>())
}

/// The scores of one sequence, V for each position, whole in one run.
pub fn whole(model: &Gpt, ids: &[i32], threads: usize) -> Result<Vec<f32>> {
    let mut g = Graph::inference();
    let given = g.input("ids", DType::I32, [1, ids.len()])?;
    let logits = model.logits(&mut g, given)?;
    g.output("logits", logits)?;
    let mut store = Store::new(0);
    let mut program = Program::new(g, &[], &mut store, &Cpu::with(threads, Level::best())?)?;
    program.set_i32("ids", &[1, ids.len()], ids)?;
    program.run(&mut store)?;
    Ok(program.f32("logits")?.to_vec())
}

/// The same through caches, in chunks of these lengths.
pub fn in_chunks(model: &Gpt, ids: &[i32], chunks: &[usize]) -> Result<Vec<f32>> {
    let capacity = ids.len();
    let mut g = Graph::inference();
    let t = g.open('T', chunks.iter().copied().max().unwrap_or(1))?;
    let given = g.input("ids", DType::I32, shape![1, t])?;
    let position = g.input("position", DType::I32, shape![1, t])?;
    let lengths = g.input("lengths", DType::I32, [1])?;
    let logits = model.decode(&mut g, given, Cached::growing(position, lengths, capacity))?;
    g.output("logits", logits)?;
    let mut store = Store::new(0);
    let mut program = Program::new(g, &[], &mut store, &Cpu::with(1, Level::best())?)?;
    let (mut known, mut scores) = (0, Vec::new());
    for &chunk in chunks {
        let places: Vec<i32> = (known..known + chunk).map(|p| p as i32).collect();
        program.set_i32("ids", &[1, chunk], &ids[known..known + chunk])?;
        program.set_i32("position", &[1, chunk], &places)?;
        known += chunk;
        program.set_i32("lengths", &[1], &[known as i32])?;
        program.run(&mut store)?;
        scores.extend_from_slice(&program.f32("logits")?);
    }
    Ok(scores)
}

/// How many numbers differ in any bit.
pub fn other_bits(a: &[f32], b: &[f32]) -> usize {
    a.iter().zip(b).filter(|(a, b)| a.to_bits() != b.to_bits()).count() + a.len().abs_diff(b.len())
}
