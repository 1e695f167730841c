//! Encoder-decoders as the outer tests use them: either model behind one face, a whole pass, and decoding
//! with caches.

use regard::graph;
use regard::prelude::*;
use regard::{Device, Result};
use regard_models::{Cached, Decoding, EncoderDecoder, T5, Transformer};

/// Either of them.
#[derive(Clone)]
#[allow(clippy::large_enum_variant)] // one or two of them in a test
pub enum Model {
    /// T5.
    T5(T5),
    /// The Transformer of 2017.
    Transformer(Transformer),
}

/// The bounds of open lengths: target and source.
pub const CAPACITY: [usize; 2] = [16, 20];

/// The seed of random weights.
pub const SEED: u64 = 5;

/// Inputs `source`, `mask` and `target` with open B, S and T.
pub fn inputs(g: &mut Graph) -> graph::Result<[Var; 3]> {
    let (b, t, s) = (g.open('B', 3)?, g.open('T', CAPACITY[0])?, g.open('S', CAPACITY[1])?);
    let source = g.input("source", DType::I32, shape![b, s])?;
    let mask = g.input("mask", DType::Bool, shape![b, s])?;
    Ok([source, mask, g.input("target", DType::I32, shape![b, t])?])
}

impl Model {
    /// What both have in common.
    pub fn face(&self) -> &dyn EncoderDecoder {
        match self {
            Model::T5(model) => model,
            Model::Transformer(model) => model,
        }
    }

    /// Records the memory and the scores.
    pub fn forward(&self, g: &mut Graph, [source, mask, target]: [Var; 3]) -> graph::Result<[Var; 2]> {
        let mask = Some(mask);
        match self {
            Model::T5(model) => {
                let memory = model.encode(g, source, mask)?;
                let x = model.hidden(g, memory, mask, target)?;
                Ok([memory, model.scores(g, x)?])
            }
            Model::Transformer(model) => {
                let memory = model.encode(g, source, mask)?;
                let x = model.hidden(g, memory, mask, target)?;
                Ok([memory, model.scores(g, x)?])
            }
        }
    }

    /// Memory and logits of one batch, by a program in a store of its own, begun with [`SEED`].
    pub fn run(
        &self,
        rows: usize,
        (source, mask): (&[i32], &[bool]),
        target: &[i32],
        precision: Precision,
        device: &Device,
    ) -> Result<[Vec<f32>; 2]> {
        let mut store = Store::new(SEED);
        let mut g = Graph::inference();
        g.set_precision(precision);
        let inputs = inputs(&mut g)?;
        let [memory, logits] = self.forward(&mut g, inputs)?;
        let memory = g.cast(memory, DType::F32)?;
        g.output("memory", memory)?;
        g.output("logits", logits)?;
        let mut program = Program::new(g, &[], &mut store, device)?;
        program.set_i32("source", &[rows, source.len() / rows], source)?;
        program.set_bools("mask", &[rows, source.len() / rows], mask)?;
        program.set_i32("target", &[rows, target.len() / rows], target)?;
        program.run(&mut store)?;
        Ok([program.f32("memory")?.to_vec(), program.f32("logits")?.to_vec()])
    }
}

/// Decoding with caches: a program that keeps what is needed of a source, one that goes on, and their store.
pub struct Decoder {
    /// Weights and caches.
    pub store: Store,
    keep: Program,
    step: Program,
    rows: usize,
}

impl Decoder {
    /// Records and plans both programs; weights are random, by [`SEED`].
    pub fn new(model: &Model, rows: usize, precision: Precision, device: &Device) -> Result<Decoder> {
        let mut store = Store::new(SEED);
        let mut g = Graph::inference();
        g.set_precision(precision);
        let s = g.open('S', CAPACITY[1])?;
        let source = g.input("source", DType::I32, shape![rows, s])?;
        let mask = Some(g.input("mask", DType::Bool, shape![rows, s])?);
        let slot = g.input("slot", DType::I32, shape![rows, s])?;
        let memory = model.face().encode(&mut g, source, mask)?;
        model.face().keep(&mut g, memory, slot, CAPACITY[1])?;
        let keep = Program::new(g, &[], &mut store, device)?;

        let mut g = Graph::inference();
        g.set_precision(precision);
        let t = g.open('T', CAPACITY[0])?;
        let target = g.input("target", DType::I32, shape![rows, t])?;
        let position = g.input("position", DType::I32, shape![rows, t])?;
        let memory_mask = g.input("mask", DType::Bool, [rows, CAPACITY[1]])?;
        let lengths = g.input("lengths", DType::I32, [rows])?;
        let own = Cached::growing(position, lengths, CAPACITY[0]);
        let decoding = Decoding { own, memory_capacity: CAPACITY[1], memory_mask, memory_row: None };
        let logits = model.face().decode(&mut g, target, &decoding)?;
        g.output("logits", logits)?;
        let step = Program::new(g, &[], &mut store, device)?;
        Ok(Decoder { store, keep, step, rows })
    }

    /// Encodes a source, [B S], and keeps what decoding needs of it.
    pub fn begin(&mut self, source: &[i32], mask: &[bool]) -> Result<()> {
        let shape = [self.rows, source.len() / self.rows];
        self.keep.set_i32("source", &shape, source)?;
        self.keep.set_bools("mask", &shape, mask)?;
        let slots: Vec<i32> = (0..source.len()).map(|at| (at % shape[1]) as i32).collect();
        self.keep.set_i32("slot", &shape, &slots)?;
        self.keep.run(&mut self.store)?;
        let mut whole = vec![false; self.rows * CAPACITY[1]];
        for (to, from) in whole.chunks_mut(CAPACITY[1]).zip(mask.chunks(shape[1])) {
            to[..shape[1]].copy_from_slice(from);
        }
        Ok(self.step.set_bools("mask", &[self.rows, CAPACITY[1]], &whole)?)
    }

    /// The logits of tokens [B T] that follow `past` earlier ones.
    pub fn go_on(&mut self, tokens: &[i32], past: usize) -> Result<Vec<f32>> {
        let shape = [self.rows, tokens.len() / self.rows];
        let positions: Vec<i32> = (0..tokens.len()).map(|at| (past + at % shape[1]) as i32).collect();
        self.step.set_i32("target", &shape, tokens)?;
        self.step.set_i32("position", &shape, &positions)?;
        self.step.set_i32("lengths", &[self.rows], &vec![(past + shape[1]) as i32; self.rows])?;
        self.step.run(&mut self.store)?;
        Ok(self.step.f32("logits")?.to_vec())
    }
}
