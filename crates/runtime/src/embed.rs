//! Texts to vectors of length 1, as sentence-transformers make them: by a model that offers itself as a
//! [`SentenceEncoder`](regard_models::SentenceEncoder).

use crate::Result;
use crate::batches::{Progress, in_batches, text_batch};
use regard_engine::{AsDevice, Program, Store};
use regard_graph::Graph;
use regard_models::{Model, SentenceEncoder, SentencePooling, Sizes};

/// A model that is ready to turn texts into vectors.
pub struct Embedder {
    program: Program,
    width: usize,
    batch: usize,
}

impl Embedder {
    /// Plans the program for at most so many texts of at most so many tokens.
    pub fn new(
        model: &dyn Model,
        encoder: &dyn SentenceEncoder,
        pooling: SentencePooling,
        [batch, tokens]: [usize; 2],
        store: &mut Store,
        device: &impl AsDevice,
    ) -> Result<Embedder> {
        let mut g = Graph::inference();
        let sizes = Sizes { batch: batch.max(1), ids: tokens.max(1), ..Sizes::default() };
        let inputs = model.reads().declare_open(&mut g, sizes)?;
        let sentence = encoder.sentence(&mut g, &inputs, pooling)?; // B T -> B C
        g.output("sentence", sentence)?;
        let program = Program::new(g, &[], store, device)?;
        Ok(Embedder { program, width: encoder.width(), batch: batch.max(1) })
    }

    /// The vector of each row of ids. Neither batch nor padding changes a bit of any.
    pub fn vectors(
        &mut self,
        rows: &[Vec<i32>],
        store: &mut Store,
        progress: &mut Progress<'_, Vec<f32>>,
    ) -> Result<Vec<Vec<f32>>> {
        let lengths: Vec<usize> = rows.iter().map(Vec::len).collect();
        in_batches(&lengths, self.batch, progress, |batch| {
            let texts: Vec<&[i32]> = batch.iter().map(|&at| rows[at].as_slice()).collect();
            regard_train::feed(&mut self.program, &text_batch(&texts, 0), &[])?;
            self.program.run(store)?;
            let all = self.program.f32("sentence")?;
            Ok(all.chunks(self.width).take(batch.len()).map(<[f32]>::to_vec).collect())
        })
    }
}
